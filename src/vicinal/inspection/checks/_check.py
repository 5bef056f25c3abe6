"""Check a table before a model is fitted to it."""

from collections import Counter
from difflib import get_close_matches
from typing import Any

import numpy as np
from scipy import sparse, stats
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_array, check_consistent_length, check_random_state

from vicinal._base import check_is_table, check_labels, counted, is_frame, narrowed
from vicinal._base._compat import num_samples, rows_of
from vicinal._base._tables import column_names, is_missing, sampled_rows
from vicinal._conformal import HeldOutRows
from vicinal.inspection.checks._findings import Findings, TableCheck, table_of
from vicinal.inspection.checks._profile import Column, EncodedTable, columns_of, described
from vicinal.inspection.checks._targets import (
    far_targets,
    is_classification,
    label_issues,
    leaking_columns,
)
from vicinal.local import LocalClassifier, LocalRegressor
from vicinal.table import TableEncoder

# Significance level of drift: small, because a check is run often and tests much else.
_LEVEL = 0.001
# Share of the rows, those farthest from all others, whose targets are not judged.
_APART = 0.01
# Share of rows with one value that makes a column nearly constant; share of missing values.
_NEARLY_ALL, _MOST = 0.99, 0.5
# Beginnings of encoder remarks that are findings: unused columns, coded missing values.
_REPORTED = ("left", "kept", "-9")
# Numbers that differ by less than this share of a column's spread were the same before rounding.
_RELATIVE = 1e-9
# Rows of each table, folds and neighbours of the classifier that distinguishes two tables.
_DRIFT_ROWS, _N_FOLDS, _N_NEIGHBORS = 1000, 5, 40
# A class is rare with fewer rows than this share of the largest, or than folds.
_RARE_CLASS, _FEWEST = 0.1, 5
# A category with this count is usual; columns of more categories are not judged by single rows;
# a category is compared with those that are so many times more frequent.
_USUAL, _MOST_USUAL, _RARER = 10, 20, 3
# Names of classes with this share of their letters in common may be one name, mistyped.
_ALIKE = 0.85


def check(
    X: Any,
    y: Any = None,
    *,
    against: Any = None,
    held_out: Any = None,
    task=None,
    target: str = "target",
    random_state=0,
) -> TableCheck:
    """Check a table for problems that mislead a model or its evaluation.

    Finds labels that similar rows contradict, duplicate rows, columns that leak the target or are
    uninformative, categories that may be mistyped, and rare classes; with new rows also drift and
    rows that are in both tables. Targets of the 1 % of rows that are farthest from all others are
    not judged. Columns that number or name the rows are reported; duplicates, drift and overlap are
    computed without them. Ten thousand rows take seconds.

    Parameters
    ----------
    X : {array-like, data frame} of shape (n_samples, n_features)
        The table.
    y : array-like of shape (n_samples,), default=None
        Target; without it, the checks that need it are skipped.
    against : {array-like, data frame} of shape (n_queries, n_features), default=None
        Rows to predict; further columns of a frame are ignored.
    held_out : estimator or array-like, default=None
        Held-out predictions by which labels are judged, as in :func:`label_issues`; ``None`` uses
        leave-one-out predictions of a local model.
    task : {"classification", "regression"}, default=None
        Type of the target; ``None`` treats strings, and integers of few values, as classes.
    target : str, default="target"
        Name of the target.
    random_state : int, RandomState instance or None, default=0
        Seed of rows and folds.

    Returns
    -------
    TableCheck
        ``found`` lists the checks that found something. ``result["labels"]`` is one check:
        ``labels``, ``repeats``, ``leaks``, ``columns``, ``categories``, ``imbalance``, ``drift`` or
        ``overlap``, each with a ``summary`` and a table. ``profile`` describes the columns: type,
        missing values, distribution, relation to the target, correlations. ``to_frame()`` and
        ``to_dict()`` hold all findings; :func:`vicinal.report.write_html` writes them as a page.

    See Also
    --------
    label_issues, drift : Two of the checks, with more options.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from vicinal.inspection import check
    >>> X, y = load_iris(return_X_y=True)
    >>> y[::20] = (y[::20] + 1) % 3  # eight labels are wrong
    >>> found = check(np.column_stack([X, np.ones(150)]), y)
    >>> found.found
    ['labels', 'repeats', 'columns']
    >>> found["labels"]["row"][:8].tolist()
    [40, 0, 100, 20, 140, 120, 80, 60]
    >>> print(found["columns"])
    1 column of 5 is uninformative:
    column                            issue  share
        x4  left out, one value in all rows      1
    """
    X, against = _table(X), _table(against)
    findings: dict[str, Findings] = {}
    # Without statistics of the target: they are made of the very labels that are judged.
    encoded = EncodedTable(X)
    Z, encoder = encoded.Z, encoded.encoder
    rows, has_classes = _without_identifiers(X, encoder), False
    if y is None:
        findings["repeats"] = duplicate_rows(rows)
    else:
        check_consistent_length(X, y)
        y = _one_target(y)
        has_classes = is_classification(y, task)
        findings["labels"] = _labels(Z, y, has_classes, held_out)
        findings["repeats"] = duplicate_rows(rows, y)
        findings["leaks"] = leaking_columns(X, y, task=task, random_state=random_state)
        if has_classes:
            findings["imbalance"] = rare_classes(y)
    columns = columns_of(X, encoded, y, target, has_classes)
    findings["columns"] = column_issues(X, encoder)
    findings["categories"] = unusual_categories(columns)
    if against is not None:
        against = _without_identifiers(against, encoder)
        findings["drift"] = drift(rows, against, level=_LEVEL, random_state=random_state)
        findings["overlap"] = overlap(rows, against)
    _add_flags(columns, findings)
    n_rows, n_columns = X.shape
    return TableCheck(findings, n_rows, n_columns, described(columns, n_columns))


