"""Exact Euclidean neighbours of few rows: all distances by differences, nothing to compile."""

import numpy as np
from scipy.spatial.distance import cdist


def squared_distances(Q, X, row_codes, query_codes) -> np.ndarray:
    """Return squared distances of all pairs, infinite where the codes are equal."""
    squares = cdist(Q, X, "sqeuclidean")
    squares[query_codes[:, None] == row_codes] = np.inf
    return squares


def few_nearest(squares: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Return squared distances and row numbers of the ``k`` nearest, ties by row number."""
    order = np.argsort(squares, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(squares, order, axis=1), order


def few_within(squares: np.ndarray, radii) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return queries, rows and distances of all pairs within the radius of their query."""
    distances = np.sqrt(squares)
    inside = (distances <= radii[:, None]) & (squares < np.inf)
    queries, rows = np.nonzero(inside)
    return queries, rows, distances[inside]
