r"""Weighted logistic regression of two or more classes, with warm starts.

More than two classes: with scores :math:`s_{ic} = \beta_c^\top x_i + b_c` and probabilities
:math:`p_{ic} = e^{s_{ic}} / \sum_k e^{s_{ik}}` the objective is :math:`-\sum_i w_i \log p_{i y_i} +
\frac\alpha2 \sum_c |\beta_c|^2`. Its Hessian is below :math:`\frac12 (I - \frac1c 11^\top) \otimes
X^\top W X` (Böhning, "Multinomial logistic regression algorithm", 1992), whose factor serves as the
metric of a quasi-Newton method. Two classes take the binary form with one vector.

The minimisation asks for sums over the rows, so that these may lie in memory or be added up over
blocks, and so that many problems may be answered in one pass.
"""

from collections.abc import Generator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import cho_solve

from vicinal._base import row_blocks
from vicinal._kernels._jit import fast_jit
from vicinal._kernels.linear._gram import gram_metric, gram_sums, penalised_factor, weighted_gram
from vicinal._kernels.linear._lbfgs import Minimum, answer_all, lbfgs_steps

# Up to here a Newton step, which costs one Gram matrix, beats the passes that it saves.
NEWTON_FEATURES = 200
_MAX_HALVINGS = 30

# What is asked: parameters at which the loss is wanted with its derivatives, or None for the Gram
# matrix of the rows. What is answered: a tuple of sums over rows.
Question = np.ndarray | None
Steps = Generator[Question, tuple, Any]


class LinearFit(NamedTuple):
    """Coefficients, the objective reached, and whether the gradient fell below its bound."""

    coef: np.ndarray  # (1, n_features) for two classes, else (n_classes, n_features)
    intercept: np.ndarray  # (1,) or (n_classes,)
    value: float
    n_iter: int
    converged: bool


def fit_logistic(
    X: np.ndarray | sparse.csr_array,
    codes: np.ndarray,
    sample_weight: np.ndarray | None,
    n_classes: int,
    *,
    alpha: float,
    start: tuple[np.ndarray, np.ndarray] | None = None,
    fit_intercept: bool = True,
    tol: float = 1e-4,
    max_iter: int = 200,
) -> LinearFit:
    r"""Minimise the penalised log-loss until no gradient entry exceeds ``tol * sum(weights)``.

    ``start`` holds coefficients and intercepts of an earlier, similar fit. ``C`` of scikit-learn's
    ``LogisticRegression`` is ``1 / alpha``; the intercept is not penalised there either. Two
    classes give one vector, the log-odds of class 1. Classes without rows are legal for three
    classes or more: their probability falls as far as the penalty and ``tol`` let it.
    """
    X = X if sparse.issparse(X) else np.ascontiguousarray(X, dtype=np.float64)
    if sample_weight is None:
        weights = np.ones(X.shape[0])
    else:
        weights = np.ascontiguousarray(sample_weight, dtype=np.float64)
    blocks = multinomial_blocks(X, codes, weights, n_classes) if n_classes > 2 else []

    def answer(question):
        if question is None:
            return (gram_sums(X, weights),)
        if blocks:
            return multinomial_value_gradient(question, blocks, n_classes)
        return _binary_sums(X, codes, weights, question)

    steps = logistic_steps(
        weights.sum(),
        X.shape[1],
        n_classes,
        alpha=alpha,
        start=start,
        fit_intercept=fit_intercept,
        tol=tol,
        max_iter=max_iter,
        is_sparse=sparse.issparse(X),
    )
    return answer_all(steps, answer)


def logistic_sums(
    X: np.ndarray, codes: np.ndarray, weights: np.ndarray, n_classes: int, question: Question
) -> tuple:
    """Return what some rows add to the answer: the Gram matrix, or loss, gradient and curvature."""
    if question is None:
        return (gram_sums(X, weights),)
    if n_classes > 2:
        rows = multinomial_blocks(X, codes, weights, n_classes)
        return multinomial_value_gradient(question, rows, n_classes)
    value, gradient, curvature = _binary_sums(X, codes, weights, question)
    if X.shape[1] > NEWTON_FEATURES:
        return value, gradient
    return value, gradient, curvature()


def _binary_sums(X, codes, weights, parameters) -> tuple:
    """Return loss, gradient, and a function that sums up the curvature where it is wanted."""
    scores = X @ parameters[:-1] + parameters[-1]
    slopes, curvatures = np.empty_like(scores), np.empty_like(scores)
    value = logistic_loss(scores, np.where(codes == 1, 1.0, -1.0), weights, slopes, curvatures)
    gradient = np.append(X.T @ slopes, slopes.sum())
    return value, gradient, partial(weighted_gram, X, curvatures)


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
    is_sparse: bool = False,
) -> Steps:
    """Ask for sums until the gradient is small; return the :class:`LinearFit`.

    ``start`` and what is returned have one row for two classes, else one for each class.
    """
    shape = (n_features + 1, 1 if n_classes == 2 else n_classes)
    table = np.zeros(shape)
    if start is not None:
        table[:-1], table[-1] = start[0].T, start[1]
    bounds: dict[str, Any] = {"gradient_tol": tol * total_weight, "max_iter": max_iter}
    if n_classes == 2 and n_features <= NEWTON_FEATURES and not is_sparse:
        minimum = yield from _newton_steps(table[:, 0], alpha, fit_intercept, **bounds)
    else:
        # The curvature at equal probabilities; the quasi-Newton method rescales it as it goes.
        curvature = 0.25 if n_classes == 2 else (1.0 - 1.0 / n_classes) / n_classes
        (gram,) = yield None
        metric = gram_metric(curvature * gram, alpha)

        def precondition(q):
            solved = metric(q.reshape(shape))
            if not fit_intercept:
                solved[-1] = 0.0
            return solved.ravel()

        steps = lbfgs_steps(table.ravel(), precondition, **bounds)
        minimum = yield from _penalised_steps(steps, shape, alpha, fit_intercept)
    table = minimum.point.reshape(shape)
    return LinearFit(np.ascontiguousarray(table[:-1].T), table[-1].copy(), *minimum[1:])