def _table(X: Any) -> Any:
    """Return a frame as it is, and anything else as an array."""
    check_is_table(X)
    if X is None or is_frame(X):
        return X
    return check_array(X, dtype=None, ensure_all_finite=False)


def _without_identifiers(X: Any, encoder: TableEncoder) -> Any:
    """Return the columns that neither number nor name the rows."""
    unused = encoder.identifiers_
    if not is_frame(X):
        return X[:, [j for j, name in enumerate(encoder.kinds_) if name not in unused]]
    return X[[name for name in X.columns if str(name) not in unused]]


def _one_target(y: Any) -> np.ndarray:
    """Return the targets as an array of one dimension."""
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] > 1:
        raise ValueError(f"y has {y.shape[1]} columns; check the table once for each of them.")
    check_labels(y.ravel())
    return narrowed(y.ravel())


def _labels(Z: np.ndarray, y: np.ndarray, has_classes: bool, held_out: Any) -> Findings:
    """Return labels that held-out predictions contradict, by default those of a local model."""
    if held_out is not None:
        return label_issues(held_out, y)
    metric = "standardized"
    if Z.shape[1] > Z.shape[0]:
        # Principal coordinates have the distances of standardised columns.
        Z = StandardScaler().fit_transform(Z)
        squares, vectors = np.linalg.eigh(Z @ Z.T)
        Z, metric = vectors * np.sqrt(np.maximum(squares, 0.0)), "euclidean"
    if has_classes:
        if len(np.unique(y)) < 2:
            return Findings("All rows have the same label.", {})
        return label_issues(LocalClassifier(alpha=1.0, metric=metric).fit(Z, y).leave_one_out(), y)
    y = y.astype(np.float64)
    predictions = LocalRegressor(metric=metric).fit(Z, y).leave_one_out()
    rows = HeldOutRows(Z, predictions[:, None], y[:, None])
    # A row far from all others is predicted by extrapolation, so no row contradicts its target.
    distances = rows.typicality.means
    is_apart = distances > np.quantile(distances, 1.0 - _APART)
    scale = np.where(is_apart, np.inf, rows.intervals.scale.held_out[:, 0])
    return far_targets(predictions, y, scale, np.arange(len(y)))


def column_issues(X: Any, encoder: TableEncoder) -> Findings:
    """Find columns of one value, of nearly one, without most values, copies, row counters, ids.

    ``encoder`` is fitted to the table.
    """
    rows: list[tuple] = []
    seen: dict[bytes, str] = {}
    for name, values in zip(column_names(X), column_arrays(X), strict=True):
        codes = column_codes(values)
        copied = seen.setdefault(_fingerprint(codes), name)
        is_common = codes == np.bincount(codes).argmax()
        share = float(np.mean(is_common))
        missing = float(np.mean([is_missing(value) for value in values]))
        remarks = [remark for remark in encoder.remarks_[name] if remark.startswith(_REPORTED)]
        if remarks:
            rows.append((name, remarks[0], share))
        elif missing > _MOST:
            rows.append((name, "most values missing", missing))
        elif share >= _NEARLY_ALL:
            rows.append((name, f"{values[is_common.argmax()]!s} in nearly all rows", share))
        elif copied != name:
            rows.append((name, f"the same information as {copied!r}", 1.0))
    n = len(rows)
    disguised = any(row[1].startswith("-9") for row in rows)
    summary = (
        f"{counted(n, 'column')} of {X.shape[1]} {'are' if n > 1 else 'is'} uninformative"
        f"{' or may code missing values as numbers' * disguised}:"
        if rows
        else f"No column of {X.shape[1]} is constant, and none numbers or names the rows."
    )
    return Findings(summary, table_of(rows, {"column": object, "issue": object, "share": float}))


