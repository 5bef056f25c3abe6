"""Whether anything like a row has been seen."""

import numpy as np

from vicinal._base import row_blocks
from vicinal._rows._place import Place

_N_NEIGHBORS = 10


class Support:
    r"""The share of training rows that stand as far from the others as a query does.

    How far a row stands is its mean distance :math:`m` to the ten nearest rows, beside those of
    these rows and of the table,

    .. math:: t(x) = m(x) \Big/ \Big(\tfrac{1}{10} \sum_{j \in N(x)} m_j + \bar m\Big),

    so that a row counts as far where the rows around it stand close together, and the more so the
    farther it is from all. Training rows are left out of each :math:`m_j`, as a query is: its rank
    among them is a p-value, uniform on rows exchangeable with them, near 0 far away.

    Parameters
    ----------
    place : Place
        Training rows in their coordinates.

    Attributes
    ----------
    means : ndarray of shape (n_samples,)
        Mean distance of every training row to its neighbours.
    strangeness : ndarray of shape (n_samples,)
        How far every training row stands from the others, sorted.
    """

    def __init__(self, place: Place):
        self.place = place
        n = place.n_samples
        self.k = min(_N_NEIGHBORS, n - 1)
        self.means, self.strangeness = np.zeros(n), np.zeros(n)
        if self.k > 0:
            # One neighbour more takes the place of a row that is left out.
            distances, indices = self._neighbors_of_training(min(self.k + 1, n - 1))
            self.means = distances[:, : self.k].mean(axis=1)
            near, around = distances[:, : self.k], indices[:, : self.k]
            without = distances.sum(axis=1)[around] - near
            without /= max(distances.shape[1] - 1, 1)
            is_mutual = near <= distances[around, self.k - 1]
            local = np.where(is_mutual, without, self.means[around]).mean(axis=1)
            self.strangeness = np.sort(self._beside(self.means, local))

    def __call__(self, X) -> np.ndarray:
        """Return the support of queries, between 1 / (n + 1) and 1."""
        found = np.empty(X.shape[0])
        k = max(self.k, 1)
        for block in row_blocks(len(found), 32 * k):
            distances, indices = self.place.neighbors(X[block], k)
            local = self.means[indices].mean(axis=1)
            found[block] = self._beside(distances.mean(axis=1), local)
        # Equal up to rounding counts as equally far.
        below = np.searchsorted(self.strangeness, found * (1.0 - 1e-12), side="left")
        return (len(self.strangeness) - below + 1.0) / (len(self.strangeness) + 1.0)

    def _beside(self, means: np.ndarray, local: np.ndarray) -> np.ndarray:
        usual = local + self.means.mean()
        return means / np.where(usual > 0.0, usual, 1.0)

    def _neighbors_of_training(self, k: int) -> tuple[np.ndarray, np.ndarray]:
        rows = np.arange(self.place.n_samples)
        parts = [
            self.place.neighbors_of_training(rows[block], k)
            for block in row_blocks(len(rows), 32 * k)
        ]
        distances, indices = (np.concatenate(part) for part in zip(*parts, strict=True))
        return distances, indices
