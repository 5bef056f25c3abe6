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

    ``surface`` is a fitted ``DecisionSurface``, ``model`` its model for the categories of the
    queries; the other parameters are those of ``DecisionSurface.counterfactual``.
    """

    def __init__(self, surface, model, *, immutable, bounds, categorical, sparsity, plausibility):
        X, is_number, search = surface._X, surface._references.numeric, surface._search()
        d, names = X.shape[1], getattr(surface, "feature_names_in_", None)
        self.model, self.dtype = model, surface._dtype
        self.free = ~column_mask(immutable, d, names, "immutable")
        if not self.free.any():
            raise ValueError(
                f"immutable={immutable!r} names every column, so no row can change; name fewer."
            )
        is_category = column_mask(categorical, d, names, "categorical") | ~is_number
        weights = surface._weights
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
        has_conditions = self.is_bounded or is_category.any() or self.density is not None
        self.is_free = self.free.all() and not has_conditions
        chart = Chart(X, weights, self.free)
        self.references = ReferenceRows(chart.Z, surface._codes, ~is_category[self.free])
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
        # In the precision in which points are returned, so that each has the label it was given.
        chart = Chart(rows, self.weights, self.free, self.dtype)
        problem = Problem(self.model, chart, own, code, self.density, self._box(chart))
        there = own == code
        best = self._candidates(problem) if nearest is None else nearest
        best.status[there] = ON_SURFACE
        outer, ok = self._beyond(problem, best)
        outer = self._set_back(problem, outer, ok & ~there)
        every = np.arange(len(rows))
        points = chart.columns(outer, every)
        labels = self.model.codes(points)
        found = there | (ok & problem.reached(labels, every))
        same = there | ~found
        points[same], labels[same] = rows[same], own[same]
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

    def _box(self, chart):
        """Return the limits in coordinates; a row outside keeps its own value as limit."""
        if not self.is_bounded:
            return -np.inf, np.inf
        low, high = (limit[self.free] * chart.forward for limit in (self.low, self.high))
        return np.minimum(low, chart.Z), np.maximum(high, chart.Z)

    def _candidates(self, problem) -> NearestPoints:
        """Return near points of a wanted label, improved by gradients where they are known."""
        best = nearest_by_labels(problem, self.search, check=not self.is_free)
        self._reach_farther(problem, best)
        if self.model.oracle is not None and self.references.numeric.all():
            self._descend(problem, best)
        return best

    def _reach_farther(self, problem, best: NearestPoints) -> None:
        """Go beyond rows, or down the gradient, where no row nearby keeps the wanted label."""
        lost = np.flatnonzero(best.status == NO_SURFACE)
        if not lost.size:
            return
        part = problem.take(lost)
        found = self.references.opposites(part.Z, part.own, part.target, _N_FARTHER)
        owner, column = np.nonzero(found >= 0)
        ends = self.references.rows[found[owner, column]]
        numeric = self.references.numeric
        owners, Z = [owner] * len(_FARTHER), part.Z[owner]
        points = [np.where(numeric, Z + factor * (ends - Z), ends) for factor in _FARTHER]
        if self.model.oracle is not None and numeric.all():
            none = np.zeros(len(lost), dtype=bool)
            roots, status = project(
                part.evaluate, part.Z, part.Z, none, step=np.inf, tol=1e-6, max_iter=20
            )
            some = np.flatnonzero(status == CONVERGED)
            pushed = self._pushed(part.Z[some], roots.points[some], _MARGINS[0])
            owners.append(some)
            points.append(pushed)
        owner = np.concatenate(owners)
        ends = part.cut(np.concatenate(points), owner)
        good = part.flipped(ends, owner) if len(owner) else np.empty(0, dtype=bool)
        order = np.argsort(owner[good], kind="stable")
        extra = (owner[good][order], ends[good][order])
        best.put(lost, nearest_by_labels(part, self.search, check=True, extra=extra))

    def _descend(self, problem, best: NearestPoints) -> None:
        """Improve points by quadratic programming, holding columns that reach their limit."""
        rows = np.flatnonzero(best.status == CONVERGED)
        if not rows.size:
            return
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
            start = problem.cut(feet.points, rows)
            outside = start != feet.points
            if not outside.any():
                break
            held = held | outside
            Q = np.where(held, start, Q)
        points, Z, numeric = problem.cut(feet.points, rows), problem.Z[rows], self.search.numeric
        better = feet.converged & (
            mixed_distance(points, Z, numeric) < mixed_distance(best.outer[rows], Z, numeric)
        )
        outer, ok = self._step_over(problem, points, rows, better)
        some = rows[ok]
        best.points[some], best.outer[some] = points[ok], outer[ok]

    def _step_over(self, problem, points, rows, wanted):
        """Push points away from their queries until the label is a wanted one."""
        ok = np.zeros(len(points), dtype=bool)
        outer = points.copy()
        for margin in _MARGINS:
            some = np.flatnonzero(wanted & ~ok)
            if not some.size:
                break
            pushed = self._pushed(problem.Z[rows[some]], points[some], margin)
            pushed = problem.cut(pushed, rows[some])
            hit = problem.flipped(pushed, rows[some])
            outer[some[hit]], ok[some[hit]] = pushed[hit], True
        return outer, ok

    def _pushed(self, Z, points, margin):
        return np.where(self.references.numeric, points + margin * (points - Z), points)

    def _beyond(self, problem, best: NearestPoints):
        """Return points a little beyond the surface, and whether they have the label."""
        rows = np.arange(len(best.points))
        known = best.status != NO_SURFACE
        outer, ok = self._step_over(problem, best.points, rows, known)
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


def _limits(bounds, d: int):
    """Return lower and upper limits of all columns."""
    bounds = (None, None) if bounds is None else bounds
    if len(bounds) != 2:
        raise ValueError(f"bounds={bounds!r} must be a pair (low, high).")
    limits = []
    for limit, none in zip(bounds, (-np.inf, np.inf), strict=True):
        given = np.asarray(none if limit is None else limit, dtype=np.float64)
        if given.shape not in ((), (d,)):
            raise ValueError(
                f"bounds hold {given.shape} numbers; give one, or one for each of the {d} columns."
            )
        limits.append(np.broadcast_to(np.where(np.isnan(given), none, given), d))
    if np.any(limits[0] > limits[1]):
        worst = int(np.argmax(limits[0] > limits[1]))
        raise ValueError(
            f"bounds of column {worst} are {limits[0][worst]} and {limits[1][worst]}: the lower "
            "one must not exceed the upper."
        )
    return limits[0], limits[1]
