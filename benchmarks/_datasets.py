"""Readers of the benchmark sets, from their files, scikit-learn or OpenML."""

import json
import os
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.utils import Bunch

from _dataset_registry import REGISTRY, DatasetInfo
from vicinal._base import import_optional

DATA_VARIABLE = "VICINAL_DATA"


def list_datasets(*, task: str | None = None) -> list[str]:
    """List the benchmark sets that :func:`load_dataset` reads.

    Parameters
    ----------
    task : {"classification", "regression"}, default=None
        Only the sets of this task; None lists all.

    Returns
    -------
    names : list of str
        Names in alphabetical order.

    See Also
    --------
    dataset_info : What a set is, without reading it.

    Examples
    --------
    >>> from _datasets import list_datasets
    >>> list_datasets(task="regression")
    ['airfoil', 'grid_stability', 'laser', 'mortgage', 'puma32h']
    """
    if task not in (None, "classification", "regression"):
        raise ValueError(f"task={task!r} must be 'classification', 'regression' or None.")
    return [name for name, info in sorted(REGISTRY.items()) if task in (None, info.task)]


def dataset_info(name: str) -> DatasetInfo:
    """Describe a benchmark set without reading it.

    Parameters
    ----------
    name : str
        One of :func:`list_datasets`.

    Returns
    -------
    info : DatasetInfo
        Counts, classes, source and terms; its attributes are those of the table in the guide.

    Examples
    --------
    >>> from _datasets import dataset_info
    >>> info = dataset_info("letter")
    >>> info.n_samples, info.n_test, info.n_features, info.n_classes
    (16000, 4000, 16, 26)
    """
    if name not in REGISTRY:
        raise ValueError(f"name={name!r} is not a benchmark set; choose one of {list_datasets()}.")
    return REGISTRY[name]


def load_dataset(
    name: str,
    *,
    return_X_y: bool = False,
    as_frame: bool = False,
    data_home: str | os.PathLike | None = None,
) -> Any:
    """Read a benchmark set by its name.

    The file ``<name>.npz`` is looked for in `data_home`, then in the folder named by the
    environment variable ``VICINAL_DATA``. Without a file the same rows are taken from
    :mod:`sklearn.datasets` or OpenML where they have them, cached there as scikit-learn does.
    Every result has exactly the published number of rows, columns and members of each class;
    anything else is refused.

    Parameters
    ----------
    name : str
        One of :func:`list_datasets`.

    return_X_y : bool, default=False
        Return arrays instead of a Bunch: ``(X, y)``, or for a set with a published split
        ``(X_train, X_test, y_train, y_test)``, the order of
        :func:`sklearn.model_selection.train_test_split`.

    as_frame : bool, default=False
        Return pandas objects: features as a DataFrame with named columns (categorical ones with
        the categorical dtype), targets as a Series. Not available for sparse sets.

    data_home : str or path-like, default=None
        Folder of the ``.npz`` files. For a set that has to be downloaded it is also handed to
        scikit-learn as the folder of its cache.

    Returns
    -------
    data : :class:`~sklearn.utils.Bunch`
        X, y : features and target
            Sets without a published split; also as ``data, target``, and with `as_frame` both in
            one table ``frame``.
        X_train, y_train, X_test, y_test : features and targets
            Sets with a published split.
        feature_names : list of str
            Names of the columns (None for the two text sets, whose words are not kept).
        target_names : list of str
            Names of ``classes``, or of the regression target.
        classes : ndarray of shape (n_classes,)
            Sorted labels (classification only). Labels are those of the original and need not
            start at 0.
        categorical_features : ndarray of shape (n_features,), dtype=bool
            Tables of mixed type: which columns hold category codes.
        categories : dict of str to list of str
            Tables of mixed type: what the codes of each categorical column stand for.
        images, images_train, images_test : ndarray of shape (n_samples, height, width)
            Sets of images: the rows of ``X`` seen as images, without a copy.
        name, task, DESCR : str
            Which set this is, ``"classification"`` or ``"regression"``, and a description.

        Further arrays of a set, such as groups, weights or published resamplings, are named in
        its ``DESCR``.

    See Also
    --------
    list_datasets : Names of all sets.
    dataset_info : What a set is, without reading it.

    Notes
    -----
    Features are float64 and labels int64. ``covtype, pie, newsgroups20, rcv1_subset`` are float32:
    they are the largest, and single precision holds their values exactly. Sparse sets are CSR
    matrices. Missing cells are NaN.

    The split of a set that comes from OpenML is rebuilt from the order of its rows (training rows
    first, or test rows first), and used only if both parts have the published class counts. What
    is assumed of OpenML: the features in the order of the original, labels whose natural order is
    that of ``classes``, and for the table ``adult`` the original column names, hyphens aside. Rows
    of a set without a split may come in another order than in the file.

    Examples
    --------
    >>> from _datasets import load_dataset
    >>> wine = load_dataset("wine")
    >>> wine.X.shape, wine.X.dtype
    ((178, 13), dtype('float64'))
    >>> X, y = load_dataset("wdbc", return_X_y=True)
    >>> int(y.sum())
    212
    """
    info = dataset_info(name)
    if as_frame and info.layout == "sparse":
        raise ValueError(
            f"as_frame=True is not available for {name!r}: its {info.n_features} columns are "
            "sparse; use as_frame=False, which returns CSR matrices."
        )
    bunch = Bunch(**_find_arrays(info, data_home))
    _add_description(bunch, info)
    _add_derived(bunch, info)
    if as_frame:
        _to_pandas(bunch, info)
    if return_X_y:
        return tuple(bunch[key] for key in _tuple_keys(info))
    if not info.has_split:
        bunch.data, bunch.target = bunch.X, bunch.y
    return bunch


