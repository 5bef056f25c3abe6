"""Subspace fusion, truncated RBF models, DivideConquerSVC."""

from itertools import combinations
from typing import Any

import numpy as np
from sklearn.svm import SVC

from vicinal._base._compat import svc_gamma
from vicinal._kernels.subspace._truncated_rbf import monomial_plan
from vicinal.io._errors import OnnxExportError
from vicinal.io._onnx._graph import Graph, Writer
from vicinal.io._onnx._linear import affine_features
from vicinal.subspace import (
    DivideConquerSVC,
    FeatureSpaceDecomposition,
    SubspaceFusionClassifier,
    SubspaceFusionRegressor,
    TruncatedRBFClassifier,
    TruncatedRBFFeatures,
    TruncatedRBFRegressor,
)

# --- fusion ---


def _subspace(graph: Graph, decomposition: Any, index: int, x: str) -> str:
    """Write the features of one subspace; a decomposition is a linear map."""
    if decomposition is None:
        return x
    if type(decomposition) is not FeatureSpaceDecomposition:
        raise OnnxExportError(
            f"the decomposition {type(decomposition).__name__} cannot be exported; use a "
            "FeatureSpaceDecomposition."
        )
    axes = decomposition.transform_subspace(np.eye(decomposition.n_features_in_), index)
    return graph.affine(x, axes)


def _local_scores(graph: Graph, fusion: Any, view: Any, x: str) -> str:
    """Write the scores of one local classifier, in the columns of the fusion."""
    decomposition, index, model = view
    x = _subspace(graph, decomposition, index, x)
    n_classes = len(fusion.classes_)
    if fusion.stack_method_ == "predict":
        votes = graph.one_hot(graph.codes(model, x), n_classes)
        scores = graph.plus(graph.times(votes, 2.0, n_classes), -1.0)
    elif fusion.stack_method_ == "predict_proba":
        scores = graph.proba(model, x)
    else:
        return graph.write("scores", model, x)
    return graph.columns(scores, [1]) if n_classes == 2 else scores


def _fused(graph: Graph, fusion: Any, write: Any) -> str:
    """Write the standardised scores that the fusion sees."""
    parts = graph.concat([write(view) for view in fusion.views_])
    scores = graph.columns(parts, np.flatnonzero(fusion.score_mask_))
    return graph.times(graph.plus(scores, -fusion.score_mean_), 1.0 / fusion.score_scale_)


def _fusion_proba(graph: Graph, fusion: Any, x: str) -> str:
    scores = _fused(graph, fusion, lambda view: _local_scores(graph, fusion, view, x))
    if not hasattr(fusion.fusion_estimator_, "predict_proba"):
        raise OnnxExportError(
            f"the fusion estimator {type(fusion.fusion_estimator_).__name__} has no "
            "predict_proba, which the graph computes; leave fusion_estimator=None."
        )
    return graph.proba(fusion.fusion_estimator_, scores)


def _fusion_value(graph: Graph, fusion: Any, x: str) -> str:
    def write(view):
        decomposition, index, model = view
        return graph.write("values", model, _subspace(graph, decomposition, index, x))

    return graph.write("values", fusion.fusion_estimator_, _fused(graph, fusion, write))


# --- truncated RBF ---


def _monomials(graph: Graph, x: str, mean: Any, gamma: float, order: int) -> str:
    """Write the features whose products are the kernel."""
    scaled = graph.times(graph.plus(x, -np.asarray(mean)), np.sqrt(2.0 * gamma), len(mean))
    square = graph.total(graph.add("Mul", scaled, scaled), 1, keep=True)
    level = graph.add("Exp", graph.times(square, -0.5, 1))
    levels = [level]
    plan = monomial_plan(len(mean), order)
    for parents, letters, factors in zip(plan.parents, plan.letters, plan.factors, strict=True):
        letter = graph.times(graph.columns(scaled, letters), factors)
        level = graph.add("Mul", graph.columns(level, parents), letter)
        levels.append(level)
    return graph.concat(levels)


def _truncated(graph: Graph, model: Any, x: str) -> str:
    """Write the linear predictor of a truncated RBF machine."""
    if model.solver_ == "primal":
        features = _monomials(graph, x, model.mean_, model.gamma_, model.order)
        return graph.affine(features, model.primal_coef_, model.intercept_)
    shifted = graph.plus(x, -np.asarray(model.mean_))
    rows, gamma = np.asarray(model.rows_, dtype=np.float64), model.gamma_
    product = graph.affine(shifted, 2.0 * gamma * rows.T)
    series = graph.constant(1.0)
    for k in range(model.order, 0, -1):
        series = graph.times(graph.add("Mul", product, series), 1.0 / k, len(rows))
        series = graph.plus(series, 1.0)
    square = graph.total(graph.add("Mul", shifted, shifted), 1, keep=True)
    own = graph.add("Exp", graph.times(square, -gamma, 1))
    kernel = graph.times(graph.add("Mul", series, own), np.exp(-gamma * (rows**2).sum(axis=1)))
    return graph.affine(kernel, model.dual_coef_, model.intercept_)


