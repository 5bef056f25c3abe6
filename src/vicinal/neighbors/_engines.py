"""Engines of the neighbour search.

An engine is built from the training rows. ``nearest(Q, k, left_out)`` returns distances and
indices of shape (n_queries, k), infinite where too few rows are left; ``within(Q, radii,
left_out)`` returns three flat arrays (queries, rows, distances). Both are ordered by distance, then
by row number.
"""

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.neighbors import BallTree, KDTree, NearestNeighbors

from vicinal._base import import_optional, n_threads, namespace, row_blocks, thread_map
from vicinal._base._compat import threadpool_controller
from vicinal._kernels.neighbors import _nearest as kernels

# scikit-learn's tree may round the last digits differently: a little more is fetched, and distances
# are computed again.
_SLACK = 1e-12
# OpenBLAS computes so few products in one thread; to set their number takes longer.
_FEW_PRODUCTS = 200_000


@dataclass(frozen=True)
class ExcludedRows:
    """Rows that queries must not find: those whose code equals that of the query.

    ``most`` is the largest number of rows excluded for a query.
    """

    row_codes: Any
    query_codes: Any
    most: int

    def part(self, queries) -> "ExcludedRows":
        """Return the same for some of the queries."""
        xp = namespace(self.query_codes)
        return ExcludedRows(self.row_codes, xp.take(self.query_codes, queries), self.most)

    def keeps(self, queries, rows) -> Any:
        """Return which pairs are allowed."""
        return self.row_codes[rows] != self.query_codes[queries]


class BruteEngine:
    """Exact Euclidean search by blocked matrix products, compiled."""

    def __init__(self, X: np.ndarray, n_jobs: int | None) -> None:
        self.X, self.n_jobs = X, n_jobs
        self.fitted = kernels.ProductRows(X)

    def nearest(self, Q, k, left_out):
        distances = np.empty((Q.shape[0], k), np.float64)
        indices = np.empty((Q.shape[0], k), np.int64)

        def fill(part):
            kernels.nearest_rows(self._pairs(Q, left_out, part), k, distances[part], indices[part])
            kernels.sort_rows(distances[part], indices[part])

        with self._one_blas_thread(Q):
            thread_map(fill, _parts(Q.shape[0], self.n_jobs), self.n_jobs)
        return np.sqrt(distances).astype(self.X.dtype, copy=False), indices

    def within(self, Q, radii, left_out):
        def find(part):
            queries, rows, squares = kernels.rows_within(
                self._pairs(Q, left_out, part), radii[part]
            )
            return _by_distance(queries + part.start, rows, np.sqrt(squares))

        with self._one_blas_thread(Q):
            found = thread_map(find, _parts(Q.shape[0], self.n_jobs), self.n_jobs)
        return _joined(found, self.X.dtype)

    def _one_blas_thread(self, Q):
        """Limit the threads of matrix products; those of few numbers never have several."""
        if len(Q) * self.X.size <= _FEW_PRODUCTS:
            return nullcontext()
        return threadpool_controller().limit(limits=1, user_api="blas")

    def _pairs(self, Q, left_out, part):
        left, norms = self.fitted.queries(Q[part])
        codes = left_out.row_codes, left_out.query_codes[part]
        rows, scale, gamma = self.fitted.rows, self.fitted.scale, self.fitted.rounding
        return kernels.Pairs(Q[part], self.X, left, rows, norms, scale, gamma, *codes)


