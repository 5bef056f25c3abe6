"""Points of a decision surface: some point, the first one on a ray, the nearest one."""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from vicinal._base import saved
from vicinal._kernels.surface._closed_forms import leaf_boxes, nearest_in_boxes
from vicinal._kernels.surface._nearest_point import (
    bisect,
    contract,
    label_normals,
    mixed_distance,
    nearest_points,
)
from vicinal._kernels.surface._roots import (
    CONVERGED,
    KINK,
    NO_CROSSING,
    NO_SURFACE,
    NOT_CONVERGED,
    ON_SURFACE,
    Roots,
    SurfaceStatus,
    march,
    norms,
    project,
    refine_roots,
)
from vicinal.surface._oracles import final_model
from vicinal.surface._problem import Problem, ReferenceRows, SurfacePool

# Points around a surface point, and their radius in units of `length`, for normals from labels.
_N_AROUND = 64
_NORMAL_RADIUS = 0.1
# Steps of a ray without gradients, and the longest with them, in units of `length`.
_RAY_STEP, _LONGEST_STEP = 0.1, 0.5
# Label-only search: segments tried, rounds, and proposals in each.
N_SEGMENTS = 8
_N_ROUNDS = 20
_N_NORMAL, _N_RESETS, _N_ANYWHERE = 8, 4, 6
_N_DIRECTIONS = 3
# Candidates looked at for a restart in another direction.
_N_NEAR = 64
_OTHER_DIRECTION = 0.9
_RESTART_RADIUS = 1.25
# Cosine between offset and gradient above which a stalled descent stands at the nearest point.
_NEARLY_ORTHOGONAL = 0.9995


@dataclass(frozen=True)
class SurfaceProjection:
    """Points of a decision surface, one per row, as :class:`DecisionSurface` returns them.

    Attributes
    ----------
    points : ndarray of shape (n_rows, n_features), or frame
        Points on the surface; the row itself where none was found.
    distances : ndarray of shape (n_rows,)
        Signed distance from row to point in the metric of the surface; infinite where none was
        found. Two classes: positive where the second one is predicted. More: positive.
    normals : ndarray of shape (n_rows, n_features)
        Unit normals of the surface at the points, towards the positive side; zero where unknown.
    status : ndarray of int of shape (n_rows,)
        Values of :class:`SurfaceStatus`.
    extrapolated : ndarray of bool of shape (n_rows,)
        Whether the point lies outside the box of the rows given to ``fit``.
    n_evaluations : ndarray of int of shape (n_rows,)
        Evaluations of the classifier (one gradient counts as one).
    """

    points: Any
    distances: np.ndarray
    normals: np.ndarray
    status: np.ndarray
    extrapolated: np.ndarray
    n_evaluations: np.ndarray

    @property
    def converged(self) -> np.ndarray:
        """Rows whose search ended as it should."""
        return np.isin(self.status, (SurfaceStatus.CONVERGED, SurfaceStatus.ON_SURFACE))


class NearestPoints(NamedTuple):
    """Points in coordinates, on the surface and beyond it, with gradients and status."""

    points: np.ndarray
    outer: np.ndarray
    gradients: np.ndarray
    status: np.ndarray

    def put(self, queries, other: "NearestPoints") -> None:
        """Replace the points of some queries."""
        for mine, new in zip(self, other, strict=True):
            mine[queries] = new


@dataclass(frozen=True)
class SurfaceSearch:
    """Known rows and points of a surface, and settings of its search.

    ``references`` are rows of known label, ``pool`` known points of the surface, ``proposals`` what
    :func:`random_proposals` returned, ``boxes`` the leaves of a single tree. ``length`` is the unit
    of steps, ``tol`` the accuracy in coordinates.
    """

    references: ReferenceRows
    pool: SurfacePool | None
    proposals: Any
    boxes: "TreeBoxes | None"
    length: float
    tol: float
    n_starts: int

    @property
    def numeric(self) -> np.ndarray:
        """Coordinates that hold numbers."""
        return self.references.numeric

    def roots(self, problem: Problem, start, end, rows, f_start, f_end) -> Roots:
        """Return the sign changes on segments."""
        options = {"tol": self.tol, "slopes": problem.has_slopes}
        return refine_roots(problem.evaluate, start, end, rows, f_start, f_end, **options)

    def outside(self, Z) -> np.ndarray:
        """Return the distance of points to the box of the known rows."""
        rows = self.references.rows
        return norms(Z - np.clip(Z, rows.min(axis=0), rows.max(axis=0)))

    def stride(self, Z, share: float) -> np.ndarray:
        """Return the longest step of a ray at points; it grows with the distance from all rows."""
        return share * (self.length + self.outside(Z))


