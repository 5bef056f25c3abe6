"""Fisher's criterion on features gated by responsibilities: locally linear discriminants."""

from typing import Any

import array_api_compat as compat
import numpy as np
from scipy.linalg import eigh

from vicinal._base import as_numpy, row_blocks


def gated_features(X: Any, shares: Any, centers: Any, *, offset: bool) -> Any:
    """``[r_k(x) (x - m_k)]_k``, and ``[r_k(x)]_k`` after it with ``offset``.

    ``X`` (n, m), ``shares`` (n, K), ``centers`` (K, m) -> (n, K m) or (n, K m + K).
    """
    xp = compat.array_namespace(X)
    n_rows, n_features = X.shape
    moved = shares[:, :, None] * (X[:, None, :] - centers[None, :, :])
    flat = xp.reshape(moved, (n_rows, centers.shape[0] * n_features))
    return xp.concat([flat, shares], axis=1) if offset else flat


def class_scatters(
    X: Any,
    shares: Any,
    centers: Any,
    members: Any,
    *,
    offset: bool,
) -> tuple[np.ndarray, np.ndarray]:
    """Within- and between-class covariance of the gated features, on the host.

    ``members`` (n, C) holds the weight of each row in the column of its class.
    """
    xp = compat.array_namespace(X)
    width = centers.shape[0] * (X.shape[1] + bool(offset))
    blocks = list(row_blocks(X.shape[0], 8 * (3 * width + members.shape[1])))

    def features(block):
        return gated_features(X[block, :], shares[block, :], centers, offset=offset)

    class_weights = xp.sum(members, axis=0)
    sums = sum(members[block, :].T @ features(block) for block in blocks)
    means = sums / class_weights[:, None]  # (C, width)
    within = np.zeros((width, width))
    for block in blocks:
        residual = features(block) - (xp.astype(members[block, :] > 0, members.dtype) @ means)
        weights = xp.sum(members[block, :], axis=1)
        within += as_numpy((residual * weights[:, None]).T @ residual).astype(np.float64)
    counts = as_numpy(class_weights).astype(np.float64)
    class_means = as_numpy(means).astype(np.float64)
    total = counts.sum()
    spread = class_means - counts @ class_means / total
    return within / total, (spread * (counts / total)[:, None]).T @ spread


def fisher_directions(
    within: np.ndarray, between: np.ndarray, n_directions: int, shrinkage: float
) -> tuple[np.ndarray, np.ndarray]:
    """Directions of greatest between- over within-class variance: (n_directions, width).

    The within-class covariance is shrunk towards a multiple of the identity. Directions have unit
    within-class variance; the ratios come beside them, falling.
    """
    width = len(within)
    scale = np.trace(within) / width
    regular = (1 - shrinkage) * within
    # Responsibilities sum to one, so with offsets one direction has no variance at all.
    regular[np.diag_indices(width)] += max(shrinkage, 1e-10) * (scale if scale > 0 else 1.0)
    values, vectors = eigh(between, regular, subset_by_index=[width - n_directions, width - 1])
    vectors = vectors[:, ::-1].T.copy()
    vectors *= np.sign(vectors[np.arange(n_directions), np.abs(vectors).argmax(axis=1)])[:, None]
    return vectors, np.maximum(values[::-1], 0.0).copy()
