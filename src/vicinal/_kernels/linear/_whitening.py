"""Linear maps that turn a covariance into the identity, or columns to one scale."""

from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np
from scipy.linalg import eigh, lapack, solve_triangular

from vicinal._base import as_numpy, row_blocks
from vicinal._kernels.linear._lda import class_means, lda_statistics, within_covariance


class Whitening(NamedTuple):
    """``z = (x - mean) @ forward`` and ``x = z @ backward + mean``."""

    forward: np.ndarray  # (n_features, n_components)
    backward: np.ndarray  # (n_components, n_features)
    kept: np.ndarray  # columns (cholesky) or directions (pca, zca) that vary on their own


def independent_cholesky(covariance: np.ndarray, tol: float) -> tuple[np.ndarray, np.ndarray]:
    """Factor ``covariance = L L'`` in the given order of columns, skipping dependent ones.

    A column is dependent when what its predecessors leave of its variance, the pivot, is at most
    ``tol`` times that variance. Returns ``L`` (n_features, n_kept), whose rows for dependent
    columns express them through the others, and the kept columns.
    """
    n_features = len(covariance)
    variances = np.diag(covariance)
    factor, info = lapack.dpotrf(covariance, lower=1)
    # LAPACK passes an exactly dependent column with a pivot of rounding noise: test the pivots.
    if info == 0 and np.all(np.diag(factor) ** 2 > tol * variances):
        return factor, np.arange(n_features)
    lower = np.zeros((n_features, n_features))
    kept: list[int] = []
    for j in range(n_features):
        rank = len(kept)
        column = covariance[j:, j] - lower[j:, :rank] @ lower[j, :rank]
        if column[0] > tol * variances[j]:
            lower[j:, rank] = column / np.sqrt(column[0])
            kept.append(j)
    return lower[:, : len(kept)], np.array(kept, dtype=np.intp)


def cholesky_whitening(covariance: np.ndarray, tol: float) -> Whitening:
    """Whiten by the inverse Cholesky factor: column ``j`` is freed of the columns before it."""
    lower, kept = independent_cholesky(covariance, tol)
    forward = np.zeros((len(covariance), len(kept)))
    forward[kept] = solve_triangular(lower[kept], np.eye(len(kept)), lower=True).T
    return Whitening(forward, lower.T, kept)


def pca_whitening(covariance: np.ndarray, tol: float) -> Whitening:
    """Whiten along the principal axes, in the order of falling variance."""
    values, axes, kept = _principal_axes(covariance, tol)
    return Whitening(axes / np.sqrt(values), (axes * np.sqrt(values)).T, kept)


def zca_whitening(covariance: np.ndarray, tol: float) -> Whitening:
    """Whiten by the symmetric inverse root, which moves the data least."""
    values, axes, kept = _principal_axes(covariance, tol)
    root = np.sqrt(values)
    return Whitening((axes / root) @ axes.T, (axes * root) @ axes.T, kept)


WHITENINGS = {"cholesky": cholesky_whitening, "pca": pca_whitening, "zca": zca_whitening}


def refine_whitening(
    whitening: Whitening,
    X: np.ndarray,
    mean: np.ndarray,
    sample_weight: np.ndarray | None,
    method: str,
) -> Whitening:
    """Whiten the whitened data once more, which removes what rounding left of the correlations.

    The error of the first pass grows with the condition number of the covariance, that of the
    second does not (as in CholeskyQR2, Yamamoto et al. 2015). A factor of the same kind keeps a
    triangular map triangular. Directions that do not vary are left alone.
    """
    n_components = whitening.forward.shape[1]
    second = np.zeros((n_components, n_components))
    total = 0.0
    for span in row_blocks(len(X), 16 * (X.shape[1] + n_components)):
        Z = (X[span] - mean) @ whitening.forward
        if sample_weight is None:
            total += len(Z)
        else:
            total += sample_weight[span].sum()
            Z *= np.sqrt(sample_weight[span])[:, None]
        second += Z.T @ Z
    second /= total
    if method == "cholesky":
        lower = np.linalg.cholesky(second)
        return whitening._replace(
            forward=solve_triangular(lower, whitening.forward.T, lower=True).T,
            backward=lower.T @ whitening.backward,
        )
    values, axes = np.linalg.eigh(second)
    # Symmetric whitening of data of lower rank leaves directions without variance.
    root = np.sqrt(np.where(values > 0.5, values, 1.0))
    return whitening._replace(
        forward=whitening.forward @ ((axes / root) @ axes.T),
        backward=((axes * root) @ axes.T) @ whitening.backward,
    )


def _principal_axes(
    covariance: np.ndarray, tol: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return eigenvalues above ``tol`` times their mean, falling, and axes of fixed sign."""
    values, axes = np.linalg.eigh(covariance)
    values, axes = values[::-1], axes[:, ::-1]
    kept = np.flatnonzero(values > tol * np.trace(covariance) / len(covariance))
    values, axes = values[kept], axes[:, kept]
    largest = np.abs(axes).argmax(axis=0)
    return values, axes * np.sign(axes[largest, np.arange(len(kept))]), kept


def standard_scale(X: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return weighted means and standard deviations; a constant column keeps scale one."""
    mean = np.average(X, axis=0, weights=weights)
    variance = np.average((X - mean) ** 2, axis=0, weights=weights)
    return mean, usable_scale(mean, variance)


def usable_scale(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Return standard deviations; one where a column varies by no more than rounding."""
    floor = (10.0 * np.finfo(np.float64).eps * np.maximum(1.0, np.abs(mean))) ** 2
    return np.sqrt(np.where(variance > floor, variance, 1.0))


def within_class_whitening(
    X: np.ndarray, codes: np.ndarray, weights: np.ndarray | None, shrinkage: float = 0.1
) -> tuple[np.ndarray, np.ndarray]:
    """Return (mean, map) such that ``(X - mean) @ map`` has unit covariance within classes.

    The pooled within-class covariance is shrunk towards its mean eigenvalue.
    """
    n_classes, n_features = int(codes.max()) + 1, X.shape[1]
    mean = np.average(X, axis=0, weights=weights)
    centres = class_means(X, codes, weights, n_classes)
    covariance = within_covariance(lda_statistics(X, codes, weights, n_classes, shifts=centres))
    level = np.trace(covariance) / n_features
    if level <= 0.0:
        return mean, np.eye(n_features)
    covariance = (1.0 - shrinkage) * covariance + shrinkage * level * np.eye(n_features)
    values, vectors = np.linalg.eigh(covariance)
    return mean, vectors / np.sqrt(values)


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
