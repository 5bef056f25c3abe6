"""Which training rows are near a query, and with which weight: by distance or by forest."""

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.utils import check_random_state

from vicinal._base import (
    fit_forest,
    forest_leaves,
    keep_leaves_only,
    n_threads,
    namespace,
    saved,
    take_rows,
    thread_map,
)
from vicinal._kernels.local._smoothing import (
    GAUSSIAN_CUTOFF,
    kernel_values,
    loess_values,
    nearest_bandwidth,
    nearest_scale,
    shared_leaves,
    vanishes_at_one,
)
from vicinal.neighbors import NeighborSearch

# Forests that serve as metrics (leaf size, kind): coarse leaves for noisy targets, fine and random
# ones for smooth targets.
FORESTS = {"forest": (5, "random"), "extra_forest": (1, "extra")}
_QUERIES_PER_TASK = 256
# Number of trees by number of rows (at most): more trees give steadier weights, fewer save time on
# tables that are very small or very large.
_TREES, _FEW_TREES = {299: 100, 30_000: 200}, 100
# Large leaves occur where all targets agree; so many of their rows, evenly spaced, are stored.
_MAX_LEAF = 64
# Rows sampled per tree at most: trees of millions of rows take minutes each.
_MAX_TREE_ROWS = 100_000
# A linear fit uses at most so many of the rows that share a leaf with the query, heaviest first.
FOREST_ROWS = 300


class WeightedNeighborhoods(NamedTuple):
    """Weighted neighbours of a block of queries, as compressed rows (all weights positive)."""

    indptr: np.ndarray
    indices: np.ndarray
    weights: np.ndarray
    distances: np.ndarray
    bandwidths: np.ndarray

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(self.indptr) - 1

    def sizes(self) -> np.ndarray:
        """Return the number of neighbours of each query."""
        return np.diff(self.indptr)

    def is_empty(self) -> np.ndarray:
        """Return which queries have no neighbour."""
        return self.sizes() == 0

    def matrix(self, values: np.ndarray, n_samples: int) -> sparse.csr_matrix:
        """Return values of the neighbours as a matrix of shape (n_queries, n_samples)."""
        shape = (self.n_queries, n_samples)
        return sparse.csr_matrix((values, self.indices, self.indptr), shape)


class Padded(NamedTuple):
    """Neighbours of a block of queries on a device, (n_queries, k); weight zero does not count."""

    indices: Any
    weights: Any

    def is_empty(self) -> np.ndarray:
        """Return that no query is empty: nearest rows always exist."""
        return np.zeros(1, dtype=bool)


@saved()
@dataclass(frozen=True)
class NearestRule:
    """Bandwidth = the radius that holds ``count`` neighbours (or as much user weight).

    For kernels that vanish at one it is the distance of the (k+1)-th neighbour, so that k rows have
    weight; for the others that of the k-th, ties included. ``loess`` takes the k-th for every
    kernel, times ``stretch``, and LOESS's limits on tricube weights. Where no row would have weight
    (all neighbours are equally far), all rows within the bandwidth have the same weight.
    """

    count: float
    kernel: str | Callable = "tricube"
    loess: bool = False
    stretch: float = 1.0

    @property
    def size(self) -> float:
        """Number of neighbours."""
        return self.count

    @property
    def exceed(self) -> bool:
        """The (k+1)-th neighbour sets the bandwidth of kernels that vanish there."""
        return not self.loess and vanishes_at_one(self.kernel)

    def weights(self, distances: Any, h: Any) -> Any:
        """Return K(distance / h) of rows of neighbours; one at distance 0 when h is 0."""
        xp = namespace(distances)
        u = distances / xp.where(h > 0.0, h, xp.ones_like(h))[:, None]
        if self.loess and self.kernel == "tricube":
            weights = loess_values(u)
        else:
            factor = nearest_scale(self.kernel)
            weights = kernel_values(u * factor if factor != 1.0 else u, self.kernel)
            if callable(self.kernel) or self.kernel == "gaussian":
                weights = xp.where(u > 1.0, xp.zeros_like(u), weights)
        if bool(xp.all(h > 0.0)):
            return weights
        at_query = xp.astype(distances <= 0.0, weights.dtype)
        return xp.where(h[:, None] > 0.0, weights, at_query)


