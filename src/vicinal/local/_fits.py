"""Fitted local models: training rows, a neighbourhood rule and a solver."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from scipy.interpolate import CubicHermiteSpline

from vicinal._base import namespace, saved
from vicinal._base._compat import num_samples
from vicinal._kernels.local._polynomials import LinePoints, LineWindow, smooth_line
from vicinal._kernels.local._smoothing import (
    kernel_slopes,
    nearest_bandwidth,
    nearest_scale,
    robustness_weights,
)
from vicinal._kernels.local._workspace import Motion
from vicinal.local import _solvers
from vicinal.local._neighborhoods import (
    NearestRule,
    RadiusRule,
    WeightedNeighborhoods,
    take_queries,
)
from vicinal.local._rows import LocalRows
from vicinal.local._settings import LocalSettings


@saved(outside="o")
@dataclass(frozen=True)
class LocalFit:
    """A model fitted around every query.

    Attributes
    ----------
    data : LocalRows
        Training rows; their array library selects the engine.
    rule : NearestRule, RadiusRule or ForestRule
        How far a neighbourhood reaches.
    solver : object
        Model fitted to it.
    alpha : float
        Penalty.
    outside : array of shape (n_outputs,)
        Prediction where no row is near.
    factor : array of shape (n_samples,) or None
        Factors on the weights of training rows (robust iterations, classes).
    """

    data: Any
    rule: Any
    solver: Any
    alpha: float
    outside: Any
    factor: Any = None

    def __getstate__(self) -> dict:
        """Return the parts, without what is computed from them at first use."""
        return {part.name: getattr(self, part.name) for part in fields(self)}

    # --- queries ---

    def localized(self, X) -> Iterator[tuple[slice, Any, Any]]:
        """Yield (block, design rows of the queries, their neighbourhoods)."""
        return self._localized(*self.data.locate(X))

    def on_training(self) -> Iterator[tuple[slice, Any, Any]]:
        """Yield the same of the training rows as queries."""
        return self._localized(self.data.index.X, self.data.rows)

    def _localized(self, coords, design) -> Iterator[tuple[slice, Any, Any]]:
        localizer = self.data.localizer(self.rule, self.factor)
        for block in self.data.blocks(design.shape[0], self.rule):
            yield block, design[block, :], localizer.neighborhoods(coords[block, :])

    def predictions(self, X, method: str | None = None) -> Any:
        """Return predictions or class scores, (n_queries, n_outputs)."""
        coords, design = self.data.locate(X)
        return self.at(coords, design, method)

    def fitted(self) -> np.ndarray:
        """Return in-sample predictions for the training rows."""
        return self.at(self.data.index.X, self.data.rows)

    def at(self, coords, design, method: str | None = None) -> Any:
        """Return the predictions of queries in coordinates of the search and of the design."""
        solver = self.solver if self.solver.is_compiled else self.solver.with_method(method)
        return self._concat(
            [self._block(solver, *some[1:]) for some in self._localized(coords, design)]
        )

    def _block(self, solver, design, found) -> Any:
        """Return the predictions of a block of queries; ``outside`` where no row is near."""
        empty = found.is_empty()
        if not empty.any():
            return solver.path(self.data, design, found, [self.alpha])[0]
        out = np.empty((len(empty), len(self.outside)))
        out[empty] = self.outside
        some = np.flatnonzero(~empty)
        if some.size:
            near = take_queries(found, some)
            out[some] = solver.path(self.data, design[some], near, [self.alpha])[0]
        return out

    def left_out(self, rows=None) -> Any:
        """Return predictions for training rows, each left out of its own neighbourhood."""
        rows = np.arange(self.data.n_samples) if rows is None else rows
        blocks = self.data.left_out([self.rule], rows, self.factor)
        return self._concat([self._block(self.solver, *some[3:]) for some in blocks])

    def slopes(self, X) -> Any:
        """Return gradients with respect to the columns of X, (n_queries, n_outputs, d)."""
        parts = [
            self.solver.slopes(self.data, design, found, self.alpha)
            for _, design, found in self.localized(X)
        ]
        return self.data.mapping.pull_back(self._concat(parts), X)

    def _concat(self, parts: list) -> Any:
        return namespace(parts[0]).concat(parts, axis=0)

    # --- weights of training rows ---

    def weights(self, X) -> sparse.csr_matrix:
        """Return the smoothing weights, (n_queries, n_samples)."""
        return self._rows(X, lambda design, found: found.weights)

    def kernel(self, X) -> sparse.csr_matrix:
        """Return the equivalent kernel, (n_queries, n_samples)."""
        return self._rows(X, self.block_kernel)

    def block_kernel(self, design, found) -> np.ndarray:
        """Return l(q) of a block, flat as the neighbours are."""
        return self.solver.kernels(self.data, design, found, [self.alpha])[0]

    def _rows(self, X, values) -> sparse.csr_matrix:
        self.data.check_host("Weights of training rows")
        n = self.data.n_samples
        parts = [sparse.csr_matrix((0, n))]
        for _, design, found in self.localized(X):
            parts.append(found.matrix(values(design, found), n))
        return sparse.vstack(parts, format="csr")

    def predictions_and_norms(self, X) -> tuple[np.ndarray, np.ndarray]:
        """Return predictions of a linear smoother and |l(q)|^2 of each query.

        Where no row is near, the prediction is the mean of all rows or NaN.
        """
        values, norms = [], []
        empty = np.nan if np.isnan(self.outside).any() else 1.0 / self.data.total_weight
        for _, design, found in self.localized(X):
            kernel = self.block_kernel(design, found)
            is_empty = found.is_empty()
            level = self.data.smooth(found, kernel[None])[0]
            values.append(np.where(is_empty[:, None], self.outside, level))
            # |l(q)|^2 = sum_i l_i^2 / s_i is the variance of a prediction in units of the noise.
            squares = found.sums(kernel**2 / self.data.weights[found.indices])
            norms.append(np.where(is_empty, empty, squares))
        return np.concatenate(values), np.concatenate(norms)


@saved()
@dataclass(frozen=True)
class GlobalFit(LocalFit):
    """One model for all queries: every row has the same weight everywhere."""

    @classmethod
    def applies(cls, rule, solver) -> bool:
        """Return whether one fit serves all queries."""
        is_global = isinstance(rule, RadiusRule) and np.isinf(rule.bandwidth)
        return is_global and not solver.depends_on_origin

    @cached_property
    def _linear_model(self) -> tuple[Any, np.ndarray, np.ndarray]:
        """Origin, values and slopes there of the model."""
        data = self.data
        weights = data.weights if self.factor is None else data.weights * self.factor
        origin = np.asarray(weights @ data.rows / weights.sum()).reshape(1, -1)
        design = sparse.csr_matrix(origin) if data.is_sparse else origin
        all_rows = WeightedNeighborhoods(
            np.array([0, data.n_samples], dtype=np.int64),
            np.arange(data.n_samples, dtype=np.int64),
            weights,
            np.zeros(data.n_samples),
            np.full(1, np.inf),
        )
        level = self.solver.path(data, design, all_rows, [self.alpha])[0]
        return origin, level, self.solver.slopes(data, design, all_rows, self.alpha)[0]

    def at(self, coords, design, method: str | None = None) -> np.ndarray:
        """Return the predictions of queries in coordinates of the search and of the design."""
        origin, level, slopes = self._linear_model
        return level + np.asarray(design @ slopes.T - origin @ slopes.T)

    def slopes(self, X) -> np.ndarray:
        """Return gradients with respect to the columns of X, the same for every query."""
        slopes = self._linear_model[2]
        slopes = np.broadcast_to(slopes, (num_samples(X), *slopes.shape))
        return self.data.mapping.pull_back(slopes, X)


@saved()
@dataclass(frozen=True)
class LineFit(LocalFit):
    """Unpenalised tricube fits along one column, through windows of sorted points."""

    @classmethod
    def applies(cls, data, rule, solver, alpha: float) -> bool:
        """Return whether windows of sorted points can replace search and QR."""
        return (
            type(rule) is NearestRule
            and rule.kernel == "tricube"
            and type(solver) is _solvers.RidgeSolver
            and data.n_columns == 1
            and data.index.X is data.rows
            and data.index.is_euclidean
            and data.sample_weight is None
            and data.n_classes is None
            and alpha == 0.0
        )

    @cached_property
    def _sorted(self) -> LinePoints:
        """The points in order; ties by target, so that the order of rows does not matter."""
        x, Y = self.data.rows[:, 0], self.data.y
        order = np.lexsort((*Y.T[::-1], x))
        factor = np.ones(len(x)) if self.factor is None else self.factor[order]
        return LinePoints(x[order], np.ascontiguousarray(Y[order].T), factor)

    def on_line(self, design) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return values and slopes (n_queries, n_outputs), and where they hold."""
        points, rule = self._sorted, self.rule
        q = np.ascontiguousarray(design[:, 0])
        values = np.full((len(q), len(points.Y)), np.nan)
        slopes, solved = values.copy(), np.ones(len(q), dtype=bool)
        count, degree = min(len(points.x), int(rule.count)), int(self.solver.degree)
        window = LineWindow(count, rule.exceed, float(rule.stretch), rule.loess, degree)

        def run(some):
            smooth_line(points, q[some], window, values[some], slopes[some], solved[some])

        _solvers.over_queries(run, len(q), self.solver.n_jobs)
        return values, slopes, solved & np.isfinite(values).all(axis=1)

    def at(self, coords, design, method: str | None = None) -> np.ndarray:
        """Return the predictions of queries; underdetermined ones use QR."""
        values, _, solved = self.on_line(design)
        if not solved.all():
            rest = np.ascontiguousarray(design[~solved])
            values[~solved] = super().at(rest, rest)
        return values


