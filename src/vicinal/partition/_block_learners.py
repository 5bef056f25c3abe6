"""How the stages of a cascade are learned from what blocks of rows send.

A learner turns the rows of a block into a tuple of arrays (``sums``), tuples add over blocks, and
the total gives a region model or a gate. Discriminant analysis and ridge regression are functions
of such sums, and logistic regression asks for some more, pass after pass (``steps``). The
perceptron has none: every block improves on the last model by its own rows, and the models are
averaged by weight (iterative parameter mixing; McDonald, Hall and Mann, "Distributed training
strategies for the structured perceptron", 2010).
"""

from typing import Any

import numpy as np
from scipy.linalg import solve
from sklearn.linear_model import Ridge

from vicinal._kernels.linear._covariance import LDAStatistics, lda_statistics
from vicinal._kernels.linear._perceptron import fit_perceptron
from vicinal._kernels.linear._regression import Steps, logistic_steps
from vicinal.linear import AveragedPerceptron, WeightedLDA
from vicinal.partition._linear_learners import is_plain_lda, is_plain_logistic, is_plain_ridge
from vicinal.partition.stages import (
    LinearGate,
    LinearRegionClassifier,
    LinearRegionRegressor,
    discriminant_gate,
    discriminant_region,
    rows_by_class,
)

# Coefficients and intercepts of the model of the last sweep, one row and entry per class.
Start = tuple[np.ndarray, np.ndarray] | None


class Discriminant:
    """Discriminant analysis from counts, sums and Gram matrices."""

    is_exact = True

    def __init__(self, estimator: WeightedLDA) -> None:
        self.shrinkage = float(estimator.shrinkage or 0.0)

    def sums(self, X, codes, weight, n_classes: int, start: Start, seed: int):
        return tuple(lda_statistics(X, codes, weight, n_classes)[:3])

    def region(self, sums, classes: np.ndarray) -> LinearRegionClassifier:
        return discriminant_region(_statistics(sums), classes, self.shrinkage)

    def gate(self, sums) -> LinearGate:
        return discriminant_gate(_statistics(sums), self.shrinkage)


class BlockLogistic:
    """Logistic regression, by passes that add up gradients and curvatures of all problems."""

    is_exact = True

    def __init__(self, estimator: Any) -> None:
        self.options = {
            "alpha": 1.0 / estimator.C,
            "fit_intercept": estimator.fit_intercept,
            "tol": estimator.tol,
            "max_iter": estimator.max_iter,
        }

    def sums(self, X, codes, weight, n_classes: int, start: Start, seed: int):
        return (np.bincount(codes, weights=weight, minlength=n_classes),)

    def steps(self, mass: np.ndarray, n_features: int, start: Start) -> Steps:
        """Ask for sums over the rows of the classes that have some; return their solution."""
        present = np.flatnonzero(mass)
        if start is not None:
            start = start[0][present], start[1][present]
            if len(present) == 2:
                start = start[0][1:] - start[0][:1], start[1][1:] - start[1][:1]
        fit = yield from logistic_steps(
            float(mass.sum()), n_features, len(present), start=start, **self.options
        )
        return fit[:2]

    def region(self, mass, solution, n_features: int, classes) -> LinearRegionClassifier:
        """Return the model of a region from the solution of its steps, ``None`` for one class."""
        present = np.flatnonzero(mass)
        coef, intercept = np.zeros((len(mass), n_features)), np.full(len(mass), -np.inf)
        intercept[present] = 0.0
        if solution is not None:
            rows = solution if len(present) > 2 else rows_by_class(*solution)
            coef[present], intercept[present] = rows
        return LinearRegionClassifier(classes, coef, intercept)

    def gate(self, solution) -> LinearGate:
        """Return the half-space that the solution of two classes draws."""
        return LinearGate(solution[0][0], solution[1][0])


class MixedPerceptron:
    """Averaged perceptron, improved in every block and averaged with the weight of each class."""

    is_exact = False

    def __init__(self, estimator: AveragedPerceptron) -> None:
        self.n_epochs = estimator.max_iter

    def sums(self, X, codes, weight, n_classes: int, start: Start, seed: int):
        mass = np.bincount(codes, weights=weight, minlength=n_classes)
        coef, intercept = np.zeros((n_classes, X.shape[1])), np.zeros(n_classes)
        if start is not None:
            coef[:], intercept[:] = start
        present = np.flatnonzero(mass)
        # A block that holds one class has nothing to tell apart and votes for the last model.
        if len(present) > 1:
            place = np.zeros(n_classes, dtype=np.int64)
            place[present] = np.arange(len(present))
            fit = fit_perceptron(
                X,
                place[codes],
                weight,
                len(present),
                seed=seed,
                n_epochs=self.n_epochs,
                start=(coef[present], intercept[present]),
            )
            coef[present], intercept[present] = fit.coef, fit.intercept
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

    def criterion(self, scores, codes):
        """Return what the learner lowers, for every row."""
        return scores.max(axis=1) - scores[np.arange(len(codes)), codes]


class RidgeRegion:
    """Ridge regression of a region from sums about the mean of the table."""

    is_exact = True

    def __init__(self, estimator: Ridge, shift: np.ndarray, target_shift: float) -> None:
        self.alpha, self.shift, self.target_shift = float(estimator.alpha), shift, target_shift

    def sums(self, X, y, weight, n_classes: int, start: Start, seed: int):
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
        return BlockLogistic(estimator)
    raise ValueError(
        f"{parameter}={estimator!r} cannot be fitted from blocks of rows; use 'lda' or "
        "'logistic', which are exact, or 'perceptron', which averages over blocks."
    )


def ridge_learner(estimator: Any, shift: np.ndarray, target_shift: float) -> RidgeRegion:
    """Return the ridge regression that stands for an estimator, or say that there is none."""
    if not is_plain_ridge(estimator):
        raise ValueError(
            f"region_estimator={estimator!r} cannot be fitted from blocks of rows; use 'ridge' or "
            "sklearn.linear_model.Ridge with its default solver."
        )
    return RidgeRegion(estimator, shift, target_shift)
