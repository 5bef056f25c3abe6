r"""Weighted ridge and logistic regression of two or more classes, with warm starts.

More than two classes: with scores :math:`s_{ic} = \beta_c^\top x_i + b_c` and probabilities
:math:`p_{ic} = e^{s_{ic}} / \sum_k e^{s_{ik}}` the objective is :math:`-\sum_i w_i \log p_{i y_i} +
\frac\alpha2 \sum_c |\beta_c|^2`. Its Hessian is below :math:`\frac12 (I - \frac1c 11^\top) \otimes
X^\top W X` (Böhning, "Multinomial logistic regression algorithm", 1992), whose factor serves as the
metric of a quasi-Newton method. Two classes take the binary form with one vector.

The minimisation is a generator that requests sums over the rows, so that these may lie in memory or
be added up over blocks, and so that one pass may serve many problems.
"""

from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, sparse
from scipy.linalg import cho_factor, cho_solve, lapack
from scipy.optimize import lsq_linear
from scipy.special import expit

from vicinal._base import row_blocks
from vicinal._kernels._jit import fast_jit

# Above this many columns the metric of the quasi-Newton method is diagonal.
GRAM_FEATURES = 2000
# Up to this many columns Newton steps, which cost one Gram matrix each, are faster.
NEWTON_FEATURES = 200
# Least penalty: identical columns have no unique solution without one.
_LEAST_ALPHA = 1e-10
_SUFFICIENT_DECREASE = 1e-4
_MAX_HALVINGS = 30

# What is requested: parameters at which the loss is wanted with its derivatives, or None for the
# Gram matrix of the rows. What is sent back: a tuple of sums over rows.
Request = np.ndarray | None
Steps = Generator[Request, tuple, Any]


def gram_sums(X: np.ndarray | sparse.csr_array, weights: np.ndarray) -> np.ndarray:
    """Return ``[X 1]' diag(weights) [X 1]``, of sparse or wide rows its diagonal alone."""
    if not sparse.issparse(X) and X.shape[1] <= GRAM_FEATURES:
        return weighted_gram(X, weights)
    squares = np.zeros(X.shape[1])
    for span in row_blocks(X.shape[0], 8 * X.shape[1]):
        block: Any = X[span]
        # The square of a sparse matrix is a matrix product.
        squares += (block.multiply(block) if sparse.issparse(block) else block**2).T @ weights[span]
    return np.append(squares, weights.sum())


def gram_metric(gram: np.ndarray, alpha: float) -> Callable[[np.ndarray], np.ndarray]:
    """Return the solver with ``gram + alpha I``, the intercept unpenalised, for columns."""
    if gram.ndim == 2:
        factor = penalised_factor(gram, alpha)
        return lambda right: cho_solve((factor, True), right)
    diagonal = gram.copy()
    diagonal[:-1] += alpha
    diagonal += 1e-10 * diagonal.max()
    return lambda right: right / diagonal[:, None]


