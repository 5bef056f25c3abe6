"""A fitted model on a table, or a comparison of models, as one HTML file that needs no network."""

import math
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from vicinal._base import _clock
from vicinal._base._compat import num_samples, rows_of
from vicinal._base._explanation import plain
from vicinal._base._held_out import OutOfFold
from vicinal._base._tables import sampled_rows
from vicinal._base._wrappers import split_steps, split_threshold
from vicinal.inspection import Comparison, check, explain
from vicinal.report._held_out import (
    UnseenAnswers,
    check_labels,
    effects,
    held_out_answers,
    importance,
    row_errors,
    row_trouble,
)
from vicinal.report._inspection_reports import answer_part, explanation_part, finding_parts
from vicinal.report._page import Page
from vicinal.report._quality import (
    calibration,
    classification_facts,
    confusion,
    coverage,
    ranking,
    regression_facts,
    residuals,
    thresholds,
)
from vicinal.report._table import EncodedTable, flat_picture, profile, regions, segments

_MAP_ROWS = 800
_PLACE_ROWS = 4000
_BACKGROUND_ROWS = 200
_SHUFFLED_ROWS = 400
_CHECKED_ROWS, _CHECKED_COLUMNS, _FOUND_LINES = (10, 10_000), 300, 6  # rows: least, most
# Shares of the time budget; reasons of rows get what these leave.
_IMPORTANCE_SHARE, _EFFECTS_SHARE = 0.25, 0.15


