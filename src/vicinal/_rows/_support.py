"""Whether anything like a row has been seen."""

import numpy as np

from vicinal._base import row_blocks
from vicinal._rows._place import Place

_NEIGHBOR = 10


class Support:
    """The share of training rows that stand as far from the others as a query does.

    The distance to the k-th neighbour, of training rows without themselves, ranks the query among
    them: a p-value, uniform on rows exchangeable with the training rows, near 0 far away.

    Parameters
    ----------
    place : Place
        Training rows in their coordinates.

    Attributes
    ----------
    distances : ndarray of shape (n_samples,)
        Distance of every training row to its k-th neighbour, sorted.
    """

    def __init__(self, place: Place):
        self.place = place
        self.k = min(_NEIGHBOR, place.n_samples - 1)
        distances = np.zeros(place.n_samples)
        if self.k > 0:
            rows = np.arange(place.n_samples)
            for block in row_blocks(len(rows), 32 * self.k):
                distances[block] = place.neighbors_of_training(rows[block], self.k)[0][:, -1]
        self.distances = np.sort(distances)

    def __call__(self, X) -> np.ndarray:
        """Return the support of queries, between 1 / (n + 1) and 1."""
        n = X.shape[0]
        distances = np.empty(n)
        for block in row_blocks(n, 32 * max(self.k, 1)):
            distances[block] = self.place.neighbors(X[block], max(self.k, 1))[0][:, -1]
        # Equal up to rounding counts as equally far.
        below = np.searchsorted(self.distances, distances * (1.0 - 1e-12), side="left")
        return (len(self.distances) - below + 1.0) / (len(self.distances) + 1.0)
