"""Local models on arrays of other libraries (torch, CuPy): everything stays on their device.

The same contracts as on the host: :class:`ArrayRows` is the counterpart of ``PlacedRows``,
:class:`ArrayRidge` and :class:`ArrayNewton` those of the compiled solvers. Neighbourhoods are
rectangular, entries of weight zero do not count.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np
from sklearn.base import clone

from vicinal._base import (
    check_same_library,
    device_classes,
    free_memory,
    namespace,
    row_blocks,
    rows_outside,
    saved,
    take_rows,
    validate_array_api,
)
from vicinal._kernels.local._batched import (
    batched_kernel,
    batched_least_squares,
    batched_newton,
    batched_ridge,
    batched_ridge_values,
    batched_slopes,
    batched_vote,
    one_class_scores,
    put_rows,
    slope_metric_step,
    slope_outer_product,
    transpose,
)
from vicinal._kernels.local._smoothing import nearest_scale
from vicinal.local._data import Labels, Numbers, TrainingTable
from vicinal.local._neighborhoods import NearestRule
from vicinal.local._solvers import NewtonSolver, RidgeSolver, warn_unconverged
from vicinal.neighbors import NeighborSearch

_METRICS = ("euclidean", "standardized", "gradient")


# --- targets ---


@saved()
class ArrayNumbers(Numbers):
    """Targets of a regression on a device."""

    def take(self, rows) -> "ArrayNumbers":
        """Return the targets of some rows."""
        columns = namespace(self.columns).take(self.columns, rows, axis=0)
        return ArrayNumbers(columns, self.is_multi_output)

    def prior(self, sample_weight) -> Any:
        """Return the overall mean."""
        return _mean(self.columns, sample_weight)

    def losses(self, sample_weight) -> Callable:
        """Return the loss of answers to rows: squared error in units of each output's variance."""
        xp = namespace(self.columns)
        scale = _mean((self.columns - self.prior(sample_weight)) ** 2, sample_weight)
        scale = xp.where(scale > 0.0, scale, xp.ones_like(scale))

        def loss(answers, rows):
            return xp.mean((answers - xp.take(self.columns, rows, axis=0)) ** 2 / scale, axis=1)

        return loss

    def comparable(self, sample_weight) -> tuple[Any, float]:
        """Return columns in units of their spread, and the penalty that suits their slopes."""
        xp = namespace(self.columns)
        centred = self.columns - self.prior(sample_weight)
        spread = xp.sqrt(_mean(centred * centred, sample_weight))
        return centred / xp.where(spread > 0.0, spread, xp.ones_like(spread)), 0.1


@saved()
class ArrayLabels(Labels):
    """Class labels as codes on a device."""

    def __init__(self, codes, n_classes: int, dtype, on_device: bool = True):
        super().__init__(codes, n_classes)
        self.dtype = dtype
        self.on_device = on_device

    @property
    def columns(self) -> Any:
        """One column per class, 1 where a row belongs to it."""
        xp = namespace(self.codes)
        kinds = xp.arange(self.n_outputs, device=compat.device(self.codes))
        return xp.astype(self.codes[:, None] == kinds[None, :], self.dtype)

    def take(self, rows) -> "ArrayLabels":
        """Return the labels of some rows."""
        codes = namespace(self.codes).take(self.codes, rows)
        return ArrayLabels(codes, self.n_outputs, self.dtype, self.on_device)

    def prior(self, sample_weight) -> Any:
        """Return the class shares."""
        return _mean(self.columns, sample_weight)

    def losses(self, sample_weight) -> Callable:
        """Return the loss of answers to rows: one where the label is wrong."""
        xp = namespace(self.codes)
        return lambda scores, rows: xp.astype(
            xp.argmax(scores, axis=1) != xp.take(self.codes, rows), self.dtype
        )

    def decode(self, classes: np.ndarray, scores) -> Any:
        """Return the classes of largest score: on the device if the labels came from there."""
        return device_classes(classes, scores, on_device=self.on_device)


