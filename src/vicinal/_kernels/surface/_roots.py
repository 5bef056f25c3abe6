"""Points where a score changes sign: on a segment, along a ray, anywhere near a query.

Every function works on many queries at once. The score is given as a function

    evaluate(Y, rows, gradient) -> values (m,), gradients (m, d) or None,

where ``rows`` names the query each point belongs to; it is oriented so that it is positive on the
query's own side. A sign change is bracketed as soon as one is seen, so that what comes back is
known to lie on the surface and not merely where the score is small.
"""

from enum import IntEnum
from functools import partial
from typing import NamedTuple

import numpy as np


class SurfaceStatus(IntEnum):
    """Outcome of a search for one row, as the whole number stored in ``status`` arrays.

    Examples
    --------
    >>> from vicinal._kernels.surface._roots import SurfaceStatus
    >>> SurfaceStatus(3).name
    'NO_CROSSING'
    """

    #: The point lies on the surface and satisfies the conditions of the search.
    CONVERGED = 0
    #: The row itself lies on the surface.
    ON_SURFACE = 1
    #: The point lies on the surface, but the gradient jumps there: trust the distance, which is
    #: that of the nearest point found from labels, and not the normal.
    KINK = 2
    #: The ray ends before any surface.
    NO_CROSSING = 3
    #: No row and no point with another label is known.
    NO_SURFACE = 4
    #: The iteration stopped early; the point is the last one.
    NOT_CONVERGED = 5


CONVERGED, ON_SURFACE, KINK, NO_CROSSING, NO_SURFACE, NOT_CONVERGED = map(int, SurfaceStatus)


class Roots(NamedTuple):
    """Points on the surface with the bracket around each."""

    points: np.ndarray
    gradients: np.ndarray | None
    inner: np.ndarray
    outer: np.ndarray

    def put(self, queries, other: "Roots") -> None:
        """Replace the roots of some queries."""
        for mine, new in zip(self, other, strict=True):
            if mine is not None and new is not None:
                mine[queries] = new


def norms(V: np.ndarray) -> np.ndarray:
    """Return Euclidean lengths of rows."""
    return np.sqrt(np.einsum("ij,ij->i", V, V))


def refine_roots(
    evaluate, start, end, rows, f_start, f_end, *, tol, slopes=True, max_iter=80
) -> Roots:
    """Find a sign change on each segment from ``start`` (score > 0) to ``end`` (score <= 0).

    The first trial is the secant's, kept off the ends by 2 % of the bracket. Then Newton's step
    with the exact slope where it falls inside the bracket, else the midpoint, which is also forced
    when three trials have not halved the bracket. It ends when the score is below ``tol`` times its
    gradient, or the bracket shorter than ``tol``. Without ``slopes`` the secant (with the
    Illinois rule) replaces Newton's step.
    """
    V = end - start
    length = norms(V)
    m, d = start.shape
    low, high = np.zeros(m), np.ones(m)
    f_low, f_high = np.array(f_start, dtype=float), np.array(f_end, dtype=float)
    t = _secant(low, high, f_low, f_high, 0.02)
    points = start.copy()
    gradients = np.zeros((m, d)) if slopes else None
    mark, wait = np.ones(m), np.zeros(m, dtype=int)
    active = np.arange(m)
    for _ in range(max_iter):
        if not active.size:
            break
        a = active
        Y = start[a] + t[a, None] * V[a]
        F, G = evaluate(Y, rows[a], slopes)
        points[a] = Y
        inside = F > 0.0
        if not slopes:
            # Illinois: an end kept twice counts half, so that the secant moves it at last.
            f_high[a] = np.where(inside & (wait[a] != 0), 0.5 * f_high[a], f_high[a])
            f_low[a] = np.where(~inside & (wait[a] != 0), 0.5 * f_low[a], f_low[a])
        low[a], f_low[a] = np.where(inside, t[a], low[a]), np.where(inside, F, f_low[a])
        high[a], f_high[a] = np.where(inside, high[a], t[a]), np.where(inside, f_high[a], F)
        width = high[a] - low[a]
        done = (width * length[a] <= tol) | (F == 0.0)
        halved = width <= 0.5 * mark[a]
        wait[a] = np.where(halved, 0, wait[a] + 1)
        mark[a] = np.where(halved, width, mark[a])
        if gradients is not None:
            gradients[a] = G
            size = norms(G)
            done |= np.abs(F) <= 0.1 * tol * size
            slope = np.einsum("ij,ij->i", G, V[a])
            with np.errstate(all="ignore"):
                step = t[a] - F / slope
            good = np.isfinite(step) & (step > low[a]) & (step < high[a])
        else:
            step = _secant(low[a], high[a], f_low[a], f_high[a], 0.0)
            good = (step > low[a]) & (step < high[a])
        good &= wait[a] < 3
        wait[a] = np.where(wait[a] >= 3, 0, wait[a])
        t[a] = np.where(good, step, low[a] + 0.5 * width)
        active = a[~done]
    inner, outer = start + low[:, None] * V, start + high[:, None] * V
    return Roots(points, gradients, inner, outer)


