"""Predictions of base models for encoded rows: what they predict themselves, without validation.

scikit-learn validates the rows in every step of a pipeline and calls every tree of histogram
boosting from Python, which takes milliseconds for a single row.
"""

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler, TargetEncoder

from vicinal._base import aligned_predictions
from vicinal._base._compat import boosted_outputs, boosted_parts
from vicinal._kernels.ensemble._trees import BOOSTED_FIELDS, joined_nodes, tree_leaves
from vicinal._kernels.linear._covariance import normal_scores
from vicinal.auto._base_models import NormalScores

# Up to so many rows, threads of scikit-learn's boosting wait longer for each other than they work;
# where other programs keep the cores busy, many times as long.
FEW_ROWS = 1000
# Joined nodes of boosted trees, by the first tree of a model.
_NODES: WeakKeyDictionary = WeakKeyDictionary()


def base_predictions(model: Any, X: Any, classes: np.ndarray | None) -> np.ndarray:
    """Return predictions as columns, or probabilities of ``classes``, of rows of floats."""
    if type(X) is np.ndarray:
        X, model = _before_last_step(model, X)
        is_boosted = type(model) in (HistGradientBoostingClassifier, HistGradientBoostingRegressor)
        if is_boosted and len(X) <= FEW_ROWS and model.is_categorical_ is None:
            model = _Boosted(model)
    return aligned_predictions(model, X, "predict" if classes is None else "predict_proba", classes)


def _before_last_step(model: Any, X: np.ndarray) -> tuple[np.ndarray, Any]:
    """Return the rows that the last step of a pipeline is given, and that step."""
    if type(model) is not Pipeline or "passthrough" in (step for _, step in model.steps):
        return X, model
    for _, step in model.steps[:-1]:
        if type(step) is StandardScaler and step.with_mean and step.with_std:
            X = (X - step.mean_) / step.scale_
        elif type(step) is NormalScores:
            X = normal_scores(X, step.knots_)
        elif type(step) is PCA and not step.whiten:
            X = (X - step.mean_) @ step.components_.T
        elif type(step) is ColumnTransformer and _is_of_statistics(step):
            X = _with_statistics(step, X)
        else:
            X = step.transform(X)
    return X, model.steps[-1][1]


def _is_of_statistics(step: ColumnTransformer) -> bool:
    """Return whether a transformer encodes codes of categories by target statistics."""
    (_, first, columns), *rest = step.transformers_
    is_mask = isinstance(columns, np.ndarray) and columns.dtype == bool
    return type(first) is TargetEncoder and is_mask and [name for name, *_ in rest] == ["remainder"]


def _with_statistics(step: ColumnTransformer, X: np.ndarray) -> np.ndarray:
    """Return the statistics of the categories of every row, then the other columns."""
    _, encoder, columns = step.transformers_[0]
    n_each = len(encoder.encodings_) // len(encoder.categories_)
    means = np.ravel(encoder.target_mean_)
    found = []
    for j, values in enumerate(X[:, columns].T):
        known = encoder.categories_[j]
        n_numbers = len(known) - int(np.isnan(known[-1]))  # a missing value comes last
        at = np.searchsorted(known[:n_numbers], values)
        is_known = known[np.minimum(at, len(known) - 1)] == values
        is_known |= np.isnan(values) & (n_numbers < len(known))
        for k, mean in enumerate(means):
            statistics = encoder.encodings_[n_each * j + k]
            found.append(np.where(is_known, statistics[np.where(is_known, at, 0)], mean))
    return np.column_stack([*found, X[:, ~columns]])


class _Boosted:
    """Histogram boosting of numbers, all trees at once."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.classes_ = getattr(model, "classes_", None)

    def predict(self, X):
        trees, baseline = boosted_parts(self.model)
        if trees[0] not in _NODES:
            nodes = [tree.nodes for tree in trees]
            values = np.concatenate([tree["value"] for tree in nodes])
            _NODES[trees[0]] = joined_nodes(nodes, BOOSTED_FIELDS), values
        nodes, values = _NODES[trees[0]]
        leaves = np.empty((len(X), len(trees)), dtype=np.int64)
        tree_leaves(np.ascontiguousarray(X), nodes, leaves)
        raw = values[leaves].reshape(len(X), -1, baseline.size).sum(axis=1) + baseline.ravel()
        return boosted_outputs(self.model, raw)

    predict_proba = predict
