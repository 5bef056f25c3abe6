"""Validation beyond scikit-learn's, or with messages that name the remedy."""

from collections import Counter
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from vicinal._base._compat import check_sample_weight


def encode_labels(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted classes and the code of each label; at least two classes are required."""
    check_labels(y)
    y = narrowed(y)
    check_classification_targets(y)
    classes, codes = np.unique(y, return_inverse=True)
    check_two_classes(classes)
    return classes, codes


def narrowed(y: np.ndarray) -> np.ndarray:
    """Return objects that are all Booleans, integers or decimals as an array of that type."""
    if y.dtype == object:
        kinds = (bool | np.bool_, np.bool_), (int | np.integer, np.int64), (Decimal, np.float64)
        for kind, dtype in kinds:
            if all(isinstance(value, kind) for value in y.flat):
                return y.astype(dtype)
    return y


def check_labels(y: np.ndarray) -> None:
    """Raise for missing labels, which cannot be sorted."""
    if y.dtype.kind not in "Of":
        return
    missing = [i for i, label in enumerate(y) if label is None or label != label]
    if missing:
        raise ValueError(
            f"y has {len(missing)} missing label(s), the first in row {missing[0]}; drop these "
            "rows from X and y."
        )


def check_two_classes(classes: np.ndarray) -> None:
    """Raise for fewer than two classes."""
    if not len(classes):
        raise ValueError("y is empty (n_samples=0), but a classifier needs samples of two classes.")
    if len(classes) < 2:
        raise ValueError(
            f"y holds one class only ({classes.tolist()[0]!r}); a classifier needs samples of at "
            "least two classes. Check how y was selected, or use sklearn.dummy.DummyClassifier."
        )


def class_factors(
    class_weight: Any, classes: np.ndarray, codes: np.ndarray, weights: np.ndarray
) -> np.ndarray:
    """Return the factor of every class; "balanced" counts a row of weight 2 twice."""
    if not isinstance(class_weight, str):
        return compute_class_weight(class_weight, classes=classes, y=classes[codes])
    counts = np.bincount(codes, weights=weights, minlength=len(classes))
    return weights.sum() / (len(classes) * counts)


def column_mask(columns: Any, n_features: int, names: Any, name: str) -> np.ndarray:
    """Return a mask of columns given as numbers, names or a mask; ``name`` is the parameter."""
    mask = np.zeros(n_features, dtype=bool)
    given, columns = columns, np.atleast_1d(np.asarray(() if columns is None else columns))
    if columns.size == 0:
        return mask
    if columns.dtype == bool and len(columns) == n_features:
        return columns.copy()
    if columns.dtype.kind in "OUS":
        known = [] if names is None else list(names)
        missing = [str(column) for column in columns if column not in known]
        if missing:
            are = f"are {known}" if known else "have no names; give their numbers"
            raise ValueError(f"{name} names {missing}, but the columns {are}.")
        columns = np.array([known.index(column) for column in columns])
    is_number = columns.dtype.kind in "iu"
    if not is_number or columns.min() < -n_features or columns.max() >= n_features:
        raise ValueError(f"{name}={given!r} must name some of the {n_features} columns of X.")
    mask[columns] = True
    return mask


# Above 2^53 floats do not represent every integer; below the other, products of weights underflow.
_LARGEST_TOTAL = 2.0**53
_SMALLEST_WEIGHT = 1e-100
# Largest value whose sums of squares stay finite, by bytes of the float.
_LARGEST = {4: 1e17, 8: 1e150}


def check_weights(sample_weight: Any, X: Any, *, dtype: Any = np.float64) -> np.ndarray:
    """Return weights as a vector, ones for ``None``; negative or extreme ones raise."""
    weights = check_sample_weight(sample_weight, X, dtype=dtype)
    if sample_weight is None:
        return weights
    if weights.min() < 0:
        raise ValueError(
            f"sample_weight holds negative values (smallest {weights.min():g}), but must be at "
            "least 0; use weight 0 to exclude a row."
        )
    with np.errstate(over="ignore"):
        total = float(weights.sum(dtype=np.float64))
    if total > _LARGEST_TOTAL or 0 < weights.max() < _SMALLEST_WEIGHT:
        raise ValueError(
            f"sample_weight sums to {total:.3g}, with a largest value of {weights.max():.3g}, "
            "which is beyond the range of exact sums; divide them by their mean."
        )
    return weights


def check_groups(groups: Any, n_rows: int) -> np.ndarray | None:
    """Return groups as a vector with an entry for every row, or ``None``."""
    if groups is None:
        return None
    groups = np.asarray(groups)
    if groups.shape != (n_rows,):
        raise ValueError(
            f"groups has shape {groups.shape} for {n_rows} rows of X; pass one entry per row, the "
            "same for rows of one group."
        )
    return groups


def check_magnitude(name: str, values: Any, dtype: Any = np.float64) -> None:
    """Raise if numbers are so large that sums of their squares overflow.

    ``dtype`` is that of the predictions, if it is narrower than that of the numbers. Only arrays
    of floats are checked; other input and infinities are left to the estimator's validation.
    """
    has_types = hasattr(values, "shape") and hasattr(values, "dtypes")
    if not (sparse.issparse(values) or isinstance(values, np.ndarray) or has_types):
        return
    if is_frame(values) and not all(map(_is_number, values.dtypes)):
        return
    if sparse.issparse(values):
        # These formats have no array of values.
        values = (values.tocoo() if values.format in ("dok", "lil") else values).data
    numbers = np.asarray(values)
    if numbers.dtype.kind != "f" or not numbers.size:
        return
    largest = max(float(numbers.max()), -float(numbers.min()))
    narrow = min(numbers.dtype, np.dtype(dtype), key=lambda kind: kind.itemsize)
    limit = _LARGEST[4] if narrow.itemsize <= 4 else _LARGEST[8]
    if limit < largest < np.inf:
        raise ValueError(
            f"{name} holds {largest:.3g}, but squares of {narrow} numbers above {limit:.0e} "
            f"overflow, so scale {name} first, for example divide it by {largest:.0e}."
        )


def check_no_dates(y: Any) -> None:
    """Raise for targets that are dates or durations, whose unit a prediction would not have."""
    dtype = str(getattr(y, "dtype", ""))  # of NumPy, pandas or polars
    if dtype.lower().startswith(("date", "timedelta", "duration")):
        raise ValueError(f"y has the type {dtype}, but must hold numbers, such as days since 1970.")


def no_numbers_in(X: Any) -> str | None:
    """Return a message about the first column that is not numeric, ``None`` if all are."""
    if not is_frame(X) or not hasattr(X, "dtypes"):
        return None
    found = (pair for pair in zip(X.columns, X.dtypes, strict=True) if not _is_number(pair[1]))
    return next(
        (f"the column {name!r} of X is not numeric ({dtype})" for name, dtype in found), None
    )


def _is_number(dtype: Any) -> bool:
    """Return whether a dtype of pandas or polars is numeric."""
    return dtype.is_numeric() if hasattr(dtype, "is_numeric") else dtype.kind in "biuf"


def positive_rows(sample_weight: Any, X: Any, *arrays: Any) -> tuple:
    """Return (weights, X, *arrays) without the rows of weight zero.

    They are dropped first, so that weight 0 equals removal by construction.
    """
    weights = check_weights(sample_weight, X)
    kept = np.flatnonzero(weights)
    if len(kept) == len(weights):
        return (weights, X, *arrays)
    return tuple(part[kept] for part in (weights, X, *arrays))


def codes_among(labels: Any, classes: np.ndarray) -> np.ndarray:
    """Return the code of each label among the classes of an earlier fit."""
    unknown = np.setdiff1d(labels, classes)
    if len(unknown):
        raise ValueError(
            f"the label {unknown.tolist()[0]!r} is not among classes={classes.tolist()!r}; pass "
            "all labels to the first fit."
        )
    return np.searchsorted(classes, labels)


def check_parameters(estimator: Any) -> None:
    """Raise for a parameter that ``fit`` would refuse, if the class declares constraints."""
    if hasattr(estimator, "_parameter_constraints"):
        estimator._validate_params()


def is_ready(estimator: Any, X: Any, dtype: Any) -> bool:
    """Return whether validation would return the queries unchanged.

    scikit-learn's validation takes longer than the prediction of a single row.
    """
    return (
        type(X) is np.ndarray
        and X.ndim == 2
        and X.dtype == dtype
        and X.shape[0] > 0
        and X.shape[1] == getattr(estimator, "n_features_in_", None)
        and X.flags.c_contiguous
        and not hasattr(estimator, "feature_names_in_")
        and bool(np.isfinite(X).all())
    )


def check_fold_count(cv: int, class_rows: np.ndarray) -> None:
    """Raise if no class has as many rows as there are folds."""
    most = int(class_rows.max())
    if most < cv:
        raise ValueError(
            f"cv={cv} folds need as many rows of a class, but the largest has {most} "
            f"(n_samples={int(class_rows.sum())}); lower cv or use more rows."
        )


def check_at_most_rows(name: str, count: int, n_rows: int) -> None:
    """Raise if a parameter that counts groups of rows exceeds the number of rows."""
    if count > n_rows:
        raise ValueError(
            f"{name}={count} exceeds the {n_rows} rows of positive weight; lower {name} or give "
            "more rows."
        )


def check_is_table(X: Any) -> None:
    """Raise for dictionaries, a lazy or an empty frame, and repeated column names."""
    is_rows = isinstance(X, list | tuple) and X and isinstance(X[0], Mapping)
    if is_rows or (isinstance(X, Mapping) and not sparse.issparse(X)):
        raise ValueError(
            "X is a dictionary or a list of dictionaries, but must be an array or a data frame; "
            "pass pandas.DataFrame(X)."
        )
    if hasattr(X, "collect_schema") and not hasattr(X, "shape"):
        raise TypeError("X is a lazy frame, whose rows are not read yet; pass X.collect().")
    if not is_frame(X) or hasattr(X, "column_names"):  # an Arrow table, whose columns are not names
        return
    if 0 in X.shape:
        what = "sample(s)" if X.shape[0] == 0 else "feature(s)"
        raise ValueError(
            f"Found array with 0 {what} (shape={tuple(X.shape)}) while a minimum of 1 is required."
        )
    counts = Counter(map(str, X.columns))
    name, count = counts.most_common(1)[0]
    if count > 1:
        raise ValueError(
            f"X has {count} columns named {name!r}, but column names must be unique; rename them."
        )


def is_frame(X: Any) -> bool:
    """Return whether X is a data frame, of pandas or polars."""
    return hasattr(X, "shape") and hasattr(X, "columns")


def reads_frames(estimator: Any) -> bool:
    """Return whether an estimator, or the first step of a pipeline, takes frames with strings."""
    first = estimator.steps[0][1] if isinstance(estimator, Pipeline) else estimator
    return bool(get_tags(first).input_tags.string)
