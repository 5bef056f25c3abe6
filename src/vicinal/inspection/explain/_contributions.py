"""Contributions of the columns to predictions: sampled Shapley values."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from vicinal._base import last_step
from vicinal._base._compat import num_samples, rows_of
from vicinal._base._explanation import ExplanationSection, show, values_of
from vicinal._base._parallel import check_stopped
from vicinal._base._tables import spread_rows
from vicinal.inspection.explain._columns import MixedRows

# Background rows that the row is compared with; fewer if they need too many predictions, of which
# a model with several base models makes one each.
_MOST_ROWS, _LEAST_ROWS = 60, 8
_MOST_PREDICTIONS = 12_000
_MOST_BASE_PREDICTIONS = 6_000
# Predictions per call: so few of a small table that nothing is compiled for them.
_BATCH = 512


def background_sample(background: Any) -> Any:
    """Return the background rows that contributions are computed from."""
    return rows_of(background, spread_rows(num_samples(background), _MOST_ROWS))


def outputs_of(model: Any) -> Callable[[Any], np.ndarray]:
    """Return a function from rows to probabilities of the classes, or to values in one column."""
    if not hasattr(model, "classes_"):
        return lambda rows: np.asarray(model.predict(rows), dtype=float)[:, None]
    if hasattr(model, "predict_proba"):
        return lambda rows: np.asarray(model.predict_proba(rows), dtype=float)
    return lambda rows: (np.asarray(model.predict(rows))[:, None] == model.classes_).astype(float)


def prediction_limit(model: Any) -> int:
    """Return how many predictions contributions may need."""
    last = last_step(model)
    if not hasattr(last, "encoders_"):  # those of AutoClassifier and AutoRegressor
        return _MOST_PREDICTIONS
    n_base_models = max(1, int(np.count_nonzero(last.weights_)))
    return min(_MOST_PREDICTIONS, _MOST_BASE_PREDICTIONS // n_base_models)


def column_section(
    model: Any, table: Any, names: list[str], prediction: Any, background: Any
) -> ExplanationSection:
    """Return the contributions of the columns, from the mean prediction of other rows."""
    others = background_sample(background)
    limit = prediction_limit(model)
    here, baseline, parts, errors, n_others = column_contributions(
        outputs_of(model), table, others, limit
    )
    at, what = 0, "The prediction"
    if hasattr(model, "classes_"):
        at = model.classes_.tolist().index(prediction)
        has_proba = hasattr(model, "predict_proba")
        what = f"The {'probability of' if has_proba else 'vote for'} {show(prediction)}"
    values = values_of(table)
    order = np.argsort(-np.abs(parts[:, at]), kind="stable")
    rows = [(names[j], values[j], float(parts[j, at])) for j in order]
    summary = (
        f"{what} is {show(here[at])}; the mean over {n_others} other rows is {show(baseline[at])}. "
        "These contributions (Shapley values, sampled with standard errors of at most "
        f"{show(errors[:, at].max())}) add up to the difference."
    )
    return ExplanationSection(
        "columns",
        "Columns",
        summary,
        ("column", "value", "contribution"),
        rows,
        "contribution",
        {"prediction": float(here[at]), "baseline": float(baseline[at])},
    )


def column_contributions(
    outputs: Callable[[Any], np.ndarray], table: Any, others: Any, limit: int = _MOST_PREDICTIONS
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]:
    r"""Return Shapley values of the columns of a row, by sampled orders.

    Other rows :math:`b` become the row :math:`x` one column at a time, in a random order and in
    its reverse, and every change of :math:`f` is credited to the column that changed. The changes
    of one order add up to :math:`f(x) - f(b)`, so contributions add up to :math:`f(x)` minus the
    mean of :math:`f(b)` for any sampled orders; for additive :math:`f` every order gives the same.

    Parameters
    ----------
    outputs : callable
        Predictions :math:`f` of the rows of a table, of shape (n_rows, n_outputs).
    table, others : array, sparse matrix or frame
        One row, and others.
    limit : int
        Largest number of predictions. If it does not allow all other rows, quantiles of their
        predictions are used, whose mean is nearly that of all.

    Returns
    -------
    here, baseline : ndarray of shape (n_outputs,)
        Prediction of the row, and mean prediction of the others.
    contributions : ndarray of shape (n_columns, n_outputs)
        Their sum over the columns is ``here - baseline``.
    errors : ndarray of shape (n_columns, n_outputs)
        Standard errors of the contributions, from those of each other row.
    n_others : int
        How many other rows were used.
    """
    rows = MixedRows(table, others)
    differs = rows.differs()
    counts = differs.sum(axis=1)
    here, base = outputs(table)[0], outputs(others)
    affordable = max(_LEAST_ROWS, int(limit / max(1.0, 2.0 * float(counts.mean()))))
    used = _quantile_rows(base, min(len(counts), affordable))
    base = base[used]
    rng = np.random.RandomState(0)
    orders = []
    for at, other in enumerate(used.tolist()):
        order = rng.permutation(np.flatnonzero(differs[other]))
        orders += [(at, other, order), (at, other, order[::-1])]
    parts = np.zeros((len(used), differs.shape[1], len(here)))
    for batch in _batches(orders):
        check_stopped()
        index = np.vstack([_steps(other, order, parts.shape[1]) for _, other, order in batch])
        between = outputs(rows.take(index)) if len(index) else np.empty((0, len(here)))
        for at, _, order in batch:
            own, between = np.split(between, [max(0, len(order) - 1)])
            if len(order):
                parts[at, order] += 0.5 * np.diff(np.vstack([base[at], own, here]), axis=0)
    total = parts.mean(axis=0)
    errors = parts.std(axis=0) / np.sqrt(max(1, len(used) - 1))
    # Columns that the model does not use change nothing but the rounding.
    total[np.abs(total) <= 1e-12 * np.maximum(1.0, np.abs(here))] = 0.0
    return here, base.mean(axis=0), total, errors, len(used)


def _quantile_rows(base: np.ndarray, n_rows: int) -> np.ndarray:
    """Return so many rows at equal quantiles of the output that varies most, ascending."""
    order = np.argsort(base[:, base.var(axis=0).argmax()], kind="stable")
    middles = (np.arange(n_rows) + 0.5) * len(order) / n_rows
    return np.sort(order[middles.astype(np.int64)])


def _batches(orders: list[tuple]) -> Iterator[list[tuple]]:
    """Group orders so that each group needs about as many predictions as one call."""
    group: list[tuple] = []
    size = 0
    for one in orders:
        if group and size + len(one[2]) > _BATCH:
            yield group
            group, size = [], 0
        group.append(one)
        size += len(one[2])
    yield group


def _steps(other: int, order: np.ndarray, n_columns: int) -> np.ndarray:
    """Return where the cells of all rows between another row and the row come from."""
    n = max(0, len(order) - 1)
    moved = np.zeros((n, n_columns), dtype=bool)
    moved[:, order[:-1]] = np.tri(n, dtype=bool)
    return np.where(moved, 0, other + 1)
