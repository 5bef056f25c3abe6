"""Self-contained HTML reports over the public API."""

from vicinal.report._explorer_report import ExplorerReport
from vicinal.report._inspection_reports import CheckReport, ExplanationReport
from vicinal.report._model_report import ComparisonReport, ModelReport

__all__ = ["CheckReport", "ComparisonReport", "ExplanationReport", "ExplorerReport", "ModelReport"]
