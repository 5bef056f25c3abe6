"""Neighbourhoods by forest: who shares leaves with a query."""

from copy import copy
from dataclasses import dataclass

import numpy as np
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.utils import check_random_state

from vicinal._base import fit_forest, forest_leaves, n_threads, saved, thread_map
from vicinal._kernels.local._smoothing import leaf_shares, shared_leaves
from vicinal.local._coordinates import FORESTS
from vicinal.local._neighborhoods import WeightedNeighborhoods, drop_zeros

_QUERIES_PER_TASK = 256
# More trees steady the weights, most of all where classes are many. Where trees are dear, or tables
# so small that a fit should take no time, fewer do: up to so many rows, so many trees.
_TREES, _FEW_TREES = {299: 100, 999: 200, 30_000: 400}, 100
# Trees stop early only where all targets agree: evenly spaced members then stand for their leaf.
_MAX_LEAF = 64
# A tree draws so many rows at most: trees of millions take minutes each, and all of them together
# have drawn nearly every row.
_MAX_DRAWN = 100_000
# Of the rows that share a leaf with a query, so many of the heaviest carry a linear fit.
FOREST_ROWS = 300


@saved()
@dataclass(frozen=True)
class ForestRule:
    """Weights are shares of leaves; of the rows that share one, the heaviest ``max_size`` count."""

    max_size: int

    @property
    def size(self) -> int:
        """Number of neighbours at most."""
        return self.max_size


@saved(
    X="n q",
    out_of_bag="n t",
    _offsets="t+1 <l+1",
    _start="l+1 <e+1",
    _members="e <n",
    _counts="e",
    _totals="l",
)
class ForestIndex:
    """Leaves of a forest and the training rows in them.

    Parameters
    ----------
    forest : fitted forest of scikit-learn with ``bootstrap=True``
        Trees.
    X : ndarray of shape (n_samples, n_features)
        Training rows, in the columns the forest saw.
    draws : list of ndarray of int
        Rows that each tree drew.
    """

    is_euclidean = False

    def __init__(self, forest, X: np.ndarray, draws, n_jobs: int | None = None):
        self.forest = forest
        self.X = X
        self.n_jobs = n_jobs
        self.n_grown = len(X)  # rows that the trees were grown from
        trees = forest.estimators_
        self._offsets = np.cumsum([0] + [tree.tree_.node_count for tree in trees])
        self.out_of_bag = np.ones((len(X), len(trees)), dtype=bool)
        single = X.astype(np.float32)  # as trees read them
        entries = []
        for t, drawn in enumerate(draws):
            counts = np.bincount(drawn, minlength=len(X))
            rows = np.flatnonzero(counts)
            self.out_of_bag[rows, t] = False
            leaf = trees[t].tree_.apply(single[rows]) + self._offsets[t]
            entries.append((rows, leaf, counts[rows].astype(np.float64)))
        # A row that every tree has drawn has nobody to ask: it asks all of them.
        self.out_of_bag[~self.out_of_bag.any(axis=1)] = True
        self._file(*(np.concatenate(column) for column in zip(*entries, strict=True)))

    def __restore__(self, state: dict) -> None:
        """Take back what a model file holds; compiled loops follow leaves and count on shares."""
        vars(self).update(state)
        sizes = [tree.tree_.node_count for tree in self.forest.estimators_]
        if np.diff(self._offsets).tolist() != sizes or len(self._totals) != sum(sizes):
            raise ValueError("ForestIndex._offsets do not fit its trees.")
        leaf = np.repeat(np.arange(sum(sizes)), np.diff(self._start))
        if not np.all(self._counts / self._totals[leaf] > 0.0):
            raise ValueError("ForestIndex._counts must be positive shares of ForestIndex._totals.")

    def _file(self, rows, leaf, counts) -> None:
        """Sort the drawn rows, which ascend within every leaf, by leaf."""
        order = np.argsort(leaf, kind="stable")
        n_leaves = int(self._offsets[-1])
        sizes = np.bincount(leaf, minlength=n_leaves)
        place = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        share = _MAX_LEAF / np.maximum(np.repeat(sizes, sizes), _MAX_LEAF)
        kept = order[np.floor((place + 1) * share) > np.floor(place * share)]
        rows, leaf, counts = rows[kept], leaf[kept], counts[kept]
        self._members = rows.astype(np.int64)
        self._counts = counts
        self._start = np.searchsorted(leaf, np.arange(n_leaves + 1)).astype(np.int64)
        self._totals = np.bincount(leaf, counts, minlength=n_leaves)

    def leaves_of(self, X: np.ndarray) -> np.ndarray:
        """Return the leaves of rows, numbered through the forest."""
        if len(X) == 0:
            return np.zeros((0, len(self.forest.estimators_)), dtype=np.int64)
        return forest_leaves(self.forest, X).astype(np.int64) + self._offsets[:-1]

    def extended(self, X: np.ndarray, counts: np.ndarray) -> "ForestIndex":
        """Return the same trees with further rows dropped into their leaves, as if drawn.

        ``counts`` are in units of the draws of a mean row.
        """
        other = copy(self)
        other.X = np.vstack([self.X, X])
        leaves = self.leaves_of(X)
        other.out_of_bag = np.vstack([self.out_of_bag, np.ones(leaves.shape, dtype=bool)])
        before = np.repeat(np.arange(len(self._totals)), np.diff(self._start))
        rows = np.repeat(np.arange(len(self.X), len(other.X)), leaves.shape[1])
        if self.forest.max_samples is not None:
            counts = counts * (self.forest.max_samples / self.n_grown)
        other._file(
            np.concatenate([self._members, rows]),
            np.concatenate([before, leaves.ravel()]),
            np.concatenate([self._counts, np.repeat(counts, leaves.shape[1])]),
        )
        return other

    def neighborhoods(self, leaves, out_of_bag, max_size: int) -> WeightedNeighborhoods:
        """Return the rows that share leaves, in threads over blocks of queries."""
        filed = self._start, self._members, self._counts, self._totals, len(self.X)
        seen = None
        if leaves.size < len(self._totals):  # few queries see few leaves of a large forest
            seen, places = np.unique(leaves, return_inverse=True)
            leaves = places.reshape(leaves.shape)
        shares = leaf_shares(*filed, seen)
        starts = range(0, max(1, len(leaves)), _QUERIES_PER_TASK)

        def find(first):
            part = slice(first, first + _QUERIES_PER_TASK)
            asked = None if out_of_bag is None else out_of_bag[part]
            return shared_leaves(leaves[part], asked, shares, max_size)

        parts = thread_map(find, starts, self.n_jobs)
        sizes = np.concatenate([np.diff(indptr) for indptr, _, _ in parts])
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        indices = np.concatenate([part[1] for part in parts])
        weights = np.concatenate([part[2] for part in parts])
        return WeightedNeighborhoods(
            indptr, indices, weights, np.zeros(len(weights)), np.ones(len(leaves))
        )


