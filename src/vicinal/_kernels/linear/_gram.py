"""Gram matrices of weighted rows with a column of ones, as metrics of linear models."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import cho_solve, lapack

from vicinal._base import row_blocks

# Above this many columns the metric of the quasi-Newton method is diagonal.
GRAM_FEATURES = 2000


def gram_sums(X: np.ndarray | sparse.csr_array, weights: np.ndarray) -> np.ndarray:
    """Return ``[X 1]' diag(weights) [X 1]``, of sparse or wide rows its diagonal alone."""
    is_wide = sparse.issparse(X) or X.shape[1] > GRAM_FEATURES
    return gram_diagonal(X, weights) if is_wide else weighted_gram(X, weights)


def gram_metric(gram: np.ndarray, alpha: float) -> Callable[[np.ndarray], np.ndarray]:
    """Return the solver with ``gram + alpha I``, the intercept unpenalised, for columns."""
    if gram.ndim == 2:
        factor = penalised_factor(gram, alpha)
        return lambda right: cho_solve((factor, True), right)
    diagonal = gram.copy()
    diagonal[:-1] += alpha
    diagonal += 1e-10 * diagonal.max()
    return lambda right: right / diagonal[:, None]


def gram_diagonal(X: np.ndarray | sparse.csr_array, weights: np.ndarray) -> np.ndarray:
    """Return the diagonal of ``[X 1]' diag(weights) [X 1]``."""
    squares = np.zeros(X.shape[1])
    for span in row_blocks(X.shape[0], 8 * X.shape[1]):
        block: Any = X[span]
        # The square of a sparse matrix is a matrix product.
        squares += (block.multiply(block) if sparse.issparse(block) else block**2).T @ weights[span]
    return np.append(squares, weights.sum())


def weighted_gram(X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return ``[X 1]' diag(weights) [X 1]``; rows of weight 0 cost nothing."""
    n_features = X.shape[1]
    gram = np.zeros((n_features + 1, n_features + 1))
    for block, w in _weighted_blocks(X, weights):
        first = w @ block
        gram[:-1, -1] += first
        gram[-1, :-1] += first
        block = block * np.sqrt(w)[:, None]
        gram[:-1, :-1] += block.T @ block
    gram[-1, -1] = weights.sum()
    return gram


def _weighted_blocks(X, weights) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for span in row_blocks(len(X), 16 * X.shape[1]):
        w = weights[span]
        chosen = np.flatnonzero(w)
        if len(chosen) == len(w):
            yield X[span], w
        elif len(chosen):
            yield X[span][chosen], w[chosen]


def penalised_factor(hessian: np.ndarray, alpha: float) -> np.ndarray:
    """Add the penalty to ``hessian``, in place, and return its lower Cholesky factor."""
    diagonal = np.diag_indices(len(hessian))
    hessian[diagonal] += alpha
    hessian[-1, -1] -= alpha
    # The intercept is not penalised, and rows without curvature leave nothing in its place.
    hessian[diagonal] += 1e-12 * max(hessian[diagonal].max(), np.finfo(float).tiny)
    factor, info = lapack.dpotrf(hessian, lower=1)
    if info != 0:
        hessian[diagonal] += 1e-8 * hessian[diagonal].max()
        factor, _ = lapack.dpotrf(hessian, lower=1)
    return factor
