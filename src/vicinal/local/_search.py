"""The one door to neighbour search: nearest rows, and rows within a radius."""

import numpy as np

from vicinal._base import saved
from vicinal.neighbors import NeighborSearch


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
        """Build the search at first use: sorted points and global models need none."""
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