class ModelReport(Page):
    """A page about one model: how good its answers are, where it doubts, and why it says what.

    Every part is computed from one set of answers to rows that the model had not seen.

    Parameters
    ----------
    model : estimator
        Fitted classifier or regressor, or a pipeline that ends in one; behind scikit-learn's
        ``FixedThresholdClassifier`` or ``TunedThresholdClassifierCV`` the threshold decides.
    X : data frame or array of shape (n_samples, n_features)
        The rows that the page is about.
    y : array-like of shape (n_samples,), default=None
        Their target; without it, only doubts and explanations are shown.
    title : str, default="Report"
        Heading of the page.
    target : str, default="target"
        Name of the target.
    positive : label, default=None
        Of two classes, the one whose probability is shown; ``None`` is the one that a threshold of
        the model is about, else the second.
    out_of_fold : OutOfFold, default=None
        Answers of models that had not seen the rows, as a comparison gives them. ``None`` asks
        ``model`` itself, so ``X`` should be rows that it has not seen.
    unseen : array-like of int, default=None
        Rows of ``X`` that ``model`` has not seen: it answers these itself, and explanations,
        importance and effects are about them. ``None`` is all rows.
    seen : array-like of int, default=None
        Rows of ``X`` that ``model`` was fitted to, in that order: training rows that speak are then
        shown by their numbers in ``X``, and with their values. ``None`` shows the model's own
        numbers.
    n_explained : int, default=24
        How many rows are explained: a half where the model doubts or errs most, a half at random.
    time_budget : float, default=60
        Seconds for importance, effects and explanations together.
    notes : sequence of str, default=()
        Lines for the reader, shown below the heading.
    random_state : int, RandomState instance or None, default=0
        Draws the rows of the pictures.

    See Also
    --------
    ComparisonReport : The same below a leaderboard.

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

    def __init__(
        self,
        model: Any,
        X: Any,
        y: Any = None,
        *,
        title: str = "Report",
        target: str = "target",
        positive: Any = None,
        out_of_fold: OutOfFold | None = None,
        unseen: Any = None,
        seen: Any = None,
        n_explained: int = 24,
        time_budget: float = 60.0,
        notes: Any = (),
        random_state: Any = 0,
    ) -> None:
        self.model, self.X, self.title, self.target = model, X, title, target
        self.y = None if y is None else np.asarray(y)
        self.positive, self.out_of_fold, self.unseen, self.seen = (
            positive,
            out_of_fold,
            unseen,
            seen,
        )
        self.n_explained, self.time_budget = n_explained, time_budget
        self.notes, self.random_state = notes, random_state

    def as_dict(self) -> dict[str, Any]:
        """Return everything the page shows as plain values.

        Returns
        -------
        dict
            One entry per part of the page; parts that would say nothing are ``None`` or absent.
        """
        end = _clock.now() + self.time_budget
        held_out = held_out_answers(self.model, self.X, self.out_of_fold, self.unseen)
        answers = held_out.answers
        known = None if self.y is None else self.y[answers.rows]
        if known is not None and answers.classes is not None:
            check_labels(known, answers.classes)
        content: dict[str, Any] = {
            "title": self.title,
            "target": self.target,
            "notes": [str(note) for note in self.notes],
            "model": type(split_steps(self.model)[1]).__name__,
            "task": "regression" if answers.classes is None else "classification",
            "classes": [] if answers.classes is None else [str(c) for c in answers.classes],
            "n_rows": num_samples(self.X),
            "n_unseen": len(held_out.unseen),
            "is_out_of_fold": self.out_of_fold is not None,
        }
        if known is not None:
            content |= self._goodness(answers, known)
            if not sparse.issparse(self.X):
                content |= self._columns(held_out, known)
                content["findings"] = self._findings(answers) if _clock.now() < end else []
        explanations = self._explanations(self._chosen(held_out, known), end)
        explained = {part["row"] for part in explanations}
        content |= {
            "explanations": explanations,
            "doubtful": self._doubtful(answers, known, explained),
            **self._places(answers, known, explained),
        }
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

    def _goodness(self, answers: OutOfFold, y: np.ndarray) -> dict[str, Any]:
        if answers.classes is None:
            return {
                "facts": regression_facts(y, answers.prediction),
                "residuals": residuals(y, answers.prediction, self._sample(len(y), _MAP_ROWS)),
                "coverage": coverage(y, answers.prediction, self._rng()),
            }
        rule = split_threshold(self.model)[1]
        parts: dict[str, Any] = {
            "confusion": confusion(y, answers.prediction, answers.classes, rule)
        }
        if answers.proba is None:
            parts["facts"] = {"accuracy": float(np.mean(answers.prediction == y))}
            return parts
        given = y, answers.proba, answers.classes
        positive = self._positive(answers.classes)
        in_use = None
        if rule is not None:
            # "The other class below" is this class from what is left over on.
            in_use = rule.value if rule.code == positive else 1.0 - rule.value
        return parts | {
            "facts": classification_facts(*given, answers.prediction, rule),
            "calibration": calibration(*given, positive),
            "ranking": ranking(*given, positive),
            "thresholds": thresholds(*given, positive, in_use),
        }

    def _columns(self, held_out: UnseenAnswers, known: np.ndarray) -> dict[str, Any]:
        """Return what columns are worth and how the answer moves with them."""
        rows = held_out.unseen[self._sample(len(held_out.unseen), _SHUFFLED_ROWS)]
        X, y = rows_of(self.X, rows), known[np.searchsorted(held_out.answers.rows, rows)]
        seconds = _IMPORTANCE_SHARE * self.time_budget
        found = importance(held_out, X, y, self._rng(), seconds) if len(rows) > 1 else None
        if found is None:
            return {"importance": None}
        clear = [row["column"] for row in found["rows"] if row["is_clear"]]
        positive = 0 if held_out.classes is None else self._positive(held_out.classes)
        curves = effects(held_out, X, clear, positive, _EFFECTS_SHARE * self.time_budget)
        return {"importance": found, "effects": curves}

    def _findings(self, answers: OutOfFold) -> list[dict[str, Any]]:
        """Return what is odd about the table; labels are judged by the same answers as all else."""
        n_rows, n_columns = np.shape(self.X)
        few, many = _CHECKED_ROWS
        if not few <= len(answers.rows) == n_rows <= many or n_columns > _CHECKED_COLUMNS:
            return []
        task = "regression" if answers.classes is None else "classification"
        y: Any = self.y
        said: Any = answers.prediction
        if answers.classes is not None:
            # Rows may have some of the classes only, and of one class no label is odd.
            present = np.isin(answers.classes, y)
            said = None if answers.proba is None else answers.proba[:, present]
            y = y if present.sum() > 1 else None
        held_out = None if y is None else said
        found = check(self.X, y, held_out=held_out, task=task, random_state=self.random_state)
        return [part for part in finding_parts(found, _FOUND_LINES) if part["found"]]

    def _chosen(self, held_out: UnseenAnswers, known: np.ndarray | None) -> np.ndarray:
        """Choose rows worth explaining: a half where the model doubts or errs most."""
        answers = held_out.answers
        trouble = row_trouble(answers, known)[np.searchsorted(answers.rows, held_out.unseen)]
        order = held_out.unseen[np.argsort(-trouble, kind="stable")]
        n_rows = min(self.n_explained, len(order))
        worst, others = np.split(order, [n_rows - n_rows // 2])
        drawn = self._rng().choice(np.sort(others), n_rows // 2, replace=False)
        return np.concatenate([worst, np.sort(drawn)]).astype(int)

    def _doubtful(
        self, answers: OutOfFold, known: np.ndarray | None, explained: set[int]
    ) -> list[dict[str, Any]]:
        trouble = row_trouble(answers, known)
        if not trouble.any():
            return []
        parts = []
        for at in np.argsort(-trouble, kind="stable")[:12].tolist():
            row = int(answers.rows[at])
            proba = None if answers.proba is None else answers.proba[at]
            truth = None if known is None else plain(known[at])
            part = answer_part(row, truth, answers.prediction[at], answers.classes, proba)
            parts.append(part | {"has_reasons": row in explained})
        return parts

    def _explanations(self, rows: np.ndarray, end: float) -> list[dict[str, Any]]:
        """Explain every row, then add what compares with other rows while there is time."""
        parts: list[dict[str, Any]] = []
        for row in rows.tolist():
            if parts and _clock.now() >= end:
                return parts
            parts.append(self._explanation(row, None))
        others = np.setdiff1d(self._sample(num_samples(self.X), _BACKGROUND_ROWS), rows)
        background = rows_of(self.X, others) if len(others) > 1 else None
        cost = _cost_beside(self.model, background)
        for at, row in enumerate(rows.tolist()):
            started = _clock.now()
            if started + cost > end:
                break
            parts[at] = self._explanation(row, background)
            cost = max(cost, _clock.now() - started)
        return parts

    def _explanation(self, row: int, background: Any) -> dict[str, Any]:
        X_train = None if self.seen is None or background is None else rows_of(self.X, self.seen)
        found = explain(
            self.model, rows_of(self.X, slice(row, row + 1)), background=background, X_train=X_train
        )
        truth = None if self.y is None else plain(self.y[row])
        return explanation_part(found, row, truth, self.seen)

    def _places(
        self, answers: OutOfFold, known: np.ndarray | None, explained: set[int]
    ) -> dict[str, Any]:
        """Return what lies where: the table, its plane, segments of errors, regions."""
        at = self._sample(len(answers.rows), _PLACE_ROWS, answers, explained)
        rows = answers.rows[at]
        X = rows_of(self.X, rows)
        X = X.toarray() if sparse.issparse(X) else X
        y = None if known is None else known[at]
        try:
            encoded = EncodedTable(X)
        except ValueError:  # rows that are all alike, as a single one is
            return {}
        content: dict[str, Any] = {"profile": profile(X, encoded, y, self.target)}
        if known is not None:
            errors = row_errors(answers, known)[at]
            content["segments"] = segments(
                encoded, errors, answers.classes is not None, self._rng()
            )
        trouble = row_trouble(answers, known)[at]
        shown = answers.prediction[at] if y is None else y
        content["map"] = self._map(encoded.Z, shown, rows, trouble, answers.classes, explained)
        steps, last = split_steps(self.model)
        if hasattr(last, "n_regions_"):
            table, names = _encoded(steps, rows_of(self.X, rows))
            content["regions"] = regions(last, table, y, names)
        return content

    def _map(self, Z, y, rows, trouble, classes, explained) -> dict[str, Any] | None:
        if len(np.unique(y)) < 2 or len(rows) < 10 or not Z.shape[1]:
            return None
        by_class = classes is not None
        plane = flat_picture(Z, y, by_class)
        if by_class:
            size, meaning = trouble, "the closer its probabilities are to a tie"
            codes = np.searchsorted(classes, y)
        else:
            size, meaning = trouble / (trouble.max() or 1.0), "the farther the answer was off"
            codes = np.digitize(y, np.quantile(y, [0.2, 0.4, 0.6, 0.8]))
        keep = np.argsort(~np.isin(rows, list(explained)), kind="stable")[:_MAP_ROWS]
        points = [
            {
                "row": int(rows[i]),
                "x": float(plane[i, 0]),
                "y": float(plane[i, 1]),
                "doubt": float(size[i]),
                "code": int(codes[i]),
                "label": str(plain(y[i])),
                "has_reasons": int(rows[i]) in explained,
            }
            for i in keep.tolist()
        ]
        # Doubtful rows are drawn last, on top; those with reasons above all.
        points.sort(key=lambda point: (point["has_reasons"], point["doubt"]))
        return {"points": points, "meaning": meaning, "by_class": by_class, "n_rows": len(points)}

    def _rng(self) -> np.random.RandomState:
        return check_random_state(self.random_state)

    def _sample(self, n, at_most, answers=None, always=()) -> np.ndarray:
        chosen = sampled_rows(n, at_most, self.random_state)
        if always:
            chosen = np.union1d(chosen, np.flatnonzero(np.isin(answers.rows, list(always))))
        return chosen


def _cost_beside(model: Any, background: Any) -> float:
    """Guess the seconds of reasons that compare with other rows: a hundred times their answers."""
    if background is None:
        return np.inf
    started = _clock.now()
    model.predict(background)
    return 100 * (_clock.now() - started)


def _encoded(steps: list[Any], X: Any) -> tuple[Any, list[str]]:
    """Return the rows as the last model takes them, dense, and the names of those columns."""
    names = [str(name) for name in getattr(X, "columns", [])]
    for step in steps:
        given = None if hasattr(step, "feature_names_in_") or not names else names
        X = step.transform(X)
        names = [str(name) for name in step.get_feature_names_out(given)]
    X = X.toarray() if hasattr(X, "toarray") else X
    return X, names if len(names) == X.shape[1] else [f"x{j}" for j in range(X.shape[1])]


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
                _leaderboard_row(rank, entry, floor, best, board)
                for rank, entry in zip(board.ranks, board.entries, strict=True)
            ],
        }


def _leaderboard_row(rank, entry, floor, best, board) -> dict[str, Any]:
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
