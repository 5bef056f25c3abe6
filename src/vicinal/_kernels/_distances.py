"""Exact distances of found neighbours, in a fixed order."""

import numpy as np

from vicinal._kernels._jit import fast_jit


@fast_jit
def refine_neighbors(X, Q, indices, distances):
    """Recompute Euclidean distances from coordinate differences and sort each row in place.

    Searches by matrix product round differently with the batch they work on; these distances do
    not, are exactly zero for duplicates, and ties are ordered by row number.
    """
    d = X.shape[1]
    for t in range(indices.shape[0]):
        for i in range(indices.shape[1]):
            row = indices[t, i]
            total = 0.0
            for a in range(d):
                difference = X[row, a] - Q[t, a]
                total += difference * difference
            value = np.sqrt(total)
            j = i
            while j > 0 and (
                distances[t, j - 1] > value
                or (distances[t, j - 1] == value and indices[t, j - 1] > row)
            ):
                distances[t, j] = distances[t, j - 1]
                indices[t, j] = indices[t, j - 1]
                j -= 1
            distances[t, j] = value
            indices[t, j] = row


@fast_jit
def euclidean_rows(X, Q, out):
    """Write all distances between queries and rows, from coordinate differences."""
    for t in range(Q.shape[0]):
        for i in range(X.shape[0]):
            total = 0.0
            for a in range(X.shape[1]):
                difference = X[i, a] - Q[t, a]
                total += difference * difference
            out[t, i] = np.sqrt(total)
