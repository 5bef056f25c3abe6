"""Rows that are there more than once."""

from typing import Any

import numpy as np
from scipy import sparse

from vicinal._base._compat import num_samples
from vicinal.inspection._findings import Findings

# Numbers that differ by less than this share of a column's spread were the same before rounding.
_RELATIVE = 1e-9


def duplicate_rows(X: Any, y: Any = None) -> Findings:
    """Find rows that repeat others, exactly or up to rounding.

    Repeats across folds or between training and test rows make a model look better than it is;
    repeats with different labels put a floor under its error.

    Parameters
    ----------
    X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
        The table.
    y : array-like of shape (n_samples,), default=None
        Targets; repeats that disagree about them are counted apart.

    Returns
    -------
    Findings
        One row per set of equal rows, largest first: ``rows`` (their numbers), ``count`` and, with
        y, ``targets`` (how many different ones). ``values`` holds ``n_repeats``, the rows beyond
        the first of each set, and ``n_conflicts``, the sets that disagree.

    Examples
    --------
    >>> import numpy as np
    >>> from vicinal.inspection import duplicate_rows
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]])
    >>> print(duplicate_rows(X, y=[0, 1, 1]))
    1 of 3 rows repeats another; 1 set of equal rows disagrees about the target.
      rows  count  targets
    [0, 2]      2        2
    """
    sets = _equal_rows(X)
    table: dict[str, Any] = {
        "rows": np.array([str(list(map(int, rows))) for rows in sets], dtype=object),
        "count": np.array([len(rows) for rows in sets], dtype=np.int64),
    }
    n_repeats = int(table["count"].sum() - len(sets))
    n_conflicts = 0
    if y is not None:
        y = np.asarray(y)
        table["targets"] = np.array([len(np.unique(y[rows])) for rows in sets], dtype=np.int64)
        n_conflicts = int((table["targets"] > 1).sum())
    summary = _summary(n_repeats, num_samples(X), n_conflicts)
    return Findings(summary, table, {"n_repeats": n_repeats, "n_conflicts": n_conflicts})


def _summary(n_repeats: int, n: int, n_conflicts: int) -> str:
    if not n_repeats:
        return f"No row of {n} repeats another."
    verb = "repeats" if n_repeats == 1 else "repeat"
    said = f"{n_repeats} of {n} rows {verb} another"
    if n_conflicts:
        sets = "1 set of equal rows disagrees" if n_conflicts == 1 else (
            f"{n_conflicts} sets of equal rows disagree"
        )  # fmt: skip
        return f"{said}; {sets} about the target."
    return f"{said}."


def _equal_rows(X: Any) -> list[np.ndarray]:
    """Return sets of two or more equal rows, largest first."""
    codes = _codes(X)
    _, group, counts = np.unique(codes, axis=0, return_inverse=True, return_counts=True)
    order = np.argsort(group.ravel(), kind="stable")
    sets = np.split(order, np.cumsum(counts)[:-1])
    return sorted((rows for rows in sets if len(rows) > 1), key=lambda rows: (-len(rows), rows[0]))


def _codes(X: Any) -> np.ndarray:
    """Return integers that are equal where values are."""
    if sparse.issparse(X):
        X = X.toarray()
    return np.column_stack([column_codes(column) for column in _columns(X)])


def _columns(X: Any) -> list[np.ndarray]:
    """Return the columns one by one: no array holds numbers, words and dates together."""
    if hasattr(X, "get_columns"):  # of polars
        return [column.to_numpy() for column in X.get_columns()]
    if hasattr(X, "iloc"):
        return [X.iloc[:, j].to_numpy() for j in range(X.shape[1])]
    return list(np.asarray(X).T)


def column_codes(column: np.ndarray) -> np.ndarray:
    """Return integers that are equal where the values of a column are."""
    if column.dtype.kind in "mM":
        return np.unique(column.astype(np.int64), return_inverse=True)[1]
    try:
        values = column.astype(np.float64)
    except (TypeError, ValueError):
        return np.unique(np.array([repr(value) for value in column]), return_inverse=True)[1]
    known = np.isfinite(values)
    spread = np.ptp(values[known]) if known.any() else 0.0
    if spread > 0.0 and np.isfinite(spread):
        values = np.where(
            known, np.round((values - values[known].min()) / (_RELATIVE * spread)), values
        )
    return np.unique(values, return_inverse=True)[1]
