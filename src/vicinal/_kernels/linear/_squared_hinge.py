r"""L2-loss support vector machine: :math:`\phi(m) = \max(0, 1 - m)^2`, one class against the rest.

The loss has a curvature of 2 on the rows inside the margin and none outside, so that a Newton step
is a ridge regression on the active rows and ends in finitely many steps (Keerthi and DeCoste, "A
modified finite Newton method for fast solution of large scale linear SVMs", JMLR 6, 2005).
"""

import numpy as np
from scipy import sparse
from scipy.linalg import cho_solve

from vicinal._kernels._jit import fast_jit
from vicinal._kernels.linear._objective import (
    LinearFit,
    fit_margin_model,
    penalised_factor,
    weighted_gram,
)

# Newton steps see the active rows alone, which keeps them ahead up to many columns.
_NEWTON_FEATURES = 1500


def fit_squared_hinge(
    X: np.ndarray | sparse.csr_array,
    codes: np.ndarray,
    sample_weight: np.ndarray | None,
    n_classes: int,
    *,
    alpha: float,
    start: tuple[np.ndarray, np.ndarray] | None = None,
    fit_intercept: bool = True,
    tol: float = 1e-4,
    max_iter: int = 100,
) -> LinearFit:
    r"""Minimise :math:`\sum_i w_i \max(0, 1 - y_i(\beta^\top x_i + b))^2 + \frac\alpha2|\beta|^2`.

    Two classes take one vector with :math:`y_i = +1` for class 1; more take one problem per class,
    against the rest. ``start`` holds coefficients and intercepts of an earlier, similar fit. ``C``
    of scikit-learn's ``LinearSVC`` is ``1 / alpha``, but its intercept is penalised and ours is
    not. A class that is absent, or alone, gets the constant score -1 or +1.
    """
    X = X if sparse.issparse(X) else np.ascontiguousarray(X, dtype=np.float64)
    n_features = X.shape[1]
    if sample_weight is None:
        weights = np.ones(X.shape[0])
    else:
        weights = np.asarray(sample_weight, dtype=np.float64)
    positives = [1] if n_classes == 2 else range(n_classes)
    parameters = np.zeros((len(positives), n_features + 1))
    if start is not None:
        parameters[:, :-1], parameters[:, -1] = start
    elif fit_intercept and not sparse.issparse(X) and n_features <= _NEWTON_FEATURES:
        parameters[:] = _first_step(X, codes, weights, positives, alpha)
    value, n_iter, converged = 0.0, 0, True
    for row, positive in enumerate(positives):
        signs = np.where(codes == positive, 1.0, -1.0)
        minimum = fit_margin_model(
            X,
            signs,
            weights,
            squared_hinge_loss,
            alpha=alpha,
            curvature_bound=2.0,
            newton_features=_NEWTON_FEATURES,
            start=parameters[row],
            fit_intercept=fit_intercept,
            tol=tol,
            max_iter=max_iter,
        )
        parameters[row] = minimum.point
        value += minimum.value
        n_iter = max(n_iter, minimum.n_iter)
        converged &= minimum.converged
    return LinearFit(parameters[:, :-1].copy(), parameters[:, -1].copy(), value, n_iter, converged)


def _first_step(X, codes, weights, positives, alpha):
    """Return the Newton step from zero, where all rows are active: ridge regression on the signs.

    Its matrix is the same for all classes, so that one factor serves them all.
    """
    signs = np.where(codes[:, None] == np.asarray(positives), 1.0, -1.0) * weights[:, None]
    factor = penalised_factor(weighted_gram(X, 2.0 * weights), alpha)
    return cho_solve((factor, True), np.vstack([2.0 * (X.T @ signs), 2.0 * signs.sum(axis=0)])).T


@fast_jit
def squared_hinge_loss(scores, signs, weights, slopes, curvatures):
    """Return the loss and fill its first and second derivatives by the scores."""
    value = 0.0
    for i in range(len(scores)):
        gap = max(0.0, 1.0 - signs[i] * scores[i])
        value += weights[i] * gap * gap
        slopes[i] = -2.0 * weights[i] * signs[i] * gap
        curvatures[i] = 2.0 * weights[i] if gap > 0.0 else 0.0
    return value
