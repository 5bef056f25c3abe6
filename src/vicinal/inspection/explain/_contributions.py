"""What each column of the table contributes to an answer, so that the parts add up."""

from typing import Any

import numpy as np
from scipy import sparse

from vicinal._base._compat import num_samples, rows_of
from vicinal._base._explanation import ExplanationSection, show, values_of
from vicinal._base._stopping import check_stopped

# Other rows that the row is compared with, fewer where so many answers would be asked for.
_MOST_ROWS, _LEAST_ROWS = 60, 8
_MOST_ANSWERS = 12_000
# Answers asked for at a time: so few of a small table that nothing is compiled for them.
_ANSWERS = 512


def column_section(
    model: Any, table: Any, names: list[str], prediction: Any, background: Any
) -> ExplanationSection:
    """Return the contributions of the columns to the answer, against the mean of other rows."""
    others = rows_of(background, _spread(num_samples(background), _MOST_ROWS))
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
    counts = rows.differs.sum(axis=1)
    used = _spread(len(counts), _affordable(counts))
    here, base = float(answer(table)[0]), np.asarray(answer(rows_of(others, used)), dtype=float)
    rng = np.random.RandomState(0)
    ways = []
    for at, other in enumerate(used.tolist()):
        order = rng.permutation(np.flatnonzero(rows.differs[other]))
        ways += [(at, other, order), (at, other, order[::-1])]
    total = np.zeros(rows.differs.shape[1])
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


def _spread(n: int, at_most: int) -> np.ndarray:
    """Return positions evenly over n rows."""
    return np.unique(np.linspace(0, n - 1, min(n, at_most)).round().astype(np.int64))


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


class MixedRows:
    """Tables whose cells are taken from a row, or from another row.

    Parameters
    ----------
    row, others : array, sparse matrix or frame
        One row, and others like it.

    Attributes
    ----------
    differs : ndarray of bool of shape (n_others, n_columns)
        Where another row has another value.
    """

    def __init__(self, row: Any, others: Any) -> None:
        self.template = row
        if hasattr(row, "columns"):
            self.columns = [_joined(row, others, j) for j in range(row.shape[1])]
            self.differs = np.column_stack([_differs(cells) for cells in self.columns])
        elif sparse.issparse(row):
            both = sparse.vstack([row, others]).tocsc()
            self.active = np.flatnonzero(np.diff(both.indptr))
            self.cells = both[:, self.active].toarray()
            self.differs = np.zeros((others.shape[0], row.shape[1]), dtype=bool)
            self.differs[:, self.active] = self.cells[1:] != self.cells[0]
        else:
            self.cells = np.vstack([np.asarray(row), np.asarray(others)])
            self.differs = np.column_stack([_differs(cells) for cells in self.cells.T])

    def take(self, index: np.ndarray) -> Any:
        """Return a table like the row.

        Parameters
        ----------
        index : ndarray of int of shape (n_rows, n_columns)
            Where each cell comes from: 0 for the row, 1, 2, ... for the others.
        """
        if hasattr(self.template, "columns"):
            names = list(self.template.columns)
            parts = [_taken(cells, index[:, j]) for j, cells in enumerate(self.columns)]
            return type(self.template)(dict(zip(names, parts, strict=True)))
        if not sparse.issparse(self.template):
            return self.cells[index, np.arange(index.shape[1])]
        cells = self.cells[index[:, self.active], np.arange(len(self.active))]
        at, column = np.nonzero(cells)
        shape = (len(index), self.template.shape[1])
        return sparse.csr_matrix((cells[at, column], (at, self.active[column])), shape=shape)


def _joined(row: Any, others: Any, j: int) -> Any:
    """Return a column of the row and of the others as one series, with positions from 0."""
    if hasattr(row, "with_columns"):  # polars
        return row.to_series(j).cast(others.schema[others.columns[j]]).append(others.to_series(j))
    first, rest = row.iloc[:, j], others.iloc[:, j]
    kind = type(first)
    cells = kind(np.concatenate([np.asarray(first), np.asarray(rest)]))
    # What fits the column of the others is of its kind: categories stay categories.
    return cells.astype(rest.dtype) if not _loses(cells, rest.dtype) else cells


def _taken(cells: Any, index: np.ndarray) -> Any:
    is_pandas = hasattr(cells, "iloc")
    return cells.iloc[index].reset_index(drop=True) if is_pandas else cells[index]


def _loses(cells: Any, dtype: Any) -> bool:
    """Tell whether values would change if they were made to be of some kind."""
    try:
        return bool(_unequal(cells.to_numpy(), cells.astype(dtype).to_numpy()).any())
    except (TypeError, ValueError):
        return True


def _differs(cells: Any) -> np.ndarray:
    """Tell which values of a column differ from the first; gaps are alike."""
    values = cells.to_numpy() if hasattr(cells, "to_numpy") else cells
    return _unequal(values[1:], values[0])


def _unequal(a: np.ndarray, b: Any) -> np.ndarray:
    a, b = np.broadcast_arrays(np.asarray(a, dtype=object), np.asarray(b, dtype=object))
    return np.array([not _same(p, q) for p, q in zip(a, b, strict=True)])


def _same(p: Any, q: Any) -> bool:
    if p is q:
        return True
    try:
        return bool(p == q) or bool(p != p and q != q)
    except TypeError:  # pandas' NA equals nothing and nobody
        return False
