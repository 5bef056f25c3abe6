"""Coordinates in which neighbours are searched and local models are fitted."""

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import get_tags

from vicinal._kernels._linear_maps import standard_scale, within_class_whitening

# Metrics of ours, realised as a change of coordinates; every other name goes to scikit-learn.
LEARNED_METRICS = ("standardized", "within_class")


class Coordinates:
    """A map from the columns given to coordinates with Euclidean distance.

    Parameters
    ----------
    matrix : ndarray of shape (n_features, n_coordinates) or (n_features,) or None
        Linear map (a vector scales the columns), applied to ``X - mean``; ``None`` changes nothing.
    mean : ndarray of shape (n_features,) or None
        Origin of the new coordinates.
    transformer : estimator or None
        Fitted transformer used instead of a matrix.
    """

    def __init__(self, matrix=None, mean=None, transformer=None):
        self.matrix = matrix
        self.mean = mean
        self.transformer = transformer

    def __call__(self, X):
        """Map rows; dense results are float64 and contiguous."""
        if self.transformer is not None:
            X = self.transformer.transform(X)
        if self.matrix is not None:
            X = self._apply(X)
        if sparse.issparse(X):
            return sparse.csr_matrix(X, dtype=np.float64)
        # Writeable, because a read-only array is another type to compiled code.
        return np.require(X, dtype=np.float64, requirements=["C", "W"])

    def _apply(self, X):
        if sparse.issparse(X):
            return X @ sparse.diags(self.matrix)
        centred = np.asarray(X, dtype=np.float64) - self.mean
        return centred * self.matrix if self.matrix.ndim == 1 else centred @ self.matrix

    def pull_back(self, slopes: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Return gradients with respect to the columns given, from those in coordinates."""
        if self.transformer is not None:
            return slopes @ self._jacobian(X).T
        if self.matrix is None:
            return slopes
        return slopes * self.matrix if self.matrix.ndim == 1 else slopes @ self.matrix.T

    def _jacobian(self, X) -> np.ndarray:
        """Return the matrix of an affine transformer, found by probing it; shape (d, p)."""
        origin = np.asarray(X[:1], dtype=np.float64)
        step = np.maximum(1.0, np.abs(origin).max())
        at_origin = self(origin)
        matrix = (self(origin + step * np.eye(origin.shape[1])) - at_origin) / step
        others = np.asarray(X, dtype=np.float64)
        predicted = at_origin + (others - origin) @ matrix
        actual = self(others)
        if not np.allclose(predicted, actual, rtol=1e-6, atol=1e-6 * max(1.0, np.ptp(actual))):
            raise ValueError(
                f"The metric {type(self.transformer).__name__} is not a linear map, so slopes in "
                "its coordinates have no counterpart in the columns of X; use a linear "
                "transformer or a named metric."
            )
        return matrix


def learn_coordinates(metric, X, codes, targets, sample_weight) -> Coordinates:
    """Learn the coordinates of a metric; metrics of scikit-learn leave the columns alone."""
    if hasattr(metric, "transform"):
        fitted = clone(metric).fit(X, targets)
        return Coordinates(transformer=fitted)
    if metric == "standardized":
        if sparse.issparse(X):
            return Coordinates(matrix=1.0 / _sparse_scale(X, sample_weight))
        mean, scale = standard_scale(np.asarray(X, dtype=np.float64), sample_weight)
        return Coordinates(matrix=1.0 / scale, mean=mean)
    if metric == "within_class":
        if sparse.issparse(X):
            raise ValueError(
                'metric="within_class" needs a dense X, because whitening fills every column; use '
                '"standardized" or "euclidean" for sparse input.'
            )
        if codes is None:
            raise ValueError(
                'metric="within_class" needs class labels; use "standardized" for regression.'
            )
        mean, matrix = within_class_whitening(np.asarray(X, np.float64), codes, sample_weight)
        return Coordinates(matrix=matrix, mean=mean)
    return Coordinates()


def search_metric(metric) -> str:
    """Return the name under which neighbours are searched in the new coordinates."""
    if hasattr(metric, "transform") or metric in LEARNED_METRICS:
        return "euclidean"
    return metric


def sees_labels(metric) -> bool:
    """Tell whether learning the metric uses y, so that leave-one-out alone would flatter it."""
    if hasattr(metric, "transform"):
        return get_tags(metric).target_tags.required
    return isinstance(metric, str) and metric == "within_class"


def _sparse_scale(X, sample_weight) -> np.ndarray:
    """Root mean square deviation of sparse columns, one where a column is constant."""
    weights = np.ones(X.shape[0]) if sample_weight is None else sample_weight
    share = weights / weights.sum()
    mean = np.asarray(X.T @ share).ravel()
    variance = np.asarray(X.multiply(X).T @ share).ravel() - mean**2
    return np.sqrt(np.where(variance > 1e-12 * np.maximum(1.0, mean**2), variance, 1.0))
