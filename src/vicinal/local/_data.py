"""Training rows as local models see them: targets, coordinates, neighbour search."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.validation import validate_data

from vicinal._base import (
    check_groups,
    check_magnitude,
    is_ready,
    positive_rows,
    row_blocks,
    rows_outside,
    saved,
)
from vicinal._kernels.local._gradient_metric import gradient_outer_product, metric_step
from vicinal._kernels.local._smoothing import is_pure, smooth_classes, smooth_targets
from vicinal.local._coordinates import (
    FORESTS,
    Coordinates,
    Placement,
    learn_coordinates,
)
from vicinal.local._forest import ForestIndex, ForestLocalizer, grow_forest
from vicinal.local._neighborhoods import (
    Localizer,
    NearestRule,
    NeighborIndex,
    WeightedNeighborhoods,
)
from vicinal.local._solvers import SparseSolver


@saved(columns="n o")
class Numbers:
    """Targets of a regression, one column per output."""

    are_labels = False

    def __init__(self, columns: np.ndarray, is_multi_output: bool):
        self.columns = columns
        self.is_multi_output = is_multi_output

    @property
    def n_outputs(self) -> int:
        """Number of targets of a row."""
        return self.columns.shape[1]

    @property
    def values(self) -> np.ndarray:
        """The targets as they were given."""
        return self.columns if self.is_multi_output else self.columns[:, 0]

    def take(self, rows) -> "Numbers":
        """Return the targets of some rows."""
        return Numbers(np.ascontiguousarray(self.columns[rows]), self.is_multi_output)

    def joined(self, other: "Numbers") -> "Numbers":
        """Return these targets, then further ones."""
        if other.n_outputs != self.n_outputs:
            raise ValueError(
                f"y has {other.n_outputs} outputs, but earlier rows had {self.n_outputs}."
            )
        return Numbers(np.vstack([self.columns, other.columns]), self.is_multi_output)

    def smooth(self, found: WeightedNeighborhoods, kernels: np.ndarray) -> np.ndarray:
        """Return sum_i l_i(q) y_i of several kernels, (n_kernels, n_queries, n_outputs)."""
        return smooth_targets(found.indptr, found.indices, kernels, self.columns)

    def one_class(self, found: WeightedNeighborhoods) -> None:
        """Numbers have no neighbourhoods that need no fit."""

    def prior(self, sample_weight) -> np.ndarray:
        """Return the answer where no row is near: the overall mean."""
        return np.average(self.columns, axis=0, weights=sample_weight)

    def losses(self, sample_weight) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """Return the loss of answers to rows: squared error in units of each output's variance."""
        scale = np.average((self.columns - self.prior(sample_weight)) ** 2, 0, sample_weight)
        scale = np.where(scale > 0, scale, 1.0)
        return lambda answers, rows: ((answers - self.columns[rows]) ** 2 / scale).mean(axis=-1)

    def comparable(self, sample_weight) -> tuple[np.ndarray, float]:
        """Return columns in units of their spread, and the penalty that suits their slopes."""
        centred = self.columns - self.prior(sample_weight)
        scale = np.sqrt(np.average(centred**2, axis=0, weights=sample_weight))
        return centred / np.where(scale > 0.0, scale, 1.0), 0.1


