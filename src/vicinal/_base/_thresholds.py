"""Classifiers of two classes that answer one of them from some probability on."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier


class Rule(NamedTuple):
    """Answer the class of this code where its probability is at least ``value``, else the other."""

    code: int
    value: float

    def codes(self, proba: np.ndarray) -> np.ndarray:
        """Return the codes that are answered."""
        return np.where(proba[:, self.code] >= self.value, self.code, 1 - self.code)


def with_threshold(model: Any, positive: Any, value: float) -> FixedThresholdClassifier:
    """Return a fitted classifier as one that answers ``positive`` from this probability on."""
    decided = FixedThresholdClassifier(
        FrozenEstimator(model), threshold=value, pos_label=positive, response_method="predict_proba"
    )
    return decided.fit(np.zeros((2, 1)), model.classes_)


def split_threshold(model: Any) -> tuple[Any, Rule | None]:
    """Return the classifier behind a threshold on its probabilities, and that rule."""
    if not isinstance(model, FixedThresholdClassifier):
        return model, None
    inner = model.estimator_
    inner = inner.estimator if isinstance(inner, FrozenEstimator) else inner
    if model.response_method == "decision_function" or not hasattr(inner, "predict_proba"):
        return model, None
    # As scikit-learn has it, the second class is meant where none is named.
    known = np.flatnonzero(np.asarray(model.classes_) == model.pos_label)
    code = int(known[0]) if model.pos_label is not None else 1
    return inner, Rule(code, 0.5 if model.threshold == "auto" else float(model.threshold))