# --- some point -----------------------------------------------------------------------------------


def some_point(problem: Problem, search: SurfaceSearch) -> NearestPoints:
    """Find some point of the surface near each query."""
    n = len(problem.own)
    if problem.model.oracle is None:
        return _some_point_by_labels(problem, search)
    owner, ends = segment_ends(problem, search, 1)
    has_end, full = np.zeros(n, dtype=bool), problem.Z.copy()
    has_end[owner], full[owner] = True, ends
    options = {"step": search.length, "tol": search.tol, "slopes": problem.has_slopes}
    roots, status = project(problem.evaluate, problem.Z, full, has_end, **options)
    found = _with_gradients(problem, roots, status)
    # Where score and label disagree, or nothing crossed, labels decide.
    failed = np.flatnonzero(status == NOT_CONVERGED)
    if failed.size:
        found.put(failed, _some_point_by_labels(problem.take(failed), search))
    return found


def _with_gradients(problem, roots: Roots, status) -> NearestPoints:
    gradients = roots.gradients
    if gradients is None or not problem.has_slopes:
        gradients = np.zeros(problem.Z.shape)
        some = np.flatnonzero(np.isin(status, (CONVERGED, ON_SURFACE)))
        if some.size:
            gradients[some] = problem.evaluate(roots.points[some], some, True)[1]
    return NearestPoints(roots.points, roots.outer, gradients, status)


def _some_point_by_labels(problem, search) -> NearestPoints:
    owner, ends = segment_ends(problem, search, 1)
    inner, outer = bisect(problem.flipped, problem.Z[owner], ends, owner, search.numeric)
    points, beyond = problem.Z.copy(), problem.Z.copy()
    points[owner], beyond[owner] = 0.5 * (inner + outer), outer
    status = np.full(len(points), NO_SURFACE)
    status[owner] = CONVERGED
    return NearestPoints(points, beyond, np.zeros(points.shape), status)


def first_order(problem: Problem) -> NearestPoints:
    """Return the foot points of the tangent at each query, F / |grad F| away."""
    values, gradients = problem.evaluate(problem.Z, np.arange(len(problem.own)), True)
    size = norms(gradients)
    with np.errstate(all="ignore"):
        step = np.where(size > 0.0, values / (size * size), 0.0)
    points = problem.Z - step[:, None] * gradients
    is_flat = ~(size > 0.0) & (values != 0.0)
    return NearestPoints(points, points, gradients, np.where(is_flat, NO_SURFACE, CONVERGED))


def surface_gradients(problem: Problem, search: SurfaceSearch, found: NearestPoints) -> np.ndarray:
    """Return gradients at the points; from labels around them where there is no score."""
    if problem.model.oracle is not None or search.boxes is not None:
        return np.nan_to_num(found.gradients)
    rows = np.flatnonzero(~np.isin(found.status, (NO_CROSSING, NO_SURFACE)))
    out = np.zeros(found.points.shape)
    if rows.size:
        offsets = search.proposals[0].reshape(-1, problem.Z.shape[1])[:_N_AROUND]
        offsets = np.where(search.numeric, offsets, 0.0)
        offsets = offsets / np.maximum(norms(offsets), 1e-300)[:, None]
        counts = problem.n_evaluations.copy()
        radius = _NORMAL_RADIUS * search.length
        out[rows] = label_normals(problem.flipped, found.points[rows], rows, radius, offsets)
        problem.n_evaluations = counts
    return out


# --- rays -----------------------------------------------------------------------------------------


def first_crossing(problem: Problem, search: SurfaceSearch, V, max_distance) -> NearestPoints:
    """Find the first crossing on the ray from each query in direction ``V``, in columns."""
    V = problem.chart.coordinates(V)
    V = V / norms(V)[:, None]
    if max_distance is None:
        rows = search.references.rows
        diagonal = float(np.linalg.norm(rows.max(axis=0) - rows.min(axis=0)))
        max_distance = 2.0 * (diagonal + search.length) + search.outside(problem.Z)
    t_max = np.broadcast_to(np.asarray(max_distance, dtype=np.float64), len(V))
    if problem.model.oracle is None:
        return _first_crossing_by_labels(problem, search, V, t_max)
    stride = partial(search.stride, share=_LONGEST_STEP)
    options = {"t_max": t_max, "tol": search.tol, "slopes": problem.has_slopes}
    roots, status = march(problem.evaluate, problem.Z, V, stride=stride, **options)
    return _with_gradients(problem, roots, status)


