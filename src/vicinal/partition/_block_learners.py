"""How the stages of a cascade are learned from what blocks of rows send.

A learner turns the rows of a block into a tuple of arrays (``sums``), tuples add over blocks, and
the total gives a region model or a gate. Discriminant analysis and ridge regression are exact
functions of such sums. Logistic regression and the perceptron are not: every block improves on the
last model by its own rows, and the models are averaged by weight (iterative parameter mixing;
McDonald, Hall and Mann, "Distributed training strategies for the structured perceptron", 2010).
"""

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from scipy.linalg import solve
from scipy.special import log_softmax
from sklearn.linear_model import Ridge

from vicinal._kernels.linear._lda import LDAStatistics, lda_statistics
from vicinal._kernels.linear._logistic import fit_logistic
from vicinal._kernels.linear._perceptron import fit_perceptron
from vicinal.linear import AveragedPerceptron, WeightedLDA
from vicinal.partition._linear_learners import is_plain_lda, is_plain_logistic, is_plain_ridge
from vicinal.partition._stages import (
    LinearGate,
    LinearRegionClassifier,
    LinearRegionRegressor,
    discriminant_gate,
    discriminant_region,
)

# Coefficients and intercepts of the model of the last sweep, one row and entry per class.
Start = tuple[np.ndarray, np.ndarray] | None


class Discriminant:
    """Discriminant analysis from counts, sums and Gram matrices."""

    is_exact = True

    def __init__(self, estimator: WeightedLDA) -> None:
        self.shrinkage = float(estimator.shrinkage or 0.0)

    def sums(self, X, codes, weight, n_classes: int, start: Start, share: float, seed: int):
        return tuple(lda_statistics(X, codes, weight, n_classes)[:3])

    def region(self, sums, classes: np.ndarray) -> LinearRegionClassifier:
        return discriminant_region(_statistics(sums), classes, self.shrinkage)

    def gate(self, sums) -> LinearGate:
        return discriminant_gate(_statistics(sums), self.shrinkage)


class Mixed(ABC):
    """Linear scores, improved in every block and averaged with the weight of each class there."""

    is_exact = False

    def sums(self, X, codes, weight, n_classes: int, start: Start, share: float, seed: int):
        mass = np.bincount(codes, weights=weight, minlength=n_classes)
        coef, intercept = np.zeros((n_classes, X.shape[1])), np.zeros(n_classes)
        if start is not None:
            coef[:], intercept[:] = start
        present = np.flatnonzero(mass)
        # A block that holds one class has nothing to tell apart and votes for the last model.
        if len(present) > 1:
            place = np.zeros(n_classes, dtype=np.int64)
            place[present] = np.arange(len(present))
            found = self._solve(
                X, place[codes], weight, (coef[present], intercept[present]), share, seed
            )
            coef[present], intercept[present] = found
        return mass, mass[:, None] * coef, mass * intercept

    def region(self, sums, classes: np.ndarray) -> LinearRegionClassifier:
        mass, coefs, intercepts = sums
        coef, intercept = np.zeros(coefs.shape), np.full(len(mass), -np.inf)
        present = mass > 0
        coef[present] = coefs[present] / mass[present, None]
        intercept[present] = intercepts[present] / mass[present]
        return LinearRegionClassifier(classes, coef, intercept)

    def gate(self, sums) -> LinearGate:
        mass, coefs, intercepts = sums
        coef, intercept = coefs / mass[:, None], intercepts / mass
        return LinearGate(coef[1] - coef[0], intercept[1] - intercept[0])

    @abstractmethod
    def _solve(self, X, codes, weight, start, share, seed):
        """Return coefficients and intercepts of the classes present in a block."""

    @abstractmethod
    def criterion(self, scores: np.ndarray, codes: np.ndarray) -> np.ndarray:
        """Return what the learner lowers, for every row."""


class MixedLogistic(Mixed):
    """Logistic regression; a block bears its share of the penalty."""

    def __init__(self, estimator: Any) -> None:
        self.alpha = 1.0 / estimator.C
        self.options = {
            "fit_intercept": estimator.fit_intercept,
            "tol": estimator.tol,
            "max_iter": estimator.max_iter,
        }

    def _solve(self, X, codes, weight, start, share, seed):
        coef, intercept = start
        n_classes = len(intercept)
        if n_classes == 2:
            start = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
        fit = fit_logistic(
            X, codes, weight, n_classes, alpha=share * self.alpha, start=start, **self.options
        )
        if n_classes == 2:
            halves = np.array([[-0.5], [0.5]])
            return halves * fit.coef, halves[:, 0] * fit.intercept
        # Intercepts are free up to a constant, which must be the same one in every block.
        return fit.coef, fit.intercept - fit.intercept.mean()

    def criterion(self, scores, codes):
        return -log_softmax(scores, axis=1)[np.arange(len(codes)), codes]


class MixedPerceptron(Mixed):
    """Averaged perceptron."""

    def __init__(self, estimator: AveragedPerceptron) -> None:
        self.n_epochs = estimator.max_iter

    def _solve(self, X, codes, weight, start, share, seed):
        fit = fit_perceptron(
            X, codes, weight, len(start[1]), seed=seed, n_epochs=self.n_epochs, start=start
        )
        return fit.coef, fit.intercept

    def criterion(self, scores, codes):
        return scores.max(axis=1) - scores[np.arange(len(codes)), codes]


class RidgeRegion:
    """Ridge regression of a region from sums about the mean of the table."""

    is_exact = True

    def __init__(self, estimator: Ridge, shift: np.ndarray, target_shift: float) -> None:
        self.alpha, self.shift, self.target_shift = float(estimator.alpha), shift, target_shift

    def sums(self, X, y, weight, n_classes: int, start: Start, share: float, seed: int):
        Z = X - self.shift
        weighted = Z * weight[:, None]
        y = y - self.target_shift
        return weight.sum(), weighted.sum(axis=0), weight @ y, weighted.T @ Z, weighted.T @ y

    def region(self, sums, classes) -> LinearRegionRegressor:
        total, row_sum, target_sum, gram, moments = sums
        gram = gram - np.outer(row_sum, row_sum) / total
        gram[np.diag_indices_from(gram)] += self.alpha
        coef = solve(gram, moments - row_sum * (target_sum / total), assume_a="pos")
        mean = self.shift + row_sum / total
        return LinearRegionRegressor(coef, self.target_shift + target_sum / total - mean @ coef)


def _statistics(sums) -> LDAStatistics:
    weights, sums, gram = sums
    return LDAStatistics(weights, sums, gram, np.zeros_like(sums))


def stage_learner(estimator: Any, parameter: str) -> Any:
    """Return the learner of classes that stands for an estimator, or say that there is none."""
    if is_plain_lda(estimator):
        return Discriminant(estimator)
    if type(estimator) is AveragedPerceptron and estimator.class_weight is None:
        return MixedPerceptron(estimator)
    if is_plain_logistic(estimator):
        return MixedLogistic(estimator)
    raise ValueError(
        f"{parameter}={estimator!r} cannot be fitted from blocks of rows; use 'lda', which is "
        "exact, or 'logistic' or 'perceptron', which average over blocks."
    )


def ridge_learner(estimator: Any, shift: np.ndarray, target_shift: float) -> RidgeRegion:
    """Return the ridge regression that stands for an estimator, or say that there is none."""
    if not is_plain_ridge(estimator):
        raise ValueError(
            f"region_estimator={estimator!r} cannot be fitted from blocks of rows; use 'ridge' or "
            "sklearn.linear_model.Ridge with its default solver."
        )
    return RidgeRegion(estimator, shift, target_shift)
