"""Columns of pandas frames, polars frames and arrays as NumPy arrays of four kinds.

A column comes out as float64 (numbers and truth values, NaN for a gap), ``datetime64[us]`` or
``timedelta64[us]`` (NaT for a gap), or object (texts, ``None`` for a gap). Neither library is
imported: a frame brings its own.
"""

import datetime
import math
from decimal import Decimal
from numbers import Number
from typing import Any

import numpy as np

from vicinal._base._tables import is_missing

# Texts that stand for a value that is not there.
MISSING = frozenset(
    "|NA|N/A|n/a|#N/A|NaN|nan|null|NULL|None|?|-|--|<NA>|NaT".split("|"),
)
_NESTED = (list, tuple, dict, set, np.ndarray, bytes)


def read_column(X: Any, j: int) -> np.ndarray:
    """Return column ``j`` as an array of one of the four kinds."""
    if hasattr(X, "get_columns"):
        return _read_polars(X.to_series(j))
    return _read_pandas(X.iloc[:, j]) if hasattr(X, "iloc") else _read_array(X[:, j])


def is_category(X: Any, j: int) -> bool:
    """Tell whether a frame says by its type that column ``j`` holds categories."""
    if hasattr(X, "get_columns"):
        return type(X.to_series(j).dtype).__name__ in ("Categorical", "Enum")
    return hasattr(X, "iloc") and type(X.dtypes.iloc[j]).__name__ == "CategoricalDtype"


def quoted(names: Any, limit: int = 8) -> str:
    """Return names in quotes, the first few of many."""
    names = list(names)
    shown = ", ".join(repr(str(name)) for name in names[:limit])
    return shown + (f" and {len(names) - limit} more" if len(names) > limit else "")


def label_of(value: Any) -> str:
    """Return a value as the text of a level; a whole number has no decimals, whatever its type."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def is_nested(values: np.ndarray) -> bool:
    """Tell whether a column holds lists, mappings or bytes, which are no single value."""
    return values.dtype == object and any(isinstance(value, _NESTED) for value in values)


def is_gap(values: np.ndarray) -> np.ndarray:
    """Mark the gaps of a column of any of the four kinds."""
    if values.dtype == object:
        return np.array([value is None for value in values], dtype=bool)
    return np.isnat(values) if values.dtype.kind in "mM" else np.isnan(values)


def _read_array(column: np.ndarray) -> np.ndarray:
    if column.dtype.kind in "biuf":
        return column.astype(np.float64)
    if column.dtype.kind == "M":
        return column.astype("datetime64[us]")
    if column.dtype.kind == "m":
        return column.astype("timedelta64[us]")
    return _read_objects(column.tolist())


def _read_pandas(series: Any) -> np.ndarray:
    if type(series.dtype).__name__ == "PeriodDtype":
        series = series.dt.to_timestamp()  # the start of each
    kind = getattr(series.dtype, "kind", "O")
    if kind in "biuf":
        return series.to_numpy(dtype=np.float64, na_value=np.nan)
    if kind == "M":
        series = series.dt.tz_localize(None) if getattr(series.dt, "tz", None) else series
        return series.to_numpy(dtype="datetime64[us]")
    if kind == "m":
        return series.to_numpy(dtype="timedelta64[us]")
    return _read_objects(series.astype(object).tolist())


def _read_polars(series: Any) -> np.ndarray:
    import polars as pl

    dtype = series.dtype
    if dtype.is_numeric() or dtype in (pl.Boolean, pl.Null):
        return series.cast(pl.Float64).to_numpy().astype(np.float64)
    if dtype == pl.Datetime:
        return series.dt.replace_time_zone(None).cast(pl.Datetime("us")).to_numpy()
    if dtype == pl.Date:
        return series.cast(pl.Datetime("us")).to_numpy()
    if dtype == pl.Duration:
        return series.cast(pl.Duration("us")).to_numpy()
    if dtype == pl.Time:
        return series.cast(pl.Int64).cast(pl.Float64).to_numpy() / 1e9
    if dtype in (pl.Categorical, pl.Enum):
        series = series.cast(pl.String)
    return _read_objects(series.to_list())


def _read_objects(values: list[Any]) -> np.ndarray:
    """Bring Python objects to the narrowest of the four kinds that holds them all."""
    if set(map(type, values)) <= {str, type(None)}:
        return _levels(values)
    known = [None if is_missing(value) else value for value in values]
    kinds = {type(value) for value in known if value is not None}
    if all(issubclass(kind, Number | Decimal | np.bool_) for kind in kinds):
        return np.array([math.nan if value is None else float(value) for value in known])
    if all(issubclass(kind, datetime.date | np.datetime64) for kind in kinds):
        return np.array([_without_zone(value) for value in known], dtype="datetime64[us]")
    if all(issubclass(kind, datetime.timedelta | np.timedelta64) for kind in kinds):
        return np.array(known, dtype="timedelta64[us]")
    return _texts(known)


def _levels(values: list[str | None]) -> np.ndarray:
    """Return texts, looking at each that occurs once: long columns repeat a few of them."""
    texts = {value: _text(value) for value in set(values)}
    found = np.empty(len(values), dtype=object)
    found[:] = [texts[value] for value in values]
    return found


def _texts(values: list[Any]) -> np.ndarray:
    found = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):
        found[i] = _text(value)
    return found


def _text(value: Any) -> Any:
    """Return a value as text, ``None`` for a gap; nested values stay."""
    if value is None or isinstance(value, _NESTED):
        return value
    text = label_of(value).strip()
    return None if text in MISSING else text


def _without_zone(value: Any) -> Any:
    is_aware = isinstance(value, datetime.datetime) and value.tzinfo is not None
    return value.replace(tzinfo=None) if is_aware else value
