"""Coordinates in which neighbours are searched and local models are fitted."""

import numpy as np
from scipy import sparse

from vicinal._base import saved


@saved()
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
    warp : NormalScores or None
        Bend the columns first, before the linear map.
    """

    def __init__(self, matrix=None, mean=None, transformer=None, warp=None):
        self.matrix = matrix
        self.mean = mean
        self.transformer = transformer
        self.warp = warp

    def __call__(self, X):
        """Map rows; dense results are float64 and contiguous."""
        if self.transformer is not None:
            X = self.transformer.transform(X)
        if self.warp is not None:
            X = self.warp.transform(X)
        if self.matrix is not None:
            X = self._apply(X)
        if sparse.issparse(X):
            return sparse.csr_matrix(X, dtype=np.float64)
        # Writeable, because a read-only array is another type to compiled code.
        return np.require(X, dtype=np.float64, requirements=["C", "W"])

    def _apply(self, X):
        if sparse.issparse(X):
            return X @ sparse.diags(self.matrix)
        centred = np.asarray(X, dtype=np.float64)
        if self.mean is not None:  # sparse training rows were scaled only
            centred = centred - self.mean
        return centred * self.matrix if self.matrix.ndim == 1 else centred @ self.matrix

    def pull_back(self, slopes: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Return gradients with respect to the columns given, from those in coordinates."""
        if self.transformer is not None:
            return slopes @ self._jacobian(X).T
        if self.matrix is not None:
            slopes = slopes * self.matrix if self.matrix.ndim == 1 else slopes @ self.matrix.T
        return slopes if self.warp is None else slopes * self.warp.derivative(X)[:, None, :]

    def followed_by(self, matrix: np.ndarray, mean: np.ndarray | None = None) -> "Coordinates":
        """Return these coordinates, then ``(Z - mean) @ matrix``; not for transformers."""
        if self.matrix is None:
            origin = np.zeros(len(matrix)) if mean is None else mean
            return Coordinates(matrix, origin, warp=self.warp)
        first = np.diag(self.matrix) if self.matrix.ndim == 1 else self.matrix
        shifted = self.mean
        if mean is not None:
            # The new origin, carried back to the columns of the first map.
            shifted = self.mean + np.linalg.lstsq(first.T, mean, rcond=None)[0]
        return Coordinates(first @ matrix, shifted, warp=self.warp)

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


@saved()
class QuadraticCoordinates:
    """Other coordinates, then their squares and products beside them.

    Parameters
    ----------
    first : Coordinates
        Coordinates z of the columns given.
    n_coordinates : int
        Their number.
    """

    def __init__(self, first: Coordinates, n_coordinates: int):
        self.first = first
        self.n_coordinates = n_coordinates

    def __call__(self, X) -> np.ndarray:
        """Map rows to z and all z_i z_j, i <= j."""
        Z = self.first(X)
        left, right = np.triu_indices(self.n_coordinates)
        return np.hstack([Z, Z[:, left] * Z[:, right]])

    def pull_back(self, slopes: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Return gradients with respect to the columns given, from those in coordinates."""
        d = self.n_coordinates
        Z = self.first(X)
        left, right = np.triu_indices(d)
        products = np.zeros((*slopes.shape[:2], d, d))
        products[:, :, left, right] = slopes[:, :, d:]
        products += products.transpose(0, 1, 3, 2)  # a square has its own slope twice
        inner = slopes[:, :, :d] + np.einsum("qcij,qj->qci", products, Z)
        return self.first.pull_back(inner, X)
