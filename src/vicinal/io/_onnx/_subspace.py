"""Subspace fusion, truncated RBF models, DivideConquerSVC."""

from itertools import combinations
from typing import Any

import numpy as np

from vicinal._kernels.subspace._truncated_rbf import monomial_plan
from vicinal.io._errors import OnnxExportError
from vicinal.io._onnx._graph import Node, Writer
from vicinal.io._onnx._linear import affine_features, pair_margins, rbf
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


def _subspace(decomposition: Any, index: int, x: Node) -> Node:
    """Write the features of one subspace; a decomposition is a linear map."""
    if decomposition is None:
        return x
    if type(decomposition) is not FeatureSpaceDecomposition:
        raise OnnxExportError(
            f"the decomposition {type(decomposition).__name__} cannot be exported; use a "
            "FeatureSpaceDecomposition."
        )
    return x @ decomposition.transform_subspace(np.eye(decomposition.n_features_in_), index)


def _local_scores(fusion: Any, model: Any, x: Node) -> Node:
    """Write the scores of one local classifier, in the columns of the fusion."""
    n_classes = len(fusion.classes_)
    if fusion.stack_method_ == "predict":
        scores = x.codes(model).one_hot(np.arange(n_classes)) * 2.0 - 1.0
    elif fusion.stack_method_ == "predict_proba":
        scores = x.proba(model)
    else:
        return x.write("scores", model)
    return scores.columns([1]) if n_classes == 2 else scores


def _fused(fusion: Any, x: Node, write: Any) -> Node:
    """Write the standardised scores that the fusion sees."""
    views = [write(model, _subspace(parts, index, x)) for parts, index, model in fusion.views_]
    scores = x.graph.concat(views).columns(np.flatnonzero(fusion.score_mask_))
    return (scores - fusion.score_mean_) * (1.0 / fusion.score_scale_)


def _fusion_proba(fusion: Any, x: Node) -> Node:
    if not hasattr(fusion.fusion_estimator_, "predict_proba"):
        raise OnnxExportError(
            f"the fusion estimator {type(fusion.fusion_estimator_).__name__} has no "
            "predict_proba, which the graph computes; leave fusion_estimator=None."
        )
    scores = _fused(fusion, x, lambda model, z: _local_scores(fusion, model, z))
    return scores.proba(fusion.fusion_estimator_)


def _fusion_value(fusion: Any, x: Node) -> Node:
    scores = _fused(fusion, x, lambda model, z: z.write("values", model))
    return scores.write("values", fusion.fusion_estimator_)


# --- truncated RBF ---


def _monomials(model: Any, x: Node) -> Node:
    """Write the features whose products are the kernel."""
    scaled = (x - np.asarray(model.mean_)) * np.sqrt(2.0 * model.gamma_)
    levels = [((scaled * scaled).total(1, keep=True) * -0.5).op("Exp")]
    plan = monomial_plan(len(model.mean_), model.order)
    for parents, letters, factors in zip(plan.parents, plan.letters, plan.factors, strict=True):
        levels.append(levels[-1].columns(parents) * (scaled.columns(letters) * factors))
    return x.graph.concat(levels)


def _truncated(model: Any, x: Node) -> Node:
    """Write the linear predictor of a truncated RBF machine."""
    if model.solver_ == "primal":
        return _monomials(model, x) @ model.primal_coef_ + model.intercept_
    shifted = x - np.asarray(model.mean_)
    rows, gamma = np.asarray(model.rows_, dtype=np.float64), model.gamma_
    product = shifted @ (2.0 * gamma * rows.T)
    series: Any = 1.0
    for k in range(model.order, 0, -1):
        series = product * series * np.full(len(rows), 1.0 / k) + 1.0
    own = ((shifted * shifted).total(1, keep=True) * -gamma).op("Exp")
    kernel = series * own * np.exp(-gamma * (rows**2).sum(axis=1))
    return kernel @ model.dual_coef_ + model.intercept_


def _truncated_scores(model: Any, x: Node) -> Node:
    scores = _truncated(model, x)
    return scores - model.threshold_ if len(model.classes_) == 2 else scores


def _truncated_value(model: Any, x: Node) -> Node:
    if len(model.intercept_) > 1:
        raise OnnxExportError("TruncatedRBFRegressor has several targets; export one for each.")
    return _truncated(model, x)


# --- support vector machines by clusters ---


def _class_scores(margins: Node, present: np.ndarray, n_classes: int) -> Node:
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
    return margins.op("Tanh") @ (spread / (n_classes - 1)) + start / (n_classes - 1)


def _machine_scores(machine: Any, x: Node, n_classes: int) -> Node:
    if not isinstance(machine, int | np.integer):
        return _class_scores(pair_margins(machine, x), np.asarray(machine.classes_), n_classes)
    if n_classes == 2:
        return x.repeat([1.0 if machine == 1 else -1.0])
    alone = np.full(n_classes, -1.0)
    alone[machine] = n_classes - 1.0
    return x.repeat(alone / (n_classes - 1))


def _divided_scores(model: Any, x: Node) -> Node:
    n_classes = len(model.classes_)
    if model.prediction == "exact":
        margins = rbf(x, model.support_vectors_, model.gamma_, model.dual_coef_)
        return _class_scores(margins, np.arange(n_classes), n_classes)
    nearest = x.square_distances(model.cluster_centers_).op("ArgMin", axis=1, keepdims=1)
    own = nearest.one_hot(np.arange(model.n_clusters_)).reshape(0, model.n_clusters_, 1)
    width = 1 if n_classes == 2 else n_classes
    parts = [_machine_scores(one, x, n_classes).reshape(0, 1, width) for one in model.estimators_]
    return (x.graph.concat(parts) * own).total(1)


def _divided_proba(model: Any, x: Node) -> Node:
    if model.calibration is None:
        raise OnnxExportError(
            "DivideConquerSVC has probabilities with calibration='temperature' only."
        )
    n_classes = len(model.classes_)
    slopes = float(model.slope_) * np.eye(1 if n_classes == 2 else n_classes)
    return (_divided_scores(model, x) @ slopes).probabilities(n_classes)


PROBA: dict[type, Writer] = {
    SubspaceFusionClassifier: _fusion_proba,
    TruncatedRBFClassifier: lambda model, x: (
        _truncated_scores(model, x) * float(model.slope_)
    ).probabilities(len(model.classes_)),
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
    TruncatedRBFFeatures: _monomials,
}
