"""Whether stated probabilities keep their word."""

from typing import Any

import numpy as np

_N_BINS = 10
_Z = 1.96


def calibration(y: np.ndarray, proba: np.ndarray, classes: np.ndarray, positive: int) -> dict:
    """Compare stated probabilities with what happened, in bins of equal width.

    With two classes the probability is that of class ``positive``; with more, that of the
    predicted class. Bins without a row are no points.
    """
    codes = np.searchsorted(classes, y)
    if len(classes) == 2:
        stated, happened = proba[:, positive], codes == positive
        of = f"P({classes[positive]})"
    else:
        stated, happened = proba.max(axis=1), proba.argmax(axis=1) == codes
        of = "the probability of the predicted class"
    bins = np.minimum((stated * _N_BINS).astype(int), _N_BINS - 1)
    points = [_point(stated[bins == k], happened[bins == k], k) for k in np.unique(bins).tolist()]
    gaps = [point["count"] * abs(point["stated"] - point["happened"]) for point in points]
    return {"of": of, "points": points, "error": float(sum(gaps) / len(stated))}


def _point(stated: np.ndarray, happened: np.ndarray, at: int) -> dict[str, Any]:
    count, share = len(stated), float(happened.mean())
    low, high = wilson(share, count)
    return {
        "bin": at,
        "stated": float(stated.mean()),
        "happened": share,
        "low": low,
        "high": high,
        "count": count,
    }


def wilson(share: float, count: int) -> tuple[float, float]:
    """Return the 95 % interval of a chance seen as a share of ``count`` rows (Wilson's)."""
    middle = share + _Z**2 / (2 * count)
    reach = _Z * np.sqrt(share * (1 - share) / count + (_Z / (2 * count)) ** 2)
    whole = 1 + _Z**2 / count
    return float(max(0.0, (middle - reach) / whole)), float(min(1.0, (middle + reach) / whole))