@saved()
@dataclass(frozen=True)
class RadiusRule:
    """The same bandwidth everywhere; ``inf`` gives every row weight one (the global model)."""

    bandwidth: float
    kernel: str | Callable = "tricube"
    outside: str = "nearest"

    @property
    def size(self) -> float:
        """The bandwidth."""
        return self.bandwidth

    @property
    def is_global(self) -> bool:
        """Whether every row has the same weight everywhere."""
        return bool(np.isinf(self.bandwidth))


@saved()
class NeighborIndex:
    """Exact search among fixed rows.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_samples, n_coordinates)
        Rows to search.
    metric : str or callable
        Any metric of scikit-learn.
    metric_params : dict or None
        Its further arguments.
    algorithm : {"auto", "tree", "brute"}
        ``"auto"`` takes a tree where few coordinates make it faster.
    n_jobs : int or None
        Threads.
    """

    def __init__(self, X, *, metric="euclidean", metric_params=None, algorithm="auto", n_jobs=None):
        self.X = X
        self.is_euclidean = metric == "euclidean" and not metric_params
        self._search = NeighborSearch(
            metric=metric, metric_params=metric_params, algorithm=algorithm, n_jobs=n_jobs
        )
        self._is_built = False

    def _built(self) -> NeighborSearch:
        """Build the search at first use: one sorted column and global models need none."""
        if not self._is_built:
            self._search.fit(self.X)
            self._is_built = True
        return self._search

    def nearest(self, Q, m: int) -> tuple[np.ndarray, np.ndarray]:
        """Return distances (ascending, ties by row number) and row numbers of the ``m`` nearest."""
        if Q.shape[0] == 0:
            return np.empty((0, m)), np.empty((0, m), dtype=np.int64)
        return self._built().kneighbors(Q, m)

    def within(self, Q, radius) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the rows within ``radius`` (one, or one per query) as flat arrays."""
        if Q.shape[0] == 0:
            return np.zeros(1, np.int64), np.empty(0, np.int64), np.empty(0)
        found = self._built().radius_neighbors(Q, radius)
        return found.indptr, found.indices, found.distances


class Localizer:
    """Map from queries to neighbourhoods by a rule.

    Parameters
    ----------
    index : NeighborIndex
        Search over the training rows.
    rule : NearestRule or RadiusRule
        How far a neighbourhood reaches.
    sample_weight : ndarray of shape (n_samples,) or None
        User weights, all positive; ``None`` means ones.
    factor : ndarray of shape (n_samples,) or None
        Further factors on the weights that do not count in the bandwidth (robust iterations).
    """

    def __init__(self, index: NeighborIndex, rule, *, sample_weight=None, factor=None):
        self.index = index
        self.rule = rule
        self.sample_weight = sample_weight
        self.factor = factor
        self._are_counts = True
        if sample_weight is not None:
            xp = namespace(sample_weight)
            self._are_counts = bool(xp.all(sample_weight == xp.round(sample_weight)))

    @property
    def n_samples(self) -> int:
        """Number of training rows."""
        return self.index.X.shape[0]

    def expected_size(self) -> int:
        """Return the number of neighbours that a query costs memory for."""
        if isinstance(self.rule, RadiusRule):
            return self.n_samples
        return min(self.n_samples, int(self.rule.count) + 2)

    def neighborhoods(self, Q, *, rows=None, groups=None) -> Any:
        """Return the weighted neighbours of each query.

        Parameters
        ----------
        Q : array of shape (n_queries, n_coordinates)
            Queries in the coordinates of the search.
        rows : ndarray of shape (n_queries,), default=None
            Training rows that the queries are, left out of their own neighbourhoods.
        groups : ndarray of shape (n_samples,), default=None
            With ``rows``: leave out everything of the same group.
        """
        if isinstance(self.rule, RadiusRule):
            return self._times_factor(self._within_radius(Q, rows, groups))
        return self._times_factor(self._nearest(Q, self.rule, rows, groups))

    def path(self, rules, Q, *, rows=None, groups=None) -> Iterator[WeightedNeighborhoods]:
        """Yield the neighbourhoods under each rule; nearest rules share one search."""
        if isinstance(self.rule, RadiusRule) or len(rules) == 1:
            for rule in rules:
                one = type(self)(
                    self.index, rule, sample_weight=self.sample_weight, factor=self.factor
                )
                yield one.neighborhoods(Q, rows=rows, groups=groups)
            return
        found = self.candidates(Q, rules[-1].count, rows=rows, groups=groups)
        for rule in rules:
            yield self._times_factor(self.from_candidates(found, rule.count))

    def _times_factor(self, found: Any) -> Any:
        if self.factor is None:
            return found
        return drop_zeros(found._replace(weights=found.weights * self.factor[found.indices]))

    # --- k nearest ---

    def candidates(self, Q, count: float, *, rows=None, groups=None):
        """Return distances, indices and user weights that suffice for every count up to ``count``.

        One search then serves a whole list of neighbourhood sizes (``from_candidates``).
        """
        rule, n = replace(self.rule, count=count), self.n_samples
        m = min(n, int(np.ceil(count)) + 1 + (rows is not None))
        while True:
            distances, indices = self.index.nearest(Q, m)
            _, complete, user = self._bandwidths(distances, indices, rule, rows, groups, m == n)
            if bool(namespace(complete).all(complete)):
                return distances, indices, user
            m = min(n, 2 * m)

    def from_candidates(self, found, count: float) -> Any:
        """Return the neighbourhoods of one size among the candidates."""
        distances, indices, user = found
        rule = replace(self.rule, count=count)
        h = nearest_bandwidth(distances, user, count, exceed=rule.exceed)
        h = _enough_for_all(h, distances, rule) * rule.stretch
        part = (slice(None), slice(0, _last_needed(distances, h)))
        return self._compress(
            distances[part], indices[part], h, None if user is None else user[part], rule
        )

    def _nearest(self, Q, rule, rows, groups, m: int | None = None) -> WeightedNeighborhoods:
        """Search ``m`` rows, and twice as many for queries that need more."""
        n = self.n_samples
        m = m or min(n, int(np.ceil(rule.count)) + 1 + (rows is not None))
        distances, indices = self.index.nearest(Q, m)
        h, complete, user = self._bandwidths(distances, indices, rule, rows, groups, m == n)
        if complete.all():
            return self._compress(distances, indices, h, user, rule)
        done, rest = np.flatnonzero(complete), np.flatnonzero(~complete)
        user = None if user is None else user[done]
        found = self._compress(distances[done], indices[done], h[done], user, rule)
        left_out = None if rows is None else rows[rest]
        more = self._nearest(Q[rest], rule, left_out, groups, min(n, 2 * m))
        return _merge([found, more], [done, rest])

    def _bandwidths(self, distances, indices, rule, own, groups, is_all):
        """Return h, whether every row within it was found, and the user weights of the rows."""
        xp = namespace(distances)
        user = None if self.sample_weight is None else take_rows(self.sample_weight, indices)
        if own is not None:
            user = self._leave_out(own[:, None], indices, distances, user, groups)
        h = nearest_bandwidth(distances, user, rule.count, exceed=rule.exceed)
        if is_all:
            h = _enough_for_all(h, distances, rule)
            complete = xp.isfinite(h)
        else:
            # Where the nearest row is as far as the bandwidth, every row at it counts.
            nearest = distances[:, 0]
            if user is not None:
                far = xp.full_like(distances, float("inf"))
                nearest = xp.min(xp.where(user > 0.0, distances, far), axis=1)
            needs_ties = h <= nearest if vanishes_at_one(rule.kernel) else h == h
            complete = xp.isfinite(h) & ~(needs_ties & (distances[:, -1] <= h))
        return h * rule.stretch, complete, user

    def _compress(self, distances, indices, h, user, rule) -> WeightedNeighborhoods:
        weights = self._weights(distances, h, user, rule)
        mask = weights > 0.0
        indptr = np.concatenate([[0], np.cumsum(mask.sum(axis=1))])
        return WeightedNeighborhoods(indptr, indices[mask], weights[mask], distances[mask], h)

    def _weights(self, distances, h, user, rule) -> Any:
        """Return the weights of rows of neighbours; equal ones where none would have any."""
        xp = namespace(distances)
        weights = rule.weights(distances, h)
        if user is not None:
            weights = weights * user
        is_empty = ~xp.any(weights > 0.0, axis=1)
        if bool(xp.any(is_empty)):
            within = xp.astype(distances <= h[:, None], weights.dtype)
            within = within if user is None else within * user
            weights = xp.where(is_empty[:, None], within, weights)
        return weights

    # --- fixed bandwidth ---

    def _within_radius(self, Q, rows, groups) -> WeightedNeighborhoods:
        rule = self.rule
        indptr, indices, distances = self._reach(Q)
        weights = self._kernel_weights(indptr, distances)
        h = np.full(Q.shape[0], rule.bandwidth)
        found = WeightedNeighborhoods(indptr, indices, weights, distances, h)
        found = self._apply_weights(found, rows, groups)
        empty = found.sizes() == 0
        if empty.any():
            found = self._fill_empty(found, empty, Q, rows, groups)
        return found

    def _reach(self, Q):
        """Return every row that may have weight under a fixed bandwidth."""
        rule, n = self.rule, self.n_samples
        if rule.kernel == "gaussian" and np.isfinite(rule.bandwidth):
            # Weights are relative to the nearest row's, so that far queries see neighbours too.
            # The row left out may be that nearest one: the second decides.
            nearest = self.index.nearest(Q, min(2, n))[0][:, -1]
            square = nearest**2 - 2.0 * rule.bandwidth**2 * np.log(GAUSSIAN_CUTOFF)
            return self.index.within(Q, np.sqrt(square))
        is_bounded = rule.kernel == "uniform" or vanishes_at_one(rule.kernel)
        if is_bounded and np.isfinite(rule.bandwidth):
            return self.index.within(Q, rule.bandwidth)
        distances, indices = self.index.nearest(Q, n)
        return np.arange(Q.shape[0] + 1) * n, indices.ravel(), distances.ravel()

    def _kernel_weights(self, indptr, distances) -> np.ndarray:
        rule = self.rule
        if np.isinf(rule.bandwidth):
            return np.ones_like(distances)
        if rule.kernel != "gaussian":
            return kernel_values(distances / rule.bandwidth, rule.kernel)
        first = np.repeat(indptr[:-1], np.diff(indptr))
        exponent = (distances**2 - distances[first] ** 2) / rule.bandwidth**2
        weights = np.exp(-0.5 * exponent)
        weights[weights < GAUSSIAN_CUTOFF] = 0.0
        return weights

    def _apply_weights(self, found, rows, groups) -> WeightedNeighborhoods:
        user = None if self.sample_weight is None else self.sample_weight[found.indices]
        if rows is not None:
            own = np.repeat(rows, found.sizes())
            user = self._leave_out(own, found.indices, found.distances, user, groups)
        weights = found.weights if user is None else found.weights * user
        return drop_zeros(found._replace(weights=weights))

    def _leave_out(self, own, indices, distances, user, groups) -> Any:
        """Return the user weights with one observation left out: the row itself, or its group.

        Integer weights are counts: a row of weight three keeps weight two, as if it were repeated
        three times and one copy was left out.
        """
        xp = namespace(indices)
        user = xp.ones_like(distances) if user is None else user
        if groups is not None:
            return xp.where(groups[indices] == groups[own], xp.zeros_like(user), user)
        left = xp.zeros_like(user)
        if self._are_counts:
            left = xp.maximum(user - 1.0, left)
        return xp.where(indices == own, left, user)

    def _fill_empty(self, found, empty, Q, rows, groups) -> WeightedNeighborhoods:
        """Apply ``outside`` to queries without neighbours."""
        rule = self.rule
        if rule.outside == "raise":
            raise ValueError(
                f"{int(empty.sum())} of {len(empty)} queries have no sample within bandwidth="
                f'{rule.bandwidth!r}; enlarge it, or set outside="nearest" or "prior".'
            )
        if rule.outside != "nearest":
            return found
        enlarged = NearestRule(min(self.index.X.shape[1] + 1, self.n_samples - 1), rule.kernel)
        some = np.flatnonzero(empty)
        extra = self._nearest(Q[some], enlarged, None if rows is None else rows[some], groups)
        keep = np.flatnonzero(~empty)
        return _merge([take_queries(found, keep), extra], [keep, some])


class DeviceLocalizer(Localizer):
    """Map from queries on a device to their nearest rows, padded to one length."""

    def neighborhoods(self, Q, *, rows=None, groups=None) -> Padded:
        """Return the weighted neighbours of each query."""
        count = self.rule.count
        return self.from_candidates(self.candidates(Q, count, rows=rows), count)

    def from_candidates(self, found, count: float) -> Padded:
        """Return the neighbourhoods of one size among the candidates."""
        distances, indices, user = found
        rule = replace(self.rule, count=count)
        h = nearest_bandwidth(distances, user, count, exceed=rule.exceed)
        h = _enough_for_all(h, distances, rule) * rule.stretch
        return Padded(indices, self._weights(distances, h, user, rule))


def _last_needed(distances: np.ndarray, h: np.ndarray) -> int:
    """Return the number of leading columns that hold every distance up to h."""
    beyond = (distances > h[:, None]).all(axis=0)
    return int(beyond.argmax()) if beyond.any() else distances.shape[1]


def take_queries(found: WeightedNeighborhoods, queries: np.ndarray) -> WeightedNeighborhoods:
    """Return the neighbourhoods of some queries."""
    sizes = found.sizes()[queries]
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    entries = np.arange(indptr[-1]) + np.repeat(found.indptr[queries] - indptr[:-1], sizes)
    return WeightedNeighborhoods(
        indptr,
        found.indices[entries],
        found.weights[entries],
        found.distances[entries],
        found.bandwidths[queries],
    )


def _enough_for_all(h, distances, rule) -> Any:
    """Use a radius that holds every row where all rows together are too few."""
    xp = namespace(h)
    short = ~xp.isfinite(h)
    if bool(xp.any(short)):
        h = xp.where(short, xp.max(distances, axis=1) * (1.0 + 1.0 / max(1.0, rule.count)), h)
    return h


def drop_zeros(found: WeightedNeighborhoods) -> WeightedNeighborhoods:
    """Return the neighbourhoods without rows of weight zero."""
    mask = found.weights > 0.0
    if mask.all():
        return found
    total = np.concatenate([[0], np.cumsum(mask)])
    return WeightedNeighborhoods(
        total[found.indptr],
        found.indices[mask],
        found.weights[mask],
        found.distances[mask],
        found.bandwidths,
    )


def _merge(parts: list[WeightedNeighborhoods], order: list[np.ndarray]) -> WeightedNeighborhoods:
    """Join parts back into the order of the queries."""
    offsets = np.cumsum([0] + [len(part.indices) for part in parts])
    joined = WeightedNeighborhoods(
        np.concatenate(
            [parts[0].indptr]
            + [part.indptr[1:] + start for part, start in zip(parts[1:], offsets[1:], strict=False)]
        ),
        *(np.concatenate(column) for column in list(zip(*parts, strict=True))[1:]),
    )
    return take_queries(joined, np.argsort(np.concatenate(order), kind="stable"))


# --- forests ---


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
    _leaf_rows="e <n",
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
    sampled : list of ndarray of int
        Rows that each tree was grown from.
    """

    is_euclidean = False

    def __init__(self, forest, X: np.ndarray, sampled, n_jobs: int | None = None):
        self.forest = forest
        self.X = X
        self.n_jobs = n_jobs
        self.n_grown = len(X)  # rows that the trees were grown from
        trees = forest.estimators_
        self._offsets = np.cumsum([0] + [tree.tree_.node_count for tree in trees])
        self.out_of_bag = np.ones((len(X), len(trees)), dtype=bool)
        single = X.astype(np.float32)  # as trees read them
        entries = []
        for t, own in enumerate(sampled):
            counts = np.bincount(own, minlength=len(X))
            rows = np.flatnonzero(counts)
            self.out_of_bag[rows, t] = False
            leaf = trees[t].tree_.apply(single[rows]) + self._offsets[t]
            entries.append((rows, leaf, counts[rows].astype(np.float64)))
        # A row that every tree was grown from uses all trees.
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
        """Store rows by leaf, ascending within each."""
        order = np.argsort(leaf, kind="stable")
        n_leaves = int(self._offsets[-1])
        sizes = np.bincount(leaf, minlength=n_leaves)
        rank = np.arange(len(order)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        share = _MAX_LEAF / np.maximum(np.repeat(sizes, sizes), _MAX_LEAF)
        kept = order[np.floor((rank + 1) * share) > np.floor(rank * share)]
        rows, leaf, counts = rows[kept], leaf[kept], counts[kept]
        self._leaf_rows = rows.astype(np.int64)
        self._counts = counts
        self._start = np.searchsorted(leaf, np.arange(n_leaves + 1)).astype(np.int64)
        self._totals = np.bincount(leaf, counts, minlength=n_leaves)

    def leaves_of(self, X: np.ndarray) -> np.ndarray:
        """Return the leaves of rows, numbered through the forest."""
        if len(X) == 0:
            return np.zeros((0, len(self.forest.estimators_)), dtype=np.int64)
        return forest_leaves(self.forest, X).astype(np.int64) + self._offsets[:-1]

    def extended(self, X: np.ndarray, counts: np.ndarray) -> "ForestIndex":
        """Return the same trees with further rows in their leaves.

        ``counts`` are weights relative to the mean training row.
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
            np.concatenate([self._leaf_rows, rows]),
            np.concatenate([before, leaves.ravel()]),
            np.concatenate([self._counts, np.repeat(counts, leaves.shape[1])]),
        )
        return other

    def shares(self) -> sparse.csr_matrix:
        """Return the share of every training row in every leaf, shape (n_leaves, n_rows)."""
        shares = self._counts / np.repeat(self._totals, np.diff(self._start))
        shape = len(self._totals), len(self.X)
        return sparse.csr_matrix((shares, self._leaf_rows, self._start), shape=shape)

    def neighborhoods(self, leaves, use_tree, max_size: int) -> WeightedNeighborhoods:
        """Return the rows that share leaves, in threads over blocks of queries."""
        filed = self._start, self._leaf_rows, self._counts, self._totals, len(self.X)
        starts = range(0, max(1, len(leaves)), _QUERIES_PER_TASK)
        every = np.ones((1, 1), dtype=bool)

        def find(first):
            part = slice(first, first + _QUERIES_PER_TASK)
            trees = every if use_tree is None else use_tree[part]
            return shared_leaves(leaves[part], trees, *filed, max_size)

        parts = thread_map(find, starts, self.n_jobs)
        sizes = np.concatenate([np.diff(indptr) for indptr, _, _ in parts])
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        indices = np.concatenate([part[1] for part in parts])
        weights = np.concatenate([part[2] for part in parts])
        return WeightedNeighborhoods(
            indptr, indices, weights, np.zeros(len(weights)), np.ones(len(leaves))
        )


class ForestLocalizer:
    """Map from queries to neighbourhoods by shared leaves; the counterpart of ``Localizer``."""

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
        """Return the weighted neighbours; training rows use only trees grown without them."""
        if rows is None:
            leaves, use_tree = self.index.leaves_of(Q), None
        else:
            leaves = self.index.leaves_of(self.index.X[rows])
            use_tree = self.index.out_of_bag[rows]
        found = self.index.neighborhoods(leaves, use_tree, self.rule.max_size)
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
    """Grow the forest of a metric and store its rows by leaf."""
    leaf, kind = FORESTS[metric]
    settings = {
        "n_estimators": next((t for n, t in _TREES.items() if len(X) <= n), _FEW_TREES),
        "min_samples_leaf": leaf,
        "bootstrap": True,
        "max_samples": _MAX_TREE_ROWS if len(X) > _MAX_TREE_ROWS else None,
        "n_jobs": n_threads(n_jobs),
        "random_state": check_random_state(random_state).randint(np.iinfo(np.int32).max),
    }
    if classify:
        model = RandomForestClassifier if kind == "random" else ExtraTreesClassifier
        forest = model(**settings)
    elif kind == "random":
        # Half of the columns per split, for less correlated trees than with scikit-learn's default.
        forest = RandomForestRegressor(max_features=0.5, **settings)
    else:
        forest = ExtraTreesRegressor(**settings)
    sampled = fit_forest(forest, X, targets, sample_weight)
    keep_leaves_only(forest)
    return ForestIndex(forest, X, sampled, n_jobs)
