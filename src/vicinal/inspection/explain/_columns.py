"""Columns of the table that a row came from, also behind encoders."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from vicinal._base import counted, import_optional, is_frame
from vicinal._base._compat import rows_of
from vicinal._base._explanation import RowColumns, is_number, values_of
from vicinal._base._tables import column_names, is_missing


def as_table(X: Any, model: Any) -> Any:
    """Return rows as a table: a frame, series, mapping, vector or matrix.

    A model that was fitted on a frame gets a frame.
    """
    if isinstance(X, Mapping):
        pandas = import_optional("pandas", needed_by="explain with a mapping", extra="frame")
        return pandas.DataFrame([dict(X)])
    if hasattr(X, "to_frame") and getattr(X, "ndim", 2) == 1 and hasattr(X, "index"):
        return X.to_frame().T.infer_objects()
    if hasattr(X, "columns") or sparse.issparse(X):
        table = X
    else:
        table = np.asarray(X)
        table = table[None, :] if table.ndim == 1 else table
    if len(table.shape) != 2 or not table.shape[0]:
        raise ValueError(f"X has the shape {tuple(table.shape)}; pass a table of at least one row.")
    names = getattr(model, "feature_names_in_", None)
    if names is not None and len(names) == table.shape[1] and isinstance(table, np.ndarray):
        pandas = import_optional(
            "pandas", needed_by="explain with a model fitted on a frame", extra="frame"
        )
        return pandas.DataFrame(table, columns=names)
    return table


def names_of(table: Any, feature_names: Sequence[str] | None, model: Any) -> list[str]:
    """Return the names of the columns: those given, the table's, the model's, or x0, x1, ..."""
    if feature_names is None:
        return column_names(table, model)
    if len(feature_names) != table.shape[1]:
        raise ValueError(
            f"feature_names has {counted(len(feature_names), 'entry')}, but the row has "
            f"{counted(table.shape[1], 'column')}."
        )
    return [str(name) for name in feature_names]


def _names_out(encoder: Any, names_in: list[str]) -> list[str] | None:
    """Return the names that an encoder gives its columns, ``None`` if it gives none."""
    given = None if hasattr(encoder, "feature_names_in_") else np.array(names_in, dtype=object)
    try:
        return [str(name) for name in encoder.get_feature_names_out(given)]
    except (AttributeError, ValueError):
        return None


def _source(name: str, names_in: list[str]) -> int | None:
    """Return the input that an encoded column is named after; the longest match wins.

    Scikit-learn writes ``column_category``, and ``step__column`` behind a choice of columns.
    """
    parts = name.split("__")
    ends = ["__".join(parts[k:]) for k in range(len(parts))]
    found = [
        j
        for j, source in enumerate(names_in)
        if any(end == source or end.startswith(f"{source}_") for end in ends)
    ]
    return max(found, key=lambda j: len(names_in[j])) if found else None


def columns_behind(steps: list[Any], table: Any, names: list[str], seen: Any) -> RowColumns:
    """Return the columns that a model behind ``steps`` sees in the row ``table``."""
    values = values_of(table)
    if not steps:
        return RowColumns.of_table(table, names)
    encoder = Pipeline([(str(j), step) for j, step in enumerate(steps)])
    cells = values_of(seen)
    shown = _names_out(encoder, names)
    sources: list[int | None] = [None] * len(cells)
    if shown is None or len(shown) != len(cells):
        shown = [f"column {j}" for j in range(len(cells))]
    else:
        made = [getattr(step, "input_to_outputs_", {}) for step in steps]  # as skrub has it
        origin = {str(out): name for known in made for name, outs in known.items() for out in outs}
        sources = [_source(origin.get(name, name), names) for name in shown]
    scales = _scales(steps, len(cells))
    rates = np.array([1.0 if at is None else scales[k] for k, at in enumerate(sources)])
    _follow_numbers(sources, rates, encoder, table, np.asarray(cells, dtype=float))
    return RowColumns(
        [name.split("__", 1)[-1] for name in shown],
        [None if at is None else names[at] for at in sources],
        [cell if at is None else values[at] for at, cell in zip(sources, cells, strict=True)],
        rates,
    )


def _scales(steps: list[Any], width: int) -> np.ndarray:
    """Return how each column changes per unit of what the encoder before all scalers makes of it.

    Categories and numbers parsed from text have no unit in the table.
    """
    scales = np.ones(width)
    for step in reversed(steps):
        if not isinstance(step, StandardScaler) or step.n_features_in_ != width:
            return scales
        scales = scales if step.scale_ is None else scales / step.scale_
    return scales


def _follow_numbers(
    sources: list[int | None], rates: np.ndarray, encoder: Any, table: Any, cells: np.ndarray
) -> None:
    """Write how fast columns behind the encoder follow numbers they are made from; forget mixed.

    A name may stay while columns are mixed, as by whitening. For every binary digit of the numbers
    of columns, those with a one are moved together, and those with a zero: any other column is in
    one of these rows, where the source is not, so that about 2 log2(p) rows cover p columns.
    """
    values = values_of(table)
    targets = np.array(
        [float(v) + 1e-3 * max(1.0, abs(float(v))) if is_number(v) else np.nan for v in values]
    )
    movable = _movable(encoder, table, targets, np.flatnonzero(np.isfinite(targets)))
    if not len(movable):
        return
    digits = (movable[None] >> np.arange(max(len(values) - 1, 1).bit_length())[:, None]) & 1
    plan = np.vstack([np.ones((1, len(movable)), dtype=bool), digits == 1, digits == 0])
    given = np.array([float(values[j]) for j in movable])
    moved = encoder.transform(
        _with_numbers(table, movable, np.where(plan, targets[movable], given))
    )
    moved = np.asarray(moved.toarray() if sparse.issparse(moved) else moved, dtype=float)
    change = np.where(np.abs(moved - cells) > 1e-9 * np.abs(cells).max(), moved - cells, 0.0)
    at = {int(column): k for k, column in enumerate(movable)}
    for k, source in enumerate(sources):
        own = plan[:, at[source]] if source in at else np.zeros(len(plan), dtype=bool)
        if change[~own, k].any():
            sources[k], rates[k] = None, 1.0
        elif source in at and change[0, k]:
            rates[k] = change[0, k] / (targets[source] - float(values[source]))


def _movable(encoder: Any, table: Any, targets: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return those of ``columns`` that may take other numbers, halving until the others are found.

    A category may happen to be a number.
    """
    if not len(columns):
        return columns
    try:
        encoder.transform(_with_numbers(table, columns, targets[None, columns]))
        return columns
    except (TypeError, ValueError):
        if len(columns) == 1:
            return columns[:0]
    halves = np.array_split(columns, 2)
    return np.concatenate([_movable(encoder, table, targets, half) for half in halves])