def weighted_gram(X: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return ``[X 1]' diag(weights) [X 1]``; rows of weight 0 cost nothing."""
    n_features = X.shape[1]
    gram = np.zeros((n_features + 1, n_features + 1))
    for span in row_blocks(len(X), 16 * n_features):
        block, w = X[span], weights[span]
        chosen = np.flatnonzero(w)
        if len(chosen) < len(w):
            block, w = block[chosen], w[chosen]
        first = w @ block
        gram[:-1, -1] += first
        gram[-1, :-1] += first
        block = block * np.sqrt(w)[:, None]
        gram[:-1, :-1] += block.T @ block
    gram[-1, -1] = weights.sum()
    return gram


def penalised_factor(hessian: np.ndarray, alpha: float) -> np.ndarray:
    """Add the penalty to ``hessian``, in place, and return its lower Cholesky factor."""
    diagonal = np.diag_indices(len(hessian))
    hessian[diagonal] += alpha
    hessian[-1, -1] -= alpha
    # The intercept is not penalised and may have no curvature.
    hessian[diagonal] += 1e-12 * max(hessian[diagonal].max(), np.finfo(float).tiny)
    factor, info = lapack.dpotrf(hessian, lower=1)
    if info != 0:
        hessian[diagonal] += 1e-8 * hessian[diagonal].max()
        factor, _ = lapack.dpotrf(hessian, lower=1)
    return factor


class RidgePath(NamedTuple):
    """Linear fits ``level + (Z - centre) @ coef[a].T`` for each penalty."""

    centre: np.ndarray
    level: np.ndarray
    coef: np.ndarray

    def predict(self, Z: np.ndarray) -> np.ndarray:
        """Return the fits at rows, shape (n_alphas, n_rows, n_outputs)."""
        return self.level + (Z - self.centre) @ self.coef.transpose(0, 2, 1)


def ridge_path(
    Z: np.ndarray, Y: np.ndarray, weights: np.ndarray | None, alphas, signs=None
) -> RidgePath:
    """Fit with a free intercept and the penalty ``alpha tr(V) / d``, V the scatter of the rows.

    ``signs`` (n_outputs, d) are those that coefficients must have; 0 leaves one free.
    """
    share = np.ones(len(Z)) if weights is None else weights
    centre = share @ Z / share.sum()
    level = share @ Y / share.sum()
    root = np.sqrt(share)[:, None]
    A = root * (Z - centre)
    return path_of_sums(centre, level, A.T @ A, A.T @ (root * (Y - level)), alphas, signs)


def path_of_sums(
    centre, level, scatter: np.ndarray, products: np.ndarray, alphas, signs=None
) -> RidgePath:
    """Fit from the means of rows and targets, the scatter V and sum_i w_i (z_i - centre) y_i'."""
    d = len(scatter)
    unit = np.trace(scatter) / d
    coef = []
    for alpha in alphas:
        # One Cholesky factor per penalty costs a tenth of an eigendecomposition.
        penalised = scatter.copy()
        penalised.flat[:: d + 1] += max(max(alpha, _LEAST_ALPHA) * unit, np.finfo(float).tiny)
        if signs is not None:
            # Least squares of the factor have the same minimum, also under constraints.
            root = linalg.cholesky(penalised, lower=True)
            right = linalg.solve_triangular(root, products, lower=True)
            lower, upper = np.where(signs > 0, 0.0, -np.inf), np.where(signs < 0, 0.0, np.inf)
            found = [
                lsq_linear(root.T, one, bounds, method="bvls").x
                for one, *bounds in zip(right.T, lower, upper, strict=True)
            ]
            coef.append(np.stack(found))
            continue
        factor = cho_factor(penalised, overwrite_a=True, check_finite=False)
        coef.append(cho_solve(factor, products, check_finite=False).T)
    return RidgePath(centre, level, np.stack(coef))


class Minimum(NamedTuple):
    """Where a minimisation ended; ``converged`` means the gradient fell below its bound."""

    point: np.ndarray
    value: float
    n_iter: int
    converged: bool


def run_steps(steps: Generator[Any, Any, Any], evaluate: Callable[[Any], Any]) -> Any:
    """Send the results of ``evaluate`` to a generator until it returns; return its value."""
    try:
        request = next(steps)
        while True:
            request = steps.send(evaluate(request))
    except StopIteration as end:
        return end.value


def lbfgs_steps(
    start: np.ndarray,
    precondition: Callable[[np.ndarray], np.ndarray],
    *,
    gradient_tol: float,
    max_iter: int,
    memory: int = 15,
) -> Generator[np.ndarray, tuple[float, np.ndarray], Minimum]:
    """Minimise a convex function until its largest gradient entry is at most ``gradient_tol``.

    Yields the points at which value and gradient are needed, so that many minimisations can share
    one pass over the rows. ``precondition`` applies a fixed, positive definite approximation of the
    inverse Hessian; it replaces the multiple of the identity in the two-loop recursion (Nocedal
    and Wright, "Numerical Optimization", 2006, algorithm 7.4). For a loss of linear scores it
    costs one Gram matrix, and a unit step is then nearly always accepted.
    """
    point = np.array(start, dtype=np.float64)
    value, gradient, *_ = yield point
    pairs: deque[tuple[np.ndarray, np.ndarray, float]] = deque(maxlen=memory)
    scale = 1.0
    for iteration in range(max_iter):
        if np.abs(gradient).max() <= gradient_tol:
            return Minimum(point, float(value), iteration, True)
        direction = -_two_loops(gradient, pairs, precondition, scale)
        step = yield from _backtrack(point, value, gradient, direction)
        if step is None:
            break
        moved, (new_value, new_gradient, *_) = step
        difference, change = moved - point, new_gradient - gradient
        curvature = difference @ change
        # Rounding can take the curvature of a convex function below zero near the minimum.
        if curvature > 1e-14 * np.linalg.norm(difference) * np.linalg.norm(change):
            pairs.append((difference, change, 1.0 / curvature))
            scale = curvature / (change @ precondition(change))
        point, value, gradient = moved, new_value, new_gradient
    else:
        iteration = max_iter
    return Minimum(point, float(value), iteration, bool(np.abs(gradient).max() <= gradient_tol))


def _two_loops(gradient, pairs, precondition, scale):
    """Apply the quasi-Newton inverse Hessian to the gradient."""
    q = gradient.copy()
    shares = []
    for difference, change, inverse in reversed(pairs):
        share = inverse * (difference @ q)
        shares.append(share)
        q -= share * change
    q = scale * precondition(q)
    for (difference, change, inverse), share in zip(pairs, reversed(shares), strict=True):
        q += difference * (share - inverse * (change @ q))
    return q


def _backtrack(point, value, gradient, direction):
    """Shorten the step until the value falls enough; ``None`` when rounding leaves no descent."""
    slope = gradient @ direction
    slack = 4 * np.finfo(float).eps * abs(value)
    step = 1.0
    for _ in range(_MAX_HALVINGS):
        moved = point + step * direction
        found = yield moved
        if found[0] <= value + _SUFFICIENT_DECREASE * step * slope + slack:
            return moved, found
        # Minimum of the parabola through both values and the slope, kept within [0.1, 0.5] steps.
        parabola = -slope * step**2 / (2 * (found[0] - value - step * slope))
        step = min(max(parabola, 0.1 * step), 0.5 * step)
    return None


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
    **options: Any,
) -> LinearFit:
    r"""Minimise the penalised log-loss until no gradient entry exceeds ``tol * sum(weights)``.

    Options are those of :func:`logistic_steps`. ``C`` of scikit-learn's
    ``LogisticRegression`` is ``1 / alpha``; the intercept is not penalised there either. Two
    classes give one vector, the log-odds of class 1. With three or
    more classes, a class may have no rows.
    """
    X = X if sparse.issparse(X) else np.ascontiguousarray(X, dtype=np.float64)
    if sample_weight is None:
        weights = np.ones(X.shape[0])
    else:
        weights = np.ascontiguousarray(sample_weight, dtype=np.float64)
    blocks = multinomial_blocks(X, codes, weights, n_classes) if n_classes > 2 else []

    def evaluate(request):
        if request is None:
            return (gram_sums(X, weights),)
        if blocks:
            return multinomial_value_gradient(request, blocks, n_classes)
        return _binary_sums(X, codes, weights, request)

    options["is_sparse"] = sparse.issparse(X)
    return run_steps(logistic_steps(weights.sum(), X.shape[1], n_classes, **options), evaluate)


