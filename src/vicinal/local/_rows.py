"""Training rows in the coordinates of search and fit, on the host or on a device."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from array_api_compat import device as device_of
from scipy import sparse
from sklearn.base import clone
from sklearn.neighbors import VALID_METRICS
from sklearn.utils import get_tags
from sklearn.utils.validation import has_fit_parameter

from vicinal import _base
from vicinal._kernels.linear._covariance import (
    normal_score_knots,
    normal_scores,
    score_slopes,
    within_class_whitening,
)
from vicinal._kernels.local._smoothing import column_scale, is_pure, smooth_classes, smooth_targets
from vicinal.local._neighborhoods import (
    FORESTS,
    ForestIndex,
    ForestLocalizer,
    Localizer,
    NeighborIndex,
    PaddedLocalizer,
    WeightedNeighborhoods,
    grow_forest,
)
from vicinal.local._solvers import SparseSolver, on_device
from vicinal.neighbors import NeighborSearch

# Metrics that change the coordinates; every other name is a metric of scikit-learn.
LEARNED_METRICS = ("standardized", "ranked", "within_class", "gradient", *FORESTS)
METRICS = {*LEARNED_METRICS, *VALID_METRICS["brute"], *VALID_METRICS["ball_tree"]} - {"precomputed"}
_DENSE_ONLY = ("ranked", "within_class", "gradient", *FORESTS)
# Queries of a block at most: the arrays of their neighbours stay in the cache.
_MAX_BLOCK = 2048


@_base.saved()
@dataclass(frozen=True)
class NormalScoreMap:
    """Piecewise linear map of every column to normal scores of variance one, from its knots."""

    knots: list

    def transform(self, X) -> np.ndarray:
        """Map rows; values beyond those seen take the scores of the extremes."""
        return normal_scores(np.asarray(X, dtype=np.float64), self.knots)

    def derivative(self, X) -> np.ndarray:
        """Return the slope of each column's map at each row."""
        X = np.asarray(X, dtype=np.float64)
        columns = [score_slopes(X[:, j], *knots) for j, knots in enumerate(self.knots)]
        return np.stack(columns, axis=1)


