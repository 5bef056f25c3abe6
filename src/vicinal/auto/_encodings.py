"""How a table is read and encoded for base models, and its training rows as they were given."""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.impute import SimpleImputer
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal._base import (
    TrainingData,
    as_numpy,
    check_labels,
    is_array_api,
    is_on_device,
    narrowed,
    query_rows,
    saved,
    training_data,
)
from vicinal._base._tables import is_missing, spread_rows
from vicinal._base._unseen import UnseenValues
from vicinal.table import TableEncoder
from vicinal.table.keys import has_keys
from vicinal.table.parsing import ReadFrame

ENCODINGS = ("distance", "tree")
# Sparse rows are made dense up to this many entries; beyond, their leading components are used.
_MAX_DENSE, _N_COMPONENTS = 20_000_000, 100
_NUMERIC: dict[str, Any] = {
    "accept_sparse": "csr",
    "accept_large_sparse": False,
    "ensure_all_finite": "allow-nan",
}


def read_table(model: Any, X: Any, y: Any, sample_weight: Any, groups: Any, task: str):
    """Check a table given to ``fit``: an array, a sparse matrix, a frame, or a device array."""
    refuse_target_among(X, y)
    labels_on_device = is_array_api(y)
    y = as_numpy(y) if is_array_api(y) else plain_targets(y)
    if isinstance(y, np.ndarray) and y.ndim == 1:
        check_labels(y)
    X = as_numpy(X) if is_array_api(X) and not is_on_device(X) else X
    options: dict[str, Any] = {"task": task, "arrays": True}
    is_frame = is_mixed_frame(X)
    if is_frame or is_array_api(X):
        check_consistent_length(X, y)
        if task == "classification":
            y = column_or_1d(y, warn=True)
        else:
            y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
            options["task"] = "regression" if is_frame else None  # stays in double precision
    elif task == "regression":
        options["multi_output"] = True
    if not is_array_api(X):  # NaN is allowed on the host only
        options |= {"skip_check_array": True} if is_frame else _NUMERIC
    data = training_data(model, X, y, sample_weight, groups, **options)
    if task == "classification":
        model._labels_on_device = labels_on_device
    if data.xp is np:
        return data, False
    # Base models compute where the rows are; targets and weights are judged on the host.
    weight = None if data.sample_weight is None else data.host(data.sample_weight)
    y = data.host(data.y).astype(np.int64 if task == "classification" else np.float64)
    return TrainingData(data.X, y, data.classes, weight, data.groups, data.index), True


def read_queries(model: Any, X: Any, reads_frames: bool) -> Any:
    """Check query rows for a fitted model."""
    if reads_frames:
        check_is_fitted(model)
        return validate_data(model, by_name(X, model), reset=False, skip_check_array=True)
    if model._reference is None and is_array_api(X):
        X = as_numpy(X)
    return query_rows(model, X, **(_NUMERIC if model._reference is None else {}))


