"""One model on one fold: fit, predict, and everything a score can be computed from."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone, is_classifier
from sklearn.metrics import check_scoring
from sklearn.utils.metaestimators import available_if

from vicinal._base._compat import rows_of

_MOST_BYTES = 2**29


@dataclass(frozen=True)
class FoldResult:
    """What a model answered on the test rows of a fold; ``error`` says why it could not."""

    prediction: np.ndarray
    classes: np.ndarray | None
    proba: np.ndarray | None
    decision: np.ndarray | None
    fit_seconds: float
    predict_seconds: float
    error: str = ""

    @property
    def seconds(self) -> float:
        """Wall time of fit and prediction together."""
        return self.fit_seconds + self.predict_seconds


class FoldRunner:
    """Fits models on folds of one table; encoded rows are kept within a bound of memory."""

    def __init__(self, models: dict, X: Any, y: Any, folds: list, encoder: Any) -> None:
        self.models, self.X, self.y = models, X, y
        self.folds, self.encoder = folds, encoder
        self._encoded: dict[int, tuple[Any, Any]] = {}

    def run(self, name: str, fold: int) -> FoldResult:
        """Fit and predict; an exception becomes the ``error`` of the result."""
        try:
            return self._fit_and_predict(clone(self.models[name]), fold)
        except Exception as error:
            return failure(f"{type(error).__name__}: {error}")

    def _fit_and_predict(self, model, fold) -> FoldResult:
        X_train, X_test = self._rows(fold)
        started = time.perf_counter()
        model.fit(X_train, rows_of(self.y, self.folds[fold][0]))
        fitted = time.perf_counter()
        prediction, classes, proba, decision = _answers(model, X_test)
        ended = time.perf_counter()
        return FoldResult(prediction, classes, proba, decision, fitted - started, ended - fitted)

    def _rows(self, fold):
        train, test = self.folds[fold]
        if self.encoder is None:
            return rows_of(self.X, train), rows_of(self.X, test)
        if fold not in self._encoded:
            encoder = clone(self.encoder)
            encoded = encoder.fit_transform(rows_of(self.X, train), rows_of(self.y, train))
            known = sum(
                getattr(part, "nbytes", 0) for pair in self._encoded.values() for part in pair
            )
            if known > _MOST_BYTES:
                self._encoded.clear()
            self._encoded[fold] = encoded, encoder.transform(rows_of(self.X, test))
        return self._encoded[fold]


def failure(message: str) -> FoldResult:
    """Return the result of a fold that could not be finished, with the first line of the reason."""
    empty = np.array([])
    return FoldResult(empty, None, None, None, np.nan, np.nan, message.splitlines()[0])


def _answers(model, X):
    """Return prediction, classes, probabilities and decision values, whichever the model has."""
    if not is_classifier(model):
        return np.asarray(model.predict(X)), None, None, None
    classes = np.asarray(model.classes_)
    if hasattr(model, "predict_proba"):
        # Lazy models pay for every call: the label is read off the probabilities.
        proba = np.asarray(model.predict_proba(X))
        return classes[proba.argmax(axis=1)], classes, proba, None
    decision = model.decision_function(X) if hasattr(model, "decision_function") else None
    return np.asarray(model.predict(X)), classes, None, decision


def score(result: FoldResult, y_test: Any, metric: str) -> float:
    """Score the stored answers of a fold as scikit-learn's scorer would score the model itself."""
    stored = (_StoredRegressor if result.classes is None else _StoredClassifier)(result)
    try:
        return float(check_scoring(stored, metric)(stored, np.zeros((len(y_test), 1)), y_test))
    except AttributeError as error:
        raise ValueError(f"{metric} needs scores that this model does not give") from error


def _has(answer: str):
    return available_if(lambda stored: getattr(stored.result, answer) is not None)


class _Stored(BaseEstimator):
    """Answers that were given before, in the shape of a fitted estimator."""

    def __init__(self, result):
        self.result = result
        if result.classes is not None:
            self.classes_ = result.classes

    def fit(self, X, y):
        return self

    def predict(self, X):
        return self.result.prediction

    @_has("proba")
    def predict_proba(self, X):
        return self.result.proba

    @_has("decision")
    def decision_function(self, X):
        return self.result.decision

    def __sklearn_is_fitted__(self):
        return True


class _StoredClassifier(ClassifierMixin, _Stored):
    pass


class _StoredRegressor(RegressorMixin, _Stored):
    pass
