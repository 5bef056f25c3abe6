"""Coordinates in which the distance to a surface is measured."""

import copy

import numpy as np

from vicinal._kernels.linear._covariance import standard_scale

METRICS = ("euclidean", "standardized", "mad", "mahalanobis")


def metric_matrix(metric, X: np.ndarray) -> np.ndarray:
    """Return what multiplies the columns: a vector, or M of ``(x - z)' M (x - z)``.

    A vector holds factors on the columns; a matrix is symmetric and positive definite.
    """
    d = X.shape[1]
    if metric is None or (isinstance(metric, str) and metric == "euclidean"):
        return np.ones(d)
    if isinstance(metric, str):
        _, scale = standard_scale(X, None)
        if metric == "standardized":
            return 1.0 / scale
        if metric == "mad":
            # 1.4826 makes it the standard deviation of normal columns; a column that is mostly one
            # value has none and takes its standard deviation.
            mad = 1.4826 * np.median(np.abs(X - np.median(X, axis=0)), axis=0)
            return 1.0 / np.where(mad > 0.0, mad, scale)
        if metric == "mahalanobis":
            return _inverse_covariance(X, scale)
        raise ValueError(f"metric={metric!r} is not one of {list(METRICS)} or an array.")
    matrix = np.asarray(metric, dtype=np.float64)
    if matrix.shape == (d,) and np.all(np.isfinite(matrix)) and matrix.min() > 0.0:
        return np.sqrt(matrix)
    if matrix.shape == (d, d) and np.allclose(matrix, matrix.T):
        if np.linalg.eigvalsh(matrix).min() > 0.0:
            return matrix
    raise ValueError(
        f"metric of shape {matrix.shape} must hold {d} positive weights, or a symmetric positive "
        f"definite matrix of shape {(d, d)}."
    )


def _inverse_covariance(X, scale) -> np.ndarray:
    Z = X / scale
    covariance = np.atleast_2d(np.cov(Z, rowvar=False, bias=True))
    # A little of the identity keeps dependent columns from becoming free of cost.
    covariance = covariance + 1e-6 * np.eye(len(covariance))
    return np.linalg.inv(covariance) / np.outer(scale, scale)


class Chart:
    """The free columns of some queries in coordinates with Euclidean distance.

    Parameters
    ----------
    base : ndarray of shape (n_queries, n_features)
        Queries in their own columns; columns that are not free keep these values.
    weights : ndarray of shape (n_features,) or (n_features, n_features)
        What ``metric_matrix`` returned.
    free : ndarray of bool of shape (n_features,)
        Columns that may change.
    """

    def __init__(self, base, weights, free):
        self.base = base
        self.free = free
        self.all_free = bool(free.all())
        if weights.ndim == 1:
            self.forward = weights[free]
            self.backward = 1.0 / self.forward
        else:
            self.forward = np.linalg.cholesky(weights[np.ix_(free, free)])
            self.backward = np.linalg.inv(self.forward)
        self.is_diagonal = self.forward.ndim == 1

    def take(self, rows) -> "Chart":
        """Return the chart of some queries."""
        part = copy.copy(self)
        part.base = self.base[rows]
        return part

    def coordinates(self, X) -> np.ndarray:
        """Return the coordinates of rows."""
        X = X if self.all_free else X[:, self.free]
        return X * self.forward if self.is_diagonal else X @ self.forward

    def columns(self, Z, rows) -> np.ndarray:
        """Return the rows at coordinates ``Z`` of the queries ``rows``."""
        values = Z * self.backward if self.is_diagonal else Z @ self.backward
        if self.all_free:
            return values
        X = self.base[rows].copy()
        X[:, self.free] = values
        return X

    def gradients(self, G) -> np.ndarray:
        """Return gradients with respect to coordinates, from those with respect to columns."""
        G = G if self.all_free else G[..., self.free]
        return G * self.backward if self.is_diagonal else G @ self.backward.T

    def covectors(self, G) -> np.ndarray:
        """Return gradients with respect to columns, from those with respect to coordinates."""
        values = G * self.forward if self.is_diagonal else G @ self.forward.T
        if self.all_free:
            return values
        full = np.zeros((len(G), len(self.free)))
        full[:, self.free] = values
        return full
