"""Models inside pipelines, and decision thresholds."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.pipeline import Pipeline

from vicinal._base._compat import tuned_label
from vicinal._base._unseen import UnseenValues, as_novel


def can(model: Any, method: str) -> bool:
    """Return whether a model, or the last step of a pipeline, has a method."""
    return hasattr(model, method) or (
        isinstance(model, Pipeline) and can(model.steps[-1][1], method)
    )


def call_method(model: Any, method: str, X: Any, **options: Any) -> Any:
    """Call a method of a model, or of the last step of a pipeline on transformed rows."""
    if isinstance(model, Pipeline) and not hasattr(model, method):
        found = call_method(model.steps[-1][1], method, model[:-1].transform(X), **options)
        first = model.steps[0][1]
        is_typicality = method == "typicality" and hasattr(first, "unseen_values")
        return as_novel(found, first.unseen_values(X)) if is_typicality else found
    return getattr(model, method)(X, **options)


def unseen_values(model: Any, X: Any) -> list[UnseenValues]:
    """Return the values that no training row has, of a model or the first step of a pipeline."""
    reader = _reader(model)
    return reader.unseen_values(X) if hasattr(reader, "unseen_values") else []


def unseen_rule(model: Any) -> str:
    """Return what a model does with unseen values: "warn", "error" or "ignore"."""
    return getattr(_reader(model), "unseen", "warn")


def _reader(model: Any) -> Any:
    steps, last = split_steps(model)
    return steps[0] if steps else last


def encoder_of(model: Any) -> Any:
    """Return the ``TableEncoder`` of a model or the first step of a pipeline, if it has one."""
    reader = _reader(model)
    known = [reader, *getattr(reader, "encoders_", {}).values()]
    return next((part for part in known if hasattr(part, "with_numbers")), None)


class Rule(NamedTuple):
    """Predict the class ``code`` if its probability is at least ``value``, else the other one."""

    code: int
    value: float

    def codes(self, proba: np.ndarray) -> np.ndarray:
        """Return the codes of the predicted classes."""
        return np.where(proba[:, self.code] >= self.value, self.code, 1 - self.code)


def with_threshold(model: Any, positive: Any, value: float) -> FixedThresholdClassifier:
    """Return a fitted classifier that predicts ``positive`` from the probability ``value`` on."""
    decided = FixedThresholdClassifier(
        FrozenEstimator(model), threshold=value, pos_label=positive, response_method="predict_proba"
    )
    return decided.fit(np.zeros((2, 1)), model.classes_)


def split_threshold(model: Any) -> tuple[Any, Rule | None]:
    """Return the classifier without its decision threshold, and the threshold as a rule.

    This also works inside pipelines and searches; the classifier takes the same rows.
    """
    if hasattr(model, "best_estimator_"):
        inner, rule = split_threshold(model.best_estimator_)
        return (model, None) if rule is None else (inner, rule)
    if isinstance(model, Pipeline):
        inner, rule = split_threshold(model.steps[-1][1])
        if rule is None:
            return model, None
        return Pipeline([*model.steps[:-1], (model.steps[-1][0], inner)]), rule
    if not isinstance(model, FixedThresholdClassifier | TunedThresholdClassifierCV):
        return model, None
    inner = model.estimator_
    inner = inner.estimator if isinstance(inner, FrozenEstimator) else inner
    if model.response_method == "decision_function" or not hasattr(inner, "predict_proba"):
        return model, None
    if isinstance(model, TunedThresholdClassifierCV):
        label, value = tuned_label(model), model.best_threshold_
    else:
        label, value = model.pos_label, 0.5 if model.threshold == "auto" else model.threshold
    # As in scikit-learn, the second class is the default.
    code = 1 if label is None else int(np.flatnonzero(np.asarray(model.classes_) == label)[0])
    return inner, Rule(code, float(value))


def split_steps(model: Any) -> tuple[list[Any], Any]:
    """Return the transformers before the last model, and the model without its threshold."""
    model, _ = split_threshold(model)
    if hasattr(model, "best_estimator_"):
        return split_steps(model.best_estimator_)
    if not isinstance(model, Pipeline):
        return [], model
    before = [step for _, step in model.steps[:-1] if step not in (None, "passthrough")]
    inner, last = split_steps(model.steps[-1][1])
    return [*before, *inner], last