def _first_crossing_by_labels(problem, search, V, t_max) -> NearestPoints:
    n = len(V)
    status = np.full(n, NO_CROSSING)
    inner, outer = problem.Z.copy(), problem.Z.copy()
    t, active = np.zeros(n), np.arange(n)
    while active.size:
        step = search.stride(inner[active], _RAY_STEP)
        t[active] = np.minimum(t[active] + step, t_max[active])
        points = problem.Z[active] + t[active, None] * V[active]
        hit = problem.flipped(points, active)
        outer[active[hit]] = points[hit]
        status[active[hit]] = CONVERGED
        inner[active[~hit]] = points[~hit]
        active = active[~hit & (t[active] < t_max[active])]
    some = np.flatnonzero(status == CONVERGED)
    ends = inner[some], outer[some]
    inner[some], outer[some] = bisect(problem.flipped, *ends, some, search.numeric)
    return NearestPoints(0.5 * (inner + outer), outer, np.zeros(outer.shape), status)


# --- nearest point --------------------------------------------------------------------------------


def nearest(problem: Problem, search: SurfaceSearch) -> NearestPoints:
    """Find the nearest point of the surface for each query."""
    if search.boxes is not None and problem.chart.is_diagonal:
        return search.boxes.nearest(problem)
    if problem.model.oracle is None:
        return nearest_by_labels(problem, search)
    return nearest_by_gradient(problem, search)


def random_proposals(random_state, d: int):
    """Return random proposals for the label-only search, the same for every query.

    Columns are set back one at a time, in tenths, in quarters, in halves: trees and rules often
    need few of them.
    """
    normal = random_state.standard_normal((_N_ROUNDS, _N_NORMAL, d))
    shares = np.array([0.0, 0.1, 0.25, 0.5])[:, None]
    resets = random_state.uniform(size=(_N_ROUNDS, _N_RESETS, d)) < shares
    single = np.arange(_N_ROUNDS) % d
    resets[np.arange(_N_ROUNDS), 0, random_state.permutation(d)[single]] = True
    anywhere = random_state.standard_normal((_N_ROUNDS, _N_ANYWHERE, d))
    anywhere /= np.linalg.norm(anywhere, axis=2, keepdims=True)
    anywhere *= random_state.uniform(size=(_N_ROUNDS, _N_ANYWHERE, 1)) ** (1.0 / d)
    return normal, resets, anywhere


def segment_ends(problem: Problem, search: SurfaceSearch, k: int, *, check: bool = False):
    """Return up to ``k`` points of a wanted label near each query: (owner, points).

    With ``check`` the points take the fixed columns of the query and are cut to the limits, and
    only those that keep the label are returned.
    """
    references, count = search.references, 4 * k if check else k
    candidates = references.opposites(problem.Z, problem.own, problem.target, count)
    owner, column = np.nonzero(candidates >= 0)
    points = references.rows[candidates[owner, column]]
    if not check:
        return owner, points
    points = problem.cut(points, owner)
    good = problem.flipped(points, owner) if len(owner) else np.empty(0, dtype=bool)
    owner, points = owner[good], points[good]
    # Keep the first k of each query; owners come in order.
    rank = np.arange(len(owner)) - np.searchsorted(owner, owner)
    return owner[rank < k], points[rank < k]


def best_per_query(owner, distances, n_queries):
    """Return, for each query, the position of its least distance among candidates (-1: none)."""
    best = np.full(n_queries, -1)
    order = np.lexsort((np.arange(len(owner)), distances, owner))
    first = np.unique(owner[order], return_index=True)
    best[first[0]] = order[first[1]]
    return best


