"""Which training rows are near a query, and with which weight."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from vicinal._base import saved
from vicinal._kernels.local._smoothing import (
    GAUSSIAN_CUTOFF,
    kernel_values,
    loess_values,
    nearest_bandwidth,
    nearest_scale,
    vanishes_at_one,
)
from vicinal.neighbors import NeighborSearch


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

    def nobody(self) -> np.ndarray:
        """Tell which queries have no neighbour."""
        return self.sizes() == 0


@saved()
@dataclass(frozen=True)
class NearestRule:
    """Bandwidth = the radius that holds ``count`` neighbours (or as much user weight).

    Kernels that vanish at one take the distance of the (k+1)-th neighbour, so that k of them count;
    the others that of the k-th, and everybody at that distance counts. ``loess`` takes the k-th for
    every kernel, times ``stretch``, and LOESS's guards on tricube weights. Where no row would count
    (all neighbours are equally far, or a query is so far away that they seem to be) all rows within
    the bandwidth count alike.
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

    def weights(self, distances: np.ndarray, h: np.ndarray) -> np.ndarray:
        """Return K(distance / h) of rows of neighbours; one at distance 0 when h is 0."""
        scale = np.where(h > 0, h, 1.0)[:, None]
        u = distances / scale
        if self.loess and self.kernel == "tricube":
            weights = loess_values(u)
        else:
            factor = nearest_scale(self.kernel)
            weights = kernel_values(u * factor if factor != 1.0 else u, self.kernel)
            weights[u > 1.0] = 0.0
        return np.where(h[:, None] > 0, weights, distances == 0.0)


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


