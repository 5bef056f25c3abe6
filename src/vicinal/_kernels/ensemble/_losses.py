"""Losses of a raw score: value, first and second derivative per sample, and the best constant.

A loss is any object with ``value(y, score)``, ``gradient(y, score)`` and ``hessian(y, score)``.
Scores are a vector, except for :class:`Multinomial`, whose scores have one column per class. The
losses below also know their best constant (``constant``), the map from score to prediction
(``mean`` or ``probability``) and whether their second derivative carries information
(``has_curvature``).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_softmax, softmax, xlogy

from vicinal._base import saved
from vicinal._kernels.calibration._quantiles import weighted_quantile


@saved()
@dataclass(frozen=True)
class SquaredError:
    """Half the squared residual, ``(y - F)^2 / 2``."""

    has_curvature = True
    is_quadratic = True

    def value(self, y, score):
        return 0.5 * (y - score) ** 2

    def gradient(self, y, score):
        return score - y

    def hessian(self, y, score):
        return np.ones_like(score)

    def constant(self, y, weight):
        return np.average(y, weights=weight)


@saved()
@dataclass(frozen=True)
class AbsoluteError:
    """Absolute residual ``|y - F|``; its slope is 0 where the residual is."""

    has_curvature = False

    def value(self, y, score):
        return np.abs(y - score)

    def gradient(self, y, score):
        return np.sign(score - y)

    def hessian(self, y, score):
        return np.zeros_like(score)

    def constant(self, y, weight):
        return weighted_quantile(y, 0.5, weight)


@saved()
@dataclass(frozen=True)
class Quantile:
    """Pinball loss, whose minimiser is the quantile of level ``alpha``."""

    alpha: float = 0.5
    has_curvature = False

    def value(self, y, score):
        residual = y - score
        return np.maximum(self.alpha * residual, (self.alpha - 1.0) * residual)

    def gradient(self, y, score):
        above = np.where(score > y, 1.0 - self.alpha, 0.0)
        return np.where(score < y, -self.alpha, above)

    def hessian(self, y, score):
        return np.zeros_like(score)

    def constant(self, y, weight):
        return weighted_quantile(y, self.alpha, weight)


@saved()
@dataclass(frozen=True)
class Huber:
    """Squared near 0, linear beyond ``delta``, which follows the ``alpha`` quantile of residuals.

    The quantile is taken anew in every round of boosting (Friedman 2001, algorithm 4), through
    :meth:`adapted`.
    """

    alpha: float = 0.9
    delta: float = 1.0
    has_curvature = False

    def adapted(self, y, score, weight):
        return Huber(self.alpha, float(weighted_quantile(np.abs(y - score), self.alpha, weight)))

    def value(self, y, score):
        residual = np.abs(y - score)
        near = 0.5 * residual**2
        return np.where(residual <= self.delta, near, self.delta * (residual - 0.5 * self.delta))

    def gradient(self, y, score):
        return np.clip(score - y, -self.delta, self.delta)

    def hessian(self, y, score):
        return (np.abs(y - score) <= self.delta).astype(np.float64)

    def constant(self, y, weight):
        """One Newton-like step from the median (Friedman 2001, equation 33)."""
        median = weighted_quantile(y, 0.5, weight)
        return median + np.average(np.clip(y - median, -self.delta, self.delta), weights=weight)


@saved()
@dataclass(frozen=True)
class Poisson:
    """Half the Poisson deviance with a logarithmic link; the mean is ``exp(F)``."""

    has_curvature = True

    def value(self, y, score):
        with np.errstate(over="ignore"):
            return np.exp(score) - y * score + xlogy(y, y) - y

    def gradient(self, y, score):
        with np.errstate(over="ignore"):
            return np.exp(score) - y

    def hessian(self, y, score):
        with np.errstate(over="ignore"):
            return np.exp(score)

    def constant(self, y, weight):
        return np.log(np.average(y, weights=weight))

    def mean(self, score):
        return np.exp(score)


@saved()
@dataclass(frozen=True)
class Logistic:
    """Negative log-likelihood of ``y`` in {0, 1} with log-odds ``F``."""

    has_curvature = True

    def value(self, y, score):
        return np.logaddexp(0.0, score) - y * score

    def gradient(self, y, score):
        return expit(score) - y

    def hessian(self, y, score):
        probability = expit(score)
        return probability * (1.0 - probability)

    def constant(self, y, weight):
        mean = np.average(y, weights=weight)
        return np.log(mean / (1.0 - mean))

    def probability(self, score):
        return expit(score)


@saved()
@dataclass(frozen=True)
class Exponential:
    """Loss of AdaBoost, ``exp(-(2y - 1) F)`` with ``y`` in {0, 1}; ``F`` is half the log-odds."""

    has_curvature = True

    def value(self, y, score):
        with np.errstate(over="ignore"):
            return np.exp((1.0 - 2.0 * y) * score)

    def gradient(self, y, score):
        return (1.0 - 2.0 * y) * self.value(y, score)

    def hessian(self, y, score):
        return self.value(y, score)

    def constant(self, y, weight):
        return 0.5 * Logistic().constant(y, weight)

    def probability(self, score):
        return expit(2.0 * score)


@saved()
@dataclass(frozen=True)
class Multinomial:
    """Negative log-likelihood of a class code under the softmax of ``n_classes`` scores."""

    n_classes: int
    has_curvature = True

    def value(self, y, score):
        return -log_softmax(score, axis=1)[np.arange(len(y)), y]

    def gradient(self, y, score):
        gradient = softmax(score, axis=1)
        gradient[np.arange(len(y)), y] -= 1.0
        return gradient

    def hessian(self, y, score):
        """Diagonal of the second derivative, (n_samples, n_classes)."""
        probability = softmax(score, axis=1)
        return probability * (1.0 - probability)

    def curvature_along(self, y, score, direction):
        """Second derivative along ``direction``: the variance of its entries under the softmax."""
        probability = softmax(score, axis=1)
        mean = (probability * direction).sum(axis=1, keepdims=True)
        return (probability * (direction - mean) ** 2).sum(axis=1)

    def constant(self, y, weight):
        """Logarithms of the class frequencies, shifted to sum to zero."""
        logarithm = np.log(np.bincount(y, weights=weight, minlength=self.n_classes))
        return logarithm - logarithm.mean()

    def probability(self, score):
        return softmax(score, axis=1)


REGRESSION_LOSSES = {
    "squared_error": lambda alpha: SquaredError(),
    "absolute_error": lambda alpha: AbsoluteError(),
    "huber": lambda alpha: Huber(alpha),
    "quantile": lambda alpha: Quantile(alpha),
    "poisson": lambda alpha: Poisson(),
}


def curvature_along(loss: Any, y: np.ndarray, score: np.ndarray, direction: np.ndarray):
    """Second derivative of each sample's loss along its row of ``direction``, (n_samples,)."""
    if score.ndim == 2:
        return loss.curvature_along(y, score, direction)
    return loss.hessian(y, score) * direction**2


def best_constant(loss: Any, y: np.ndarray, weight: np.ndarray):
    """Minimise the weighted loss over constants: closed form, else a search (equation 8)."""
    if hasattr(loss, "constant"):
        return loss.constant(y, weight)

    def total(constant):
        return float(weight @ loss.value(y, np.full(len(y), constant)))

    return float(minimize_scalar(total, method="brent").x)
