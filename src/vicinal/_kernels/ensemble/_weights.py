r"""Weights of models on the simplex (equations 18 to 22), and weighted averages of predictions.

Model m gives :math:`p_m(c|x)`; calibrated by a slope :math:`a_m` on its log probabilities and
sharpened by a factor b that all models share, :math:`q_m = \operatorname{softmax}(b a_m \log p_m)`:
a mean of calibrated probabilities is underconfident (Gneiting and Ranjan 2013), which b corrects.
The weighted average is :math:`\sum_m w_m q_m(c|x)` with :math:`w \ge 0, \sum_m w_m = 1`, so that
:math:`w_m q_m` are contributions in units of probability. Regressors are averaged in the same way.
"""

from collections.abc import Callable

import numpy as np
from scipy.special import softmax

_MAX_QUANTILE_STEPS = 100


def log_proba(proba: np.ndarray, n_rows: int) -> np.ndarray:
    """Return log probabilities with a prior of one sample, spread over the C classes.

    ``(n p + 1 / C) / (n + 1)`` is never 0, and the order of the classes does not change.
    """
    n_classes = proba.shape[-1]
    return np.log((n_rows * np.maximum(proba, 0.0) + 1.0 / n_classes) / (n_rows + 1.0))


def few_weights(
    solve: Callable[[np.ndarray], np.ndarray], n_models: int, *, least: float, most: int
) -> np.ndarray:
    """Return weights of which at most ``most`` are positive, each at least ``least``.

    ``solve(models)`` returns weights of sum one of some models. Models below the bound are removed
    together, then the lightest ones one by one.
    """
    kept = np.arange(n_models)
    while True:
        weights = solve(kept)
        light = weights < least
        if light.any() and len(kept) > 1:
            # The heaviest stays, also where all of many models are below the bound.
            light[weights.argmax()] = False
        elif len(kept) > most:
            light = np.arange(len(kept)) == weights.argmin()
        else:
            out = np.zeros(n_models)
            out[kept] = weights
            return out
        kept = kept[~light]


def mean_and_error(
    errors: np.ndarray,
    share: np.ndarray,
    units: np.ndarray,
    *,
    n_learned: float = np.inf,
    step: float = 0.0,
) -> tuple[float, float]:
    r"""Return the weighted mean and its standard error, entries of one unit counted as one.

    The error of a model fitted to ``n_learned`` units varies with the test rows and with the
    training rows. Held-out predictions show only the first. With :math:`s^2` the variance of the
    errors of n units, the variance of the mean as an estimate of that model's error is
    :math:`s^2 (1 / n + 1 / n_{learned})` [1]_.

    Errors that are counts, each of size ``step``, may all be zero by chance, so the variance is at
    least that of one error among n units. With five folds the standard error is then 1.5 / n, and
    twice it is the rule of three: 3 / n for an event not seen in n trials.

    References
    ----------
    .. [1] C. Nadeau and Y. Bengio, "Inference for the generalization error", Machine Learning 52
       (2003), 239-281. :doi:`10.1023/A:1024068626366`
    """
    counted = share > 0.0  # a class may have weight zero
    errors, share = errors[counted], share[counted]
    names, unit = np.unique(units[counted], return_inverse=True)
    n = len(names)
    mass = np.bincount(unit, share)
    means = np.bincount(unit, share * errors) / mass
    mean = min(float(mass @ means / mass.sum()), float(means.max()))  # not above it by rounding
    mass = mass / mass.sum()
    variance = mass**2 @ (means - mean) ** 2 * n / max(n - 1, 1)
    variance = max(variance, step**2 * (mass @ mass) / n)
    return mean, float(np.sqrt(variance * (1.0 + n / n_learned)))


