r"""The nearest point of a surface F = 0: sequential quadratic programming, many queries at once.

    minimise |y - q|^2 / 2  subject to  F(y) = 0.

Each step solves the quadratic model p'Bp / 2 + (y - q)'p with the constraint linearised; B
approximates the Hessian of the Lagrangian, I + lam F'', by Powell-damped BFGS updates. With B = I
it would be the foot point of the tangent plane, which contracts like curvature times distance and
fails where the curvature is large.

From labels alone near points come by bisection and contraction, with a function

    flipped(Y, rows) -> bool (m,)

that returns whether points have the wanted label; ``rows`` names the query each belongs to. All
queries advance together, so the number of calls does not grow with theirs. Columns that are not
``numeric`` hold categories: they are not interpolated, and a change of one is a distance of one.
"""

from typing import NamedTuple

import numpy as np

from vicinal._kernels.surface._roots import norms

# Beyond so many columns B is kept as I plus terms of rank one, renewed after so many pairs.
_DENSE = 50
# Greatest multiplier: its products with scores and gradients stay finite.
_MOST = 1e100
_PAIRS = 5


class Feet(NamedTuple):
    """Where the iteration ended for each start."""

    points: np.ndarray
    values: np.ndarray
    gradients: np.ndarray
    converged: np.ndarray


def _solve(A, V):
    """Solve many small systems; a singular one gets its minimum-norm solution."""
    try:
        return np.linalg.solve(A, V)
    except np.linalg.LinAlgError:
        return np.linalg.pinv(A) @ V


class _DenseCurvature:
    """B as one matrix per query."""

    def __init__(self, m: int, d: int):
        self.B = np.tile(np.eye(d), (m, 1, 1))

    def times(self, rows, S):
        return np.einsum("ijk,ik->ij", self.B[rows], S)

    def solve(self, rows, V):
        """Solve for several right-hand sides, shape (m, d, r)."""
        return _solve(self.B[rows], V)

    def update(self, rows, U, up, V, down):
        """Add ``U U' * up - V V' * down``."""
        self.B[rows] += np.einsum("i,ij,ik->ijk", up, U, U) - np.einsum("i,ij,ik->ijk", down, V, V)

    def reset(self, rows):
        self.B[rows] = np.eye(self.B.shape[1])


class _LowRankCurvature:
    """B = I + Z diag(c) Z', with at most ten columns in Z."""

    def __init__(self, m: int, d: int):
        self.Z = np.zeros((m, d, 2 * _PAIRS))
        self.c = np.zeros((m, 2 * _PAIRS))
        self.used = np.zeros(m, dtype=int)

    def times(self, rows, S):
        Z = self.Z[rows]
        inner = np.einsum("ijk,ij->ik", Z, S) * self.c[rows]
        return S + np.einsum("ijk,ik->ij", Z, inner)

    def solve(self, rows, V):
        # (I + Z C Z')^-1 V = V - Z C (I + Z'Z C)^-1 Z'V
        Z, c = self.Z[rows], self.c[rows]
        inner = np.einsum("ijk,ijl->ikl", Z, Z) * c[:, None, :] + np.eye(Z.shape[2])
        right = _solve(inner, np.einsum("ijk,ijr->ikr", Z, V))
        return V - np.einsum("ijk,ikr->ijr", Z, c[:, :, None] * right)

    def update(self, rows, U, up, V, down):
        full = self.used[rows] >= 2 * _PAIRS
        self.reset(rows[full])
        keep = ~full
        rows, at = rows[keep], self.used[rows[keep]]
        self.Z[rows, :, at], self.c[rows, at] = U[keep], up[keep]
        self.Z[rows, :, at + 1], self.c[rows, at + 1] = V[keep], -down[keep]
        self.used[rows] = at + 2

    def reset(self, rows):
        self.Z[rows] = 0.0
        self.c[rows] = 0.0
        self.used[rows] = 0


def _dot(a, b):
    return np.einsum("ij,ij->i", a, b)


