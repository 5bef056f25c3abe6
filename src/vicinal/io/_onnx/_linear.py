"""Linear models, support vector machines, constants, and transformers of columns."""

from itertools import combinations
from typing import Any

import numpy as np
from sklearn import linear_model, svm
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import PolynomialFeatures, StandardScaler, TargetEncoder

from vicinal._base._compat import svc_gamma
from vicinal.io._errors import OnnxExportError
from vicinal.io._onnx._graph import Node, writes
from vicinal.linear import AveragedPerceptron, WeightedLDA, WhiteningTransformer

# Linear models with coef_ and intercept_, for any loss.
_REGRESSORS = (
    "ARDRegression BayesianRidge ElasticNet ElasticNetCV HuberRegressor Lars Lasso LassoCV "
    "LassoLars LinearRegression Ridge RidgeCV SGDRegressor"
).split()
_SCORERS = "LogisticRegression Perceptron RidgeClassifier RidgeClassifierCV SGDClassifier".split()


@writes("scores", *(getattr(linear_model, name) for name in _SCORERS))
@writes("scores", svm.LinearSVC, WeightedLDA, AveragedPerceptron)
def _scores(model: Any, x: Node) -> Node:
    """Write X coef' + intercept."""
    coef = model.coef_.toarray() if hasattr(model.coef_, "toarray") else np.asarray(model.coef_)
    coef = np.atleast_2d(coef)
    return x @ coef.T + np.broadcast_to(np.atleast_1d(model.intercept_), len(coef))


@writes("values", svm.LinearSVR, *(getattr(linear_model, name) for name in _REGRESSORS))
def _one_value(model: Any, x: Node) -> Node:
    if np.ndim(model.coef_) == 2 and len(model.coef_) > 1:
        raise OnnxExportError(f"{type(model).__name__} has several targets; export one for each.")
    return _scores(model, x)


@writes("proba", linear_model.LogisticRegression, WeightedLDA, AveragedPerceptron)
def _logistic(model: Any, x: Node) -> Node:
    scores = _scores(model, x) * (1.0 / float(getattr(model, "margin_scale_", 1.0)))
    return scores.probabilities(len(model.classes_))


@writes("proba", DummyClassifier)
def _constant_proba(model: Any, x: Node) -> Node:
    if model.strategy not in ("prior", "most_frequent", "constant"):
        raise OnnxExportError(
            f"DummyClassifier(strategy={model.strategy!r}) predicts at random, which cannot be "
            "exported; use strategy='prior'."
        )
    return x.repeat(model.predict_proba(np.zeros((1, 1)))[0])


@writes("values", DummyRegressor)
def _constant_value(model: Any, x: Node) -> Node:
    return x.repeat(np.ravel(model.constant_)[:1])


# --- support vector machines with a radial kernel ---


def _rbf(x: Node, rows: Any, gamma: float, coef: Any) -> Node:
    """Write sum_i coef_i exp(-gamma |x - x_i|^2)."""
    return (x.square_distances(rows) * -float(gamma)).op("Exp") @ np.asarray(coef)


def _check_radial(model: Any) -> None:
    if model.kernel != "rbf":
        raise OnnxExportError(
            f"{type(model).__name__}(kernel={model.kernel!r}) cannot be exported; use kernel='rbf'."
        )


def _pair_margins(svc: svm.SVC, x: Node) -> Node:
    """Write the margins of an SVC, positive for the second class of each pair."""
    _check_radial(svc)
    dual, sizes = np.asarray(svc.dual_coef_), svc.n_support_
    starts = np.concatenate([[0], np.cumsum(sizes)])
    pairs = list(combinations(range(len(sizes)), 2))
    coef = np.zeros((dual.shape[1], len(pairs)))
    for column, (a, b) in enumerate(pairs):
        first, second = slice(starts[a], starts[a + 1]), slice(starts[b], starts[b + 1])
        coef[first, column] = dual[b - 1, first]
        coef[second, column] = dual[a, second]
    sign = 1.0 if len(pairs) == 1 else -1.0
    vectors, gamma = svc.support_vectors_, svc_gamma(svc)
    return _rbf(x, vectors, gamma, sign * coef) + sign * svc.intercept_


