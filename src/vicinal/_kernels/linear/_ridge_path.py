"""Ridge regression for many penalties, its leave-one-out residuals and its evidence."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import linalg
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


_LOG_2PI = np.log(2.0 * np.pi)


@dataclass(frozen=True)
class RidgeSummary:
    """What :func:`ridge_summary` finds out."""

    leave_one_out: np.ndarray
    fitted: np.ndarray
    effective_parameters: float


def _centre(X, y, weight, fit_intercept):
    if not fit_intercept:
        return X, y, np.zeros(X.shape[1]), 0.0
    share = weight / weight.sum()
    x_mean, y_mean = share @ X, float(share @ y)
    return X - x_mean, y - y_mean, x_mean, y_mean


def ridge_summary(
    X: np.ndarray, y: np.ndarray, weight: np.ndarray, alpha: float, *, fit_intercept: bool
) -> RidgeSummary:
    """Fitted values, leave-one-out predictions (equation 23) and effective parameters of ridge.

    A row of weight ``w`` stands for ``w`` rows, of which one is left out (the whole row where
    ``w < 1``); the intercept is not penalised. ``alpha = 0`` is least squares.
    """
    Xc, yc, _, y_mean = _centre(X, y, weight, fit_intercept)
    root = np.sqrt(weight)[:, None]
    U, s, Vt = linalg.svd(root * Xc, full_matrices=False)
    keep = s > s.max(initial=0.0) * max(Xc.shape) * np.finfo(float).eps
    U, s, Vt = U[:, keep], s[keep], Vt[keep]
    coef = Vt.T @ (s / (s**2 + alpha) * (U.T @ (root[:, 0] * yc)))
    fitted = Xc @ coef + y_mean
    leverage = ((Xc @ Vt.T) ** 2 / (s**2 + alpha)).sum(axis=1)
    if fit_intercept:
        leverage = leverage + 1.0 / weight.sum()
    removed = np.minimum(weight, 1.0) * leverage
    # A leverage of one means the row alone fixes a coefficient: its prediction without it is free.
    left = np.maximum(1.0 - removed, 1e-10)
    return RidgeSummary(
        leave_one_out=y - (y - fitted) / left,
        fitted=fitted,
        effective_parameters=float((s**2 / (s**2 + alpha)).sum()) + float(fit_intercept),
    )


def ridge_log_evidence(
    X: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    alpha: float,
    *,
    fit_intercept: bool,
    noise_variance: float | None = None,
) -> float:
    """Log density of ``y`` under ``N(0, s2 I + X X' s2 / alpha)``, the prior that ridge implies.

    ``alpha`` is ridge's penalty, so the coefficients have prior variance ``s2 / alpha``. Without
    ``noise_variance`` the noise ``s2`` takes its most likely value. An intercept has a flat prior,
    the same for every model, and is integrated out. A row of weight ``w`` stands for ``w`` rows.
    """
    Xc, yc, _, _ = _centre(X, y, weight, fit_intercept)
    n = weight.sum() - float(fit_intercept)
    A = Xc.T @ (weight[:, None] * Xc) / alpha
    A[np.diag_indices_from(A)] += 1.0
    factor = linalg.cho_factor(A, lower=True)
    moment = Xc.T @ (weight * yc)
    # Woodbury: y'(I + XX'/alpha)^-1 y = y'y - y'X A^-1 X'y / alpha, and one determinant for both.
    quadratic = weight @ yc**2 - moment @ linalg.cho_solve(factor, moment) / alpha
    log_determinant = 2.0 * np.log(np.diag(factor[0])).sum()
    variance = quadratic / n if noise_variance is None else noise_variance
    result = n * (_LOG_2PI + np.log(variance)) + log_determinant + quadratic / variance
    if fit_intercept:
        result += np.log(weight.sum())
    return float(-0.5 * result)
