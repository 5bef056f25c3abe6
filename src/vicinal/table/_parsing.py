"""Texts that are numbers or dates in disguise."""

import re
from collections import Counter
from collections.abc import Iterable
from datetime import datetime

import numpy as np

from vicinal.table._frames import label_of

# 1234.5, 1,234.50 and .5e-3, after currency, percent and blanks are gone.
_PLAIN = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+|\d{1,3}(?:,\d{3})+(?:\.\d*)?)(?:[eE][+-]?\d+)?")
_BLANK_THOUSANDS = re.compile(r"(?<=\d)[ \u00a0\u202f'’](?=\d{3}(?!\d))")
_CURRENCY = re.compile(
    r"[$€£¥₹]|\b(?:AUD|BRL|CAD|CHF|CNY|CZK|DKK|EUR|GBP|HUF|INR|JPY|KRW|MXN|NOK|NZD|PLN|SEK|USD|ZAR)\b"
)
_QUARTER = re.compile(r"(\d{4})[ -]?[Qq]([1-4])")
_LEADING_ZERO = re.compile(r"0\d+")
_SWAPPED = str.maketrans(",.", ".,")
# What stands before a number that is a limit, and after one that is measured in something.
_LIMIT = re.compile(r"[<>≤≥~≈]=?\s*(?=[\d.,])")
_UNIT = re.compile(r"(?<=\d)\s*([^\d\s.,:%)/$€£¥₹-][^\d]{0,15})$")

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
_FIRST_LOOK = 20


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


def decimal_of(levels: Iterable[str], unit: str = "") -> tuple[str, list[str]]:
    """Return the decimal mark under which most texts are numbers, and those that are none.

    Where both marks read as many, it is the point.
    """
    levels = list(levels)
    words = {
        mark: [text for text in levels if np.isnan(parse_number(text, mark, unit))]
        for mark in (".", ",")
    }
    mark = "," if len(words[","]) < len(words["."]) else "."
    return mark, words[mark]


def is_limit(text: str) -> bool:
    """Tell whether a text is a limit such as ``<0.5``, which levels of a range are, too."""
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


def has_leading_zeros(levels: Iterable[str]) -> bool:
    """Tell whether the texts are digits with zeros in front, as codes have and numbers have not."""
    return any(_LEADING_ZERO.fullmatch(text) for text in levels)


def parse_date(text: str, form: str) -> datetime | None:
    """Return the moment that a text shows in a form of ``DATE_FORMATS``, without its time zone."""
    try:
        if form == "iso":
            found = datetime.fromisoformat(text) if "-" in text[1:] else None
            return found and found.replace(tzinfo=None)
        if form == "quarter":
            quarter = _QUARTER.fullmatch(text)
            return quarter and datetime(int(quarter[1]), 3 * int(quarter[2]) - 2, 1)
        return datetime.strptime(text, form)
    except ValueError:
        return None


def date_format_of(levels: Iterable[str], share: float) -> str | None:
    """Return the first form in which at least ``share`` of the texts are dates, if there is one."""
    levels = list(levels)
    if not any(character.isdigit() for text in levels[:_FIRST_LOOK] for character in text):
        return None

    def is_read(form: str, texts: list[str]) -> bool:
        return sum(parse_date(text, form) is not None for text in texts) >= share * len(texts)

    return next(
        (
            form
            for form in DATE_FORMATS
            if is_read(form, levels[:_FIRST_LOOK]) and is_read(form, levels)
        ),
        None,
    )


def are_dates_in_digits(numbers: np.ndarray) -> bool:
    """Tell whether numbers are dates written as 19740131, every one of them."""
    known = numbers[~np.isnan(numbers)]
    if not len(known) or known.min() < 18000101 or known.max() > 22001231:
        return False
    texts = {label_of(number) for number in known}
    return all(len(text) == 8 and parse_date(text, DIGITS) is not None for text in texts)


# --- a column as one kind, whatever it is now ---------------------------------------------------


def as_numbers(values: np.ndarray, decimal: str = ".", unit: str = "") -> np.ndarray:
    """Return a column as numbers; what is none, infinities included, is NaN.

    A duration is counted in seconds, a date in days since 1970.
    """
    if values.dtype == object:
        return _each(values, lambda text: parse_number(text, decimal, unit), np.nan, np.float64)
    if values.dtype.kind == "m":
        return _scaled(values, 1e6)
    if values.dtype.kind == "M":
        return _scaled(values, 86_400e6)
    return np.where(np.isinf(values), np.nan, values)


def as_dates(values: np.ndarray, form: str = "iso") -> np.ndarray:
    """Return a column as dates; what is none is NaT."""
    if values.dtype.kind == "M":
        return values
    if values.dtype != object and form != DIGITS:
        return np.full(len(values), "NaT", dtype="datetime64[us]")
    return _each(values, lambda text: parse_date(text, form), None, "datetime64[us]")


def as_labels(values: np.ndarray) -> np.ndarray:
    """Return a column as texts, ``None`` for a gap."""
    if values.dtype == object:
        return np.array([v if isinstance(v, str) else None for v in values], dtype=object)
    gaps = np.isnat(values) if values.dtype.kind in "mM" else np.isnan(values)
    texts = [None if gap else label_of(v) for v, gap in zip(values, gaps, strict=True)]
    return np.array(texts, dtype=object)


def _each(values, parse, gap, dtype):
    """Parse every different text once."""
    texts = as_labels(values).tolist()
    known = {text: gap if text is None else parse(text) for text in set(texts)}
    return np.array([known[text] for text in texts], dtype=dtype)


def _scaled(values, microseconds):
    numbers = values.astype("int64").astype(np.float64) / microseconds
    return np.where(np.isnat(values), np.nan, numbers)