def _mean(columns, sample_weight) -> Any:
    xp = namespace(columns)
    weights = xp.ones_like(columns[:, 0]) if sample_weight is None else sample_weight
    return xp.sum((weights / xp.sum(weights))[:, None] * columns, axis=0)


# --- rows ---


@saved()
@dataclass(frozen=True)
class ArrayMap:
    """Coordinates (X - mean) / scale, times ``matrix`` if there is one."""

    mean: Any
    scale: Any
    matrix: Any = None
    learned: Any = None

    def __call__(self, X) -> Any:
        """Map rows."""
        xp = namespace(X)
        placed = (xp.astype(X, self.mean.dtype) - self.mean) / self.scale
        return placed if self.matrix is None else placed @ self.matrix

    def pull_back(self, slopes) -> Any:
        """Return slopes with respect to the columns given, from those in coordinates."""
        if self.matrix is not None:
            slopes = slopes @ self.matrix.T
        return slopes / self.scale


def learn_map(X, sample_weight, metric: str) -> ArrayMap:
    """Return the coordinates of a metric that needs no labels."""
    xp = namespace(X)
    mean = xp.zeros_like(X[0, :])
    scale = xp.ones_like(mean)
    if metric == "standardized":
        mean = _mean(X, sample_weight)
        variance = _mean((X - mean) ** 2, sample_weight)
        floor = (10.0 * float(xp.finfo(X.dtype).eps)) ** 2 * xp.maximum(mean * mean, scale)
        scale = xp.sqrt(xp.where(variance > floor, variance, scale))
    return ArrayMap(mean, scale)


