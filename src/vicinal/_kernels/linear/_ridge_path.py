"""Global ridge regression at several penalties from one scatter matrix."""

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

# Without a penalty columns that repeat one another have no solution.
_LEAST_ALPHA = 1e-10


class RidgePath(NamedTuple):
    """Linear fits ``level + (Z - centre) @ coef[a].T`` for each penalty."""

    centre: np.ndarray
    level: np.ndarray
    coef: np.ndarray

    def predict(self, Z: np.ndarray) -> np.ndarray:
        """Return the fits at rows, shape (n_alphas, n_rows, n_outputs)."""
        return self.level + (Z - self.centre) @ self.coef.transpose(0, 2, 1)


def ridge_path(Z: np.ndarray, Y: np.ndarray, weights: np.ndarray | None, alphas) -> RidgePath:
    """Fit with a free intercept and the penalty ``alpha tr(V) / d``, V the scatter of the rows."""
    share = np.ones(len(Z)) if weights is None else weights
    centre = share @ Z / share.sum()
    level = share @ Y / share.sum()
    root = np.sqrt(share)[:, None]
    A = root * (Z - centre)
    return path_of_sums(centre, level, A.T @ A, A.T @ (root * (Y - level)), alphas)


def path_of_sums(centre, level, scatter: np.ndarray, products: np.ndarray, alphas) -> RidgePath:
    """Fit from the means of rows and targets, the scatter V and sum_i w_i (z_i - centre) y_i'."""
    d = len(scatter)
    unit = np.trace(scatter) / d
    coef = []
    for alpha in alphas:
        # A factor of each sum costs a tenth of the eigenvectors that they have in common.
        penalised = scatter.copy()
        penalised.flat[:: d + 1] += max(max(alpha, _LEAST_ALPHA) * unit, np.finfo(float).tiny)
        factor = cho_factor(penalised, overwrite_a=True, check_finite=False)
        coef.append(cho_solve(factor, products, check_finite=False).T)
    return RidgePath(centre, level, np.stack(coef))
