"""Reading of the benchmark files: one compressed ``.npz`` per set, never unpickled."""

import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from vicinal.datasets._registry import DatasetInfo

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