@saved()
@dataclass(frozen=True)
class ArrayRows:
    """Training rows in the coordinates of search and fit, on their device."""

    rows: Any
    targets: Any
    search: NeighborSearch
    map: ArrayMap
    sample_weight: Any
    are_counts: bool

    is_sparse = False
    is_host = False
    groups = None

    @classmethod
    def place(cls, table: TrainingTable, map: ArrayMap) -> "ArrayRows":
        """Put rows into coordinates and prepare the search."""
        rows, weights = map(table.X), table.sample_weight
        xp = namespace(rows)
        are_counts = weights is None or bool(xp.all(weights == xp.round(weights)))
        return cls(rows, table.targets, NeighborSearch().fit(rows), map, weights, are_counts)

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
        if self.sample_weight is None:
            return float(self.n_samples)
        return float(namespace(self.rows).sum(self.sample_weight))

    @property
    def learned(self) -> Any:
        """The fitted transformer that the coordinates come from, if any."""
        return self.map.learned

    def numbers(self, rows: np.ndarray) -> Any:
        """Return row numbers on the device."""
        xp = namespace(self.rows)
        return xp.asarray(rows, dtype=xp.int64, device=compat.device(self.rows))

    def check_host(self, what: str) -> Any:
        """Refuse what is written for NumPy arrays."""
        raise ValueError(
            f"{what} need a model fitted on NumPy arrays; convert X with numpy.asarray and fit "
            "again."
        )

    def validate(self, estimator, X) -> Any:
        """Check queries in their own library."""
        check_same_library(self.rows, X)
        return validate_array_api(estimator, X, reset=False)

    def as_given(self, values) -> Any:
        """Answers stay as they are."""
        return values

    def locate(self, X) -> tuple[Any, Any]:
        """Return queries in the coordinates of the model, for search and fit."""
        place = self.map(X)
        return place, place

    def pull_back(self, slopes, X) -> Any:
        """Return slopes with respect to the columns of X."""
        return self.map.pull_back(slopes)

    def localizer(self, rule: NearestRule, factor=None) -> "ArrayLocalizer":
        """Return the map from queries to neighbourhoods."""
        return ArrayLocalizer(self, rule, factor)

    def blocks(self, n_queries: int, rule: NearestRule) -> Iterator[slice]:
        """Cut queries into blocks whose gathered rows fit the working memory."""
        width = (rule.count + 2) * (self.n_columns + 4) * 8 * 4
        return row_blocks(n_queries, int(width), working_memory=free_memory(self.rows))

    def left_out(self, rules, rows, factor=None) -> Iterator:
        """Yield (block, number of the rule, design, neighbourhoods), each row left out."""
        xp = namespace(self.rows)
        localizer = self.localizer(rules[-1], factor)
        for block in self.blocks(len(rows), rules[-1]):
            own = self.numbers(rows[block])
            design = xp.take(self.rows, own, axis=0)
            candidates = localizer.candidates(design, own)
            for j, rule in enumerate(rules):
                yield block, j, design, localizer.from_candidates(candidates, rule)

    def joined(self, *rows) -> Any:
        """Refuse: arrays of a device are not joined behind the user's back."""
        return self.check_host("Further rows")

    # --- what rounds of the gradient metric need ---

    def identity(self) -> Any:
        """Return the map that changes nothing, in double precision."""
        xp = namespace(self.rows)
        return xp.eye(self.n_columns, dtype=xp.float64, device=compat.device(self.rows))

    def mapped(self, matrix: Any) -> "ArrayRows":
        """Return the same rows, mapped once more."""
        rows = self.rows @ namespace(self.rows).astype(matrix, self.rows.dtype)
        return replace(self, rows=rows, search=NeighborSearch().fit(rows))

    def outer_product(self, solver, Y, queries, *, count: int, alpha: float) -> Any:
        """Return the mean outer product of slopes at some rows, each left out."""
        xp = namespace(self.rows)
        weights = self.sample_weight
        G: Any = 0.0
        total: Any = 0.0
        for block, _, design, found in self.left_out([NearestRule(float(count))], queries):
            near, w = found
            slopes = batched_slopes(self.rows, Y, design, near, w, alpha, relative=True)
            share = xp.ones_like(design[:, 0])
            if weights is not None:
                share = xp.take(weights, self.numbers(queries[block]))
            G = G + slope_outer_product(slopes, share)
            total = total + xp.sum(xp.astype(share, xp.float64))
        return G / total

    @staticmethod
    def metric_step(G: Any, *, floor: float, diagonal: bool) -> Any:
        """Return the map that an outer product suggests."""
        return slope_metric_step(G, floor=floor, diagonal=diagonal)


class Padded(NamedTuple):
    """Neighbours of a block of queries, (n_queries, k); those of weight zero do not count."""

    indices: Any
    weights: Any

    def nobody(self) -> np.ndarray:
        """Nearest rows always exist."""
        return np.zeros(1, dtype=bool)


