"""Where a row stands among the training rows: standardised numbers, whatever the table."""

import numpy as np
from scipy import sparse
from sklearn.utils.sparsefuncs import mean_variance_axis

from vicinal.neighbors import NeighborSearch


class Place:
    """Coordinates in which rows are compared, and the search among the training rows.

    Columns are centred and scaled to unit deviation; gaps stand at the mean. Sparse rows keep
    their zeros and are only scaled.

    Parameters
    ----------
    X : {ndarray, sparse matrix} of shape (n_samples, n_features)
        Training rows, numbers.
    n_jobs : int, default=None
        Threads of the search.
    are_coordinates : bool, default=False
        Compare rows as they are.
    """

    def __init__(self, X, n_jobs: int | None = None, *, are_coordinates: bool = False):
        if sparse.issparse(X):
            X = X.tocsr().astype(np.float64)
            mean, variance = mean_variance_axis(X, axis=0)
            self.centre = np.zeros(X.shape[1])
            deviation = _unless_constant(np.sqrt(variance), mean)
        else:
            X = np.asarray(X, dtype=np.float64)
            self.centre, deviation = _moments(X)
        self.scale = np.where(deviation > 0.0, deviation, np.inf)
        if are_coordinates:
            self.centre, self.scale = np.zeros(X.shape[1]), np.ones(X.shape[1])
        self.rows = self.coordinates(X)
        self.search = NeighborSearch(n_jobs=n_jobs).fit(self.rows)

    @property
    def n_samples(self) -> int:
        """Number of training rows."""
        return self.rows.shape[0]

    def coordinates(self, X):
        """Return the coordinates of rows."""
        if sparse.issparse(X):
            return (X.tocsr() @ sparse.diags_array(1.0 / self.scale)).tocsr()
        Z = (np.asarray(X, dtype=np.float64) - self.centre) / self.scale
        return np.nan_to_num(Z, nan=0.0, posinf=1e150, neginf=-1e150)

    def neighbors(self, X, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return distances and indices of the k nearest training rows of each query."""
        return self.neighbors_at(self.coordinates(X), k)

    def neighbors_at(self, Z, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return the same for queries given by their coordinates."""
        return self.search.kneighbors(Z, k)

    def neighbors_of_training(
        self, rows: np.ndarray, k: int, groups: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the same for training rows, each without itself and the rows of its group."""
        return self.search.kneighbors(self.rows[rows], k, exclude=rows, groups=groups)


def _moments(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    known = np.isfinite(X)
    count = np.maximum(known.sum(axis=0), 1)
    # Columns around 1e300 must not overflow when they are squared.
    unit = np.max(np.abs(np.where(known, X, 0.0)), axis=0, initial=0.0)
    unit = np.where(unit > 0.0, unit, 1.0)
    Z = np.where(known, X / unit, 0.0)
    mean = Z.sum(axis=0) / count
    deviation = np.sqrt((np.where(known, Z - mean, 0.0) ** 2).sum(axis=0) / count)
    return mean * unit, _unless_constant(deviation, mean) * unit


def _unless_constant(deviation: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Return deviations, zero where they are what rounding leaves of a constant column."""
    return np.where(deviation > 1e-12 * np.abs(mean), deviation, 0.0)
