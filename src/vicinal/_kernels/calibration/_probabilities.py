"""Probabilities from scores: Platt's sigmoid, and slopes of a softmax."""

from collections.abc import Callable
from functools import partial
from typing import Any

import array_api_compat as compat
import numpy as np
from scipy.special import softmax

from vicinal._base import namespace
from vicinal._kernels.linear._regression import newton_logistic

# Quantiles of |score| at which scores may be clipped.
_REACHES = (1.0, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5)


def smoothed_targets(positive, weights) -> np.ndarray:
    """Return Platt's targets, (N+ + 1) / (N+ + 2) and 1 / (N- + 2)."""
    n_positive, n_negative = weights[positive].sum(), weights[~positive].sum()
    return np.where(positive, (n_positive + 1.0) / (n_positive + 2.0), 1.0 / (n_negative + 2.0))


def fit_saturated_platt(scores, positive, weights=None, *, c=1.0) -> tuple[float, float, float]:
    """Return (limit, A, B) of sigma(A clip(s, -limit, limit) + B).

    The limit is the quantile of |s|, from the median to the maximum, of least loss: very large
    scores need not mean more certainty.
    """
    weights = np.ones(len(scores)) if weights is None else weights
    targets = smoothed_targets(positive, weights)
    options = []
    for reach in _REACHES:
        limit = float(np.quantile(np.abs(scores), reach, weights=weights, method="inverted_cdf"))
        cut = np.clip(scores, -limit, limit)
        A, B = fit_platt(cut, positive, weights, c=c)
        f = A * cut + B
        loss = weights @ (np.logaddexp(0.0, f) - targets * f)
        options.append((float(loss), limit, A, B))
    best = min(options, key=lambda option: option[0])
    return best[1:]


def fit_platt(scores, positive, weights=None, *, c=1.0) -> tuple[float, float]:
    r"""Return (A, B) of sigma(A s + B).

    Minimises the log loss against Platt's smoothed targets, (N+ + 1) / (N+ + 2) and 1 / (N- + 2),
    plus A^2 / (2c), by Newton's method with halving steps; N+ and N- count weights.
    """
    weights = np.ones(len(scores)) if weights is None else weights
    n_positive, n_negative = weights[positive].sum(), weights[~positive].sum()
    targets = smoothed_targets(positive, weights)
    design = np.column_stack([scores, np.ones(len(scores))])
    start = np.array([0.0, np.log((n_positive + 1.0) / (n_negative + 1.0))])
    masses = weights * targets, weights * (1.0 - targets)
    A, B = newton_logistic(design, *masses, start, 1.0 / c, tol=1e-20)
    return float(A), float(B)


# Number of scores in a batch, so that it fits the processor's cache.
_BATCH = 1 << 16


def fit_temperature(
    scores: np.ndarray, codes: np.ndarray, weights: np.ndarray | None = None
) -> float:
    """Return the temperature of least log loss: one over the slope to unsmoothed labels."""
    return float(fit_temperatures(scores[None], codes, weights)[0])


def fit_temperatures(
    scores: np.ndarray, codes: np.ndarray, weights: np.ndarray | None = None
) -> np.ndarray:
    """Return the same for a stack of scores, shape (n_candidates, n_samples, n_classes)."""
    return 1.0 / fit_slopes(scores, codes, weights, smooth=False)


def temperature_proba(scores: np.ndarray, temperature: float) -> np.ndarray:
    """Return softmax(scores / temperature)."""
    return softmax(scores / temperature, axis=1)


def fit_slope(scores: Any, codes: Any, weights: Any) -> float:
    r"""Return the slope ``a > 0`` for which ``softmax(a * scores)`` is most likely.

    The target of class ``l`` of weight :math:`W_l` is :math:`(W_l + 2/L)/(W_l + 2)` (Platt's
    targets for L = 2 classes), so that the slope stays finite for separated classes. The loss is
    convex in the slope and minimised by Newton's method, in steps of at most a factor of four.
    Arrays may be of any library.
    """
    counts = weights @ _indicators(codes, scores)
    spread = score_spread(scores) or 1.0
    return solve_slope(partial(slope_derivatives, scores / spread, codes, weights, counts)) / spread


