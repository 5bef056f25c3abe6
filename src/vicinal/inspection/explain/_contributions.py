"""Contributions of the columns to a prediction: sampled Shapley values."""

from typing import Any

import numpy as np

from vicinal._base._compat import num_samples, rows_of
from vicinal._base._explanation import ExplanationSection, show, values_of
from vicinal._base._parallel import check_stopped
from vicinal._base._tables import spread_rows
from vicinal.inspection.explain._columns import MixedRows

# Background rows that the row is compared with; fewer if they need too many predictions.
_MOST_ROWS, _LEAST_ROWS = 60, 8
_MOST_PREDICTIONS = 12_000
# Predictions per call: so few of a small table that nothing is compiled for them.
_BATCH = 512


def column_section(
    model: Any, table: Any, names: list[str], prediction: Any, background: Any
) -> ExplanationSection:
    """Return the contributions of the columns, from the mean prediction of other rows."""
    others = rows_of(background, spread_rows(num_samples(background), _MOST_ROWS))
    output, what = _output_of(model, prediction)
    here, reference, parts, n_others = column_contributions(output, table, others)
    values = values_of(table)
    order = np.argsort(-np.abs(parts), kind="stable")
    rows = [(names[j], values[j], float(parts[j])) for j in order]
    summary = (
        f"{what} is {show(here)}; the mean over {n_others} other rows is {show(reference)}. These "
        "contributions (sampled Shapley values) add up to the difference."
    )
    head = ("column", "value", "contribution")
    return ExplanationSection(
        "columns",
        "Columns",
        summary,
        head,
        rows,
        "contribution",
        {"prediction": here, "baseline": reference},
    )


def column_contributions(
    output: Any, table: Any, others: Any
) -> tuple[float, float, np.ndarray, int]:
    r"""Return Shapley values of the columns of a row, by sampled orders.

    Other rows :math:`b` become the row :math:`x` one column at a time, in a random order and in
    its reverse, and every change of :math:`f` is credited to the column that changed. The changes
    of one order add up to :math:`f(x) - f(b)`, so contributions add up to :math:`f(x)` minus the
    mean of :math:`f(b)` for any sampled orders; for additive :math:`f` every order gives the same.

    Parameters
    ----------
    output : callable
        Prediction :math:`f` of the rows of a table, one number each.
    table, others : array, sparse matrix or frame
        One row, and others.

    Returns
    -------
    here, reference : float
        Prediction of the row, and mean prediction of the others.
    contributions : ndarray of shape (n_columns,)
        Their sum is ``here - reference``.
    n_others : int
        How many other rows were used.
    """
    rows = MixedRows(table, others)
    differs = rows.differs()
    counts = differs.sum(axis=1)
    used = spread_rows(len(counts), _affordable(counts))
    here, base = float(output(table)[0]), np.asarray(output(rows_of(others, used)), dtype=float)
    rng = np.random.RandomState(0)
    orders = []
    for at, other in enumerate(used.tolist()):
        order = rng.permutation(np.flatnonzero(differs[other]))
        orders += [(at, other, order), (at, other, order[::-1])]
    total = np.zeros(differs.shape[1])
    for batch in _batches(orders):
        check_stopped()
        index = np.vstack([_steps(other, order, len(total)) for _, other, order in batch])
        outputs = np.asarray(output(rows.take(index)), dtype=float) if len(index) else np.empty(0)
        for at, _, order in batch:
            between, outputs = np.split(outputs, [max(0, len(order) - 1)])
            if len(order):
                total[order] += np.diff(between, prepend=base[at], append=here)
    total /= len(orders)
    # Columns that the model does not use change nothing but the rounding.
    total[np.abs(total) <= 1e-12 * max(1.0, abs(here))] = 0.0
    return here, float(base.mean()), total, len(used)


def _affordable(counts: np.ndarray) -> int:
    """Return how many other rows fit into the limit of predictions."""
    cost = max(1.0, 2.0 * float(counts.mean()))
    return max(_LEAST_ROWS, min(len(counts), int(_MOST_PREDICTIONS / cost)))


def _batches(orders: list[tuple]) -> list[list[tuple]]:
    """Group orders so that each group needs about as many predictions as one call."""
    groups: list[list[tuple]] = [[]]
    size = 0
    for order_of_row in orders:
        if groups[-1] and size + len(order_of_row[2]) > _BATCH:
            groups.append([])
            size = 0
        groups[-1].append(order_of_row)
        size += len(order_of_row[2])
    return groups


def _steps(other: int, order: np.ndarray, n_columns: int) -> np.ndarray:
    """Return where the cells of all rows between another row and the row come from."""
    n = max(0, len(order) - 1)
    moved = np.zeros((n, n_columns), dtype=bool)
    moved[:, order[:-1]] = np.tri(n, dtype=bool)
    return np.where(moved, 0, other + 1)


def _output_of(model: Any, prediction: Any):
    if not hasattr(model, "classes_"):
        return lambda rows: np.asarray(model.predict(rows), dtype=float), "The prediction"
    at = model.classes_.tolist().index(prediction)
    label = show(prediction)
    if hasattr(model, "predict_proba"):
        return (
            lambda rows: np.asarray(model.predict_proba(rows))[:, at],
            f"The probability of {label}",
        )
    return (
        lambda rows: (np.asarray(model.predict(rows)) == prediction).astype(float),
        f"The vote for {label}",
    )