def make_fit(data, rule, solver, alpha: float, outside, factor=None) -> LocalFit:
    """Return the fitted model, of the fastest class that applies."""
    kind = LocalFit
    if GlobalFit.applies(rule, solver):
        kind = GlobalFit
    elif LineFit.applies(data, rule, solver, alpha):
        kind = LineFit
    return kind(data, rule, solver, float(alpha), outside, factor)


# Rows between two nodes of an interpolated curve, as a share of those in a neighbourhood.
_CELL = 0.2


@saved()
@dataclass(frozen=True)
class InterpolatedFit(LocalFit):
    """Local polynomials of one column at the nodes of a cubic spline.

    Queries outside the nodes are fitted directly.
    """

    @cached_property
    def direct(self) -> LocalFit:
        """The model fitted around every query."""
        parts = (self.data, self.rule, self.solver, self.alpha, self.outside, self.factor)
        return make_fit(*parts)

    @cached_property
    def curve(self) -> CubicHermiteSpline | None:
        """The interpolated predictions; ``None`` where all rows are equal."""
        n_cells = np.ceil(self.data.total_weight / max(1.0, _CELL * int(self.rule.count)))
        shares = np.linspace(0.0, 1.0, int(n_cells) + 1)
        nodes = np.unique(np.quantile(self.data.rows[:, 0], shares))
        if len(nodes) < 2:
            return None
        return CubicHermiteSpline(nodes, *self._at_nodes(nodes[:, None]))

    def _at_nodes(self, nodes) -> tuple[np.ndarray, np.ndarray]:
        """Return values and slopes of the direct fits at the nodes, (n_nodes, n_outputs)."""
        if isinstance(self.direct, LineFit):
            values, slopes, solved = self.direct.on_line(nodes)
            if solved.all():
                return values, slopes
        parts = [
            self.solver.linear_models(self.data, design, found, self.alpha)
            for _, design, found in self._localized(nodes, nodes)
        ]
        values, slopes = (np.concatenate(column) for column in zip(*parts, strict=True))
        return values, slopes[:, :, 0]

    def at(self, coords, design, method: str | None = None) -> np.ndarray:
        """Return the predictions of queries in coordinates of the search and of the design."""
        if self.curve is None:
            return self.direct.at(design, design)
        x = design[:, 0]
        out = self.curve(x)
        outside = (x < self.curve.x[0]) | (x > self.curve.x[-1])
        if outside.any():
            rest = np.ascontiguousarray(design[outside])
            out[outside] = self.direct.at(rest, rest)
        return out

    def predictions_and_norms(self, X) -> tuple[np.ndarray, np.ndarray]:
        """Return predictions of the direct fits and |l(q)|^2 of each query."""
        return self.direct.predictions_and_norms(X)