class ArrayLocalizer:
    """Turn queries into neighbourhoods of the nearest rows."""

    def __init__(self, data: ArrayRows, rule: NearestRule, factor=None):
        self.data = data
        self.rule = rule
        self.factor = factor

    def neighborhoods(self, Q) -> Padded:
        """Return the weighted neighbours of each query."""
        return self.from_candidates(self.candidates(Q), self.rule)

    def candidates(self, Q, rows=None) -> tuple[Any, Any, Any]:
        """Return (distances, indices, user weights) that hold every neighbour of the rule.

        ``rows`` are the training rows that the queries are: one copy of each is left out.
        """
        xp, rule = namespace(Q), self.rule
        n = self.data.n_samples
        m = min(n, int(np.ceil(rule.count)) + 1 + (rows is not None))
        while True:
            distances, indices = self.data.search.kneighbors(Q, m)
            user = self._user_weights(indices, rows)
            h, reached = _radius(distances, user, rule)
            far = xp.full_like(distances, float("inf"))
            nearest = xp.min(xp.where(user > 0.0, distances, far), axis=1)
            needs_ties = (h <= nearest) if rule.exceed or rule.loess else xp.ones_like(reached)
            complete = reached & ~(needs_ties & (distances[:, -1] <= h))
            if m == n or bool(xp.all(complete)):
                return distances, indices, user
            m = min(n, 2 * m)

    def _user_weights(self, indices, rows):
        data, xp = self.data, namespace(indices)
        if data.sample_weight is None:
            shape, device = indices.shape, compat.device(data.rows)
            user = xp.ones(shape, dtype=data.rows.dtype, device=device)
        else:
            user = take_rows(data.sample_weight, indices)
        if rows is None:
            return user
        left = xp.maximum(user - 1.0, xp.zeros_like(user)) if data.are_counts else 0.0 * user
        return xp.where(indices == rows[:, None], left, user)

    def from_candidates(self, found, rule: NearestRule) -> Padded:
        """Return the neighbourhoods of one size among the candidates."""
        distances, indices, user = found
        xp = namespace(distances)
        h, _ = _radius(distances, user, rule)
        u = distances / xp.where(h > 0.0, h, xp.ones_like(h))[:, None]
        factor = nearest_scale(rule.kernel)
        weights = batched_kernel(u * factor if factor != 1.0 else u, rule.kernel)
        if rule.loess and rule.kernel == "tricube":
            weights = xp.where(u < 0.001, xp.ones_like(u), weights)
            weights = xp.where(u > 0.999, xp.zeros_like(u), weights)
        weights = xp.where(u > 1.0, xp.zeros_like(u), weights)
        at_query = xp.astype(distances <= 0.0, weights.dtype)
        weights = xp.where((h > 0.0)[:, None], weights, at_query) * user
        nobody = ~xp.any(weights > 0.0, axis=1)
        within = xp.astype(distances <= h[:, None], weights.dtype) * user
        weights = xp.where(nobody[:, None], within, weights)
        if self.factor is not None:
            weights = weights * take_rows(self.factor, indices)
        return Padded(indices, weights)


def _radius(distances, user, rule: NearestRule):
    """Return the bandwidth of each query and whether enough weight was found."""
    xp = namespace(distances)
    total = xp.cumulative_sum(user, axis=1)
    tolerance = 1e-9 * max(1.0, rule.count)
    enough = total > rule.count + tolerance if rule.exceed else total >= rule.count - tolerance
    position = xp.argmax(xp.astype(enough, xp.int8), axis=1)
    columns = xp.arange(distances.shape[1], device=compat.device(distances))
    here = columns[None, :] == position[:, None]
    h = xp.sum(xp.where(here, distances, xp.zeros_like(distances)), axis=1)
    reached = xp.any(enough, axis=1)
    widest = distances[:, -1] * (1.0 + 1.0 / max(1.0, rule.count))
    return xp.where(reached, h, widest), reached


# --- solvers ---


@saved()
class ArrayRidge(RidgeSolver):
    """Local averages and ridge models as batches of small systems."""

    def path(self, data, design, found, alphas) -> Any:
        """Return answers of each penalty, (n_queries, n_outputs)."""
        xp, Y = namespace(design), data.targets.columns
        if self.degree > 0 and all(alpha > 0.0 for alpha in alphas):
            shared = (data.rows, Y, design, *found, list(alphas))
            return batched_ridge_values(*shared, relative=self.relative)
        if self.degree == 0:
            level = found.weights / xp.sum(found.weights, axis=1)[:, None]
            fits = [level for _ in alphas]
        else:
            plain = batched_least_squares(data.rows, design, *found)
            positive = [alpha for alpha in alphas if alpha > 0.0]
            shared = (data.rows, design, *found, positive)
            rest = iter(batched_ridge(*shared, relative=self.relative))
            fits = [plain if alpha == 0.0 else next(rest) for alpha in alphas]
        targets = take_rows(Y, found.indices)
        return [xp.sum(l[:, :, None] * targets, axis=1) for l in fits]  # noqa: E741

    def slopes(self, data, design, found, alpha) -> Any:
        """Return gradients of shape (n_queries, n_outputs, n_columns)."""
        xp, Y = namespace(design), data.targets.columns
        if self.degree == 0:
            shape = (design.shape[0], Y.shape[1], design.shape[1])
            return xp.zeros(shape, dtype=design.dtype, device=compat.device(design))
        near, w = found
        return batched_slopes(data.rows, Y, design, near, w, alpha, relative=self.relative)


