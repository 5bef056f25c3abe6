"""HTML pages that need no network: results of `vicinal.inspection`, models, and an explorer."""

from vicinal.report._model_report import ModelReport, write_html
from vicinal.report.explorer import ExplorerReport

__all__ = ["ExplorerReport", "ModelReport", "write_html"]