def _tuple_keys(info: DatasetInfo) -> tuple[str, ...]:
    return ("X_train", "X_test", "y_train", "y_test") if info.has_split else ("X", "y")


def _parts(info: DatasetInfo) -> tuple[str, ...]:
    return ("_train", "_test") if info.has_split else ("",)


# --- finding ------------------------------------------------------------------------------------


def _find_arrays(info: DatasetInfo, data_home: str | os.PathLike | None) -> dict[str, Any]:
    """Read the file of a set, or fetch the set, and check its counts."""
    folders = _folders(data_home)
    for folder in folders:
        path = folder / f"{info.name}.npz"
        if path.is_file():
            arrays = read_file(info, path)
            _check_counts(info, arrays, str(path))
            return arrays
    if not can_fetch(info):
        raise FileNotFoundError(_how_to_get(info, folders, info.file_only))
    try:
        arrays = fetch(info, None if data_home is None else Path(data_home).expanduser())
    except OSError as error:
        reason = f"{remote_name(info)} could not be reached ({type(error).__name__}: {error})"
        raise FileNotFoundError(_how_to_get(info, folders, reason)) from error
    _check_counts(info, arrays, remote_name(info))
    return arrays


def _folders(data_home: str | os.PathLike | None) -> list[Path]:
    """Folders to search, the explicit one first; one that does not exist is a mistake."""
    named = {"data_home": data_home, DATA_VARIABLE: os.environ.get(DATA_VARIABLE)}
    folders = []
    for origin, folder in named.items():
        if folder:
            path = Path(folder).expanduser()
            if origin == DATA_VARIABLE and not path.is_dir():
                raise FileNotFoundError(
                    f"{DATA_VARIABLE}={str(folder)!r} is not a folder; set it to the folder that "
                    "holds the .npz files, or unset it."
                )
            folders.append(path)
    return folders


def _how_to_get(info: DatasetInfo, folders: list[Path], reason: str) -> str:
    looked = (
        " and ".join(str(folder) for folder in folders)
        if folders
        else f"no folder, because neither data_home nor {DATA_VARIABLE} is set"
    )
    return (
        f"The set {info.name!r} ({info.title}) was not found: looked for {info.name}.npz in "
        f"{looked}; {reason}. Its original is {info.source} ({info.terms}). Put {info.name}.npz "
        f"into a folder and name that folder by data_home= or by the environment variable "
        f"{DATA_VARIABLE}; the user guide on data sets describes the keys of the file."
    )


