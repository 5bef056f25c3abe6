r"""Weighted linear models of two classes for smooth losses of the margin.

With signs :math:`y_i = \pm 1`, weights :math:`w_i` and margins :math:`m_i = y_i (\beta^\top x_i +
b)` the objective is :math:`J(\beta, b) = \sum_i w_i \phi(m_i) + \frac\alpha2 |\beta|^2`, the
intercept free. Parameters are one vector, the intercept last.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import cho_solve, lapack

from vicinal._base import row_blocks
from vicinal._kernels.linear._lbfgs import Minimum, minimize_lbfgs

# Above this many columns the metric of the quasi-Newton method is diagonal.
GRAM_FEATURES = 2000
MAX_HALVINGS = 30

# loss(scores, signs, weights, slopes, curvatures) -> value; fills the derivatives by the scores.
MarginLoss = Callable[[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray], float]


class LinearFit(NamedTuple):
    """Coefficients, the objective reached, and whether the gradient fell below its bound."""

    coef: np.ndarray  # (1, n_features) for two classes, else (n_classes, n_features)
    intercept: np.ndarray  # (1,) or (n_classes,)
    value: float
    n_iter: int
    converged: bool


def margin_value_gradient(
    parameters: np.ndarray,
    X: np.ndarray | sparse.csr_array,
    signs: np.ndarray,
    weights: np.ndarray,
    loss: MarginLoss,
    alpha: float,
) -> tuple[float, np.ndarray]:
    """Return the objective and its gradient at ``parameters`` (n_features + 1,)."""
    coef = parameters[:-1]
    scores = X @ coef + parameters[-1]
    slopes, curvatures = np.empty_like(scores), np.empty_like(scores)
    value = loss(scores, signs, weights, slopes, curvatures) + 0.5 * alpha * (coef @ coef)
    return value, np.append(X.T @ slopes + alpha * coef, slopes.sum())


def fit_margin_model(
    X: np.ndarray | sparse.csr_array,
    signs: np.ndarray,
    weights: np.ndarray,
    loss: MarginLoss,
    *,
    alpha: float,
    curvature_bound: float,
    newton_features: int,
    start: np.ndarray,
    fit_intercept: bool,
    tol: float,
    max_iter: int,
) -> Minimum:
    """Minimise the objective from ``start`` until no gradient entry exceeds ``tol * sum(weights)``.

    Dense data of at most ``newton_features`` columns take Newton steps with a Cholesky factor;
    others take quasi-Newton steps in the metric of ``curvature_bound`` times the Gram matrix, or
    of its diagonal.
    """
    gradient_tol = tol * weights.sum()
    if not sparse.issparse(X) and X.shape[1] <= newton_features:
        return _minimize_newton(
            X, signs, weights, loss, alpha, start, fit_intercept, gradient_tol, max_iter
        )

    def value_gradient(parameters):
        value, gradient = margin_value_gradient(parameters, X, signs, weights, loss, alpha)
        if not fit_intercept:
            gradient[-1] = 0.0
        return value, gradient

    metric = gram_metric(X, weights, curvature_bound, alpha)

    def precondition(q):
        solved = metric(q[:, None])[:, 0]
        if not fit_intercept:
            solved[-1] = 0.0
        return solved

    return minimize_lbfgs(
        value_gradient,
        start,
        precondition,
        gradient_tol=gradient_tol,
        max_iter=max_iter,
    )


def gram_metric(
    X: np.ndarray | sparse.csr_array, weights: np.ndarray, curvature: float, alpha: float
) -> Callable[[np.ndarray], np.ndarray]:
    """Return the solver with ``curvature * X'WX + alpha I``, intercept included, for columns."""
    if not sparse.issparse(X) and X.shape[1] <= GRAM_FEATURES:
        factor = penalised_factor(weighted_gram(X, curvature * weights), alpha)
        return lambda right: cho_solve((factor, True), right)
    return diagonal_metric(curvature * gram_diagonal(X, weights), alpha)


def gram_diagonal(X: np.ndarray | sparse.csr_array, weights: np.ndarray) -> np.ndarray:
    """Return the diagonal of ``[X 1]' diag(weights) [X 1]``."""
    squares = np.zeros(X.shape[1])
    for span in row_blocks(X.shape[0], 8 * X.shape[1]):
        block: Any = X[span]
        # The square of a sparse matrix is a matrix product.
        squares += (block.multiply(block) if sparse.issparse(block) else block**2).T @ weights[span]
    return np.append(squares, weights.sum())


def diagonal_metric(diagonal: np.ndarray, alpha: float) -> Callable[[np.ndarray], np.ndarray]:
    """Return the solver with ``diagonal + alpha``, the intercept unpenalised, for columns."""
    diagonal[:-1] += alpha
    diagonal += 1e-10 * diagonal.max()
    return lambda right: right / diagonal[:, None]


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


def _minimize_newton(X, signs, weights, loss, alpha, start, fit_intercept, gradient_tol, max_iter):
    """Damped Newton; scores along a step are known, so that shortening it costs no pass over X."""
    parameters = np.array(start, dtype=np.float64)
    scores = X @ parameters[:-1] + parameters[-1]
    slopes, curvatures = np.empty_like(scores), np.empty_like(scores)
    trial_slopes, trial_curvatures = np.empty_like(scores), np.empty_like(scores)
    value = loss(scores, signs, weights, slopes, curvatures)
    value += 0.5 * alpha * (parameters[:-1] @ parameters[:-1])
    converged = False
    iteration = 0
    for iteration in range(max_iter + 1):
        gradient = np.append(X.T @ slopes + alpha * parameters[:-1], slopes.sum())
        if not fit_intercept:
            gradient[-1] = 0.0
        converged = bool(np.abs(gradient).max() <= gradient_tol)
        if converged or iteration == max_iter:
            break
        hessian = weighted_gram(X, curvatures)
        if not fit_intercept:
            hessian[-1, :-1] = hessian[:-1, -1] = 0.0
        direction = -cho_solve((penalised_factor(hessian, alpha), True), gradient)
        ahead = X @ direction[:-1] + direction[-1]
        slope = gradient @ direction
        slack = 4 * np.finfo(float).eps * abs(value)
        step = 1.0
        for _ in range(MAX_HALVINGS):
            trial = parameters + step * direction
            new_value = loss(scores + step * ahead, signs, weights, trial_slopes, trial_curvatures)
            new_value += 0.5 * alpha * (trial[:-1] @ trial[:-1])
            if new_value <= value + 1e-4 * step * slope + slack:
                break
            step *= 0.5
        else:
            # Rounding leaves no descent: this is as far as double precision goes.
            break
        parameters, value = trial, new_value
        scores += step * ahead
        slopes, trial_slopes = trial_slopes, slopes
        curvatures, trial_curvatures = trial_curvatures, curvatures
    return Minimum(parameters, float(value), iteration, converged)