def nearest_points(evaluate, Q, starts, rows, *, step, tol, max_iter=60) -> Feet:
    """Search from ``starts`` to a nearest point of the surface for each query.

    Parameters
    ----------
    evaluate : callable
        Score and gradient, see ``vicinal._kernels.surface._roots``.
    Q, starts : ndarray of shape (m, d)
        Queries, and points on or near the surface.
    rows : ndarray of shape (m,)
        Names of the queries for ``evaluate``.
    step : float
        Longest step.
    tol : float
        Ends when the score is below ``tol`` times its gradient and the part of y - q along the
        surface below ``max(tol, 1e-7 |y - q|)``.
    """
    m, d = Q.shape
    Y = starts.copy()
    F, G = evaluate(Y, rows, True)
    curvature = _DenseCurvature(m, d) if d <= _DENSE else _LowRankCurvature(m, d)
    fresh = np.ones(m, dtype=bool)
    converged = np.zeros(m, dtype=bool)
    active = np.flatnonzero(np.isfinite(F) & (norms(G) > 0.0))
    for _ in range(max_iter):
        offset, slope = Y[active] - Q[active], G[active]
        size = norms(slope)
        normal = slope / size[:, None]
        along = norms(offset - _dot(offset, normal)[:, None] * normal)
        done = (np.abs(F[active]) <= tol * size) & (along <= np.maximum(tol, 1e-7 * norms(offset)))
        converged[active[done]] = True
        active = active[~done]
        if not active.size:
            break
        move, multiplier = _quadratic_step(curvature, active, offset[~done], slope[~done], F, step)
        moved, Z, F_new, G_new = _line_search(
            evaluate, Q, Y, F, G, rows, active, move, multiplier, step
        )
        stuck = active[~moved]
        # A model of the curvature may have led astray: begin it again once, then give up.
        curvature.reset(stuck[~fresh[stuck]])
        given_up = stuck[fresh[stuck]]
        fresh[stuck] = True
        some = active[moved]
        S, change = Z[moved] - Y[some], G_new[moved] - G[some]
        _update(curvature, some, S, S + multiplier[moved][:, None] * change)
        fresh[some] = False
        Y[some], F[some], G[some] = Z[moved], F_new[moved], G_new[moved]
        active = active[~np.isin(active, given_up) & (norms(G[active]) > 0.0)]
    return Feet(Y, F, G, converged)


def _quadratic_step(curvature, active, offset, slope, F, step):
    """Return the step of the quadratic model, cut to ``step``, and the multiplier."""
    solved = curvature.solve(active, np.stack([offset, slope], axis=2))
    to_offset, to_slope = solved[:, :, 0], solved[:, :, 1]
    with np.errstate(all="ignore"):
        multiplier = (F[active] - _dot(slope, to_offset)) / _dot(slope, to_slope)
        move = -(to_offset + multiplier[:, None] * to_slope)
        plain = (F[active] - _dot(slope, offset)) / _dot(slope, slope)
    # A singular model gives way to the tangent plane's foot point.
    bad = ~np.isfinite(move).all(axis=1)
    multiplier = np.where(bad, plain, multiplier)
    # Where the surface is flat the multiplier has no bound; what is computed from it needs one.
    multiplier = np.clip(np.nan_to_num(multiplier), -_MOST, _MOST)
    move[bad] = -(offset + multiplier[:, None] * slope)[bad]
    length = norms(move)
    return move * np.minimum(1.0, step / np.where(length > 0, length, 1.0))[:, None], multiplier


