"""Self-contained HTML reports over the public API."""

from vicinal.report._comparison_report import ComparisonReport

__all__ = ["ComparisonReport"]
