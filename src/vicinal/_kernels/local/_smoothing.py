"""Smoothing kernels K(u) and the rules that turn sorted distances into bandwidths and weights."""

from collections.abc import Callable

import numpy as np

# A Gaussian never reaches zero: rows whose weight is below this share of the largest are left out.
GAUSSIAN_CUTOFF = 1e-8
# Rounding allowance when a total weight is compared with the number of neighbours asked for.
_COUNT_TOLERANCE = 1e-9


def _uniform(u: np.ndarray) -> np.ndarray:
    return (u <= 1.0).astype(u.dtype)


def _epanechnikov(u: np.ndarray) -> np.ndarray:
    return 0.75 * np.maximum(1.0 - u * u, 0.0)


def _tricube(u: np.ndarray) -> np.ndarray:
    t = np.maximum(1.0 - u * u * u, 0.0)
    return t * t * t


def _gaussian(u: np.ndarray) -> np.ndarray:
    return np.exp(-0.5 * u * u)


def _bisquare(u: np.ndarray) -> np.ndarray:
    t = np.maximum(1.0 - u * u, 0.0)
    return t * t


def _triangular(u: np.ndarray) -> np.ndarray:
    return np.maximum(1.0 - u, 0.0)


def _cosine(u: np.ndarray) -> np.ndarray:
    return np.where(u < 1.0, np.cos(0.5 * np.pi * np.minimum(u, 1.0)), 0.0)


KERNELS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "uniform": _uniform,
    "epanechnikov": _epanechnikov,
    "tricube": _tricube,
    "gaussian": _gaussian,
    "bisquare": _bisquare,
    "triangular": _triangular,
    "cosine": _cosine,
}


def _call_user_kernel(kernel: Callable, u: np.ndarray) -> np.ndarray:
    """Evaluate a callable kernel and check shape, sign and finiteness of what it returns."""
    weights = np.asarray(kernel(u), dtype=np.float64)
    if weights.shape != u.shape:
        raise ValueError(
            f"kernel returned shape {weights.shape} for distances of shape {u.shape}; it must "
            "return one weight per distance."
        )
    if not np.all(np.isfinite(weights)) or (weights.size and weights.min() < 0):
        raise ValueError(
            "kernel returned negative or non-finite weights; it must return finite weights >= 0."
        )
    return weights


def kernel_values(u: np.ndarray, kernel: str | Callable) -> np.ndarray:
    """Return K(u) for scaled distances ``u >= 0``, of the same shape."""
    if callable(kernel):
        return _call_user_kernel(kernel, u)
    return KERNELS[kernel](u)


def vanishes_at_one(kernel: str | Callable) -> bool:
    """Tell whether K(1) = 0, so that rows at the bandwidth itself carry no weight."""
    if callable(kernel):
        return bool(_call_user_kernel(kernel, np.ones(1))[0] == 0.0)
    return kernel not in ("uniform", "gaussian")


def nearest_scale(kernel: str | Callable) -> float:
    """Return the scaled distance at which the k-th neighbour sits: 2 for a Gaussian, else 1."""
    return 2.0 if kernel == "gaussian" else 1.0


def nearest_bandwidth(
    distances: np.ndarray, weights: np.ndarray | None, count: float, *, exceed: bool
) -> np.ndarray:
    """Return the radius that holds ``count`` neighbours, for each row of sorted distances.

    Parameters
    ----------
    distances : ndarray of shape (n_queries, m)
        Ascending along each row.
    weights : ndarray of shape (n_queries, m) or None
        User weights of those rows; ``None`` means ones.
    count : float
        Number of neighbours, or total weight.
    exceed : bool
        The smallest radius whose total weight exceeds ``count`` (the distance of the (k+1)-th
        neighbour when all weights are one), else the smallest that reaches it (the k-th).

    Returns
    -------
    ndarray of shape (n_queries,)
        ``nan`` where the rows given do not hold enough weight.
    """
    n_queries, m = distances.shape
    if weights is None:
        position = int(np.floor(count + 1e-9)) if exceed else int(np.ceil(count - 1e-9)) - 1
        if position >= m:
            return np.full(n_queries, np.nan)
        return distances[:, max(position, 0)].copy()
    total = np.cumsum(weights, axis=1)
    tolerance = _COUNT_TOLERANCE * max(1.0, count)
    reached = total > count + tolerance if exceed else total >= count - tolerance
    position = reached.argmax(axis=1)
    h = distances[np.arange(n_queries), position].astype(np.float64)
    h[~reached[:, -1]] = np.nan
    return h


def loess_values(u: np.ndarray) -> np.ndarray:
    """Tricube with LOESS's guards: 1 below 0.001, 0 above 0.999 (Cleveland and Grosse 1991)."""
    weights = _tricube(u)
    weights[u < 0.001] = 1.0
    weights[u > 0.999] = 0.0
    return weights


def robustness_weights(residuals: np.ndarray, sample_weight: np.ndarray | None) -> np.ndarray:
    """Bisquare weights of residuals scaled by six times their median size.

    Cleveland (1979), section 2; the guards 0.001 and 0.999 are LOESS's own.
    """
    size = np.abs(residuals)
    scale = 6.0 * (np.median(size) if sample_weight is None else _median(size, sample_weight))
    if scale <= 0.0:
        return np.ones_like(size)
    u = size / scale
    weights = _bisquare(u)
    weights[u < 0.001] = 1.0
    weights[u > 0.999] = 0.0
    return weights


def _median(values: np.ndarray, weights: np.ndarray) -> float:
    """Median of values repeated as often as their weights say (mean of the middle two at a tie)."""
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    half = 0.5 * total[-1]
    tolerance = 1e-12 * total[-1]
    low = values[order[np.searchsorted(total, half - tolerance)]]
    high = values[order[min(np.searchsorted(total, half + tolerance), len(values) - 1)]]
    return float(0.5 * (low + high))


def _gaussian_slope(u: np.ndarray) -> np.ndarray:
    return -u * np.exp(-0.5 * u * u)


_SLOPES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "uniform": np.zeros_like,
    "epanechnikov": lambda u: np.where(u < 1.0, -1.5 * u, 0.0),
    "tricube": lambda u: -9.0 * u * u * np.maximum(1.0 - u * u * u, 0.0) ** 2,
    "gaussian": _gaussian_slope,
    "bisquare": lambda u: -4.0 * u * np.maximum(1.0 - u * u, 0.0),
    "triangular": lambda u: np.where(u < 1.0, -1.0, 0.0),
    "cosine": lambda u: np.where(u < 1.0, -0.5 * np.pi * np.sin(0.5 * np.pi * u), 0.0),
}


def kernel_slopes(u: np.ndarray, kernel: str | Callable) -> np.ndarray:
    """Return dK/du for scaled distances ``u >= 0``; a callable is differenced (step 1e-6)."""
    if callable(kernel):
        low, high = np.maximum(u - 1e-6, 0.0), u + 1e-6
        return (kernel_values(high, kernel) - kernel_values(low, kernel)) / (high - low)
    return _SLOPES[kernel](u)
