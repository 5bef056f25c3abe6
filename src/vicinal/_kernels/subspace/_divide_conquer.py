r"""Divide and conquer for support vector machines: the dual without bias.

.. math:: \min_{0 \le \alpha \le u} f(\alpha) = \tfrac12 \alpha^\top Q \alpha - e^\top \alpha,
          \qquad Q_{ij} = y_i y_j \exp(-\gamma |x_i - x_j|^2)
"""

import numpy as np
from scipy.spatial.distance import cdist

from vicinal._base import row_blocks
from vicinal._kernels._jit import fast_jit


@fast_jit
def descend_dual(X, y, upper, gamma, alpha, gradient, tol, max_steps, cache_rows):
    """Descend from ``alpha``, in place, until no projected gradient exceeds ``tol``.

    Each step moves the coordinate of the largest projected gradient to its own minimum (all
    :math:`Q_{ii} = 1`). Kernel rows are kept, ``cache_rows`` of them, the oldest leaving first:
    a few support vectors take most of the steps.

    ``gradient`` must be ``Q alpha - 1`` on entry, and is on return. Returns the number of steps
    and the largest projected gradient left.
    """
    n_samples, n_features = X.shape
    squares = np.empty(n_samples)
    for i in range(n_samples):
        total = 0.0
        for f in range(n_features):
            total += X[i, f] * X[i, f]
        squares[i] = total
    cache = np.empty((cache_rows, n_samples))
    slot_of = np.full(n_samples, -1)
    owner = np.full(cache_rows, -1)
    next_slot = 0
    chosen, worst = _worst_coordinate(alpha, gradient, upper)
    steps = 0
    while worst > tol and steps < max_steps:
        slot = slot_of[chosen]
        if slot < 0:
            slot = next_slot
            next_slot = (next_slot + 1) % cache_rows
            if owner[slot] >= 0:
                slot_of[owner[slot]] = -1
            owner[slot] = chosen
            slot_of[chosen] = slot
            for j in range(n_samples):
                product = 0.0
                for f in range(n_features):
                    product += X[chosen, f] * X[j, f]
                distance = max(squares[chosen] + squares[j] - 2.0 * product, 0.0)
                cache[slot, j] = np.exp(-gamma * distance)
        moved = min(max(alpha[chosen] - gradient[chosen], 0.0), upper[chosen])
        change = (moved - alpha[chosen]) * y[chosen]
        alpha[chosen] = moved
        row = cache[slot]
        for j in range(n_samples):
            gradient[j] += change * y[j] * row[j]
        chosen, worst = _worst_coordinate(alpha, gradient, upper)
        steps += 1
    return steps, worst


@fast_jit
def _worst_coordinate(alpha, gradient, upper):
    """Index and size of the largest projected gradient."""
    chosen, worst = 0, 0.0
    for i in range(len(alpha)):
        g = gradient[i]
        if g < 0.0:
            size = -g if alpha[i] < upper[i] else 0.0
        else:
            size = g if alpha[i] > 0.0 else 0.0
        if size > worst:
            chosen, worst = i, size
    return chosen, worst


def rbf_product(X: np.ndarray, centers: np.ndarray, gamma: float, coef: np.ndarray) -> np.ndarray:
    """Return ``K(X, centers) @ coef``, blocks of rows at a time."""
    out = np.zeros((X.shape[0], *coef.shape[1:]))
    if not len(centers):
        return out
    for rows in row_blocks(X.shape[0], 16 * len(centers)):
        K = cdist(X[rows], centers, "sqeuclidean")
        np.multiply(K, -gamma, out=K)
        out[rows] = np.exp(K, out=K) @ coef
    return out


def dual_gradient(X: np.ndarray, y: np.ndarray, alpha: np.ndarray, gamma: float) -> np.ndarray:
    """Return ``Q alpha - 1``."""
    support = alpha > 0.0
    return y * rbf_product(X, X[support], gamma, (alpha * y)[support]) - 1.0


def dual_objective(alpha: np.ndarray, gradient: np.ndarray) -> float:
    """Return the dual value from a point and its gradient."""
    return float(0.5 * alpha @ (gradient - 1.0))


def cache_rows_for(n_samples: int, cache_size: float) -> int:
    """Return how many kernel rows fit in ``cache_size`` MiB, at least two."""
    return int(np.clip(cache_size * 2**20 // (8 * n_samples), 2, n_samples))