def _line_search(evaluate, Q, Y, F, G, rows, active, move, multiplier, step):
    """Shorten steps until |y - q|^2 / 2 + 2 |lam| |F| falls; first try to curve the full step."""
    m = len(active)
    moved = np.zeros(m, dtype=bool)
    Z, F_new, G_new = Y[active].copy(), F[active].copy(), G[active].copy()
    offset = Y[active] - Q[active]
    weight = 2.0 * np.abs(multiplier)
    merit = 0.5 * _dot(offset, offset) + weight * np.abs(F[active])
    share = 1.0
    correction = np.zeros_like(move)
    for attempt in range(9):
        some = np.flatnonzero(~moved)
        if not some.size:
            break
        trial = Y[active[some]] + share * move[some] + correction[some]
        value, gradient = evaluate(trial, rows[active[some]], True)
        away = trial - Q[active[some]]
        new = 0.5 * _dot(away, away) + weight[some] * np.abs(value)
        # Rounding may hide the fall of a full step near the end; a short one must show it.
        allowed = merit[some] * (1.0 + (1e-15 if attempt < 2 else -1e-15))
        good = np.isfinite(value) & np.isfinite(gradient).all(axis=1) & (new <= allowed)
        hit = some[good]
        moved[hit] = True
        Z[hit], F_new[hit], G_new[hit] = trial[good], value[good], gradient[good]
        correction[:] = 0.0
        if attempt == 0:
            # Second-order correction: back to the surface along the old gradient.
            rest = some[~good]
            slope = G[active[rest]]
            back = value[~good] / _dot(slope, slope)
            back = np.where(np.isfinite(back), back, 0.0)
            correction[rest] = -back[:, None] * slope
            far = norms(correction[rest])
            correction[rest] *= np.minimum(1.0, step / np.where(far > 0, far, 1.0))[:, None]
        else:
            share *= 0.4
    return moved, Z, F_new, G_new


def _update(curvature, rows, S, U):
    """Powell-damped BFGS update, which stays positive definite."""
    BS = curvature.times(rows, S)
    curved, straight = _dot(S, U), _dot(S, BS)
    damp = curved < 0.2 * straight
    with np.errstate(all="ignore"):
        share = np.where(damp, 0.8 * straight / (straight - curved), 1.0)
    U = share[:, None] * U + (1.0 - share)[:, None] * BS
    curved = _dot(S, U)
    good = (straight > 0.0) & (curved > 0.0) & np.isfinite(U).all(axis=1)
    curvature.update(rows[good], U[good], 1.0 / curved[good], BS[good], 1.0 / straight[good])


# A call of a model costs as much as predictions of some hundreds of points.
_POINTS_PER_CALL = 512


def mixed_distance(Y, Q, numeric) -> np.ndarray:
    """Return the distance of rows: squares over numbers, ones over changed categories."""
    offset = Y - Q
    if numeric.all():
        return np.sqrt(np.einsum("...j,...j->...", offset, offset))
    part = np.where(numeric, offset, offset != 0.0)
    return np.sqrt(np.einsum("...j,...j->...", part, part))


def bisect(flipped, inner, outer, rows, numeric, *, n_halvings=20):
    """Return both ends of the last bracket between ``inner`` and ``outer`` (of the wanted label).

    Categories are those of ``outer`` throughout; where they alone bring the label, the bracket
    closes at once.
    """
    inner, outer = np.where(numeric, inner, outer), outer.copy()
    if not numeric.all() and len(inner):
        enough = flipped(inner, rows)
        outer[enough] = inner[enough]
    left = n_halvings
    while left > 0 and len(inner):
        depth = min(left, _depth(len(inner)))
        inner, outer = _halvings(flipped, inner, outer, rows, depth)
        left -= depth
    return inner, outer


def _depth(n_brackets: int) -> int:
    """Return the number of halvings per call: several where there are few points."""
    return max(1, int(np.log2(_POINTS_PER_CALL / n_brackets + 1.0)))


def _halvings(flipped, inner, outer, rows, depth: int):
    """Halve brackets ``depth`` times by one call on all midpoints that may be needed."""
    ends = np.stack([inner, outer])  # all points so far, from the inner end outwards
    for _ in range(depth):
        finer = np.empty((2 * len(ends) - 1, *inner.shape))
        finer[::2], finer[1::2] = ends, 0.5 * (ends[:-1] + ends[1:])
        ends = finer
    middles = ends[1:-1]
    hit = flipped(middles.reshape(-1, inner.shape[1]), np.tile(rows, len(middles)))
    hit = hit.reshape(len(middles), -1)
    low, high = np.zeros(len(inner), dtype=int), np.full(len(inner), len(ends) - 1)
    every = np.arange(len(inner))
    for _ in range(depth):
        middle = (low + high) // 2
        reached = hit[middle - 1, every]
        low, high = np.where(reached, low, middle), np.where(reached, middle, high)
    return ends[low, every], ends[high, every]


