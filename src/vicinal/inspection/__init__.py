"""Compare models and look into them: leaderboards and Displays over the public estimators."""

from vicinal.inspection.checks._check import check
from vicinal.inspection.checks._rows import drift, duplicate_rows
from vicinal.inspection.checks._targets import label_issues, leaking_columns
from vicinal.inspection.compare._compare import candidate_models, compare
from vicinal.inspection.compare._comparison import Comparison
from vicinal.inspection.displays._ensembles import (
    BoostingCurveDisplay,
    PruningPathDisplay,
    SubspaceErrorDisplay,
    SubspaceVotesDisplay,
)
from vicinal.inspection.displays._partition import (
    PartitionHistogramDisplay,
    PartitionHistoryDisplay,
    PartitionRegionsDisplay,
)
from vicinal.inspection.displays._rows import (
    IntervalCoverageDisplay,
    LabelIssuesDisplay,
    LocalChoiceDisplay,
    UncertaintyDisplay,
)
from vicinal.inspection.displays._surface import (
    CounterfactualDisplay,
    DecisionSurfaceDisplay,
    SurfaceDistanceDisplay,
)
from vicinal.inspection.explain._explain import explain
from vicinal.inspection.explain._explanation import Explanation

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
