"""Compare models and look into them: leaderboards and Displays over the public estimators."""

from vicinal.inspection._candidates import candidate_models
from vicinal.inspection._check import check
from vicinal.inspection._compare import Comparison, compare
from vicinal.inspection._drift import drift
from vicinal.inspection._duplicate_rows import duplicate_rows
from vicinal.inspection._ensemble_displays import BoostingCurveDisplay, PruningPathDisplay
from vicinal.inspection._explain import explain
from vicinal.inspection._explanation import Explanation
from vicinal.inspection._label_issues import label_issues
from vicinal.inspection._leaking_columns import leaking_columns
from vicinal.inspection._local_displays import LocalChoiceDisplay
from vicinal.inspection._partition_displays import (
    PartitionHistogramDisplay,
    PartitionHistoryDisplay,
    PartitionRegionsDisplay,
)
from vicinal.inspection._row_displays import IntervalCoverageDisplay, LabelIssuesDisplay
from vicinal.inspection._subspace_displays import SubspaceErrorDisplay, SubspaceVotesDisplay
from vicinal.inspection._surface_displays import (
    CounterfactualDisplay,
    DecisionSurfaceDisplay,
    SurfaceDistanceDisplay,
)
from vicinal.inspection._uncertainty_displays import UncertaintyDisplay

__all__ = [
    "BoostingCurveDisplay",
    "Comparison",
    "CounterfactualDisplay",
    "DecisionSurfaceDisplay",
    "Explanation",
    "IntervalCoverageDisplay",
    "LabelIssuesDisplay",
    "LocalChoiceDisplay",
    "PartitionHistogramDisplay",
    "PartitionHistoryDisplay",
    "PartitionRegionsDisplay",
    "PruningPathDisplay",
    "UncertaintyDisplay",
    "SubspaceErrorDisplay",
    "SubspaceVotesDisplay",
    "SurfaceDistanceDisplay",
    "candidate_models",
    "check",
    "compare",
    "drift",
    "duplicate_rows",
    "explain",
    "label_issues",
    "leaking_columns",
]
