"""How a table is read by a model, and its training rows as they were given."""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal._base import (
    TrainingData,
    as_numpy,
    check_is_table,
    check_labels,
    computing_device,
    is_array_api,
    is_on_device,
    narrowed,
    query_rows,
    saved,
    training_data,
)
from vicinal._base._compat import rows_of
from vicinal._base._tables import ColumnCodes, is_missing, spread_rows
from vicinal.auto._base_models import ON_DEVICE, ON_HOST
from vicinal.auto._encodings import Encodings, PlainEncodings
from vicinal.table.keys import has_keys

_NUMERIC: dict[str, Any] = {
    "accept_sparse": "csr",
    "accept_large_sparse": False,
    "ensure_all_finite": "allow-nan",
}


class Table(TrainingData):
    """Training data of a model: a frame, an array or a sparse matrix."""

    rules = ON_HOST  # which base models are tried

    def encodings(self) -> Encodings:
        """Return unfitted encodings of such rows."""
        return Encodings()

    def network_device(self, wanted: str) -> str | None:
        """Return the device of torch that trains networks; ``None`` is that of the rows."""
        return None if wanted == "cpu" else computing_device(None, wanted)

    def stored_rows(self, at_most: int | None, names: list[str]) -> "StoredRows | None":
        """Return the rows, or ``at_most`` of them, for explanations."""
        X = self.X if at_most is None else rows_of(self.X, spread_rows(len(self), at_most))
        return StoredRows(X, names)


class DeviceTable(Table):
    """Rows on a device, with targets and weights on the host, where predictions are judged."""

    is_host = False
    rules = ON_DEVICE

    def encodings(self) -> Encodings:
        return PlainEncodings()

    def network_device(self, wanted: str) -> str | None:
        return None

    def stored_rows(self, at_most: int | None, names: list[str]) -> None:
        return None


def read_table(model: Any, X: Any, y: Any, sample_weight: Any, groups: Any, task: str) -> Table:
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
    # Base models compute where the rows are; targets and weights are judged on the host.
    weight = None if data.sample_weight is None else data.host(data.sample_weight)
    dtype = np.int64 if task == "classification" else np.float64
    y = data.host(data.y).astype(dtype, copy=False)
    kind = Table if data.is_host else DeviceTable
    return kind(data.X, y, data.classes, weight, data.groups, data.index)


def read_queries(model: Any, X: Any, reads_frames: bool) -> Any:
    """Check query rows for a fitted model."""
    if reads_frames:
        check_is_fitted(model)
        check_is_table(X)
        if len(getattr(X, "shape", ())) != 2:
            raise ValueError(f"X is a {type(X).__name__}; pass a data frame, for one row X[:1].")
        X = by_name(X, model)
        if list(getattr(X, "columns", ())) == list(model.feature_names_in_):
            return X  # what is left to check takes longer than the prediction of a row
        return validate_data(model, X, reset=False, skip_check_array=True)
    if type(X) is np.ndarray and X.ndim == 2:
        X = np.ascontiguousarray(X)  # also columns of a frame, which then need no validation
    if model._reference is None and is_array_api(X):
        X = as_numpy(X)
    return query_rows(model, X, **(_NUMERIC if model._reference is None else {}))


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
            found: Any = self.table[rows]
            return found.toarray() if sparse.issparse(found) and not sparse.issparse(X) else found
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
    codes = ColumnCodes({0: cells})
    return codes.categories[0], codes.codes(0, cells).astype(np.int64)


def _plain(value: Any) -> Any:
    """Return a truth value or a number of a mixed column as it is, and all else as text."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, bool | int | float) else str(value)