@_base.saved(matrix="q | q d", mean="q")
@dataclass(frozen=True)
class Coordinates:
    """A map from the columns given to coordinates with Euclidean distance.

    Attributes
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

    matrix: Any = None
    mean: Any = None
    transformer: Any = None
    warp: NormalScoreMap | None = None
    learned: Any = None

    @property
    def is_matrix(self) -> bool:
        """Whether rows have no more coordinates than columns, by arithmetic alone."""
        matrix = self.matrix
        is_small = matrix is None or matrix.ndim == 1 or matrix.shape[1] <= matrix.shape[0]
        return self.transformer is None and is_small

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
        return _base.packed(X, np.float64)

    def _apply(self, X):
        if sparse.issparse(X):
            return X @ sparse.diags(self.matrix)
        centred: Any = _base.namespace(X).astype(X, self.matrix.dtype, copy=False)
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


@_base.saved(located="q")
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

    def searched(self, X) -> Any:
        """Return the coordinates of rows in the search."""
        return self(X)[0]

    def pull_back(self, slopes: np.ndarray, X, in_search: Any = None) -> np.ndarray:
        """Return slopes with respect to the columns of X, from those of the design.

        ``in_search`` are slopes in the coordinates of the search; without them the columns that
        locate a row have slope 0.
        """
        if self.located is None:
            return self.coordinates.pull_back(
                slopes if in_search is None else slopes + in_search, X
            )
        full = np.zeros((*slopes.shape[:2], len(self.located)))
        full[:, :, ~self.located] = slopes
        if in_search is not None:
            located = self.coordinates.pull_back(in_search, X[:, self.located])
            full[:, :, self.located] = located
        return full


def learn_mapping(data: _base.TrainingData, metric: Any, located: Any = None) -> RowMapping:
    """Learn the coordinates of a metric from the columns that locate a row."""
    forest = metric if is_forest(metric) else None
    if forest is not None and located is not None:
        raise ValueError(
            f'metric="{metric}" uses all columns; set location_columns=None, or use another metric.'
        )
    if located is not None:
        data = replace(data, X=data.X[:, np.flatnonzero(located)])
    return RowMapping(_learn_coordinates(metric, data), located, forest)


def _learn_coordinates(metric: Any, data: _base.TrainingData) -> Coordinates:
    """Learn the coordinates of a metric; metrics of scikit-learn change nothing."""
    X, weights = data.X, data.sample_weight
    if hasattr(metric, "transform"):
        has_weights = weights is not None and has_fit_parameter(metric, "sample_weight")
        weighted = {"sample_weight": weights} if has_weights else {}
        learned = clone(metric).fit(X, data.y, **weighted)
        if not hasattr(learned, "_linear_map"):
            return Coordinates(transformer=learned, learned=learned)
        matrix, mean = learned._linear_map()
        return Coordinates(matrix, mean, learned=learned)
    if isinstance(metric, str) and metric in _DENSE_ONLY and sparse.issparse(X):
        raise ValueError(
            f'metric="{metric}" needs a dense X; use "standardized" or "euclidean" for sparse X.'
        )
    if metric == "standardized" or metric in FORESTS:
        mean, scale = column_scale(X, weights)
        return Coordinates(matrix=1.0 / scale, mean=mean)
    if metric == "ranked":
        columns = np.asarray(X, dtype=np.float64).T
        return Coordinates(warp=NormalScoreMap([normal_score_knots(x, weights) for x in columns]))
    if metric == "within_class":
        if data.classes is None:
            raise ValueError(
                'metric="within_class" needs class labels; use "standardized" for regression.'
            )
        X = np.asarray(X, dtype=np.float64)
        mean, matrix = within_class_whitening(X, data.y, weights)
        return Coordinates(matrix=matrix, mean=mean)
    return Coordinates()


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


# --- rows ---


@_base.saved(
    rows="n *", y="n | n *", sample_weight="n", groups="n", given="n *", **{"index.X": "n *"}
)
@dataclass(frozen=True)
class LocalRows:
    """Training rows and targets in the coordinates of search and fit.

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
    sample_weight, groups : array of shape (n_samples,) or None
        Weights; numbers of the groups that are left out together.
    dtype : dtype
        Precision of predictions on the host.
    given : ndarray of shape (n_samples, n_features) or None
        The rows before the map. A file holds them alone if the map can be repeated; several models
        of an ensemble often share them.
    """

    rows: Any
    y: Any
    n_classes: int | None
    is_multi_output: bool
    index: Any
    mapping: RowMapping
    sample_weight: Any = None
    groups: Any = None
    dtype: Any = np.float64
    given: Any = None

    degrees: ClassVar[tuple[int, ...]] = (1, 2)  # of local models, that "auto" compares

    def __getstate__(self) -> dict:
        """Return the attributes, without the rows before the map."""
        return vars(self) | {"given": None}

    def __saved_state__(self) -> dict:
        """Return the content of a model file, of the rows only those that the others come from."""
        state = dict(vars(self))
        if self.given is None or not self.mapping.coordinates.is_matrix:
            return state | {"given": None}
        coords, rows = self.mapping(self.given)
        # They may have been changed since the fit.
        if not (np.array_equal(coords, self.index.X) and np.array_equal(rows, self.rows)):
            return state | {"given": None}
        return state | {"rows": None, "index": self.index.detached()}

    def __restore__(self, state: dict) -> None:
        """Restore the content of a model file; compiled loops count on class codes."""
        vars(self).update(state)
        if self.rows is None:
            if not self.mapping.coordinates.is_matrix:
                raise ValueError("LocalRows.mapping must be a matrix where LocalRows.rows is None.")
            coords, rows = self.mapping(self.given)
            vars(self).update(rows=rows, index=self.index.attached(coords))
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
    def weights(self) -> Any:
        """Weights, ones where none were given."""
        return np.ones(self.n_samples) if self.sample_weight is None else self.sample_weight

    @property
    def total_weight(self) -> float:
        """Number of rows, counted with their weights."""
        if self.sample_weight is None:
            return float(self.n_samples)
        return float(_base.namespace(self.sample_weight).sum(self.sample_weight))

    def check_host(self, what: str) -> None:
        """Refuse what is written for NumPy arrays, where the rows are on a device."""

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
        xp = _base.namespace(self.y)
        classes = xp.arange(self.n_classes, device=device_of(self.y))
        return xp.astype(self.y[:, None] == classes[None, :], self.rows.dtype)

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
            return _base.weighted_mean(self.y, self.sample_weight)
        counts = np.bincount(self.y, self.weights, minlength=self.n_classes)
        return counts / counts.sum()

    # --- queries ---

    def as_given(self, values) -> Any:
        """Return predictions in the precision of the training rows."""
        return values.astype(self.dtype, copy=False)

    def checked(self, estimator: Any, X: Any) -> Any:
        """Return validated queries of a fitted estimator."""
        X = _base.query_rows(estimator, X, accept_sparse="csr" if self.is_sparse else False)
        if self.dtype != X.dtype:  # narrower than what was checked
            _base.check_magnitude("X", X, self.dtype)
        return X

    def suited(self, solver: Any) -> Any:
        """Return the solver of the same objective for the rows."""
        return SparseSolver(solver) if self.is_sparse else solver

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

    def localizer(self, rule, factor=None) -> Localizer:
        """Return the map from queries to neighbourhoods."""
        kind = ForestLocalizer if isinstance(self.index, ForestIndex) else Localizer
        return kind(self.index, rule, sample_weight=self.sample_weight, factor=factor)

    def blocks(self, n_queries: int, rule, *, cost: int = 80) -> Iterator[slice]:
        """Cut queries into blocks whose neighbourhoods fit the working memory.

        ``cost`` is that of a neighbour: its number, distance, two weights, a mask and temporaries.
        """
        size = self.localizer(rule).expected_size()
        width = 10 + (0 if self.is_sparse else self.n_columns)
        return _base.row_blocks(n_queries, cost * size + 8 * width, max_rows=_MAX_BLOCK)

    def left_out(self, rules, rows, factor=None, *, groups=None) -> Iterator:
        """Yield (block, their rows, number of the rule, design, neighbourhoods), each left out."""
        groups = self.groups if groups is None else groups
        localizer = self.localizer(rules[-1], factor)
        for block in self.blocks(len(rows), rules[-1], cost=160):
            own = _base.on_device_of(rows[block], self.rows)
            coords, design = _base.take_rows(self.index.X, own), _base.take_rows(self.rows, own)
            for j, found in enumerate(localizer.path(rules, coords, rows=own, groups=groups)):
                yield block, own, j, design, found


@_base.saved()
class DeviceRows(LocalRows):
    """Training rows in another array library, on its device."""

    degrees = (1,)

    @property
    def weights(self) -> Any:
        if self.sample_weight is not None:
            return self.sample_weight
        return _base.namespace(self.rows).ones_like(self.rows[:, 0])

    def check_host(self, what: str) -> None:
        raise ValueError(
            f"{what} need a model fitted on NumPy arrays; convert X with numpy.asarray and fit "
            "again."
        )

    def prior(self) -> Any:
        return _base.weighted_mean(self.columns, self.sample_weight)

    def as_given(self, values) -> Any:
        return values

    def checked(self, estimator: Any, X: Any) -> Any:
        return _base.query_rows(estimator, X)

    def suited(self, solver: Any) -> Any:
        return on_device(solver)

    def localizer(self, rule, factor=None) -> Localizer:
        return PaddedLocalizer(self.index, rule, sample_weight=self.sample_weight, factor=factor)

    def blocks(self, n_queries: int, rule, **options: int) -> Iterator[slice]:
        cost = 32 * self.localizer(rule).expected_size() * (self.n_columns + 4)
        return _base.row_blocks(n_queries, cost, working_memory=_base.free_memory(self.rows))


def map_rows(
    data: _base.TrainingData, mapping: RowMapping, search: NeighborSearch, random_state: Any = None
) -> LocalRows:
    """Return training rows in coordinates with their search; forests are grown here."""
    coords, rows = mapping(data.X)
    n_classes = None if data.classes is None else len(data.classes)
    weights = data.sample_weight
    if weights is not None:
        weights = _base.namespace(weights).astype(weights, rows.dtype, copy=False)
    if mapping.by_leaves:
        seed = {"random_state": random_state, "n_jobs": search.n_jobs}
        classify = n_classes is not None
        index = grow_forest(str(mapping.forest), coords, data.y, weights, classify=classify, **seed)
    else:
        index = NeighborIndex(coords, search)
    is_multi_output = n_classes is not None or data.y.ndim == 2
    targets = targets_of(data), n_classes, is_multi_output
    given = data.X if isinstance(data.X, np.ndarray) else None
    shared = index, mapping, weights, data.groups, data.X.dtype, given
    return rows_class(data)(rows, *targets, *shared)


def rows_class(data: _base.TrainingData) -> type[LocalRows]:
    """Return the container of the training rows in coordinates."""
    return LocalRows if data.is_host else DeviceRows


def targets_of(data: _base.TrainingData) -> Any:
    """Return class codes, or targets as columns."""
    if data.classes is not None:
        return _base.packed(data.y, np.int64)
    return _base.packed(data.y if data.y.ndim == 2 else data.y[:, None], np.float64)


def left_out_predictions(
    views: list[tuple[LocalRows, np.ndarray]], rules: list, solver: Any, alphas, factor, dtype: Any
) -> np.ndarray:
    """Return predictions of the samples of all views, (n_rules, n_alphas, n_rows, n_outputs).

    One neighbour search serves all sizes, and one factorisation all penalties where possible. Rows
    are left out with their groups; where no row is near, the prior is predicted.
    """
    first = views[0][0]
    solver = first.suited(solver)
    shape = len(rules), len(alphas), sum(len(own) for _, own in views), first.n_outputs
    out, start = np.empty(shape, dtype=dtype), 0
    for rows, sample in views:
        part, start = out[:, :, start : start + len(sample)], start + len(sample)
        for block, _, j, design, found in rows.left_out(rules, sample, factor):
            for c, values in enumerate(solver.path(rows, design, found, alphas)):
                part[j, c, block] = _base.as_numpy(values)
            empty = found.is_empty()
            if empty.any():
                part[j, :, block][:, empty] = rows.prior()
    return out
