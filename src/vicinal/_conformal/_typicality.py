"""Typicality of rows, by distances in standardised columns."""

import numpy as np
from scipy import sparse
from sklearn.utils.sparsefuncs import mean_variance_axis

from vicinal._base import row_blocks
from vicinal.neighbors import NeighborSearch

_N_NEIGHBORS = 10


class StandardizedRows:
    """Training rows in standardised columns, with a neighbour search.

    Columns are centred and scaled to unit deviation; missing values are set to the mean. Sparse
    rows keep their zeros and are only scaled.

    Parameters
    ----------
    X : {ndarray, sparse matrix} of shape (n_samples, n_features)
        Training rows, numbers.
    n_jobs : int, default=None
        Threads of the search.
    are_coordinates : bool, default=False
        Whether to use the columns as they are.
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
        self.Z = self.coordinates(X)
        self.search = NeighborSearch(n_jobs=n_jobs).fit(self.Z)

    @property
    def n_samples(self) -> int:
        """Number of training rows."""
        return self.Z.shape[0]

    def coordinates(self, X):
        """Return the coordinates of rows."""
        if sparse.issparse(X):
            return (X.tocsr() @ sparse.diags_array(1.0 / self.scale)).tocsr()
        Z = (np.asarray(X, dtype=np.float64) - self.centre) / self.scale
        return np.nan_to_num(Z, nan=0.0, posinf=1e150, neginf=-1e150)

    def neighbors(self, X, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Return distances and indices of the k nearest training rows of each query."""
        return self.search.kneighbors(self.coordinates(X), k)

    def neighbors_of_training(
        self, rows: np.ndarray, k: int, groups: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the same for training rows, each without itself and the rows of its group."""
        return self.search.kneighbors(self.Z[rows], k, exclude=rows, groups=groups)


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
    """Return deviations, zero for columns that are constant up to rounding."""
    return np.where(deviation > 1e-12 * np.abs(mean), deviation, 0.0)


class Typicality:
    r"""Typicality of a query: the share of training rows that are at least as novel.

    The novelty of a row is its mean distance :math:`m` to the ten nearest rows, relative to those
    of these rows and of the table,

    .. math:: t(x) = m(x) \Big/ \Big(\tfrac{1}{10} \sum_{j \in N(x)} m_j + \bar m\Big),

    so a row is novel if it is far from its neighbours compared with their own distances. A training
    row is excluded from each :math:`m_j`, as a query is. Its rank is a p-value: uniform for rows
    exchangeable with the training rows, near 0 for novel rows.

    Parameters
    ----------
    rows : StandardizedRows
        Training rows.

    Attributes
    ----------
    means : ndarray of shape (n_samples,)
        Mean distance of every training row to its neighbours.
    novelties : ndarray of shape (n_samples,)
        Novelty of every training row among the others, sorted.
    """

    def __init__(self, rows: StandardizedRows):
        self.rows = rows
        n = rows.n_samples
        self.k = min(_N_NEIGHBORS, n - 1)
        self.means, self.novelties = np.zeros(n), np.zeros(n)
        if self.k > 0:
            # One more neighbour replaces a row that is excluded.
            longer = min(self.k + 1, n - 1)
            parts = [
                rows.neighbors_of_training(np.arange(n)[block], longer)
                for block in row_blocks(n, 32 * longer)
            ]
            distances, indices = (np.concatenate(part) for part in zip(*parts, strict=True))
            self.means = distances[:, : self.k].mean(axis=1)
            near, around = distances[:, : self.k], indices[:, : self.k]
            without = distances.sum(axis=1)[around] - near
            without /= max(distances.shape[1] - 1, 1)
            is_mutual = near <= distances[around, self.k - 1]
            local = np.where(is_mutual, without, self.means[around]).mean(axis=1)
            self.novelties = np.sort(self._relative(self.means, local))

    def __call__(self, X) -> np.ndarray:
        """Return the typicality of queries, between 1 / (n + 1) and 1."""
        found = np.empty(X.shape[0])
        k = max(self.k, 1)
        for block in row_blocks(len(found), 32 * k):
            distances, indices = self.rows.neighbors(X[block], k)
            local = self.means[indices].mean(axis=1)
            found[block] = self._relative(distances.mean(axis=1), local)
        # Equal up to rounding counts as equally far.
        below = np.searchsorted(self.novelties, found * (1.0 - 1e-12), side="left")
        return (len(self.novelties) - below + 1.0) / (len(self.novelties) + 1.0)

    def _relative(self, means: np.ndarray, local: np.ndarray) -> np.ndarray:
        usual = local + self.means.mean()
        return means / np.where(usual > 0.0, usual, 1.0)
