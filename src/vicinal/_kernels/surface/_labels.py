"""Near points of another label, from labels alone: bisection and contraction.

    flipped(Y, rows) -> bool (m,)

tells whether points have the label asked for; ``rows`` names the query each belongs to. All queries
advance together, so the number of calls does not grow with theirs. Columns that are not ``numeric``
hold categories: they are not interpolated, and a change of one counts as a distance of one.
"""

import numpy as np

# A call of a model costs as much as the answers to some hundreds of points.
_POINTS_PER_CALL = 512


def mixed_distance(Y, Q, numeric) -> np.ndarray:
    """Return the distance of rows: squares over numbers, ones over changed categories."""
    offset = Y - Q
    if numeric.all():
        return np.sqrt(np.einsum("...j,...j->...", offset, offset))
    part = np.where(numeric, offset, offset != 0.0)
    return np.sqrt(np.einsum("...j,...j->...", part, part))


def bisect(flipped, inner, outer, rows, numeric, *, n_halvings=20):
    """Return both ends of the last bracket between ``inner`` and ``outer`` (of the label asked).

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
    """Return how many halvings one call answers: several where it is asked of few points."""
    return max(1, int(np.log2(_POINTS_PER_CALL / n_brackets + 1.0)))


def _halvings(flipped, inner, outer, rows, depth: int):
    """Halve brackets ``depth`` times by one call that is asked of every middle that may come."""
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
    """Pull points of the label asked for towards their queries; return (inner, outer) ends.

    Each round tries a few points around the best one: normal steps, drawn onto a ball 2 % smaller
    about the query, and points with some columns set back to the query's; and a few anywhere in
    that ball, where an island of the label may hide. A success moves the best point; a failure
    shrinks the steps by 0.6. At the end the segment to the query is bisected.

    Parameters
    ----------
    flipped : callable
        Labels, see the module.
    Q, best : ndarray of shape (m, d)
        Queries, and points of the label asked for.
    rows : ndarray of shape (m,)
        Names of the queries.
    numeric : ndarray of shape (d,)
        Columns that may be interpolated.
    proposals : tuple of ndarray
        Standard normal numbers (n_rounds, n_normal, d), columns to set back (n_rounds, n_resets,
        d) and points of the unit ball (n_rounds, n_anywhere, d); the same for every query, so that
        answers do not depend on company.
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

    ``offsets`` (n_offsets, d) fill a ball of radius one; normals point away from the label asked
    for. Zero where all points around have one label.
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