class SmallEngine:
    """Exact Euclidean search among few rows, without compiled code."""

    MAX_ROWS, MAX_NUMBERS = 320, 16_000

    def __init__(self, X: np.ndarray) -> None:
        self.X = X

    @classmethod
    def suits(cls, X: np.ndarray) -> bool:
        """Return whether the rows are too few for compiled code to pay."""
        return X.shape[0] <= cls.MAX_ROWS and X.size <= cls.MAX_NUMBERS

    def nearest(self, Q, k, left_out):
        parts = []
        for _, squares in self._squares(Q, left_out):
            order = np.argsort(squares, axis=1, kind="stable")[:, :k]
            parts.append((np.take_along_axis(squares, order, axis=1), order))
        distances, indices = (np.concatenate(column) for column in zip(*parts, strict=True))
        return np.sqrt(distances).astype(self.X.dtype, copy=False), indices

    def within(self, Q, radii, left_out):
        parts = []
        for part, squares in self._squares(Q, left_out):
            distances = np.sqrt(squares)
            inside = (distances <= radii[part, None]) & (squares < np.inf)
            queries, rows = np.nonzero(inside)
            parts.append(_by_distance(queries + part.start, rows, distances[inside]))
        return _joined(parts, self.X.dtype)

    def _squares(self, Q, left_out):
        """Yield (block of queries, their squared distances to all rows, infinite if left out)."""
        for part in row_blocks(Q.shape[0], 40 * self.X.shape[0]):
            squares = cdist(Q[part], self.X, "sqeuclidean")
            squares[left_out.query_codes[part, None] == left_out.row_codes] = np.inf
            yield part, squares


class _FetchingEngine:
    """Base of engines that call another search, then handle ties, exclusions and rounding."""

    def __init__(self, X, n_jobs: int | None, euclidean: bool) -> None:
        self.X, self.n_jobs, self.euclidean = X, n_jobs, euclidean

    def nearest(self, Q, k, left_out):
        distances = np.empty((Q.shape[0], k), self.X.dtype)
        indices = np.empty((Q.shape[0], k), np.int64)
        width = min(self.X.shape[0], k + left_out.most + 1)

        def fill(part):
            pending, wide = np.arange(part.start, part.stop), width
            while pending.size:
                some = left_out.part(pending)
                found, rows, is_final = self._round(Q[pending], k, wide, some)
                distances[pending[is_final]] = found[is_final]
                indices[pending[is_final]] = rows[is_final]
                pending = pending[~is_final]
                wide = min(self.X.shape[0], 4 * wide)

        self._over_parts(fill, Q.shape[0], 80 * width)
        return distances, indices

    def _round(self, Q, k, width, left_out):
        """Fetch ``width`` neighbours; a query is final without a tie beyond the ``k``-th."""
        found, rows = self._fetch(Q, width)
        queries = np.broadcast_to(np.arange(Q.shape[0])[:, None], rows.shape)
        found = self._measure(Q, queries.ravel(), rows.ravel(), found.ravel()).reshape(rows.shape)
        farthest = found.max(axis=1)
        found = np.where(left_out.keeps(queries, rows), found, np.inf)
        order = np.lexsort((rows, found), axis=1)[:, :k]
        found, rows = np.take_along_axis(found, order, 1), np.take_along_axis(rows, order, 1)
        is_final = found[:, -1] * (1 + _SLACK) < farthest
        return found, rows, is_final | (width == self.X.shape[0])

    def within(self, Q, radii, left_out):
        def find(part):
            reach = radii[part]
            found, rows = self._fetch_within(Q[part], reach * (1 + _SLACK))
            queries = np.repeat(np.arange(len(rows)), [len(r) for r in rows])
            rows, found = _flat(rows, np.int64), _flat(found, np.float64)
            found = self._measure(Q[part], queries, rows, found)
            queries_of_all = queries + part.start
            kept = (found <= reach[queries]) & left_out.keeps(queries_of_all, rows)
            return _by_distance(queries_of_all[kept], rows[kept], found[kept])

        return _joined(self._over_parts(find, Q.shape[0], 1), self.X.dtype)

    def _over_parts(self, function, n_queries, bytes_per_query):
        return thread_map(function, _parts(n_queries, self.n_jobs, bytes_per_query), self.n_jobs)

    def _measure(self, Q, queries, rows, found):
        """Return Euclidean distances by differences; other metrics as they were found."""
        if not self.euclidean:
            return found.astype(np.float64, copy=False)
        squares = np.empty(rows.shape[0])
        if sparse.issparse(Q):
            kernels.csr_distances(*_csr(Q), *_csr(self.X), queries, rows, squares)
        else:
            kernels.listed_distances(Q, self.X, queries, rows, squares)
        return np.sqrt(squares)


