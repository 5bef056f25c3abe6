"""A comparison of models as one HTML file that needs no network."""

import math
from typing import Any

from vicinal.inspection import Comparison
from vicinal.report._model_report import ModelReport
from vicinal.report._page import Page

# Scorers whose name on a page is another.
_NAMES = {"r2": "R²", "roc_auc": "ROC AUC"}


class ComparisonReport(Page):
    """A page that shows a comparison of models.

    Parameters
    ----------
    comparison : Comparison
        What :func:`vicinal.inspection.compare` returned.
    title : str
        Heading of the page, usually the name of the table.
    detail : ModelReport, default=None
        A closer look at one of the models, shown below the leaderboard.

    See Also
    --------
    ModelReport : The closer look alone.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.dummy import DummyClassifier
    >>> from vicinal.inspection import compare
    >>> from vicinal.report import ComparisonReport
    >>> board = compare({"guess": DummyClassifier()}, *load_wine(return_X_y=True))
    >>> report = ComparisonReport(board, "wine")
    >>> report.as_dict()["leaderboard"]["rows"][0]["name"]
    'guess'
    """

    def __init__(
        self, comparison: Comparison, title: str, *, detail: ModelReport | None = None
    ) -> None:
        self.comparison = comparison
        self.title = title
        self.detail = detail

    def as_dict(self) -> dict[str, Any]:
        """Return everything the page shows as plain values.

        Returns
        -------
        dict
            ``leaderboard``, ``title`` and the parts of ``detail``.
        """
        detail = {} if self.detail is None else self.detail.as_dict()
        content = {**detail, "title": self.title, "leaderboard": self._leaderboard()}
        entry = self._entry_of_detail()
        if entry is not None and "facts" in content:
            # One quantity, one number: the leaderboard's mean, not the one over all rows together.
            name = self._metric()
            content["score"] = {"name": name, "value": self.comparison.sign * entry.mean}
            content["facts"] = {k: v for k, v in content["facts"].items() if k != name}
            content["model"] = entry.name
        return content

    def _metric(self) -> str:
        return _NAMES.get(self.comparison.metric, self.comparison.metric_label)

    def _entry_of_detail(self) -> Any:
        answers = None if self.detail is None else self.detail.out_of_fold
        entries = [entry for entry in self.comparison.entries if len(entry.scores)]
        return next((entry for entry in entries if entry.out_of_fold is answers), None)

    def _leaderboard(self) -> dict[str, Any]:
        board = self.comparison
        scored = [entry for entry in board.entries if len(entry.scores)]
        best = max((entry.mean for entry in scored), default=1.0)
        worst = min((entry.mean for entry in scored), default=0.0)
        # The bars start a little below the worst model, so that close scores can be told apart.
        floor = worst - 0.05 * (best - worst or 1.0)
        return {
            "metric": self._metric(),
            "direction": "higher" if board.sign > 0 else "lower",
            "n_folds": board.n_folds,
            "n_samples": board.n_samples,
            "n_features": board.n_features,
            "warning": board.warning,
            "rows": [
                _row(rank, entry, floor, best, board)
                for rank, entry in zip(board.ranks, board.entries, strict=True)
            ],
        }


def _row(rank, entry, floor, best, board) -> dict[str, Any]:
    span = (best - floor) or 1.0
    scored = len(entry.scores) > 0
    spread = 0.0 if math.isnan(entry.standard_error) else entry.standard_error
    return {
        "rank": rank,
        "name": entry.name,
        "error": entry.error,
        "note": entry.note,
        "is_scored": scored,
        "n_folds": len(entry.scores),
        "score": board.sign * entry.mean,
        "standard_error": spread,
        "fit_seconds": entry.fit_seconds,
        "predict_seconds": entry.predict_seconds,
        "percent": 100.0 * (entry.mean - floor) / span if scored else 0.0,
        "spread": min(100.0, 100.0 * spread / span),
    }
