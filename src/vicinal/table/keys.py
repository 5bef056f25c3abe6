"""Columns of whole numbers that are keys, by their name: an order of them means nothing."""

import re
from typing import Any

import numpy as np

from vicinal.table._frames import MISSING, column_names, read_column

# From this many rows on, a value of its own in every row makes an identifier.
ENOUGH_ROWS = 10
# Words in customerID, customer_id and customer id.
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_IDS = ("id", "identifier")
_KEYS = (*_IDS, "key", "uuid", "guid", "no", "nr", "number")
_COUNTERS = ("", "index", "obs", "rownames", "rownum", "unnamed 0")


def is_missing(text: str) -> bool:
    """Tell whether a text stands for a missing value."""
    return text.strip() in MISSING


def is_id(name: str) -> bool:
    """Tell whether a column has the name of an id, which rows of one customer, say, share."""
    return _words(name)[-1] in _IDS


def key_kind(name: str, numbers: np.ndarray) -> str | None:
    """Return what is done with a column of numbers if it is a key, ``None`` if it is none.

    One with a number of its own in every row is an identifier and left out ("drop"). An id that
    repeats (of a customer, of a place) stands for what its rows have in common: a "category".
    """
    words = _words(name)
    has_the_name = words[-1] in _KEYS or " ".join(words) in _COUNTERS
    if not has_the_name or numbers.dtype.kind != "f" or len(numbers) < ENOUGH_ROWS:
        return None
    known = numbers[~np.isnan(numbers)]
    if not len(known) or not (known == np.round(known)).all():
        return None
    if len(np.unique(known)) == len(numbers):
        return "drop"
    return "category" if is_id(name) else None


def has_keys(X: Any) -> bool:
    """Tell whether a frame of numbers has a column that is a key."""
    columns = enumerate(column_names(X))
    return any(key_kind(name, read_column(X, j)) is not None for j, name in columns)


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)] or [""]