def stacking_weights(log_density: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Maximise ``sum_i share_i log sum_m w_m exp(ell_im)`` over the simplex (equation 21).

    ``share`` are sample weights that sum to one. Densities relative to each row's best cannot
    overflow.
    """
    density = np.exp(log_density - log_density.max(axis=1, keepdims=True))
    return pool_weights(density, share, ridge=0.0)


def project_to_simplex(v: np.ndarray) -> np.ndarray:
    """Nearest point of the simplex."""
    ordered = np.sort(v)[::-1]
    excess = np.cumsum(ordered) - 1.0
    count = np.arange(1, len(v) + 1)
    last = np.flatnonzero(ordered - excess / count > 0)[-1]
    return np.maximum(v - excess[last] / (last + 1), 0.0)


def stacked_mean_weights(predictions: np.ndarray, y: np.ndarray, share: np.ndarray) -> np.ndarray:
    """Minimise ``sum_i share_i (y_i - sum_m w_m f_im)^2`` over the simplex (equation 22)."""
    # On the simplex y - P w = (y 1' - P) w, so the objective is a quadratic form of residuals.
    residual = y[:, None] - predictions
    return _simplex_minimum(residual.T @ (share[:, None] * residual))


def stacked_quantile_weights(
    predictions: np.ndarray, y: np.ndarray, share: np.ndarray, level: float
) -> np.ndarray:
    """Minimise the quantile loss of ``y - sum_m w_m f_m`` over the simplex.

    The loss is ``|r| / 2 + (level - 1/2) r``, and ``|r|`` is below the parabola that touches it at
    the last residual; its minimum over the simplex is the next step, so that no step is worse.
    """
    residual = y[:, None] - predictions
    lean = (level - 0.5) * share @ residual
    weights = np.full(predictions.shape[1], 1.0 / predictions.shape[1])
    floor = 1e-3 * max(float(share @ np.abs(residual).mean(axis=1)), np.finfo(float).tiny)
    before = np.inf
    for _ in range(_MAX_QUANTILE_STEPS):
        r = residual @ weights
        loss = float(share @ (0.5 * np.abs(r) + (level - 0.5) * r))
        if loss > (1.0 - 1e-5) * before:
            break
        before = loss
        curve = residual.T @ ((share / (4.0 * np.maximum(np.abs(r), floor)))[:, None] * residual)
        # A linear term is a quadratic form where weights add up to one.
        weights = _simplex_minimum(curve + 0.5 * (lean + lean[:, None]), weights, tol=1e-4)
    return weights


def _simplex_minimum(
    A: np.ndarray, start: np.ndarray | None = None, *, tol: float = 1e-12, max_iter: int = 50_000
) -> np.ndarray:
    """Minimise ``w' A w``, convex on the simplex.

    Accelerated projected gradients with restarts; stops when the duality gap falls below ``tol``
    times the value at the start, by default equal weights.
    """
    weights = np.full(A.shape[0], 1.0 / A.shape[0]) if start is None else start
    scale = max(float(abs(weights @ A @ weights)), np.finfo(float).tiny)
    bound = float(np.linalg.eigvalsh(A)[-1])
    if bound <= 0.0:
        return weights
    ahead, momentum = weights, 1.0
    for _ in range(max_iter):
        slope = A @ weights
        if weights @ slope - slope.min() <= tol * scale:
            break
        new = project_to_simplex(ahead - A @ ahead / bound)
        if (ahead - new) @ (new - weights) > 0.0:
            momentum, ahead = 1.0, weights
            new = project_to_simplex(weights - slope / bound)
        next_momentum = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * momentum**2))
        ahead = new + (momentum - 1.0) / next_momentum * (new - weights)
        weights, momentum = new, next_momentum
    return weights


def bootstrapped_weights(log_density: np.ndarray, counts: np.ndarray, row_weights) -> np.ndarray:
    """Pseudo-BMA+ (equation 20): mean softmax of log scores over ``row_weights``.

    Each of ``row_weights`` is a Dirichlet vector over the rows; ``counts`` are sample weights.
    """
    total = counts.sum()
    return np.mean([softmax(total * (one @ log_density)) for one in row_weights], axis=0)


def effective_number(weights: np.ndarray) -> float:
    """Exponential of the entropy: 1 for a single model, M for equal weights of M models."""
    positive = weights[weights > 0.0]
    return float(np.exp(-(positive * np.log(positive)).sum()))


def pool_weights(
    density: np.ndarray, share: np.ndarray, *, ridge: float, tol: float = 1e-9
) -> np.ndarray:
    r"""Return weights of least log loss of a weighted average, by Newton's method.

    They minimise the convex :math:`-\sum_i s_i \log \sum_m a_m q_{im} + \sum_m a_m +
    \frac{\gamma}{2} |a|^2` over :math:`a \ge 0`, scaled to sum one. Without the penalty the sum of
    a is one at the minimum; with it, models that agree share their weight.

    Parameters
    ----------
    density : ndarray of shape (n_rows, n_models)
        Probability of each row's class under each model, positive.
    share : ndarray of shape (n_rows,)
        Weights of the rows, of sum one.
    ridge : float
        :math:`\gamma \ge 0`.
    tol : float, default=1e-9
        Largest violation of the optimality conditions.
    """
    n_models = density.shape[1]
    # Scaled row by row, densities cannot underflow; the minimum does not move.
    density = density / density.max(axis=1, keepdims=True)

    def objective(a):
        mixed = density @ a
        if mixed.min() <= 0.0:
            return np.inf
        return float(-share @ np.log(mixed) + a.sum() + 0.5 * ridge * (a @ a))

    a = np.full(n_models, 1.0 / n_models)
    value = objective(a)
    for _ in range(100):
        ratio = density / (density @ a)[:, None]
        gradient = 1.0 - share @ ratio + ridge * a
        free = (a > 0.0) | (gradient < 0.0)
        if np.abs(gradient[free]).max(initial=0.0) <= tol:
            break
        part = ratio[:, free]
        curvature = part.T @ (share[:, None] * part)
        # Identical models make it singular: add a small multiple of the identity.
        floor = max(ridge, 1e-10 * np.trace(curvature))
        direction = np.zeros(n_models)
        direction[free] = -np.linalg.solve(
            curvature + floor * np.eye(len(curvature)), gradient[free]
        )
        step = 1.0
        for _ in range(40):
            candidate = np.maximum(a + step * direction, 0.0)
            new_value = objective(candidate)
            if new_value <= value + 1e-4 * gradient @ (candidate - a):
                break
            step *= 0.5
        else:
            break
        a, value = candidate, new_value
    return a / a.sum()