@saved()
class ArrayNewton(NewtonSolver):
    """One-against-the-rest classifiers as batches of (query, class) pairs."""

    def path(self, data, design, found, alphas) -> Any:
        """Return scores of each penalty, (n_queries, n_classes)."""
        return [self._solve(data, design, found, alpha)[0] for alpha in alphas]

    def slopes(self, data, design, found, alpha) -> Any:
        """Return gradients of shape (n_queries, n_classes, n_columns)."""
        return self._solve(data, design, found, alpha, want_slopes=True)[1]

    def _solve(self, data, Q, found, alpha, *, want_slopes: bool = False):
        """Return scores and, if asked, slopes.

        A class that is alone, or absent, needs no fit; of two classes the second is the negative
        of the first.
        """
        xp, objective, n_classes = namespace(Q), self.objective, data.targets.n_outputs
        indices, weights = found
        labels = take_rows(data.targets.codes, indices)
        total = xp.sum(weights, axis=1)
        rho = objective.rho + objective.rho_per_weight * total
        alone = one_class_scores(total, rho, C=objective.C, loss=objective.loss)[:, None]
        active = xp.astype(weights > 0.0, weights.dtype)
        present = batched_vote(active, labels, n_classes) > 0.0
        n_present = xp.sum(xp.astype(present, xp.int64), axis=1)[:, None]
        first = present & (xp.cumulative_sum(xp.astype(present, xp.int64), axis=1) == 1)
        pairs = xp.nonzero(present & ((n_present > 2) | (first & (n_present == 2))))
        theta = self._fit_pairs(data, labels, Q, found, rho, alpha, *pairs)
        place = pairs[0] * n_classes + pairs[1]
        scores = xp.reshape(xp.where(present, alone, -alone), (-1,))
        scores = xp.reshape(put_rows(scores, place, theta[:, -1]), present.shape)
        mirrored = (n_present == 2) & present & ~first
        scores = xp.where(mirrored, -_only(first, scores), scores)
        if not want_slopes:
            return scores, None
        shape = (Q.shape[0], n_classes, Q.shape[1])
        slopes = xp.zeros((shape[0] * shape[1], shape[2]), dtype=Q.dtype, device=compat.device(Q))
        slopes = xp.reshape(put_rows(slopes, place, theta[:, :-1]), shape)
        negative = -_only(first[:, :, None], slopes)
        return scores, xp.where(mirrored[:, :, None], negative, slopes)

    def _fit_pairs(self, data, labels, Q, found, rho, alpha, queries, classes):
        """Fit the given pairs of query and class; return coefficients, the intercept last."""
        xp, objective = namespace(Q), self.objective
        indices, weights = found
        k, d = indices.shape[1], Q.shape[1]
        # Offsets and their weighted copy in both precisions, the row-wise terms, and the systems.
        p = min(k, d) + 1
        cost = 24 * k * d + 24 * k * p + 150 * k + 40 * p * p
        parts = [xp.zeros((0, d + 1), dtype=Q.dtype, device=compat.device(Q))]
        for block in row_blocks(queries.shape[0], cost, working_memory=free_memory(Q)):
            some = queries[block]
            w = xp.take(weights, some, axis=0)
            rows = take_rows(data.rows, xp.take(indices, some, axis=0))
            offsets = rows - xp.take(Q, some, axis=0)[:, None, :]
            lam = _relative_penalty(offsets, w, alpha) if self.relative else alpha + 0.0 * w[:, 0]
            member = xp.take(labels, some, axis=0) == classes[block][:, None]
            theta, converged = batched_newton(
                offsets,
                xp.where(member, xp.ones_like(w), -xp.ones_like(w)),
                w,
                lam,
                xp.take(rho, some),
                C=objective.C,
                loss=objective.loss,
                tol=objective.tol,
                max_iter=objective.max_iter,
            )
            failed = int(xp.sum(xp.astype(~converged, xp.int64)))
            warn_unconverged(objective, failed, some.shape[0])
            parts.append(theta)
        return xp.concat(parts, axis=0)


