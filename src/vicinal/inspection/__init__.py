"""Compare models and look into them: leaderboards and Displays over the public estimators."""

from vicinal.inspection._candidates import candidate_models
from vicinal.inspection._compare import Comparison, ComparisonEntry, compare

__all__ = ["Comparison", "ComparisonEntry", "candidate_models", "compare"]