def _secant(low, high, f_low, f_high, margin):
    """Return where the chord crosses zero, or the midpoint where that is undefined."""
    with np.errstate(all="ignore"):
        share = f_low / (f_low - f_high)
    share = np.where(np.isfinite(share), share, 0.5)
    return low + (high - low) * np.clip(share, margin, 1.0 - margin)


def _begin(evaluate, Q, tol, status: int) -> tuple:
    """Return scores, gradients, roots and status of queries, some of them on the surface."""
    F, G = evaluate(Q, np.arange(len(Q)), True)
    is_on_surface = (F == 0.0) | (np.abs(F) <= 0.1 * tol * norms(G))
    roots = Roots(Q.copy(), G.copy(), Q.copy(), Q.copy())
    return F, G, roots, np.where(is_on_surface, ON_SURFACE, status)


def project(evaluate, Q, ends, has_end, *, step, tol, slopes=True, max_iter=8):
    """Find some point of the surface near each query (Algorithm 1, made safe).

    Newton steps of at most ``step`` along the gradient; the first one that changes the sign is
    refined. Where the gradient vanishes, or the score grows after the third step, the segment to
    ``ends`` (a point of the other side, where ``has_end``) is searched instead.

    Returns
    -------
    roots : Roots
        Points with their brackets.
    status : ndarray of int
        CONVERGED, ON_SURFACE, NO_SURFACE (no step crossed and there is no end) or NOT_CONVERGED.
    """
    n, Y = len(Q), Q.copy()
    F, G, roots, status = _begin(evaluate, Q, tol, NOT_CONVERGED)
    refined = partial(refine_roots, evaluate, tol=tol, slopes=slopes)
    first = F.copy()
    fallen = np.zeros(n, dtype=bool)
    active = np.flatnonzero(status == NOT_CONVERGED)
    for iteration in range(max_iter):
        size = norms(G[active])
        lost = ~(size > 0.0) | ~np.isfinite(F[active])
        fallen[active[lost]] = True
        active, size = active[~lost], size[~lost]
        if not active.size:
            break
        length = np.minimum(F[active] / size, step)
        trial = Y[active] - (length / size)[:, None] * G[active]
        value, gradient = evaluate(trial, active, True)
        crossed = value <= 0.0
        some = active[crossed]
        roots.put(some, refined(Y[some], trial[crossed], some, F[some], value[crossed]))
        status[some] = CONVERGED
        near = ~crossed & (value <= 0.1 * tol * norms(gradient))
        some = active[near]
        roots.put(some, Roots(trial[near], gradient[near], trial[near], trial[near]))
        status[some] = CONVERGED
        grew = ~crossed & ~near & (iteration >= 3) & (value >= F[active])
        fallen[active[grew]] = True
        Y[active], F[active], G[active] = trial, value, gradient
        active = active[~(crossed | near | grew)]
    fallen[active] = True
    some = np.flatnonzero(fallen & has_end)
    status[fallen & ~has_end] = NO_SURFACE
    if some.size:
        value, _ = evaluate(ends[some], some, False)
        good = value <= 0.0
        some = some[good]
        roots.put(some, refined(Q[some], ends[some], some, first[some], value[good]))
        status[some] = CONVERGED
    return roots, status


def march(evaluate, Q, V, *, stride, t_max, tol, slopes=True, max_iter=1000):
    """Find the first crossing on each ray q + t v, |v| = 1, t <= t_max (Algorithm 2, made safe).

    Steps are 1.05 times Newton's prediction, at least a fiftieth and at most the whole of
    ``stride(points)``: a region thinner than that may be jumped over.
    """
    F, G, roots, status = _begin(evaluate, Q, tol, NO_CROSSING)
    refined = partial(refine_roots, evaluate, tol=tol, slopes=slopes)
    t = np.zeros(len(Q))
    active = np.flatnonzero(status == NO_CROSSING)
    for _ in range(max_iter):
        if not active.size:
            break
        slope = -np.einsum("ij,ij->i", G[active], V[active])
        with np.errstate(all="ignore"):
            ahead = np.where(slope > 0.0, 1.05 * F[active] / slope, np.inf)
        longest = stride(Q[active] + t[active, None] * V[active])
        ahead = np.clip(np.where(np.isfinite(ahead), ahead, np.inf), longest / 50.0, longest)
        to = np.minimum(t[active] + ahead, t_max[active])
        trial = Q[active] + to[:, None] * V[active]
        value, gradient = evaluate(trial, active, True)
        crossed = value <= 0.0
        some = active[crossed]
        start = Q[some] + t[some, None] * V[some]
        roots.put(some, refined(start, trial[crossed], some, F[some], value[crossed]))
        status[some] = CONVERGED
        t[active], F[active], G[active] = to, value, gradient
        active = active[~crossed & (to < t_max[active])]
    status[active] = NOT_CONVERGED
    return roots, status
