"""Columns of the table that a row came from, also behind encoders."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from vicinal._base import import_optional
from vicinal._base._compat import rows_of
from vicinal._base._explanation import RowColumns, column_names, values_of


def one_row(X_row: Any, model: Any) -> Any:
    """Return a table of one row from a row of any kind: frame, series, mapping, vector, matrix.

    A model that was fitted on a frame gets a frame.
    """
    if isinstance(X_row, Mapping):
        pandas = import_optional("pandas", needed_by="explain with a mapping", extra="frame")
        return pandas.DataFrame([dict(X_row)])
    if hasattr(X_row, "to_frame") and getattr(X_row, "ndim", 2) == 1 and hasattr(X_row, "index"):
        return X_row.to_frame().T.infer_objects()
    if hasattr(X_row, "columns") or sparse.issparse(X_row):
        table = X_row
    else:
        table = np.asarray(X_row)
        table = table[None, :] if table.ndim == 1 else table
    if len(table.shape) != 2 or table.shape[0] != 1:
        raise ValueError(
            f"explain takes one row, got an array of shape {tuple(table.shape)}; pass X[i:i + 1]."
        )
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
            f"feature_names has {len(feature_names)} entries, but the row has {table.shape[1]} "
            "columns."
        )
    return [str(name) for name in feature_names]


def sources_of(transformer: Any, n_columns: int, names_in: list[str]) -> list[int | None] | None:
    """Return for every output column of a transformer the one input it was made from, or ``None``.

    ``None`` for the whole answer means that the transformer does not tell.
    """
    if isinstance(transformer, Pipeline):
        return _through_steps([step for _, step in transformer.steps], n_columns, names_in)
    if transformer is None or transformer == "passthrough":
        return list(range(n_columns))
    if isinstance(transformer, ColumnTransformer):
        return _through_columns(transformer, names_in)
    if isinstance(transformer, FeatureUnion):
        parts = [sources_of(step, n_columns, names_in) for _, step in transformer.transformer_list]
        return None if None in parts else [at for part in parts if part for at in part]
    return _by_names(transformer, n_columns, names_in)


def _through_steps(steps: list[Any], n_columns: int, names_in: list[str]):
    sources: list[int | None] = list(range(n_columns))
    names = names_in
    for step in steps:
        found = sources_of(step, len(names), names)
        if found is None:
            return None
        sources = [None if at is None else sources[at] for at in found]
        names = names_out(step, names, len(found)) or []
    return sources


def _through_columns(transformer: ColumnTransformer, names_in: list[str]):
    width = max((part.stop for part in transformer.output_indices_.values()), default=0)
    sources: list[int | None] = [None] * width
    for name, step, columns in transformer.transformers_:
        place = transformer.output_indices_.get(name, slice(0, 0))
        if step == "drop" or place.stop == place.start:
            continue
        chosen = _positions(columns, names_in)
        inner = sources_of(step, len(chosen), [names_in[at] for at in chosen])
        if inner is None or len(inner) != place.stop - place.start:
            continue
        sources[place] = [None if at is None else chosen[at] for at in inner]
    return sources


def _positions(columns: Any, names_in: list[str]) -> list[int]:
    if isinstance(columns, str):
        return [names_in.index(columns)]
    if isinstance(columns, slice):
        start, stop = columns.start, columns.stop
        start = names_in.index(start) if isinstance(start, str) else start
        stop = names_in.index(stop) + 1 if isinstance(stop, str) else stop
        return list(range(len(names_in)))[start : stop : columns.step]
    array = np.atleast_1d(np.asarray(columns))
    if array.dtype == bool:
        return np.flatnonzero(array).tolist()
    return [names_in.index(at) if isinstance(at, str) else int(at) for at in array.tolist()]


def _by_names(transformer: Any, n_columns: int, names_in: list[str]):
    """Match the names that come out with those that went in; the longest match wins."""
    mapping = getattr(transformer, "input_to_outputs_", None)  # skrub's TableVectorizer
    if mapping is not None:
        origin = {out: name for name, outs in mapping.items() for out in outs}
        out = [str(name) for name in transformer.get_feature_names_out()]
        return [names_in.index(origin[name]) if name in origin else None for name in out]
    found = names_out(transformer, names_in, None)
    if found is None:
        return None
    if len(found) == n_columns and _keeps_columns(transformer, found, names_in):
        return list(range(n_columns))
    return [_longest_match(name, names_in) for name in found]


def _keeps_columns(transformer: Any, out: list[str], names_in: list[str]) -> bool:
    return out == names_in or bool(getattr(get_tags(transformer), "one_to_one", False))


def _longest_match(name: str, names_in: list[str]) -> int | None:
    found = [
        at
        for at, source in enumerate(names_in)
        if name == source or name.startswith((f"{source}_", f"{source}__"))
    ]
    return max(found, key=lambda at: len(names_in[at])) if found else None


def names_out(transformer: Any, names_in: list[str], width: int | None) -> list[str] | None:
    """Return the names that a transformer gives its columns, or numbered ones."""
    if transformer is None or transformer == "passthrough":
        return names_in
    given = None if hasattr(transformer, "feature_names_in_") else np.array(names_in, dtype=object)
    try:
        return [str(name) for name in transformer.get_feature_names_out(given)]
    except (AttributeError, ValueError):
        return None if width is None else [f"column {j}" for j in range(width)]


def columns_behind(steps: list[Any], table: Any, names: list[str], seen: Any) -> RowColumns:
    """Return the columns that a model behind ``steps`` sees in the row ``table``."""
    values = values_of(table)
    if not steps:
        return RowColumns.of_table(table, names)
    encoder = Pipeline([(str(j), step) for j, step in enumerate(steps)])
    cells = values_of(seen)
    shown = names_out(encoder, names, None)
    if shown is None or len(shown) != len(cells):
        shown = [f"column {j}" for j in range(len(cells))]
    sources = sources_of(encoder, len(names), names)
    if sources is None or len(sources) != len(cells):
        sources = [None] * len(cells)
    scales = _scales(steps, len(cells))
    rates = np.array([1.0 if at is None else scales[k] for k, at in enumerate(sources)])
    _settle(sources, rates, encoder, table, np.asarray(cells, dtype=float))
    return RowColumns(
        [name.split("__", 1)[-1] for name in shown],
        [None if at is None else names[at] for at in sources],
        [cell if at is None else values[at] for at, cell in zip(sources, cells, strict=True)],
        rates,
    )


def _scales(steps: list[Any], width: int) -> np.ndarray:
    """Return how each column changes per unit of what the encoder before all scalers makes of it.

    Levels and numbers read from text have no unit of their own in the table.
    """
    scales = np.ones(width)
    for step in reversed(steps):
        if not isinstance(step, StandardScaler) or step.n_features_in_ != width:
            return scales
        scales = scales if step.scale_ is None else scales / step.scale_
    return scales


def _settle(
    sources: list[int | None], rates: np.ndarray, encoder: Any, table: Any, cells: np.ndarray
) -> None:
    """Write how fast columns behind the encoder follow numbers they are made from; forget mixed.

    A name may stay while columns are mixed, as by whitening. For every binary digit of the numbers
    of columns, those with a one are moved together, and those with a zero: any other column is in
    one of these rows, where the source is not, so that about 2 log2(p) rows tell of p columns.
    """
    values = values_of(table)
    targets = np.array([_moved(value) for value in values])
    movable = _movable(encoder, table, targets, np.flatnonzero(np.isfinite(targets)))
    if not len(movable):
        return
    digits = (movable[None] >> np.arange(max(len(values) - 1, 1).bit_length())[:, None]) & 1
    plan = np.vstack([np.ones((1, len(movable)), dtype=bool), digits == 1, digits == 0])
    given = np.array([float(values[j]) for j in movable])
    moved = encoder.transform(with_values(table, movable, np.where(plan, targets[movable], given)))
    moved = np.asarray(moved.toarray() if sparse.issparse(moved) else moved, dtype=float)
    change = np.where(np.abs(moved - cells) > 1e-9 * np.abs(cells).max(), moved - cells, 0.0)
    at = {int(column): k for k, column in enumerate(movable)}
    for k, source in enumerate(sources):
        own = plan[:, at[source]] if source in at else np.zeros(len(plan), dtype=bool)
        if change[~own, k].any():
            sources[k], rates[k] = None, 1.0
        elif source in at and change[0, k]:
            rates[k] = change[0, k] / (targets[source] - float(values[source]))


def _moved(value: Any) -> float:
    """Return a number near ``value``, NaN where it is no number."""
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return float(value) + 1e-3 * max(1.0, abs(float(value))) if is_number else np.nan


def _movable(encoder: Any, table: Any, targets: np.ndarray, columns: np.ndarray) -> np.ndarray:
    """Return those of ``columns`` that may take other numbers, halving until the others are found.

    A category may happen to be a number.
    """
    if not len(columns):
        return columns
    try:
        encoder.transform(with_values(table, columns, targets[None, columns]))
        return columns
    except (TypeError, ValueError):
        if len(columns) == 1:
            return columns[:0]
    halves = np.array_split(columns, 2)
    return np.concatenate([_movable(encoder, table, targets, half) for half in halves])


def with_values(table: Any, columns: np.ndarray, values: np.ndarray) -> Any:
    """Return a table of one row as often as ``values`` has rows, with these in ``columns``."""
    rows = rows_of(table, np.zeros(len(values), dtype=np.int64))
    if hasattr(rows, "with_columns"):  # polars
        return rows.with_columns(
            **{rows.columns[j]: values[:, k] for k, j in enumerate(columns.tolist())}
        )
    if hasattr(rows, "columns"):
        rows = rows.reset_index(drop=True)
        names = rows.columns
        rest = np.setdiff1d(np.arange(len(names)), columns)
        moved = type(rows)(values, columns=names[columns])
        joined = rows.iloc[:, rest].join(moved)
        return joined.iloc[:, np.argsort(np.concatenate([rest, columns]))]
    if sparse.issparse(rows):
        rows = rows.tolil()
        rows[:, columns] = values
        return rows.tocsr()
    rows = np.array(rows, dtype=object if rows.dtype == object else float)
    rows[:, columns] = values
    return rows