def nearest_by_labels(
    problem: Problem, search: SurfaceSearch, *, check: bool = False, extra=None
) -> NearestPoints:
    """Find near points of another label from labels alone.

    ``extra`` (owner, points) are further points that have the wanted label.
    """
    (n, d), Z, numeric = problem.Z.shape, problem.Z, search.numeric
    owner, ends = segment_ends(problem, search, N_SEGMENTS, check=check)
    _, outer = bisect(problem.flipped, Z[owner], ends, owner, numeric)
    found = [(owner, outer)]
    if search.pool is not None:
        found += _pool_ends(problem, search.pool)
    if extra is not None:
        found.append(extra)
    owner, outer = (np.concatenate(part) for part in zip(*found, strict=True))
    distances = mixed_distance(outer, Z[owner], numeric)
    points, beyond, status = Z.copy(), Z.copy(), np.full(n, NO_SURFACE)
    if len(owner):
        descents = _different_directions(Z, owner, outer, distances)
        some = owner[descents]
        limits = {"low": problem.low[some], "high": problem.high[some]}
        ends = Z[some], outer[descents], some, numeric, search.proposals
        inside, out = contract(problem.flipped, *ends, **limits)
        best = best_per_query(some, mixed_distance(out, Z[some], numeric), n)
        reached = np.flatnonzero(best >= 0)
        points[reached] = np.where(numeric, 0.5 * (inside + out), out)[best[reached]]
        beyond[reached] = out[best[reached]]
        status[reached] = CONVERGED
    return NearestPoints(points, beyond, np.zeros((n, d)), status)


def _different_directions(Z, owner, outer, distances) -> np.ndarray:
    """Return the nearest candidate of each query, and the nearest ones in other directions."""
    n = len(Z)
    chosen = []
    left = np.ones(len(owner), dtype=bool)
    offset = outer - Z[owner]
    for _ in range(_N_DIRECTIONS):
        where = np.flatnonzero(left)
        best = best_per_query(owner[where], distances[where], n)
        best = where[best[best >= 0]]
        if not best.size:
            break
        chosen.append(best)
        pick = np.full(n, -1)
        pick[owner[best]] = best
        mine = pick[owner]
        size = norms(offset) * norms(offset[mine])
        cosine = np.einsum("ij,ij->i", offset, offset[mine])
        left &= (mine >= 0) & (cosine < _OTHER_DIRECTION * size)
    return np.concatenate(chosen)


def _pool_ends(problem: Problem, pool: SurfacePool):
    """Yield (owner, points of a wanted label) from the nearest surface points."""
    for some, found, *_ in pool.nearest(problem, np.arange(len(problem.own)), 1):
        found = found[:, 0]
        sides = pool.sides[found]
        wanted = np.stack([problem.reached(sides[:, j], some) for j in (0, 1)], axis=1)
        points = np.where(wanted[:, :1], pool.inner[found], pool.outer[found])
        good = wanted.any(axis=1)
        yield some[good], points[good]


class _Descents(NamedTuple):
    """Best points of all descents so far, their distances, and where other descents stalled."""

    best: NearestPoints
    distance: np.ndarray
    stalled: np.ndarray  # surface points where descents ended without being orthogonal


def nearest_by_gradient(problem: Problem, search: SurfaceSearch) -> NearestPoints:
    """Find nearest points by quadratic programming from points of the surface."""
    (n, d), Z = problem.Z.shape, problem.Z
    F, G = problem.evaluate(Z, np.arange(n), True)
    best = NearestPoints(Z.copy(), Z.copy(), G, np.full(n, NO_SURFACE))
    is_on_surface = (F == 0.0) | (np.abs(F) <= 0.1 * search.tol * norms(G))
    best.status[is_on_surface] = ON_SURFACE
    descents = _Descents(best, np.where(is_on_surface, 0.0, np.inf), np.full((n, d), np.nan))
    owner, starts = _first_starts(problem, search, np.flatnonzero(~is_on_surface), F)
    tried = np.zeros((n, search.n_starts, d))
    for attempt in range(search.n_starts):
        if not len(owner):
            break
        _descend(problem, search, owner, starts, _rivals(problem, starts, owner), descents)
        tried[owner, attempt] = starts - Z[owner]
        if attempt + 1 < search.n_starts:
            owner, starts = _restarts(problem, search.pool, descents, tried)
    if not problem.is_binary:
        _visit_third_classes(problem, search, descents, F)
    _finish_by_labels(problem, search, descents)
    return best


