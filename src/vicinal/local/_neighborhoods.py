"""Which training rows are near a query, and with which weight: by distance or by forest."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.utils import check_random_state

from vicinal import _base
from vicinal._kernels.ensemble._trees import TREE_FIELDS, Nodes, joined_nodes, tree_leaves
from vicinal._kernels.local import _smoothing
from vicinal.neighbors import NeighborSearch

# Forests that serve as metrics (leaf size, kind): coarse leaves for noisy targets, fine and random
# ones for smooth targets.
FORESTS = {"forest": (5, "random"), "extra_forest": (1, "extra")}
_QUERIES_PER_TASK = 256
# Queries are ordered by their leaves in so many trees.
_ORDERING_TREES = 8
# Number of trees by number of rows (at most): more trees give steadier weights, fewer save time on
# tables that are very small or very large.
_TREES, _FEW_TREES = {299: 100, 30_000: 200}, 100
# Large leaves occur where all targets agree; so many of their rows, evenly spaced, are stored.
_MAX_LEAF = 64
# Rows sampled per tree at most: trees of millions of rows take minutes each.
_MAX_TREE_ROWS = 100_000
# Attributes of a forest index that are computed at first use.
_COMPUTED = ("_nodes", "_filed_shares")
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
        return self.indptr[1:] - self.indptr[:-1]

    def is_empty(self) -> np.ndarray:
        """Return which queries have no neighbour."""
        return self.sizes() == 0

    def sums(self, values: np.ndarray) -> np.ndarray:
        """Return the sum of values of the neighbours of each query."""
        owner = np.repeat(np.arange(self.n_queries), self.sizes())
        return np.bincount(owner, values, minlength=self.n_queries)

    def shares(self) -> np.ndarray:
        """Return the weights, scaled to sum one for each query."""
        return self.weights / np.repeat(self.sums(self.weights), self.sizes())

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


@_base.saved()
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
        return not self.loess and _smoothing.vanishes_at_one(self.kernel)

    def weights(self, distances: Any, h: Any) -> Any:
        """Return K(distance / h) of rows of neighbours; one at distance 0 when h is 0."""
        xp = _base.namespace(distances)
        u = distances / xp.where(h > 0.0, h, xp.ones_like(h))[:, None]
        if self.loess and self.kernel == "tricube":
            weights = _smoothing.loess_values(u)
        else:
            factor = _smoothing.nearest_scale(self.kernel)
            weights = _smoothing.kernel_values(u * factor if factor != 1.0 else u, self.kernel)
            if callable(self.kernel) or self.kernel == "gaussian":
                weights = xp.where(u > 1.0, xp.zeros_like(u), weights)
        if bool(xp.all(h > 0.0)):
            return weights
        at_query = xp.astype(distances <= 0.0, weights.dtype)
        return xp.where(h[:, None] > 0.0, weights, at_query)


@_base.saved()
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


@_base.saved()
class NeighborIndex:
    """Exact search among fixed rows ``X``, with the parameters of another search."""

    def __init__(self, X, search: NeighborSearch | None = None):
        self.X = X
        self._search = NeighborSearch() if search is None else clone(search)
        self.is_euclidean = self._search.metric == "euclidean" and not self._search.metric_params
        self._is_built = False

    def over(self, X) -> "NeighborIndex":
        """Return the same search among other rows."""
        return NeighborIndex(X, self._search)

    def detached(self) -> "NeighborIndex":
        """Return the search without its rows."""
        found = self.over(None)
        found._is_built = self._is_built
        return found

    def attached(self, X) -> "NeighborIndex":
        """Return the search with its rows again, built if it was."""
        found = self.over(X)
        if self._is_built:
            found._built()
        return found

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

    _splits_queries = True  # where some need more rows than others

    def __init__(self, index: NeighborIndex, rule, *, sample_weight=None, factor=None):
        self.index = index
        self.rule = rule
        self.sample_weight = sample_weight
        self.factor = factor
        self._are_counts = True
        if sample_weight is not None:
            xp = _base.namespace(sample_weight)
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
        return next(self.path([self.rule], Q, rows=rows, groups=groups))

    def path(self, rules, Q, *, rows=None, groups=None) -> Iterator[Any]:
        """Yield the neighbourhoods under each rule; nearest rules share one search."""
        if isinstance(self.rule, RadiusRule):
            for rule in rules:
                yield self._times_factor(self._within_radius(Q, rule, rows, groups))
            return
        found = self.candidates(Q, rules[-1].count, rows=rows, groups=groups)
        for rule in rules:
            yield self.of_size(found, rule.count)

    def _times_factor(self, found: Any) -> Any:
        if self.factor is None:
            return found
        return drop_zeros(found._replace(weights=found.weights * self.factor[found.indices]))

    # --- k nearest ---

    def candidates(self, Q, count: float, *, rows=None, groups=None) -> list[tuple]:
        """Return parts (queries, distances, indices, user weights) that together hold all queries.

        They suffice for every count up to ``count``, so that one search serves a whole list of
        neighbourhood sizes. Queries that need more rows than others are searched again.
        """
        rule, n = replace(self.rule, count=count), self.n_samples
        m = min(n, int(np.ceil(count)) + 1 + (rows is not None))
        parts: list[tuple] = []
        pending = np.arange(Q.shape[0])
        while True:
            distances, indices = self.index.nearest(Q, m)
            user = (
                None if self.sample_weight is None else _base.take_rows(self.sample_weight, indices)
            )
            if rows is not None:
                user = self._leave_out(rows[:, None], indices, distances, user, groups)
            complete = m == n or _base.as_numpy(_is_complete(distances, user, rule))
            if np.all(complete):
                return [*parts, (pending, distances, indices, user)]
            if self._splits_queries:
                done, rest = np.flatnonzero(complete), np.flatnonzero(~complete)
                weights = None if user is None else user[done]
                parts.append((pending[done], distances[done], indices[done], weights))
                pending, Q, rows = pending[rest], Q[rest], None if rows is None else rows[rest]
            m = min(n, 2 * m)

    def of_size(self, candidates: list[tuple], count: float, absent=None) -> Any:
        """Return the neighbourhoods of one size, without the rows that are ``absent``."""
        rule = replace(self.rule, count=count)
        parts: list[WeightedNeighborhoods] = []
        for _, distances, indices, user in candidates:
            if absent is not None:
                user = ~absent[indices] * (1.0 if user is None else user)
            h = _nearest_radius(distances, user, rule)
            # Leading columns hold every distance up to h.
            beyond = (distances > h[:, None]).all(axis=0)
            some = slice(0, int(beyond.argmax()) if beyond.any() else None)
            distances, indices = distances[:, some], indices[:, some]
            weights = self._weights(distances, h, None if user is None else user[:, some], rule)
            mask = weights > 0.0
            indptr = np.concatenate([[0], np.cumsum(mask.sum(axis=1))])
            flat = indices[mask], weights[mask], distances[mask]
            parts.append(WeightedNeighborhoods(indptr, *flat, h))
        return self._times_factor(_merge(parts, [queries for queries, *_ in candidates]))

    def _weights(self, distances, h, user, rule) -> Any:
        """Return the weights of rows of neighbours; equal ones where none would have any."""
        xp = _base.namespace(distances)
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

    def _within_radius(self, Q, rule, rows, groups) -> WeightedNeighborhoods:
        indptr, indices, distances = self._reach(Q, rule)
        weights = _radius_weights(rule, indptr, distances)
        h = np.full(Q.shape[0], rule.bandwidth)
        found = WeightedNeighborhoods(indptr, indices, weights, distances, h)
        user = None if self.sample_weight is None else self.sample_weight[indices]
        if rows is not None:
            own = np.repeat(rows, found.sizes())
            user = self._leave_out(own, indices, distances, user, groups)
        if user is not None:
            found = found._replace(weights=weights * user)
        found = drop_zeros(found)
        empty = found.is_empty()
        if empty.any():
            found = self._fill_empty(found, empty, Q, rule, rows, groups)
        return found

    def _reach(self, Q, rule):
        """Return every row that may have weight under a fixed bandwidth."""
        n = self.n_samples
        if rule.kernel == "gaussian" and np.isfinite(rule.bandwidth):
            # Weights are relative to the nearest row's, so that far queries see neighbours too.
            # The row left out may be that nearest one: the second decides.
            nearest = self.index.nearest(Q, min(2, n))[0][:, -1]
            square = nearest**2 - 2.0 * rule.bandwidth**2 * np.log(_smoothing.GAUSSIAN_CUTOFF)
            return self.index.within(Q, np.sqrt(square))
        is_bounded = rule.kernel == "uniform" or _smoothing.vanishes_at_one(rule.kernel)
        if is_bounded and np.isfinite(rule.bandwidth):
            return self.index.within(Q, rule.bandwidth)
        distances, indices = self.index.nearest(Q, n)
        return np.arange(Q.shape[0] + 1) * n, indices.ravel(), distances.ravel()

    def _leave_out(self, own, indices, distances, user, groups) -> Any:
        """Return the user weights with one observation left out: the row itself, or its group.

        Integer weights are counts: a row of weight three keeps weight two, as if it were repeated
        three times and one copy was left out.
        """
        xp = _base.namespace(indices)
        user = xp.ones_like(distances) if user is None else user
        if groups is not None:
            return xp.where(groups[indices] == groups[own], xp.zeros_like(user), user)
        left = xp.zeros_like(user)
        if self._are_counts:
            left = xp.maximum(user - 1.0, left)
        return xp.where(indices == own, left, user)

    def _fill_empty(self, found, empty, Q, rule, rows, groups) -> WeightedNeighborhoods:
        """Apply ``outside`` to queries without neighbours."""
        if rule.outside == "raise":
            raise ValueError(
                f"{int(empty.sum())} of {len(empty)} queries have no sample within bandwidth="
                f'{rule.bandwidth!r}; enlarge it, or set outside="nearest" or "prior".'
            )
        if rule.outside != "nearest":
            return found
        enlarged = NearestRule(min(self.index.X.shape[1] + 1, self.n_samples - 1), rule.kernel)
        some = np.flatnonzero(empty)
        nearest = Localizer(self.index, enlarged, sample_weight=self.sample_weight)
        own = None if rows is None else rows[some]
        extra = nearest.neighborhoods(Q[some], rows=own, groups=groups)
        keep = np.flatnonzero(~empty)
        return _merge([take_queries(found, keep), extra], [keep, some])


class PaddedLocalizer(Localizer):
    """Localizer of nearest rows on a device, where all queries have as many neighbours."""

    _splits_queries = False

    def of_size(self, candidates: list[tuple], count: float, absent=None) -> Padded:
        """Return the neighbourhoods of one size."""
        ((_, distances, indices, user),) = candidates
        rule = replace(self.rule, count=count)
        h = _nearest_radius(distances, user, rule)
        return Padded(indices, self._weights(distances, h, user, rule))


def _nearest_radius(distances, user, rule) -> Any:
    """Return the bandwidth of each query, from sorted distances and user weights."""
    h = _smoothing.nearest_bandwidth(distances, user, rule.count, exceed=rule.exceed)
    return _enough_for_all(h, distances, rule) * rule.stretch


def _is_complete(distances, user, rule) -> Any:
    """Return for which queries every row within the bandwidth was found."""
    xp = _base.namespace(distances)
    h = _smoothing.nearest_bandwidth(distances, user, rule.count, exceed=rule.exceed)
    # Where the nearest row is as far as the bandwidth, every row at it counts.
    nearest = distances[:, 0]
    if user is not None:
        far = xp.full_like(distances, float("inf"))
        nearest = xp.min(xp.where(user > 0.0, distances, far), axis=1)
    needs_ties = h <= nearest if _smoothing.vanishes_at_one(rule.kernel) else h == h
    return xp.isfinite(h) & ~(needs_ties & (distances[:, -1] <= h))


def _radius_weights(rule: RadiusRule, indptr, distances) -> np.ndarray:
    """Return the weights under a fixed bandwidth; Gaussian ones relative to the nearest row's."""
    if np.isinf(rule.bandwidth):
        return np.ones_like(distances)
    if rule.kernel != "gaussian":
        return _smoothing.kernel_values(distances / rule.bandwidth, rule.kernel)
    first = np.repeat(indptr[:-1], np.diff(indptr))
    exponent = (distances**2 - distances[first] ** 2) / rule.bandwidth**2
    weights = np.exp(-0.5 * exponent)
    weights[weights < _smoothing.GAUSSIAN_CUTOFF] = 0.0
    return weights


