"""Columns bent to normal scores before distances are taken."""

import numpy as np

from vicinal._base import saved
from vicinal._kernels.local._normal_scores import normal_score_knots, score_slopes


@saved()
class NormalScores:
    """Piecewise linear map of every column to normal scores of variance one."""

    def __init__(self, X: np.ndarray, sample_weight: np.ndarray | None):
        self.knots = [normal_score_knots(column, sample_weight) for column in X.T]

    def transform(self, X) -> np.ndarray:
        """Map rows; values beyond those seen take the scores of the extremes."""
        X = np.asarray(X, dtype=np.float64)
        out = np.empty(X.shape)
        for j, (values, scores) in enumerate(self.knots):
            out[:, j] = np.interp(X[:, j], values, scores)
        return out

    def derivative(self, X) -> np.ndarray:
        """Return the slope of each column's map at each row."""
        X = np.asarray(X, dtype=np.float64)
        columns = [score_slopes(X[:, j], *knots) for j, knots in enumerate(self.knots)]
        return np.stack(columns, axis=1)
