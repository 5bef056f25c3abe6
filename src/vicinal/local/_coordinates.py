"""Named metrics, learned as coordinates in which Euclidean distance is meant."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.neighbors import VALID_METRICS
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from vicinal._base import saved
from vicinal._kernels.linear._maps import (
    normal_score_knots,
    score_slopes,
    standard_scale,
    usable_scale,
    within_class_whitening,
)

# Neighbours by shared leaves of a forest (leaf size, kind): coarse leaves for noisy answers, fine
# and random ones for smooth answers.
FORESTS = {"forest": (5, "random"), "extra_forest": (1, "extra")}
# Metrics of ours, realised as a change of coordinates; every other name goes to scikit-learn.
LEARNED_METRICS = ("standardized", "ranked", "within_class", "gradient", *FORESTS)
METRICS = {*LEARNED_METRICS, *VALID_METRICS["brute"], *VALID_METRICS["ball_tree"]} - {"precomputed"}
_DENSE_ONLY = ("ranked", "within_class", "gradient", *FORESTS)


@saved()
class NormalScoreMap:
    """Piecewise linear map of every column to normal scores of variance one."""

    def __init__(self, X: np.ndarray, sample_weight: np.ndarray | None):
        self.knots = [normal_score_knots(column, sample_weight) for column in X.T]

    def transform(self, X) -> np.ndarray:
        """Map rows; values beyond those seen take the scores of the extremes."""
        X = np.asarray(X, dtype=np.float64)
        out = np.empty(X.shape)
        for j, (values, scores) in enumerate(self.knots):
            out[:, j] = np.interp(X[:, j], values, scores)
        return out

    def derivative(self, X) -> np.ndarray:
        """Return the slope of each column's map at each row."""
        X = np.asarray(X, dtype=np.float64)
        columns = [score_slopes(X[:, j], *knots) for j, knots in enumerate(self.knots)]
        return np.stack(columns, axis=1)