def _finish_by_labels(problem, search, descents: _Descents) -> None:
    """Use labels where every descent stalled, beginning where the best of them did."""
    best, stalled = descents.best, descents.stalled
    failed = np.flatnonzero(best.status == NO_SURFACE)
    if not failed.size:
        return
    part = problem.take(failed)
    has = np.flatnonzero(np.isfinite(stalled[failed]).all(axis=1))
    # A little beyond the surface, on the side of the wanted label.
    pushed = part.Z[has] + (1.0 + 1e-4) * (stalled[failed[has]] - part.Z[has])
    good = part.flipped(pushed, has) if has.size else np.empty(0, dtype=bool)
    found = nearest_by_labels(part, search, extra=(has[good], pushed[good]))
    problem.n_evaluations[failed] += part.n_evaluations
    reached = found.status == CONVERGED
    some = failed[reached]
    best.points[some], best.outer[some] = found.points[reached], found.outer[reached]
    best.status[some] = KINK
    if some.size:
        best.gradients[some] = problem.evaluate(best.points[some], some, True)[1]


def _first_starts(problem, search, rows, F):
    """Return (owner, starts): the nearest known surface point of each query.

    A query that has none (its class was not seen in ``fit``) starts on the segment to the nearest
    row of a wanted label.
    """
    starts = np.full((len(rows), problem.Z.shape[1]), np.nan)
    for some, found, *_ in search.pool.nearest(problem, rows, 1):
        starts[some] = search.pool.points[found[:, 0]]
    missing = np.flatnonzero(np.isnan(starts).any(axis=1))
    if missing.size:
        part = problem.take(rows[missing])
        owner, ends = segment_ends(part, search, 1)
        if len(owner):
            value, _ = part.evaluate(ends, owner, False)
            inside = F[rows[missing]][owner]
            good = (value <= 0.0) & (inside > 0.0)
            owner, ends = owner[good], ends[good]
            roots = search.roots(part, part.Z[owner], ends, owner, inside[good], value[good])
            starts[missing[owner]] = roots.points
        problem.n_evaluations[rows[missing]] += part.n_evaluations
    have = ~np.isnan(starts).any(axis=1)
    return rows[have], starts[have]


def _rivals(problem, points, owner):
    """Return the class each descent is against: the runner-up where it starts (binary: none)."""
    if problem.is_binary or not len(owner):
        return None
    rivals = problem.rivals_at(points, owner)
    # Towards one class, the score compares it with the best of all others.
    return np.where(problem.target[owner] < 0, rivals, -1)


def _descend(problem, search, owner, starts, rivals, descents: _Descents) -> None:
    """Run the quadratic programme from starts; store what is nearer than what is known."""
    best, tol = descents.best, search.tol

    def evaluate(Y, chosen, gradient):
        against = None if rivals is None else rivals[chosen]
        return problem.evaluate(Y, owner[chosen], gradient, against)

    Q = problem.Z[owner]
    feet = nearest_points(evaluate, Q, starts, np.arange(len(owner)), step=search.length, tol=tol)
    found = norms(feet.points - Q)
    # At a kink the gradient jumps between two directions that both nearly point at the query.
    size = norms(feet.gradients)
    near = ~feet.converged & (np.abs(feet.values) <= 10.0 * tol * size)
    offset = feet.points - Q
    inner = np.einsum("ij,ij->i", offset, feet.gradients) / np.where(size > 0.0, size, 1.0)
    kink = near & (np.abs(inner) >= _NEARLY_ORTHOGONAL * found)
    descents.stalled[owner[near]] = feet.points[near]
    # A descent that ends farther than it began has jumped to another part of the surface.
    is_valid = (feet.converged | kink) & (found <= norms(starts - Q) * (1.0 + 1e-6) + tol)
    better = np.flatnonzero(is_valid & (found < descents.distance[owner] * (1.0 - 1e-9)))
    rows = owner[better]
    descents.distance[rows] = found[better]
    best.points[rows] = best.outer[rows] = feet.points[better]
    best.gradients[rows] = feet.gradients[better]
    best.status[rows] = np.where(kink[better], KINK, CONVERGED)


