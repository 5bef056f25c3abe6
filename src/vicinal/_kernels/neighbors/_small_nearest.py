"""Exact Euclidean neighbours of few rows: all distances by differences, nothing to compile."""

import numpy as np
from scipy.spatial.distance import cdist

# Pairs and numbers up to which all distances take some hundredths of a second.
_MAX_PAIRS, _MAX_NUMBERS = 1e5, 5e6


def is_few(n_queries: int, n_rows: int, n_features: int) -> bool:
    """Tell whether distances of all pairs are quicker found than compiled code is loaded."""
    pairs = float(n_queries) * n_rows
    return pairs <= _MAX_PAIRS and pairs * n_features <= _MAX_NUMBERS


def _squares(Q, X, row_codes, query_codes) -> np.ndarray:
    """Return squared distances of all pairs, infinite where the codes are equal."""
    squares = cdist(Q, X, "sqeuclidean")
    squares[query_codes[:, None] == row_codes] = np.inf
    return squares


def few_nearest(Q, X, k: int, row_codes, query_codes) -> tuple[np.ndarray, np.ndarray]:
    """Return squared distances and row numbers of the ``k`` nearest, ties by row number."""
    squares = _squares(Q, X, row_codes, query_codes)
    order = np.argsort(squares, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(squares, order, axis=1), order


def few_within(Q, X, radii, row_codes, query_codes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return queries, rows and distances of all pairs within the radius of their query."""
    distances = np.sqrt(_squares(Q, X, row_codes, query_codes))
    inside = (distances <= radii[:, None]) & (query_codes[:, None] != row_codes)
    queries, rows = np.nonzero(inside)
    return queries, rows, distances[inside]
