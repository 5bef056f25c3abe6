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
from vicinal.io._onnx._graph import Node, Writer
from vicinal.io._onnx._trees import (
    TREE_CLASSIFIERS,
    TREE_REGRESSORS,
    forest_proba,
    forest_values,
)


def _all_proba(models: list[Any], x: Node, n_classes: int) -> Node:
    """Write the probabilities of models whose classes are codes, (n, n_models, n_classes)."""
    if all(type(base) in TREE_CLASSIFIERS for base in models):
        return forest_proba(models, x, n_classes)
    parts = [_model_proba(base, x, n_classes).reshape(0, 1, n_classes) for base in models]
    return x.graph.concat(parts)


def _model_proba(base: Any, x: Node, n_classes: int) -> Node:
    if hasattr(base, "predict_proba"):
        return x.proba(base, np.arange(n_classes))
    votes = x.codes(base).one_hot(np.arange(len(base.classes_)))
    return votes @ (base.classes_[:, None] == np.arange(n_classes))


def _all_values(models: list[Any], x: Node) -> Node:
    """Write the predictions of regressors, (n, n_models)."""
    if all(type(base) in TREE_REGRESSORS for base in models):
        return forest_values(models, x)
    return x.graph.concat([x.write("values", base) for base in models])


# --- boosting ---


def _boosted(model: Any, x: Node, factor: float = 1.0) -> Node:
    """Write the scores of all rounds times a factor, (n, n_scores)."""
    start = factor * np.atleast_1d(model.intercept_).astype(float)
    if not model.n_iter_:
        return x.repeat(start)
    groups = [g if isinstance(g, list) else [g] for g in model.estimators_]
    outputs = _all_values([base for group in groups for base in group], x)
    # One column per round and score; each score sums its own.
    return outputs @ np.kron(factor * np.asarray(model.coef_)[:, None], np.eye(len(start))) + start


def _boosted_proba(model: Any, x: Node) -> Node:
    slopes: dict[Any, float] = {"log_loss": 1.0, "exponential": 2.0}
    slopes |= {_boosting.Logistic: 1.0, _boosting.Exponential: 2.0, _boosting.Multinomial: 1.0}
    slope = slopes.get(model.loss if isinstance(model.loss, str) else type(model.loss))
    if slope is None:
        raise OnnxExportError(
            f"the probabilities of loss={model.loss!r} cannot be exported; use loss='log_loss' or "
            "'exponential'."
        )
    return _boosted(model, x, slope).probabilities(len(model.classes_))


def _boosted_value(model: Any, x: Node) -> Node:
    scores, loss = _boosted(model, x), model.loss
    loss = _boosting.REGRESSION_LOSSES[loss](model.quantile) if isinstance(loss, str) else loss
    if not hasattr(loss, "mean"):
        return scores
    if type(loss) is _boosting.Poisson:
        return scores.op("Exp")
    raise OnnxExportError(
        f"the mean of loss={model.loss!r} cannot be exported; use a loss by name."
    )


def _adaboost_proba(model: Any, x: Node) -> Node:
    proba = _all_proba(model.estimators_, x, len(model.classes_))
    log_p = proba.op("Clip", float(model.eps), 1.0 - model.eps).op("Log")
    # Scores are not centred here, because the softmax does not depend on a common shift.
    return (log_p.total(1) * float(model.learning_rate)).softmax()


# --- averages ---


def _averaged(model: Any, write: Any) -> Node:
    """Write the weighted sum of the predictions of base models."""
    pairs = [pair for pair in zip(model.estimators_, model.weights_, strict=True) if pair[1] > 0.0]
    parts = [(write(base), weight) for base, weight in pairs]
    return parts[0][0].graph.weighted(parts)


PROBA: dict[type, Writer] = {
    FunctionalGradientBoostingClassifier: _boosted_proba,
    RealAdaBoostClassifier: _adaboost_proba,
    BootstrapEnsembleClassifier: lambda model, x: _all_proba(
        model.estimators_, x, len(model.classes_)
    ).average(1),
    BayesianModelAveragingClassifier: lambda model, x: _averaged(
        model, lambda base: _model_proba(base, x, len(model.classes_))
    ),
}
VALUES: dict[type, Writer] = {
    FunctionalGradientBoostingRegressor: _boosted_value,
    BootstrapEnsembleRegressor: lambda model, x: _all_values(model.estimators_, x).average(
        1, keep=True
    ),
    BayesianModelAveragingRegressor: lambda model, x: _averaged(
        model, lambda base: x.write("values", base)
    ),
}