def _check_counts(info: DatasetInfo, arrays: dict[str, Any], origin: str) -> None:
    """Refuse arrays that do not have the published rows, columns and class counts."""
    counts = (info.class_counts, info.class_counts_test)
    sizes = (info.n_samples, info.n_test)
    for part, n_rows, expected in zip(_parts(info), sizes, counts, strict=False):
        X, y = arrays[f"X{part}"], arrays[f"y{part}"]
        shape = (n_rows, info.n_features)
        if X.shape != shape or y.shape != (n_rows,):
            raise ValueError(
                f"{origin} is not the set {info.name!r}: X{part} has shape {X.shape} and y{part} "
                f"{y.shape} where {shape} and {(n_rows,)} were published; replace it by the "
                "original."
            )
        found = tuple(int(np.count_nonzero(y == label)) for label in info.classes)
        if found != expected:
            raise ValueError(
                f"{origin} is not the set {info.name!r}: y{part} has class counts {found} where "
                f"{expected} were published; replace it by the original."
            )


# --- what is added to the arrays ----------------------------------------------------------------


def _add_description(bunch: Bunch, info: DatasetInfo) -> None:
    bunch.name, bunch.task, bunch.DESCR = info.name, info.task, _describe(info)
    bunch.target_names = list(info.target_names)
    if info.classes:
        bunch.classes = np.array(info.classes)
    if "feature_names" not in bunch:
        bunch.feature_names = _feature_names(info)


def _feature_names(info: DatasetInfo) -> list[str] | None:
    if info.layout == "sparse":
        return None
    return list(info.feature_names) or [f"x{j}" for j in range(info.n_features)]


def _add_derived(bunch: Bunch, info: DatasetInfo) -> None:
    if info.image_shape is not None:
        for part in _parts(info):
            bunch[f"images{part}"] = bunch[f"X{part}"].reshape(-1, *info.image_shape)
    if info.name == "banana":
        bunch.splits = [(np.flatnonzero(row), np.flatnonzero(~row)) for row in bunch.in_train]
    if info.name == "covtype":
        bunch.partition = {
            "train": slice(0, 11340),
            "validation": slice(11340, 15120),
            "test": slice(15120, 581012),
        }


def _describe(info: DatasetInfo) -> str:
    rows = f"{info.n_samples} rows"
    if info.has_split:
        rows = f"{info.n_samples} training and {info.n_test} test rows"
    target = f"{info.n_classes} classes" if info.classes else f"target: {info.target_names[0]}"
    lines = [
        f"{info.name}: {info.title}",
        f"{rows}, {info.n_features} columns, {target}.",
        f"Source: {info.source}.",
        f"Terms: {info.terms}.",
    ]
    return "\n".join(lines + [info.notes] * bool(info.notes))


# --- pandas -------------------------------------------------------------------------------------


def _to_pandas(bunch: Bunch, info: DatasetInfo) -> None:
    pd = import_optional("pandas", needed_by="as_frame=True", extra="frame")
    for part in _parts(info):
        X = bunch[f"X{part}"]
        if info.layout == "mixed":
            frame = pd.DataFrame(_typed_columns(pd, X, bunch))
        else:
            frame = pd.DataFrame(X, columns=bunch.feature_names)
        bunch[f"X{part}"] = frame
        bunch[f"y{part}"] = pd.Series(bunch[f"y{part}"], name="target")
    if not info.has_split:
        bunch.frame = pd.concat([bunch.X, bunch.y], axis=1)


def _typed_columns(pd, X: np.ndarray, bunch: Bunch) -> dict[str, Any]:
    columns = {}
    for j, name in enumerate(bunch.feature_names):
        if bunch.categorical_features[j]:
            codes = X[:, j].astype(np.int64)
            columns[name] = pd.Categorical.from_codes(codes, categories=bunch.categories[name])
        else:
            columns[name] = X[:, j]
    return columns


# --- one function per set -----------------------------------------------------------------------


# --- files: one compressed ``.npz`` per set, never unpickled ---

