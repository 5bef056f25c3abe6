"""Named metrics, each learned as coordinates in which Euclidean distance is meant."""

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import get_tags

from vicinal._kernels.linear._maps import standard_scale, within_class_whitening
from vicinal.local._coordinates import Coordinates
from vicinal.local._forest import FORESTS
from vicinal.local._gradient_metric import GradientMetric
from vicinal.local._normal_scores import NormalScores

# Metrics of ours, realised as a change of coordinates; every other name goes to scikit-learn.
LEARNED_METRICS = ("standardized", "ranked", "within_class", "gradient", *FORESTS)


def learn_coordinates(metric, X, codes, targets, sample_weight) -> Coordinates:
    """Learn the coordinates of a metric; metrics of scikit-learn leave the columns alone."""
    if not isinstance(metric, str) and hasattr(metric, "transform"):
        fitted = clone(metric).fit(X, targets)
        return Coordinates(transformer=fitted)
    if metric in ("ranked", "gradient", *FORESTS) and sparse.issparse(X):
        raise ValueError(
            f'metric="{metric}" needs a dense X, because it fills every column; use "standardized" '
            'or "euclidean" for sparse input.'
        )
    if metric == "standardized" or metric in FORESTS:
        if sparse.issparse(X):
            return Coordinates(matrix=1.0 / _sparse_scale(X, sample_weight))
        mean, scale = standard_scale(np.asarray(X, dtype=np.float64), sample_weight)
        return Coordinates(matrix=1.0 / scale, mean=mean)
    if metric == "ranked":
        return Coordinates(warp=NormalScores(np.asarray(X, dtype=np.float64), sample_weight))
    if metric == "gradient":
        task = "regression" if codes is None else "classification"
        learned = GradientMetric(task=task, random_state=0).fit(X, targets, sample_weight)
        return Coordinates(learned.components_.T / learned.scale_[:, None], learned.mean_)
    if metric == "within_class":
        if sparse.issparse(X):
            raise ValueError(
                'metric="within_class" needs a dense X, because whitening fills every column; use '
                '"standardized" or "euclidean" for sparse input.'
            )
        if codes is None:
            raise ValueError(
                'metric="within_class" needs class labels; use "standardized" for regression.'
            )
        mean, matrix = within_class_whitening(np.asarray(X, np.float64), codes, sample_weight)
        return Coordinates(matrix=matrix, mean=mean)
    return Coordinates()


def search_metric(metric) -> str:
    """Return the name under which neighbours are searched in the new coordinates."""
    if hasattr(metric, "transform") or metric in LEARNED_METRICS:
        return "euclidean"
    return metric


def sees_labels(metric) -> bool:
    """Tell whether learning the metric uses y, so that leave-one-out alone would flatter it."""
    if hasattr(metric, "transform"):
        return get_tags(metric).target_tags.required
    return isinstance(metric, str) and metric in ("within_class", "gradient")


def _sparse_scale(X, sample_weight) -> np.ndarray:
    """Root mean square deviation of sparse columns, one where a column is constant."""
    weights = np.ones(X.shape[0]) if sample_weight is None else sample_weight
    share = weights / weights.sum()
    mean = np.asarray(X.T @ share).ravel()
    variance = np.asarray(X.multiply(X).T @ share).ravel() - mean**2
    return np.sqrt(np.where(variance > 1e-12 * np.maximum(1.0, mean**2), variance, 1.0))
