"""Readers of the benchmark sets, one implementation for all of them."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from vicinal._base import import_optional
from vicinal.datasets._fetch import can_fetch, fetch, remote_name
from vicinal.datasets._files import read_file
from vicinal.datasets._registry import REGISTRY, DatasetInfo

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
    >>> from vicinal.datasets import list_datasets
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
    >>> from vicinal.datasets import dataset_info
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
    >>> from vicinal.datasets import load_dataset
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