def _fingerprint(codes: np.ndarray) -> bytes:
    """Return what equal columns share; those of few values also if their values are renamed."""
    n_values = codes.max() + 1
    if 2 * n_values <= len(codes):
        first = np.unique(codes, return_index=True)[1]
        codes = np.argsort(np.argsort(first))[codes]
    return codes.tobytes()


def unusual_categories(columns: list[Column]) -> Findings:
    """Find categories that are spelled nearly like others, and single ones among frequent ones."""
    rows = []
    for column in columns:
        if column.shown["kind"] != "category" or column.shown["is_target"]:
            continue
        counts = Counter(str(value) for value in column.values if value is not None)
        usual = [name for name, n in counts.items() if n >= _USUAL]
        few = len(counts) <= _MOST_USUAL and len(usual) > len(counts) / 2
        for name, n in counts.items():
            more = [other for other in counts if counts[other] > _RARER * n]
            alike = _alike(name, np.array(more)) if more else ""
            if alike:
                rows.append((column.shown["name"], name, n, f"spelled like {alike!r}"))
            elif n == 1 and few:
                rows.append((column.shown["name"], name, n, "a single row"))
    kinds = {"column": object, "category": object, "count": np.int64, "issue": object}
    rows.sort(key=lambda row: row[3] == "a single row")
    n = len(rows)
    summary = (
        f"{n} categor{'ies are' if n > 1 else 'y is'} unusual: they may be mistyped, and a model "
        "learns little about them:"
        if rows
        else "No category is spelled like another one or occurs once among frequent ones."
    )
    return Findings(summary, table_of(rows, kinds))


def _add_flags(columns: list[Column], findings: dict[str, Findings]) -> None:
    """Note at each column of the profile what was found about it."""
    texts = {"columns": "", "leaks": "leaks the target", "categories": "unusual categories"}
    flags: dict[str, list[str]] = {}
    for key, text in texts.items():
        for line in map(dict, findings[key].lines() if key in findings else []):
            flags.setdefault(str(line["column"]), []).append(text or str(line["issue"]))
    for column in columns:
        if not column.shown["is_target"]:
            column.shown["flags"] = list(dict.fromkeys(flags.get(column.shown["name"], [])))


def rare_classes(labels: np.ndarray) -> Findings:
    """Find classes with few rows: most scores hardly change if they are never predicted."""
    classes, counts = np.unique(labels, return_counts=True)
    rare = (counts < _RARE_CLASS * counts.max()) | (counts < _FEWEST)
    order = np.flatnonzero(rare)[np.argsort(counts[rare], kind="stable")]
    table = {"label": classes[order], "count": counts[order], "share": counts[order] / len(labels)}
    alike = [_alike(label, classes[~rare]) for label in classes[order]]
    if any(alike):
        table["mistyped?"] = np.array(alike, dtype=object)
    who = f"{len(order)} of {len(classes)} classes have"
    if len(classes) == 1:
        summary = f"Every row has the label {classes[0]!s}; a classifier needs two."
        table = {"label": classes, "count": counts, "share": np.ones(1)}
    elif len(order):
        who = f"The class {classes[order[0]]!s} has" if len(order) == 1 else who
        summary = (
            f"{who} few rows; accuracy hardly depends on them (use balanced accuracy and "
            "class_weight='balanced'):"
        )
    else:
        summary = f"None of the {len(classes)} classes is rare."
    return Findings(summary, table)


def _alike(label: Any, others: np.ndarray) -> str:
    """Return the class whose name is nearly the same, an empty string for none."""
    names = {str(name).casefold().strip(): str(name) for name in others}
    given = str(label).casefold().strip()
    if any(character.isdigit() for character in given):  # codes are alike by nature
        return ""
    return next((names[name] for name in get_close_matches(given, names, 1, _ALIKE)), "")


# --- rows ---


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
    # Stratified: a fold that lacks one table would be predicted as the other.
    seed = int(rng.randint(np.iinfo(np.int32).max))
    folds = StratifiedKFold(min(_N_FOLDS, fewest), shuffle=True, random_state=seed)
    largest = max(len(test) for _, test in folds.split(Z, side))
    k = min(_N_NEIGHBORS, len(Z) - largest)
    classifier = LocalClassifier(n_neighbors=k, alpha=1.0, metric="standardized")
    scores = cross_val_predict(classifier, Z, side, cv=folds, method="predict_proba")[:, 1]
    test = stats.mannwhitneyu(scores[side == 1], scores[side == 0], alternative="greater")
    return float(test.statistic / (len(A) * len(B))), float(test.pvalue)


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
