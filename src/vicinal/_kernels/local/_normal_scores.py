"""Normal scores: columns bent so that their distribution becomes normal.

A value is mapped to the normal quantile of its mid-rank, linearly between the values seen, so that
a long tail or a spike no longer decides who is near whom.
"""

import numpy as np
from scipy.special import ndtri

# Knots at so many quantiles: enough for the shape of a distribution, and few enough that the slope
# between two of them is that of the distribution rather than of two chance values.
MAX_KNOTS = 64


def normal_score_knots(
    column: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return distinct values (ascending) and their scores, of weighted mean 0 and variance 1."""
    values, inverse = np.unique(column, return_inverse=True)
    mass = np.bincount(inverse, weights, minlength=len(values)).astype(np.float64)
    mass /= mass.sum()
    scores = ndtri(np.clip(np.cumsum(mass) - 0.5 * mass, 1e-12, 1.0 - 1e-12))
    scores -= mass @ scores
    spread = np.sqrt(mass @ scores**2)
    scores = scores / spread if spread > 0.0 else scores
    if len(values) > MAX_KNOTS:
        levels = np.linspace(0.0, 1.0, MAX_KNOTS)
        kept = np.unique(np.clip(np.searchsorted(np.cumsum(mass), levels), 0, len(values) - 1))
        values, scores = values[kept], scores[kept]
    return values, scores


def score_slopes(x: np.ndarray, values: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return the derivative of the piecewise linear map; zero beyond the values seen."""
    if len(values) < 2:
        return np.zeros(len(x))
    piece = np.clip(np.searchsorted(values, x, side="right") - 1, 0, len(values) - 2)
    slopes = np.diff(scores)[piece] / np.diff(values)[piece]
    return np.where((x < values[0]) | (x > values[-1]), 0.0, slopes)