def _truncated_scores(graph: Graph, model: Any, x: str) -> str:
    scores = _truncated(graph, model, x)
    return graph.plus(scores, -model.threshold_) if len(model.classes_) == 2 else scores


def _truncated_proba(graph: Graph, model: Any, x: str) -> str:
    width = 1 if len(model.classes_) == 2 else len(model.classes_)
    scores = graph.times(_truncated_scores(graph, model, x), float(model.slope_), width)
    return graph.probabilities(scores, len(model.classes_))


def _truncated_value(graph: Graph, model: Any, x: str) -> str:
    if len(model.intercept_) > 1:
        raise OnnxExportError("TruncatedRBFRegressor has several targets; export one for each.")
    return _truncated(graph, model, x)


def _truncated_features(graph: Graph, model: Any, x: str) -> str:
    return _monomials(graph, x, model.mean_, model.gamma_, model.order)


# --- support vector machines ---


def _rbf(graph: Graph, x: str, centers: Any, gamma: float, coef: Any) -> str:
    square = graph.square_distances(x, centers)
    kernel = graph.add("Exp", graph.times(square, -gamma, len(centers)))
    return graph.affine(kernel, coef)


def _pair_margins(graph: Graph, machine: SVC, x: str) -> str:
    """Write the margins of an SVC, positive for the second class of each pair."""
    dual, sizes = np.asarray(machine.dual_coef_), machine.n_support_
    starts = np.concatenate([[0], np.cumsum(sizes)])
    pairs = list(combinations(range(len(sizes)), 2))
    coef = np.zeros((dual.shape[1], len(pairs)))
    for column, (a, b) in enumerate(pairs):
        first, second = slice(starts[a], starts[a + 1]), slice(starts[b], starts[b + 1])
        coef[first, column] = dual[b - 1, first]
        coef[second, column] = dual[a, second]
    margins = graph.plus(
        _rbf(graph, x, machine.support_vectors_, svc_gamma(machine), coef), machine.intercept_
    )
    return margins if len(pairs) == 1 else graph.add("Neg", margins)


def _class_scores(graph: Graph, margins: str, present: np.ndarray, n_classes: int) -> str:
    """Write class scores from the margins of all pairs of the classes present."""
    if n_classes == 2:
        return margins
    spread = np.zeros((len(present) * (len(present) - 1) // 2, n_classes))
    for line, (a, b) in enumerate(combinations(present, 2)):
        spread[line, a], spread[line, b] = -1.0, 1.0
    absent = np.setdiff1d(np.arange(n_classes), present)
    start = np.zeros(n_classes)
    start[present] += len(absent)
    start[absent] -= len(present)
    votes = graph.add("Tanh", margins)
    return graph.affine(votes, spread / (n_classes - 1), start / (n_classes - 1))


def _machine_scores(graph: Graph, machine: Any, x: str, n_classes: int) -> str:
    if not isinstance(machine, int | np.integer):
        margins = _pair_margins(graph, machine, x)
        return _class_scores(graph, margins, np.asarray(machine.classes_), n_classes)
    if n_classes == 2:
        return graph.repeat([1.0 if machine == 1 else -1.0], x)
    alone = np.full(n_classes, -1.0)
    alone[machine] = n_classes - 1.0
    return graph.repeat(alone / (n_classes - 1), x)


def _divided_scores(graph: Graph, model: Any, x: str) -> str:
    n_classes = len(model.classes_)
    if model.prediction == "exact":
        margins = _rbf(graph, x, model.support_vectors_, model.gamma_, model.dual_coef_)
        return _class_scores(graph, margins, np.arange(n_classes), n_classes)
    distances = graph.square_distances(x, model.cluster_centers_)
    own = graph.one_hot(graph.add("ArgMin", distances, axis=1, keepdims=1), model.n_clusters_)
    width = 1 if n_classes == 2 else n_classes
    parts = [
        graph.reshape(_machine_scores(graph, machine, x, n_classes), 0, 1, width)
        for machine in model.estimators_
    ]
    weighed = graph.add("Mul", graph.concat(parts), graph.reshape(own, 0, model.n_clusters_, 1))
    return graph.total(weighed, 1)


def _divided_proba(graph: Graph, model: Any, x: str) -> str:
    if model.calibration is None:
        raise OnnxExportError(
            "DivideConquerSVC has probabilities with calibration='temperature' only."
        )
    width = 1 if len(model.classes_) == 2 else len(model.classes_)
    scores = graph.times(_divided_scores(graph, model, x), float(model.slope_), width)
    return graph.probabilities(scores, len(model.classes_))


PROBA: dict[type, Writer] = {
    SubspaceFusionClassifier: _fusion_proba,
    TruncatedRBFClassifier: _truncated_proba,
    DivideConquerSVC: _divided_proba,
}
SCORES: dict[type, Writer] = {
    TruncatedRBFClassifier: _truncated_scores,
    DivideConquerSVC: _divided_scores,
}
VALUES: dict[type, Writer] = {
    SubspaceFusionRegressor: _fusion_value,
    TruncatedRBFRegressor: _truncated_value,
}
FEATURES: dict[type, Writer] = {
    FeatureSpaceDecomposition: affine_features,
    TruncatedRBFFeatures: _truncated_features,
}