def reweighted(model: LocalFit, n_iterations: int) -> LocalFit:
    """Robust iterations: fit, weigh rows by the size of their residuals, fit again."""
    data = model.data
    for _ in range(n_iterations):
        residuals = data.y - model.fitted()
        size = np.sqrt((residuals**2).mean(axis=1)) if residuals.shape[1] > 1 else residuals
        model = replace(model, factor=robustness_weights(size.ravel(), data.sample_weight))
    return model


# --- the model of an estimator ---


def fitted_model(
    settings: LocalSettings, rows: LocalRows, rule: Any, degree: int, alpha: float
) -> LocalFit:
    """Return the model of one setting."""
    outside = rows.prior()
    if settings.outside == "nan":
        outside = np.full(len(outside), np.nan)
    solver = rows.suited(_solvers.at_degree(settings.solver, degree))
    if settings.interpolate and rows.n_columns > 1:
        raise ValueError(
            f'surface="interpolate" needs one column, and X has {rows.n_columns}; use '
            'surface="direct".'
        )
    make = InterpolatedFit if settings.interpolate else make_fit
    model = make(rows, rule, solver, float(alpha), outside, settings.factor)
    return reweighted(model, settings.robust_iterations)


def store(estimator: Any, chosen: Any, settings: LocalSettings, compared: Sequence = ()) -> None:
    """Store the model of a candidate in an estimator, with the attributes that users read."""
    rule, rows = chosen.rule, chosen.rows
    estimator._model = fitted_model(settings, rows, rule, chosen.degree, chosen.alpha)
    learned = rows.mapping.coordinates.learned
    estimator.metric_ = chosen.metric if learned is None else learned
    estimator.alpha_ = float(chosen.alpha)
    estimator.degree_ = chosen.degree
    estimator.n_neighbors_ = int(rule.count) if isinstance(rule, NearestRule) else None
    estimator.bandwidth_ = float(rule.bandwidth) if isinstance(rule, RadiusRule) else None
    if compared:
        names = np.array([metric_name(c.metric) for c in compared], dtype=object)
        estimator.selection_ = {
            "metric": names,
            "degree": np.array([c.degree for c in compared]),
            "size": np.array([c.rule.size for c in compared]),
            "alpha": np.array([c.alpha for c in compared]),
            "loss": np.array([c.loss for c in compared]),
        }
        estimator.loo_score_ = chosen.loss


