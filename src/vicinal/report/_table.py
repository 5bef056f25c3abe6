"""Columns of a table, be it an array or a frame of pandas or polars."""

import math
from typing import Any

import numpy as np

from vicinal._base import is_frame
from vicinal.table import TableEncoder


def column_names(X: Any) -> list[str]:
    """Return the names of the columns; of an array, x0, x1, ..."""
    return (
        [str(name) for name in X.columns] if is_frame(X) else [f"x{j}" for j in range(X.shape[1])]
    )


def column_values(X: Any, j: int) -> list[Any]:
    """Return a column as plain values, ``None`` for a gap."""
    if hasattr(X, "get_columns"):
        values = X.to_series(j).to_list()
    elif is_frame(X):
        values = X.iloc[:, j].astype(object).tolist()
    else:
        values = np.asarray(X)[:, j].tolist()
    return [None if _is_gap(value) else value for value in values]


def column_in_order(X: Any, j: int) -> tuple[list[Any], str]:
    """Return a column by which rows can be ordered, and "number", "date" or "level".

    Numbers in words become numbers, dates a count of days; levels stay as they are.
    """
    values = column_values(X, j)
    if all(isinstance(value, int | float) for value in values if value is not None):
        return values, "number"
    if not is_frame(X):
        return values, "level"
    column = X[[X.columns[j]]]
    encoder = TableEncoder("tree")
    try:
        counts = encoder.fit_transform(column)[:, -1]
    except ValueError:  # an identifier
        return values, "level"
    kind = next(iter(encoder.kinds_.values()))
    if kind not in ("number", "date"):
        return values, "level"
    return [None if np.isnan(count) else float(count) for count in counts], kind


def with_column(X: Any, j: int, source: Any, index: np.ndarray) -> Any:
    """Return the rows with column ``j`` taken from rows ``index`` of another such table.

    Every cell is one that was seen, so integers stay integers and levels stay levels.
    """
    if hasattr(X, "get_columns"):
        return X.with_columns(source.to_series(j)[index.tolist()])
    if is_frame(X):
        changed = X.copy()
        changed[X.columns[j]] = source.iloc[index, j].set_axis(X.index)
        return changed
    changed = np.array(X)
    changed[:, j] = np.asarray(source)[index, j]
    return changed


class EncodedTable:
    """A table in numbers, each column with a name that says what it stands for.

    Parameters
    ----------
    X : data frame or ndarray
        The table.
    """

    def __init__(self, X: Any) -> None:
        self.encoder = TableEncoder().fit(X)
        self.kinds = list(self.encoder.kinds_.values())
        self.Z = np.asarray(self.encoder.transform(X), dtype=float)
        self.names = [str(name) for name in self.encoder.get_feature_names_out()]
        sources = [str(source) for source in self.encoder.sources_]
        texts = {name for name, kind in self.encoder.kinds_.items() if kind == "text"}
        self.is_nameable = np.array([source not in texts for source in sources], dtype=bool)
        self.sources = sources

    def numbers(self, name: str) -> np.ndarray:
        """Return a column of numbers as it was read."""
        return self.Z[:, self.sources.index(name)]


def _is_gap(value: Any) -> bool:
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(value, float) and math.isnan(value)
