"""The one door to neighbour search: nearest rows, rows within a radius, all rows."""

import numpy as np
from scipy import sparse
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import NearestNeighbors

from vicinal._base import thread_map
from vicinal._kernels._distances import euclidean_rows, refine_neighbors

_ROWS_PER_TASK = 256


def _tasks(n_rows: int, size: int = _ROWS_PER_TASK) -> list[slice]:
    return [slice(i, min(i + size, n_rows)) for i in range(0, n_rows, size)]


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
    algorithm : {"auto", "brute", "kd_tree", "ball_tree"}
        ``"auto"`` takes a tree for at most eight coordinates.
    n_jobs : int or None
        Threads.
    """

    def __init__(self, X, *, metric="euclidean", metric_params=None, algorithm="auto", n_jobs=None):
        self.X = X
        self.metric = metric
        self.metric_params = metric_params
        self.n_jobs = n_jobs
        self.is_euclidean = metric == "euclidean" and not sparse.issparse(X)
        if algorithm == "auto":
            is_small = not sparse.issparse(X) and X.shape[1] <= 8 and isinstance(metric, str)
            algorithm = "auto" if is_small else "brute"
        self._search = NearestNeighbors(
            algorithm=algorithm, metric=metric, metric_params=metric_params, n_jobs=n_jobs
        ).fit(X)

    def nearest(self, Q, m: int) -> tuple[np.ndarray, np.ndarray]:
        """Return distances (ascending) and row numbers of the ``m`` nearest rows."""
        distances, indices = self._search.kneighbors(Q, n_neighbors=m)
        distances = np.ascontiguousarray(distances, dtype=np.float64)
        indices = np.ascontiguousarray(indices, dtype=np.intp)
        if self.is_euclidean:
            thread_map(
                lambda rows: refine_neighbors(self.X, Q[rows], indices[rows], distances[rows]),
                _tasks(len(indices)),
                self.n_jobs,
            )
        else:
            order = np.lexsort((indices, distances), axis=1)
            distances = np.take_along_axis(distances, order, axis=1)
            indices = np.take_along_axis(indices, order, axis=1)
        return distances, indices

    def all_distances(self, Q) -> np.ndarray:
        """Return the distances to every row; the caller bounds the number of queries."""
        if not self.is_euclidean:
            params = self.metric_params or {}
            return pairwise_distances(Q, self.X, metric=self.metric, **params)
        out = np.empty((Q.shape[0], self.X.shape[0]))
        thread_map(
            lambda rows: euclidean_rows(self.X, Q[rows], out[rows]),
            _tasks(len(out), 16),
            self.n_jobs,
        )
        return out

    def within(self, Q, radius: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the rows within ``radius`` as (indptr, indices, distances), rows ascending."""
        distances, indices = self._search.radius_neighbors(Q, radius=radius, sort_results=False)
        counts = np.array([len(found) for found in indices], dtype=np.intp)
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.intp)
        flat = np.concatenate([*indices, []]).astype(np.intp)
        lengths = np.concatenate([*distances, []]).astype(np.float64)
        order = np.lexsort((flat, np.repeat(np.arange(len(counts)), counts)))
        return indptr, flat[order], lengths[order]
