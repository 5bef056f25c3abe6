"""Predictions for rows that a model had not seen, and how columns change them."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from vicinal._base import _clock
from vicinal._base._compat import num_samples, rows_of
from vicinal._base._held_out import OutOfFold
from vicinal._base._tables import column_names, column_values
from vicinal._base._wrappers import Rule, split_threshold
from vicinal.report._page import Axis
from vicinal.report._table import column_in_order, with_column


@dataclass(frozen=True)
class UnseenAnswers:
    """A fitted model, the rows that it had not seen, and the answers that the page is about.

    Attributes
    ----------
    model : estimator
        Fitted classifier or regressor.
    unseen : ndarray of int
        Rows of the table that ``model`` had not seen.
    answers : OutOfFold
        Answers to all rows by models that had not seen them; those to ``unseen`` are the model's.
    """

    model: Any
    unseen: np.ndarray
    answers: OutOfFold

    @property
    def classes(self) -> np.ndarray | None:
        """All labels, sorted; ``None`` for a regressor."""
        return self.answers.classes

    def ask(self, X: Any) -> OutOfFold:
        """Return the model's answers to other rows, probabilities in the order of ``classes``."""
        return ask(self.model, X, self.classes)


def held_out_answers(
    model: Any, X: Any, out_of_fold: OutOfFold | None, unseen: Any
) -> UnseenAnswers:
    """Put the answers of a model and those of a comparison together.

    A model fitted again for its reasons may differ a little from the one of the comparison, when
    its fit was stopped by the clock or had fewer rows. Its answers take the place of the others, so
    that no two parts of a page contradict each other.
    """
    if out_of_fold is None:
        rows = np.arange(num_samples(X)) if unseen is None else np.unique(unseen)
        return UnseenAnswers(model, rows, replace(ask(model, rows_of(X, rows)), rows=rows))
    rows = out_of_fold.rows if unseen is None else np.intersect1d(unseen, out_of_fold.rows)
    said = ask(model, rows_of(X, rows), out_of_fold.classes)
    at = np.searchsorted(out_of_fold.rows, rows)
    prediction = out_of_fold.prediction.copy()
    prediction[at] = said.prediction
    proba = None
    if out_of_fold.proba is not None and said.proba is not None:
        proba = out_of_fold.proba.copy()
        proba[at] = said.proba
        if (rule := split_threshold(model)[1]) is not None:
            prediction = decided(proba, out_of_fold.classes, rule)
    return UnseenAnswers(model, rows, replace(out_of_fold, prediction=prediction, proba=proba))


def ask(model: Any, X: Any, classes: np.ndarray | None = None) -> OutOfFold:
    """Return the model's own answers in the form of a comparison's."""
    rows = np.arange(num_samples(X))
    if not is_classifier(model):
        return OutOfFold(rows, np.asarray(model.predict(X)), None, None)
    known = np.asarray(model.classes_)
    classes = known if classes is None else classes
    if not hasattr(model, "predict_proba"):
        return OutOfFold(rows, np.asarray(model.predict(X)), None, classes)
    proba = np.zeros((len(rows), len(classes)))
    proba[:, np.searchsorted(classes, known)] = model.predict_proba(X)
    return OutOfFold(rows, decided(proba, classes, split_threshold(model)[1]), proba, classes)


def decided(proba: np.ndarray, classes: Any, rule: Rule | None) -> np.ndarray:
    """Return the most probable labels, or those that a threshold decides for."""
    return classes[proba.argmax(axis=1) if rule is None else rule.codes(proba)]


def check_labels(y: np.ndarray, classes: np.ndarray) -> None:
    """Refuse labels that a model cannot answer; they would be counted as others."""
    unknown = sorted({str(label) for label in y[~np.isin(y, classes)]})
    if unknown:
        known = ", ".join(repr(str(label)) for label in classes[:12])
        raise ValueError(
            f"y holds {unknown[0]!r}, which is none of the classes of the model ({known}); leave "
            "such rows out, or fit the model to them."
        )


def row_losses(answers: OutOfFold, y: np.ndarray) -> tuple[np.ndarray, str]:
    """Return the loss of each answer, and what it is called."""
    if answers.classes is None:
        return np.abs(y - answers.prediction), "mean absolute error"
    if answers.proba is None:
        return (answers.prediction != y).astype(float), "share of wrong answers"
    missed = answers.proba - (answers.classes[None, :] == y[:, None])
    # Bounded, unlike the log loss: one sure mistake must not outweigh all other rows.
    scale = 0.5 if len(answers.classes) == 2 else 1.0
    return scale * (missed**2).sum(axis=1), "Brier score"


def row_errors(answers: OutOfFold, y: np.ndarray) -> np.ndarray:
    """Return 1 for a wrong label and 0 for a right one; for numbers, the absolute error."""
    if answers.classes is None:
        return np.abs(y - answers.prediction)
    return (answers.prediction != y).astype(float)


def row_trouble(answers: OutOfFold, y: np.ndarray | None) -> np.ndarray:
    """Return how doubtful each answer is, 1 at a tie of all classes; else how wrong it was."""
    if answers.proba is not None:
        chance = np.clip(answers.proba, 1e-12, 1.0)
        return -(chance * np.log(chance)).sum(axis=1) / np.log(chance.shape[1])
    if y is None:
        return np.zeros(len(answers.rows))
    return row_errors(answers, y)


_MOST_REPEATS = 5


def importance(
    held_out: UnseenAnswers, X: Any, y: np.ndarray, rng: np.random.RandomState, seconds: float
) -> dict[str, Any] | None:
    """Return how the loss rises when a column is shuffled among rows the model had not seen.

    Columns are those of the table, so what was encoded from one of them is shuffled together. The
    standard error is over the rows, each with the mean of its repeats. Columns for which there was
    no time are counted in ``n_left``.
    """
    end, names = _clock.now() + seconds, column_names(X)
    started = _clock.now()
    before, unit = row_losses(held_out.ask(X), y)
    cost = _clock.now() - started
    repeats = int(np.clip(seconds / max(cost * len(names), 1e-9), 1, _MOST_REPEATS))
    found: list[dict[str, Any]] = []
    for j, name in enumerate(names):
        if _clock.now() + repeats * cost >= end:
            break
        rise = np.zeros(len(before))
        for _ in range(repeats):
            mixed = with_column(X, j, X, rng.permutation(len(before)))
            rise += (row_losses(held_out.ask(mixed), y)[0] - before) / repeats
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
        "n_repeats": repeats,
        "n_left": len(names) - len(found),
    }


_EFFECT_COLUMNS = 6
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