@saved(medians="p")
class Encodings:
    """Encode a table for each kind of base model: by distances or by trees.

    Attributes
    ----------
    encoders : dict of str to transformer or None
        Fitted encoder of each encoding; ``None`` takes the numbers as they are.
    medians : ndarray of shape (n_features,) or None
        Of an array without missing values: they replace those of later rows in distances.
    n_rows : int
        Number of training rows.
    on_device : bool
        Whether rows are device arrays, which have no encoder.
    """

    def __init__(self, on_device: bool = False) -> None:
        self.on_device = on_device
        self.encoders: dict[str, Any] = {}
        self.medians: np.ndarray | None = None
        self.n_rows = 0

    def fit_transform(self, X, y, groups=None) -> dict[str, Any]:
        """Learn the encoders and return the training rows in each encoding.

        Encodings by the same encoder are one array. Statistics of the target leave out the rows of
        the row's own group.
        """
        self.encoders, self.n_rows = self._choose(X), len(y)
        if isinstance(X, np.ndarray) and self.encoders["distance"] is None:
            self.medians = np.array([np.median(column) for column in X.T])
        options = {"groups": groups} if self.reads_frames else {}
        found = {}
        for encoder in self.encoders.values():
            if id(encoder) not in found:
                Z = X if encoder is None else encoder.fit_transform(X, y, **options)
                found[id(encoder)] = self._dense(Z)
        return {name: found[id(encoder)] for name, encoder in self.encoders.items()}

    def read(self, X) -> Any:
        """Return query rows so that no encoder needs to read the columns of a frame again."""
        return ReadFrame(X) if self.reads_frames else X

    def transform(self, X, encoding: str) -> Any:
        """Return rows in one encoding."""
        encoder = self.encoders[encoding]
        rows = self._dense(X if encoder is None else encoder.transform(X))
        if encoding == "distance" and self.medians is not None:
            missing = np.isnan(rows)
            if missing.any():
                rows = np.where(missing, self.medians, rows)
        return rows

    def unseen_values(self, X, names: list[str]) -> list[UnseenValues]:
        """Return values of query rows that no training row has; of arrays missing ones."""
        if self.reads_frames:
            return self.encoders["distance"].unseen_values(X)
        if not isinstance(X, np.ndarray):
            return []
        problem, imputer = "missing values where training rows have none", self.encoders["distance"]
        missing = np.isnan(X)
        if imputer is not None:
            missing[:, imputer.indicator_.features_] = False
        columns = np.flatnonzero(missing.any(axis=0))
        typicality = 1 / (self.n_rows + 1)
        return [UnseenValues(names[j], problem, missing[:, j], "", typicality) for j in columns]

    def _dense(self, X) -> Any:
        if self.on_device:
            return X
        X = X.toarray() if sparse.issparse(X) else X
        # Writeable, because a read-only array is another type to compiled code.
        return np.require(X, dtype=np.float64, requirements=["C", "W"])

    @property
    def reads_frames(self) -> bool:
        """Return whether the table was a frame of mixed columns."""
        return isinstance(self.encoders["tree"], TableEncoder)

    @property
    def categorical(self) -> np.ndarray | None:
        """Columns of the encoding for trees that are codes of categories, as a mask."""
        return getattr(self.encoders["tree"], "categorical_features_", None)

    def _choose(self, X) -> dict[str, Any]:
        if self.on_device:
            return dict.fromkeys(ENCODINGS)
        if hasattr(X, "columns"):
            return {name: TableEncoder(name, unseen="ignore") for name in ENCODINGS}
        if sparse.issparse(X):
            if X.shape[0] * X.shape[1] <= _MAX_DENSE:
                return dict.fromkeys(ENCODINGS)
            components = TruncatedSVD(min(_N_COMPONENTS, X.shape[1] - 1), random_state=0)
            return dict.fromkeys(ENCODINGS, components)
        if np.isnan(X).any():
            filled = SimpleImputer(strategy="median", add_indicator=True, keep_empty_features=True)
            return {"distance": filled, "tree": None}
        return dict.fromkeys(ENCODINGS)


def is_mixed_frame(X) -> bool:
    """Return whether X is a frame with columns that are not plain numbers, or numbers of a key."""
    if not hasattr(X, "columns"):
        return False
    if hasattr(X, "column_names"):  # of Arrow, whose ``columns`` are not names
        raise TypeError(
            f"X is a {type(X).__module__}.{type(X).__name__}; frames of pandas and polars are "
            "read, so hand X.to_pandas() or polars.from_arrow(X) in."
        )
    is_plain = all(np.asarray(X[name]).dtype.kind in "bfiu" for name in X.columns)
    return not is_plain or has_keys(X)


def by_name(X, model) -> Any:
    """Return a frame with the columns that a model was fitted to, in their order, if it has them.

    Others are left out, as scikit-learn's ``ColumnTransformer`` does.
    """
    names = list(getattr(model, "feature_names_in_", ()))
    has_all = names and hasattr(X, "columns") and set(names) <= set(X.columns)
    return X[names] if has_all and list(X.columns) != names else X


