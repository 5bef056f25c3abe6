"""Rows put together from one row and others, column by column, in tables of any kind."""

from typing import Any

import numpy as np
from scipy import sparse


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
