"""Exact nearest points for a single decision tree."""

import numpy as np

from vicinal._base import saved
from vicinal._kernels.surface._leaf_boxes import leaf_boxes, nearest_in_boxes
from vicinal._kernels.surface._roots import CONVERGED, NO_SURFACE
from vicinal.surface._oracles import final_model
from vicinal.surface._problem import Problem
from vicinal.surface._search import NearestPoints


@saved(low="b d gaps", high="b d gaps", codes="b")
class TreeBoxes:
    """The leaves of a tree as boxes with codes.

    Parameters
    ----------
    tree : sklearn.tree._tree.Tree
        Nodes of a fitted tree.
    """

    def __init__(self, tree):
        parts = (tree.children_left, tree.children_right, tree.feature, tree.threshold)
        leaves, self.low, self.high = leaf_boxes(*parts, tree.n_features)
        self.codes = tree.value[leaves, 0].argmax(axis=1)

    def nearest(self, problem: Problem) -> NearestPoints:
        """Return the nearest point of a leaf of another label for each query."""
        chart = problem.chart
        scale = np.zeros(len(chart.free))
        scale[chart.free] = chart.forward
        Q = chart.base
        wanted = np.stack(
            [problem.reached(np.full(len(Q), code), np.arange(len(Q))) for code in self.codes],
            axis=1,
        )
        for column in np.flatnonzero(~chart.free):
            value = Q[:, column, None]
            wanted &= (value > self.low[:, column]) & (value <= self.high[:, column])
        points, distances, choice = nearest_in_boxes(Q, wanted, self.low, self.high, scale)
        outside = _just_inside(points, Q, self.low[choice], self.high[choice])
        found = np.isfinite(distances)
        points[~found], outside[~found] = Q[~found], Q[~found]
        problem.n_evaluations += 1
        Z = chart.coordinates(points)
        return NearestPoints(
            Z, chart.coordinates(outside), problem.Z - Z, np.where(found, CONVERGED, NO_SURFACE)
        )


def _just_inside(points, Q, low, high):
    """Move points from the closed box into low < x <= high, as trees compare: in single precision.

    Only columns that were changed move.
    """
    single = points.astype(np.float32)
    up = np.where(single <= low, np.nextafter(single, np.float32(np.inf)), single)
    down = np.where(single > high, np.nextafter(single, np.float32(-np.inf)), single)
    moved = np.where(points <= low, up.astype(np.float64), down.astype(np.float64))
    return np.where((points != Q) | (points <= low), moved, points)


def tree_boxes(estimator) -> TreeBoxes | None:
    """Return the boxes of a classifier that is a single tree, else None."""
    tree = final_model(estimator)
    while hasattr(tree, "tree_"):
        tree = tree.tree_
    needed = ("children_left", "children_right", "feature", "threshold", "value")
    if not all(hasattr(tree, name) for name in needed) or tree.n_outputs != 1:
        return None
    return TreeBoxes(tree) if tree.value.shape[2] == len(estimator.classes_) else None
