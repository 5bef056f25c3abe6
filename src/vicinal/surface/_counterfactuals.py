"""Least changes that flip predictions."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Counterfactuals:
    """Rows changed as little as possible, as :class:`DecisionSurface` returns them.

    Attributes
    ----------
    rows : ndarray of shape (n_rows, n_features)
        The rows asked about.
    points : ndarray of shape (n_rows, n_features)
        The changed rows; unchanged where nothing was found.
    labels : ndarray of shape (n_rows,)
        Labels predicted for the points.
    found : ndarray of bool of shape (n_rows,)
        Whether a point with a label asked for was found; each was predicted again.
    distances : ndarray of shape (n_rows,)
        Distance from row to point in the metric asked for; infinite where nothing was found.
    status : ndarray of int of shape (n_rows,)
        Values of :class:`SurfaceStatus`.
    feature_names : list of str
        Names of the columns.
    """

    rows: np.ndarray
    points: np.ndarray
    labels: np.ndarray
    found: np.ndarray
    distances: np.ndarray
    status: np.ndarray
    feature_names: list

    @property
    def changes(self) -> np.ndarray:
        """What to add to each row."""
        return self.points - self.rows

    @property
    def n_changed(self) -> np.ndarray:
        """Number of columns that change."""
        return (self.points != self.rows).sum(axis=1)
