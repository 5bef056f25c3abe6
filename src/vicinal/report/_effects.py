"""How the answer moves with one column, all others as they are."""

from typing import Any

import numpy as np

from vicinal._base import _clock
from vicinal._base._compat import num_samples, rows_of
from vicinal._base._out_of_fold import OutOfFold
from vicinal.report._charts import Axis
from vicinal.report._held_out import UnseenAnswers
from vicinal.report._table import column_in_order, column_names, column_values, with_column

_MOST_COLUMNS = 6
_MOST_ROWS = 100
_N_POINTS = 13
_MOST_LEVELS = 8
_MOST_CLASSES = 4
_Z = 1.96
_HEIGHTS = ("mean", "low", "high", "p10", "p90")


def effects(
    held_out: UnseenAnswers, X: Any, columns: list[int], positive: int, seconds: float
) -> dict[str, Any] | None:
    """Return the mean answer over the rows as a column goes through values seen in it.

    ``low`` to ``high`` is the 95 % interval of that mean over the rows, ``p10`` to ``p90`` holds
    the middle 80 % of the rows; each row's curve is first moved to the mean height of all. All
    pictures share one scale.
    """
    end, cost = _clock.now() + seconds, 0.0
    names, found = column_names(X), []
    step = max(1, num_samples(X) // _MOST_ROWS)
    rows = rows_of(X, np.arange(0, num_samples(X), step)[:_MOST_ROWS])
    for j in columns[:_MOST_COLUMNS]:
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


def _label(held_out: UnseenAnswers, positive: int) -> str:
    if held_out.classes is None:
        return "prediction"
    if held_out.answers.proba is None:
        return "share of answers"
    return f"P({held_out.classes[positive]})" if len(held_out.classes) == 2 else "probability"


def _grid(values: list[Any], kind: str, cells: list[Any]) -> dict[str, Any]:
    """Return rows whose cells the column goes through: quantiles of numbers or dates, or levels."""
    known = np.array([i for i, value in enumerate(values) if value is not None], dtype=int)
    given = [values[i] for i in known]
    if kind != "level" and len(set(given)) > 2:
        numbers = np.array(given, dtype=float)
        order = np.argsort(numbers, kind="stable")
        n_points = _N_POINTS if kind == "number" else _MOST_LEVELS
        at = order[np.unique(np.linspace(0.02, 0.98, n_points) * (len(order) - 1)).astype(int)]
        _, first = np.unique(numbers[at], return_index=True)
        at = at[first]
        if kind == "date":
            labels = [str(cells[i]).removesuffix(" 00:00:00") for i in known[at]]
            return {"rows": known[at], "x": None, "at": _even(len(at)), "labels": labels}
        axis = Axis(numbers[at], "")
        return {"rows": known[at], "x": axis.as_dict(), "at": axis.at(numbers[at]), "labels": None}
    texts = np.array([str(value) for value in given])
    levels, first, counts = np.unique(texts, return_index=True, return_counts=True)
    usual = np.argsort(-counts, kind="stable")[:_MOST_LEVELS]
    shown = levels[usual].tolist()
    return {"rows": known[first[usual]], "x": None, "at": _even(len(usual)), "labels": shown}


def _even(n: int) -> list[float]:
    return ((np.arange(n) + 0.5) / max(1, n)).tolist()


def _effect(held_out, rows, X, j, grid, positive) -> dict[str, Any]:
    said = [
        held_out.ask(with_column(rows, j, X, np.full(num_samples(rows), index)))
        for index in grid["rows"]
    ]
    lines = []
    for label, code in _lines(held_out, positive):
        heights = _heights(np.column_stack([_answer(part, code) for part in said]))
        points = [{"x": x, **height} for x, height in zip(grid["at"], heights, strict=True)]
        lines.append({"label": label, "code": code, "points": points})
    return {"x": grid["x"], "labels": grid["labels"], "at": grid["at"], "lines": lines}


def _heights(curves: np.ndarray) -> list[dict[str, float]]:
    """Return mean and bands of the rows' curves, each moved to the mean height of all.

    What differs between rows from the start would drown what the column does to them.
    """
    moved = curves - curves.mean(axis=1, keepdims=True) + curves.mean()
    mean = moved.mean(axis=0)
    reach = _Z * moved.std(axis=0, ddof=1) / np.sqrt(len(moved)) if len(moved) > 1 else 0.0 * mean
    p10, p90 = np.quantile(moved, [0.1, 0.9], axis=0)
    return [
        dict(zip(_HEIGHTS, map(float, heights), strict=True))
        for heights in zip(mean, mean - reach, mean + reach, p10, p90, strict=True)
    ]


def _lines(held_out: UnseenAnswers, positive: int) -> list[tuple[str, int]]:
    """Return what is drawn: one class of two, the most frequent of more, or the number."""
    classes = held_out.classes
    if classes is None:
        return [("prediction", 0)]
    if len(classes) == 2:
        return [(str(classes[positive]), positive)]
    said = held_out.answers
    mean = [_answer(said, k).mean() for k in range(len(classes))]
    order = np.argsort(-np.array(mean), kind="stable")[:_MOST_CLASSES]
    return [(str(classes[k]), int(k)) for k in order]


def _answer(said: OutOfFold, code: int) -> np.ndarray:
    """Return what is drawn of each answer: the number, or the probability of a class."""
    if said.classes is None:
        return np.asarray(said.prediction, dtype=float)
    if said.proba is None:
        return (said.prediction == said.classes[code]).astype(float)
    return said.proba[:, code]
