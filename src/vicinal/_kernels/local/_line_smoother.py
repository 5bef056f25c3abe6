"""Tricube local polynomials in one dimension: windows of sorted points instead of a search.

The neighbours of a query are a window of the sorted points, so a fit is one pass over consecutive
memory. With z_i = (x_i - q) / h, w_i = f_i K(|z_i|) and moments S_j = sum_i w_i z_i^j the
equivalent kernel is l_i = w_i (c_0 + c_1 z_i + c_2 z_i^2), where c is the first column of the
inverse of the moment matrix (S_{a+b}); moments of z within [-1, 1] are well scaled.
"""

from typing import Any, NamedTuple

import numpy as np

from vicinal._kernels._jit import fast_jit

# A moment matrix is left to QR when a pivot falls below this share of its diagonal entry.
_PIVOT = 1e-8


@fast_jit
def _window(x, q, k):
    """Return the first of the k sorted points nearest to q."""
    low, high = 0, x.shape[0] - k
    while low < high:
        middle = (low + high) // 2
        if q - x[middle] > x[middle + k] - q:
            low = middle + 1
        else:
            high = middle
    return low


@fast_jit
def _add_moments(x, y, f, q, inverse, degree, S, T):
    """Add moments of tricube weights and of weighted targets over points within the bandwidth.

    Free of branches, so that it runs in vector registers: some 15 instructions a point.
    """
    s0 = s1 = s2 = s3 = s4 = t0 = t1 = t2 = 0.0
    if degree == 2:
        for i in range(x.shape[0]):
            z = (x[i] - q) * inverse
            u = abs(z)
            t = 1.0 - u * u * u
            w = t * t * t * f[i]
            wy = w * y[i]
            wz = w * z
            wzz = wz * z
            s0 += w
            s1 += wz
            s2 += wzz
            s3 += wzz * z
            s4 += wzz * z * z
            t0 += wy
            t1 += wy * z
            t2 += wy * z * z
    else:
        for i in range(x.shape[0]):
            z = (x[i] - q) * inverse
            u = abs(z)
            t = 1.0 - u * u * u
            w = t * t * t * f[i]
            wz = w * z
            s0 += w
            s1 += wz
            s2 += wz * z
            t0 += w * y[i]
            t1 += wz * y[i]
    S[0] += s0
    S[1] += s1
    S[2] += s2
    S[3] += s3
    S[4] += s4
    T[0] += t0
    T[1] += t1
    T[2] += t2


@fast_jit
def _lift_centre(x, y, f, q, inverse, S, T):
    """Raise the weights of points so close that LOESS gives them weight one."""
    for i in range(x.shape[0]):
        z = (x[i] - q) * inverse
        u = abs(z)
        t = 1.0 - u * u * u
        w = (1.0 - t * t * t) * f[i]
        for j in range(5):
            S[j] += w * z**j
        for j in range(3):
            T[j] += w * y[i] * z**j


@fast_jit
def _invert(S, degree, M):
    """Write the inverse of the moment matrix; return False where it is nearly singular."""
    if not S[0] > 0.0:
        return False
    M[:] = 0.0
    if degree == 0:
        M[0, 0] = 1.0 / S[0]
        return True
    v = S[2] - S[1] * S[1] / S[0]
    if not v > _PIVOT * S[2]:
        return False
    if degree == 1:
        M[1, 1] = 1.0 / v
        M[0, 1] = M[1, 0] = -S[1] / (S[0] * v)
        M[0, 0] = S[2] / (S[0] * v)
        return True
    a, b, c, d, e = S[0], S[1], S[2], S[3], S[4]
    c00 = c * e - d * d
    c01 = c * d - b * e
    c02 = b * d - c * c
    determinant = a * c00 + b * c01 + c * c02
    if not determinant > _PIVOT * a * v * e:
        return False
    M[0, 0] = c00 / determinant
    M[0, 1] = M[1, 0] = c01 / determinant
    M[0, 2] = M[2, 0] = c02 / determinant
    M[1, 1] = (a * e - c * c) / determinant
    M[1, 2] = M[2, 1] = (b * c - a * d) / determinant
    M[2, 2] = (a * c - b * b) / determinant
    return True


