"""How the models of a cascade are fitted: any estimator, one clone per stage."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.utils.validation import has_fit_parameter

from vicinal.partition._stages import ConstantGate


@dataclass(frozen=True)
class TrainingSet:
    """Scaled samples, target and weights of a fit.

    ``y`` is the target as the region models see it (labels or numbers); ``codes`` are the
    positions of the labels in ``classes`` (``None`` for regression). ``first_region`` is the
    assignment that the user gave, if any. ``is_weighted`` tells whether
    the user passed weights.
    """

    X: Any
    y: np.ndarray
    weight: np.ndarray
    is_weighted: bool
    codes: Any = None
    classes: Any = None
    first_region: Any = None

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self.X.shape[0]

    def take(self, rows: np.ndarray) -> "TrainingSet":
        """Return the given rows as a training set of their own."""
        return TrainingSet(
            self.X[rows],
            self.y[rows],
            self.weight[rows],
            self.is_weighted,
            None if self.codes is None else self.codes[rows],
            self.classes,
            None if self.first_region is None else self.first_region[rows],
        )

    def with_labels(self, codes: np.ndarray, classes: np.ndarray) -> "TrainingSet":
        """Return the same set as a classification problem."""
        return replace(self, codes=codes, classes=classes)

    def with_samples(self, X: Any) -> "TrainingSet":
        """Return the same set with other features."""
        return replace(self, X=X)

    def loss(self, predicted: np.ndarray) -> np.ndarray:
        """Return the loss of each prediction: wrong or right, or the squared error."""
        if self.codes is None:
            return (self.y - predicted) ** 2
        return predicted != self.y


def seeded_clone(estimator: Any, seed: int | None) -> Any:
    """Clone ``estimator`` and give every ``random_state`` that was left open the seed."""
    model = clone(estimator)
    if seed is not None:
        open_states = {
            name: seed
            for name, value in model.get_params(deep=True).items()
            if (name == "random_state" or name.endswith("__random_state")) and value is None
        }
        if open_states:
            model.set_params(**open_states)
    return model


class EstimatorLearner:
    """Fit a clone of any scikit-learn estimator per region or gate.

    A learner may refuse a small region (too few samples for its own rules). The region then keeps
    its earlier model; only a learner that never succeeds is an error.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator
        self.accepts_weight = has_fit_parameter(estimator, "sample_weight")

    def check_weights(self, data: TrainingSet, parameter: str) -> None:
        """Raise where weights are needed that the estimator does not take."""
        is_regression_gate = data.codes is None and parameter == "reject_estimator"
        if self.accepts_weight or not (data.is_weighted or is_regression_gate):
            return
        why = "sample_weight was passed" if data.is_weighted else "gates of a regressor weigh rows"
        raise ValueError(
            f"{why}, but {parameter}={type(self.estimator).__name__} takes no sample_weight in "
            "fit; choose an estimator that does, or leave the weights out."
        )

    def fit_region(self, data: TrainingSet, rows: np.ndarray, seed: int | None, previous=None):
        """Return a model of the given rows."""
        y = data.y[rows]
        if data.codes is not None and (data.codes[rows] == data.codes[rows[0]]).all():
            return DummyClassifier(strategy="prior").fit(np.zeros((1, 1)), y[:1])
        weight = data.weight[rows] if data.is_weighted else None
        return self._fit(data.X, rows, y, weight, seed)

    def fit_gate(
        self, data: TrainingSet, rows, labels, weights, seed: int | None, previous=None
    ) -> Any:
        """Return a gate for the given rows: 1 means "pass on"."""
        uniform = not data.is_weighted and data.codes is not None
        return self._fit(data.X, rows, labels, None if uniform else weights, seed)

    def losses(self, models: list, data: TrainingSet) -> np.ndarray:
        """Return the loss of every model on every sample, of shape (n_regions, n_samples)."""
        return np.stack([data.loss(model.predict(data.X)) for model in models])

    def finish(self, models: list, data: TrainingSet, region: np.ndarray) -> None:
        """Complete the models that were kept; a fitted estimator is complete."""

    def _fit(self, X, rows, target, weight, seed):
        model = seeded_clone(self.estimator, seed)
        part = X if len(rows) == X.shape[0] else X[rows]
        if weight is None:
            return model.fit(part, target)
        return model.fit(part, target, sample_weight=weight)


def passes_on(gate: Any, X: Any) -> np.ndarray:
    """Return where a gate passes on."""
    return np.asarray(gate.predict(X)) == 1


def constant_gate(labels: np.ndarray) -> ConstantGate | None:
    """Return the constant gate that one-sided labels ask for, ``None`` if both labels occur."""
    first = bool(labels[0])
    return ConstantGate(first) if (labels == labels[0]).all() else None