def _with_numbers(table: Any, columns: np.ndarray, numbers: np.ndarray) -> Any:
    """Return a table of one row as often as ``numbers`` has rows, with these in ``columns``."""
    return set_columns(rows_of(table, np.zeros(len(numbers), dtype=np.int64)), columns, numbers)


def set_columns(rows: Any, columns: np.ndarray, numbers: np.ndarray) -> Any:
    """Return rows with these numbers in ``columns``."""
    if hasattr(rows, "with_columns"):  # polars
        return rows.with_columns(
            **{rows.columns[j]: numbers[:, k] for k, j in enumerate(columns.tolist())}
        )
    if is_frame(rows):
        rows = rows.reset_index(drop=True)
        rest = np.setdiff1d(np.arange(rows.shape[1]), columns)
        joined = rows.iloc[:, rest].join(type(rows)(numbers, columns=rows.columns[columns]))
        return joined.iloc[:, np.argsort(np.concatenate([rest, columns]))]
    if sparse.issparse(rows):
        rows = rows.tolil()
        rows[:, columns] = numbers
        return rows.tocsr()
    rows = np.array(rows, dtype=float if rows.dtype.kind in "biuf" else object)
    rows[:, columns] = numbers
    return rows


class MixedRows:
    """Tables whose cells are taken from a row, or from another row.

    Parameters
    ----------
    row, others : array, sparse matrix or frame
        One row, and others like it.
    """

    def __init__(self, row: Any, others: Any) -> None:
        self.template = row
        if is_frame(row):
            self.columns = [_joined(row, others, j) for j in range(row.shape[1])]
        elif sparse.issparse(row):
            both = sparse.vstack([row, others]).tocsc()
            self.active = np.flatnonzero(np.diff(both.indptr))
            self.cells = both[:, self.active].toarray()
        else:
            self.active = np.arange(row.shape[1])
            self.cells = np.vstack([np.asarray(row), np.asarray(others)])

    def differs(self) -> np.ndarray:
        """Return a matrix of which values of the others differ from those of the row."""
        if sparse.issparse(self.template):
            differs = np.zeros((len(self.cells) - 1, self.template.shape[1]), dtype=bool)
            differs[:, self.active] = self.cells[1:] != self.cells[0]
            return differs
        columns = [c.to_numpy() for c in self.columns] if is_frame(self.template) else self.cells.T
        return np.column_stack([_unequal(cells[1:], cells[0]) for cells in columns])

    def take(self, index: np.ndarray) -> Any:
        """Return a table like the row.

        Parameters
        ----------
        index : ndarray of int of shape (n_rows, n_columns)
            Where each cell comes from: 0 for the row, 1, 2, ... for the others.
        """
        if is_frame(self.template):
            parts = [
                cells.iloc[at].reset_index(drop=True) if hasattr(cells, "iloc") else cells[at]
                for cells, at in zip(self.columns, index.T, strict=True)
            ]
            return type(self.template)(dict(zip(self.template.columns, parts, strict=True)))
        cells = self.cells[index[:, self.active], np.arange(len(self.active))]
        if not sparse.issparse(self.template):
            return cells
        at, column = np.nonzero(cells)
        shape = (len(index), self.template.shape[1])
        return sparse.csr_matrix((cells[at, column], (at, self.active[column])), shape=shape)


def _joined(row: Any, others: Any, j: int) -> Any:
    """Return a column of the row and of the others as one series, with positions from 0."""
    if hasattr(row, "with_columns"):  # polars
        return row.to_series(j).cast(others.schema[others.columns[j]]).append(others.to_series(j))
    first, rest = row.iloc[:, j], others.iloc[:, j]
    cells = type(first)(np.concatenate([np.asarray(first), np.asarray(rest)]))
    try:
        typed = cells.astype(rest.dtype)
    except (TypeError, ValueError):
        return cells
    # Categories stay categories, unless the row has a value that is none of them.
    return cells if _unequal(cells.to_numpy(), typed.to_numpy()).any() else typed


def _unequal(a: np.ndarray, b: Any) -> np.ndarray:
    """Return which values differ; missing values are equal."""
    a, b = np.asarray(a), np.asarray(b)
    if a.dtype.kind in "biuf" and b.dtype.kind in "biuf":
        return (a != b) & ~(np.isnan(a) & np.isnan(b))
    pairs = np.broadcast(a.astype(object), b.astype(object))
    return np.array(
        [is_missing(p) != is_missing(q) or not (is_missing(p) or p == q) for p, q in pairs],
        dtype=bool,
    )
