"""The result of a comparison: scores of models on common folds, as leaderboard."""

import math
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from vicinal._base import counted
from vicinal._base._held_out import OutOfFold
from vicinal.inspection.checks import html_table


@dataclass(frozen=True)
class ComparisonEntry:
    """Scores, times and held-out predictions of one model.

    Attributes
    ----------
    name : str
        Name of the model.
    scores : ndarray of shape (n_finished_folds,)
        Score of every finished fold, higher is better.
    fit_seconds, predict_seconds : float
        Mean wall time of a fold.
    error : str
        Why the model could not be fitted; empty when it could.
    note : str
        How many folds are unfinished because time ran out, and the comparison with the first model
        on common folds; empty when all are finished.
    out_of_fold : OutOfFold or None
        The predictions behind the scores.
    folds : tuple of int
        Indices of the finished folds, in the order of ``scores``.
    """

    name: str
    scores: np.ndarray
    fit_seconds: float
    predict_seconds: float
    error: str = ""
    note: str = ""
    out_of_fold: OutOfFold | None = None
    folds: tuple[int, ...] = ()

    @property
    def mean(self) -> float:
        """Mean score over the folds."""
        return float(np.mean(self.scores)) if len(self.scores) else float("nan")

    @property
    def standard_error(self) -> float:
        """Standard error of the mean over the folds."""
        if len(self.scores) < 2:
            return float("nan")
        return float(np.std(self.scores, ddof=1) / np.sqrt(len(self.scores)))

    def versus(self, other: "ComparisonEntry") -> tuple[float, float] | None:
        """Return the mean scores of this and another model on the folds that both have finished.

        Parameters
        ----------
        other : ComparisonEntry
            An entry of the same comparison.

        Returns
        -------
        scores : tuple of two floats or None
            ``None`` if there is no common fold.
        """
        common = set(self.folds) & set(other.folds)
        if not common:
            return None
        mine, others = (
            entry.scores[np.isin(entry.folds, list(common))].mean() for entry in (self, other)
        )
        return float(mine), float(others)


