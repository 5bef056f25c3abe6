"""The leaderboard as one HTML file that needs no network."""

import math
import os
from importlib.resources import files
from pathlib import Path
from typing import Any

import vicinal
from vicinal._base import import_optional, write_whole
from vicinal.inspection import Comparison


class ComparisonReport:
    """A page that shows a comparison of models.

    Parameters
    ----------
    comparison : Comparison
        What :func:`vicinal.inspection.compare` returned.
    title : str
        Heading of the page, usually the name of the table.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.dummy import DummyClassifier
    >>> from vicinal.inspection import compare
    >>> from vicinal.report import ComparisonReport
    >>> board = compare({"guess": DummyClassifier()}, *load_wine(return_X_y=True))
    >>> report = ComparisonReport(board, "wine")
    >>> report.as_dict()["rows"][0]["name"]
    'guess'
    """

    def __init__(self, comparison: Comparison, title: str) -> None:
        self.comparison = comparison
        self.title = title

    def as_dict(self) -> dict[str, Any]:
        """Return everything the page shows as plain values."""
        entries = self.comparison.entries
        fitted = [entry for entry in entries if not entry.error]
        best = max((entry.mean for entry in fitted), default=1.0)
        worst = min((entry.mean for entry in fitted), default=0.0)
        # The bars start a little below the worst model, so that close scores can be told apart.
        floor = worst - 0.05 * (best - worst or 1.0)
        return {
            "title": self.title,
            "metric": self.comparison.metric,
            "n_folds": self.comparison.n_folds,
            "n_samples": self.comparison.n_samples,
            "n_features": self.comparison.n_features,
            "version": vicinal.__version__,
            "rows": [_row(rank, entry, floor, best) for rank, entry in enumerate(entries, start=1)],
        }

    def html(self) -> str:
        """Return the page; every text in it is escaped."""
        jinja2 = import_optional("jinja2", needed_by="An HTML report", extra="cli")
        source = files("vicinal.report").joinpath("templates", "comparison.html").read_text("utf-8")
        environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
        return environment.from_string(source).render(self.as_dict())

    def write_html(self, path: str | os.PathLike) -> Path:
        """Write the page whole or not at all, and return where it is."""
        return write_whole(path, self.html())


def _row(rank, entry, floor, best) -> dict[str, Any]:
    span = (best - floor) or 1.0
    return {
        "rank": rank,
        "name": entry.name,
        "error": entry.error,
        "score": entry.mean,
        "standard_error": 0.0 if math.isnan(entry.standard_error) else entry.standard_error,
        "fit_seconds": entry.fit_seconds,
        "predict_seconds": entry.predict_seconds,
        "percent": 0.0 if entry.error else 100.0 * (entry.mean - floor) / span,
    }
