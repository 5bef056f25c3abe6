"""Probabilities from scores: softmax(a * score), a = 1 / T, of least log loss."""

from collections.abc import Callable

import numpy as np
from scipy.special import softmax


def fit_temperature(
    scores: np.ndarray, codes: np.ndarray, weights: np.ndarray | None = None
) -> float:
    """Return the temperature of least log loss: one over the slope to unsmoothed labels."""
    return 1.0 / fit_slope(scores, codes, weights, smooth=False)


def temperature_proba(scores: np.ndarray, temperature: float) -> np.ndarray:
    """Return softmax(scores / temperature)."""
    return softmax(scores / temperature, axis=1)


def fit_slope(
    scores: np.ndarray,
    codes: np.ndarray,
    weights: np.ndarray | None = None,
    *,
    smooth: bool = True,
) -> float:
    r"""Return the slope ``a > 0`` for which ``softmax(a * scores)`` is most likely.

    With ``smooth`` the targets are smoothed as in Platt's method, class ``l`` of weight
    :math:`W_l` having :math:`(W_l + 1)/(W_l + L)`, so that the slope stays finite for separated
    classes; without, it stops at ten thousand over the spread of the scores. The loss is convex in
    the slope: Newton's method, in steps of at most a factor of four. Since only a slope is fitted,
    the order of the scores of a row never changes.
    """
    n_classes = scores.shape[1]
    weights = np.ones(len(codes)) if weights is None else weights
    counts = np.bincount(codes, weights=weights, minlength=n_classes) if smooth else None
    spread = score_spread(scores)
    if spread == 0.0:
        return 1.0
    z = scores / spread
    targets = _targets(codes, n_classes, counts)
    return solve_slope(lambda slope: _derivatives(z, targets, weights, slope)) / spread


def score_spread(scores: np.ndarray) -> float:
    """Return the largest distance of a score from the mean of its row, 0 without rows."""
    return float(np.abs(scores - scores.mean(axis=1, keepdims=True)).max(initial=0.0))


def slope_derivatives(
    z: np.ndarray, codes: np.ndarray, weights: np.ndarray, counts: np.ndarray | None, slope: float
) -> np.ndarray:
    """Return first and second derivative of the loss of ``softmax(slope * z)``; they add over rows.

    ``counts`` are the weights of the classes in the whole table, for smoothed targets, or ``None``.
    """
    return _derivatives(z, _targets(codes, z.shape[1], counts), weights, slope)


def _targets(codes, n_classes: int, counts) -> np.ndarray:
    """Return one column per class, 1 where a row belongs to it, smoothed if counts are given."""
    targets = np.eye(n_classes)[codes]
    if counts is None:
        return targets
    return (1.0 + counts[codes, None] * targets) / (counts[codes, None] + n_classes)


def _derivatives(z, targets, weights, slope: float) -> np.ndarray:
    z = z - z.max(axis=1, keepdims=True)  # both derivatives are of differences within a row
    p = np.exp(slope * z)
    p /= p.sum(axis=1, keepdims=True)
    center = np.einsum("ic,ic->i", p, z)
    grad = weights @ (center - np.einsum("ic,ic->i", targets, z))
    return np.array([grad, weights @ (np.einsum("ic,ic,ic->i", p, z, z) - center**2)])


def solve_slope(derivatives: Callable[[float], np.ndarray]) -> float:
    """Return the slope of least loss, in units of one over the spread of the scores."""
    # In these units, the slope of any useful set of scores lies well inside the bounds.
    slope, lowest, highest = 1.0, 1e-3, 1e4
    for _ in range(100):
        grad, curve = derivatives(slope)
        if curve <= 0.0:
            break
        # The loss is convex in the slope, but far from the optimum it is nearly straight.
        new = np.clip(slope - grad / curve, slope / 4.0, 4.0 * slope)
        new = float(np.clip(new, lowest, highest))
        done = abs(new - slope) <= 1e-12 * slope
        slope = new
        if done:
            break
    return slope