def _restarts(problem, pool, descents: _Descents, tried):
    """Return (owner, starts) in other directions that may hide a nearer point.

    A nearer point has a known surface point not far from it, so only surface points hardly farther
    than the distance found are tried.
    """
    best, distance, _ = descents
    owners, starts = [np.empty(0, dtype=np.int64)], [np.empty((0, problem.Z.shape[1]))]
    rows = np.flatnonzero(np.isin(best.status, (CONVERGED, KINK)))
    for which, found, away, spacing in pool.nearest(problem, rows, _N_NEAR):
        some = rows[which]
        points = pool.points[found]
        offset = points - problem.Z[some, None]
        towards = (best.points[some] - problem.Z[some])[:, None]
        useful = away < _RESTART_RADIUS * distance[some, None] + spacing
        for old in np.moveaxis(np.concatenate([towards, tried[some]], axis=1), 1, 0):
            cosine = np.einsum("ikj,ij->ik", offset, old)
            size = away * norms(old)[:, None]
            useful &= (cosine < _OTHER_DIRECTION * size) | (size == 0.0)
        has, first = useful.any(axis=1), useful.argmax(axis=1)
        owners.append(some[has])
        starts.append(points[has, first[has]])
    return np.concatenate(owners), np.concatenate(starts)


def _visit_third_classes(problem, search, descents: _Descents, F) -> None:
    """Descend to the border of a third class where it has the largest score at the point found."""
    best, distance, _ = descents
    for _ in range(3):
        rows = np.flatnonzero(np.isfinite(distance) & (problem.target < 0) & (F > 0.0))
        if not rows.size:
            return
        value, gradient = problem.evaluate(best.points[rows], rows, True)
        beyond = value < -10.0 * search.tol * np.maximum(norms(gradient), np.finfo(float).tiny)
        rows, value = rows[beyond], value[beyond]
        if not rows.size:
            return
        roots = search.roots(problem, problem.Z[rows], best.points[rows], rows, F[rows], value)
        distance[rows] = np.inf
        best.status[rows] = NO_SURFACE
        rivals = _rivals(problem, roots.outer, rows)
        _descend(problem, search, rows, roots.points, rivals, descents)


# --- single trees ---------------------------------------------------------------------------------


@saved(low="b d limits", high="b d limits", codes="b")
class TreeBoxes:
    """The leaves of a tree as boxes with codes.

    Parameters
    ----------
    tree : sklearn.tree._tree.Tree
        Nodes of a fitted tree.
    """

    def __init__(self, tree):
        parts = (tree.children_left, tree.children_right, tree.feature, tree.threshold)
        leaves, self.low, self.high = leaf_boxes(*parts, tree.n_features)
        self.codes = tree.value[leaves, 0].argmax(axis=1)

    def nearest(self, problem: Problem) -> NearestPoints:
        """Return the nearest point of a leaf of another label for each query."""
        chart = problem.chart
        scale = np.zeros(len(chart.free))
        scale[chart.free] = chart.forward
        Q = chart.base
        every = np.arange(len(Q))
        wanted = np.column_stack([problem.reached(code, every) for code in self.codes])
        for column in np.flatnonzero(~chart.free):
            value = Q[:, column, None]
            wanted &= (value > self.low[:, column]) & (value <= self.high[:, column])
        points, distances, choice = nearest_in_boxes(Q, wanted, self.low, self.high, scale)
        outside = _just_inside(points, Q, self.low[choice], self.high[choice])
        found = np.isfinite(distances)
        points[~found], outside[~found] = Q[~found], Q[~found]
        problem.n_evaluations += 1
        Z, status = chart.coordinates(points), np.where(found, CONVERGED, NO_SURFACE)
        return NearestPoints(Z, chart.coordinates(outside), problem.Z - Z, status)


def _just_inside(points, Q, low, high):
    """Move points from the closed box into low < x <= high, as trees compare: in single precision.

    Only columns that were changed move.
    """
    single = points.astype(np.float32)
    up = np.where(single <= low, np.nextafter(single, np.float32(np.inf)), single)
    down = np.where(single > high, np.nextafter(single, np.float32(-np.inf)), single)
    moved = np.where(points <= low, up.astype(np.float64), down.astype(np.float64))
    return np.where((points != Q) | (points <= low), moved, points)


def tree_boxes(estimator) -> TreeBoxes | None:
    """Return the boxes of a classifier that is a single tree, else None."""
    tree = final_model(estimator)
    while hasattr(tree, "tree_"):
        tree = tree.tree_
    needed = ("children_left", "children_right", "feature", "threshold", "value")
    if not all(hasattr(tree, name) for name in needed) or tree.n_outputs != 1:
        return None
    return TreeBoxes(tree) if tree.value.shape[2] == len(estimator.classes_) else None
