"""Linear maps under which Euclidean distance becomes another metric."""

import numpy as np


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
