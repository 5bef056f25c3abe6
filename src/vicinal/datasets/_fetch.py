"""The same sets from scikit-learn or OpenML, where they have them."""

from pathlib import Path
from typing import Any

import numpy as np

from vicinal.datasets._registry import DatasetInfo


def can_fetch(info: DatasetInfo) -> bool:
    """Say whether a set can be had without its file."""
    return info.sklearn_name is not None or info.openml_id is not None


def remote_name(info: DatasetInfo) -> str:
    """Say where :func:`fetch` looks for a set."""
    if info.sklearn_name is not None:
        return f"sklearn.datasets.{info.sklearn_name}"
    return f"OpenML (data_id={info.openml_id})"


def fetch(info: DatasetInfo, cache: Path | None) -> dict[str, Any]:
    """Get the arrays of a set from scikit-learn or OpenML, in the form :func:`read_file` gives."""
    if info.sklearn_name is not None:
        return _FROM_SKLEARN[info.sklearn_name](info, cache)
    return _from_openml(info, cache)


# --- scikit-learn -------------------------------------------------------------------------------


def _wine(info: DatasetInfo, cache: Path | None) -> dict[str, Any]:
    from sklearn import datasets

    X, y = datasets.load_wine(return_X_y=True)
    return {"X": X, "y": y.astype(np.int64)}


def _breast_cancer(info: DatasetInfo, cache: Path | None) -> dict[str, Any]:
    from sklearn import datasets

    X, y = datasets.load_breast_cancer(return_X_y=True)
    return {"X": X, "y": 1 - y.astype(np.int64)}


def _covtype(info: DatasetInfo, cache: Path | None) -> dict[str, Any]:
    from sklearn import datasets

    X, y = datasets.fetch_covtype(data_home=cache, return_X_y=True)
    return {"X": X.astype(info.dtype), "y": y.astype(np.int64)}


def _newsgroups(info: DatasetInfo, cache: Path | None) -> dict[str, Any]:
    from sklearn import datasets

    arrays: dict[str, Any] = {}
    for part in ("train", "test"):
        X, y = datasets.fetch_20newsgroups_vectorized(
            subset=part, data_home=cache, normalize=False, return_X_y=True
        )
        arrays[f"X_{part}"] = X.astype(info.dtype)
        arrays[f"y_{part}"] = y.astype(np.int64)
    return arrays


_FROM_SKLEARN = {
    "load_wine": _wine,
    "load_breast_cancer": _breast_cancer,
    "fetch_covtype": _covtype,
    "fetch_20newsgroups_vectorized": _newsgroups,
}

# --- OpenML -------------------------------------------------------------------------------------


def _from_openml(info: DatasetInfo, cache: Path | None) -> dict[str, Any]:
    from sklearn import datasets

    # This parser needs no pandas and gives nominal columns as positions in `categories`.
    table = datasets.fetch_openml(
        data_id=info.openml_id, as_frame=False, parser="liac-arff", data_home=cache
    )
    arrays: dict[str, Any] = {}
    if info.layout == "mixed":
        X, arrays["categories"] = _recode(info, table)
        arrays["feature_names"] = list(info.feature_names)
        arrays["categorical_features"] = np.isin(info.feature_names, list(arrays["categories"]))
    else:
        X = _numbers(info, table)
    y = _labels(info, table.target) if info.classes else np.asarray(table.target, dtype=float)
    if not info.has_split:
        return arrays | {"X": X, "y": y}
    train, test = _rebuild_split(info, y)
    return arrays | {"X_train": X[train], "y_train": y[train], "X_test": X[test], "y_test": y[test]}


def _numbers(info: DatasetInfo, table) -> np.ndarray:
    """Take the features as numbers, also where OpenML declares a column of numbers nominal."""
    X = np.array(table.data, dtype=info.dtype)
    for name, listed in (table.get("categories") or {}).items():
        column = X[:, list(table.feature_names).index(name)]
        known = ~np.isnan(column)
        column[known] = np.array([float(value) for value in listed])[column[known].astype(int)]
    return X


def _labels(info: DatasetInfo, target: np.ndarray) -> np.ndarray:
    """Turn the labels of OpenML, which are strings, into ours by their natural order."""
    names = np.array([str(label).strip("'\" ") for label in target])
    found = sorted(set(names), key=lambda name: (float(name) if name.isdigit() else 0.0, name))
    if len(found) != info.n_classes:
        raise ValueError(
            f"{remote_name(info)} has {len(found)} classes where {info.name!r} has "
            f"{info.n_classes}; it is not the same set any more."
        )
    codes = dict(zip(found, info.classes, strict=True))
    return np.array([codes[name] for name in names], dtype=np.int64)


def _rebuild_split(info: DatasetInfo, y: np.ndarray) -> tuple[slice, slice]:
    """Find the published parts as the first and last rows, in either order.

    The class counts of both parts must be the published ones, so that rows which OpenML may have
    shuffled are never passed off as the published split.
    """
    n, total = info.n_samples, info.n_samples + info.n_test
    orders = (
        (slice(0, n), slice(n, total)),
        (slice(info.n_test, total), slice(0, info.n_test)),
    )
    if len(y) == total:
        for train, test in orders:
            if (
                _counts(info, y[train]) == info.class_counts
                and _counts(info, y[test]) == info.class_counts_test
            ):
                return train, test
    raise ValueError(
        f"The {len(y)} rows of {remote_name(info)} are not the training rows of {info.name!r} "
        f"followed or preceded by its test rows, so the published split ({info.source}) cannot be "
        f"rebuilt from them; it needs the file {info.name}.npz."
    )


def _counts(info: DatasetInfo, y: np.ndarray) -> tuple[int, ...]:
    return tuple(int(np.count_nonzero(y == label)) for label in info.classes)


def _recode(info: DatasetInfo, table) -> tuple[np.ndarray, dict[str, list[str]]]:
    """Put the columns of OpenML in our order, and categories in alphabetical order.

    A missing category becomes ``'?'``, as in the original table.
    """
    position = {name.lower().replace("-", "_"): i for i, name in enumerate(table.feature_names)}
    absent = [name for name in info.feature_names if name not in position]
    if absent:
        raise ValueError(
            f"{remote_name(info)} lacks the columns {absent} of {info.name!r}; "
            "it is not the same set any more."
        )
    X = np.empty((len(table.data), info.n_features), dtype=info.dtype)
    categories = {}
    for j, name in enumerate(info.feature_names):
        values = np.asarray(table.data[:, position[name]], dtype=float)
        listed = table.categories.get(table.feature_names[position[name]])
        if listed is not None:
            names = np.append(np.array([str(v).strip() for v in listed], dtype=object), "?")
            codes = np.where(np.isnan(values), len(listed), values).astype(int)
            found, values = np.unique(names[codes], return_inverse=True)
            categories[name] = [str(v) for v in found]
        X[:, j] = values
    return X, categories