@writes("scores", svm.SVC)
def _svc_scores(svc: svm.SVC, x: Node) -> Node:
    """Write one score per class from the votes of all pairs, ties broken by their margins."""
    n_classes, margins = len(svc.classes_), _pair_margins(svc, x)
    if n_classes == 2:
        return margins
    if svc.decision_function_shape != "ovr":
        raise OnnxExportError("SVC can be exported with decision_function_shape='ovr' only.")
    wins = np.zeros((n_classes * (n_classes - 1) // 2, n_classes))
    for line, (a, b) in enumerate(combinations(range(n_classes), 2)):
        wins[line, a], wins[line, b] = -1.0, 1.0
    votes = (margins > 0.0).cast("DOUBLE") @ wins + (wins < 0.0).sum(axis=0)
    sums = margins @ wins
    return votes + sums / ((sums.op("Abs") + 1.0) * 3.0)


@writes("values", svm.SVR)
def _svr_value(svr: svm.SVR, x: Node) -> Node:
    _check_radial(svr)
    rows, gamma = svr.support_vectors_, svc_gamma(svr)
    return _rbf(x, rows, gamma, svr.dual_coef_.T) + svr.intercept_


# --- transformers ---


@writes("features", WhiteningTransformer, PCA, TruncatedSVD)
def _affine_features(transformer: Any, x: Node) -> Node:
    """Write an affine transformer, found from its values at zero and at the unit vectors."""
    width = transformer.n_features_in_
    origin = np.asarray(transformer.transform(np.zeros((1, width))), dtype=np.float64)
    moved = np.asarray(transformer.transform(np.eye(width)), dtype=np.float64)
    return x @ (moved - origin) + origin


@writes("features", StandardScaler)
def _scaled(scaler: StandardScaler, x: Node) -> Node:
    x = x - scaler.mean_ if scaler.mean_ is not None and scaler.with_mean else x
    return x if scaler.scale_ is None else x * (1.0 / scaler.scale_)


@writes("features", PolynomialFeatures)
def _products(transformer: PolynomialFeatures, x: Node) -> Node:
    """Write products of at most two columns; the last column stands for 1."""
    if transformer.powers_.sum(axis=1).max() > 2:
        raise OnnxExportError("PolynomialFeatures can be exported up to degree=2.")
    columns = np.arange(transformer.n_features_in_)
    factors = [[*np.repeat(columns, powers), -1, -1] for powers in transformer.powers_]
    left, right = np.array([line[:2] for line in factors]).T % (len(columns) + 1)
    wide = x.graph.concat([x, x.repeat([1.0])])
    return wide.columns(left) * wide.columns(right)


@writes("features", SimpleImputer)
def _imputed(imputer: SimpleImputer, x: Node) -> Node:
    if not np.isnan(imputer.missing_values) or len(imputer.statistics_) != imputer.n_features_in_:
        raise OnnxExportError(
            "SimpleImputer can be exported with missing_values=nan and keep_empty_features=True."
        )
    filled = filled_in(x, imputer.statistics_)
    if imputer.indicator_ is None:
        return filled
    marks = x.columns(imputer.indicator_.features_).op("IsNaN").cast("DOUBLE")
    return x.graph.concat([filled, marks])


def filled_in(x: Node, values: np.ndarray) -> Node:
    """Write values in place of missing ones, one for each column."""
    return x.graph.add("Where", x.op("IsNaN"), np.asarray(values, np.float64)[None], x)


@writes("features", TargetEncoder)
def _target_statistics(encoder: TargetEncoder, x: Node) -> Node:
    """Write the statistics of each category, the overall mean for others."""
    means = np.atleast_1d(encoder.target_mean_)
    n_means, parts = len(means), []
    for j, categories in enumerate(encoder.categories_):
        known = np.stack(encoder.encodings_[j * n_means : (j + 1) * n_means], axis=1)
        column = x.columns([j])
        parts.append(column.one_hot(categories.astype(np.float64)) @ (known - means) + means)
    return x.graph.concat(parts)


@writes("features", ColumnTransformer)
def _column_parts(transformer: ColumnTransformer, x: Node) -> Node:
    """Write the parts of an encoder of an array, side by side."""
    parts = []
    for _, part, columns in transformer.transformers_:
        chosen = np.arange(transformer.n_features_in_)[columns]
        if (isinstance(part, str) and part == "drop") or not len(chosen):
            continue
        own = x.columns(chosen)
        is_plain = part == "passthrough" or (hasattr(part, "func") and part.func is None)
        parts.append(own if is_plain else own.write("features", part))
    return x.graph.concat(parts)
