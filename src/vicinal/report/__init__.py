"""Self-contained HTML reports over the public API."""

from vicinal.report._check_report import CheckReport
from vicinal.report._comparison_report import ComparisonReport
from vicinal.report._explanation_report import ExplanationReport
from vicinal.report._explorer_report import ExplorerReport
from vicinal.report._model_report import ModelReport

__all__ = [
    "CheckReport",
    "ComparisonReport",
    "ExplanationReport",
    "ExplorerReport",
    "ModelReport",
]