def fit_slopes(
    scores: np.ndarray, codes: np.ndarray, weights: np.ndarray | None = None, *, smooth: bool = True
) -> np.ndarray:
    """Return the slope of each of a stack of scores, shape (n_candidates, n_samples, n_classes).

    Without ``smooth`` the targets are zeros and ones, and the slope is at most ten thousand over
    the spread of the scores.
    """
    n_samples, n_classes = scores.shape[1:]
    weights = np.ones(len(codes)) if weights is None else weights
    targets = np.eye(n_classes)[codes]
    if smooth:
        counts = np.bincount(codes, weights=weights, minlength=n_classes)[codes, None]
        targets = (2.0 / n_classes + counts * targets) / (counts + 2.0)
    size = max(1, _BATCH // max(1, n_samples * n_classes))
    parts = [
        _batch_of_slopes(scores[i : i + size], targets, weights)
        for i in range(0, len(scores), size)
    ]
    return np.concatenate(parts)


def _batch_of_slopes(scores, targets, weights) -> np.ndarray:
    spread = np.array([score_spread(some) for some in scores])
    spread[spread == 0.0] = 1.0  # the curvature is then zero and the slope one
    # Classes first: sums over them are then sums of long vectors.
    z = np.ascontiguousarray((scores / spread[:, None, None]).transpose(2, 0, 1))
    z = z - z.max(axis=0)
    wanted = np.einsum("nl,lan->an", targets, z) @ weights  # mean scores at the minimum

    def derivatives(slopes, which):
        some = z if len(which) == len(scores) else z[:, which]
        p = slopes[:, None] * some
        np.exp(p, out=p)
        p /= p.sum(axis=0)
        p *= some
        center = p.sum(axis=0)
        p *= some
        first = center @ weights - wanted[which]
        return np.stack([first, (p.sum(axis=0) - center**2) @ weights])

    return solve_slopes(derivatives, len(scores)) / spread


def score_spread(scores: Any) -> float:
    """Return the largest distance of a score from the mean of its row, 0 without rows."""
    xp = namespace(scores)
    if not scores.shape[0]:
        return 0.0
    return float(xp.max(xp.abs(scores - xp.mean(scores, axis=1, keepdims=True))))


def slope_derivatives(z: Any, codes: Any, weights: Any, counts: Any, slope: float) -> np.ndarray:
    """Return first and second derivative of the loss of ``softmax(slope * z)``; they add over rows.

    ``counts`` are the weights of the classes in the whole table, for smoothed targets. Arrays may
    be of any library.
    """
    xp = namespace(z)
    weight = xp.take(counts, codes)[:, None]
    targets = (2.0 / z.shape[1] + weight * _indicators(codes, z)) / (weight + 2.0)
    z = z - xp.max(z, axis=1, keepdims=True)
    p = xp.exp(slope * z)
    p = p / xp.sum(p, axis=1, keepdims=True)
    center = xp.sum(p * z, axis=1)
    first = weights @ (center - xp.sum(targets * z, axis=1))
    second = weights @ (xp.sum(p * z * z, axis=1) - center**2)
    return np.array([float(first), float(second)])


def _indicators(codes: Any, scores: Any) -> Any:
    """Return one column per column of the scores, 1 where a row belongs to the class."""
    xp = namespace(scores)
    classes = xp.arange(scores.shape[1], device=compat.device(scores))
    return xp.astype(codes[:, None] == classes[None, :], scores.dtype)


def solve_slope(derivatives: Callable[[float], np.ndarray]) -> float:
    """Return the slope of least loss, in units of one over the spread of the scores."""
    found = solve_slopes(lambda slopes, _: derivatives(float(slopes[0]))[:, None], 1)
    return float(found[0])


def solve_slopes(derivatives: Callable, n_slopes: int) -> np.ndarray:
    """Return the slopes of least loss; ``derivatives(slopes, which)`` are those of some of them."""
    # In units of one over the spread of the scores.
    lowest, highest = 1e-3, 1e4
    slopes, which = np.ones(n_slopes), np.arange(n_slopes)
    for _ in range(100):
        old = slopes[which]
        grad, curve = derivatives(old, which)
        is_convex = curve > 0.0
        step = np.divide(grad, curve, out=np.zeros_like(grad), where=is_convex)
        # Far from the optimum the loss is nearly linear, so steps are limited.
        new = np.clip(np.clip(old - step, old / 4.0, 4.0 * old), lowest, highest)
        slopes[which] = np.where(is_convex, new, old)
        which = which[is_convex & (np.abs(new - old) > 1e-12 * old)]
        if which.size == 0:
            break
    return slopes
