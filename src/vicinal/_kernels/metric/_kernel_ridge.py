r"""Kernel ridge with a free intercept, its exact leave-one-out predictions, and its slopes.

With the kernel matrix K, weights W and penalty a, the dual coefficients solve
``(K + a W^-1) c + 1 b = y`` under ``1'c = 0``, so ``c = P y`` with ``P = G - G11'G / 1'G1`` and
``G = (K + a W^-1)^-1``. Leave-one-out needs the diagonal of G alone: the squared columns of the
inverse of a triangle, so that one penalty costs a fifth of an eigendecomposition for all of them.
Columns of the last rows are zero above their own block, whose inverse they are.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtri
from scipy.spatial.distance import cdist


@dataclass(frozen=True)
class KernelRidge:
    """Kernel ridge of one penalty.

    Attributes
    ----------
    error : float
        Weighted mean of the squared leave-one-out residuals, summed over outputs.
    dual_coef : ndarray of shape (n_samples, n_outputs)
        Coefficients of the kernel.
    intercept : ndarray of shape (n_outputs,)
        Intercept.
    left_out : ndarray of shape (n_left_out, n_outputs)
        Leave-one-out predictions of the last rows.
    """

    error: float
    dual_coef: np.ndarray
    intercept: np.ndarray
    left_out: np.ndarray


def squared_distances(Q: np.ndarray, Z: np.ndarray, kernel: str) -> np.ndarray:
    """Return squared Euclidean distances, for the Gaussian kernel by one product of matrices.

    Its rounding errors are those of the squared lengths; the kink of the Laplace kernel would show
    them.
    """
    if kernel == "laplace":
        return cdist(Q, Z, "sqeuclidean")
    squares = Q @ Z.T
    squares *= -2.0
    squares += np.einsum("ij,ij->i", Q, Q)[:, None]
    squares += np.einsum("ij,ij->i", Z, Z)
    return np.maximum(squares, 0.0, out=squares)


def kernel_values(squares: np.ndarray, scale: float, kernel: str) -> np.ndarray:
    """Return exp(-D / scale) (Laplace) or exp(-D^2 / (2 scale^2)) (Gaussian) of squares D^2."""
    if kernel == "laplace":
        values = np.sqrt(squares)
        values /= -scale
    else:
        values = squares * (-0.5 / scale**2)
    return np.exp(values, out=values)  # in place: of many rows, new memory costs more than exp


def kernel_ridge(
    K: np.ndarray,
    Y: np.ndarray,
    weights: np.ndarray,
    copies: np.ndarray,
    alpha: float,
    n_left_out: int | None = None,
) -> KernelRidge:
    """Solve kernel ridge and leave each of the last ``n_left_out`` rows out, ``None`` for all.

    A row stands for ``copies`` equal ones (at least one), which share its weight and of which one
    is left out.
    """
    n = len(K)
    # A penalty below rounding leaves nothing positive definite.
    penalty = np.maximum(alpha / weights, 4.0 * n * np.finfo(float).eps)
    system = K.copy()
    system.flat[:: n + 1] += penalty
    # A symmetric matrix read by columns is itself, so that nothing is copied again.
    triangle, info = dpotrf(system.T, lower=1, overwrite_a=1)
    if info:
        raise np.linalg.LinAlgError(
            f"the kernel matrix of {n} rows is not positive definite with alpha={alpha:g}; raise "
            "alpha, or scale columns whose numbers are huge."
        )
    solved, _ = dpotrs(triangle, np.column_stack([np.ones(n), Y]), lower=1)
    G1, GY = solved[:, 0], solved[:, 1:]
    total = G1.sum()
    intercept = GY.sum(axis=0) / total
    coef = GY - G1[:, None] * intercept
    last = slice(0 if n_left_out is None else n - n_left_out, n)
    inverse, _ = dtrtri(triangle[last, last], lower=1, overwrite_c=1)
    # penalty P_ii = 1 - h_i with the leverage h_i of all copies of the row.
    squares = np.einsum("ij,ij->j", inverse, inverse)
    free = penalty[last] * (squares - G1[last] * G1[last] / total)
    stay = np.maximum(1.0 - (1.0 - free) / copies[last], np.finfo(float).eps)
    residual = (penalty[last] / stay)[:, None] * coef[last]
    error = float(weights[last] @ (residual**2).sum(axis=1) / weights[last].sum())
    return KernelRidge(error, coef, intercept, Y[last] - residual)


def ridge_slopes(
    Q: np.ndarray, Z: np.ndarray, dual_coef: np.ndarray, scale: float, kernel: str
) -> np.ndarray:
    """Return the gradient of every output at every query: (n_queries, n_outputs, n_features).

    The Laplace kernel has a kink at its own row, where the mean of its slopes, zero, is taken.
    """
    squares = squared_distances(Q, Z, kernel)
    S = kernel_values(squares, scale, kernel)
    if kernel == "laplace":
        distances = np.sqrt(squares)
        S = np.divide(S, distances, out=np.zeros_like(S), where=distances > 1e-9 * scale) / scale
    else:
        S = S / scale**2
    pulls = [S @ (coef[:, None] * Z) for coef in dual_coef.T]
    return np.stack(pulls, axis=1) - (S @ dual_coef)[:, :, None] * Q[:, None, :]


def gradient_directions(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return eigenvalues, ascending, and eigenvectors of ``rows' rows``, which has d x d numbers.

    With fewer rows than columns it is not formed, and directions without any gradient are omitted.
    """
    if len(rows) >= rows.shape[1]:
        return np.linalg.eigh(rows.T @ rows)
    _, roots, vectors = np.linalg.svd(rows, full_matrices=False)
    return roots[::-1] ** 2, vectors[::-1].T


def gradient_map(rows: np.ndarray, *, diagonal: bool) -> np.ndarray:
    """Return a map C whose CC' is ``rows' rows``, or its diagonal, over its largest eigenvalue.

    A diagonal map is the vector of its factors; another one has a column per direction. Without
    any gradient it is the unit.
    """
    if diagonal:
        values = np.einsum("ij,ij->j", rows, rows)
    else:
        values, vectors = gradient_directions(rows)
    largest = values.max()
    if not largest > 0.0:
        return np.ones(rows.shape[1])
    # Rounding errors have visible roots.
    kept = values > 1e-12 * largest
    roots = np.sqrt(np.where(kept, values / largest, 0.0))
    return roots if diagonal else vectors[:, kept] * roots[kept]


def map_rows(Z: np.ndarray, components: np.ndarray) -> np.ndarray:
    """Return rows in the coordinates of a map, a matrix or the factors of a diagonal one."""
    return Z * components if components.ndim == 1 else Z @ components


def map_slopes(slopes: np.ndarray, components: np.ndarray) -> np.ndarray:
    """Return slopes in the original columns of slopes in the coordinates of a map."""
    return slopes * components if components.ndim == 1 else slopes @ components.T
