"""Training rows in the coordinates of search and fit, on the host or on a device."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import device as device_of
from scipy import sparse
from sklearn.base import clone
from sklearn.neighbors import VALID_METRICS
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from vicinal._base import TrainingData, free_memory, namespace, row_blocks, saved
from vicinal._kernels.linear._covariance import (
    normal_score_knots,
    score_slopes,
    standard_scale,
    usable_scale,
    within_class_whitening,
)
from vicinal._kernels.local._smoothing import is_pure, smooth_classes, smooth_targets
from vicinal.local._neighborhoods import (
    FORESTS,
    ForestIndex,
    ForestLocalizer,
    Localizer,
    NeighborIndex,
    WeightedNeighborhoods,
    grow_forest,
)

# Metrics that change the coordinates; every other name is a metric of scikit-learn.
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
        Transform columns to normal scores first, before the linear map.
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
        """Map rows; dense results on the host are float64 and contiguous."""
        if self.transformer is not None:
            X = self.transformer.transform(X)
        if self.warp is not None:
            X = self.warp.transform(X)
        if self.matrix is not None:
            X = self._apply(X)
        if sparse.issparse(X):
            return sparse.csr_matrix(X, dtype=np.float64)
        if not isinstance(X, np.ndarray):
            return X
        # Writeable, because a read-only array is another type to compiled code.
        return np.require(X, dtype=np.float64, requirements=["C", "W"])

    def _apply(self, X):
        if sparse.issparse(X):
            return X @ sparse.diags(self.matrix)
        centred: Any = namespace(X).astype(X, self.matrix.dtype, copy=False)
        if self.mean is not None:  # sparse training rows were scaled only
            centred = centred - self.mean
        return centred * self.matrix if self.matrix.ndim == 1 else centred @ self.matrix

    def pull_back(self, slopes: Any, X: Any) -> Any:
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
class RowMapping:
    """Coordinates of rows in the search, and columns that their local models are fitted on.

    Attributes
    ----------
    coordinates : Coordinates
        Map of the columns that locate a row.
    located : ndarray of bool of shape (n_features,) or None
        Those columns; models are fitted on the others. ``None`` uses all columns for both.
    forest : str or None
        Type of forest whose leaves define neighbours, in the columns given.
    """

    coordinates: Coordinates
    located: np.ndarray | None = None
    forest: str | None = None

    @property
    def by_leaves(self) -> bool:
        """Whether the search is a forest."""
        return self.forest is not None

    def __call__(self, X) -> tuple[Any, Any]:
        """Return (coordinates in the search, row of the design)."""
        if self.by_leaves:
            X = np.require(X, dtype=np.float64, requirements=["C"])
            return X, self.coordinates(X)
        if self.located is None:
            coords = self.coordinates(X)
            return coords, coords
        coords = self.coordinates(X[:, np.flatnonzero(self.located)])
        return coords, Coordinates()(X[:, np.flatnonzero(~self.located)])

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
            f"location_columns={given!r} names a column that X does not have; X has {n_features}."
        )
    else:
        mask[columns.astype(np.int64)] = True
    if not mask.any() or mask.all():
        raise ValueError(
            f"location_columns={given!r} must name at least one and not all of the {n_features} "
            "columns of X."
        )
    return mask


def learn_mapping(data: TrainingData, metric: Any, located: Any = None) -> RowMapping:
    """Learn the coordinates of a metric from the columns that locate a row."""
    forest = metric if is_forest(metric) else None
    if forest is not None and located is not None:
        raise ValueError(
            f'metric="{metric}" uses all columns; set location_columns=None, or use another metric.'
        )
    if located is not None:
        data = replace(data, X=data.X[:, np.flatnonzero(located)])
    return RowMapping(_learn_coordinates(metric, data), located, forest)


def _learn_coordinates(metric: Any, data: TrainingData) -> Coordinates:
    """Learn the coordinates of a metric; metrics of scikit-learn change nothing."""
    X, weights = data.X, data.sample_weight
    if hasattr(metric, "transform"):
        return _transformed(metric, data)
    if isinstance(metric, str) and metric in _DENSE_ONLY and sparse.issparse(X):
        raise ValueError(
            f'metric="{metric}" needs a dense X; use "standardized" or "euclidean" for sparse X.'
        )
    if metric == "standardized" or metric in FORESTS:
        if sparse.issparse(X):
            return Coordinates(matrix=1.0 / _sparse_scale(X, weights))
        mean, scale = column_scale(X, weights)
        return Coordinates(matrix=1.0 / scale, mean=mean)
    if metric == "ranked":
        return Coordinates(warp=NormalScoreMap(np.asarray(X, dtype=np.float64), weights))
    if metric == "within_class":
        if data.classes is None:
            raise ValueError(
                'metric="within_class" needs class labels; use "standardized" for regression.'
            )
        X = np.asarray(X, dtype=np.float64)
        mean, matrix = within_class_whitening(X, data.y, weights)
        return Coordinates(matrix=matrix, mean=mean)
    return Coordinates()


def _transformed(metric: Any, data: TrainingData) -> Coordinates:
    weights = {}
    if data.sample_weight is not None and has_fit_parameter(metric, "sample_weight"):
        weights = {"sample_weight": data.sample_weight}
    learned = clone(metric).fit(data.X, data.y, **weights)
    if not hasattr(learned, "_linear_map"):
        return Coordinates(transformer=learned, learned=learned)
    matrix, mean = learned._linear_map()
    return Coordinates(matrix, mean, learned=learned)


def column_scale(X: Any, sample_weight: Any) -> tuple[Any, Any]:
    """Return mean and standard deviation of the columns, one where a column does not vary."""
    if isinstance(X, np.ndarray):
        return standard_scale(np.asarray(X, dtype=np.float64), sample_weight)
    xp = namespace(X)
    mean = weighted_mean(X, sample_weight)
    variance = weighted_mean((X - mean) ** 2, sample_weight)
    one = xp.ones_like(mean)
    floor = (10.0 * float(xp.finfo(X.dtype).eps)) ** 2 * xp.maximum(mean * mean, one)
    return mean, xp.sqrt(xp.where(variance > floor, variance, one))


def weighted_mean(columns: Any, sample_weight: Any) -> Any:
    """Return the weighted mean of columns in any array library."""
    xp = namespace(columns)
    if sample_weight is None:
        return xp.mean(columns, axis=0)
    share = xp.astype(sample_weight, columns.dtype)
    return (share / xp.sum(share)) @ columns


def search_metric(metric) -> Any:
    """Return the metric by which neighbours are searched in the new coordinates."""
    if hasattr(metric, "transform") or metric in LEARNED_METRICS:
        return "euclidean"
    return metric


def is_forest(metric) -> bool:
    """Return whether neighbours are rows that share leaves of a forest."""
    return isinstance(metric, str) and metric in FORESTS


def sees_labels(metric) -> bool:
    """Return whether learning the metric uses y, so that leave-one-out alone is too optimistic."""
    if hasattr(metric, "transform"):
        return get_tags(metric).target_tags.required
    return isinstance(metric, str) and metric in ("within_class", "gradient")


def _sparse_scale(X, sample_weight) -> np.ndarray:
    """Return the standard deviations of sparse columns, as for the same rows in a dense array."""
    weights = np.ones(X.shape[0]) if sample_weight is None else sample_weight
    share = weights / weights.sum()
    mean = np.asarray(X.T @ share).ravel()
    X = sparse.csr_matrix(X, dtype=np.float64)
    owner = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    terms = share[owner] * (X.data - mean[X.indices]) ** 2
    filled = np.bincount(X.indices, share[owner], minlength=X.shape[1])
    variance = np.bincount(X.indices, terms, minlength=X.shape[1])
    return usable_scale(mean, variance + np.maximum(1.0 - filled, 0.0) * mean**2)


# --- rows ---


@saved()
@dataclass(frozen=True)
class SearchOptions:
    """How neighbours are searched: by a metric of scikit-learn, in coordinates."""

    metric: Any = "euclidean"
    metric_params: Any = None
    algorithm: str = "auto"
    n_jobs: int | None = None

    def index(self, X) -> NeighborIndex:
        """Build the search among rows in their coordinates."""
        return NeighborIndex(
            X,
            metric=self.metric,
            metric_params=self.metric_params,
            algorithm=self.algorithm,
            n_jobs=self.n_jobs,
        )


@saved(rows="n *", y="n | n *", sample_weight="n", groups="n", **{"index.X": "n *"})
@dataclass(frozen=True)
class LocalRows:
    """Training rows and targets in the coordinates of search and fit, on the host or a device.

    Attributes
    ----------
    rows : array or CSR matrix of shape (n_samples, n_columns)
        What the local models are fitted on.
    y : array of shape (n_samples,) or (n_samples, n_outputs)
        Class codes, or one column per target.
    n_classes : int or None
        Number of classes; ``None`` for regression.
    is_multi_output : bool
        Whether predictions keep their axis of outputs.
    index : NeighborIndex or ForestIndex
        Search among the rows.
    mapping : RowMapping
        Map from columns to coordinates.
    search : SearchOptions
        How the index is built.
    sample_weight, groups : array of shape (n_samples,) or None
        Weights; numbers of the groups that are left out together.
    dtype : dtype
        Precision of predictions on the host.
    """

    rows: Any
    y: Any
    n_classes: int | None
    is_multi_output: bool
    index: Any
    mapping: RowMapping
    search: SearchOptions
    sample_weight: Any = None
    groups: Any = None
    dtype: Any = np.float64

    def __restore__(self, state: dict) -> None:
        """Take back what a model file holds; compiled loops count on class codes."""
        vars(self).update(state)
        n, y = self.n_classes, self.y
        if n is None:
            return
        if y.ndim != 1 or y.dtype.kind != "i" or not 0 <= y.min(initial=0) <= y.max(initial=0) < n:
            raise ValueError(f"LocalRows.y must be whole numbers between 0 and {n - 1}.")

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return self.rows.shape[0]

    @property
    def n_columns(self) -> int:
        """Number of columns of the local models."""
        return self.rows.shape[1]

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are sparse."""
        return sparse.issparse(self.rows)

    @property
    def is_host(self) -> bool:
        """Whether the rows are NumPy arrays or sparse matrices."""
        return isinstance(self.rows, np.ndarray) or self.is_sparse

    @property
    def weights(self) -> Any:
        """Weights, ones where none were given."""
        if self.sample_weight is not None:
            return self.sample_weight
        if self.is_host:
            return np.ones(self.n_samples)
        return namespace(self.rows).ones_like(self.rows[:, 0])

    @property
    def total_weight(self) -> float:
        """Number of rows, counted with their weights."""
        if self.sample_weight is None:
            return float(self.n_samples)
        return float(namespace(self.sample_weight).sum(self.sample_weight))

    def check_host(self, what: str) -> None:
        """Refuse what is written for NumPy arrays."""
        if not self.is_host:
            raise ValueError(
                f"{what} need a model fitted on NumPy arrays; convert X with numpy.asarray and fit "
                "again."
            )

    # --- targets ---

    @property
    def n_outputs(self) -> int:
        """Number of classes, or of targets."""
        return self.y.shape[1] if self.n_classes is None else self.n_classes

    @property
    def columns(self) -> Any:
        """Targets as columns; of classes, 1 where a row belongs to it."""
        if self.n_classes is None:
            return self.y
        xp = namespace(self.y)
        classes = xp.arange(self.n_classes, device=device_of(self.y))
        dtype = xp.float64 if self.is_host else self.rows.dtype
        return xp.astype(self.y[:, None] == classes[None, :], dtype)

    def smooth(self, found: WeightedNeighborhoods, kernels: np.ndarray) -> np.ndarray:
        """Return sum_i l_i(q) y_i of several kernels, (n_kernels, n_queries, n_outputs)."""
        inputs = found.indptr, found.indices
        if self.n_classes is None:
            return smooth_targets(*inputs, kernels, self.y)
        return np.stack([smooth_classes(*inputs, one, self.y, self.n_classes) for one in kernels])

    def one_class(self, found: WeightedNeighborhoods) -> np.ndarray | None:
        """Return which queries see one class only: their prediction needs no fit."""
        return None if self.n_classes is None else is_pure(found.indptr, found.indices, self.y)

    def prior(self) -> Any:
        """Return the prediction where no row is near: the overall mean, or the class shares."""
        if self.n_classes is None:
            return weighted_mean(self.y, self.sample_weight)
        xp, weights = namespace(self.y), self.weights
        if self.is_host:
            counts = np.bincount(self.y, weights, minlength=self.n_classes)
        else:
            zero = xp.zeros_like(weights)
            parts = [xp.sum(xp.where(self.y == c, weights, zero)) for c in range(self.n_classes)]
            counts = xp.stack(parts)
        return counts / xp.sum(counts)

    def losses(self) -> Callable[[Any, Any], Any]:
        """Return the loss of predictions for rows.

        One where the class is wrong; squared error in units of each output's variance.
        """
        xp = namespace(self.y)
        if self.n_classes is not None:
            return lambda scores, rows: xp.astype(
                xp.argmax(scores, axis=-1) != xp.take(self.y, rows, axis=0), scores.dtype
            )
        scale = weighted_mean((self.y - self.prior()) ** 2, self.sample_weight)
        scale = xp.where(scale > 0.0, scale, xp.ones_like(scale))

        def loss(predictions, rows):
            return xp.mean((predictions - xp.take(self.y, rows, axis=0)) ** 2 / scale, axis=-1)

        return loss

    # --- queries ---

    def as_given(self, values) -> Any:
        """Return predictions in the precision of the training rows."""
        return values.astype(self.dtype, copy=False) if self.is_host else values

    def locate(self, X) -> tuple[Any, Any]:
        """Return (coordinates in the search, row of the design) of queries."""
        coords, design = self.mapping(X)
        found, learned = (coords.shape[1], design.shape[1]), (self.index.X.shape[1], self.n_columns)
        if found != learned:  # compiled loops count on it
            raise ValueError(
                f"The metric maps queries to {found} columns, but training rows to {learned}."
            )
        if self.is_sparse and not sparse.issparse(coords):
            coords = sparse.csr_matrix(coords)
            design = coords if self.mapping.located is None else sparse.csr_matrix(design)
        return coords, design

    def localizer(self, rule, factor=None) -> Any:
        """Return the map from queries to neighbourhoods."""
        if isinstance(self.index, ForestIndex):
            return ForestLocalizer(self.index, rule, factor=factor)
        return Localizer(self.index, rule, sample_weight=self.sample_weight, factor=factor)

    def blocks(self, n_queries: int, rule) -> Iterator[slice]:
        """Cut queries into blocks whose neighbourhoods fit the working memory."""
        size = self.localizer(rule).expected_size()
        if not self.is_host:
            cost = 32 * size * (self.n_columns + 4)
            return row_blocks(n_queries, cost, working_memory=free_memory(self.rows))
        # A neighbour costs its number, distance, two weights, a mask and temporaries.
        width = 10 + (0 if self.is_sparse else self.n_columns)
        return row_blocks(n_queries, 8 * (10 * size + width), max_rows=8192)

    def left_out(self, rules, rows, factor=None, *, groups=None, max_rows=2048) -> Iterator:
        """Yield (block, their rows, number of the rule, design, neighbourhoods), each left out."""
        groups = self.groups if groups is None else groups
        localizer = self.localizer(rules[-1], factor)
        blocks = self.blocks(len(rows), rules[-1])
        if self.is_host:
            cost = 160 * localizer.expected_size()
            blocks = row_blocks(len(rows), cost, max_rows=max_rows)
        for block in blocks:
            own = rows[block]
            if self.is_host:
                coords, design = self.index.X[own], self.rows[own]
            else:
                xp = namespace(self.rows)
                own = xp.asarray(own, dtype=xp.int64, device=device_of(self.rows))
                coords = design = xp.take(self.rows, own, axis=0)
            for j, found in enumerate(localizer.path(rules, coords, rows=own, groups=groups)):
                yield block, own, j, design, found

    # --- further rows ---

    def joined(self, data: TrainingData) -> "LocalRows":
        """Return the rows with further ones; coordinates stay as they are."""
        self.check_host("Further rows")
        groups, sample_weight = data.groups, data.sample_weight
        if (groups is None) != (self.groups is None):
            raise ValueError(
                "groups must be given in every call of fit and partial_fit, or in none."
            )
        if groups is not None:
            # New rows never share a group with earlier ones: labels are local to a call.
            groups = np.concatenate([self.groups, groups + self.groups.max() + 1])
        if sample_weight is not None or self.sample_weight is not None:
            sample_weight = np.concatenate([self.weights, data.weights])
        y = _targets(data)
        if y.shape[1:] != self.y.shape[1:]:
            raise ValueError(f"y has {y.shape[1]} outputs, but earlier rows had {self.n_outputs}.")
        coords, rows = self.locate(data.X)
        if isinstance(self.index, ForestIndex):
            # Trees sample the mean training row once on average.
            mean = self.weights[: self.index.n_grown].mean()
            index: Any = self.index.extended(coords, data.weights / mean)
            rows = _joined(self.rows, rows)
        else:
            coords = _joined(self.index.X, coords)
            rows = coords if self.mapping.located is None else _joined(self.rows, rows)
            index = self.search.index(coords)
        y = np.concatenate([self.y, y])
        return replace(
            self, rows=rows, y=y, index=index, sample_weight=sample_weight, groups=groups
        )