def _only(marked, values):
    """Return the one marked entry along the axis of classes, kept as an axis of length one."""
    xp = namespace(values)
    return xp.sum(xp.where(marked, values, xp.zeros_like(values)), axis=1, keepdims=True)


def _relative_penalty(offsets, weights, alpha: float):
    xp = namespace(offsets)
    total = xp.sum(weights, axis=1)
    mean = (transpose(offsets) @ weights[:, :, None])[:, :, 0] / total[:, None]
    centred = offsets - mean[:, None, :]
    trace = xp.sum(weights * xp.sum(centred * centred, axis=2), axis=1)
    size = trace + total * xp.sum(mean * mean, axis=1)
    # Without spread the slopes are immaterial; any penalty keeps the system regular.
    return xp.where(trace > 1e-12 * size, alpha * trace / offsets.shape[2], total)


# --- the engine of a fit ---


class ArrayApiEngine:
    """Learn coordinates, place rows and choose solvers where the arrays are."""

    def solver(self, solver, X) -> Any:
        """Return the solver with the same objective on arrays."""
        kind = ArrayRidge if isinstance(solver, RidgeSolver) else ArrayNewton
        return kind(**vars(solver))

    def learn(self, table: TrainingTable, metric) -> ArrayMap:
        """Learn the coordinates of a metric."""
        if not hasattr(metric, "linear_map"):
            return learn_map(table.X, table.sample_weight, metric)
        return self.learn_rounds(table, clone(metric))[-1]

    def learn_rounds(self, table: TrainingTable, metric) -> list[ArrayMap]:
        """Learn a gradient metric; return the coordinates after each of its rounds."""
        learned = metric.fit(table.X, table.targets.values, table.sample_weight)
        maps = learned.maps_
        return [
            ArrayMap(learned.mean_, learned.scale_, maps[r, :, :], learned)
            for r in range(maps.shape[0])
        ]

    def rows(self, table: TrainingTable, map: ArrayMap) -> ArrayRows:
        """Put rows into coordinates."""
        return ArrayRows.place(table, map)

    def others(self, table: TrainingTable, fold: np.ndarray) -> TrainingTable:
        """Return the rows outside a fold."""
        xp = namespace(table.X)
        rows = xp.asarray(rows_outside(fold, table.n_samples), device=compat.device(table.X))
        weights = table.sample_weight
        return TrainingTable(
            xp.take(table.X, rows, axis=0),
            table.targets.take(rows),
            None if weights is None else xp.take(weights, rows),
            None,
        )


def check_array_parameters(estimator, solver, groups) -> None:
    """Refuse what is not written for arrays of other libraries."""
    metric = estimator.metric
    known = hasattr(metric, "linear_map") or (isinstance(metric, str) and metric in _METRICS)
    unsupported = {
        "bandwidth": estimator.bandwidth is not None,
        "location_columns": getattr(estimator, "location_columns", None) is not None,
        "metric": not known,
        "degree": estimator.degree == 2,
        "groups": groups is not None,
        "estimator": type(solver) not in (RidgeSolver, NewtonSolver)
        or solver.name == "multinomial",
        "class_weight": getattr(estimator, "class_weight", None) is not None,
        "robust_iterations": getattr(estimator, "robust_iterations", 0) > 0,
        "clip": getattr(estimator, "clip", False),
    }
    named = [name for name, is_set in unsupported.items() if is_set]
    if named:
        raise ValueError(
            f"{', '.join(named)} as given cannot be used with a device array; change that, or "
            "convert X with numpy.asarray."
        )
