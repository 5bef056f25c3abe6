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
        options={"xatol": 1e-8},
    )
    return float(np.exp(found.x))


def temperature_proba(scores: np.ndarray, temperature: float) -> np.ndarray:
    """Return softmax(scores / temperature)."""
    return softmax(scores / temperature, axis=1)


def clipped_proba(scores: np.ndarray) -> np.ndarray:
    """Return negative scores cut to zero and rows scaled to sum one (order is kept)."""
    positive = np.maximum(scores, 0.0)
    return positive / positive.sum(axis=1, keepdims=True)
