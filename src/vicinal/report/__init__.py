"""HTML pages that need no network: results of `vicinal.inspection`, and reports of models."""

from vicinal.report._model_report import ModelReport, write_html

__all__ = ["ModelReport", "write_html"]
