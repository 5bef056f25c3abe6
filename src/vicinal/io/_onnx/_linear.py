"""Linear models, constants, and affine transformers."""

from typing import Any

import numpy as np
from sklearn import linear_model, svm
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.preprocessing import StandardScaler

from vicinal.io._errors import OnnxExportError
from vicinal.io._onnx._graph import Graph, Writer
from vicinal.linear import AveragedPerceptron, WeightedLDA, WhiteningTransformer

# Linear models with coef_ and intercept_, for any loss.
_REGRESSORS = (
    linear_model.ARDRegression,
    linear_model.BayesianRidge,
    linear_model.ElasticNet,
    linear_model.ElasticNetCV,
    linear_model.HuberRegressor,
    linear_model.Lars,
    linear_model.Lasso,
    linear_model.LassoCV,
    linear_model.LassoLars,
    linear_model.LinearRegression,
    linear_model.Ridge,
    linear_model.RidgeCV,
    linear_model.SGDRegressor,
    svm.LinearSVR,
)
_SCORERS = (
    linear_model.Perceptron,
    linear_model.RidgeClassifier,
    linear_model.RidgeClassifierCV,
    linear_model.SGDClassifier,
    svm.LinearSVC,
)


def linear_scores(graph: Graph, model: Any, x: str, factor: float = 1.0) -> str:
    """Write factor * (X coef' + intercept)."""
    coef = model.coef_.toarray() if hasattr(model.coef_, "toarray") else np.asarray(model.coef_)
    coef = np.atleast_2d(coef)
    intercept = np.broadcast_to(np.atleast_1d(model.intercept_), len(coef))
    return graph.affine(x, factor * coef.T.astype(np.float64), factor * intercept)


def _one_value(graph: Graph, model: Any, x: str) -> str:
    if np.ndim(model.coef_) == 2 and len(model.coef_) > 1:
        raise OnnxExportError(f"{type(model).__name__} has several targets; export one for each.")
    return linear_scores(graph, model, x)


def _logistic(graph: Graph, model: Any, x: str) -> str:
    return graph.probabilities(linear_scores(graph, model, x), len(model.classes_))


def _own_linear(graph: Graph, model: Any, x: str) -> str:
    scores = linear_scores(graph, model, x, 1.0 / float(getattr(model, "margin_scale_", 1.0)))
    return graph.probabilities(scores, len(model.classes_))


def _constant_proba(graph: Graph, model: Any, x: str) -> str:
    if model.strategy not in ("prior", "most_frequent", "constant"):
        raise OnnxExportError(
            f"DummyClassifier(strategy={model.strategy!r}) predicts at random, which cannot be "
            "exported; use strategy='prior'."
        )
    return graph.repeat(model.predict_proba(np.zeros((1, 1)))[0], x)


def _constant_value(graph: Graph, model: Any, x: str) -> str:
    return graph.repeat(np.ravel(model.constant_)[:1], x)


def affine_features(graph: Graph, transformer: Any, x: str) -> str:
    """Write an affine transformer, found from its values at zero and at the unit vectors."""
    width = transformer.n_features_in_
    origin = np.asarray(transformer.transform(np.zeros((1, width))), dtype=np.float64)
    moved = np.asarray(transformer.transform(np.eye(width)), dtype=np.float64)
    return graph.affine(x, moved - origin, origin)


def _scaled(graph: Graph, scaler: StandardScaler, x: str) -> str:
    if scaler.mean_ is not None and scaler.with_mean:
        x = graph.plus(x, -np.asarray(scaler.mean_))
    return x if scaler.scale_ is None else graph.times(x, 1.0 / np.asarray(scaler.scale_))


PROBA: dict[type, Writer] = {
    linear_model.LogisticRegression: _logistic,
    WeightedLDA: _own_linear,
    AveragedPerceptron: _own_linear,
    DummyClassifier: _constant_proba,
}
SCORES: dict[type, Writer] = {
    linear_model.LogisticRegression: linear_scores,
    WeightedLDA: linear_scores,
    AveragedPerceptron: linear_scores,
    **dict.fromkeys(_SCORERS, linear_scores),
}
VALUES: dict[type, Writer] = {
    DummyRegressor: _constant_value,
    **dict.fromkeys(_REGRESSORS, _one_value),
}
FEATURES: dict[type, Writer] = {
    StandardScaler: _scaled,
    WhiteningTransformer: affine_features,
}