def refuse_target_among(X, y) -> None:
    """Raise where the target is a column of the table, under the same name."""
    name = getattr(y, "name", None)
    if name is None or not hasattr(X, "columns") or list(X.columns).count(name) != 1:
        return
    if np.array_equal(np.asarray(X[name], dtype=object), np.asarray(y, dtype=object)):
        raise ValueError(f"X holds the target: its column {name!r} is y; leave it out of X.")


def plain_targets(y) -> Any:
    """Return targets of a nullable type of pandas, and objects of one kind, as NumPy has them."""
    kind = getattr(getattr(y, "dtype", None), "numpy_dtype", None)
    if kind is not None and not y.isna().any():
        return y.to_numpy(dtype=kind)
    is_object = isinstance(y, list) or getattr(getattr(y, "dtype", None), "kind", "") == "O"
    return narrowed(np.asarray(y)) if is_object else y


@saved()
class StoredRows:
    """Training rows as they were given, for explanations.

    Parameters
    ----------
    X : frame, array or sparse matrix of shape (n_samples, n_features)
        The table; an array is stored as it is.
    names : list of str
        Names of its columns.
    """

    def __init__(self, X: Any, names: list[str]) -> None:
        self.names = names
        self.table = [_coded(X[name]) for name in X.columns] if hasattr(X, "columns") else X

    def cells(self, name: str, rows: np.ndarray) -> list[Any]:
        """Return the values of rows in a column; ``None`` is a missing value."""
        j = self.names.index(name)
        if not isinstance(self.table, list):
            column = self.table[rows][:, j]
            return (column.toarray().ravel() if sparse.issparse(column) else column).tolist()
        categories, values = self.table[j]
        cells = values[rows].tolist()
        return cells if categories is None else [categories[code] for code in cells]

    def like(self, X: Any, at_most: int) -> Any:
        """Return rows spread over the table, as a table of the type of X.

        ``None`` where cells cannot be read back: lists, and durations of polars.
        """
        n_rows = self.table.shape[0] if not isinstance(self.table, list) else len(self.table[0][1])
        rows = spread_rows(n_rows, at_most)
        if not hasattr(X, "columns"):
            return self.table[rows]
        try:
            columns = {name: self._column(X[name], str(name), rows) for name in X.columns}
        except ValueError:
            return None
        return type(X)(columns)

    def _column(self, given: Any, name: str, rows: np.ndarray) -> Any:
        """Return a column as a series like the one given, of its type where that is no number."""
        if any(isinstance(cell, dict) or np.ndim(cell) > 0 for cell in given):
            raise ValueError(f"{name!r} holds nested values.")
        cells: Any = self.cells(name, rows)
        if not isinstance(self.table, list) or self.table[self.names.index(name)][0] is None:
            return type(given)(cells)
        if hasattr(given, "astype"):
            column = type(given)(cells)
            is_plain = getattr(given.dtype, "kind", "O") in "biufmM"
            return column.astype(given.dtype) if is_plain else column
        if given.dtype.is_temporal():
            cells = np.array(cells, dtype="datetime64[us]")
        return type(given)(cells).cast(given.dtype)


def _coded(column: Any) -> tuple[list[Any] | None, np.ndarray]:
    """Return numbers as they are, all else as categories and the code of each row."""
    values = np.asarray(column)
    if values.dtype.kind in "biuf":
        return None, values
    cells = [None if is_missing(value) else _plain(value) for value in column]
    # One and True are equal, but not the same category.
    keys = [(type(cell), cell) for cell in cells]
    codes = {key: code for code, key in enumerate(dict.fromkeys(keys))}
    return [cell for _, cell in codes], np.array([codes[key] for key in keys])


def _plain(value: Any) -> Any:
    """Return a truth value or a number of a mixed column as it is, and all else as text."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, bool | int | float) else str(value)
