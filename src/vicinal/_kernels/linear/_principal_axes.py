"""Coordinates in which a covariance is the identity, for rows of any array library."""

from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np
from scipy.linalg import eigh

from vicinal._base import as_numpy


class Covariances(NamedTuple):
    """Mean, scale and correlations of rows, on the host: of the features' size, not of the data's.

    ``total`` and ``within`` are covariances of the features divided by ``scale``, about the mean
    of all rows and about the mean of their class.
    """

    mean: np.ndarray  # (m,)
    scale: np.ndarray  # (m,)
    total: np.ndarray  # (m, m)
    within: np.ndarray  # (m, m)


def class_covariances(
    X: Any, codes: np.ndarray, weights: np.ndarray, n_classes: int
) -> Covariances:
    """Weighted covariances of rows in two passes, in double precision."""
    xp, device = compat.array_namespace(X), compat.device(X)
    tiny = float(xp.finfo(X.dtype).eps)
    X = xp.astype(X, xp.float64)
    members = np.zeros((len(codes), n_classes))
    members[np.arange(len(codes)), codes] = weights
    members = xp.asarray(members, dtype=X.dtype, device=device)
    shares = xp.sum(members, axis=1)
    mean = as_numpy(members.T @ X).astype(np.float64).sum(axis=0) / weights.sum()
    centred = X - xp.asarray(mean, dtype=X.dtype, device=device)[None, :]
    variance = as_numpy(shares @ (centred * centred)).astype(np.float64) / weights.sum()
    scale = np.where(variance > (tiny * np.abs(mean)) ** 2, np.sqrt(variance), np.inf)
    centred = centred / xp.asarray(scale, dtype=X.dtype, device=device)[None, :]
    total = as_numpy((centred * shares[:, None]).T @ centred).astype(np.float64) / weights.sum()
    sums = as_numpy(members.T @ centred).astype(np.float64)
    counts = np.maximum(np.bincount(codes, weights=weights, minlength=n_classes), 1e-300)
    between = (sums / counts[:, None]).T @ sums / weights.sum()
    return Covariances(mean, scale, total, total - between)


def whitening_map(
    found: Covariances, *, within: bool = False, shrinkage: float = 0.0, precision: float = 1e-15
) -> np.ndarray:
    """Rows of a map that takes a covariance to the identity: (rank, m).

    The covariance is that of the scaled features, total or within classes, with ``shrinkage``
    added to its diagonal; axes come in order of falling variance. Directions without variance are
    dropped. The Euclidean metric after the map does not depend on the units of the features.
    """
    values, vectors = np.linalg.eigh(found.total)
    kept = values > len(values) * precision * max(values[-1], 1e-300)
    basis = vectors[:, kept] / np.sqrt(values[kept])  # total covariance is the identity in it
    reference = found.within if within else found.total
    inner = basis.T @ (reference + shrinkage * np.eye(len(values))) @ basis
    # Classes without inner variance along some direction would make it infinitely important.
    inner[np.diag_indices(len(inner))] += 1e-6 * within
    spread, axes = eigh(inner)
    rows = (basis @ (axes / np.sqrt(spread))).T
    rows *= np.sign(rows[np.arange(len(rows)), np.abs(rows).argmax(axis=1)])[:, None]
    return rows / found.scale
