# ruff: noqa: F401
"""Conformal intervals, label sets and typicality from held-out predictions of a fitted model."""

from vicinal._conformal._held_out_rows import (
    FoldedRowsMixin,
    HeldOutRows,
    IntervalMixin,
    LabelSetMixin,
    TypicalityMixin,
    decide,
    held_out_by,
)
from vicinal._conformal._intervals import MAX_HELD_OUT, check_coverage
from vicinal._conformal._typicality import StandardizedRows, Typicality
