"""Faster fit and prediction of scikit-learn's forests for small tables, with equal results.

scikit-learn validates and clones for every tree, which takes longer than growing a small tree, and
starts threads for a single row, which takes ten times as long as its prediction.
"""

from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from vicinal._base._compat import bootstrap_weights, grow_tree
from vicinal._base._parallel import random_seeds, thread_map

# Rows from which threads and validation cost little compared with the trees.
_MANY_ROWS = 4096
# Rows times trees of one task; smaller tasks end before another thread starts.
_ROWS_PER_TASK = 20_000


def fit_forest(forest: Any, X: np.ndarray, y: np.ndarray, sample_weight=None) -> list[np.ndarray]:
    """Fit a forest as ``forest.fit`` does, and return the bootstrap sample of each tree.

    X has no missing values. ``forest`` has an integer seed, bootstrap sampling, unbounded depth and
    one target. The first tree is fitted by scikit-learn; the others are copies of it, grown on
    their own samples.
    """
    n_trees = forest.n_estimators
    forest.set_params(n_estimators=1).fit(X, y, sample_weight=sample_weight)
    forest.set_params(n_estimators=n_trees)
    codes = np.searchsorted(forest.classes_, y) if is_classifier(forest) else y
    targets = np.ascontiguousarray(codes, dtype=np.float64).reshape(len(X), -1)
    rows = np.ascontiguousarray(X, dtype=np.float32)
    first = forest.estimators_[0]
    seeds = random_seeds(forest.random_state, n_trees)

    def grow(some: list[int]) -> list:
        rng = np.random.RandomState()  # reseeding is cheaper than a new one
        grown = []
        for seed in some:
            tree = copy(first)
            tree.random_state = seed
            rng.seed(seed)
            sample, weights = bootstrap_weights(forest, sample_weight, rng)
            rng.seed(seed)
            tree.tree_ = grow_tree(first, rows, targets, weights, rng)
            grown.append((tree, sample))
        return grown

    size = max(1, _ROWS_PER_TASK // len(X))
    tasks = [seeds[t : t + size] for t in range(1, n_trees, size)]
    others = [pair for part in thread_map(grow, tasks, forest.n_jobs) for pair in part]
    samples = [*forest.estimators_samples_, *(sample for _, sample in others)]
    forest.estimators_ = [first, *(tree for tree, _ in others)]
    return samples


def keep_leaves_only(forest: Any) -> None:
    """Remove from a forest what is not needed to find leaves: values and sums of the nodes.

    Thresholds become numbers of single precision, as rows are for trees, so that files are small.
    """
    for tree in forest.estimators_:
        state = tree.tree_.__getstate__()
        nodes = state["nodes"].copy()
        single = nodes["threshold"].astype(np.float32)
        is_larger = single > nodes["threshold"]
        nodes["threshold"] = np.where(is_larger, np.nextafter(single, np.float32(-np.inf)), single)
        for name in ("impurity", "n_node_samples", "weighted_n_node_samples"):
            nodes[name] = 0
        slim = type(tree.tree_)(tree.tree_.n_features, np.ones(1, dtype=np.intp), 1)
        slim.__setstate__({**state, "nodes": nodes, "values": np.zeros((len(nodes), 1, 1))})
        tree.tree_ = slim


def forest_proba(forest: Any, X: np.ndarray, wrap: Callable = np.asarray) -> np.ndarray:
    """Return class probabilities, as ``predict_proba`` of a forest of one output.

    ``wrap`` converts the array to the type of table that the forest was fitted to.
    """
    few = _few_rows(X)
    if few is None:
        return forest.predict_proba(wrap(X))
    total = np.zeros((len(X), forest.n_classes_))
    for tree in forest.estimators_:
        total += tree.tree_.predict(few)
    return total / len(forest.estimators_)


def _few_rows(X: np.ndarray) -> np.ndarray | None:
    """Return a small X as float32; ``None`` if it is large or not finite."""
    if len(X) > _MANY_ROWS:
        return None
    with np.errstate(over="ignore"):
        single = np.ascontiguousarray(X, dtype=np.float32)
    return single if np.isfinite(single).all() else None
