"""A fitted model on a table as one HTML file that needs no network."""

import time
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state

from vicinal._base._compat import num_samples, rows_of
from vicinal._base._out_of_fold import OutOfFold
from vicinal.inspection import explain
from vicinal.report import _answers, _places
from vicinal.report._page import Page
from vicinal.report._reasons import answer_part, explanation_part, plain

_MAP_ROWS = 800
_PLACE_ROWS = 4000
_BACKGROUND_ROWS = 200


class ModelReport(Page):
    """A page about one model: how good its answers are, where it doubts, and why it says what.

    Parameters
    ----------
    model : estimator
        Fitted classifier or regressor, or a pipeline that ends in one.
    X : data frame or array of shape (n_samples, n_features)
        The rows that the page is about.
    y : array-like of shape (n_samples,), default=None
        Their target; without it, only doubts and explanations are shown.
    title : str, default="Report"
        Heading of the page.
    target : str, default="target"
        Name of the target.
    out_of_fold : OutOfFold, default=None
        Answers of models that had not seen the rows, as a comparison gives them. ``None`` asks
        ``model`` itself, so ``X`` should be rows that it has not seen.
    partition : estimator, default=None
        A fitted model whose regions are shown, when ``model`` has none.
    explained : array-like of int, default=None
        Rows to explain. ``None`` chooses ``n_explained`` of them, by :meth:`choose_rows`.
    n_explained : int, default=24
        How many rows are chosen.
    time_budget : float, default=60
        Seconds after which no further row is explained.
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
        out_of_fold: OutOfFold | None = None,
        partition: Any = None,
        explained: Any = None,
        n_explained: int = 24,
        time_budget: float = 60.0,
        notes: Any = (),
        random_state: Any = 0,
    ) -> None:
        self.model, self.X, self.title, self.target = model, X, title, target
        self.y = None if y is None else np.asarray(y)
        self.out_of_fold, self.partition = out_of_fold, partition
        self.explained, self.n_explained, self.time_budget = explained, n_explained, time_budget
        self.notes, self.random_state = notes, random_state

    def as_dict(self) -> dict[str, Any]:
        """Return everything the page shows as plain values.

        Returns
        -------
        dict
            Facts, calibration, confusion or residuals, regions, map, doubtful rows, explanations.
        """
        answers = self.out_of_fold or _ask(self.model, self.X)
        known = None if self.y is None else self.y[answers.rows]
        chosen = self.explained
        if chosen is None:
            chosen = self.choose_rows(answers, self.y, self.n_explained, self.random_state)
        explanations = self._explanations(np.asarray(chosen, dtype=int))
        content: dict[str, Any] = {
            "title": self.title,
            "target": self.target,
            "notes": [str(note) for note in self.notes],
            "model": type(_split(self.model)[1]).__name__,
            "task": "regression" if answers.classes is None else "classification",
            "classes": [] if answers.classes is None else [str(c) for c in answers.classes],
            "n_rows": num_samples(self.X),
            "is_out_of_fold": self.out_of_fold is not None,
            "explanations": explanations,
            "doubtful": self._doubtful(answers, {part["row"] for part in explanations}),
            **self._places(answers, {part["row"] for part in explanations}),
        }
        if known is not None:
            content |= self._goodness(answers, known)
        return content

    @staticmethod
    def choose_rows(answers: OutOfFold, y: Any, n_rows: int, random_state: Any = 0) -> np.ndarray:
        """Choose rows worth explaining.

        Parameters
        ----------
        answers : OutOfFold
            What a model said about a table.
        y : array-like of shape (n_samples,) or None
            Target of the table.
        n_rows : int
            How many.
        random_state : int, RandomState instance or None, default=0
            Draws the ordinary rows.

        Returns
        -------
        ndarray of int
            Positions in the table: a half where the model doubts or errs most, a half at random.
        """
        order = answers.rows[np.argsort(-_trouble(answers, y), kind="stable")]
        n_rows = min(n_rows, len(order))
        worst = order[: n_rows - n_rows // 2]
        others = np.setdiff1d(answers.rows, worst)
        drawn = check_random_state(random_state).choice(others, n_rows // 2, replace=False)
        return np.concatenate([worst, np.sort(drawn)]).astype(int)

    # --- parts of the page ---

    def _goodness(self, answers: OutOfFold, y: np.ndarray) -> dict[str, Any]:
        if answers.classes is None:
            rows = self._sample(len(y), _MAP_ROWS)
            return {
                "facts": _answers.regression_facts(y, answers.prediction),
                "residuals": _answers.residuals(y, answers.prediction, rows),
            }
        parts: dict[str, Any] = {
            "confusion": _answers.confusion(y, answers.prediction, answers.classes)
        }
        if answers.proba is None:
            parts["facts"] = {"accuracy": float(np.mean(answers.prediction == y))}
            return parts
        parts["facts"] = _answers.classification_facts(y, answers.proba, answers.classes)
        parts["calibration"] = _answers.calibration(y, answers.proba, answers.classes)
        return parts

    def _doubtful(self, answers: OutOfFold, explained: set[int]) -> list[dict[str, Any]]:
        trouble = _trouble(answers, self.y)
        if not trouble.any():
            return []
        return [
            self._answer(
                int(answers.rows[at]),
                answers.prediction[at],
                answers.classes,
                None if answers.proba is None else answers.proba[at],
            )
            | {"has_reasons": int(answers.rows[at]) in explained}
            for at in np.argsort(-trouble, kind="stable")[:12].tolist()
        ]

    def _answer(self, row: int, prediction: Any, classes: Any, proba: Any) -> dict[str, Any]:
        truth = None if self.y is None else plain(self.y[row])
        return answer_part(row, truth, prediction, classes, proba)

    def _explanations(self, rows: np.ndarray) -> list[dict[str, Any]]:
        """Explain every row, then add what compares with other rows while there is time."""
        end = time.monotonic() + self.time_budget
        parts: list[dict[str, Any]] = []
        for row in rows.tolist():
            if parts and time.monotonic() > end:
                return parts
            parts.append(self._explanation(row, None))
        others = np.setdiff1d(self._sample(num_samples(self.X), _BACKGROUND_ROWS), rows)
        background = rows_of(self.X, others) if len(others) else None
        cost = _cost_beside(self.model, background)
        for at, row in enumerate(rows.tolist()):
            started = time.monotonic()
            if started + cost > end:
                break
            parts[at] = self._explanation(row, background)
            cost = max(cost, time.monotonic() - started)
        return parts

    def _explanation(self, row: int, background: Any) -> dict[str, Any]:
        found = explain(self.model, rows_of(self.X, slice(row, row + 1)), background=background)
        truth = None if self.y is None else plain(self.y[row])
        return explanation_part(found, row, truth)

    def _places(self, answers: OutOfFold, explained: set[int]) -> dict[str, Any]:
        rows = answers.rows[self._sample(len(answers.rows), _PLACE_ROWS, answers, explained)]
        steps, last = _split(self.model)
        table, names = _encoded(steps, rows_of(self.X, rows))
        y = None if self.y is None else self.y[rows]
        shown = answers.prediction[np.searchsorted(answers.rows, rows)] if y is None else y
        Z = np.asarray(table, dtype=float)
        content = {"map": self._map(Z, shown, rows, answers, explained)}
        if self.partition is not None and not hasattr(last, "n_regions_"):
            steps, last = _split(self.partition)
            table, names = _encoded(steps, rows_of(self.X, rows))
        content["regions"] = _places.regions(last, table, y, names)
        return content

    def _map(self, Z, y, rows, answers, explained) -> dict[str, Any] | None:
        is_classification = answers.classes is not None
        if len(np.unique(y)) < 2 or len(rows) < 10:
            return None
        plane = _places.flat_picture(Z, y, is_classification)
        if is_classification:
            size, meaning = _places.neighbor_doubt(Z, y), "how much its neighbours disagree"
            codes = np.searchsorted(answers.classes, y)
        else:
            trouble = _trouble(answers, self.y)[np.searchsorted(answers.rows, rows)]
            size, meaning = trouble / (trouble.max() or 1.0), "how far the answer was off"
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
        return {
            "points": points,
            "meaning": meaning,
            "by_class": is_classification,
            "n_rows": len(points),
            "mean_doubt": float(size.mean()),
        }

    def _sample(self, n, at_most, answers=None, always=()) -> np.ndarray:
        if n <= at_most:
            return np.arange(n)
        drawn = check_random_state(self.random_state).choice(n, at_most, replace=False)
        if always:
            drawn = np.concatenate([drawn, np.flatnonzero(np.isin(answers.rows, list(always)))])
        return np.unique(drawn)


def _cost_beside(model: Any, background: Any) -> float:
    """Guess the seconds of reasons that compare with other rows: a hundred times their answers."""
    if background is None:
        return np.inf
    started = time.perf_counter()
    model.predict(background)
    return 100 * (time.perf_counter() - started)


def _ask(model: Any, X: Any) -> OutOfFold:
    """Return the model's own answers in the form of a comparison's."""
    rows = np.arange(num_samples(X))
    if not is_classifier(model):
        return OutOfFold(rows, np.asarray(model.predict(X)), None, None)
    classes = np.asarray(model.classes_)
    if not hasattr(model, "predict_proba"):
        return OutOfFold(rows, np.asarray(model.predict(X)), None, classes)
    proba = np.asarray(model.predict_proba(X))
    return OutOfFold(rows, classes[proba.argmax(axis=1)], proba, classes)


def _trouble(answers: OutOfFold, y: Any) -> np.ndarray:
    """Return how doubtful each answer is; for numbers, how wrong it was."""
    if answers.proba is not None:
        return _answers.doubt(answers.proba)
    if y is None:
        return np.zeros(len(answers.rows))
    truth = np.asarray(y)[answers.rows]
    if answers.classes is None:
        return np.abs(truth - answers.prediction)
    return (truth != answers.prediction).astype(float)


def _split(model: Any) -> tuple[list[Any], Any]:
    if isinstance(model, Pipeline):
        before = [step for _, step in model.steps[:-1] if step not in (None, "passthrough")]
        inner, last = _split(model.steps[-1][1])
        return [*before, *inner], last
    return [], model


def _encoded(steps: list[Any], X: Any) -> tuple[Any, list[str]]:
    """Return the rows as the last model takes them, dense, and the names of those columns."""
    names = [str(name) for name in getattr(X, "columns", [])]
    for step in steps:
        given = None if hasattr(step, "feature_names_in_") or not names else names
        X = step.transform(X)
        names = [str(name) for name in step.get_feature_names_out(given)]
    X = X.toarray() if hasattr(X, "toarray") else X
    return X, names if len(names) == X.shape[1] else [f"x{j}" for j in range(X.shape[1])]
