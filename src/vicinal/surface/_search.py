"""The nearest point of a surface, from gradients or from labels."""

from typing import NamedTuple

import numpy as np

from vicinal._kernels.surface._labels import bisect, contract, mixed_distance
from vicinal._kernels.surface._nearest_point import nearest_points
from vicinal._kernels.surface._roots import (
    CONVERGED,
    KINK,
    NO_SURFACE,
    ON_SURFACE,
    norms,
    refine_roots,
)
from vicinal.surface._problem import Problem
from vicinal.surface._references import ReferenceRows, SurfacePool

# Label-only search: segments tried, rounds, and proposals in each.
N_SEGMENTS = 8
_N_ROUNDS = 20
_N_NORMAL, _N_RESETS, _N_ANYWHERE = 8, 4, 6
_N_DIRECTIONS = 3
# Candidates looked at for a restart in another direction.
_N_NEAR = 64
_OTHER_DIRECTION = 0.9
_WORTH_A_WALK = 1.25
# Cosine between offset and gradient above which a stalled walk stands at the nearest point.
_NEARLY_ORTHOGONAL = 0.9995


class NearestPoints(NamedTuple):
    """Nearest points in coordinates: the point, the end beyond it, gradients, status."""

    points: np.ndarray
    outer: np.ndarray
    gradients: np.ndarray
    status: np.ndarray