class TreeEngine(_FetchingEngine):
    """Exact search in scikit-learn's kd-tree or ball tree."""

    def __init__(self, X, metric, metric_params, euclidean, n_jobs) -> None:
        super().__init__(X, n_jobs, euclidean)
        kind = KDTree if metric in KDTree.valid_metrics else BallTree
        self.tree = kind(X, leaf_size=40, metric=metric, **(metric_params or {}))

    def _fetch(self, Q, width):
        return self.tree.query(Q, width, sort_results=False)

    def _fetch_within(self, Q, radii):
        rows, found = self.tree.query_radius(Q, radii, return_distance=True)
        return found, rows


class MetricEngine(_FetchingEngine):
    """Exact search by scikit-learn's brute force: any metric, sparse rows."""

    def __init__(self, X, metric, metric_params, euclidean, n_jobs) -> None:
        super().__init__(X, n_jobs, euclidean)
        self.search = NearestNeighbors(
            algorithm="brute", metric=metric, metric_params=metric_params, n_jobs=n_jobs
        ).fit(X)

    def _fetch(self, Q, width):
        return self.search.kneighbors(Q, width)

    def _fetch_within(self, Q, radii):
        # scikit-learn expands the square, which rounds to about the root of the precision.
        reach = radii.max() * (1 + 1e-6) if self.euclidean else radii.max()
        return self.search.radius_neighbors(Q, reach)

    def _over_parts(self, function, n_queries, bytes_per_query):
        # scikit-learn has its own threads.
        return [function(part) for part in row_blocks(n_queries, bytes_per_query)]


class GraphEngine(_FetchingEngine):
    """Approximate search in pynndescent's neighbour graph."""

    def __init__(self, X, metric, metric_params, euclidean, n_jobs, n_neighbors, seed) -> None:
        super().__init__(X, n_jobs, euclidean)
        descent = import_optional(
            "pynndescent", needed_by="NeighborSearch(algorithm='approximate')", extra="approx"
        )
        self.index = descent.NNDescent(
            X,
            metric=metric,
            metric_kwds=metric_params,
            n_neighbors=min(X.shape[0] - 1, max(30, n_neighbors + 1)),
            random_state=seed,
            n_jobs=n_threads(n_jobs),
            parallel_batch_queries=False,
        )
        self.index.prepare()

    def nearest(self, Q, k, left_out):
        width = min(self.X.shape[0], k + left_out.most)
        distances, indices, _ = self._round(Q, k, width, left_out)
        return distances.astype(self.X.dtype, copy=False), indices

    def _fetch(self, Q, width):
        rows, found = self.index.query(Q, width)
        return found, rows.astype(np.int64)

    def _measure(self, Q, queries, rows, found):
        # The graph gives row -1 where it reaches too few.
        return np.where(rows < 0, np.inf, super()._measure(Q, queries, rows, found))

    def within(self, Q, radii, left_out):
        raise ValueError(
            "algorithm='approximate' does not support radius_neighbors; use kneighbors or "
            "algorithm='auto'."
        )


def _parts(n_queries, n_jobs, bytes_per_query=1):
    """Cut the queries into parts, several per thread for balance."""
    threads = 1 if n_queries == 1 else n_threads(n_jobs)
    share = -(-n_queries // (8 * threads))
    return list(row_blocks(n_queries, bytes_per_query, max_rows=max(64, -(-share // 64) * 64)))


def _by_distance(queries, rows, distances):
    order = np.lexsort((rows, distances, queries))
    return queries[order], rows[order], distances[order]


def _joined(parts, dtype):
    queries, rows, distances = (np.concatenate(column) for column in zip(*parts, strict=True))
    return queries, rows, distances.astype(dtype, copy=False)


def _flat(arrays, dtype):
    return np.concatenate([*arrays, np.empty(0, dtype)]).astype(dtype, copy=False)


def _csr(matrix):
    """Return the three arrays with sorted columns, without changing the matrix."""
    if not matrix.has_sorted_indices:
        matrix = matrix.sorted_indices()
    return matrix.data, matrix.indices, matrix.indptr
