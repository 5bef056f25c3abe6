"""Logistic regression of rows that are elsewhere: what it asks of them, and how they answer.

The objective and its minimisation are those of :func:`fit_logistic`; only the sums over rows come
from outside, so that they may be taken over blocks, and for many problems in one pass.
"""

from collections.abc import Generator
from typing import Any

import numpy as np
from scipy.linalg import cho_solve

from vicinal._kernels.linear._lbfgs import Minimum, lbfgs_steps
from vicinal._kernels.linear._logistic import (
    NEWTON_FEATURES,
    logistic_loss,
    multinomial_blocks,
    multinomial_value_gradient,
)
from vicinal._kernels.linear._objective import (
    GRAM_FEATURES,
    MAX_HALVINGS,
    diagonal_metric,
    gram_diagonal,
    penalised_factor,
    weighted_gram,
)

# What is asked: parameters at which the loss is wanted with its derivatives, or None for the Gram
# matrix of the rows (its diagonal, if they are wide). What is answered: a tuple of sums over rows.
Question = np.ndarray | None
Steps = Generator[Question, tuple, Any]


def logistic_sums(
    X: np.ndarray, codes: np.ndarray, weights: np.ndarray, n_classes: int, question: Question
) -> tuple:
    """Return what some rows add to the answer: the Gram matrix, or loss, gradient and curvature."""
    if question is None:
        wide = X.shape[1] > GRAM_FEATURES
        return (gram_diagonal(X, weights) if wide else weighted_gram(X, weights),)
    if n_classes > 2:
        rows = multinomial_blocks(X, codes, weights, n_classes)
        return multinomial_value_gradient(question, rows, n_classes, 0.0)
    scores = X @ question[:-1] + question[-1]
    slopes, curvatures = np.empty_like(scores), np.empty_like(scores)
    signs = np.where(codes == 1, 1.0, -1.0)
    value = logistic_loss(scores, signs, weights, slopes, curvatures)
    gradient = np.append(X.T @ slopes, slopes.sum())
    if X.shape[1] > NEWTON_FEATURES:
        return value, gradient
    return value, gradient, weighted_gram(X, curvatures)


def logistic_steps(
    total_weight: float,
    n_features: int,
    n_classes: int,
    *,
    alpha: float,
    start: tuple[np.ndarray, np.ndarray] | None,
    fit_intercept: bool,
    tol: float,
    max_iter: int,
) -> Steps:
    """Ask for sums until the gradient is small; return coefficients and intercepts.

    ``start`` and what is returned have one row for two classes, else one for each class.
    """
    shape = (n_features + 1, 1 if n_classes == 2 else n_classes)
    table = np.zeros(shape)
    if start is not None:
        table[:-1], table[-1] = start[0].T, start[1]
    bounds: dict[str, Any] = {"gradient_tol": tol * total_weight, "max_iter": max_iter}
    if n_classes == 2 and n_features <= NEWTON_FEATURES:
        minimum = yield from _newton_steps(table[:, 0], alpha, fit_intercept, **bounds)
    else:
        curvature = 0.25 if n_classes == 2 else (1.0 - 1.0 / n_classes) / n_classes
        (gram,) = yield None
        metric = _metric(curvature * gram, alpha)

        def precondition(q):
            solved = metric(q.reshape(shape))
            if not fit_intercept:
                solved[-1] = 0.0
            return solved.ravel()

        steps = lbfgs_steps(table.ravel(), precondition, **bounds)
        minimum = yield from _penalised_steps(steps, shape, alpha, fit_intercept)
    table = minimum.point.reshape(shape)
    return np.ascontiguousarray(table[:-1].T), table[-1].copy()


def _metric(gram, alpha):
    if gram.ndim == 1:
        return diagonal_metric(gram, alpha)
    factor = penalised_factor(gram, alpha)
    return lambda right: cho_solve((factor, True), right)


def _penalised_steps(steps, shape, alpha, fit_intercept):
    """Pass on what a minimisation asks, and add the penalty to the answers."""
    try:
        point = next(steps)
        while True:
            value, gradient = yield point
            coef = point.reshape(shape)[:-1]
            gradient = gradient.reshape(shape).copy()
            gradient[:-1] += alpha * coef
            if not fit_intercept:
                gradient[-1] = 0.0
            point = steps.send((value + 0.5 * alpha * np.sum(coef * coef), gradient.ravel()))
    except StopIteration as end:
        return end.value


def _newton_steps(start, alpha, fit_intercept, gradient_tol, max_iter):
    """Damped Newton, with curvatures asked for at every point that may be the next."""

    def penalised(parameters, answer):
        value, gradient, hessian = answer
        coef, gradient, hessian = parameters[:-1], gradient.copy(), hessian.copy()
        gradient[:-1] += alpha * coef
        if not fit_intercept:
            gradient[-1] = 0.0
            hessian[-1, :-1] = hessian[:-1, -1] = 0.0
        return value + 0.5 * alpha * (coef @ coef), gradient, hessian

    parameters = np.array(start, dtype=np.float64)
    value, gradient, hessian = penalised(parameters, (yield parameters))
    converged, iteration = False, 0
    for iteration in range(max_iter + 1):
        converged = bool(np.abs(gradient).max() <= gradient_tol)
        if converged or iteration == max_iter:
            break
        direction = -cho_solve((penalised_factor(hessian, alpha), True), gradient)
        slope = gradient @ direction
        slack = 4 * np.finfo(float).eps * abs(value)
        step = 1.0
        for _ in range(MAX_HALVINGS):
            trial = parameters + step * direction
            found = penalised(trial, (yield trial))
            if found[0] <= value + 1e-4 * step * slope + slack:
                break
            step *= 0.5
        else:
            # Rounding leaves no descent: this is as far as double precision goes.
            break
        parameters, (value, gradient, hessian) = trial, found
    return Minimum(parameters, float(value), iteration, converged)