def _penalised_steps(steps, shape, alpha, fit_intercept):
    """Pass on what a minimisation asks, and add the penalty to the answers."""
    try:
        point = next(steps)
        while True:
            value, gradient, *_ = yield point
            coef = point.reshape(shape)[:-1]
            gradient = gradient.reshape(shape).copy()
            gradient[:-1] += alpha * coef
            if not fit_intercept:
                gradient[-1] = 0.0
            point = steps.send((value + 0.5 * alpha * np.sum(coef * coef), gradient.ravel()))
    except StopIteration as end:
        return end.value


def _newton_steps(start, alpha, fit_intercept, gradient_tol, max_iter):
    """Damped Newton; the curvature, an array or a function, is looked at where a step begins."""

    def penalised(parameters, answer):
        value, gradient, curvature = answer
        coef, gradient = parameters[:-1], gradient.copy()
        gradient[:-1] += alpha * coef
        if not fit_intercept:
            gradient[-1] = 0.0
        return value + 0.5 * alpha * (coef @ coef), gradient, curvature

    parameters = np.array(start, dtype=np.float64)
    value, gradient, curvature = penalised(parameters, (yield parameters))
    converged, iteration = False, 0
    for iteration in range(max_iter + 1):
        converged = bool(np.abs(gradient).max() <= gradient_tol)
        if converged or iteration == max_iter:
            break
        hessian = curvature() if callable(curvature) else curvature.copy()
        if not fit_intercept:
            hessian[-1, :-1] = hessian[:-1, -1] = 0.0
        direction = -cho_solve((penalised_factor(hessian, alpha), True), gradient)
        slope = gradient @ direction
        slack = 4 * np.finfo(float).eps * abs(value)
        step = 1.0
        for _ in range(_MAX_HALVINGS):
            trial = parameters + step * direction
            found = penalised(trial, (yield trial))
            if found[0] <= value + 1e-4 * step * slope + slack:
                break
            step *= 0.5
        else:
            # Rounding leaves no descent: this is as far as double precision goes.
            break
        parameters, (value, gradient, curvature) = trial, found
    return Minimum(parameters, float(value), iteration, converged)


def multinomial_value_gradient(
    parameters: np.ndarray,
    blocks: list[tuple],
    n_classes: int,
) -> tuple[float, np.ndarray]:
    """Return the log-loss and its gradient at ``parameters``, a flat (n_features + 1, n_classes).

    ``blocks`` come from :func:`multinomial_blocks`: rows, codes and weights, block by block.
    """
    table = parameters.reshape(-1, n_classes)
    coef, intercept = table[:-1], table[-1]
    gradient = np.zeros_like(table)
    value = 0.0
    for rows, codes, weights in blocks:
        scores = rows @ coef
        own = np.empty(len(scores))
        _subtract_maximum(scores, intercept, codes, own)
        # NumPy's exponential is vectorised, a compiled loop would call the scalar one.
        np.exp(scores, out=scores)
        value += _residuals(scores, codes, weights, own)
        gradient[:-1] += rows.T @ scores
        gradient[-1] += scores.sum(axis=0)
    return value, gradient.ravel()


def multinomial_blocks(
    X: np.ndarray | sparse.csr_array, codes: np.ndarray, weights: np.ndarray, n_classes: int
) -> list[tuple]:
    """Cut the rows into blocks whose scores stay in the cache; sparse rows are sliced once."""
    codes = np.ascontiguousarray(codes, dtype=np.int64)
    width = n_classes if sparse.issparse(X) else n_classes + X.shape[1]
    longest = max(1024, 2**16 // width)
    return [
        (X[span], codes[span], weights[span])
        for span in row_blocks(X.shape[0], 16 * n_classes, max_rows=longest)
    ]


@fast_jit
def logistic_loss(scores, signs, weights, slopes, curvatures):
    """Return the binary log-loss and fill its first and second derivatives by the scores."""
    value = 0.0
    for i in range(len(scores)):
        margin = signs[i] * scores[i]
        small = np.exp(-abs(margin))
        # Probability of the wrong class, without overflow on either side.
        wrong = small / (1.0 + small) if margin > 0.0 else 1.0 / (1.0 + small)
        value += weights[i] * (np.log1p(small) + max(0.0, -margin))
        slopes[i] = -weights[i] * signs[i] * wrong
        curvatures[i] = weights[i] * wrong * (1.0 - wrong)
    return value


@fast_jit
def _subtract_maximum(scores, intercept, codes, own):
    """Add the intercepts, subtract each row's maximum, and keep the score of the own class."""
    n_rows, n_classes = scores.shape
    for i in range(n_rows):
        top = -np.inf
        for c in range(n_classes):
            scores[i, c] += intercept[c]
            top = max(top, scores[i, c])
        for c in range(n_classes):
            scores[i, c] -= top
        own[i] = scores[i, codes[i]]


@fast_jit
def _residuals(scores, codes, weights, own):
    """Turn exponentials into weighted residuals ``w (p - onehot)`` and return the log-loss."""
    n_rows, n_classes = scores.shape
    value = 0.0
    for i in range(n_rows):
        total = 0.0
        for c in range(n_classes):
            total += scores[i, c]
        value += weights[i] * (np.log(total) - own[i])
        share = weights[i] / total
        for c in range(n_classes):
            scores[i, c] *= share
        scores[i, codes[i]] -= weights[i]
    return value
