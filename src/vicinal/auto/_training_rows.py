"""Training rows as they were written, for the reasons of a mixture."""

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


def _kept(column: Any) -> tuple[list[str | None] | None, np.ndarray]:
    """Return numbers as they are, and all else as texts and which of them each row holds."""
    values = np.asarray(column)
    if values.dtype.kind in "biuf":
        return None, values
    texts = [None if _is_gap(value) else str(value) for value in column]
    levels = dict.fromkeys(texts)
    codes = {level: code for code, level in enumerate(levels)}
    return list(levels), np.array([codes[text] for text in texts])


def _is_gap(value: Any) -> bool:
    # A gap of pandas is neither equal to itself nor a truth value.
    return value is None or type(value).__name__ in ("NAType", "NaTType") or value != value