def logistic_sums(
    X: np.ndarray, codes: np.ndarray, weights: np.ndarray, n_classes: int, request: Request
) -> tuple:
    """Return the sums of some rows: the Gram matrix, or loss, gradient and curvature."""
    if request is None:
        return (gram_sums(X, weights),)
    if n_classes > 2:
        rows = multinomial_blocks(X, codes, weights, n_classes)
        return multinomial_value_gradient(request, rows, n_classes)
    value, gradient, curvature = _binary_sums(X, codes, weights, request)
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
    start: tuple[np.ndarray, np.ndarray] | None = None,
    fit_intercept: bool = True,
    tol: float = 1e-4,
    max_iter: int = 200,
    is_sparse: bool = False,
) -> Steps:
    """Request sums until the gradient is small; return the :class:`LinearFit`.

    ``start`` and what is returned have one row for two classes, else one for each class.
    """
    shape = (n_features + 1, 1 if n_classes == 2 else n_classes)
    table = np.zeros(shape)
    if start is not None:
        table[:-1], table[-1] = start[0].T, start[1]
    bounds: dict[str, Any] = {"gradient_tol": tol * total_weight, "max_iter": max_iter}
    if n_classes == 2 and n_features <= NEWTON_FEATURES and not is_sparse:
        steps = _newton_steps(table[:, 0], alpha, fit_intercept, **bounds)
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
    """Add the penalty to the values and gradients that a minimisation receives."""
    try:
        point = next(steps)
        while True:
            value, gradient, *curvature = yield point
            coef = point.reshape(shape)[:-1]
            gradient = gradient.reshape(shape).copy()
            gradient[:-1] += alpha * coef
            if not fit_intercept:
                gradient[-1] = 0.0
            value += 0.5 * alpha * np.sum(coef * coef)
            point = steps.send((value, gradient.ravel(), *curvature))
    except StopIteration as end:
        return end.value


