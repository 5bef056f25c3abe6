"""Maps of columns under which Euclidean distance becomes another metric."""

import numpy as np
from scipy.special import ndtri


def standard_scale(X: np.ndarray, weights: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return weighted means and standard deviations; a constant column keeps scale one."""
    mean = np.average(X, axis=0, weights=weights)
    variance = np.average((X - mean) ** 2, axis=0, weights=weights)
    return mean, usable_scale(mean, variance)


def usable_scale(mean: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Return standard deviations; one where a column varies by no more than rounding."""
    floor = (10.0 * np.finfo(np.float64).eps * np.maximum(1.0, np.abs(mean))) ** 2
    return np.sqrt(np.where(variance > floor, variance, 1.0))


def within_class_whitening(
    X: np.ndarray, codes: np.ndarray, weights: np.ndarray | None, shrinkage: float = 0.1
) -> tuple[np.ndarray, np.ndarray]:
    """Return (mean, map) such that ``(X - mean) @ map`` has unit covariance within classes.

    The pooled within-class covariance is shrunk towards its mean eigenvalue.
    """
    weights = np.ones(len(X)) if weights is None else weights
    total = weights.sum()
    mean = weights @ X / total
    n_features = X.shape[1]
    covariance = np.zeros((n_features, n_features))
    for code in np.unique(codes):
        rows = codes == code
        share = weights[rows]
        centred = X[rows] - share @ X[rows] / share.sum()
        covariance += (centred * share[:, None]).T @ centred
    covariance /= total
    level = np.trace(covariance) / n_features
    if level <= 0.0:
        return mean, np.eye(n_features)
    covariance = (1.0 - shrinkage) * covariance + shrinkage * level * np.eye(n_features)
    values, vectors = np.linalg.eigh(covariance)
    return mean, vectors / np.sqrt(values)


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