@saved(matrix="q | q d", mean="q")
class Coordinates:
    """A map from the columns given to coordinates with Euclidean distance.

    Parameters
    ----------
    matrix : ndarray of shape (n_features, n_coordinates) or (n_features,) or None
        Linear map (a vector scales the columns), applied to ``X - mean``; ``None`` changes nothing.
    mean : ndarray of shape (n_features,) or None
        Origin of the new coordinates.
    transformer : estimator or None
        Fitted transformer used instead of a matrix.
    warp : NormalScoreMap or None
        Bend the columns first, before the linear map.
    learned : estimator or None
        The fitted transformer that the map comes from.
    """

    def __init__(self, matrix=None, mean=None, transformer=None, warp=None, learned=None):
        self.matrix = matrix
        self.mean = mean
        self.transformer = transformer
        self.warp = warp
        self.learned = learned

    def __call__(self, X):
        """Map rows; dense results are float64 and contiguous."""
        if self.transformer is not None:
            X = self.transformer.transform(X)
        if self.warp is not None:
            X = self.warp.transform(X)
        if self.matrix is not None:
            X = self._apply(X)
        if sparse.issparse(X):
            return sparse.csr_matrix(X, dtype=np.float64)
        # Writeable, because a read-only array is another type to compiled code.
        return np.require(X, dtype=np.float64, requirements=["C", "W"])

    def _apply(self, X):
        if sparse.issparse(X):
            return X @ sparse.diags(self.matrix)
        centred = np.asarray(X, dtype=np.float64)
        if self.mean is not None:  # sparse training rows were scaled only
            centred = centred - self.mean
        return centred * self.matrix if self.matrix.ndim == 1 else centred @ self.matrix

    def pull_back(self, slopes: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Return gradients with respect to the columns given, from those in coordinates."""
        if self.transformer is not None:
            return slopes @ self.jacobian(X).T
        if self.matrix is not None:
            slopes = slopes * self.matrix if self.matrix.ndim == 1 else slopes @ self.matrix.T
        return slopes if self.warp is None else slopes * self.warp.derivative(X)[:, None, :]

    def jacobian(self, X) -> np.ndarray:
        """Return the matrix of an affine transformer, found by probing it; shape (d, p)."""
        origin = np.asarray(X[:1], dtype=np.float64)
        step = np.maximum(1.0, np.abs(origin).max())
        at_origin = self(origin)
        matrix = (self(origin + step * np.eye(origin.shape[1])) - at_origin) / step
        others = np.asarray(X, dtype=np.float64)
        predicted = at_origin + (others - origin) @ matrix
        actual = self(others)
        if not np.allclose(predicted, actual, rtol=1e-6, atol=1e-6 * max(1.0, np.ptp(actual))):
            raise ValueError(
                f"The metric {type(self.transformer).__name__} is not a linear map, so slopes in "
                "its coordinates have no counterpart in the columns of X; use a linear "
                "transformer or a named metric."
            )
        return matrix


@saved(located="q")
@dataclass(frozen=True)
class Placement:
    """Where rows lie in the search, and what their local models are fitted on.

    Attributes
    ----------
    coordinates : Coordinates
        Map of the columns that locate a row.
    located : ndarray of bool of shape (n_features,) or None
        Those columns; models are fitted on the others. ``None`` uses all columns for both.
    forest : str or None
        Kind of forest whose leaves say who is near; it is asked in the columns given.
    """

    coordinates: Coordinates
    located: np.ndarray | None = None
    forest: str | None = None

    @property
    def by_leaves(self) -> bool:
        """Whether the search is a forest."""
        return self.forest is not None

    def __call__(self, X) -> tuple[Any, Any]:
        """Return (place in the search, row of the design)."""
        if self.by_leaves:
            X = np.require(X, dtype=np.float64, requirements=["C"])
            return X, self.coordinates(X)
        if self.located is None:
            place = self.coordinates(X)
            return place, place
        place = self.coordinates(X[:, np.flatnonzero(self.located)])
        return place, Coordinates()(X[:, np.flatnonzero(~self.located)])

    def pull_back(self, slopes: np.ndarray, X) -> np.ndarray:
        """Return slopes with respect to the columns of X; location columns have slope 0."""
        if self.located is None:
            return self.coordinates.pull_back(slopes, X)
        full = np.zeros((*slopes.shape[:2], len(self.located)))
        full[:, :, ~self.located] = slopes
        return full


def location_mask(columns, n_features: int, names) -> np.ndarray:
    """Return which columns locate a row, from numbers, names or a mask."""
    given, columns = columns, np.asarray(columns)
    if columns.dtype.kind in "OUS":
        names = list(names)
        missing = [str(name) for name in columns if name not in names]
        if missing:
            known = f"has columns {names}" if names else "has no names; give numbers of columns"
            raise ValueError(f"location_columns names {missing}, but X {known}.")
        columns = np.array([names.index(name) for name in columns])
    mask = np.zeros(n_features, dtype=bool)
    if columns.dtype == bool and len(columns) == n_features:
        mask = columns.copy()
    elif columns.size and (columns.min() < -n_features or columns.max() >= n_features):
        raise ValueError(
            f"location_columns={given!r} reaches beyond the {n_features} columns of X."
        )
    else:
        mask[columns.astype(np.int64)] = True
    if not mask.any() or mask.all():
        raise ValueError(
            f"location_columns={given!r} must leave at least one column to locate and one to "
            f"regress on, of {n_features}."
        )
    return mask


def learn_coordinates(metric, X, targets, sample_weight) -> Coordinates:
    """Learn the coordinates of a metric; metrics of scikit-learn leave the columns alone.

    The gradient metric is learned by :class:`GradientMetric`, which is handed in like any
    transformer.
    """
    if hasattr(metric, "transform"):
        return _transformed(metric, X, targets, sample_weight)
    if isinstance(metric, str) and metric in _DENSE_ONLY and sparse.issparse(X):
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
        return Coordinates(warp=NormalScoreMap(np.asarray(X, dtype=np.float64), sample_weight))
    if metric == "within_class":
        if not targets.are_labels:
            raise ValueError(
                'metric="within_class" needs class labels; use "standardized" for regression.'
            )
        X = np.asarray(X, dtype=np.float64)
        mean, matrix = within_class_whitening(X, targets.codes, sample_weight)
        return Coordinates(matrix=matrix, mean=mean)
    return Coordinates()


def _transformed(metric, X, targets, sample_weight) -> Coordinates:
    weights = {}
    if sample_weight is not None and has_fit_parameter(metric, "sample_weight"):
        weights = {"sample_weight": sample_weight}
    learned = clone(metric).fit(X, targets.values, **weights)
    if not hasattr(learned, "linear_map"):
        return Coordinates(transformer=learned, learned=learned)
    matrix, mean = learned.linear_map()
    return Coordinates(matrix, mean, learned=learned)


def search_metric(metric) -> Any:
    """Return the metric by which neighbours are searched in the new coordinates."""
    if hasattr(metric, "transform") or metric in LEARNED_METRICS:
        return "euclidean"
    return metric


def sees_labels(metric) -> bool:
    """Tell whether learning the metric uses y, so that leave-one-out alone would flatter it."""
    if hasattr(metric, "transform"):
        return get_tags(metric).target_tags.required
    return isinstance(metric, str) and metric in ("within_class", "gradient")


def _sparse_scale(X, sample_weight) -> np.ndarray:
    """Return the standard deviations of sparse columns, as for the same rows written out."""
    weights = np.ones(X.shape[0]) if sample_weight is None else sample_weight
    share = weights / weights.sum()
    mean = np.asarray(X.T @ share).ravel()
    X = sparse.csr_matrix(X, dtype=np.float64)
    owner = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    terms = share[owner] * (X.data - mean[X.indices]) ** 2
    filled = np.bincount(X.indices, share[owner], minlength=X.shape[1])
    variance = np.bincount(X.indices, terms, minlength=X.shape[1])
    return usable_scale(mean, variance + np.maximum(1.0 - filled, 0.0) * mean**2)