def _newton_steps(start, alpha, fit_intercept, gradient_tol, max_iter):
    """Damped Newton; the curvature, an array or a function, is looked at where a step begins."""
    parameters = np.array(start, dtype=np.float64)
    value, gradient, curvature = yield parameters
    converged, iteration = False, 0
    for iteration in range(max_iter + 1):
        converged = bool(np.abs(gradient).max() <= gradient_tol)
        if converged or iteration == max_iter:
            break
        hessian = curvature() if callable(curvature) else curvature.copy()
        if not fit_intercept:
            hessian[-1, :-1] = hessian[:-1, -1] = 0.0
        direction = -cho_solve((penalised_factor(hessian, alpha), True), gradient)
        step = yield from _backtrack(parameters, value, gradient, direction)
        if step is None:  # no descent is possible in double precision
            break
        parameters, (value, gradient, curvature) = step
    return Minimum(parameters, float(value), iteration, converged)


def multinomial_value_gradient(
    parameters: np.ndarray, blocks: list[tuple], n_classes: int
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


def newton_logistic(
    Z: np.ndarray,
    positive: np.ndarray,
    negative: np.ndarray,
    theta: np.ndarray,
    alpha: float,
    tol: float = 1e-10,
) -> np.ndarray:
    r"""Fit labels of both signs at every row by Newton's method from ``theta``.

    .. math:: \sum_i a_i \ln(1 + e^{-z_i^\top\theta}) + b_i \ln(1 + e^{z_i^\top\theta})
              + \tfrac{\alpha}{2}\|\theta_{1..d}\|^2

    with ``a`` = ``positive``, ``b`` = ``negative`` and the offset, last in ``theta``, free. The
    value never rises; a step that rounding keeps from lowering it ends the search.
    """
    total = positive + negative

    def evaluate(theta):
        scores = Z @ theta
        value = positive @ np.logaddexp(0.0, -scores) + negative @ np.logaddexp(0.0, scores)
        share = expit(scores)
        curvatures = total * share * (1.0 - share)
        gradient = Z.T @ (total * share - positive)
        return float(value), gradient, lambda: (Z * curvatures[:, None]).T @ Z

    steps = _newton_steps(theta, alpha, True, np.sqrt(tol) * total.sum(), 100)
    penalised = _penalised_steps(steps, (len(theta), 1), alpha, True)
    return run_steps(penalised, evaluate).point


# --- leave-one-out residuals and evidence of ridge regression ---

_LOG_2PI = np.log(2.0 * np.pi)


@dataclass(frozen=True)
class RidgeSummary:
    """What :func:`ridge_summary` finds out."""

    leave_one_out: np.ndarray
    fitted: np.ndarray
    effective_parameters: float


def _centre(X, y, weight, fit_intercept):
    if not fit_intercept:
        return X, y, np.zeros(X.shape[1]), 0.0
    share = weight / weight.sum()
    x_mean, y_mean = share @ X, float(share @ y)
    return X - x_mean, y - y_mean, x_mean, y_mean


def ridge_summary(
    X: np.ndarray, y: np.ndarray, weight: np.ndarray, alpha: float, *, fit_intercept: bool
) -> RidgeSummary:
    """Fitted values, leave-one-out predictions (equation 23) and effective parameters of ridge.

    A row of weight ``w`` stands for ``w`` rows, of which one is left out (the whole row where
    ``w < 1``); the intercept is not penalised. ``alpha = 0`` is least squares.
    """
    Xc, yc, _, y_mean = _centre(X, y, weight, fit_intercept)
    root = np.sqrt(weight)[:, None]
    U, s, Vt = linalg.svd(root * Xc, full_matrices=False)
    keep = s > s.max(initial=0.0) * max(Xc.shape) * np.finfo(float).eps
    U, s, Vt = U[:, keep], s[keep], Vt[keep]
    coef = Vt.T @ (s / (s**2 + alpha) * (U.T @ (root[:, 0] * yc)))
    fitted = Xc @ coef + y_mean
    leverage = ((Xc @ Vt.T) ** 2 / (s**2 + alpha)).sum(axis=1)
    if fit_intercept:
        leverage = leverage + 1.0 / weight.sum()
    removed = np.minimum(weight, 1.0) * leverage
    # A leverage of one means the row alone fixes a coefficient: its prediction without it is free.
    left = np.maximum(1.0 - removed, 1e-10)
    return RidgeSummary(
        leave_one_out=y - (y - fitted) / left,
        fitted=fitted,
        effective_parameters=float((s**2 / (s**2 + alpha)).sum()) + float(fit_intercept),
    )


def ridge_log_evidence(
    X: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    alpha: float,
    *,
    fit_intercept: bool,
    noise_variance: float | None = None,
) -> float:
    """Log density of ``y`` under ``N(0, s2 I + X X' s2 / alpha)``, the prior that ridge implies.

    ``alpha`` is ridge's penalty, so the coefficients have prior variance ``s2 / alpha``. Without
    ``noise_variance`` the noise ``s2`` takes its most likely value. An intercept has a flat prior,
    the same for every model, and is integrated out. A row of weight ``w`` stands for ``w`` rows.
    """
    Xc, yc, _, _ = _centre(X, y, weight, fit_intercept)
    n = weight.sum() - float(fit_intercept)
    A = Xc.T @ (weight[:, None] * Xc) / alpha
    A[np.diag_indices_from(A)] += 1.0
    factor = linalg.cho_factor(A, lower=True)
    moment = Xc.T @ (weight * yc)
    # Woodbury: y'(I + XX'/alpha)^-1 y = y'y - y'X A^-1 X'y / alpha, and one determinant for both.
    quadratic = weight @ yc**2 - moment @ linalg.cho_solve(factor, moment) / alpha
    log_determinant = 2.0 * np.log(np.diag(factor[0])).sum()
    variance = quadratic / n if noise_variance is None else noise_variance
    result = n * (_LOG_2PI + np.log(variance)) + log_determinant + quadratic / variance
    if fit_intercept:
        result += np.log(weight.sum())
    return float(-0.5 * result)
