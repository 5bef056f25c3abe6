"""Ensembles of models that can be exported; trees are written as one node."""

from typing import Any

import numpy as np

from vicinal._kernels.ensemble import _boosting
from vicinal.ensemble import (
    BayesianModelAveragingClassifier,
    BayesianModelAveragingRegressor,
    BootstrapEnsembleClassifier,
    BootstrapEnsembleRegressor,
    FunctionalGradientBoostingClassifier,
    FunctionalGradientBoostingRegressor,
    RealAdaBoostClassifier,
)
from vicinal.io._errors import OnnxExportError
from vicinal.io._onnx._graph import Graph, Writer
from vicinal.io._onnx._trees import (
    TREE_CLASSIFIERS,
    TREE_REGRESSORS,
    forest_proba,
    forest_values,
)


def _are(models: list[Any], kinds: tuple[type, ...]) -> bool:
    return bool(models) and all(type(base) in kinds for base in models)


def _all_proba(graph: Graph, models: list[Any], x: str, n_classes: int) -> str:
    """Write the probabilities of models whose classes are codes, (n, n_models, n_classes)."""
    if _are(models, TREE_CLASSIFIERS):
        return forest_proba(graph, models, x, n_classes)
    return graph.concat(
        [graph.reshape(_model_proba(graph, m, x, n_classes), 0, 1, n_classes) for m in models]
    )


def _model_proba(graph: Graph, base: Any, x: str, n_classes: int) -> str:
    if hasattr(base, "predict_proba"):
        return graph.proba(base, x, np.arange(n_classes))
    votes = graph.one_hot(graph.codes(base, x), len(base.classes_))
    return graph.affine(votes, base.classes_[:, None] == np.arange(n_classes))


def _all_values(graph: Graph, models: list[Any], x: str) -> str:
    """Write the predictions of regressors, (n, n_models)."""
    if _are(models, TREE_REGRESSORS):
        return forest_values(graph, models, x)
    return graph.concat([graph.write("values", base, x) for base in models])


# --- boosting ---


def _boosted(graph: Graph, model: Any, x: str, factor: float = 1.0) -> str:
    """Write the scores of all rounds times a factor, (n, n_scores)."""
    start = factor * np.atleast_1d(model.intercept_).astype(float)
    if not model.n_iter_:
        return graph.repeat(start, x)
    groups = [g if isinstance(g, list) else [g] for g in model.estimators_]
    models = [base for group in groups for base in group]
    outputs = _all_values(graph, models, x)
    # One column per round and score; each score sums its own.
    weights = np.kron(factor * np.asarray(model.coef_)[:, None], np.eye(len(start)))
    return graph.affine(outputs, weights, start)


def _boosted_proba(graph: Graph, model: Any, x: str) -> str:
    slopes: dict[Any, float] = {"log_loss": 1.0, "exponential": 2.0}
    slopes |= {_boosting.Logistic: 1.0, _boosting.Exponential: 2.0, _boosting.Multinomial: 1.0}
    slope = slopes.get(model.loss if isinstance(model.loss, str) else type(model.loss))
    if slope is None:
        raise OnnxExportError(
            f"the probabilities of loss={model.loss!r} cannot be exported; use loss='log_loss' or "
            "'exponential'."
        )
    return graph.probabilities(_boosted(graph, model, x, slope), len(model.classes_))


def _boosted_value(graph: Graph, model: Any, x: str) -> str:
    scores, loss = _boosted(graph, model, x), model.loss
    loss = _boosting.REGRESSION_LOSSES[loss](model.quantile) if isinstance(loss, str) else loss
    if not hasattr(loss, "mean"):
        return scores
    if type(loss) is _boosting.Poisson:
        return graph.add("Exp", scores)
    raise OnnxExportError(
        f"the mean of loss={model.loss!r} cannot be exported; use a loss by name."
    )


def _adaboost_proba(graph: Graph, model: Any, x: str) -> str:
    n_classes = len(model.classes_)
    proba = _all_proba(graph, model.estimators_, x, n_classes)
    low, high = graph.constant(float(model.eps)), graph.constant(1.0 - model.eps)
    log_p = graph.add("Log", graph.add("Clip", proba, low, high))
    total = graph.times(graph.total(log_p, 1), float(model.learning_rate), n_classes)
    # Scores are not centred here, because the softmax does not depend on a common shift.
    return graph.add("Softmax", total, axis=1)


# --- averages ---


def _bootstrap_proba(graph: Graph, model: Any, x: str) -> str:
    whole = _all_proba(graph, model.estimators_, x, len(model.classes_))
    return graph.average(whole, 1)


def _bootstrap_value(graph: Graph, model: Any, x: str) -> str:
    whole = _all_values(graph, model.estimators_, x)
    return graph.average(whole, 1, keep=True)


def _weighted_models(model: Any) -> list[tuple[Any, float]]:
    """Return the base models with a positive weight, and the weights."""
    return [pair for pair in zip(model.estimators_, model.weights_, strict=True) if pair[1] > 0.0]


def _averaged(graph: Graph, parts: list[tuple[str, float]], width: int) -> str:
    """Write the weighted sum of predictions with ``width`` columns."""
    weights = np.array([weight for _, weight in parts])
    mix = np.kron(weights[:, None], np.eye(width))
    return graph.affine(graph.concat([part for part, _ in parts]), mix)


def _averaged_proba(graph: Graph, model: Any, x: str) -> str:
    n_classes = len(model.classes_)
    return _averaged(
        graph,
        [
            (_model_proba(graph, base, x, n_classes), weight)
            for base, weight in _weighted_models(model)
        ],
        n_classes,
    )


def _averaged_value(graph: Graph, model: Any, x: str) -> str:
    return _averaged(
        graph,
        [(graph.write("values", base, x), weight) for base, weight in _weighted_models(model)],
        1,
    )


PROBA: dict[type, Writer] = {
    FunctionalGradientBoostingClassifier: _boosted_proba,
    RealAdaBoostClassifier: _adaboost_proba,
    BootstrapEnsembleClassifier: _bootstrap_proba,
    BayesianModelAveragingClassifier: _averaged_proba,
}
VALUES: dict[type, Writer] = {
    FunctionalGradientBoostingRegressor: _boosted_value,
    BootstrapEnsembleRegressor: _bootstrap_value,
    BayesianModelAveragingRegressor: _averaged_value,
}
