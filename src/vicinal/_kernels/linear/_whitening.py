"""Linear maps that turn a covariance into the identity, and their inverses."""

from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack, solve_triangular

from vicinal._base import row_blocks


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
