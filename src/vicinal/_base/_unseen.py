"""Values of query rows that training rows do not have, reported once for each call."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import numpy as np

# What a single value is called, by what several are called.
_OF_ONE = {
    "unseen categories": "unseen category",
    "values that are not numbers": "value that is not a number",
    "values that are not dates": "value that is not a date",
    "values of another type": "value of another type",
    "infinite numbers": "infinite number",
    "missing values where training rows have none": "missing value where training rows have none",
}
_IS_QUIET: ContextVar[bool] = ContextVar("is_quiet", default=False)


class UnseenValues(NamedTuple):
    """Values of one column that no training row has.

    Attributes
    ----------
    column : str
        Name of the column.
    problem : str
        What the values are: unseen categories, not numbers, missing, ...
    rows : ndarray of bool of shape (n_queries,)
        Rows that have them.
    example : str
        One of them, empty for missing values.
    typicality : float
        Share of training rows with a value in this column that no other row has.
    """

    column: str
    problem: str
    rows: np.ndarray
    example: str
    typicality: float

    def __str__(self) -> str:
        such = f" such as {self.example!r}" if self.example else ""
        count = int(self.rows.sum())
        problem = _OF_ONE.get(self.problem, self.problem) if count == 1 else self.problem
        return f"{self.column!r}: {count:,} {problem}{such}"


@contextmanager
def unreported() -> Iterator[None]:
    """Report no unseen values: they were reported before, or the rows are held out."""
    token = _IS_QUIET.set(True)
    try:
        yield
    finally:
        _IS_QUIET.reset(token)


def report_unseen(find: Callable[[], Sequence[UnseenValues]], unseen: str = "warn") -> None:
    """Warn of the unseen values that ``find()`` returns, or raise if ``unseen`` is "error"."""
    if unseen == "ignore" or _IS_QUIET.get() or not (found := find()):
        return
    text = f"some values are unlike those of the training rows: {'; '.join(map(str, found))}"
    if unseen == "error":
        raise ValueError(f'{text}; correct them, or use unseen="warn".')
    warnings.warn(f"{text}; predictions of these rows are less reliable.", stacklevel=5)


def as_novel(typicality: np.ndarray, found: Sequence[UnseenValues]) -> np.ndarray:
    """Return typicalities, lowered for rows with unseen values."""
    for part in found:
        typicality = np.minimum(typicality, np.where(part.rows, part.typicality, 1.0))
    return typicality
