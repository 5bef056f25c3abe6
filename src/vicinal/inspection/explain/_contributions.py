"""What each column contributes to a prediction, so that the parts add up."""

from typing import Any

import numpy as np

from vicinal._base._compat import num_samples, rows_of
from vicinal._base._explanation import ExplanationSection, show, values_of
from vicinal._base._parallel import check_stopped
from vicinal._base._tables import spread_rows
from vicinal.inspection.explain._columns import MixedRows

# Other rows that the row is compared with, fewer where so many answers would be asked for.
_MOST_ROWS, _LEAST_ROWS = 60, 8
_MOST_ANSWERS = 12_000
# Answers asked for at a time: so few of a small table that nothing is compiled for them.
_ANSWERS = 512


def column_section(
    model: Any, table: Any, names: list[str], prediction: Any, background: Any
) -> ExplanationSection:
    """Return the contributions of the columns to the answer, against the mean of other rows."""
    others = rows_of(background, spread_rows(num_samples(background), _MOST_ROWS))
    answer, what = _answer_of(model, prediction)
    here, reference, parts, n_others = column_contributions(answer, table, others)
    values = values_of(table)
    order = np.argsort(-np.abs(parts), kind="stable")
    rows = [(names[j], values[j], float(parts[j])) for j in order]
    summary = (
        f"Over {n_others} other rows, {what} is {show(reference)} on average; these contributions "
        f"(Shapley values over sampled orders of the columns) lead from there to {show(here)}."
    )
    head = ("column", "value", "contribution")
    return ExplanationSection(
        "columns",
        "Columns",
        summary,
        head,
        rows,
        "contribution",
        {"answer": here, "reference": reference},
    )


def column_contributions(
    answer: Any, table: Any, others: Any
) -> tuple[float, float, np.ndarray, int]:
    r"""Return Shapley values of the columns of a row, by sampled orders.

    Other rows :math:`b` become the row :math:`x` one column at a time, in a random order and in
    its reverse, and every step of :math:`f` is credited to the column that moved. Steps along one
    way add up to :math:`f(x) - f(b)`, so that contributions add up to :math:`f(x)` less the mean
    of :math:`f(b)` whatever the orders drawn; for additive :math:`f` every order gives the same.

    Parameters
    ----------
    answer : callable
        Numbers :math:`f` of the rows of a table.
    table, others : array, sparse matrix or frame
        One row, and others.

    Returns
    -------
    here, reference : float
        Answer to the row, and mean of the answers to others.
    contributions : ndarray of shape (n_columns,)
        Their sum is ``here - reference``.
    n_others : int
        How many other rows were used.
    """
    rows = MixedRows(table, others)
    differs = rows.differs()
    counts = differs.sum(axis=1)
    used = spread_rows(len(counts), _affordable(counts))
    here, base = float(answer(table)[0]), np.asarray(answer(rows_of(others, used)), dtype=float)
    rng = np.random.RandomState(0)
    ways = []
    for at, other in enumerate(used.tolist()):
        order = rng.permutation(np.flatnonzero(differs[other]))
        ways += [(at, other, order), (at, other, order[::-1])]
    total = np.zeros(differs.shape[1])
    for batch in _batches(ways):
        check_stopped()
        index = np.vstack([_steps(other, order, len(total)) for _, other, order in batch])
        answers = np.asarray(answer(rows.take(index)), dtype=float) if len(index) else np.empty(0)
        for at, _, order in batch:
            between, answers = np.split(answers, [max(0, len(order) - 1)])
            if len(order):
                total[order] += np.diff(between, prepend=base[at], append=here)
    total /= len(ways)
    # Columns that the model never asks about change nothing but the rounding.
    total[np.abs(total) <= 1e-12 * max(1.0, abs(here))] = 0.0
    return here, float(base.mean()), total, len(used)


def _affordable(counts: np.ndarray) -> int:
    """Return how many other rows can be walked from with the answers that may be asked for."""
    cost = max(1.0, 2.0 * float(counts.mean()))
    return max(_LEAST_ROWS, min(len(counts), int(_MOST_ANSWERS / cost)))


def _batches(ways: list[tuple]) -> list[list[tuple]]:
    """Group ways so that each group asks for about as many answers as go at a time."""
    groups: list[list[tuple]] = [[]]
    size = 0
    for way in ways:
        if groups[-1] and size + len(way[2]) > _ANSWERS:
            groups.append([])
            size = 0
        groups[-1].append(way)
        size += len(way[2])
    return groups


def _steps(other: int, order: np.ndarray, n_columns: int) -> np.ndarray:
    """Return where the cells of all rows between another row and the row come from."""
    n = max(0, len(order) - 1)
    moved = np.zeros((n, n_columns), dtype=bool)
    moved[:, order[:-1]] = np.tri(n, dtype=bool)
    return np.where(moved, 0, other + 1)


def _answer_of(model: Any, prediction: Any):
    if not hasattr(model, "classes_"):
        return lambda rows: np.asarray(model.predict(rows), dtype=float), "the prediction"
    at = model.classes_.tolist().index(prediction)
    label = show(prediction)
    if hasattr(model, "predict_proba"):
        return (
            lambda rows: np.asarray(model.predict_proba(rows))[:, at],
            f"the probability of {label}",
        )
    return (
        lambda rows: (np.asarray(model.predict(rows)) == prediction).astype(float),
        f"the share of {label}",
    )