@saved(codes="n")
class Labels:
    """Class labels as codes."""

    are_labels = True
    is_multi_output = True

    def __init__(self, codes: np.ndarray, n_classes: int):
        self.codes = codes
        self.n_outputs = n_classes

    @property
    def columns(self) -> np.ndarray:
        """One column per class, 1 where a row belongs to it."""
        return np.eye(self.n_outputs)[self.codes]

    @property
    def values(self) -> np.ndarray:
        """The codes."""
        return self.codes

    def __restore__(self, state: dict) -> None:
        """Take back what a model file holds; codes are row numbers of compiled loops."""
        codes, n = state["codes"], state["n_outputs"]
        if codes.size and not 0 <= codes.min() <= codes.max() < n:
            raise ValueError(f"Labels.codes must lie between 0 and {n - 1}.")
        vars(self).update(state)

    def take(self, rows) -> "Labels":
        """Return the labels of some rows."""
        return Labels(self.codes[rows], self.n_outputs)

    def joined(self, other: "Labels") -> "Labels":
        """Return these labels, then further ones."""
        return Labels(np.concatenate([self.codes, other.codes]), self.n_outputs)

    def smooth(self, found: WeightedNeighborhoods, kernels: np.ndarray) -> np.ndarray:
        """Return the fits to indicator columns, (n_kernels, n_queries, n_classes)."""
        inputs, of = (found.indptr, found.indices), (self.codes, self.n_outputs)
        return np.stack([smooth_classes(*inputs, kernel, *of) for kernel in kernels])

    def one_class(self, found: WeightedNeighborhoods) -> np.ndarray:
        """Tell which queries see one class only: their answer needs no fit."""
        return is_pure(found.indptr, found.indices, self.codes)

    def prior(self, sample_weight) -> np.ndarray:
        """Return the answer where no row is near: the class shares."""
        counts = np.bincount(self.codes, sample_weight, minlength=self.n_outputs)
        return counts / counts.sum()

    def losses(self, sample_weight) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
        """Return the loss of answers to rows: one where the label is wrong."""
        return lambda scores, rows: (scores.argmax(axis=-1) != self.codes[rows]).astype(float)

    def comparable(self, sample_weight) -> tuple[np.ndarray, float]:
        """Return indicator columns, and the penalty that suits their slopes."""
        return self.columns, 1.0

    def decode(self, classes: np.ndarray, scores: np.ndarray) -> np.ndarray:
        """Return the classes of largest score."""
        return classes[scores.argmax(axis=1)]


class TrainingTable(NamedTuple):
    """Checked training data, without the rows of weight zero; weights are ``None`` for ones."""

    X: Any
    targets: Any
    sample_weight: Any
    groups: Any

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return self.X.shape[0]

    def take(self, rows) -> "TrainingTable":
        """Return some of the rows."""
        return TrainingTable(
            self.X[rows],
            self.targets.take(rows),
            None if self.sample_weight is None else self.sample_weight[rows],
            None if self.groups is None else self.groups[rows],
        )


def checked_rows(
    estimator, X, y, sample_weight, groups, *, reset=True, accept_sparse=True, **options
):
    """Validate training data; return X, y, weights and groups of the rows that weigh something.

    A weight common to all rows changes nothing: it is returned as ``None``, and becomes the unit in
    which weights of further rows (``reset`` False) are counted.
    """
    X, y = validate_data(
        estimator,
        X,
        y,
        reset=reset,
        accept_sparse="csr" if accept_sparse else False,
        dtype=[np.float64, np.float32],
        ensure_min_samples=2 if reset else 1,
        **options,
    )
    check_magnitude("X", X)
    groups = check_groups(groups, X.shape[0])
    if groups is not None:
        groups = np.unique(groups, return_inverse=True)[1]
    weights, X, y, groups = positive_rows(sample_weight, X, y, groups)
    if reset:
        is_common = np.all(weights == weights[0])
        estimator._weight_unit = float(weights[0]) if is_common else 1.0
    weights = weights / estimator._weight_unit
    return X, y, None if np.all(weights == 1.0) else weights, groups


def number_targets(y) -> Numbers:
    """Return checked targets as columns."""
    return Numbers(np.require(np.reshape(y, (len(y), -1)), np.float64, ["C", "W"]), y.ndim == 2)


class HostEngine(NamedTuple):
    """Learn coordinates, place rows and choose solvers for NumPy arrays and sparse matrices."""

    search: "SearchOptions"
    located: np.ndarray | None
    random_state: Any

    def solver(self, solver, X) -> Any:
        """Return the solver that fits the rows."""
        return SparseSolver(solver) if sparse.issparse(X) else solver

    def learn(self, table: TrainingTable, metric) -> Placement:
        """Learn the coordinates of a metric."""
        forest = metric if is_forest(metric) else None
        if forest is not None and self.located is not None:
            raise ValueError(
                f'metric="{metric}" splits on all columns; leave location_columns out, or name '
                "another metric."
            )
        X, weights = self._located(table.X), table.sample_weight
        return Placement(learn_coordinates(metric, X, table.targets, weights), self.located, forest)

    def learn_rounds(self, table: TrainingTable, metric) -> Iterator[Placement]:
        """Learn a gradient metric; yield the coordinates after each of its rounds."""
        X = self._located(table.X)
        _, rounds = metric._begin(X, table.targets.values, table.sample_weight)
        for P, _ in rounds:
            yield Placement(Coordinates(P / metric.scale_[:, None], metric.mean_), self.located)

    def _located(self, X):
        return X if self.located is None else X[:, np.flatnonzero(self.located)]

    def rows(self, table: TrainingTable, placement: Placement) -> "PlacedRows":
        """Put rows into coordinates; a forest metric grows its forest."""
        if placement.by_leaves:
            return PlacedRows.grow(table, placement, self.search, self.random_state)
        return PlacedRows.place(table, placement, self.search)

    def others(self, table: TrainingTable, fold: np.ndarray) -> TrainingTable:
        """Return the rows outside a fold."""
        return table.take(rows_outside(fold, table.n_samples))


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