def leave_out(rows, indices, weights, groups) -> np.ndarray:
    """Return the weights with one observation left out: the row itself, or its whole group.

    Weights are counts here: of a row that stands for three, one copy leaves and two stay, as they
    would if the row were written three times.
    """
    weights = np.ones(indices.shape) if weights is None else weights
    if groups is not None:
        return np.where(groups[indices] == groups[rows], 0.0, weights)
    copies = np.maximum(weights - 1.0, 0.0)
    return np.where(indices == rows, copies, weights)


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
    """Turn queries into neighbourhoods by a rule.

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
        self._are_counts = sample_weight is None or bool(
            np.all(sample_weight == np.rint(sample_weight))
        )

    @property
    def n_samples(self) -> int:
        """Number of training rows."""
        return self.index.X.shape[0]

    def expected_size(self) -> int:
        """Return the number of neighbours that a query costs memory for."""
        if isinstance(self.rule, RadiusRule):
            return self.n_samples
        return min(self.n_samples, int(self.rule.count) + 2)

    def neighborhoods(self, Q, *, rows=None, groups=None) -> WeightedNeighborhoods:
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
            found = self._within_radius(Q, rows, groups)
        else:
            found = self._nearest(Q, self.rule, rows, groups)
        return self._times_factor(found)

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

    def _times_factor(self, found: WeightedNeighborhoods) -> WeightedNeighborhoods:
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
            if complete.all():
                return distances, indices, user
            m = min(n, 2 * m)

    def from_candidates(self, found, count: float) -> WeightedNeighborhoods:
        """Return the neighbourhoods of one size among the candidates."""
        distances, indices, user = found
        rule = replace(self.rule, count=count)
        h = nearest_bandwidth(distances, user, count, exceed=rule.exceed)
        h = _enough_for_all(h, distances, rule) * rule.stretch
        last = _last_needed(distances, h)
        part = (slice(None), slice(0, last))
        return self._compress(
            distances[part], indices[part], h, None if user is None else user[part], rule
        )

    def _nearest(self, Q, rule, rows, groups) -> WeightedNeighborhoods:
        """Search until every query has met its count; most do at the first attempt."""
        n = self.n_samples
        m = min(n, int(np.ceil(rule.count)) + 1 + (rows is not None))
        pending = np.arange(Q.shape[0])
        parts, order = [], []
        while pending.size:
            own = None if rows is None else rows[pending]
            distances, indices = self.index.nearest(Q[pending], m)
            h, complete, user = self._bandwidths(distances, indices, rule, own, groups, m == n)
            if complete.all():
                parts.append(self._compress(distances, indices, h, user, rule))
                order.append(pending)
                break
            if complete.any():
                parts.append(
                    self._compress(
                        distances[complete],
                        indices[complete],
                        h[complete],
                        None if user is None else user[complete],
                        rule,
                    )
                )
                order.append(pending[complete])
            pending = pending[~complete]
            m = min(n, 2 * m)
        return _merge(parts, order, Q.shape[0])

    def _bandwidths(self, distances, indices, rule, own, groups, is_all):
        """Return h, whether every row within it was found, and the user weights of the rows."""
        user = None if self.sample_weight is None else self.sample_weight[indices]
        if own is not None:
            user = self._leave_out(own[:, None], indices, user, groups)
        h = nearest_bandwidth(distances, user, rule.count, exceed=rule.exceed)
        if is_all:
            h = _enough_for_all(h, distances, rule)
            complete = np.ones(len(h), dtype=bool)
        else:
            # Where the nearest row is as far as the bandwidth, every row at it counts.
            nearest = distances[:, 0]
            if user is not None:
                nearest = np.where(user > 0.0, distances, np.inf).min(axis=1)
            needs_ties = (h <= nearest) | (not vanishes_at_one(rule.kernel))
            complete = np.isfinite(h) & ~(needs_ties & (distances[:, -1] <= h))
        return h * rule.stretch, complete, user

    def _compress(self, distances, indices, h, user, rule) -> WeightedNeighborhoods:
        weights = rule.weights(distances, h)
        if user is not None:
            weights = weights * user
        nobody = ~weights.any(axis=1)
        if nobody.any():
            within = distances[nobody] <= h[nobody][:, None]
            weights[nobody] = within if user is None else within * user[nobody]
        mask = weights > 0.0
        indptr = np.concatenate([[0], np.cumsum(mask.sum(axis=1))])
        return WeightedNeighborhoods(indptr, indices[mask], weights[mask], distances[mask], h)

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
        weights = found.weights
        if self.sample_weight is not None:
            weights = weights * self.sample_weight[found.indices]
        if rows is not None:
            own = np.repeat(rows, found.sizes())
            user = None if self.sample_weight is None else self.sample_weight[found.indices]
            left = self._leave_out(own, found.indices, user, groups)
            weights = found.weights * left
        return drop_zeros(found._replace(weights=weights))

    def _leave_out(self, own, indices, user, groups) -> np.ndarray:
        if self._are_counts or groups is not None:
            return leave_out(own, indices, user, groups)
        return np.where(indices == own, 0.0, user)

    def _fill_empty(self, found, empty, Q, rows, groups) -> WeightedNeighborhoods:
        """Deal with queries that see no row, as ``outside`` says."""
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
        return _merge([take_queries(found, keep), extra], [keep, some], len(empty))


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


def _enough_for_all(h, distances, rule) -> np.ndarray:
    """Give queries for which all rows together are too few a radius that holds every row."""
    short = ~np.isfinite(h)
    if short.any():
        farthest = distances[short].max(axis=1)
        h = h.copy()
        h[short] = farthest * (1.0 + 1.0 / max(1.0, rule.count))
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


def _merge(
    parts: list[WeightedNeighborhoods], order: list[np.ndarray], n_queries: int
) -> WeightedNeighborhoods:
    """Join parts back into the order of the queries."""
    if len(parts) == 1 and len(order[0]) == n_queries:
        return parts[0]
    if not parts:
        none = np.empty(0)
        return WeightedNeighborhoods(np.zeros(1, np.int64), np.empty(0, np.int64), none, none, none)
    offsets = np.cumsum([0] + [len(part.indices) for part in parts])
    joined = WeightedNeighborhoods(
        np.concatenate(
            [parts[0].indptr]
            + [part.indptr[1:] + start for part, start in zip(parts[1:], offsets[1:], strict=False)]
        ),
        *(np.concatenate(column) for column in list(zip(*parts, strict=True))[1:]),
    )
    return take_queries(joined, np.argsort(np.concatenate(order), kind="stable"))
