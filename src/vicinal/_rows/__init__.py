"""What answers to held-out rows know about a new one: intervals, sets of labels, support."""

from vicinal._rows._label_sets import LabelSets
from vicinal._rows._local_scale import LocalScale
from vicinal._rows._place import Place
from vicinal._rows._residual_intervals import ResidualIntervals
from vicinal._rows._support import Support

__all__ = ["LabelSets", "LocalScale", "Place", "ResidualIntervals", "Support"]
