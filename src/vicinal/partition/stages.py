"""What a cascade is made of: linear region models and gates, and fitted estimators beside them."""

from typing import Any

import numpy as np

from vicinal._base import saved
from vicinal._kernels.linear._covariance import LDAStatistics, lda_coefficients


@saved(classes_="c labels", coef_="c q", intercept_="c logs")
class LinearRegionClassifier:
    """Linear scores of the classes in one region.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
        All classes of the cascade, in the order of its columns.
    coef : ndarray of shape (n_classes, n_features)
        Weights on the (scaled) features.
    intercept : ndarray of shape (n_classes,)
        Offsets; ``-inf`` for a class that the region never saw.
    temperature : float, default=1.0
        Divisor of the scores before the softmax of ``predict_proba``.
    """

    def __init__(self, classes, coef, intercept, temperature=1.0):
        self.classes_ = classes
        self.coef_ = coef
        self.intercept_ = intercept
        self.temperature_ = temperature

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the scores, of shape (n_samples, n_classes)."""
        return X @ self.coef_.T + self.intercept_

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of the largest score."""
        return self.classes_[np.argmax(self.decision_function(X), axis=1)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the softmax of the scores; classes the region never saw have probability 0."""
        scores = self.decision_function(X)
        # In place: a cascade of many starts spends its time here.
        scores -= scores.max(axis=1, keepdims=True)
        if self.temperature_ != 1.0:
            scores /= self.temperature_
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=1, keepdims=True)
        return scores


@saved(coef_="q")
class LinearRegionRegressor:
    """Linear model of the target in one region: ``X @ coef_ + intercept_``."""

    def __init__(self, coef, intercept):
        self.coef_ = coef
        self.intercept_ = intercept

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted target."""
        return X @ self.coef_ + self.intercept_


@saved(coef_="q")
class LinearGate:
    """Half-space reject: a sample is passed on where ``X @ coef_ + intercept_ > 0``."""

    def __init__(self, coef, intercept):
        self.coef_ = coef
        self.intercept_ = intercept

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the gate score; above 0 means "pass on"."""
        return X @ self.coef_ + self.intercept_

    def predict(self, X: Any) -> np.ndarray:
        """Return 1 where a sample is passed on, 0 where it stays."""
        return (self.decision_function(X) > 0).astype(np.int64)


@saved()
class ConstantGate:
    """Gate that treats all samples alike."""

    def __init__(self, passes_on: bool):
        self.passes_on = passes_on

    def decision_function(self, X: Any) -> np.ndarray:
        """Return 1 ("pass on") or -1 ("stay") for every sample."""
        return np.full(X.shape[0], 1.0 if self.passes_on else -1.0)

    def predict(self, X: Any) -> np.ndarray:
        """Return the one decision for every sample."""
        return np.full(X.shape[0], int(self.passes_on))


def gate_scores(gate: Any, X: Any) -> np.ndarray:
    """Return a score above 0 where ``gate`` passes on, for any fitted classifier of {0, 1}."""
    if hasattr(gate, "decision_function"):
        return np.asarray(gate.decision_function(X))
    if hasattr(gate, "predict_proba"):
        return np.asarray(gate.predict_proba(X))[:, 1] - 0.5
    return np.asarray(gate.predict(X)) - 0.5


def aligned_proba(model: Any, X: Any, classes: np.ndarray) -> np.ndarray:
    """Return probabilities with one column per class of the cascade, 0 where the model has none."""
    proba = model.predict_proba(X)
    if len(model.classes_) == len(classes):
        return proba
    full = np.zeros((X.shape[0], len(classes)), dtype=proba.dtype)
    full[:, np.searchsorted(classes, model.classes_)] = proba
    return full


def rows_by_class(coef: Any, intercept: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return scores of two classes, one row each, from the one row that tells them apart."""
    halves = np.array([[-0.5], [0.5]])
    return halves * coef, halves[:, 0] * intercept


def gate_start(gate: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the last gate of a stage as scores of "stay" and "pass on", if it is linear."""
    if not isinstance(gate, LinearGate):
        return None
    return rows_by_class(gate.coef_, gate.intercept_)


def stacked_regions(models: list) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients (n_regions, n_classes, n_features) and intercepts of region models."""
    return np.stack([m.coef_ for m in models]), np.stack([m.intercept_ for m in models])


def stacked_gates(gates: list, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients (n_gates, n_features) and intercepts of linear and constant gates."""
    coefs, intercepts = np.zeros((len(gates), n_features)), np.zeros(len(gates))
    for k, gate in enumerate(gates):
        if isinstance(gate, ConstantGate):
            intercepts[k] = 1.0 if gate.passes_on else -1.0
        else:
            coefs[k], intercepts[k] = gate.coef_, gate.intercept_
    return coefs, intercepts


def discriminant_region(
    statistics: LDAStatistics, classes: np.ndarray, shrinkage: float
) -> LinearRegionClassifier:
    """Return the discriminant classifier of a region; a class without weight never answers."""
    present = np.flatnonzero(statistics.weights > 0)
    coef = np.zeros(statistics.sums.shape)
    intercept = np.full(len(classes), -np.inf)
    if len(present) == 1:
        intercept[present] = 0.0
    else:
        counts, sums, gram, shifts = statistics
        part = LDAStatistics(counts[present], sums[present], gram, shifts[present])
        coef[present], intercept[present] = lda_coefficients(part, shrinkage)
    return LinearRegionClassifier(classes, coef, intercept)


def discriminant_gate(statistics: LDAStatistics, shrinkage: float) -> LinearGate:
    """Return the half-space between rows to keep (code 0) and rows to pass on (code 1)."""
    coef, intercept = lda_coefficients(statistics, shrinkage)
    return LinearGate(coef[1] - coef[0], intercept[1] - intercept[0])