def local_weights(estimator: Any, data: TrainingData, *, reset: bool = True) -> TrainingData:
    """Return the data with weights counted in rows.

    A weight common to all rows changes nothing; it becomes the unit in which weights of further
    rows (``reset`` False) are counted.
    """
    if data.xp is not np:
        estimator._weight_unit = 1.0
        return data
    weights = data.weights
    if reset:
        estimator._weight_unit = float(weights[0]) if np.all(weights == weights[0]) else 1.0
    weights = weights / estimator._weight_unit
    return replace(data, sample_weight=None if np.all(weights == 1.0) else weights)


def map_rows(
    data: TrainingData, mapping: RowMapping, search: SearchOptions, random_state: Any = None
) -> LocalRows:
    """Return training rows in coordinates with their search; forests are grown here."""
    coords, rows = mapping(data.X)
    weights, is_host = data.sample_weight, data.xp is np
    if mapping.by_leaves:
        index: Any = grow_forest(
            str(mapping.forest),
            coords,
            data.y,
            weights,
            classify=data.classes is not None,
            random_state=random_state,
            n_jobs=search.n_jobs,
        )
    else:
        index = search.index(coords)
    if not is_host and weights is not None:
        weights = data.xp.astype(weights, rows.dtype)
    n_classes = None if data.classes is None else len(data.classes)
    return LocalRows(
        rows,
        _targets(data),
        n_classes,
        n_classes is not None or data.y.ndim == 2,
        index,
        mapping,
        search,
        weights,
        data.groups,
        data.X.dtype if is_host else rows.dtype,
    )


def _targets(data: TrainingData) -> Any:
    """Return class codes, or targets as columns."""
    if data.classes is not None:
        return data.y.astype(np.int64) if data.xp is np else data.y
    columns = data.y if data.y.ndim == 2 else data.y[:, None]
    return np.require(columns, np.float64, ["C", "W"]) if data.xp is np else columns


def _joined(first, second):
    """Join rows, dense or sparse."""
    if sparse.issparse(first):
        return sparse.vstack([first, second], format="csr")
    return np.ascontiguousarray(np.vstack([first, second]))