@dataclass(frozen=True)
class Comparison:
    """Models ranked by their mean score; made by :func:`compare`.

    Attributes
    ----------
    entries : list of ComparisonEntry
        Best first; models with fewer finished folds come below those with more, without a rank,
        and models without a score last. Ranked models have finished the same folds.
    metric : str
        Name of the score.
    n_folds : int
        Number of folds.
    n_samples, n_features : int
        Shape of the table.
    folds : list of (ndarray, ndarray)
        Training and held-out rows of each fold.
    note : str
        That a few rows with extreme targets decide the scores; empty if they do not.
    """

    entries: list[ComparisonEntry]
    metric: str
    n_folds: int
    n_samples: int
    n_features: int
    folds: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list, repr=False)
    note: str = ""

    @property
    def metric_label(self) -> str:
        """The metric without ``neg_`` and underscores."""
        return self.metric.removeprefix("neg_").replace("_", " ")

    @property
    def sign(self) -> int:
        """-1 when the metric is a loss that scikit-learn negates, else 1."""
        return -1 if self.metric.startswith("neg_") else 1

    @property
    def ranks(self) -> list[int | None]:
        """The rank of each entry; ``None`` for one without a score or on other folds."""
        return [
            rank if len(entry.scores) and entry.folds == self.entries[0].folds else None
            for rank, entry in enumerate(self.entries, start=1)
        ]

    @property
    def unfinished(self) -> list[ComparisonEntry]:
        """The entries that lack folds because time ran out."""
        missing = [entry for entry in self.entries if len(entry.scores) < self.n_folds]
        return [entry for entry in missing if not entry.error]

    @property
    def warning(self) -> str:
        """The note, and which models are unfinished and what the ranks mean; empty for neither."""
        if not self.unfinished:
            return self.note
        best = self.entries[0]
        parts = []
        for entry in self.unfinished:
            both = entry.versus(best)
            ahead = " and ahead on them" if both and both[0] > both[1] else ""
            parts.append(f"{entry.name} ({len(entry.scores)} of {self.n_folds} folds{ahead})")
        ranked = f"the models that have {len(best.scores)} of {self.n_folds} folds"
        return (
            f"Unfinished: {', '.join(parts)}. Ranks compare {ranked}; a longer time budget "
            f"finishes the others. {self.note}".rstrip()
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the leaderboard as plain values, without the predictions."""
        return {
            "metric": self.metric,
            "n_folds": self.n_folds,
            "n_samples": self.n_samples,
            "n_features": self.n_features,
            "note": self.note,
            "unfinished": [entry.name for entry in self.unfinished],
            "models": [
                {"rank": rank, **_plain_entry(entry)}
                for rank, entry in zip(self.ranks, self.entries, strict=True)
            ],
        }

    def fold_of(self, entry: ComparisonEntry) -> tuple[np.ndarray, np.ndarray]:
        """Return training and held-out rows of the largest fold that a model has finished.

        Fitted again on these training rows, the model gives the predictions of the comparison.

        Parameters
        ----------
        entry : ComparisonEntry
            One that has scores.

        Returns
        -------
        train, held_out : ndarray of int
            Rows of the table.
        """
        rows = entry.out_of_fold.rows if entry.out_of_fold else np.empty(0, dtype=int)
        finished = [fold for fold in self.folds if np.isin(fold[1], rows).all()]
        if not finished:
            raise ValueError(f"{entry.name!r} has finished no fold.")
        return max(finished, key=lambda fold: len(fold[0]))

    def _repr_html_(self) -> str:
        names = ("", "model", self.metric_label, "± se", "fit s", "predict s", "")
        lines = [
            [f"{rank or '–'}", entry.name, *self._cells(entry)]
            for rank, entry in zip(self.ranks, self.entries, strict=True)
        ]
        parts = [f"<p>{escape(text)}</p>" for text in (self._headline(), self.warning) if text]
        return "".join([*parts, html_table(names, lines)])

    def __str__(self) -> str:
        width = max(len(entry.name) for entry in self.entries)
        lines = [
            *filter(None, [self._headline(), self.warning]),
            f"{'':4}{'model':<{width}}  {'score':>8}  {'± se':>7}  {'fit s':>7}  {'predict s':>9}",
        ]
        for rank, entry in zip(self.ranks, self.entries, strict=True):
            score, spread, fit, predict, note = self._cells(entry)
            numbers = f"{score:>8}  {spread:>7}  {fit:>7}  {predict:>9}  " if score else ""
            lines.append(f"{rank or '-':>2}  {entry.name:<{width}}  {numbers}{note}".rstrip())
        return "\n".join(lines)

    def _headline(self) -> str:
        direction = "higher" if self.sign > 0 else "lower"
        return (
            f"{self.n_samples} rows, {counted(self.n_features, 'column')}, {self.n_folds}-fold "
            f"{self.metric_label}, {direction} is better"
        )

    def _cells(self, entry: ComparisonEntry) -> list[str]:
        """Return score, standard error, seconds and note of a model as text.

        The note of a model without a score is the reason.
        """
        if not len(entry.scores):
            return ["", "", "", "", f"failed: {entry.error}" if entry.error else entry.note]
        spread = "" if math.isnan(entry.standard_error) else f"{entry.standard_error:.4f}"
        seconds = [f"{entry.fit_seconds:.2f}", f"{entry.predict_seconds:.3f}"]
        return [f"{self.sign * entry.mean:.4f}", spread, *seconds, entry.note]


def _plain_entry(entry: ComparisonEntry) -> dict[str, Any]:
    numbers = {
        "score": entry.mean,
        "standard_error": entry.standard_error,
        "fit_seconds": entry.fit_seconds,
        "predict_seconds": entry.predict_seconds,
    }
    return {
        "name": entry.name,
        **{key: None if math.isnan(value) else value for key, value in numbers.items()},
        "folds": list(entry.folds),
        "fold_scores": [float(value) for value in entry.scores],
        "error": entry.error,
        "note": entry.note,
    }