def draw_proposals(random_state, d: int):
    """Draw the proposals of the label-only search, the same for every query.

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


def segment_ends(
    problem: Problem, references: ReferenceRows, k: int, *, check: bool, low=-np.inf, high=np.inf
):
    """Return up to ``k`` points of a label asked for near each query: (owner, points).

    With ``check`` the points take the fixed columns of the query and are cut to the limits, and
    only those that keep the label are returned.
    """
    candidates = references.opposites(problem.Z, problem.own, problem.target, 4 * k if check else k)
    owner, column = np.nonzero(candidates >= 0)
    points = references.rows[candidates[owner, column]]
    if not check:
        return owner, points
    limits = [np.broadcast_to(limit, problem.Z.shape)[owner] for limit in (low, high)]
    points = np.clip(points, *limits)
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
    problem: Problem,
    references: ReferenceRows,
    pool: SurfacePool | None,
    proposals,
    *,
    check=False,
    low=-np.inf,
    high=np.inf,
    extra=None,
) -> NearestPoints:
    """Find near points of another label from labels alone.

    ``extra`` (owner, points) are further points that have the label asked for.
    """
    n, d = problem.Z.shape
    Z, numeric = problem.Z, references.numeric
    owner, ends = segment_ends(problem, references, N_SEGMENTS, check=check, low=low, high=high)
    _, outer = bisect(problem.flipped, Z[owner], ends, owner, numeric)
    owners, outers = [owner], [outer]
    if pool is not None:
        for add in _pool_ends(problem, pool):
            owners.append(add[0])
            outers.append(add[1])
    if extra is not None:
        owners.append(extra[0])
        outers.append(extra[1])
    owner, outer = np.concatenate(owners), np.concatenate(outers)
    distances = mixed_distance(outer, Z[owner], numeric)
    points, beyond, status = Z.copy(), Z.copy(), np.full(n, NO_SURFACE)
    if len(owner):
        walks = _different_directions(Z, owner, outer, distances)
        some = owner[walks]
        inside, out = contract(
            problem.flipped, Z[some], outer[walks], some, numeric, proposals,
            low=np.broadcast_to(low, (n, d))[some], high=np.broadcast_to(high, (n, d))[some],
        )  # fmt: skip
        best = best_per_query(some, mixed_distance(out, Z[some], numeric), n)
        found = np.flatnonzero(best >= 0)
        points[found] = np.where(numeric, 0.5 * (inside + out), out)[best[found]]
        beyond[found] = out[best[found]]
        status[found] = CONVERGED
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
    """Yield (owner, points of the label asked for) from the nearest surface points."""
    key = np.where(problem.target < 0, problem.own, problem.target)
    for code in np.unique(key):
        some = np.flatnonzero(key == code)
        found, _ = pool.nearest(problem.Z[some], code, 1)
        if not found.shape[1]:
            continue
        found = found[:, 0]
        sides = pool.sides[found]
        wanted = np.stack([problem.reached(sides[:, j], some) for j in (0, 1)], axis=1)
        points = np.where(wanted[:, :1], pool.inner[found], pool.outer[found])
        good = wanted.any(axis=1)
        yield some[good], points[good]


def nearest_by_gradient(
    problem: Problem,
    references: ReferenceRows,
    pool: SurfacePool,
    proposals,
    *,
    step: float,
    tol: float,
    n_starts: int,
    slopes: bool,
) -> NearestPoints:
    """Find nearest points by quadratic programming from points of the surface."""
    n, d = problem.Z.shape
    Z, rows = problem.Z, np.arange(n)
    F, G = problem.evaluate(Z, rows, True)
    size = norms(G)
    best = NearestPoints(Z.copy(), Z.copy(), G, np.full(n, NO_SURFACE))
    best.status[(F == 0.0) | (np.abs(F) <= 0.1 * tol * size)] = ON_SURFACE
    distance = np.where(best.status == ON_SURFACE, 0.0, np.inf)
    open_rows = np.flatnonzero(best.status != ON_SURFACE)
    stalled = np.full((n, d), np.nan)
    walk = {"step": step, "tol": tol, "stalled": stalled}
    owner, starts, rivals = _first_starts(problem, references, pool, open_rows, F, tol, slopes)
    tried = np.zeros((n, n_starts, d))
    for attempt in range(n_starts):
        if not len(owner):
            break
        _walk(problem, owner, starts, rivals, best, distance, **walk)
        tried[owner, attempt] = starts - Z[owner]
        if attempt + 1 < n_starts:
            owner, starts, rivals = _restarts(problem, pool, best, distance, tried)
    if not problem.is_binary:
        _visit_third_classes(problem, best, distance, F, **walk, slopes=slopes)
    _finish_by_labels(problem, references, pool, proposals, best, stalled)
    return best


def _finish_by_labels(problem, references, pool, proposals, best, stalled) -> None:
    """Answer from labels where every walk stalled, beginning where the best of them did."""
    failed = np.flatnonzero(best.status == NO_SURFACE)
    if not failed.size:
        return
    part = problem.take(failed)
    has = np.flatnonzero(np.isfinite(stalled[failed]).all(axis=1))
    # A little beyond the surface, on the side of the label asked for.
    pushed = part.Z[has] + (1.0 + 1e-4) * (stalled[failed[has]] - part.Z[has])
    good = part.flipped(pushed, has) if has.size else np.empty(0, dtype=bool)
    extra = (has[good], pushed[good])
    found = nearest_by_labels(part, references, pool, proposals, extra=extra)
    problem.n_evaluations[failed] += part.n_evaluations
    reached = found.status == CONVERGED
    some = failed[reached]
    best.points[some], best.outer[some] = found.points[reached], found.outer[reached]
    best.status[some] = KINK
    if some.size:
        best.gradients[some] = problem.evaluate(best.points[some], some, True)[1]


def _first_starts(problem, references, pool, rows, F, tol, slopes):
    """Return (owner, starts, rivals): the nearest known surface point of each query.

    A query that has none (its class was not seen in ``fit``) starts on the segment to the nearest
    row of a label asked for.
    """
    key = np.where(problem.target < 0, problem.own, problem.target)
    starts = np.full((len(rows), problem.Z.shape[1]), np.nan)
    for code in np.unique(key[rows]) if len(pool) else ():
        some = np.flatnonzero(key[rows] == code)
        found, _ = pool.nearest(problem.Z[rows[some]], code, 1)
        if found.shape[1]:
            starts[some] = pool.points[found[:, 0]]
    missing = np.flatnonzero(np.isnan(starts).any(axis=1))
    if missing.size:
        part = problem.take(rows[missing])
        owner, ends = segment_ends(part, references, 1, check=False)
        if len(owner):
            value, _ = part.evaluate(ends, owner, False)
            inside = F[rows[missing]][owner]
            good = (value <= 0.0) & (inside > 0.0)
            owner, ends = owner[good], ends[good]
            roots = refine_roots(
                part.evaluate, part.Z[owner], ends, owner, inside[good], value[good], tol=tol,
                slopes=slopes,
            )  # fmt: skip
            starts[missing[owner]] = roots.points
        problem.n_evaluations[rows[missing]] += part.n_evaluations
    have = ~np.isnan(starts).any(axis=1)
    owner, starts = rows[have], starts[have]
    return owner, starts, _rivals(problem, starts, owner)


def _rivals(problem, points, owner):
    """Return the class each walk is against: the runner-up where it starts (binary: none)."""
    if problem.is_binary or not len(owner):
        return None
    rivals = problem.rivals_at(points, owner)
    # Towards one class, the score compares it with the best of all others.
    return np.where(problem.target[owner] < 0, rivals, -1)


def _walk(problem, owner, starts, rivals, best, distance, *, step, tol, stalled):
    """Run the quadratic programme from starts; keep what is nearer than what is known.

    ``stalled`` keeps points of the surface where walks ended without being orthogonal.
    """

    def evaluate(Y, walks, gradient):
        if rivals is None:
            return problem.evaluate(Y, owner[walks], gradient)
        paired = rivals[walks] >= 0
        if paired.all():
            return problem.evaluate(Y, owner[walks], gradient, rivals[walks])
        if not paired.any():
            return problem.evaluate(Y, owner[walks], gradient)
        value, slope = problem.evaluate(Y, owner[walks], gradient)
        part = problem.evaluate(Y[paired], owner[walks][paired], gradient, rivals[walks][paired])
        value[paired] = part[0]
        if slope is not None:
            slope[paired] = part[1]
        return value, slope

    Q = problem.Z[owner]
    feet = nearest_points(evaluate, Q, starts, np.arange(len(owner)), step=step, tol=tol)
    found = norms(feet.points - Q)
    # At a kink the gradient jumps between two directions that both nearly point at the query.
    size = norms(feet.gradients)
    near = ~feet.converged & (np.abs(feet.values) <= 10.0 * tol * size)
    offset = feet.points - Q
    inner = np.einsum("ij,ij->i", offset, feet.gradients) / np.where(size > 0.0, size, 1.0)
    kink = near & (np.abs(inner) >= _NEARLY_ORTHOGONAL * found)
    stalled[owner[near]] = feet.points[near]
    # A walk that ends farther than it began has left its valley.
    honest = (feet.converged | kink) & (found <= norms(starts - Q) * (1.0 + 1e-6) + tol)
    for w in np.flatnonzero(honest):
        row = owner[w]
        if found[w] < distance[row] * (1.0 - 1e-9):
            distance[row] = found[w]
            best.points[row] = best.outer[row] = feet.points[w]
            best.gradients[row] = feet.gradients[w]
            best.status[row] = KINK if kink[w] else CONVERGED


def _restarts(problem, pool, best, distance, tried):
    """Return starts in other directions that may hide a nearer point.

    A nearer point has a known surface point not far from it, so only surface points hardly farther
    than the distance found are worth a walk.
    """
    owners, starts = [], []
    rows = np.flatnonzero(np.isin(best.status, (CONVERGED, KINK)))
    key = np.where(problem.target < 0, problem.own, problem.target)
    for code in np.unique(key[rows]) if len(pool) else ():
        some = rows[key[rows] == code]
        found, away = pool.nearest(problem.Z[some], code, _N_NEAR)
        if not found.shape[1]:
            continue
        points = pool.points[found]
        offset = points - problem.Z[some, None]
        towards = (best.points[some] - problem.Z[some])[:, None]
        limit = _WORTH_A_WALK * distance[some, None] + pool.spacing(code)
        useful = away < limit
        for old in np.moveaxis(np.concatenate([towards, tried[some]], axis=1), 1, 0):
            cosine = np.einsum("ikj,ij->ik", offset, old)
            size = away * norms(old)[:, None]
            useful &= (cosine < _OTHER_DIRECTION * size) | (size == 0.0)
        has = useful.any(axis=1)
        first = useful.argmax(axis=1)
        owners.append(some[has])
        starts.append(points[has, first[has]])
    if not owners or not sum(map(len, owners)):
        return np.empty(0, dtype=np.int64), np.empty((0, problem.Z.shape[1])), None
    owner, starts = np.concatenate(owners), np.concatenate(starts)
    return owner, starts, _rivals(problem, starts, owner)


def _visit_third_classes(problem, best, distance, F, *, step, tol, stalled, slopes):
    """Where a third class rules at the point found, its border is nearer: walk to that one."""
    for _ in range(3):
        rows = np.flatnonzero(np.isfinite(distance) & (problem.target < 0) & (F > 0.0))
        if not rows.size:
            return
        value, gradient = problem.evaluate(best.points[rows], rows, True)
        beyond = value < -10.0 * tol * np.maximum(norms(gradient), np.finfo(float).tiny)
        rows, value = rows[beyond], value[beyond]
        if not rows.size:
            return
        roots = refine_roots(
            problem.evaluate, problem.Z[rows], best.points[rows], rows, F[rows], value, tol=tol,
            slopes=slopes,
        )  # fmt: skip
        distance[rows] = np.inf
        best.status[rows] = NO_SURFACE
        rivals = _rivals(problem, roots.outer, rows)
        walk = {"step": step, "tol": tol, "stalled": stalled}
        _walk(problem, rows, roots.points, rivals, best, distance, **walk)
