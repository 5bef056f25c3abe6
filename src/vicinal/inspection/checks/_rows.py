"""Duplicate rows, rows in two tables, and rows from another distribution."""

from typing import Any

import numpy as np
from scipy import sparse, stats
from sklearn.base import clone
from sklearn.model_selection import StratifiedKFold
from sklearn.utils import check_random_state

from vicinal._base import aligned_predictions, cross_fit, is_frame
from vicinal._base._compat import num_samples, rows_of
from vicinal._base._tables import sampled_rows
from vicinal.inspection.checks._findings import Findings, table_of
from vicinal.local import LocalClassifier
from vicinal.table import TableEncoder

# Numbers that differ by less than this share of a column's spread were the same before rounding.
_RELATIVE = 1e-9


def duplicate_rows(X: Any, y: Any = None) -> Findings:
    """Find duplicate rows, equal exactly or up to rounding.

    Duplicates across folds or between training and test rows make scores too good; duplicates with
    different targets limit the accuracy of every model.

    Parameters
    ----------
    X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
        The table.
    y : array-like of shape (n_samples,), default=None
        Targets; duplicates with different targets are counted separately.

    Returns
    -------
    Findings
        One row per set of equal rows, largest first: ``rows`` (their numbers), ``count`` and, with
        y, ``targets`` (how many different ones). ``values`` holds ``n_repeats``, the rows beyond
        the first of each set, and ``n_conflicts``, the sets that disagree.

    Examples
    --------
    >>> import numpy as np
    >>> from vicinal.inspection.checks import duplicate_rows
    >>> X = np.array([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]])
    >>> print(duplicate_rows(X, y=[0, 1, 1]))
    1 of 3 rows repeats another; 1 set of equal rows disagrees about the target.
      rows  count  targets
    [0, 2]      2        2
    """
    order = np.argsort(group := _row_groups([column_arrays(X)]), kind="stable")
    sets = np.split(order, np.cumsum(np.bincount(group))[:-1])
    sets = sorted((s for s in sets if len(s) > 1), key=lambda rows: (-len(rows), rows[0]))
    table: dict[str, Any] = {
        "rows": np.array([str(rows.tolist()) for rows in sets], dtype=object),
        "count": np.array([len(rows) for rows in sets], dtype=np.int64),
    }
    n, n_repeats, n_conflicts = len(group), int(table["count"].sum() - len(sets)), 0
    if y is not None:
        y = np.asarray(y)
        table["targets"] = np.array([len(np.unique(y[rows])) for rows in sets], dtype=np.int64)
        n_conflicts = int((table["targets"] > 1).sum())
    summary = f"{n_repeats} of {n} rows {'repeats' if n_repeats == 1 else 'repeat'} another"
    if n_conflicts == 1:
        summary += "; 1 set of equal rows disagrees about the target"
    elif n_conflicts:
        summary += f"; {n_conflicts} sets of equal rows disagree about the target"
    summary = f"{summary}." if n_repeats else f"No row of {n} repeats another."
    return Findings(summary, table, {"n_repeats": n_repeats, "n_conflicts": n_conflicts})


def overlap(X: Any, new: Any) -> Findings:
    """Find rows of a new table that are among the training rows."""
    new = new[list(X.columns)] if is_frame(X) else new
    n, total = num_samples(X), num_samples(new)
    group = _row_groups([column_arrays(X), column_arrays(new)])
    first = {key: row for row, key in reversed(list(enumerate(group[:n].tolist())))}
    rows = [(i, first[key]) for i, key in enumerate(group[n:].tolist()) if key in first]
    summary = (
        f"{len(rows)} of {total} new rows are among the training rows:"
        if rows
        else f"None of {total} new rows is among the training rows."
    )
    return Findings(summary, table_of(rows, {"new row": np.int64, "training row": np.int64}))


def _row_groups(tables: list[list[np.ndarray]]) -> np.ndarray:
    """Return a number for each row of the tables, one below the other; equal rows have one."""
    codes = [column_codes(np.concatenate(parts)) for parts in zip(*tables, strict=True)]
    return np.unique(np.column_stack(codes), axis=0, return_inverse=True)[1].ravel()


def column_arrays(X: Any) -> list[np.ndarray]:
    """Return the columns one by one: no array holds numbers, strings and dates together."""
    if is_frame(X):
        return [X[name].to_numpy() for name in X.columns]
    return list((X.toarray() if sparse.issparse(X) else np.asarray(X)).T)


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


_DRIFT_ROWS = 1000
_N_FOLDS, _N_NEIGHBORS = 5, 40


