"""How far to go along one direction of scores (equation 11 of boosting)."""

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from vicinal._kernels.ensemble._losses import curvature_along

_MAX_NEWTON_STEPS = 20
_MAX_HALVINGS = 30


def deviation(direction: np.ndarray, weight: np.ndarray) -> float:
    """Root mean square of a direction about its mean, over all its entries."""
    columns = direction.reshape(len(direction), -1)
    share = weight / weight.sum()
    centred = columns - share @ columns
    return float(np.sqrt((share @ centred**2).mean()))


def step_length(
    loss: Any, y: np.ndarray, weight: np.ndarray, score: np.ndarray, direction: np.ndarray
) -> float:
    """Return ``argmin_a sum_i w_i L(y_i, F_i + a d_i)`` over ``a >= 0``, 0 without descent.

    The direction is brought to unit size first, so that tolerances mean the same for every learner.
    Losses with curvature take Newton steps, halved until the loss does not rise; the others a
    bracketing search.
    """
    size = np.sqrt((weight @ direction.reshape(len(direction), -1) ** 2).mean() / weight.sum())
    if not size > 1e-12:
        return 0.0
    direction = direction / size
    share = weight / weight.sum()
    slope = _slope(loss, y, share, score, direction)
    if not slope < 0.0:
        return 0.0
    if getattr(loss, "has_curvature", True):
        length = _newton(loss, y, share, score, direction, slope)
    else:
        length = _bracketed(loss, y, share, score, direction)
    return length / size


def _total(loss, y, share, score) -> float:
    return float(share @ loss.value(y, score))


def _slope(loss, y, share, score, direction) -> float:
    product = loss.gradient(y, score) * direction
    return float(share @ (product if product.ndim == 1 else product.sum(axis=1)))


def _newton(loss, y, share, score, direction, slope) -> float:
    length, best = 0.0, _total(loss, y, share, score)
    for _ in range(_MAX_NEWTON_STEPS):
        here = score + length * direction
        curvature = float(share @ curvature_along(loss, y, here, direction))
        step = -slope / curvature if curvature > 1e-12 else np.copysign(1.0, -slope)
        for _ in range(_MAX_HALVINGS):
            value = _total(loss, y, share, score + (length + step) * direction)
            if value <= best:
                break
            step *= 0.5
        else:
            break
        length, best = length + step, value
        if abs(step) <= 1e-10 * max(1.0, abs(length)):
            break
        slope = _slope(loss, y, share, score + length * direction, direction)
    return max(length, 0.0)


def _bracketed(loss, y, share, score, direction) -> float:
    def total(length):
        return _total(loss, y, share, score + length * direction)

    far, value = 1.0, total(1.0)
    for _ in range(60):
        further = total(2.0 * far)
        if further >= value:
            break
        far, value = 2.0 * far, further
    found = minimize_scalar(
        total, bounds=(0.0, 2.0 * far), method="bounded", options={"xatol": 1e-9 * far}
    )
    return float(found.x) if found.fun <= total(0.0) else 0.0