# What a truncated, damaged or foreign file makes numpy, zipfile, json and our own indexing raise.
_UNREADABLE = (
    AttributeError,
    EOFError,
    IndexError,
    KeyError,
    TypeError,
    ValueError,
    zipfile.BadZipFile,
    zlib.error,
)


def read_file(info: DatasetInfo, path: Path) -> dict[str, Any]:
    """Read the arrays of a set from its file, with the types and names that are returned."""
    try:
        # numpy leaves a damaged archive open when it opened the file itself.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return _read_arrays(info, {key: archive[key] for key in archive.files})
    except _UNREADABLE as error:
        raise ValueError(
            f"{path} is not a readable file of the set {info.name!r} "
            f"({type(error).__name__}: {error}); replace it by an undamaged copy."
        ) from error


def _read_arrays(info: DatasetInfo, stored: Mapping[str, np.ndarray]) -> dict[str, Any]:
    parts = ("_train", "_test") if info.has_split else ("",)
    arrays: dict[str, Any] = {}
    for part in parts:
        arrays[f"X{part}"] = _READ_FEATURES[info.layout](info, stored, part)
        y = stored[f"y{part}"]
        arrays[f"y{part}"] = y.astype(np.int64 if info.classes else np.float64)
    if info.layout == "mixed":
        arrays |= _column_names(stored)
    for key, public in info.extras:
        arrays[public] = _convert_extra(key, stored[key])
    return arrays


def _read_dense(info: DatasetInfo, stored: Mapping[str, np.ndarray], part: str) -> np.ndarray:
    X = stored[f"X{part}"].astype(info.dtype)
    if "x_scale" in stored:
        # Dividing by 10000 rounds to the double nearest to the published decimal, multiplying by
        # 1e-4 does not always.
        X /= np.round(1 / stored["x_scale"])
    if info.missing is not None:
        X[X == info.missing] = np.nan
    return X


def _read_sparse(info: DatasetInfo, stored: Mapping[str, np.ndarray], part: str) -> csr_matrix:
    prefix = f"X{part}"
    return csr_matrix(
        (
            stored[f"{prefix}_data"].astype(info.dtype),
            stored[f"{prefix}_indices"].astype(np.int32),
            stored[f"{prefix}_indptr"].astype(np.int32),
        ),
        shape=tuple(int(n) for n in stored[f"{prefix}_shape"]),
    )


def _read_mixed(info: DatasetInfo, stored: Mapping[str, np.ndarray], part: str) -> np.ndarray:
    """Put codes and numbers back into the column order of the original table."""
    codes, numbers = stored[f"Xcat{part}"], stored[f"Xnum{part}"]
    X = np.empty((codes.shape[0], codes.shape[1] + numbers.shape[1]), dtype=info.dtype)
    X[:, stored["cat_columns"]] = codes
    X[:, stored["num_columns"]] = numbers
    return X


_READ_FEATURES = {"dense": _read_dense, "sparse": _read_sparse, "mixed": _read_mixed}


def _column_names(stored: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Names of all columns, which ones are categorical, and what their codes stand for."""
    n_columns = len(stored["cat_names"]) + len(stored["num_names"])
    names = np.empty(n_columns, dtype=object)
    names[stored["cat_columns"]] = stored["cat_names"]
    names[stored["num_columns"]] = stored["num_names"]
    is_categorical = np.zeros(n_columns, dtype=bool)
    is_categorical[stored["cat_columns"]] = True
    lists = json.loads(str(stored["categories"]))
    by_name = {
        str(name): list(values) for name, values in zip(stored["cat_names"], lists, strict=True)
    }
    return {
        "feature_names": [str(name) for name in names],
        "categorical_features": is_categorical,
        "categories": by_name,
    }


def _convert_extra(key: str, values: np.ndarray) -> np.ndarray:
    if key.startswith("weight100"):
        return values / 100.0
    if key in ("in_train", "is_test"):
        return values.astype(bool)
    if values.dtype.kind in "iu":
        return values.astype(np.int64)
    return values


# --- scikit-learn and OpenML, where they have the sets ---


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
