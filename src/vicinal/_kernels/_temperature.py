"""Probabilities from scores: softmax(score / T) with T of least log loss."""

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

_LOG_BOUNDS = (np.log(1e-3), np.log(1e3))


def temperature_loss(
    scores: np.ndarray, codes: np.ndarray, temperature: float, weights: np.ndarray | None = None
) -> float:
    """Return the mean log loss of softmax(scores / temperature)."""
    log_proba = log_softmax(scores / temperature, axis=1)[np.arange(len(codes)), codes]
    return float(-np.average(log_proba, weights=weights))


def fit_temperature(
    scores: np.ndarray, codes: np.ndarray, weights: np.ndarray | None = None
) -> float:
    """Return the temperature of least log loss, searched between 0.001 and 1000.

    The loss is convex in 1 / T, hence has one minimum in log T.
    """
    found = minimize_scalar(
        lambda log_t: temperature_loss(scores, codes, np.exp(log_t), weights),
        bounds=_LOG_BOUNDS,
        method="bounded",
        options={"xatol": 1e-4},
    )
    return 1.0 / _polished(float(np.exp(-found.x)), scores, codes, weights)


def _polished(slope: float, scores, codes, weights) -> float:
    """Sharpen 1 / T by Newton's method, so that rounding of the scores does not show in it."""
    share = np.ones(len(codes)) if weights is None else weights
    own = scores[np.arange(len(codes)), codes]
    lowest, highest = np.exp(-_LOG_BOUNDS[1]), np.exp(-_LOG_BOUNDS[0])
    for _ in range(20):
        p = softmax(slope * scores, axis=1)
        centre = (p * scores).sum(axis=1)
        curvature = share @ ((p * scores**2).sum(axis=1) - centre**2)
        if curvature <= 0.0:
            break
        new = float(np.clip(slope - share @ (centre - own) / curvature, lowest, highest))
        done = abs(new - slope) <= 1e-13 * slope
        slope = new
        if done:
            break
    return slope


def temperature_proba(scores: np.ndarray, temperature: float) -> np.ndarray:
    """Return softmax(scores / temperature)."""
    return softmax(scores / temperature, axis=1)


def clipped_proba(scores: np.ndarray) -> np.ndarray:
    """Return negative scores cut to zero and rows scaled to sum one (order is kept)."""
    positive = np.maximum(scores, 0.0)
    return positive / positive.sum(axis=1, keepdims=True)


def fit_slope(scores: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> float:
    r"""Return the slope ``a > 0`` for which ``softmax(a * scores)`` is most likely.

    The targets are smoothed as in Platt's method, class ``l`` of weight :math:`W_l` having
    :math:`(W_l + 1)/(W_l + L)`, so that the slope stays finite for separated classes. Since
    only a slope is fitted, the order of the scores of a row never changes.
    """
    n_classes = scores.shape[1]
    counts = np.bincount(codes, weights=weights, minlength=n_classes)
    targets = np.repeat((1.0 / (counts + n_classes))[codes][:, None], n_classes, axis=1)
    targets[np.arange(len(codes)), codes] *= counts[codes] + 1.0
    spread = np.abs(scores - scores.mean(axis=1, keepdims=True)).max()
    if spread == 0.0:
        return 1.0
    # In units of the spread, the slope of any useful set of scores lies well inside these bounds.
    z, lowest, highest = scores / spread, 1e-3, 1e4
    slope = 1.0
    for _ in range(100):
        log_p = log_softmax(slope * z, axis=1)
        p = np.exp(log_p)
        center = (p * z).sum(axis=1)
        grad = weights @ (center - (targets * z).sum(axis=1))
        curve = weights @ ((p * z**2).sum(axis=1) - center**2)
        if curve <= 0.0:
            break
        # The loss is convex in the slope, but far from the optimum it is nearly straight.
        new = np.clip(slope - grad / curve, slope / 4.0, 4.0 * slope)
        new = float(np.clip(new, lowest, highest))
        done = abs(new - slope) <= 1e-12 * slope
        slope = new
        if done:
            break
    return slope / float(spread)
