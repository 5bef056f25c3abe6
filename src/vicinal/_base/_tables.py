"""Column names, values and rows of arrays, sparse matrices and data frames."""

from decimal import Decimal
from numbers import Number
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_random_state

from vicinal._base._validation import is_frame


def column_names(table: Any, model: Any = None) -> list[str]:
    """Return the names of the columns: the table's, the model's, or x0, x1, ..."""
    names = table.columns if is_frame(table) else getattr(model, "feature_names_in_", None)
    if names is None:
        names = [f"x{j}" for j in range(table.shape[1])]
    return [str(name) for name in names]


def column_values(table: Any, j: int) -> list[Any]:
    """Return column ``j`` as plain values, ``None`` for a missing one."""
    if hasattr(table, "get_columns"):  # polars
        values = table.to_series(j).to_list()
    elif is_frame(table):
        values = table.iloc[:, j].astype(object).tolist()
    elif sparse.issparse(table):
        values = table[:, [j]].toarray().ravel().tolist()
    else:
        values = np.asarray(table)[:, j].tolist()
    return [None if is_missing(value) else value for value in values]


def are_numbers(cells: list[Any]) -> bool:
    """Return whether plain values, ``None`` for a missing one, are those of a numeric column."""
    known = [cell for cell in cells if cell is not None]
    return bool(known) and all(
        isinstance(cell, int | float) and not isinstance(cell, bool) for cell in known
    )


def is_missing(value: Any) -> bool:
    """Return whether a value is missing: ``None``, NaN, NaT or the NA of pandas."""
    # NA and NaT of pandas, and lists of polars, have no truth value; NaN differs from itself.
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, Number | Decimal | np.generic) and bool(value != value)


class ColumnCodes:
    """Codes of the categories of columns that hold anything but numbers.

    Categories count in the order of their first cells; a missing one is one of them. One and True
    are equal, but not the same category.

    Parameters
    ----------
    columns : dict of int to list
        Cells of the columns of categories, by number of the column.
    """

    def __init__(self, columns: dict[int, list[Any]]) -> None:
        self.categories = {
            j: [cell for _, cell in dict.fromkeys((type(cell), cell) for cell in cells)]
            for j, cells in columns.items()
        }

    def codes(self, j: int, cells: list[Any]) -> np.ndarray:
        """Return the codes of cells of a column as floats."""
        number = {(type(cell), cell): code for code, cell in enumerate(self.categories[j])}
        return np.array([number[type(cell), cell] for cell in cells], dtype=np.float64)

    def cells(self, j: int, codes: np.ndarray) -> list[Any]:
        """Return the categories that codes of a column stand for."""
        return [self.categories[j][code] for code in np.round(codes).astype(np.int64)]


def sampled_rows(n_rows: int, at_most: int, random_state: Any) -> np.ndarray:
    """Return the indices of all rows, or of a random sample of ``at_most``, in order."""
    if n_rows <= at_most:
        return np.arange(n_rows)
    return np.sort(check_random_state(random_state).choice(n_rows, at_most, replace=False))


def spread_rows(n_rows: int, at_most: int) -> np.ndarray:
    """Return the indices of ``at_most`` rows, spread evenly over a table, in order."""
    return np.unique(np.linspace(0, n_rows - 1, min(n_rows, at_most)).round().astype(np.int64))
