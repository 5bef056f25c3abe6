"""What answers to held-out rows know about a new one: intervals, sets of labels, support."""

from vicinal._rows._held_out_rows import HeldOutRows
from vicinal._rows._mixins import IntervalMixin, LabelSetMixin, SupportMixin
from vicinal._rows._place import Place
from vicinal._rows._support import Support

__all__ = ["HeldOutRows", "IntervalMixin", "LabelSetMixin", "Place", "Support", "SupportMixin"]
