"""Explain predictions, compare models, check tables, and plot fitted models."""

from vicinal.inspection.checks._check import check, drift
from vicinal.inspection.checks._targets import label_issues
from vicinal.inspection.compare._compare import compare
from vicinal.inspection.displays._charts import SelectionCurveDisplay, TrainingCurveDisplay
from vicinal.inspection.displays._plane import DecisionSurfaceDisplay, PartitionRegionsDisplay
from vicinal.inspection.explain._explain import explain

__all__ = [
    "DecisionSurfaceDisplay",
    "PartitionRegionsDisplay",
    "SelectionCurveDisplay",
    "TrainingCurveDisplay",
    "check",
    "compare",
    "drift",
    "explain",
    "label_issues",
]
