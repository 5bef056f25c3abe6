"""Points of a decision surface found for rows."""

from dataclasses import dataclass

import numpy as np

from vicinal._kernels.surface._roots import CONVERGED, ON_SURFACE


@dataclass(frozen=True)
class SurfaceProjection:
    """Points of a decision surface, one per row, as :class:`DecisionSurface` returns them.

    Attributes
    ----------
    points : ndarray of shape (n_rows, n_features)
        Points on the surface; the row itself where none was found.
    distances : ndarray of shape (n_rows,)
        Signed distance from row to point in the metric of the surface; infinite where none was
        found. Two classes: positive where the second one is predicted. More: positive.
    normals : ndarray of shape (n_rows, n_features)
        Unit normals of the surface at the points, towards the positive side; zero where unknown.
    status : ndarray of int of shape (n_rows,)
        Values of :class:`SurfaceStatus`.
    extrapolated : ndarray of bool of shape (n_rows,)
        Whether the point lies outside the box of the rows given to ``fit``.
    n_evaluations : ndarray of int of shape (n_rows,)
        Evaluations of the classifier (one gradient counts as one).
    """

    points: np.ndarray
    distances: np.ndarray
    normals: np.ndarray
    status: np.ndarray
    extrapolated: np.ndarray
    n_evaluations: np.ndarray

    @property
    def converged(self) -> np.ndarray:
        """Rows whose search ended as it should."""
        return np.isin(self.status, (CONVERGED, ON_SURFACE))
