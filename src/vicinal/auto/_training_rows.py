"""Training rows as they were written, for the reasons of a mixture."""

from decimal import Decimal
from numbers import Number
from typing import Any

import numpy as np
from scipy import sparse

from vicinal._base import saved


@saved()
class TrainingRows:
    """The table that a mixture was fitted to.

    Parameters
    ----------
    X : frame, array or sparse matrix of shape (n_samples, n_features)
        The table; an array is kept as it is.
    names : list of str
        Names of its columns.
    """

    def __init__(self, X: Any, names: list[str]) -> None:
        self.names = names
        self.table = [_kept(X[name]) for name in X.columns] if hasattr(X, "columns") else X

    def cells(self, name: str, rows: np.ndarray) -> list[Any]:
        """Return what rows hold in a column; ``None`` is a gap."""
        j = self.names.index(name)
        if not isinstance(self.table, list):
            column = self.table[rows][:, j]
            return (column.toarray().ravel() if sparse.issparse(column) else column).tolist()
        levels, values = self.table[j]
        cells = values[rows].tolist()
        return cells if levels is None else [levels[code] for code in cells]

    def like(self, X: Any, at_most: int) -> Any:
        """Return rows spread over the table, as a table of the kind of X.

        ``None`` where cells cannot be read back: lists, and durations of polars.
        """
        n_rows = self.table.shape[0] if not isinstance(self.table, list) else len(self.table[0][1])
        rows = spread_rows(n_rows, at_most)
        if not hasattr(X, "columns"):
            return self.table[rows]
        try:
            columns = {name: self._column(X[name], str(name), rows) for name in X.columns}
        except ValueError:
            return None
        return type(X)(columns)

    def _column(self, given: Any, name: str, rows: np.ndarray) -> Any:
        """Return a column as a series of the kind given: of its type, where that is no number."""
        if any(isinstance(cell, dict) or np.ndim(cell) > 0 for cell in given):
            raise ValueError(f"{name!r} holds nested values.")
        cells: Any = self.cells(name, rows)
        if not isinstance(self.table, list) or self.table[self.names.index(name)][0] is None:
            return type(given)(cells)
        if hasattr(given, "astype"):
            column = type(given)(cells)
            is_plain = getattr(given.dtype, "kind", "O") in "biufmM"
            return column.astype(given.dtype) if is_plain else column
        if given.dtype.is_temporal():
            cells = np.array(cells, dtype="datetime64[us]")
        return type(given)(cells).cast(given.dtype)


def spread_rows(n_rows: int, at_most: int) -> np.ndarray:
    """Return the numbers of rows spread evenly over a table, in their order."""
    return np.unique(np.linspace(0, n_rows - 1, min(n_rows, at_most)).round().astype(np.int64))


def _kept(column: Any) -> tuple[list[Any] | None, np.ndarray]:
    """Return numbers as they are, of all else the levels and which of them each row holds."""
    values = np.asarray(column)
    if values.dtype.kind in "biuf":
        return None, values
    cells = [None if _is_gap(value) else _plain(value) for value in column]
    # One and True are equal, but not the same level.
    keys = [(type(cell), cell) for cell in cells]
    codes = {key: code for code, key in enumerate(dict.fromkeys(keys))}
    return [cell for _, cell in codes], np.array([codes[key] for key in keys])


def _plain(value: Any) -> Any:
    """Return a truth value or a number of a mixed column as it is, and all else as text."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, bool | int | float) else str(value)


def _is_gap(value: Any) -> bool:
    # A gap of pandas is no truth value, a list of polars neither; NaN differs from itself.
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, Number | Decimal | np.generic) and bool(value != value)
