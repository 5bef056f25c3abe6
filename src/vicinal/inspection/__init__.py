"""Compare models and look into them: leaderboards and Displays over the public estimators."""

from vicinal.inspection._boosting_display import BoostingCurveDisplay
from vicinal.inspection._candidates import candidate_models
from vicinal.inspection._compare import Comparison, ComparisonEntry, OutOfFold, compare
from vicinal.inspection._explain import explain
from vicinal.inspection._explanation import Explanation
from vicinal.inspection._local_choice_display import LocalChoiceDisplay
from vicinal.inspection._partition_histogram_display import PartitionHistogramDisplay
from vicinal.inspection._partition_history_display import PartitionHistoryDisplay
from vicinal.inspection._partition_regions_display import PartitionRegionsDisplay
from vicinal.inspection._pruning_display import PruningPathDisplay
from vicinal.inspection._subspace_displays import SubspaceErrorDisplay, SubspaceVotesDisplay
from vicinal.inspection._surface_displays import (
    CounterfactualDisplay,
    DecisionSurfaceDisplay,
    SurfaceDistanceDisplay,
)
from vicinal.inspection._uncertainty_display import UncertaintyDisplay

__all__ = [
    "BoostingCurveDisplay",
    "Comparison",
    "ComparisonEntry",
    "CounterfactualDisplay",
    "DecisionSurfaceDisplay",
    "Explanation",
    "LocalChoiceDisplay",
    "OutOfFold",
    "PartitionHistogramDisplay",
    "PartitionHistoryDisplay",
    "PartitionRegionsDisplay",
    "PruningPathDisplay",
    "UncertaintyDisplay",
    "SubspaceErrorDisplay",
    "SubspaceVotesDisplay",
    "SurfaceDistanceDisplay",
    "candidate_models",
    "compare",
    "explain",
]