def take_queries(found: WeightedNeighborhoods, queries: np.ndarray) -> WeightedNeighborhoods:
    """Return the neighbourhoods of some queries."""
    sizes = found.sizes()[queries]
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    entries = np.arange(indptr[-1]) + np.repeat(found.indptr[queries] - indptr[:-1], sizes)
    indices, weights, distances = (column[entries] for column in found[1:4])
    return WeightedNeighborhoods(indptr, indices, weights, distances, found.bandwidths[queries])


def _enough_for_all(h, distances, rule) -> Any:
    """Use a radius that holds every row where all rows together are too few."""
    xp = _base.namespace(h)
    short = ~xp.isfinite(h)
    if bool(xp.any(short)):
        h = xp.where(short, xp.max(distances, axis=1) * (1.0 + 1.0 / max(1.0, rule.count)), h)
    return h


def drop_zeros(found: WeightedNeighborhoods) -> WeightedNeighborhoods:
    """Return the neighbourhoods without rows of weight zero."""
    mask = found.weights > 0.0
    if mask.all():
        return found
    indptr = np.concatenate([[0], np.cumsum(mask)])[found.indptr]
    indices, weights, distances = (column[mask] for column in found[1:4])
    return WeightedNeighborhoods(indptr, indices, weights, distances, found.bandwidths)