def metric_name(metric) -> str:
    """Return the name of a metric in ``selection_``."""
    if isinstance(metric, str):
        return metric
    name = getattr(metric, "__name__", type(metric).__name__)
    rounds = getattr(metric, "n_rounds", None)
    return name if rounds is None else f"gradient {rounds}"


# --- gradients of class scores ---


def has_gradient(fit: LocalFit) -> bool:
    """Return whether the gradient of the fit has a closed form."""
    solver, data = fit.solver, fit.data
    is_smooth = type(solver) in (_solvers.RidgeSolver, _solvers.NewtonSolver) and solver.degree < 2
    return is_smooth and data.index.is_euclidean and data.mapping.coordinates.transformer is None


def scores_and_gradients(fit: LocalFit, X, weights_move: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return class scores (n_queries, n_classes) and gradients (n_queries, n_classes, n_features).

    With ``weights_move`` False the weights are held fixed: the gradients are the slopes of the
    local models.
    """
    if isinstance(fit, GlobalFit):
        return fit.predictions(X), fit.slopes(X)
    data = fit.data
    scores = np.empty((X.shape[0], data.n_outputs))
    gradients = np.zeros((*scores.shape, X.shape[1]))
    localizer = data.localizer(fit.rule, fit.factor)
    coords, design = data.locate(X)
    for block in data.blocks(X.shape[0], fit.rule):
        found = localizer.neighborhoods(coords[block])
        empty = found.is_empty()
        scores[block][empty] = fit.outside
        some = np.flatnonzero(~empty)
        if not some.size:
            continue
        found, rows = take_queries(found, some), block.start + some
        move = weight_slopes(localizer, coords[rows], found) if weights_move else _still(found)
        pulls = np.zeros((len(rows), data.n_outputs, coords.shape[1]))
        radial, common, extra = move
        motion = Motion(data.index.X, coords[rows], radial, common, extra, pulls)
        scores[rows], slopes = _solvers.fit_classifiers(
            fit.solver, data, design[rows], found, fit.alpha, motion=motion
        )
        gradients[rows] = data.mapping.pull_back(slopes, X[rows], pulls)
    return scores, gradients


# --- how weights move with the query ---


def _still(found: WeightedNeighborhoods):
    none = np.zeros(len(found.indices))
    return none, none, np.zeros((found.n_queries, 1))


def weight_slopes(localizer, coords, found: WeightedNeighborhoods):
    """Return (radial, common, extra): grad w_i = radial_i (x_i - q) + common_i extra(q)."""
    rule = localizer.rule
    user = np.ones(len(found.indices))
    if localizer.sample_weight is not None:
        user *= localizer.sample_weight[found.indices]
    if localizer.factor is not None:
        user *= localizer.factor[found.indices]
    extra = np.zeros(coords.shape)
    if isinstance(rule, NearestRule):
        _set_bandwidth_slopes(localizer, rule, coords, np.arange(len(coords)), extra)
        return *_nearest_slopes(rule, found, user), extra
    if np.isinf(rule.bandwidth):
        return *_still(found)[:2], extra
    if rule.kernel == "gaussian":
        # Weights are relative to the nearest row's, which moves too.
        nearest = localizer.index.nearest(coords, 1)[1][:, 0]
        extra = localizer.index.X[nearest] - coords
        radial = found.weights / rule.bandwidth**2
        return radial, -radial, extra
    h, r = rule.bandwidth, found.distances
    slope = user * kernel_slopes(r / h, rule.kernel)
    radial, common = -slope / (h * np.where(r > 0.0, r, 1.0)), np.zeros_like(slope)
    enlarged = np.flatnonzero(found.bandwidths != h)
    if enlarged.size:
        # No row was within the bandwidth: these use the nearest rows.
        some = NearestRule(min(coords.shape[1] + 1, localizer.n_samples - 1), rule.kernel)
        _set_bandwidth_slopes(localizer, some, coords, enlarged, extra)
        other = np.isin(np.repeat(np.arange(len(coords)), found.sizes()), enlarged)
        wide = _nearest_slopes(some, found, user)
        radial[other], common[other] = wide[0][other], wide[1][other]
    return radial, common, extra


def _nearest_slopes(rule: NearestRule, found: WeightedNeighborhoods, user):
    """Return (radial, common) of the weights K(r / h(q))."""
    h = np.repeat(found.bandwidths, found.sizes())
    r = found.distances
    safe = np.where(h > 0.0, h, 1.0)
    factor = nearest_scale(rule.kernel)
    slope = factor * user * kernel_slopes(factor * r / safe, rule.kernel) * (h > 0.0)
    radial = -slope / (safe * np.where(r > 0.0, r, 1.0))
    return radial, -slope * r / (safe * safe)


def _set_bandwidth_slopes(localizer, rule: NearestRule, coords, queries, extra) -> None:
    """Write grad h(q) = stretch (q - x_k) / |q - x_k| for the row that sets the bandwidth."""
    finder = type(localizer)(localizer.index, rule, sample_weight=localizer.sample_weight)
    for part, distances, indices, user in finder.candidates(coords[queries], rule.count):
        some = queries[part]
        h = nearest_bandwidth(distances, user, rule.count, exceed=rule.exceed)
        short = ~np.isfinite(h)
        # All rows together were too few: the farthest one sets the bandwidth.
        h = np.where(short, distances[:, -1], h)
        stretch = np.where(short, 1.0 + 1.0 / max(1.0, rule.count), 1.0) * rule.stretch
        column = (distances >= h[:, None]).argmax(axis=1)
        away = coords[some] - localizer.index.X[indices[np.arange(len(some)), column]]
        extra[some] = away * (stretch / np.where(h > 0.0, h, 1.0))[:, None]
