"""Predictions for rows that a model had not seen, and how columns change them."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from vicinal._base import _clock
from vicinal._base._compat import num_samples, rows_of
from vicinal._base._held_out import OutOfFold, aligned_columns
from vicinal._base._tables import column_names, column_values
from vicinal._base._wrappers import Rule, split_threshold
from vicinal.report._page import Axis
from vicinal.report._table import column_in_order, with_column


@dataclass(frozen=True)
class HeldOutPredictions:
    """A fitted model, rows that it was not fitted to, and the predictions on the page.

    Attributes
    ----------
    model : estimator
        Fitted classifier or regressor.
    unseen : ndarray of int
        Rows of the table that ``model`` was not fitted to.
    predictions : OutOfFold
        Held-out predictions of all rows; those of ``unseen`` are the model's.
    y : ndarray or None
        Targets of the rows that have predictions.
    """

    model: Any
    unseen: np.ndarray
    predictions: OutOfFold
    y: np.ndarray | None = None

    @property
    def classes(self) -> np.ndarray | None:
        """All labels, sorted; ``None`` for a regressor."""
        return self.predictions.classes

    @cached_property
    def errors(self) -> np.ndarray:
        """1 for a wrong label and 0 for a right one; for regression, the absolute error."""
        return row_losses(replace(self.predictions, proba=None), np.asarray(self.y))[0]

    @cached_property
    def uncertainty(self) -> np.ndarray:
        """Entropy of the probabilities, 1 for equal ones; without them, the error."""
        if self.predictions.proba is not None:
            chance = np.clip(self.predictions.proba, 1e-12, 1.0)
            return -(chance * np.log(chance)).sum(axis=1) / np.log(chance.shape[1])
        return np.zeros(len(self.predictions.rows)) if self.y is None else self.errors

    def at(self, rows: Any) -> np.ndarray:
        """Return the positions of rows of the table among those that have predictions."""
        return np.searchsorted(self.predictions.rows, rows)

    def predict(self, X: Any) -> OutOfFold:
        """Return predictions of other rows, probabilities in the order of ``classes``."""
        return predict_rows(self.model, X, self.classes)


def held_out_predictions(
    model: Any, X: Any, out_of_fold: OutOfFold | None, unseen: Any, y: np.ndarray | None = None
) -> HeldOutPredictions:
    """Combine the predictions of a model with those of a comparison.

    A model fitted again for its explanations may differ from the one of the comparison, if a time
    limit stopped its fit or it had fewer rows. Its predictions replace the others, so that no two
    parts of a page contradict each other.
    """
    if out_of_fold is None:
        rows = np.arange(num_samples(X)) if unseen is None else np.unique(unseen)
        predictions = replace(predict_rows(model, rows_of(X, rows)), rows=rows)
    else:
        rows = out_of_fold.rows if unseen is None else np.intersect1d(unseen, out_of_fold.rows)
        predictions = _replaced(out_of_fold, rows, model, X)
    known = None if y is None else y[predictions.rows]
    if known is not None and predictions.classes is not None:
        check_labels(known, predictions.classes)
    return HeldOutPredictions(model, rows, predictions, known)


def _replaced(out_of_fold: OutOfFold, rows: np.ndarray, model: Any, X: Any) -> OutOfFold:
    """Return the predictions of a comparison, of some rows those of a model."""
    predicted = predict_rows(model, rows_of(X, rows), out_of_fold.classes)
    at = np.searchsorted(out_of_fold.rows, rows)
    prediction, proba = out_of_fold.prediction.copy(), None
    prediction[at] = predicted.prediction
    if out_of_fold.proba is not None and predicted.proba is not None:
        proba = out_of_fold.proba.copy()
        proba[at] = predicted.proba
        if (rule := split_threshold(model)[1]) is not None:
            prediction = decided(proba, out_of_fold.classes, rule)
    return replace(out_of_fold, prediction=prediction, proba=proba)


def predict_rows(model: Any, X: Any, classes: np.ndarray | None = None) -> OutOfFold:
    """Return the predictions of a model as a comparison stores them."""
    rows = np.arange(num_samples(X))
    if not is_classifier(model):
        return OutOfFold(rows, np.asarray(model.predict(X)), None, None)
    known = np.asarray(model.classes_)
    classes = known if classes is None else classes
    if not hasattr(model, "predict_proba"):
        return OutOfFold(rows, np.asarray(model.predict(X)), None, classes)
    proba = aligned_columns(np.asarray(model.predict_proba(X), dtype=float), known, classes)
    return OutOfFold(rows, decided(proba, classes, split_threshold(model)[1]), proba, classes)


def decided(proba: np.ndarray, classes: Any, rule: Rule | None) -> np.ndarray:
    """Return the most probable labels, or those that a threshold selects."""
    return classes[proba.argmax(axis=1) if rule is None else rule.codes(proba)]


def check_labels(y: np.ndarray, classes: np.ndarray) -> None:
    """Raise an error for labels that the model does not know."""
    unknown = sorted({str(label) for label in y[~np.isin(y, classes)]})
    if unknown:
        known = ", ".join(repr(str(label)) for label in classes[:12])
        raise ValueError(
            f"y has the label {unknown[0]!r}, which the model does not know ({known}); remove such "
            "rows, or fit the model with them."
        )


def row_losses(predictions: OutOfFold, y: np.ndarray) -> tuple[np.ndarray, str]:
    """Return the loss of each prediction, and its name."""
    if predictions.classes is None:
        return np.abs(y - predictions.prediction), "mean absolute error"
    if predictions.proba is None:
        return (predictions.prediction != y).astype(float), "error rate"
    difference = predictions.proba - (predictions.classes[None, :] == y[:, None])
    # Bounded, unlike the log loss: one confident error must not outweigh all other rows.
    scale = 0.5 if len(predictions.classes) == 2 else 1.0
    return scale * (difference**2).sum(axis=1), "Brier score"


_MOST_REPEATS = 5


def importance(
    held_out: HeldOutPredictions, X: Any, y: np.ndarray, rng: np.random.RandomState, seconds: float
) -> dict[str, Any] | None:
    """Return the permutation importance of the columns on rows the model was not fitted to.

    Columns are those of the table, so the encoded columns of one of them are shuffled together. The
    standard error is over the rows, each with the mean of its repeats. Columns that the time limit
    excludes are counted in ``n_left``.
    """
    end, names = _clock.now() + seconds, column_names(X)
    started = _clock.now()
    before, unit = row_losses(held_out.predict(X), y)
    cost = _clock.now() - started
    repeats = int(np.clip(seconds / max(cost * len(names), 1e-9), 1, _MOST_REPEATS))
    found: list[dict[str, Any]] = []
    for j, name in enumerate(names):
        if _clock.now() + repeats * cost >= end:
            break
        rise = np.zeros(len(before))
        for _ in range(repeats):
            mixed = with_column(X, j, X, rng.permutation(len(before)))
            rise += (row_losses(held_out.predict(mixed), y)[0] - before) / repeats
        error = float(rise.std(ddof=1) / np.sqrt(len(rise)))
        found.append({"column": j, "name": name, "rise": float(rise.mean()), "error": error})
    if not any(row["rise"] > 2 * row["error"] for row in found):
        return None
    found.sort(key=lambda row: -row["rise"])
    longest = found[0]["rise"] + found[0]["error"]
    decimals = max(0, 3 - int(np.floor(np.log10(longest))))
    for row in found:
        row["shown"] = [f"{row[name]:.{decimals}f}" for name in ("rise", "error")]
        row["length"] = max(0.0, row["rise"]) / longest
        row["spread"] = row["error"] / longest
        row["is_clear"] = row["rise"] > 2 * row["error"]
    return {
        "rows": found,
        "unit": unit,
        "loss": float(before.mean()),
        "n_rows": len(before),
        "n_left": len(names) - len(found),
    }


_EFFECT_COLUMNS = 6
_MOST_ROWS = 100
_N_POINTS = 13
_MAX_CATEGORIES = 8
_MOST_CLASSES = 4
_Z = 1.96
_HEIGHTS = ("mean", "low", "high", "p10", "p90")


def effects(
    held_out: HeldOutPredictions, X: Any, columns: list[int], positive: int, seconds: float
) -> dict[str, Any] | None:
    """Return partial dependence: the mean prediction as one column takes values of the table.

    ``low`` to ``high`` is the 95 % interval of that mean over the rows, ``p10`` to ``p90`` contains
    80 % of the rows; each row's curve is first shifted to the mean of all. All plots share one
    scale.
    """
    end, cost = _clock.now() + seconds, 0.0
    names, found = column_names(X), []
    step = max(1, num_samples(X) // _MOST_ROWS)
    rows = rows_of(X, np.arange(0, num_samples(X), step)[:_MOST_ROWS])
    for j in columns[:_EFFECT_COLUMNS]:
        started = _clock.now()
        if started + cost > end:
            break
        grid = _grid(*column_in_order(X, j), column_values(X, j))
        if len(grid["rows"]) > 1:
            found.append({"name": names[j], **_effect(held_out, rows, X, j, grid, positive)})
        cost = max(cost, _clock.now() - started)
    if not found:
        return None
    points = [point for part in found for line in part["lines"] for point in line["points"]]
    scale = Axis([point[key] for point in points for key in _HEIGHTS], _label(held_out, positive))
    for point in points:
        point |= {f"y_{key}": scale.at(point[key]) for key in _HEIGHTS}
    return {"y": scale.as_dict(), "columns": found, "n_rows": num_samples(rows)}


def _label(held_out: HeldOutPredictions, positive: int) -> str:
    if held_out.classes is None:
        return "prediction"
    if held_out.predictions.proba is None:
        return "share of predictions"
    return f"P({held_out.classes[positive]})" if len(held_out.classes) == 2 else "probability"


def _grid(values: list[Any], kind: str, cells: list[Any]) -> dict[str, Any]:
    """Return rows whose values the column takes: quantiles of numbers or dates, or categories."""
    known = np.array([i for i, value in enumerate(values) if value is not None], dtype=int)
    given = [values[i] for i in known]
    if kind != "category" and len(set(given)) > 2:
        numbers = np.array(given, dtype=float)
        order = np.argsort(numbers, kind="stable")
        n_points = _N_POINTS if kind == "number" else _MAX_CATEGORIES
        at = order[np.unique(np.linspace(0.02, 0.98, n_points) * (len(order) - 1)).astype(int)]
        _, first = np.unique(numbers[at], return_index=True)
        at = at[first]
        if kind == "date":
            labels = [str(cells[i]).removesuffix(" 00:00:00") for i in known[at]]
            return {"rows": known[at], "x": None, "at": _even(len(at)), "labels": labels}
        axis = Axis(numbers[at], "")
        return {"rows": known[at], "x": axis.as_dict(), "at": axis.at(numbers[at]), "labels": None}
    texts = np.array([str(value) for value in given])
    categories, first, counts = np.unique(texts, return_index=True, return_counts=True)
    usual = np.argsort(-counts, kind="stable")[:_MAX_CATEGORIES]
    shown = categories[usual].tolist()
    return {"rows": known[first[usual]], "x": None, "at": _even(len(usual)), "labels": shown}


def _even(n: int) -> list[float]:
    return ((np.arange(n) + 0.5) / max(1, n)).tolist()


def _effect(held_out, rows, X, j, grid, positive) -> dict[str, Any]:
    predicted = [
        held_out.predict(with_column(rows, j, X, np.full(num_samples(rows), index)))
        for index in grid["rows"]
    ]
    lines = []
    for label, code in _lines(held_out, positive):
        heights = _heights(np.column_stack([_output(part, code) for part in predicted]))
        points = [{"x": x, **height} for x, height in zip(grid["at"], heights, strict=True)]
        lines.append({"label": label, "code": code, "points": points})
    return {"x": grid["x"], "labels": grid["labels"], "at": grid["at"], "lines": lines}


def _heights(curves: np.ndarray) -> list[dict[str, float]]:
    """Return mean and bands of the rows' curves, each shifted to the mean of all.

    Without the shift, differences between rows would hide the effect of the column.
    """
    moved = curves - curves.mean(axis=1, keepdims=True) + curves.mean()
    mean = moved.mean(axis=0)
    reach = _Z * moved.std(axis=0, ddof=1) / np.sqrt(len(moved)) if len(moved) > 1 else 0.0 * mean
    p10, p90 = np.quantile(moved, [0.1, 0.9], axis=0)
    return [
        dict(zip(_HEIGHTS, map(float, heights), strict=True))
        for heights in zip(mean, mean - reach, mean + reach, p10, p90, strict=True)
    ]


def _lines(held_out: HeldOutPredictions, positive: int) -> list[tuple[str, int]]:
    """Return what is plotted: one class of two, the most frequent of more, or the value."""
    classes = held_out.classes
    if classes is None:
        return [("prediction", 0)]
    if len(classes) == 2:
        return [(str(classes[positive]), positive)]
    predicted = held_out.predictions
    mean = [_output(predicted, k).mean() for k in range(len(classes))]
    order = np.argsort(-np.array(mean), kind="stable")[:_MOST_CLASSES]
    return [(str(classes[k]), int(k)) for k in order]


def _output(predicted: OutOfFold, code: int) -> np.ndarray:
    """Return what is plotted of each prediction: the value, or the probability of a class."""
    if predicted.classes is None:
        return np.asarray(predicted.prediction, dtype=float)
    if predicted.proba is None:
        return (predicted.prediction == predicted.classes[code]).astype(float)
    return predicted.proba[:, code]
