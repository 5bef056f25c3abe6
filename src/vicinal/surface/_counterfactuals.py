"""Counterfactuals: the smallest change that flips a prediction, under conditions."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vicinal._base import column_mask, is_frame
from vicinal._base._tables import are_numbers, column_values
from vicinal._kernels.surface._nearest_point import bisect, mixed_distance, nearest_points
from vicinal._kernels.surface._roots import CONVERGED, NO_SURFACE, ON_SURFACE, norms, project
from vicinal.neighbors import NeighborSearch
from vicinal.surface._problem import Chart, Problem, ReferenceRows
from vicinal.surface._search import NearestPoints, SurfaceSearch, nearest_by_labels

# How far beyond the surface a counterfactual may have to go, as shares of the distance.
_MARGINS = (1e-3, 1e-2, 5e-2)
# With any growth allowed, a column is set back if the others need not grow beyond this factor.
_LARGEST_GROWTH = 100.0
_DENSITY_NEIGHBOR = 5
_N_DESCENTS = 3
# Where no row nearby has a valid label: number of rows tried, and how far beyond them.
_N_FARTHER = 64
_FARTHER = (1.0, 2.0, 4.0)


@dataclass(frozen=True)
class Counterfactuals:
    """Counterfactuals of rows, as :class:`DecisionSurface` returns them.

    Attributes
    ----------
    rows : ndarray of shape (n_rows, n_features), or frame
        The queries.
    points : ndarray of shape (n_rows, n_features), or frame
        The changed rows; unchanged where nothing was found.
    labels : ndarray of shape (n_rows,)
        Labels predicted for the points.
    found : ndarray of bool of shape (n_rows,)
        Whether a point with a wanted label was found; each was predicted again.
    distances : ndarray of shape (n_rows,)
        Distance from row to point in the given metric; infinite where nothing was found.
    status : ndarray of int of shape (n_rows,)
        Values of :class:`SurfaceStatus`.
    feature_names : list of str
        Names of the columns.
    """

    rows: Any
    points: Any
    labels: np.ndarray
    found: np.ndarray
    distances: np.ndarray
    status: np.ndarray
    feature_names: list

    @property
    def changes(self) -> np.ndarray:
        """What to add to each row; NaN where a category changes."""
        if not is_frame(self.rows):
            return self.points - self.rows
        return np.column_stack(
            [
                [_difference(*cells) for cells in zip(before, after, strict=True)]
                for before, after in zip(_columns(self.rows), _columns(self.points), strict=True)
            ]
        )

    @property
    def n_changed(self) -> np.ndarray:
        """Number of columns that change."""
        return (self.changes != 0.0).sum(axis=1)


def _columns(frame) -> list[list]:
    return [column_values(frame, j) for j in range(frame.shape[1])]


def _difference(before, after) -> float:
    """Return what was added to a cell: nothing if it is the same, NaN if it is a category."""
    if are_numbers([before, after]):
        return after - before
    return 0.0 if before == after else np.nan


class PlausibleProblem(Problem):
    """A problem whose solutions must also lie where rows are."""

    density = None

    def flipped(self, Z, rows) -> np.ndarray:
        """Return whether points have a wanted label and lie where rows are dense."""
        hit = super().flipped(Z, rows)
        if self.density is not None and hit.any():
            hit[hit] = self.density(self.chart.columns(Z[hit], rows[hit]))
        return hit

    def take(self, rows) -> "PlausibleProblem":
        """Return the problem of some queries."""
        plain = super().take(rows)
        part = PlausibleProblem(plain.model, plain.chart, plain.own, plain.target)
        part.density = self.density
        return part


class Density:
    """Whether rows are as close to their fifth-nearest row as a share of the training rows are."""

    def __init__(self, X, scale, share):
        self.scale = scale
        self.k = min(_DENSITY_NEIGHBOR, len(X) - 1)
        self.search = NeighborSearch(n_jobs=1).fit(self._scaled(X))
        self.limit = np.quantile(self.search.kneighbors(None, self.k)[0][:, -1], share)

    def _scaled(self, X):
        return X * self.scale if self.scale.ndim == 1 else X @ np.linalg.cholesky(self.scale)

    def __call__(self, X) -> np.ndarray:
        return self.search.kneighbors(self._scaled(X), self.k)[0][:, -1] <= self.limit


class CounterfactualSearch:
    """Search of counterfactuals under the conditions of one call, which are checked once.

    Parameters are those of ``DecisionSurface.counterfactual``; ``weights`` is what
    ``metric_matrix`` returned, ``search`` how the surface is searched without conditions.
    """

    def __init__(
        self,
        model,
        search,
        X,
        codes,
        weights,
        *,
        names,
        dtype,
        immutable,
        bounds,
        categorical,
        sparsity,
        plausibility,
    ):
        d = X.shape[1]
        self.model = model
        self.dtype = dtype
        self.free = ~column_mask(immutable, d, names, "immutable")
        if not self.free.any():
            raise ValueError(
                f"immutable={immutable!r} names every column, so no row can change; name fewer."
            )
        is_category = column_mask(categorical, d, names, "categorical")
        if weights.ndim == 2 and (bounds is not None or is_category.any()):
            raise ValueError(
                "A matrix metric cannot be combined with bounds or categorical; use a metric with "
                "one weight per column."
            )
        if weights.ndim == 1:
            weights = np.where(is_category, 1.0, weights)
        self.weights = weights
        self.low, self.high = _limits(bounds, d)
        if not sparsity >= 0.0:
            raise ValueError(f"sparsity={sparsity!r} must be at least 0.")
        self.sparsity = sparsity
        self.density = None
        if plausibility is not None:
            if not 0.0 < plausibility <= 1.0:
                raise ValueError(f"plausibility={plausibility!r} must lie in (0, 1].")
            scale = np.where(is_category, 0.0, weights) if weights.ndim == 1 else weights
            self.density = Density(X, scale, plausibility)
        self.is_bounded = bounds is not None
        self.is_free = (
            self.free.all() and not self.is_bounded and not is_category.any()
        ) and self.density is None
        chart = Chart(X, weights, self.free)
        numeric = ~is_category[self.free]
        self.references = ReferenceRows(chart.coordinates(X), codes, numeric)
        # A search of free columns from the proposals of all: their first ones.
        n_free = int(self.free.sum())
        proposals = tuple(part[:, :, :n_free] for part in search.proposals)
        self.search: SurfaceSearch = replace(
            search, references=self.references, pool=None, proposals=proposals
        )

    def find(self, rows, own, code: int, nearest: NearestPoints | None) -> dict:
        """Return the parts of ``Counterfactuals`` for a block of rows.

        ``nearest`` are nearest points without conditions, if that is known to be enough.
        """
        n = len(rows)
        chart = Chart(rows, self.weights, self.free)
        problem = PlausibleProblem(self.model, chart, own, np.full(n, code))
        problem.density = self.density
        low, high = self._box(chart, problem.Z)
        there = own == code
        best = self._candidates(problem, low, high) if nearest is None else nearest
        best.status[there] = ON_SURFACE
        outer, ok = self._beyond(problem, best, low, high)
        outer = self._set_back(problem, outer, ok & ~there)
        points, labels, found = self._confirm(problem, outer, ok, low, high)
        points[there], labels[there], found[there] = rows[there], own[there], True
        points[~found], labels[~found] = rows[~found], own[~found]
        numeric = self.references.numeric
        distances = mixed_distance(chart.coordinates(points), problem.Z, numeric)
        distances[there] = 0.0
        return {
            "rows": rows.astype(self.dtype),
            "points": points.astype(self.dtype),
            "labels": labels,
            "found": found,
            "distances": np.where(found, distances, np.inf).astype(self.dtype),
            "status": np.where(found, np.where(there, ON_SURFACE, best.status), NO_SURFACE),
        }

    def _box(self, chart, Z):
        """Return the limits in coordinates; a row outside keeps its own value as limit."""
        if not self.is_bounded:
            return np.full(Z.shape, -np.inf), np.full(Z.shape, np.inf)
        low = self.low[self.free] * chart.forward
        high = self.high[self.free] * chart.forward
        return np.minimum(low, Z), np.maximum(high, Z)

    def _candidates(self, problem, low, high) -> NearestPoints:
        """Return near points of a wanted label, improved by gradients where they are known."""
        limits = {"low": low, "high": high}
        best = nearest_by_labels(problem, self.search, check=not self.is_free, **limits)
        self._reach_farther(problem, best, low, high)
        if self.model.oracle is not None and self.references.numeric.all():
            best = self._descend(problem, best, low, high)
        return best

    def _reach_farther(self, problem, best: NearestPoints, low, high) -> None:
        """Go beyond rows, or down the gradient, where no row nearby keeps the wanted label."""
        lost = np.flatnonzero(best.status == NO_SURFACE)
        if not lost.size:
            return
        part = problem.take(lost)
        limits = low[lost], high[lost]
        found = self.references.opposites(part.Z, part.own, part.target, _N_FARTHER)
        owner, column = np.nonzero(found >= 0)
        ends = self.references.rows[found[owner, column]]
        numeric = self.references.numeric
        owners, points = [], []
        for factor in _FARTHER:
            far = np.where(numeric, part.Z[owner] + factor * (ends - part.Z[owner]), ends)
            owners.append(owner)
            points.append(np.clip(far, limits[0][owner], limits[1][owner]))
        if self.model.oracle is not None and numeric.all():
            none = np.zeros(len(lost), dtype=bool)
            roots, status = project(
                part.evaluate, part.Z, part.Z, none, step=np.inf, tol=1e-6, max_iter=20
            )
            some = np.flatnonzero(status == CONVERGED)
            pushed = self._pushed(part.Z[some], roots.points[some], _MARGINS[0])
            owners.append(some)
            points.append(np.clip(pushed, limits[0][some], limits[1][some]))
        owner, ends = np.concatenate(owners), np.concatenate(points)
        good = part.flipped(ends, owner) if len(owner) else np.empty(0, dtype=bool)
        order = np.argsort(owner[good], kind="stable")
        extra = (owner[good][order], ends[good][order])
        limited = {"low": limits[0], "high": limits[1]}
        best.put(lost, nearest_by_labels(part, self.search, check=True, extra=extra, **limited))

    def _descend(self, problem, best: NearestPoints, low, high) -> NearestPoints:
        """Improve points by quadratic programming, holding columns that reach their limit."""
        rows = np.flatnonzero(best.status == CONVERGED)
        if not rows.size:
            return best
        Q, start = problem.Z[rows].copy(), best.outer[rows].copy()
        held = np.zeros(start.shape, dtype=bool)
        step = float(np.median(norms(start - Q))) or 1.0
        for _ in range(_N_DESCENTS):

            def evaluate(Y, descents, gradient, held=held):
                value, slope = problem.evaluate(Y, rows[descents], gradient)
                return value, None if slope is None else np.where(held[descents], 0.0, slope)

            feet = nearest_points(
                evaluate, Q, start, np.arange(len(rows)), step=step, tol=1e-6 * step
            )
            outside = (feet.points < low[rows]) | (feet.points > high[rows])
            if not outside.any():
                break
            start = np.clip(feet.points, low[rows], high[rows])
            held = held | outside
            Q = np.where(held, start, Q)
        points = np.clip(feet.points, low[rows], high[rows])
        numeric = self.references.numeric
        Z = problem.Z[rows]
        better = feet.converged & (
            mixed_distance(points, Z, numeric) < mixed_distance(best.outer[rows], Z, numeric)
        )
        outer, ok = self._step_over(problem, points, rows, better, low, high)
        some = rows[ok]
        best.points[some], best.outer[some] = points[ok], outer[ok]
        return best

    def _step_over(self, problem, points, rows, wanted, low, high):
        """Push points away from their queries until the label is a wanted one."""
        low, high = low[rows], high[rows]
        ok = np.zeros(len(points), dtype=bool)
        outer = points.copy()
        for margin in _MARGINS:
            some = np.flatnonzero(wanted & ~ok)
            if not some.size:
                break
            pushed = self._pushed(problem.Z[rows[some]], points[some], margin)
            pushed = np.clip(pushed, low[some], high[some])
            hit = problem.flipped(pushed, rows[some])
            outer[some[hit]], ok[some[hit]] = pushed[hit], True
        return outer, ok

    def _pushed(self, Z, points, margin):
        return np.where(self.references.numeric, points + margin * (points - Z), points)

    def _beyond(self, problem, best: NearestPoints, low, high):
        """Return points a little beyond the surface, and whether they have the label."""
        rows = np.arange(len(best.points))
        known = best.status != NO_SURFACE
        outer, ok = self._step_over(problem, best.points, rows, known, low, high)
        some = np.flatnonzero(known & ~ok)
        if some.size:
            # The far end of the bracket has the label, however ragged the surface is.
            hit = problem.flipped(best.outer[some], some)
            outer[some[hit]], ok[some[hit]] = best.outer[some[hit]], True
        return outer, ok

    def _set_back(self, problem, outer, wanted):
        """Set columns back to the row's own values, smallest change first."""
        rows = np.flatnonzero(wanted)
        numeric, Z = self.references.numeric, problem.Z[rows]
        if not rows.size:
            return outer
        Y = outer[rows].copy()
        limit = mixed_distance(Y, Z, numeric) * (1.0 + min(self.sparsity, _LARGEST_GROWTH))
        size = np.where(numeric, np.abs(Y - Z), (Y != Z).astype(float))
        order = np.argsort(size, axis=1, kind="stable")
        for rank in range(order.shape[1]):
            column = order[:, rank]
            at = np.arange(len(rows))
            active = np.flatnonzero((Y[at, column] != Z[at, column]) & ((Y != Z).sum(axis=1) > 1))
            if not active.size:
                continue
            trial = Y[active].copy()
            trial[np.arange(len(active)), column[active]] = Z[active, column[active]]
            hit = problem.flipped(trial, rows[active])
            Y[active[hit]] = trial[hit]
            if self.sparsity > 0.0 and not hit.all():
                rest = active[~hit]
                self._grow(problem, rows, Y, Z, rest, trial[~hit], limit)
        outer = outer.copy()
        outer[rows] = Y
        return outer

    def _grow(self, problem, rows, Y, Z, rest, trial, limit):
        """Let the other columns grow until the label is back, if the distance allows it."""
        numeric = self.references.numeric
        square = mixed_distance(trial, Z[rest], numeric) ** 2
        categories = (np.where(numeric, False, trial != Z[rest])).sum(axis=1)
        with np.errstate(all="ignore"):
            growth = np.sqrt((limit[rest] ** 2 - categories) / (square - categories))
        good = np.isfinite(growth) & (growth > 1.0)
        rest, trial, growth = rest[good], trial[good], growth[good]
        far = np.where(numeric, Z[rest] + growth[:, None] * (trial - Z[rest]), trial)
        hit = problem.flipped(far, rows[rest])
        rest, trial, far = rest[hit], trial[hit], far[hit]
        _, end = bisect(problem.flipped, trial, far, rows[rest], numeric, n_halvings=12)
        Y[rest] = end

    def _confirm(self, problem, outer, ok, low, high):
        """Predict the points again, in the precision in which they are returned."""
        rows = np.arange(len(outer))
        points = self._columns(problem, outer)
        labels = problem.model.codes(points)
        found = ok & problem.reached(labels, rows) & self._is_dense(points)
        for margin in _MARGINS:
            some = np.flatnonzero(ok & ~found)
            if not some.size:
                break
            pushed = self._pushed(problem.Z[some], outer[some], margin)
            pushed = np.clip(pushed, low[some], high[some])
            again = self._columns(problem, pushed, some)
            codes = problem.model.codes(again)
            good = problem.reached(codes, some) & self._is_dense(again)
            points[some[good]], labels[some[good]] = again[good], codes[good]
            found[some[good]] = True
        return points, labels, found

    def _is_dense(self, points) -> np.ndarray:
        if self.density is None:
            return np.ones(len(points), dtype=bool)
        return self.density(points)

    def _columns(self, problem, Z, rows=None):
        """Return columns rounded as they will be returned; what did not change is exact."""
        rows = np.arange(len(Z)) if rows is None else rows
        points = problem.chart.columns(Z, rows)
        base = problem.chart.base[rows]
        same = np.ones(points.shape, dtype=bool)
        same[:, self.free] = problem.Z[rows] == Z
        if problem.chart.is_diagonal:
            points = np.where(same, base, points)
        return points.astype(self.dtype).astype(np.float64)


def _limits(bounds, d: int):
    """Return lower and upper limits of all columns."""
    if bounds is None:
        return np.full(d, -np.inf), np.full(d, np.inf)
    if len(bounds) != 2:
        raise ValueError(f"bounds={bounds!r} must be a pair (low, high).")
    limits = []
    for limit, none in zip(bounds, (-np.inf, np.inf), strict=True):
        values = np.full(d, none)
        if limit is not None:
            given = np.asarray(limit, dtype=np.float64)
            if given.shape not in ((), (d,)):
                raise ValueError(
                    f"bounds hold {given.shape} numbers; give one, or one for each of the {d} "
                    "columns."
                )
            values = np.where(np.isnan(given), none, given) * np.ones(d)
        limits.append(values)
    if np.any(limits[0] > limits[1]):
        worst = int(np.argmax(limits[0] > limits[1]))
        raise ValueError(
            f"bounds of column {worst} are {limits[0][worst]} and {limits[1][worst]}: the lower "
            "one must not exceed the upper."
        )
    return limits[0], limits[1]
