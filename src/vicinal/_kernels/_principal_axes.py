"""Whitening by principal axes, for rows of any array library."""

from typing import Any

import array_api_compat as compat
import numpy as np

from vicinal._base import as_numpy


def whitening_map(X: Any, weights: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the weighted mean and the rows of a map to unit covariance: (m,), (rank, m).

    Directions without variance are dropped. The map is on the host in float64: its size is that of
    the features, not of the data.
    """
    xp = compat.array_namespace(X)
    total = xp.sum(weights)
    mean = xp.sum(X * weights[:, None], axis=0) / total
    centred = X - mean[None, :]
    covariance = as_numpy((centred * (weights / total)[:, None]).T @ centred).astype(np.float64)
    values, vectors = np.linalg.eigh(covariance)
    values, vectors = values[::-1], vectors[:, ::-1]
    precision = float(xp.finfo(X.dtype).eps)
    kept = values > max(X.shape) * precision * max(values[0], np.finfo(np.float64).tiny)
    axes = vectors[:, kept].T
    # Each axis points where its largest entry is positive: the sign of an eigenvector is arbitrary.
    axes *= np.sign(axes[np.arange(len(axes)), np.abs(axes).argmax(axis=1)])[:, None]
    return as_numpy(mean).astype(np.float64), axes / np.sqrt(values[kept])[:, None]
