"""A fitted model on a table, or a comparison of models, as one HTML file that needs no network."""

import math
import os
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from vicinal._base import Progress, _clock
from vicinal._base._compat import num_samples, rows_of
from vicinal._base._explanation import plain
from vicinal._base._held_out import OutOfFold
from vicinal._base._tables import sampled_rows
from vicinal._base._unseen import unreported
from vicinal._base._wrappers import split_steps, split_threshold, unseen_values
from vicinal.inspection import explain
from vicinal.inspection.checks import EncodedTable, profile
from vicinal.inspection.results import Comparison, Explanation, TableCheck
from vicinal.report import _held_out, _quality, results
from vicinal.report._page import Axis, Page

_PLOTTED_ROWS = 800
_OVERVIEW_ROWS = 4000
_BACKGROUND_ROWS = 200
_SHUFFLED_ROWS = 400
# Shares of the time budget; explanations of rows get the rest.
_IMPORTANCE_SHARE, _EFFECTS_SHARE = 0.25, 0.15


@dataclass(eq=False, repr=False)
class ModelReport(Page):
    """Report of one model: scores, importance of columns, uncertain rows, explanations.

    All parts use the same held-out predictions.

    Parameters
    ----------
    model : estimator
        Fitted classifier or regressor, or a pipeline that ends in one; behind scikit-learn's
        ``FixedThresholdClassifier`` or ``TunedThresholdClassifierCV`` the threshold decides.
    X : data frame or array of shape (n_samples, n_features)
        The rows of the report.
    y : array-like of shape (n_samples,), default=None
        Their target; without it, only uncertainty and explanations are shown.
    title : str, default="Report"
        Heading of the page.
    target : str, default="target"
        Name of the target.
    positive : label, default=None
        Of two classes, the one whose probability is shown; ``None`` is the class of the model's
        threshold, without one the second class.
    out_of_fold : OutOfFold, default=None
        Held-out predictions, as a comparison stores them. ``None`` uses the predictions of
        ``model``, so ``X`` should be rows that it was not fitted to.
    unseen : array-like of int, default=None
        Rows of ``X`` that ``model`` was not fitted to: explanations, importance and effects use
        them. ``None`` is all rows.
    seen : array-like of int, default=None
        Rows of ``X`` that ``model`` was fitted to, in that order: neighbours are then shown by
        their position in ``X``, with their values. ``None`` shows positions in the training set.
    n_explained : int, default=24
        How many rows are explained: half of them the most uncertain, half at random.
    time_budget : float, default=60
        Seconds for importance, effects and explanations together.
    notes : sequence of str, default=()
        Remarks, shown below the heading.
    random_state : int, RandomState instance or None, default=0
        Seed of the rows in the plots.
    verbose : int, default=0
        Whether to show progress.

    See Also
    --------
    write_html : Write this page, or a leaderboard with it, to a file.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from vicinal import SpacePartitioningClassifier
    >>> from vicinal.report import ModelReport
    >>> X, y = load_wine(return_X_y=True)
    >>> model = SpacePartitioningClassifier(n_regions=2, n_init=2, random_state=0)
    >>> report = ModelReport(model.fit(X[::2], y[::2]), X[1::2], y[1::2], n_explained=2)
    >>> len(report.as_dict()["explanations"])
    2
    """

    model: Any
    X: Any
    y: Any = None
    _: KW_ONLY
    title: str = "Report"
    target: str = "target"
    positive: Any = None
    out_of_fold: OutOfFold | None = None
    unseen: Any = None
    seen: Any = None
    n_explained: int = 24
    time_budget: float = 60.0
    notes: Any = ()
    random_state: Any = 0
    verbose: int = 0

    def __post_init__(self) -> None:
        self.y = None if self.y is None else np.asarray(self.y)

    def as_dict(self) -> dict[str, Any]:
        """Return the content of the page as plain values.

        Returns
        -------
        dict
            One entry per part of the page; empty parts are ``None`` or absent.
        """
        n_steps = 3 + min(self.n_explained, num_samples(self.X))
        with unreported(), Progress(n_steps, "report", verbose=self.verbose) as progress:
            return self._content(progress)

    def _content(self, progress: Progress) -> dict[str, Any]:
        end = _clock.now() + self.time_budget
        found = _held_out.held_out_predictions(
            self.model, self.X, self.out_of_fold, self.unseen, self.y
        )
        progress.advance(note="predictions")
        unlike = [] if self.out_of_fold else unseen_values(self.model, self.X)
        content: dict[str, Any] = {
            "title": self.title,
            "target": self.target,
            "notes": [*map(str, self.notes), *(f"unlike the training rows, {f}" for f in unlike)],
            "model": type(split_steps(self.model)[1]).__name__,
            "task": "regression" if found.classes is None else "classification",
            "classes": [] if found.classes is None else [str(label) for label in found.classes],
            "n_rows": num_samples(self.X),
            "is_out_of_fold": self.out_of_fold is not None,
        }
        if found.y is not None:
            content |= self._scores(found.predictions, found.y)
            if not sparse.issparse(self.X):
                content |= self._columns(found)
        progress.advance(note="importance of columns")
        content["explanations"] = self._explanations(self._chosen(found), end, progress)
        explained = {part["row"] for part in content["explanations"]}
        content["uncertain"] = self._uncertain(found, explained)
        content |= self._overview(found)
        progress.advance(progress.total - progress.done, note="overview")
        return content

    # --- parts of the page ---

    def _positive(self, classes: Any) -> int:
        if self.positive is None:
            rule = split_threshold(self.model)[1]
            return 1 if rule is None else rule.code
        found = np.flatnonzero(np.asarray(classes) == self.positive)
        if len(found) != 1:
            raise ValueError(f"positive={self.positive!r} is none of the classes {list(classes)}.")
        return int(found[0])

    def _scores(self, predictions: OutOfFold, y: np.ndarray) -> dict[str, Any]:
        if predictions.classes is None:
            return {
                "facts": _quality.regression_facts(y, predictions.prediction),
                "residuals": _quality.residuals(
                    y, predictions.prediction, self._sample(len(y), _PLOTTED_ROWS)
                ),
                "coverage": _quality.coverage(y, predictions.prediction, self._rng()),
            }
        rule = split_threshold(self.model)[1]
        parts: dict[str, Any] = {
            "confusion": _quality.confusion(y, predictions.prediction, predictions.classes, rule)
        }
        if predictions.proba is None:
            parts["facts"] = {"accuracy": float(np.mean(predictions.prediction == y))}
            return parts
        given = y, predictions.proba, predictions.classes
        positive = self._positive(predictions.classes)
        in_use = None
        if rule is not None:
            # The threshold of the other class, in terms of this class.
            in_use = rule.value if rule.code == positive else 1.0 - rule.value
        return parts | {
            "facts": _quality.classification_facts(*given, predictions.prediction, rule),
            "calibration": _quality.calibration(*given, positive),
            "ranking": _quality.ranking(*given, positive),
            "thresholds": _quality.thresholds(*given, positive, in_use),
        }

    def _columns(self, held_out: _held_out.HeldOutPredictions) -> dict[str, Any]:
        """Return importance of the columns and partial dependence."""
        rows = held_out.unseen[self._sample(len(held_out.unseen), _SHUFFLED_ROWS)]
        if len(rows) < 2 or held_out.y is None:
            return {"importance": None}
        X, y = rows_of(self.X, rows), held_out.y[held_out.at(rows)]
        found = _held_out.importance(
            held_out, X, y, self._rng(), _IMPORTANCE_SHARE * self.time_budget
        )
        if found is None:
            return {"importance": None}
        clear = [row["column"] for row in found["rows"] if row["is_clear"]]
        positive = 0 if held_out.classes is None else self._positive(held_out.classes)
        curves = _held_out.effects(held_out, X, clear, positive, _EFFECTS_SHARE * self.time_budget)
        return {"importance": found, "effects": curves}

    def _chosen(self, held_out: _held_out.HeldOutPredictions) -> np.ndarray:
        """Select rows to explain: half of them the most uncertain, half at random."""
        uncertainty = held_out.uncertainty[held_out.at(held_out.unseen)]
        order = held_out.unseen[np.argsort(-uncertainty, kind="stable")]
        n_rows = min(self.n_explained, len(order))
        worst, others = np.split(order, [n_rows - n_rows // 2])
        sampled = self._rng().choice(np.sort(others), n_rows // 2, replace=False)
        return np.concatenate([worst, np.sort(sampled)]).astype(int)

    def _uncertain(
        self, held_out: _held_out.HeldOutPredictions, explained: set[int]
    ) -> list[dict[str, Any]]:
        if not held_out.uncertainty.any():
            return []
        predictions, parts = held_out.predictions, []
        for at in np.argsort(-held_out.uncertainty, kind="stable")[:12].tolist():
            row = int(predictions.rows[at])
            proba = None if predictions.proba is None else predictions.proba[at]
            truth = None if held_out.y is None else plain(held_out.y[at])
            part = results.prediction_part(
                row, truth, predictions.prediction[at], held_out.classes, proba
            )
            parts.append(part | {"is_explained": row in explained})
        return parts

    def _explanations(
        self, rows: np.ndarray, end: float, progress: Progress
    ) -> list[dict[str, Any]]:
        """Explain the rows, with comparisons to background rows as far as time allows."""
        others = np.setdiff1d(self._sample(num_samples(self.X), _BACKGROUND_ROWS), rows)
        background = rows_of(self.X, others) if len(others) > 1 else None
        cost, started = _background_cost(self.model, background), _clock.now()
        # The first row shows the cost of a row without comparisons, which all rows shall have.
        parts = [self._explanation(row, None) for row in rows[:1].tolist()]
        plain_cost = _clock.now() - started
        for at, row in enumerate(rows.tolist()):
            started = _clock.now()
            if started + cost + plain_cost * (len(rows) - at - 1) < end:
                parts[at:] = [self._explanation(row, background)]
                cost = max(cost, _clock.now() - started)
            elif at and started < end:
                parts.append(self._explanation(row, None))
            progress.advance(note=f"row {row}")
        return parts

    def _explanation(self, row: int, background: Any) -> dict[str, Any]:
        X_train = None if self.seen is None or background is None else rows_of(self.X, self.seen)
        found = explain(
            self.model,
            rows_of(self.X, slice(row, row + 1)),
            background=background,
            X_train=X_train,
            target_name=self.target,
        )
        truth = None if self.y is None else plain(self.y[row])
        return results.explanation_part(found, row, truth, self.seen)

    def _overview(self, held_out: _held_out.HeldOutPredictions) -> dict[str, Any]:
        """Return the profile of the table and the error by segment."""
        at = self._sample(len(held_out.predictions.rows), _OVERVIEW_ROWS)
        X = rows_of(self.X, held_out.predictions.rows[at])
        X = X.toarray() if sparse.issparse(X) else X
        y = None if held_out.y is None else held_out.y[at]
        try:
            encoded = EncodedTable(X)
        except ValueError:  # all rows are equal
            return {}
        content: dict[str, Any] = {"profile": profile(X, encoded, y, self.target)}
        if y is not None:
            is_share = held_out.classes is not None
            errors = held_out.errors[at]
            content["segments"] = _quality.segments(encoded, errors, is_share, self._rng())
        return content

    def _rng(self) -> np.random.RandomState:
        return check_random_state(self.random_state)

    def _sample(self, n: int, at_most: int) -> np.ndarray:
        return sampled_rows(n, at_most, self.random_state)


def _background_cost(model: Any, background: Any) -> float:
    """Estimate the seconds of one explanation with background: a hundred predictions of it."""
    if background is None:
        return np.inf
    started = _clock.now()
    model.predict(background)
    return 100 * (_clock.now() - started)


# Scorers whose name on a page is another.
_NAMES = {"r2": "R²", "roc_auc": "ROC AUC"}


@dataclass(eq=False, repr=False)
class ComparisonReport(Page):
    """A page that shows a comparison of models.

    Parameters
    ----------
    comparison : Comparison
        What :func:`vicinal.inspection.compare` returned.
    title : str
        Heading of the page, usually the name of the table.
    detail : ModelReport, default=None
        A report of one of the models, shown below the leaderboard.
    """

    comparison: Comparison
    title: str
    detail: ModelReport | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the content of the page as plain values.

        Returns
        -------
        dict
            ``leaderboard``, ``title`` and the parts of ``detail``.
        """
        detail = {} if self.detail is None else self.detail.as_dict()
        scored = [entry for entry in self.comparison.entries if len(entry.scores)]
        content = {**detail, "title": self.title, "leaderboard": self._leaderboard(scored)}
        same = [e for e in scored if self.detail and e.out_of_fold is self.detail.out_of_fold]
        if same and "facts" in content:
            entry = same[0]
            # One score, one value: the leaderboard's mean over folds, not that of all rows.
            name = self._metric()
            content["score"] = {"name": name, "value": self.comparison.sign * entry.mean}
            content["facts"] = {k: v for k, v in content["facts"].items() if k != name}
            content["model"] = entry.name
        return content

    def _metric(self) -> str:
        return _NAMES.get(self.comparison.metric, self.comparison.metric_label)

    def _leaderboard(self, scored: list[Any]) -> dict[str, Any]:
        board = self.comparison
        ends = [board.sign * entry.mean + k * _spread(entry) for entry in scored for k in (-2, 2)]
        margin = 0.03 * np.ptp(ends) if ends else 0.0
        axis = Axis([end + k * margin for end in ends for k in (-1, 1)], self._metric())
        content = board.to_dict()
        models = zip(content.pop("models"), board.entries, strict=True)
        return content | {
            "metric": self._metric(),
            "direction": "higher" if board.sign > 0 else "lower",
            "warning": board.warning,
            "axis": axis.as_dict(),
            "rows": [row | _scaled(entry, axis, board.sign) for row, entry in models],
        }


def _spread(entry) -> float:
    return 0.0 if math.isnan(entry.standard_error) else entry.standard_error


def _scaled(entry, axis: Axis, sign: int) -> dict[str, Any]:
    """Return the score of a model, and its interval in percent of the axis."""
    scored, score, spread = len(entry.scores) > 0, sign * entry.mean, _spread(entry)
    low, at, high = axis.at([score - 2 * spread, score, score + 2 * spread] if scored else [0] * 3)
    return {
        "is_scored": scored,
        "n_folds": len(entry.scores),
        "score": score,
        "standard_error": spread,
        "at": round(100.0 * at, 2),
        "low": round(100.0 * low, 2),
        "width": round(100.0 * (high - low), 2),
    }


def write_html(
    result: Any,
    path: str | os.PathLike,
    *,
    title: str | None = None,
    notes: Any = (),
    detail: ModelReport | None = None,
) -> Path:
    """Write a result as one HTML file that loads nothing from the network.

    Parameters
    ----------
    result : object
        What :func:`~vicinal.inspection.explain`, :func:`~vicinal.inspection.compare` or
        :func:`~vicinal.inspection.check` returned, a :class:`ModelReport` or an
        :class:`ExplorerReport`.
    path : path-like
        File to write. It is complete, or it is not there.
    title : str, default=None
        Heading of the page; ``None`` uses a heading that fits the result.
    notes : sequence of str, default=()
        Remarks below the heading of a check.
    detail : ModelReport, default=None
        For a comparison: the report of one of its models, shown below the leaderboard.

    Returns
    -------
    Path
        The file.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import mkdtemp
    >>> from sklearn.datasets import load_wine
    >>> from vicinal import SpacePartitioningClassifier
    >>> from vicinal.inspection import explain
    >>> from vicinal.report import write_html
    >>> X, y = load_wine(return_X_y=True)
    >>> model = SpacePartitioningClassifier(n_regions=2, n_init=2, random_state=0).fit(X, y)
    >>> path = write_html(explain(model, X[0]), Path(mkdtemp()) / "wine.html", title="A wine")
    >>> "A wine" in path.read_text()
    True
    """
    if isinstance(result, Explanation):
        page: Page = results.ExplanationReport(result, title or "Explanation")
    elif isinstance(result, Comparison):
        page = ComparisonReport(result, title or "Comparison", detail=detail)
    elif isinstance(result, TableCheck):
        page = results.CheckReport(result, title or "Check of the table", notes)
    elif isinstance(result, Page):
        page = result
    else:
        raise TypeError(
            f"result is a {type(result).__name__}; pass what explain, compare or check returned, "
            "or a ModelReport or ExplorerReport."
        )
    return page.write_html(path)
