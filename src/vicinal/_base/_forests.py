"""Forests of scikit-learn without what it does around every tree; trees and answers are the same.

Checks and copies of the parameters take most of the time of a tree of a small table, and a pool of
threads ten times as long as the trees for one row.
"""

from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from vicinal._base._compat import bootstrap_weights, grow_tree
from vicinal._base._parallel import draw_seeds, thread_map

# From here on threads and checks cost little beside the trees themselves.
_MANY_ROWS = 4096
# Rows that the trees of one task see together: fewer are grown before another thread has begun.
_ROWS_PER_TASK = 20_000


def fit_forest(forest: Any, X: np.ndarray, y: np.ndarray, sample_weight=None) -> list[np.ndarray]:
    """Fit a forest to rows without gaps, as ``forest.fit`` does, and return the rows trees drew.

    ``forest`` draws bootstraps from a seed, has trees of any depth and one column of labels, or
    numbers. The first tree is fitted by scikit-learn; the others are copies of it, grown on their
    own draws.
    """
    n_trees = forest.n_estimators
    forest.set_params(n_estimators=1).fit(X, y, sample_weight=sample_weight)
    forest.set_params(n_estimators=n_trees)
    codes = np.searchsorted(forest.classes_, y) if is_classifier(forest) else y
    targets = np.ascontiguousarray(codes, dtype=np.float64).reshape(len(X), -1)
    rows = np.ascontiguousarray(X, dtype=np.float32)
    first = forest.estimators_[0]
    seeds = draw_seeds(forest.random_state, n_trees)

    def grow(some: list[int]) -> list:
        rng = np.random.RandomState()  # seeding it again is cheap, another one is not
        grown = []
        for seed in some:
            tree = copy(first)
            tree.random_state = seed
            rng.seed(seed)
            drawn, weights = bootstrap_weights(forest, sample_weight, rng)
            rng.seed(seed)
            tree.tree_ = grow_tree(first, rows, targets, weights, rng)
            grown.append((tree, drawn))
        return grown

    size = max(1, _ROWS_PER_TASK // len(X))
    tasks = [seeds[t : t + size] for t in range(1, n_trees, size)]
    others = [pair for part in thread_map(grow, tasks, forest.n_jobs) for pair in part]
    draws = [*forest.estimators_samples_, *(drawn for _, drawn in others)]
    forest.estimators_ = [first, *(tree for tree, _ in others)]
    return draws


def forest_leaves(forest: Any, X: np.ndarray) -> np.ndarray:
    """Return the leaf of every row in every tree, as ``forest.apply``."""
    few = _few_rows(X)
    if few is None:
        return forest.apply(X)
    return np.stack([tree.tree_.apply(few) for tree in forest.estimators_], axis=1)


def forest_proba(forest: Any, X: np.ndarray, wrap: Callable = np.asarray) -> np.ndarray:
    """Return class probabilities, as ``predict_proba`` of a forest of one output.

    ``wrap`` makes the table that the forest knows of an array, with the names of its columns.
    """
    few = _few_rows(X)
    if few is None:
        return forest.predict_proba(wrap(X))
    total = np.zeros((len(X), forest.n_classes_))
    for tree in forest.estimators_:
        total += tree.tree_.predict(few)
    return total / len(forest.estimators_)


def _few_rows(X: np.ndarray) -> np.ndarray | None:
    """Return few rows as trees read them, ``None`` for many and for those that they refuse."""
    if len(X) > _MANY_ROWS:
        return None
    with np.errstate(over="ignore"):
        single = np.ascontiguousarray(X, dtype=np.float32)
    return single if np.isfinite(single).all() else None
