"""Normal scores: columns bent so that their distribution becomes normal.

A value is mapped to the normal quantile of its mid-rank, linearly between the values seen, so that
a long tail or a spike no longer decides who is near whom.
"""

import numpy as np
from scipy.special import ndtri

# More knots than this change nothing that a neighbourhood could notice.
MAX_KNOTS = 1000


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
        kept = np.unique(np.linspace(0, len(values) - 1, MAX_KNOTS).round().astype(np.int64))
        values, scores = values[kept], scores[kept]
    return values, scores


def score_slopes(x: np.ndarray, values: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return the derivative of the piecewise linear map; zero beyond the values seen."""
    if len(values) < 2:
        return np.zeros(len(x))
    piece = np.clip(np.searchsorted(values, x, side="right") - 1, 0, len(values) - 2)
    slopes = np.diff(scores)[piece] / np.diff(values)[piece]
    return np.where((x < values[0]) | (x > values[-1]), 0.0, slopes)
