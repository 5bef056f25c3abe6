"""Explain predictions, compare models, check tables, and plot fitted models."""

from vicinal.inspection.checks._check import check
from vicinal.inspection.checks._rows import drift
from vicinal.inspection.checks._targets import label_issues
from vicinal.inspection.compare._compare import compare
from vicinal.inspection.displays._curves import SelectionCurveDisplay, TrainingCurveDisplay
from vicinal.inspection.displays._partition import (
    PartitionHistogramDisplay,
    PartitionRegionsDisplay,
)
from vicinal.inspection.displays._rows import UncertaintyDisplay
from vicinal.inspection.displays._subspaces import SubspaceErrorDisplay, SubspaceVotesDisplay
from vicinal.inspection.displays._surface import (
    CounterfactualDisplay,
    DecisionSurfaceDisplay,
    SurfaceDistanceDisplay,
)
from vicinal.inspection.explain._explain import explain

__all__ = [
    "CounterfactualDisplay",
    "DecisionSurfaceDisplay",
    "PartitionHistogramDisplay",
    "PartitionRegionsDisplay",
    "SelectionCurveDisplay",
    "SubspaceErrorDisplay",
    "SubspaceVotesDisplay",
    "SurfaceDistanceDisplay",
    "TrainingCurveDisplay",
    "UncertaintyDisplay",
    "check",
    "compare",
    "drift",
    "explain",
    "label_issues",
]
