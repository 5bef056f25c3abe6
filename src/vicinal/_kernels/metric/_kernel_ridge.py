r"""Kernel ridge with a free intercept, its exact leave-one-out answers, and its slopes.

With the kernel matrix K, weights W and penalty a, the dual coefficients solve
``(K + a W^-1) c + 1 b = y`` under ``1'c = 0``, so ``c = P y`` with ``P = G - G11'G / 1'G1`` and
``G = (K + a W^-1)^-1``. One eigendecomposition of ``W^(1/2) K W^(1/2)`` serves every penalty.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from scipy.spatial.distance import cdist


@dataclass(frozen=True)
class KernelRidgePath:
    """What kernel ridge says of its own rows for each of several penalties.

    Attributes
    ----------
    errors : ndarray of shape (n_alphas,)
        Weighted mean of the squared leave-one-out residuals, summed over outputs.
    dual_coef : ndarray of shape (n_samples, n_outputs)
        Coefficients of the penalty of least error.
    intercept : ndarray of shape (n_outputs,)
        Its intercept.
    left_out : ndarray of shape (n_samples, n_outputs)
        Its answer to every row without that row.
    best : int
        Index of that penalty.
    """

    errors: np.ndarray
    dual_coef: np.ndarray
    intercept: np.ndarray
    left_out: np.ndarray
    best: int


def kernel_values(distances: np.ndarray, scale: float, kernel: str) -> np.ndarray:
    """Return exp(-D / scale) (Laplace) or exp(-D^2 / (2 scale^2)) (Gaussian)."""
    ratio = distances / scale
    return np.exp(-ratio) if kernel == "laplace" else np.exp(-0.5 * ratio * ratio)


def ridge_path(
    K: np.ndarray, Y: np.ndarray, weights: np.ndarray, copies: np.ndarray, alphas: np.ndarray
) -> KernelRidgePath:
    """Solve kernel ridge for every penalty and keep the one of least leave-one-out error.

    A row stands for ``copies`` equal ones (at least one), which share its weight and of which one
    is left out.
    """
    root = np.sqrt(weights)
    values, vectors = eigh(root[:, None] * K * root, check_finite=False, driver="evd")
    values = np.maximum(values, 0.0)
    vectors = root[:, None] * vectors
    sums, projected = vectors.sum(axis=0), vectors.T @ Y
    squares = vectors * vectors
    errors = np.empty(len(alphas))
    kept: tuple | None = None
    for i, alpha in enumerate(alphas):
        shrunk = 1.0 / (values + alpha)
        G1 = vectors @ (shrunk * sums)
        total = sums @ (shrunk * sums)
        intercept = (shrunk * sums) @ projected / total
        coef = vectors @ (shrunk[:, None] * projected) - G1[:, None] * intercept
        residuals = alpha * coef / weights[:, None]
        # alpha P_ii / w_i = 1 - h_i with the leverage h_i of all copies of the row.
        free = alpha * (squares @ shrunk - G1 * G1 / total) / weights
        stay = 1.0 - (1.0 - free) / copies
        left_out = residuals / np.maximum(stay, np.finfo(float).eps)[:, None]
        errors[i] = weights @ (left_out**2).sum(axis=1) / weights.sum()
        if kept is None or errors[i] < errors[kept[0]]:
            kept = i, coef, intercept, Y - left_out
    assert kept is not None  # there is at least one penalty
    best, coef, intercept, answers = kept
    return KernelRidgePath(errors, coef, intercept, answers, best)


def ridge_slopes(
    Q: np.ndarray, Z: np.ndarray, dual_coef: np.ndarray, scale: float, kernel: str
) -> np.ndarray:
    """Return the gradient of every output at every query: (n_queries, n_outputs, n_features).

    The Laplace kernel has a kink at its own row, where the mean of its slopes, zero, is taken.
    """
    distances = cdist(Q, Z)
    S = kernel_values(distances, scale, kernel)
    if kernel == "laplace":
        S = np.divide(S, distances, out=np.zeros_like(S), where=distances > 1e-9 * scale) / scale
    else:
        S = S / scale**2
    pulls = [S @ (coef[:, None] * Z) for coef in dual_coef.T]
    return np.stack(pulls, axis=1) - (S @ dual_coef)[:, :, None] * Q[:, None, :]


def gradient_map(product: np.ndarray, *, diagonal: bool) -> np.ndarray:
    """Return the root of a mean outer product or of its diagonal; the unit if all is zero."""
    values, vectors = np.linalg.eigh(np.diag(np.diag(product)) if diagonal else product)
    if not values[-1] > 0.0:
        return np.eye(len(values))
    # Rounding errors have visible roots.
    values = np.where(values > 1e-12 * values[-1], values / values[-1], 0.0)
    return (vectors * np.sqrt(values)) @ vectors.T
