"""Columns that number the rows or name them: row counters, identifiers and keys."""

import re
from typing import Any

import numpy as np

from vicinal._base._tables import column_names
from vicinal.table.parsing import MISSING_TEXTS, read_column

# From this many rows on, a value of its own in every row makes an identifier.
ENOUGH_ROWS = 10
# An id with more different values per known one is an identifier, with fewer a category.
NEARLY_UNIQUE = 0.9
# Tokens of customerID, customer_id and customer id.
_TOKEN = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_IDS = ("id", "ids", "identifier", "uuid", "guid")
_JOINED_ID = re.compile(
    "(?:account|case|client|customer|device|employee|event|item|member|object|order|patient|person"
    "|product|record|row|sample|session|student|study|subject|transaction|user)ids?"
)
_KEYS = ("key", "no", "nr", "number")
# What pandas and R call a column of row numbers, and what polars calls one without a name.
_COUNTERS = re.compile(r"|index|obs|row ?names|row ?num|row|unnamed 0(?: \d+)*")
_NAMELESS = re.compile(r"(?:column|duplicated|category) 0")
__all__ = ["MISSING_TEXTS", "has_keys", "has_repeated_tokens", "is_id", "key_kind"]
_TIMES = frozenset(
    "t time timestamp date day days week weeks month months quarter year years hour hours minute "
    "minutes second seconds step steps epoch period tick age".split()
)


def is_id(name: str) -> bool:
    """Return whether a column has the name of an id, which rows of one customer share."""
    tokens = [token for token in _tokens(name) if not token.isdigit()] or [""]
    return any(token in _IDS or _JOINED_ID.fullmatch(token) for token in (tokens[0], tokens[-1]))


def key_kind(name: str, numbers: np.ndarray, alone: bool = False) -> str | None:
    """Return what a column of whole numbers is if it is a key, ``None`` if it is none.

    A "counter" numbers the rows: it has the name that a library gives to row numbers and a number
    of its own in every row, or it is exactly 0, 1, ... or 1, 2, ... from the first row to the last
    under a name that is no time (a trend can be learned) and not ``alone`` in its table. An
    "identifier" has the name of a key and (nearly) as many numbers as rows. An id that repeats (of
    a customer, of a location) stands for what its rows have in common: a "category".
    """
    if numbers.dtype.kind != "f" or len(numbers) < ENOUGH_ROWS:
        return None
    known = numbers[~np.isnan(numbers)]
    if not len(known) or not (known == np.round(known)).all():
        return None
    tokens = _tokens(name)
    label = " ".join(tokens)
    n_different = len(np.unique(known))
    is_unique = n_different == len(numbers)
    if is_id(name):
        return "identifier" if n_different > NEARLY_UNIQUE * len(known) else "category"
    in_order = is_unique and known[0] in (0, 1) and bool((np.diff(known) == 1).all())
    if in_order and not alone and _TIMES.isdisjoint(tokens):
        return "counter"
    if is_unique and _COUNTERS.fullmatch(label):
        return "counter"
    if is_unique and _NAMELESS.fullmatch(label) and np.ptp(known) < 2 * len(known):
        return "counter"
    return "identifier" if is_unique and tokens[-1] in _KEYS else None


def has_keys(X: Any) -> bool:
    """Return whether a frame of numbers has a column that is a key."""
    names = column_names(X)
    return any(
        key_kind(name, read_column(X, j), alone=len(names) == 1) is not None
        for j, name in enumerate(names)
    )


def has_repeated_tokens(texts: list[str]) -> bool:
    """Return whether most texts have a token that some others share, such as a title or a domain.

    Some are 5 % to 90 %, and at least three texts; a token that nearly all have is no information.
    """
    tokens = [set(re.split(r"[\W_]+", text.casefold())) for text in texts]
    counts: dict[str, int] = {}
    for own in tokens:
        for token in own:
            counts[token] = counts.get(token, 0) + 1
    least, most = max(3, 0.05 * len(texts)), 0.9 * len(texts)
    shared = {
        token
        for token, count in counts.items()
        if least <= count <= most and len(token) > 1 and not token.isdigit()
    }
    return sum(not shared.isdisjoint(own) for own in tokens) >= 0.5 * len(texts)


def _tokens(name: str) -> list[str]:
    return [token.lower() for token in _TOKEN.findall(name)] or [""]
