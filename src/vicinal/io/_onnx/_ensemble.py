"""Ensembles of models that can be exported; trees are written as one node."""

from typing import Any

import numpy as np

import vicinal
from vicinal._base._wrappers import split_steps
from vicinal._kernels.ensemble import _boosting
from vicinal._kernels.ensemble._weights import log_proba
from vicinal.auto import AutoClassifier, AutoRegressor
from vicinal.io._errors import OnnxExportError
from vicinal.io._onnx._graph import Node, writes
from vicinal.io._onnx._linear import filled_in
from vicinal.io._onnx._table import write_table
from vicinal.io._onnx._trees import TREE_CLASSIFIERS, TREE_REGRESSORS, forest_proba, forest_values
from vicinal.table import TableEncoder


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


@writes("proba", vicinal.FunctionalGradientBoostingClassifier)
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


@writes("values", vicinal.FunctionalGradientBoostingRegressor)
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


@writes("proba", vicinal.RealAdaBoostClassifier)
def _adaboost_proba(model: Any, x: Node) -> Node:
    proba = _all_proba(model.estimators_, x, len(model.classes_))
    log_p = proba.op("Clip", float(model.eps), 1.0 - model.eps).op("Log")
    # Scores are not centred here, because the softmax does not depend on a common shift.
    return (log_p.total(1) * float(model.learning_rate)).softmax()


# --- averages ---


@writes("proba", vicinal.BootstrapEnsembleClassifier)
def _bootstrap_proba(model: Any, x: Node) -> Node:
    return _all_proba(model.estimators_, x, len(model.classes_)).average(1)


@writes("values", vicinal.BootstrapEnsembleRegressor)
def _bootstrap_value(model: Any, x: Node) -> Node:
    return _all_values(model.estimators_, x).average(1, keep=True)


@writes("proba", vicinal.BayesianModelAveragingClassifier)
def _averaged_proba(model: Any, x: Node) -> Node:
    return _averaged(model, x, lambda base: _model_proba(base, x, len(model.classes_)))


@writes("values", vicinal.BayesianModelAveragingRegressor)
def _averaged_value(model: Any, x: Node) -> Node:
    return _averaged(model, x, lambda base: x.write("values", base))


def _averaged(model: Any, x: Node, write: Any) -> Node:
    """Write the weighted sum of the predictions of base models."""
    pairs = zip(model.estimators_, model.weights_, strict=True)
    return x.graph.weighted([(write(base), weight) for base, weight in pairs if weight > 0.0])


# --- AutoClassifier and AutoRegressor ---


@writes("proba", AutoClassifier)
def _auto_proba(model: Any, x: Node) -> Node:
    classes = np.asarray(model.classes_)
    # log_proba is the logarithm of a linear function of the probability, given by its ends.
    high, *_, low = np.exp(log_proba(np.eye(len(classes))[:1], model.n_samples_fit_))[0]

    def calibrated(base: Any, rows: Node) -> Node:
        last, rows = _last(base.estimator, rows)
        proba, own = _scores_as_proba(last, rows), np.asarray(base.estimator.classes_)
        if len(own) < len(classes):
            proba = proba @ (own[:, None] == classes)
        return ((proba * (high - low) + low).op("Log") * base.slope).softmax()

    return _calibrated_average(model, x, calibrated)


@writes("values", AutoRegressor)
def _auto_value(model: Any, x: Node) -> Node:
    def value(base: Any, rows: Node) -> Node:
        last, rows = _last(base.estimator, rows)
        values = rows.write("values", last)
        if base.limits is not None:
            values = values.op("Max", base.limits[0]).op("Min", base.limits[1])
        return values + base.offset

    return _calibrated_average(model, x, value)


def _calibrated_average(model: Any, x: Node, write: Any) -> Node:
    """Write the weighted sum of what ``write`` makes of every base model and its rows."""
    encodings: dict[str, Node] = {}
    parts, failures = [], []
    for base in model.estimators_:
        if base.encoding not in encodings:
            encodings[base.encoding] = _encoded(model, base.encoding, x)
        try:
            parts.append((write(base, encodings[base.encoding]), base.weight))
        except OnnxExportError as error:
            failures.append(f"{base.name!r} with {100 * base.weight:.0f} % of the weight ({error})")
    if failures:
        raise OnnxExportError(
            f"{type(model).__name__} has base models that cannot be exported: "
            f"{'; '.join(failures)}. Fit with families that can be exported."
        )
    return x.graph.weighted(parts)


def _encoded(model: Any, encoding: str, x: Node) -> Node:
    """Write an encoding of the table."""
    encoder, medians = model.encoders_[encoding], model._encodings.medians
    if isinstance(encoder, TableEncoder):
        return write_table(x.graph, encoder)
    rows = x if encoder is None else x.write("features", encoder)
    return filled_in(rows, medians) if encoding == "distance" and medians is not None else rows


def _last(model: Any, x: Node) -> tuple[Any, Node]:
    """Write the transformers before a model; return the model and its input."""
    steps, last = split_steps(model)
    for step in steps:
        x = x.write("features", step)
    return last, x


def _scores_as_proba(model: Any, x: Node) -> Node:
    """Write probabilities, by the softmax of the scores if the model has no others."""
    if hasattr(model, "predict_proba"):
        return x.write("proba", model)
    scores = x.write("scores", model)
    if len(model.classes_) == 2:
        # Two classes share one score; skl2onnx may return both, the second last.
        scores = scores.columns([-1]) @ np.array([[-0.5, 0.5]])
    return scores.softmax()
