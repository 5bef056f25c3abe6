"""Columns of whole numbers that are keys, by their name: an order of them means nothing."""

import re
from typing import Any

import numpy as np

from vicinal.table._frames import column_names, read_column

# From this many rows on, a value of its own in every row makes an identifier.
ENOUGH_ROWS = 10
# Words in customerID, customer_id and customer id.
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_IDS = ("id", "identifier")
_KEYS = (*_IDS, "key", "uuid", "guid", "no", "nr", "number")
_COUNTERS = ("", "index", "obs", "rownames", "rownum", "unnamed 0")


def key_kind(name: str, numbers: np.ndarray) -> str | None:
    """Return what is done with a column of numbers if it is a key, ``None`` if it is none.

    One with a number of its own in every row is an identifier and left out ("drop"). An id that
    repeats (of a customer, of a place) stands for what its rows have in common: a "category".
    """
    words = [word.lower() for word in _WORD.findall(name)]
    last = words[-1] if words else ""
    if (last not in _KEYS and " ".join(words) not in _COUNTERS) or len(numbers) < ENOUGH_ROWS:
        return None
    known = numbers[~np.isnan(numbers)] if numbers.dtype.kind == "f" else numbers[:0]
    if not len(known) or not (known == np.round(known)).all():
        return None
    if len(np.unique(known)) == len(numbers):
        return "drop"
    return "category" if last in _IDS else None


def has_keys(X: Any) -> bool:
    """Tell whether a frame of numbers has a column that is a key."""
    columns = enumerate(column_names(X))
    return any(key_kind(name, read_column(X, j)) is not None for j, name in columns)