def drift(X_train: Any, X_new: Any, *, level: float = 0.01, random_state=0) -> Findings:
    """Test whether new rows come from the distribution of the training rows.

    A local classifier is trained to distinguish the two tables; they differ if it succeeds on
    held-out rows. Each column is also tested alone.

    Parameters
    ----------
    X_train, X_new : {array-like, data frame} of shape (n_samples, n_features)
        Training rows and new rows.
    level : float, default=0.01
        Significance level: probability of a false alarm.
    random_state : int, RandomState instance or None, default=0
        Seed of the rows used (at most 1,000 of each) and of the folds.

    Returns
    -------
    Findings
        One row per column that differs by itself: ``column``, ``auc`` (how often a new value
        exceeds an old one; 0.5 for no shift), ``distance`` (Kolmogorov and Smirnov's) and
        ``p_value``, corrected for the number of columns. ``values`` holds ``auc`` and ``p_value``
        of all columns together, NaN where a table has one row only; ``bool(result)`` is whether
        the tables differ.

    Examples
    --------
    >>> import numpy as np
    >>> from vicinal.inspection import drift
    >>> rng = np.random.RandomState(0)
    >>> old, new = rng.normal(size=(200, 3)), rng.normal(size=(200, 3))
    >>> new[:, 1] += 1.0
    >>> drift(old, new)["column"].tolist()
    ['x1']
    """
    rng = check_random_state(random_state)
    tables = [X if is_frame(X) else np.asarray(X) for X in (X_train, X_new)]
    old, new = (rows_of(X, sampled_rows(len(X), _DRIFT_ROWS, rng)) for X in tables)
    encoder = TableEncoder(unseen="ignore").fit(old)
    A, B = encoder.transform(old), encoder.transform(new)
    auc, p_value = _separability(A, B, rng)
    table = _drifted_columns(A, B, np.asarray(encoder.sources_), level)
    n = len(table["column"])
    differs = p_value < level or n > 0
    evidence = f"AUC {auc:.2f}, p = {p_value:.2g}"
    if np.isnan(auc):
        evidence = "column by column, because a table has one row"
    if not differs:
        summary = f"The new rows look like the training rows ({evidence})."
    elif n:
        names = ", ".join(repr(str(name)) for name in table["column"][:5])
        summary = f"The new rows differ ({evidence}), most in {names}:"
    else:
        summary = f"The new rows differ ({evidence}), but no single column does."
    values = {"auc": auc, "p_value": p_value, "found": bool(differs)}
    return Findings(summary, table, values)


def _separability(A: np.ndarray, B: np.ndarray, rng) -> tuple[float, float]:
    """Return the AUC of held-out predictions, and its p-value under equal distributions."""
    fewest = min(len(A), len(B))
    if fewest < 2:
        return np.nan, np.nan
    Z = np.vstack([A, B])
    side = np.r_[np.zeros(len(A), dtype=int), np.ones(len(B), dtype=int)]
    seed = int(rng.randint(np.iinfo(np.int32).max))
    # Stratified: a fold that lacks one table would be predicted as the other.
    splitter = StratifiedKFold(min(_N_FOLDS, fewest), shuffle=True, random_state=seed)
    folds = [test for _, test in splitter.split(Z, side)]
    k = min(_N_NEIGHBORS, len(Z) - max(map(len, folds)))
    classifier = LocalClassifier(n_neighbors=k, alpha=1.0, metric="standardized")
    predictions = cross_fit(
        lambda X, y, weight: clone(classifier).fit(X, y),
        lambda model, X: aligned_predictions(model, X, "predict_proba", np.arange(2)),
        Z, side, folds,
    )  # fmt: skip
    side = side[np.concatenate(folds)]
    scores = predictions[:, 1]
    test = stats.mannwhitneyu(scores[side == 1], scores[side == 0], alternative="greater")
    auc = test.statistic / (np.sum(side == 1) * np.sum(side == 0))
    return float(auc), float(test.pvalue)


def _drifted_columns(A: np.ndarray, B: np.ndarray, sources: np.ndarray, level: float) -> dict:
    rows = []
    for j, name in enumerate(sources):
        test = stats.ks_2samp(B[:, j], A[:, j], method="asymp")
        p_value = min(1.0, test.pvalue * len(sources))
        if p_value < level:
            larger = stats.mannwhitneyu(B[:, j], A[:, j]).statistic / (len(A) * len(B))
            rows.append((name, float(larger), float(test.statistic), float(p_value)))
    # One line per source column: that of its clearest part.
    rows.sort(key=lambda row: -row[2])
    kept = list({row[0]: row for row in reversed(rows)}.values())
    kept.sort(key=lambda row: -row[2])
    kinds = {"column": object, "auc": float, "distance": float, "p_value": float}
    return table_of(kept, kinds)
