"""Leaves of rows in the trees of a forest or of gradient boosting, as one array of nodes."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from vicinal._kernels._jit import jit

# Share of the columns that a boosted tree considers at a time, in classification with many columns.
COLUMN_SHARE, MANY_COLUMNS = 0.3, 10
# Fields of the nodes of scikit-learn's trees and of its histogram boosting.
TREE_FIELDS = ("left_child", "right_child", "feature", "threshold", "missing_go_to_left")
BOOSTED_FIELDS = ("left", "right", "feature_idx", "num_threshold", "missing_go_to_left")


class Nodes(NamedTuple):
    """Nodes of several trees; children are numbered through all trees, -1 at leaves."""

    roots: np.ndarray
    left: np.ndarray
    right: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    missing_left: np.ndarray  # whether missing values go left


def joined_nodes(trees: Sequence[np.ndarray], fields: Sequence[str]) -> Nodes:
    """Join the nodes of trees, which are structured arrays with these fields."""
    nodes = np.concatenate(trees)
    sizes = [len(tree) for tree in trees]
    roots = np.cumsum([0, *sizes[:-1]])
    left, right, feature, threshold, missing = (nodes[name] for name in fields)
    inner = left.astype(np.int64) > 0  # nothing leads to the root; of a leaf it is -1 or 0
    shift = np.repeat(roots, sizes)
    left, right = (np.where(inner, shift + child, -1) for child in (left, right))
    feature, threshold = feature.astype(np.int64), threshold.astype(np.float64)
    return Nodes(roots, left, right, feature, threshold, missing.astype(bool))


@jit
def tree_leaves(X, nodes, leaves):
    """Write the leaf of every row in every tree into ``leaves`` of shape (n_samples, n_trees)."""
    at, moving = np.empty(len(X), dtype=np.int64), np.empty(len(X) + 1, dtype=np.int64)
    for t in range(len(nodes.roots)):
        root = nodes.roots[t]
        for i in range(len(X)):
            at[i], moving[i] = root, i
        n_moving = len(X) if nodes.left[root] >= 0 else 0
        # All rows one level down, without branches: these could not be predicted.
        while n_moving:
            n_before, n_moving = n_moving, 0
            for j in range(n_before):
                i = moving[j]
                node = at[i]
                value = X[i, nodes.feature[node]]
                is_missing = nodes.missing_left[node] & np.isnan(value)
                left, right = nodes.left[node], nodes.right[node]
                node = left if (value <= nodes.threshold[node]) | is_missing else right
                at[i], moving[n_moving] = node, i
                n_moving += nodes.left[node] >= 0
        for i in range(len(X)):
            leaves[i, t] = at[i]