class ForestLocalizer:
    """Turn queries into neighbourhoods by shared leaves; the counterpart of ``Localizer``."""

    def __init__(self, index: ForestIndex, rule: ForestRule, *, factor=None):
        self.index = index
        self.rule = rule
        self.factor = factor

    def expected_size(self) -> int:
        """Return the number of neighbours that a query costs memory for."""
        return min(len(self.index.X), self.rule.max_size)

    def path(self, rules, Q, *, rows=None, groups=None):
        """Yield the neighbourhoods under each rule."""
        for rule in rules:
            one = ForestLocalizer(self.index, rule, factor=self.factor)
            yield one.neighborhoods(Q, rows=rows, groups=groups)

    def neighborhoods(self, Q, *, rows=None, groups=None) -> WeightedNeighborhoods:
        """Return the weighted neighbours; training rows ask only trees grown without them."""
        if rows is None:
            leaves, out_of_bag = self.index.leaves_of(Q), None
        else:
            leaves = self.index.leaves_of(self.index.X[rows])
            out_of_bag = self.index.out_of_bag[rows]
        found = self.index.neighborhoods(leaves, out_of_bag, self.rule.max_size)
        weights = found.weights
        if rows is not None:
            # Rows added later are in every tree; a row never counts for itself.
            own = np.repeat(rows, found.sizes())
            same = found.indices == own
            if groups is not None:
                same |= groups[found.indices] == groups[own]
            weights = np.where(same, 0.0, weights)
        if self.factor is not None:
            weights = weights * self.factor[found.indices]
        return drop_zeros(found._replace(weights=weights))


def grow_forest(metric: str, X, targets, sample_weight, *, classify: bool, random_state, n_jobs):
    """Grow the forest of a metric and file its rows by leaf."""
    leaf, kind = FORESTS[metric]
    settings = {
        "n_estimators": next((t for n, t in _TREES.items() if len(X) <= n), _FEW_TREES),
        "min_samples_leaf": leaf,
        "bootstrap": True,
        "max_samples": _MAX_DRAWN if len(X) > _MAX_DRAWN else None,
        "n_jobs": n_threads(n_jobs),
        "random_state": check_random_state(random_state).randint(np.iinfo(np.int32).max),
    }
    if classify:
        model = RandomForestClassifier if kind == "random" else ExtraTreesClassifier
        forest = model(**settings)
    elif kind == "random":
        # Half of the columns per split: trees that differ average better than scikit-learn's all.
        forest = RandomForestRegressor(max_features=0.5, **settings)
    else:
        forest = ExtraTreesRegressor(**settings)
    draws = fit_forest(forest, X, targets, sample_weight)
    return ForestIndex(forest, X, draws, n_jobs)