def contract(flipped, Q, best, rows, numeric, proposals, *, low, high, keep=0.98, n_halvings=20):
    """Move points of the wanted label towards their queries; return (inner, outer) ends.

    Each round tries a few points around the best one: normal steps, projected onto a ball about
    the query that is 2 % smaller, points with some columns set back to the query's, and a few
    points anywhere in that ball, to find separate regions of the label. A success moves the best
    point; a failure shrinks the steps by 0.6. At the end the segment to the query is bisected.

    Parameters
    ----------
    flipped : callable
        Labels, see the module.
    Q, best : ndarray of shape (m, d)
        Queries, and points of the wanted label.
    rows : ndarray of shape (m,)
        Names of the queries.
    numeric : ndarray of shape (d,)
        Columns that may be interpolated.
    proposals : tuple of ndarray
        Standard normal numbers (n_rounds, n_normal, d), columns to set back (n_rounds, n_resets,
        d) and points of the unit ball (n_rounds, n_anywhere, d); the same for every query, so that
        results do not depend on the other queries.
    low, high : ndarray of shape (m, d) or (d,)
        Bounds that proposals are cut to.
    """
    m, d = Q.shape
    best = best.copy()
    low, high = np.broadcast_to(low, (m, d)), np.broadcast_to(high, (m, d))
    distance = mixed_distance(best, Q, numeric)
    radius = np.full(m, 0.5)
    for Z, R, U in zip(*proposals, strict=True):
        active = np.flatnonzero(distance > 0.0)
        if not active.size:
            break
        q, y = Q[active, None], best[active, None]
        reach = (radius[active] * distance[active])[:, None, None] / np.sqrt(numeric.sum() or 1)
        points = y + np.where(numeric, reach * Z, 0.0)
        length = mixed_distance(points, q, numeric)
        shrink = keep * distance[active][:, None] / np.where(length > 0.0, length, 1.0)
        points = np.where(numeric, q + shrink[..., None] * (points - q), points)
        anywhere = np.where(numeric, q + (keep * distance[active])[:, None, None] * U, y)
        points = np.concatenate([points, np.where(R, q, y), anywhere], axis=1)
        points = np.clip(points, low[active, None], high[active, None])
        length = mixed_distance(points, q, numeric)
        count = points.shape[1]
        useful = length < distance[active][:, None] * (1.0 - 1e-9)
        hit = np.zeros(useful.shape, dtype=bool)
        if useful.any():
            owner = np.repeat(rows[active], count).reshape(-1, count)
            hit[useful] = flipped(points[useful], owner[useful])
        length = np.where(hit, length, np.inf)
        choice = length.argmin(axis=1)
        found = hit.any(axis=1)
        some = active[found]
        best[some] = points[found, choice[found]]
        distance[some] = length[found, choice[found]]
        radius[active[~found]] *= 0.6
    return bisect(flipped, Q, best, rows, numeric, n_halvings=n_halvings)


def label_normals(flipped, points, rows, radius, offsets) -> np.ndarray:
    """Return unit normals of a label's border, by least squares of labels on points around it.

    ``offsets`` (n_offsets, d) fill a ball of radius one; normals point away from the wanted
    label. Zero where all points around have one label.
    """
    m, d = points.shape
    around = points[:, None] + radius * offsets
    owner = np.repeat(rows, len(offsets))
    labels = np.where(flipped(around.reshape(-1, d), owner), -1.0, 1.0).reshape(m, -1)
    labels -= labels.mean(axis=1, keepdims=True)
    centred = offsets - offsets.mean(axis=0)
    normal = np.linalg.lstsq(centred, labels.T, rcond=None)[0].T
    size = np.sqrt(np.einsum("ij,ij->i", normal, normal))
    return normal / np.where(size > 0.0, size, 1.0)[:, None]
