r"""Divide and conquer for kernel machines: the dual without bias, and clusters in feature space.

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


def _rbf(X, Z, gamma):
    return np.exp(-gamma * cdist(X, Z, "sqeuclidean"))


def _indicators(labels, weights, n_clusters):
    """Return one column per cluster, summing to one over its rows."""
    H = np.zeros((len(labels), n_clusters))
    H[np.arange(len(labels)), labels] = weights
    return H / np.maximum(H.sum(axis=0), 1e-300)


def kernel_kmeans(
    X: np.ndarray,
    weights: np.ndarray,
    n_clusters: int,
    gamma: float,
    seeds: np.ndarray,
    *,
    max_iter: int = 50,
) -> np.ndarray:
    r"""Label the rows by Lloyd iterations in the feature space; ``seeds`` are starting rows.

    The squared distance of a row to a cluster ``c`` is
    :math:`1 - 2 \sum_{j \in c} h_j K(x, x_j) + \sum_{j, l \in c} h_j h_l K(x_j, x_l)`, with
    :math:`h` the weights normalised within the cluster. An emptied cluster stays empty.
    """
    K = _rbf(X, X, gamma)
    labels = K[:, seeds].argmax(axis=1)
    for _ in range(max_iter):
        H = _indicators(labels, weights, n_clusters)
        KH = K @ H
        spread = (H * KH).sum(axis=0)
        distance = np.where(H.any(axis=0), spread - 2.0 * KH, np.inf)
        new = distance.argmin(axis=1)
        if np.array_equal(new, labels):
            break
        labels = new
    return labels


def landmark_model(landmarks: np.ndarray, weights: np.ndarray, labels: np.ndarray, gamma: float):
    """Return (H, spread), what ``assign_by_landmarks`` needs; labels must be 0..k-1."""
    H = _indicators(labels, weights, int(labels.max()) + 1)
    return H, (H * (_rbf(landmarks, landmarks, gamma) @ H)).sum(axis=0)


def assign_by_landmarks(
    X: np.ndarray, landmarks: np.ndarray, H: np.ndarray, spread: np.ndarray, gamma: float
) -> np.ndarray:
    """Return the nearest cluster of every row in the feature space."""
    labels = np.empty(X.shape[0], dtype=np.intp)
    for rows in row_blocks(X.shape[0], 24 * len(landmarks)):
        labels[rows] = (spread - 2.0 * _rbf(X[rows], landmarks, gamma) @ H).argmin(axis=1)
    return labels
