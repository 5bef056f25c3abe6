"""Weights of models on the simplex ``{w >= 0, sum w = 1}`` (equations 18 to 22)."""

import numpy as np
from scipy.special import softmax


def stacking_weights(
    log_density: np.ndarray, share: np.ndarray, *, tol: float = 1e-10, max_iter: int = 20_000
) -> tuple[np.ndarray, int]:
    """Maximise ``sum_i share_i log sum_m w_m exp(ell_im)`` over the simplex (equation 21).

    Returns weights and iterations; ``share`` are sample weights that sum to one. Each squared
    extrapolation (SQUAREM, one cycle of three EM steps) is kept only if it does not lower the
    objective, so the rise stays monotone.
    """
    n_models = log_density.shape[1]
    weights = np.full(n_models, 1.0 / n_models)
    # Densities relative to each row's best cannot overflow and leave the responsibilities alone.
    density = np.exp(log_density - log_density.max(axis=1, keepdims=True))

    def score(w):
        mixture = density @ w
        return float(share @ np.log(mixture)) if mixture.min() > 0.0 else -np.inf

    def step(w):
        return w * (share / (density @ w) @ density)

    value = score(weights)
    iteration = 0
    while iteration < max_iter:
        iteration += 1
        first = step(weights)
        second = step(first)
        change, bend = first - weights, second - 2.0 * first + weights
        best = second
        if np.any(bend):
            stretch = -max(1.0, float(np.linalg.norm(change) / np.linalg.norm(bend)))
            leap = weights - 2.0 * stretch * change + stretch**2 * bend
            leap = np.maximum(leap, 0.1 * second)
            leap = step(leap / leap.sum())
            if score(leap) > score(second):
                best = leap
        new_value = score(best)
        gained, weights, value = new_value - value, best, new_value
        if gained < tol:
            break
    # EM approaches a weight of zero without reaching it; whatever the objective does not miss goes.
    for model in np.argsort(weights, kind="stable")[:-1]:
        without = np.where(np.arange(n_models) == model, 0.0, weights)
        without /= without.sum()
        new_value = score(without)
        if new_value < value - tol:
            break
        weights, value = without, max(value, new_value)
    return weights / weights.sum(), iteration


def project_to_simplex(v: np.ndarray) -> np.ndarray:
    """Nearest point of the simplex."""
    ordered = np.sort(v)[::-1]
    excess = np.cumsum(ordered) - 1.0
    count = np.arange(1, len(v) + 1)
    last = np.flatnonzero(ordered - excess / count > 0)[-1]
    return np.maximum(v - excess[last] / (last + 1), 0.0)


def stacked_mean_weights(
    predictions: np.ndarray,
    y: np.ndarray,
    share: np.ndarray,
    *,
    tol: float = 1e-12,
    max_iter: int = 50_000,
) -> np.ndarray:
    """Minimise ``sum_i share_i (y_i - sum_m w_m f_im)^2`` over the simplex (equation 22).

    Accelerated projected gradients with restarts; stops when the duality gap falls below ``tol``
    times the variance of the residuals at equal weights.
    """
    # On the simplex y - P w = (y 1' - P) w, so the objective is a quadratic form of residuals.
    residual = y[:, None] - predictions
    A = residual.T @ (share[:, None] * residual)
    weights = np.full(A.shape[0], 1.0 / A.shape[0])
    scale = max(float(weights @ A @ weights), np.finfo(float).tiny)
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


def information_weights(log_evidence: np.ndarray) -> np.ndarray:
    """Weights proportional to ``exp(log_evidence)`` (equations 18 and 19)."""
    return softmax(log_evidence)


def bootstrapped_weights(log_density: np.ndarray, counts: np.ndarray, draws) -> np.ndarray:
    """Pseudo-BMA+ (equation 20): mean over ``draws`` of the softmax of reweighted log scores.

    Each of ``draws`` is a Dirichlet vector over the rows; ``counts`` are the rows' weights.
    """
    total = counts.sum()
    return np.mean([softmax(total * (draw @ log_density)) for draw in draws], axis=0)


def effective_number(weights: np.ndarray) -> float:
    """Exponential of the entropy: 1 for a single model, M for equal weights of M models."""
    positive = weights[weights > 0.0]
    return float(np.exp(-(positive * np.log(positive)).sum()))
