"""Compare models and look into them: leaderboards and Displays over the public estimators."""

from vicinal.inspection._boosting_display import BoostingCurveDisplay
from vicinal.inspection._candidates import candidate_models
from vicinal.inspection._compare import Comparison, ComparisonEntry, compare
from vicinal.inspection._pruning_display import PruningPathDisplay

__all__ = [
    "BoostingCurveDisplay",
    "PruningPathDisplay",
    "Comparison",
    "ComparisonEntry",
    "candidate_models",
    "compare",
]
