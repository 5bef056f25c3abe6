"""Sums over the neighbourhoods of queries, given as compressed rows."""

import numpy as np
from scipy import sparse


def smooth_targets(indptr, indices, smoother, Y) -> np.ndarray:
    """Return sum_i l_i(q) Y_i of every query, shape (n_queries, n_outputs).

    Of several smoothers (n_smoothers, nnz) one below another: the pattern is read once.
    """
    shape = (len(indptr) - 1, len(Y))
    matrix = sparse.csr_matrix((np.empty(len(indices)), indices, indptr), shape=shape)

    def sums(values) -> np.ndarray:
        matrix.data = values
        return matrix @ Y

    return sums(smoother) if smoother.ndim == 1 else np.stack([sums(one) for one in smoother])


def smooth_classes(indptr, indices, smoother, codes, n_classes: int) -> np.ndarray:
    """Return sum_i l_i(q) 1{y_i = c}, the fit to indicator columns, without forming them."""
    n_queries = len(indptr) - 1
    place = np.repeat(np.arange(n_queries) * n_classes, np.diff(indptr)) + codes[indices]
    sums = np.bincount(place, smoother, minlength=n_queries * n_classes)
    return sums.reshape(n_queries, n_classes)


def is_pure(indptr, indices, codes) -> np.ndarray:
    """Mark the queries whose neighbours all belong to one class: their answer needs no fit."""
    differs = np.diff(codes[indices], prepend=0) != 0
    differs[indptr[:-1][indptr[:-1] < len(indices)]] = False  # no neighbour stands before the first
    changes = np.concatenate([[0], np.cumsum(differs)])
    return changes[indptr[1:]] == changes[indptr[:-1]]