@fast_jit
def _squared_norm(x, f, q, inverse, lift, c0, c1, c2):
    """Return the sum of squares of the equivalent kernel; weights are one if ``lift``."""
    total = 0.0
    for i in range(x.shape[0]):
        z = (x[i] - q) * inverse
        u = abs(z)
        t = 1.0 - u * u * u
        w = 1.0 if lift else t * t * t
        value = w * f[i] * (c0 + z * (c1 + z * c2))
        total += value * value
    return total


@fast_jit
def _edges(x, q, start, stop, radius):
    """Return the part of a window within ``radius`` of q."""
    return (
        start + np.searchsorted(x[start:stop], q - radius, side="left"),
        start + np.searchsorted(x[start:stop], q + radius, side="right"),
    )


class LinePoints(NamedTuple):
    """Sorted points (n,), their targets (n_outputs, n), and factors on their weights (n,)."""

    x: Any
    Y: Any
    f: Any


class LineWindow(NamedTuple):
    """How a window is placed and weighted.

    ``k`` neighbours; the (k+1)-th gives the bandwidth if ``beyond``, else the k-th; ``stretch``
    multiplies it; weights follow LOESS's guards at 0.001 and 0.999 if ``guarded``; polynomials of
    ``degree`` 0, 1 or 2.
    """

    k: int
    beyond: bool
    stretch: float
    guarded: bool
    degree: int


class LineFits(NamedTuple):
    """What is written.

    Predictions and derivatives (n_queries, n_outputs), the squared norms |l(q)|^2 of the equivalent
    kernels (n_queries,), and ``solved``, which turns False where the moments do not determine the
    fit (or the bandwidth is 0).
    """

    values: Any
    slopes: Any
    norms: Any
    solved: Any


@fast_jit
def smooth_line(points, Q, window, want_norms, out):
    """Evaluate local polynomials of sorted points at the queries (n_queries,)."""
    x, Y, f = points
    k, beyond, stretch, guarded, degree = window
    values, slopes, norms, solved = out
    n = x.shape[0]
    S = np.empty(5)
    T = np.empty(3)
    M = np.empty((3, 3))
    for t in range(Q.shape[0]):
        q = Q[t]
        size = min(n, k + 1) if beyond else k
        start = _window(x, q, size)
        stop = start + size
        h = max(q - x[start], x[stop - 1] - q) * stretch
        if not h > 0.0:
            solved[t] = False
            continue
        # Points at the bandwidth carry no weight, so ties with the edge may stay outside.
        inverse = 1.0 / h
        near = far = start
        if guarded:
            start, stop = _edges(x, q, start, stop, 0.999 * h)
            near, far = _edges(x, q, start, stop, 0.001 * h)
        first, last = start, stop
        for c in range(Y.shape[0]):
            S[:] = 0.0
            T[:] = 0.0
            y = Y[c]
            _add_moments(x[first:last], y[first:last], f[first:last], q, inverse, degree, S, T)
            if guarded:
                _lift_centre(x[near:far], y[near:far], f[near:far], q, inverse, S, T)
            if c == 0 and not _invert(S, degree, M):
                solved[t] = False
                break
            values[t, c] = M[0, 0] * T[0] + M[0, 1] * T[1] + M[0, 2] * T[2]
            slopes[t, c] = (M[1, 0] * T[0] + M[1, 1] * T[1] + M[1, 2] * T[2]) * inverse
        if want_norms and solved[t]:
            c0, c1, c2 = M[0, 0], M[0, 1], M[0, 2]
            norms[t] = (
                _squared_norm(x[first:near], f[first:near], q, inverse, False, c0, c1, c2)
                + _squared_norm(x[near:far], f[near:far], q, inverse, True, c0, c1, c2)
                + _squared_norm(x[far:last], f[far:last], q, inverse, False, c0, c1, c2)
            )
