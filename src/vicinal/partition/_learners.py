"""How the models of a cascade are fitted: any estimator, one clone per stage."""

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.dummy import DummyClassifier

from vicinal._base import fit_weighted, takes_weights
from vicinal.partition._training_set import TrainingSet


def clone_with_seed(estimator: Any, seed: int | None) -> Any:
    """Clone ``estimator`` and give every ``random_state`` that was left open the seed.

    The seed itself, not one drawn from it: one region is the plain estimator with the user's seed.
    """
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
        self.accepts_weight = takes_weights(estimator)

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
        model = clone_with_seed(self.estimator, seed)
        part = X if len(rows) == X.shape[0] else X[rows]
        return fit_weighted(model, part, target, weight)