def _merge(parts: list[WeightedNeighborhoods], order: list[np.ndarray]) -> WeightedNeighborhoods:
    """Join parts back into the order of the queries."""
    if len(parts) == 1:
        return parts[0]
    indptr = np.cumsum(np.concatenate([[0], *(part.sizes() for part in parts)]))
    flat = (np.concatenate(column) for column in list(zip(*parts, strict=True))[1:])
    joined = WeightedNeighborhoods(indptr, *flat)
    return take_queries(joined, np.argsort(np.concatenate(order), kind="stable"))


# --- forests ---


@_base.saved()
@dataclass(frozen=True)
class ForestRule:
    """Weights are shares of leaves; of the rows that share one, the heaviest ``max_size`` count."""

    max_size: int

    @property
    def size(self) -> int:
        """Number of neighbours at most."""
        return self.max_size


@_base.saved(X="n q", counts="n t")
class ForestIndex:
    """Leaves of a forest and the training rows in them.

    Parameters
    ----------
    forest : fitted forest of scikit-learn with ``bootstrap=True``
        Trees.
    X : ndarray of shape (n_samples, n_features)
        Training rows, in the columns the forest saw.
    counts : ndarray of int of shape (n_samples, n_trees)
        How often each row is in the sample that a tree was grown from.
    """

    is_euclidean = False

    def __init__(self, forest, X: np.ndarray, counts: np.ndarray, n_jobs: int | None = None):
        self.forest = forest
        self.X = X
        self.counts = counts
        self.n_jobs = n_jobs
        trees = forest.estimators_
        self._offsets = np.cumsum([0] + [tree.tree_.node_count for tree in trees])
        single = X.astype(np.float32)  # as trees read them
        entries = []
        for tree, offset, own in zip(trees, self._offsets[:-1], counts.T, strict=True):
            rows = np.flatnonzero(own)
            leaf = tree.tree_.apply(single[rows])
            # Numbers of two bytes are sorted in linear time.
            order = np.argsort(leaf.astype(np.min_scalar_type(leaf.max())), kind="stable")
            rows = rows[order]
            entries.append((rows, leaf[order] + offset, own[rows].astype(np.float64)))
        self._file(*(np.concatenate(column) for column in zip(*entries, strict=True)))

    def detached(self) -> "ForestIndex":
        """Return the leaves with their rows, which are as given."""
        return self

    def attached(self, X) -> "ForestIndex":
        """Return the leaves."""
        return self

    def __saved_state__(self) -> dict:
        """Return the content of a model file: the leaves follow from it."""
        return {name: vars(self)[name] for name in ("forest", "X", "counts", "n_jobs")}

    def __restore__(self, state: dict) -> None:
        """Restore the content of a model file, and find the leaves again."""
        if state["counts"].dtype.kind != "u":
            raise ValueError("ForestIndex.counts must be whole numbers, none negative.")
        self.__init__(**state)  # type: ignore[misc]

    def out_of_bag(self, rows: np.ndarray) -> np.ndarray:
        """Return which trees predict training rows: those grown without them, or all."""
        is_outside = self.counts[rows] == 0
        is_outside[~is_outside.any(axis=1)] = True
        return is_outside

    def __getstate__(self) -> dict:
        """Return the attributes, without what is computed from them at first use."""
        return {name: value for name, value in vars(self).items() if name not in _COMPUTED}

    @cached_property
    def _filed_shares(self) -> tuple:
        shares = self._counts / np.repeat(self._totals, np.diff(self._start))
        return self._start, self._leaf_rows.astype(np.uint32), shares

    @cached_property
    def _nodes(self) -> Nodes:
        trees = [tree.tree_.__getstate__()["nodes"] for tree in self.forest.estimators_]
        return joined_nodes(trees, TREE_FIELDS)

    def _file(self, rows, leaf, counts) -> None:
        """Store rows by leaf, by which they come, ascending within each."""
        n_leaves = int(self._offsets[-1])
        sizes = np.bincount(leaf, minlength=n_leaves)
        if sizes.max() > _MAX_LEAF:
            rank = np.arange(len(leaf)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
            share = _MAX_LEAF / np.maximum(np.repeat(sizes, sizes), _MAX_LEAF)
            kept = np.floor((rank + 1) * share) > np.floor(rank * share)
            rows, leaf, counts = rows[kept], leaf[kept], counts[kept]
            sizes = np.bincount(leaf, minlength=n_leaves)
        self._counts, self._leaf_rows = counts, rows
        self._start = np.concatenate([[0], np.cumsum(sizes)])
        self._totals = np.bincount(leaf, counts, minlength=n_leaves)

    def leaves_of(self, X: np.ndarray) -> np.ndarray:
        """Return the leaves of rows, numbered through the forest."""
        if len(X) == 0:
            return np.zeros((0, len(self.forest.estimators_)), dtype=np.int64)
        leaves = np.empty((len(X), len(self._offsets) - 1), dtype=np.int64)
        with np.errstate(over="ignore"):
            single = np.ascontiguousarray(X, dtype=np.float32)
        if not np.isfinite(single).all():
            self.forest.apply(single)  # raises its error
        nodes = self._nodes

        def find(first):
            part = slice(first, first + _QUERIES_PER_TASK)
            tree_leaves(single[part], nodes, leaves[part])

        _base.thread_map(find, range(0, len(X), _QUERIES_PER_TASK), self.n_jobs)
        return leaves

    def shares(self) -> sparse.csr_matrix:
        """Return the share of every training row in every leaf, shape (n_leaves, n_rows)."""
        shape = len(self._totals), len(self.X)
        return sparse.csr_matrix((self._filed_shares[2], self._leaf_rows, self._start), shape=shape)

    def neighborhoods(self, leaves, use_tree, max_size: int) -> WeightedNeighborhoods:
        """Return the rows that share leaves, in threads over blocks of queries."""
        n, width, filed = len(leaves), min(max_size, len(self.X)), self._filed_shares
        found = np.empty((n, width), np.int64), np.empty((n, width)), np.empty(n, np.int64)
        trees = np.ones((1, 1), dtype=bool) if use_tree is None else use_tree
        # Queries that share leaves follow each other, so that the rows of these stay in the cache.
        order = np.lexsort(leaves[:, :_ORDERING_TREES].T)

        def find(first):
            some = order[first : first + _QUERIES_PER_TASK]
            _smoothing.shared_leaves(leaves, trees, some, *filed, len(self.X), found)

        _base.thread_map(find, range(0, n, _QUERIES_PER_TASK), self.n_jobs)
        sizes = found[2]
        is_found = np.arange(width) < sizes[:, None]
        # Most often every query has as many rows, and nothing is copied.
        indices, weights = (
            column.ravel() if is_found.all() else column[is_found] for column in found[:2]
        )
        indptr = np.concatenate([[0], np.cumsum(sizes)])
        return WeightedNeighborhoods(indptr, indices, weights, np.zeros(len(indices)), np.ones(n))


class ForestLocalizer(Localizer):
    """Map from queries to neighbourhoods by shared leaves, under one :class:`ForestRule`."""

    def expected_size(self) -> int:
        """Return the number of neighbours that a query costs memory for."""
        return min(self.n_samples, self.rule.max_size)

    def path(self, rules, Q, *, rows=None, groups=None):
        """Yield the weighted neighbours; training rows use only trees grown without them."""
        use_tree = None
        if rows is not None:
            Q, use_tree = self.index.X[rows], self.index.out_of_bag(rows)
        leaves = self.index.leaves_of(Q)
        found = self.index.neighborhoods(leaves, use_tree, self.rule.max_size)
        if rows is not None:
            # A row never counts for itself, also where it uses all trees.
            own = np.repeat(rows, found.sizes())
            same = found.indices == own
            if groups is not None:
                same |= groups[found.indices] == groups[own]
            found = drop_zeros(found._replace(weights=np.where(same, 0.0, found.weights)))
        yield self._times_factor(found)


def grow_forest(metric: str, X, targets, sample_weight, *, classify: bool, random_state, n_jobs):
    """Grow the forest of a metric and store its rows by leaf."""
    leaf, kind = FORESTS[metric]
    settings = {
        "n_estimators": next((t for n, t in _TREES.items() if len(X) <= n), _FEW_TREES),
        "min_samples_leaf": leaf,
        "bootstrap": True,
        "max_samples": _MAX_TREE_ROWS if len(X) > _MAX_TREE_ROWS else None,
        "n_jobs": _base.n_threads(n_jobs),
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
    samples = _base.fit_forest(forest, X, targets, sample_weight)
    most = max(int(np.bincount(sample).max()) for sample in samples)
    counts = np.empty((len(X), len(samples)), dtype=np.min_scalar_type(most))
    for t, sample in enumerate(samples):
        counts[:, t] = np.bincount(sample, minlength=len(X))
    _base.keep_leaves_only(forest)
    return ForestIndex(forest, X, counts, n_jobs)
