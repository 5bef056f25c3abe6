"""What answers to held-out rows know about a new one: intervals, sets of labels, support."""

from vicinal._rows._folded_rows import FoldedRowsMixin
from vicinal._rows._folds import coarse_answers, fold_answers, fold_numbers
from vicinal._rows._held_out_rows import HeldOutRows, some_rows
from vicinal._rows._mixins import IntervalMixin, LabelSetMixin, SupportMixin
from vicinal._rows._place import Place
from vicinal._rows._residual_intervals import check_coverage
from vicinal._rows._support import Support

__all__ = [
    "FoldedRowsMixin",
    "HeldOutRows",
    "IntervalMixin",
    "LabelSetMixin",
    "Place",
    "Support",
    "SupportMixin",
    "check_coverage",
    "coarse_answers",
    "fold_answers",
    "fold_numbers",
    "some_rows",
]
