"""Columns of frames and arrays as NumPy arrays, and numbers and dates written as text.

A column comes out as float64 (numbers and truth values), ``datetime64[us]``, ``timedelta64[us]`` or
object (texts); missing values are NaN, NaT or ``None``. Neither pandas nor polars is imported: a
frame brings its own.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from numbers import Number
from typing import Any

import numpy as np

from vicinal._base._tables import column_names, is_missing

# Texts that stand for a value that is not there.
MISSING_TEXTS = frozenset("|NA|N/A|n/a|#N/A|NaN|nan|null|NULL|None|?|-|--|<NA>|NaT".split("|"))
_NESTED = (list, tuple, dict, set, np.ndarray, bytes)


class ReadFrame:
    """The columns of a frame as arrays, for encoders that read the same frame."""

    def __init__(self, X: Any) -> None:
        self.shape = X.shape
        self.columns = list(X.columns)
        if hasattr(X, "_iter_column_arrays"):  # to make a series of each takes longer than a model
            columns = enumerate(X._iter_column_arrays())
            self.arrays = [_read_stored(X, j, column) for j, column in columns]
        else:
            self.arrays = [read_column(X, j) for j in range(X.shape[1])]


def read_column(X: Any, j: int) -> np.ndarray:
    """Return column ``j`` as an array of one of the four kinds."""
    if isinstance(X, ReadFrame):
        return X.arrays[j]
    if hasattr(X, "get_columns"):
        return _read_polars(X, j)
    if hasattr(X, "iloc"):
        return _read_stored(X, j, X.iloc[:, j].array)
    return _read_array(X, j, X[:, j])


def is_category(X: Any, j: int) -> bool:
    """Return whether column ``j`` of a frame has a categorical type."""
    if hasattr(X, "get_columns"):
        return type(X.to_series(j).dtype).__name__ in ("Categorical", "Enum")
    return hasattr(X, "iloc") and type(X.dtypes.iloc[j]).__name__ == "CategoricalDtype"


def label_of(value: Any) -> str:
    """Return a value as the text of a category; a whole number without decimals."""
    if isinstance(value, float | np.floating) and float(value).is_integer():
        return str(int(value))
    return str(value)


def is_nested(values: np.ndarray) -> bool:
    """Return whether a column holds lists, mappings or bytes, which are no single value."""
    return values.dtype == object and any(isinstance(value, _NESTED) for value in values)


def missing_values(values: np.ndarray) -> np.ndarray:
    """Mark the missing values of a column of any of the four kinds."""
    if values.dtype == object:
        return np.array([value is None for value in values], dtype=bool)
    return np.isnat(values) if values.dtype.kind in "mM" else np.isnan(values)


def _read_array(X: Any, j: int, column: np.ndarray) -> np.ndarray:
    if column.dtype.kind in "biuf":
        return column.astype(np.float64)
    if column.dtype.kind == "M":
        return column.astype("datetime64[us]")
    if column.dtype.kind == "m":
        return column.astype("timedelta64[us]")
    return _read_objects(X, j, column.tolist())


def _read_stored(X: Any, j: int, column: Any) -> np.ndarray:
    """Return column ``j`` of a frame of pandas, whose array is ``column``."""
    if type(column) is np.ndarray:
        return _read_array(X, j, column)
    if type(column.dtype).__name__ != "CategoricalDtype":
        return _read_pandas(X, j)
    codes, known = column.codes.tolist(), column.categories
    known = known if len(codes) < len(known) else known.tolist()
    # Code -1 is a missing value.
    return _read_objects(X, j, [known[code] if code >= 0 else math.nan for code in codes])


def _read_pandas(X: Any, j: int) -> np.ndarray:
    series = X.iloc[:, j]
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
    series = series if series.dtype == object else series.astype(object)
    return _read_objects(X, j, series.tolist())


def _read_polars(X: Any, j: int) -> np.ndarray:
    import polars as pl

    series = X.to_series(j)
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
    return _read_objects(X, j, series.to_list())


def _read_objects(X: Any, j: int, values: list[Any]) -> np.ndarray:
    """Bring Python objects to the narrowest of the four kinds that holds them all."""
    if set(map(type, values)) <= {str, type(None)}:
        texts = {value: _text(value) for value in set(values)}  # long columns repeat a few
        return np.fromiter((texts[value] for value in values), dtype=object, count=len(values))
    known = [None if is_missing(value) else value for value in values]
    kinds = {type(value) for value in known if value is not None}
    if any(issubclass(kind, complex | np.complexfloating) for kind in kinds):
        raise ValueError(
            f"the column {column_names(X)[j]!r} holds complex numbers, which have no order; make "
            "columns of their real and imaginary parts."
        )
    if all(issubclass(kind, Number | Decimal | np.bool_) for kind in kinds):
        return np.array([math.nan if value is None else float(value) for value in known])
    if all(issubclass(kind, date | np.datetime64) for kind in kinds):
        return np.array([_without_zone(value) for value in known], dtype="datetime64[us]")
    if all(issubclass(kind, timedelta | np.timedelta64) for kind in kinds):
        return np.array(known, dtype="timedelta64[us]")
    return np.fromiter(map(_text, known), dtype=object, count=len(known))


def _text(value: Any) -> Any:
    """Return a value as text, ``None`` for a missing one; nested values stay."""
    if value is None or isinstance(value, _NESTED):
        return value
    text = label_of(value).strip()
    return None if text in MISSING_TEXTS else text


def _without_zone(value: Any) -> Any:
    is_aware = isinstance(value, datetime) and value.tzinfo is not None
    return value.replace(tzinfo=None) if is_aware else value


# 1234.5, 1,234.50 and .5e-3, after currency, percent and blanks are gone.
_PLAIN = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+|\d{1,3}(?:,\d{3})+(?:\.\d*)?)(?:[eE][+-]?\d+)?")
_BLANK_THOUSANDS = re.compile(r"(?<=\d)[ \u00a0\u202f'’](?=\d{3}(?!\d))")
_CURRENCY = re.compile(
    r"[$€£¥₹]|\b(?:AUD|BRL|CAD|CHF|CNY|CZK|DKK|EUR|GBP|HUF|INR|JPY|KRW|MXN|NOK|NZD|PLN|SEK|USD|ZAR)\b"
)
_QUARTER = re.compile(r"(\d{4})[ -]?[Qq]([1-4])")
_LEADING_ZERO = re.compile(r"0\d+")
_SWAPPED = str.maketrans(",.", ".,")
# What stands before a number that is a limit, and after one that is measured in something.
_LIMIT = re.compile(r"[<>≤≥~≈]=?\s*(?=[\d.,])")
# Of digits a unit has the power alone, as m2 has.
_UNIT = re.compile(r"(?<=\d)\s*([^\d\s.,:%)/$€£¥₹-][^\d]{0,15}(?:(?<=[A-Za-z])[23])?)$")

# Several numbers in a cell, 120/80 or 52.5, 13.4: digits with leading zeros are parts of a code.
_PART = r"[+-]?(?:0|[1-9]\d*)(?:\.\d+)?"
_BETWEEN = r"(?<=\d)\s*[/x×+:;,|]\s*"
_PARTS = re.compile(f"{_PART}(?:{_BETWEEN}{_PART})+")
_SEPARATORS = ";|,"

_DAYS = (
    "%Y/%m/%d", "%d.%m.%Y", "%d.%m.%y", "%m/%d/%Y", "%d/%m/%Y", "%m/%d/%y", "%d/%m/%y", "%d-%m-%Y",
    "%m-%d-%Y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y", "%d-%b-%Y", "%d-%b-%y",
    "%b-%d-%Y", "%b %Y", "%B %Y", "%b-%Y", "%Y-%m", "%m/%Y", "%Y.%m.%d",
)  # fmt: skip
CLOCKS = ("%H:%M", "%H:%M:%S", "%I:%M %p", "%I:%M:%S %p")
# "iso" is everything that datetime.fromisoformat reads, as long as it has a dash; "quarter" is
# 1974Q1. Numbers such as 19740131 are dates if all are.
DIGITS = "%Y%m%d"
DATE_FORMATS = (
    "iso",
    "quarter",
    *_DAYS,
    *(f"{day} {clock}" for clock in CLOCKS for day in _DAYS),
    *CLOCKS,
)
_FIRST_LOOK = 40
# A column of dates may be written in so many ways, each with this share of the dates or more.
_MAX_FORMATS, _LEAST_SHARE = 3, 0.05


def parse_number(text: str, decimal: str = ".", unit: str = "") -> float:
    """Return the number that a text shows, NaN when it shows none.

    Signs and codes of currencies are dropped, ``15%`` is 0.15, ``(12)`` is -12, ``<0.5`` is 0.5;
    thousands may be set apart by blanks, apostrophes, or whichever of comma and point is not the
    ``decimal`` mark. The ``unit``, if there is one, is dropped too.
    """
    sign, share = 1.0, 1.0
    text = _LIMIT.sub("", _CURRENCY.sub("", text).strip(), count=1)
    if unit and _unit_in(text) == unit:
        text = _UNIT.sub("", text)
    if text.startswith("(") and text.endswith(")"):
        sign, text = -1.0, text[1:-1]
    if text.endswith("%"):
        share, text = 0.01, text[:-1]
    text = _BLANK_THOUSANDS.sub("", text.strip())
    if decimal == ",":
        text = text.translate(_SWAPPED)
    if not _PLAIN.fullmatch(text):
        return np.nan
    number = sign * float(text.replace(",", ""))
    return number if share == 1.0 else round(share * number, 12)


def decimal_of(categories: Iterable[str], unit: str = "") -> tuple[str, list[str]]:
    """Return the decimal mark under which most texts are numbers, and those that are none.

    Where both marks read as many, it is the point.
    """
    categories = list(categories)
    others = {
        mark: [text for text in categories if np.isnan(parse_number(text, mark, unit))]
        for mark in (".", ",")
    }
    mark = "," if len(others[","]) < len(others["."]) else "."
    return mark, others[mark]


def is_limit(text: str) -> bool:
    """Return whether a text is a limit such as ``<0.5``, which categories of a range are, too."""
    return _LIMIT.match(text) is not None


def unit_of(texts: Iterable[str]) -> str:
    """Return the unit that most numbers are measured in, an empty text for none."""
    counts = Counter(filter(None, map(_unit_in, texts)))
    return max(counts, key=counts.__getitem__) if counts else ""


def _unit_in(text: str) -> str:
    """Return what stands behind a number, in lower case and singular: ``2 Years`` is ``year``."""
    found = _UNIT.search(text)
    unit = found[1].strip().lower() if found else ""
    return unit[:-1] if len(unit) > 2 and unit.endswith("s") else unit


def numbers_in(text: str) -> list[float]:
    """Return the numbers of a text that is made of several, none if it is not."""
    return [float(n) for n in re.split(_BETWEEN, text)] if _PARTS.fullmatch(text) else []


def separator_of(texts: Iterable[str]) -> str:
    """Return what sets the choices apart that most texts list, an empty text if none do."""
    counts = Counter(mark for text in texts for mark in _SEPARATORS if mark in text)
    return max(_SEPARATORS, key=lambda mark: counts[mark]) if counts else ""


def choices_in(text: str | None, separator: str) -> list[str]:
    """Return the choices that a cell lists."""
    return [part.strip() for part in (text or "").split(separator) if part.strip()]


def has_leading_zeros(categories: Iterable[str]) -> bool:
    """Return whether texts are digits with zeros in front, as codes have and numbers do not."""
    return any(_LEADING_ZERO.fullmatch(text) for text in categories)


def parse_date(text: str, formats: Sequence[str]) -> datetime | None:
    """Return the moment that a text shows in the first of some formats that reads it, if one does.

    Forms are those of ``DATE_FORMATS``; the time zone is left out.
    """
    found = (_parsed(text, pattern) for pattern in formats)
    return next((moment for moment in found if moment is not None), None)


def _parsed(text: str, pattern: str) -> datetime | None:
    try:
        if pattern == "iso":
            found = datetime.fromisoformat(text) if "-" in text[1:] else None
            return found and found.replace(tzinfo=None)
        if pattern == "quarter":
            quarter = _QUARTER.fullmatch(text)
            return quarter and datetime(int(quarter[1]), 3 * int(quarter[2]) - 2, 1)
        return datetime.strptime(text, pattern)
    except ValueError:
        return None


def date_formats_of(categories: Iterable[str], share: float) -> tuple[str, ...]:
    """Return the formats in which texts are dates, none where fewer than ``share`` of them are.

    The format that reads most comes first, and then those that read what is left. A format is never
    joined by the one that has day and month the other way round: most dates are both.
    """
    categories = list(categories)
    rest = first_look = categories[:: max(1, len(categories) // _FIRST_LOOK)]
    if not any(character.isdigit() for text in rest for character in text):
        return ()
    formats: list[str] = []
    while rest and len(formats) < _MAX_FORMATS:
        left = {
            pattern: _unread(rest, [pattern])
            for pattern in DATE_FORMATS
            if _may_join(pattern, formats)
        }
        best = min(left, key=lambda pattern: len(left[pattern]))
        if len(rest) - len(left[best]) < max(1, _LEAST_SHARE * len(first_look)):
            break
        formats.append(best)
        rest = left[best]
    return (
        tuple(formats)
        if len(_unread(categories, formats)) <= (1.0 - share) * len(categories)
        else ()
    )


def _unread(texts: list[str], formats: Sequence[str]) -> list[str]:
    return [text for text in texts if parse_date(text, formats) is None]


def _may_join(pattern: str, formats: list[str]) -> bool:
    """Return whether a format may be used with others: clock times and dates do not mix."""
    swapped = pattern.translate(str.maketrans("dm", "md"))
    return swapped not in formats and all((pattern in CLOCKS) == (f in CLOCKS) for f in formats)


def are_dates_in_digits(numbers: np.ndarray) -> bool:
    """Return whether numbers are dates written as 19740131, every one of them."""
    known = numbers[~np.isnan(numbers)]
    if not len(known) or known.min() < 18000101 or known.max() > 22001231:
        return False
    texts = {label_of(number) for number in known}
    return all(len(text) == 8 and _parsed(text, DIGITS) is not None for text in texts)


def sentinel_in(numbers: np.ndarray) -> float | None:
    """Return -99, -999, ... where it is farther from all other numbers than these are apart.

    Loggers write such a number where nothing was measured.
    """
    known = np.unique(numbers[np.isfinite(numbers)])
    if len(known) < 3 or set(label_of(known[0])[1:]) != {"9"} or known[0] > -99:
        return None
    return float(known[0]) if known[1] - known[0] > known[-1] - known[1] else None


# --- a column as one kind, whatever it is now ---------------------------------------------------


def as_numbers(values: np.ndarray, decimal: str = ".", unit: str = "") -> np.ndarray:
    """Return a column as numbers; what is none, infinities included, is NaN.

    A duration is counted in seconds, a date in days since 1970.
    """
    if values.dtype == object:
        values = _each(values, lambda text: parse_number(text, decimal, unit), np.nan, np.float64)
    if values.dtype.kind in "mM":
        microseconds = 1e6 if values.dtype.kind == "m" else 86_400e6
        numbers = values.astype("int64").astype(np.float64) / microseconds
        return np.where(np.isnat(values), np.nan, numbers)
    return np.where(np.isinf(values), np.nan, values)


def as_dates(values: np.ndarray, formats: Sequence[str]) -> np.ndarray:
    """Return a column as dates; what is none is NaT."""
    if values.dtype.kind == "M":
        return values
    if values.dtype != object and DIGITS not in formats:
        return np.full(len(values), "NaT", dtype="datetime64[us]")
    return _each(values, lambda text: parse_date(text, formats), None, "datetime64[us]")


def as_labels(values: np.ndarray) -> np.ndarray:
    """Return a column as texts, ``None`` for a missing value."""
    if values.dtype == object:
        if {*map(type, values)} <= {str, type(None)}:
            return values
        return np.array([v if isinstance(v, str) else None for v in values], dtype=object)
    pairs = zip(values, missing_values(values), strict=True)
    texts = [None if missing else label_of(value) for value, missing in pairs]
    return np.array(texts, dtype=object)


def _each(values, parse, missing, dtype):
    """Parse every different text once."""
    texts = as_labels(values).tolist()
    known = {text: missing if text is None else parse(text) for text in set(texts)}
    return np.array([known[text] for text in texts], dtype=dtype)