@saved(
    rows="n *",
    sample_weight="n",
    groups="n",
    **{"index.X": "n *", "targets.codes": "n", "targets.columns": "n *"},
)
@dataclass(frozen=True)
class PlacedRows:
    """Training rows in the coordinates of search and fit."""

    rows: np.ndarray | sparse.csr_matrix
    targets: Any
    index: Any  # a NeighborIndex, or the ForestIndex of a forest metric
    placement: Placement
    sample_weight: np.ndarray | None
    groups: np.ndarray | None
    search: SearchOptions
    dtype: Any = np.float64

    is_host = True

    @classmethod
    def place(
        cls, table: TrainingTable, placement: Placement, search: SearchOptions
    ) -> "PlacedRows":
        """Put rows into coordinates and prepare the search."""
        place, rows = placement(table.X)
        index, dtype = search.index(place), table.X.dtype
        return cls(rows, table.targets, index, placement, *table[2:], search, dtype)

    @classmethod
    def grow(
        cls, table: TrainingTable, placement: Placement, search: SearchOptions, random_state
    ) -> "PlacedRows":
        """Grow a forest whose leaves say who is near; models are fitted in the coordinates."""
        place, rows = placement(table.X)
        index = grow_forest(
            str(placement.forest),
            place,
            table.targets.values,
            table.sample_weight,
            classify=table.targets.are_labels,
            random_state=random_state,
            n_jobs=search.n_jobs,
        )
        return cls(rows, table.targets, index, placement, *table[2:], search, table.X.dtype)

    @property
    def n_samples(self) -> int:
        """Number of rows."""
        return self.rows.shape[0]

    @property
    def n_columns(self) -> int:
        """Number of columns of the local models."""
        return self.rows.shape[1]

    @property
    def total_weight(self) -> float:
        """Number of rows, counted with their weights."""
        return float(self.n_samples if self.sample_weight is None else self.sample_weight.sum())

    @property
    def is_sparse(self) -> bool:
        """Whether the rows are sparse."""
        return sparse.issparse(self.rows)

    def localizer(self, rule, factor=None) -> Any:
        """Return the map from queries to neighbourhoods."""
        if isinstance(self.index, ForestIndex):
            return ForestLocalizer(self.index, rule, factor=factor)
        return Localizer(self.index, rule, sample_weight=self.sample_weight, factor=factor)

    def locate(self, X) -> tuple[Any, Any]:
        """Return (place in the search, row of the design) of queries."""
        place, design = self.placement(X)
        found, learned = (place.shape[1], design.shape[1]), (self.index.X.shape[1], self.n_columns)
        if found != learned:  # compiled loops count on it
            raise ValueError(f"coordinates of queries have {found} columns, of rows {learned}.")
        if self.is_sparse and not sparse.issparse(place):
            place = sparse.csr_matrix(place)
            design = place if self.placement.located is None else sparse.csr_matrix(design)
        return place, design

    def pull_back(self, slopes, X) -> np.ndarray:
        """Return slopes with respect to the columns of X."""
        return self.placement.pull_back(slopes, X)

    def check_host(self, what: str) -> None:
        """NumPy arrays offer everything."""

    @property
    def learned(self) -> Any:
        """The fitted transformer that the coordinates come from, if any."""
        return self.placement.coordinates.learned

    def numbers(self, rows: np.ndarray) -> np.ndarray:
        """Return row numbers as the targets take them."""
        return rows

    def validate(self, estimator, X) -> Any:
        """Check queries."""
        if not is_ready(estimator, X, np.float64):
            X = validate_data(
                estimator,
                X,
                reset=False,
                accept_sparse="csr" if self.is_sparse else False,
                dtype=[np.float64, np.float32],
            )
        check_magnitude("X", X, self.dtype)
        return X

    def as_given(self, values) -> np.ndarray:
        """Return answers in the precision of the training rows."""
        return values.astype(self.dtype, copy=False)

    def left_out(self, rules, rows, factor=None, *, groups=None, max_rows=2048) -> Iterator:
        """Yield (block, number of the rule, design, neighbourhoods), each row left out."""
        groups = self.groups if groups is None else groups
        localizer = self.localizer(rules[-1], factor)
        for block in row_blocks(len(rows), 160 * localizer.expected_size(), max_rows=max_rows):
            own = rows[block]
            path = localizer.path(rules, self.index.X[own], rows=own, groups=groups)
            for j, found in enumerate(path):
                yield block, j, self.rows[own], found

    def blocks(self, n_queries: int, rule) -> Iterator[slice]:
        """Cut queries into blocks whose neighbourhoods fit the working memory."""
        # A neighbour costs its number, distance, two weights, a mask and temporaries.
        width = 10 + (0 if self.is_sparse else self.n_columns)
        size = self.localizer(rule).expected_size()
        return row_blocks(n_queries, 8 * (10 * size + width), max_rows=8192)

    def joined(self, X, targets, sample_weight, groups) -> "PlacedRows":
        """Return the data with further rows; coordinates stay as they are."""
        if (groups is None) != (self.groups is None):
            raise ValueError(
                "groups must be given in every call of fit and partial_fit, or in none."
            )
        if groups is not None and self.groups is not None:
            # New rows never share a group with earlier ones: labels are local to a call.
            groups = np.concatenate([self.groups, groups + self.groups.max() + 1])
        first = np.ones(self.n_samples) if self.sample_weight is None else self.sample_weight
        new = np.ones(X.shape[0]) if sample_weight is None else sample_weight
        if sample_weight is not None or self.sample_weight is not None:
            sample_weight = np.concatenate([first, new])
        place, rows = self.locate(X)
        if isinstance(self.index, ForestIndex):
            # A tree drew the mean row once.
            index: Any = self.index.extended(place, new / first[: self.index.n_grown].mean())
            rows = _joined(self.rows, rows)
        else:
            place = _joined(self.index.X, place)
            rows = place if self.placement.located is None else _joined(self.rows, rows)
            index = self.search.index(place)
        return replace(
            self,
            rows=rows,
            targets=self.targets.joined(targets),
            index=index,
            sample_weight=sample_weight,
            groups=groups,
        )

    # --- what rounds of the gradient metric need ---

    def identity(self) -> np.ndarray:
        """Return the map that changes nothing."""
        return np.eye(self.n_columns)

    def mapped(self, matrix: np.ndarray) -> "PlacedRows":
        """Return the same rows, mapped once more."""
        rows = np.ascontiguousarray(self.rows @ matrix)
        return replace(self, rows=rows, index=self.search.index(rows))

    def outer_product(self, solver, Y, queries, *, count: int, alpha: float) -> np.ndarray:
        """Return the mean outer product of slopes at some rows, each left out."""
        weights = np.ones(self.n_samples) if self.sample_weight is None else self.sample_weight
        total = weights[queries].sum()
        G = np.zeros((self.n_columns, self.n_columns))
        for block, _, design, found in self.left_out([NearestRule(float(count))], queries):
            slopes = solver.slopes_of(self.rows, Y, design, found, alpha)
            share = weights[queries[block]]
            G += gradient_outer_product(slopes, share) * (share.sum() / total)
        return G

    @staticmethod
    def metric_step(G: np.ndarray, *, floor: float, diagonal: bool) -> np.ndarray:
        """Return the map that an outer product suggests."""
        return metric_step(G, floor=floor, diagonal=diagonal)


def _joined(first, second):
    """Join rows, dense or sparse."""
    if sparse.issparse(first):
        return sparse.vstack([first, second], format="csr")
    return np.ascontiguousarray(np.vstack([first, second]))


def is_forest(metric) -> bool:
    """Tell whether neighbours are those who share leaves of a forest."""
    return isinstance(metric, str) and metric in FORESTS
