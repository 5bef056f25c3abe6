r"""Weighted logistic regression of two or more classes, with warm starts.

More than two classes: with scores :math:`s_{ic} = \beta_c^\top x_i + b_c` and probabilities
:math:`p_{ic} = e^{s_{ic}} / \sum_k e^{s_{ik}}` the objective is :math:`-\sum_i w_i \log p_{i y_i} +
\frac\alpha2 \sum_c |\beta_c|^2`. Its Hessian is below :math:`\frac12 (I - \frac1c 11^\top) \otimes
X^\top W X` (Böhning, "Multinomial logistic regression algorithm", 1992), whose factor serves as the
metric of a quasi-Newton method. Two classes take the binary form with one vector.
"""

import numpy as np
from scipy import sparse

from vicinal._base import row_blocks
from vicinal._kernels._jit import fast_jit
from vicinal._kernels.linear._lbfgs import minimize_lbfgs
from vicinal._kernels.linear._objective import LinearFit, fit_margin_model, gram_metric

# Up to here a Newton step, which costs one Gram matrix, beats the passes that it saves.
NEWTON_FEATURES = 200


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
    n_features = X.shape[1]
    if sample_weight is None:
        weights = np.ones(X.shape[0])
    else:
        weights = np.ascontiguousarray(sample_weight, dtype=np.float64)
    if n_classes == 2:
        parameters = np.zeros(n_features + 1)
        if start is not None:
            parameters[:-1], parameters[-1] = start[0][0], start[1][0]
        minimum = fit_margin_model(
            X,
            np.where(codes == 1, 1.0, -1.0),
            weights,
            logistic_loss,
            alpha=alpha,
            curvature_bound=0.25,
            newton_features=NEWTON_FEATURES,
            start=parameters,
            fit_intercept=fit_intercept,
            tol=tol,
            max_iter=max_iter,
        )
        table = minimum.point[:, None]
    else:
        table = np.zeros((n_features + 1, n_classes))
        if start is not None:
            table[:-1], table[-1] = start[0].T, start[1]
        minimum = _fit_multinomial(X, codes, weights, table, alpha, fit_intercept, tol, max_iter)
        table = minimum.point.reshape(n_features + 1, n_classes)
    return LinearFit(
        np.ascontiguousarray(table[:-1].T),
        table[-1].copy(),
        minimum.value,
        minimum.n_iter,
        minimum.converged,
    )


def multinomial_value_gradient(
    parameters: np.ndarray,
    blocks: list[tuple],
    n_classes: int,
    alpha: float,
) -> tuple[float, np.ndarray]:
    """Return the objective and its gradient at ``parameters``, a flat (n_features + 1, n_classes).

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
    value += 0.5 * alpha * np.sum(coef * coef)
    gradient[:-1] += alpha * coef
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


def _fit_multinomial(X, codes, weights, table, alpha, fit_intercept, tol, max_iter):
    n_classes = table.shape[1]
    blocks = multinomial_blocks(X, codes, weights, n_classes)
    # The curvature at equal probabilities; the quasi-Newton method rescales it as it goes.
    metric = gram_metric(X, weights, (1.0 - 1.0 / n_classes) / n_classes, alpha)

    def value_gradient(parameters):
        value, gradient = multinomial_value_gradient(parameters, blocks, n_classes, alpha)
        if not fit_intercept:
            gradient[-n_classes:] = 0.0
        return value, gradient

    def precondition(q):
        solved = metric(q.reshape(table.shape))
        if not fit_intercept:
            solved[-1] = 0.0
        return solved.ravel()

    return minimize_lbfgs(
        value_gradient,
        table.ravel(),
        precondition,
        gradient_tol=tol * weights.sum(),
        max_iter=max_iter,
    )


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
