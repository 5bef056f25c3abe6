"""Compiled linear algebra for many small systems: Gram matrices, Cholesky, triangular solves.

A library call costs 2-20 microseconds, as much as a whole system of order 16 does here.
"""

import numpy as np

from vicinal._kernels._jit import fast_jit


@fast_jit
def gram_lower(Z, p, k, G):
    """Fill the lower triangle of ``G[:p, :p]`` with ``Z[:p, :k] @ Z[:p, :k].T``.

    Four by four register blocks: each loaded value enters four products, so that the loop is bound
    by multiply-adds and not by loads.
    """
    full = p - p % 4
    for a in range(0, full, 4):
        x0, x1, x2, x3 = Z[a], Z[a + 1], Z[a + 2], Z[a + 3]
        for b in range(0, a + 1, 4):
            y0, y1, y2, y3 = Z[b], Z[b + 1], Z[b + 2], Z[b + 3]
            s00 = s01 = s02 = s03 = s10 = s11 = s12 = s13 = 0.0
            s20 = s21 = s22 = s23 = s30 = s31 = s32 = s33 = 0.0
            for i in range(k):
                u0, u1, u2, u3 = x0[i], x1[i], x2[i], x3[i]
                v0, v1, v2, v3 = y0[i], y1[i], y2[i], y3[i]
                s00 += u0 * v0
                s01 += u0 * v1
                s02 += u0 * v2
                s03 += u0 * v3
                s10 += u1 * v0
                s11 += u1 * v1
                s12 += u1 * v2
                s13 += u1 * v3
                s20 += u2 * v0
                s21 += u2 * v1
                s22 += u2 * v2
                s23 += u2 * v3
                s30 += u3 * v0
                s31 += u3 * v1
                s32 += u3 * v2
                s33 += u3 * v3
            G[a, b], G[a, b + 1], G[a, b + 2], G[a, b + 3] = s00, s01, s02, s03
            G[a + 1, b], G[a + 1, b + 1], G[a + 1, b + 2], G[a + 1, b + 3] = s10, s11, s12, s13
            G[a + 2, b], G[a + 2, b + 1], G[a + 2, b + 2], G[a + 2, b + 3] = s20, s21, s22, s23
            G[a + 3, b], G[a + 3, b + 1], G[a + 3, b + 2], G[a + 3, b + 3] = s30, s31, s32, s33
    for a in range(full, p):
        x = Z[a]
        for b in range(a + 1):
            y = Z[b]
            s = 0.0
            for i in range(k):
                s += x[i] * y[i]
            G[a, b] = s


@fast_jit
def cholesky_lower(G, p, shift, L):
    """Factor ``G + shift * I = L @ L.T`` (lower triangles); return False if it is not positive.

    ``G`` is kept, so that one Gram matrix serves several shifts.
    """
    largest = 0.0
    for i in range(p):
        largest = max(largest, G[i, i])
    floor = 1e-13 * (largest + shift)
    for i in range(p):
        for j in range(i):
            s = G[i, j]
            for t in range(j):
                s -= L[i, t] * L[j, t]
            L[i, j] = s * L[j, j]
        s = G[i, i] + shift
        for t in range(i):
            s -= L[i, t] * L[i, t]
        if not s > floor:
            return False
        # The diagonal holds reciprocals: divisions are the slowest thing in a small factor.
        L[i, i] = 1.0 / np.sqrt(s)
    return True


@fast_jit
def shifted_cholesky(G, p, share, L):
    """Factor ``G`` with as small a shift as makes it positive; return the shift.

    Shifts start at ``share`` of the largest diagonal entry. Returns -1 where none helps: ``G``
    holds something that is not a finite number.
    """
    if cholesky_lower(G, p, 0.0, L):
        return 0.0
    shift = 0.0
    for i in range(p):
        shift = max(shift, G[i, i])
    shift = share * shift + 1e-300
    for _ in range(60):
        if cholesky_lower(G, p, shift, L):
            return shift
        shift *= 10.0
    return -1.0


@fast_jit
def cholesky_solve(L, p, b):
    """Solve in place with the factor of ``cholesky_lower``."""
    for i in range(p):
        s = b[i]
        for t in range(i):
            s -= L[i, t] * b[t]
        b[i] = s * L[i, i]
    for i in range(p - 1, -1, -1):
        value = b[i] * L[i, i]
        b[i] = value
        for t in range(i):
            b[t] -= L[i, t] * value
