"""Weighted local ridge regression: equivalent kernels and slopes, one small system per query.

With s = sum_i w_i, m = sum_i w_i (x_i - q) / s and V = sum_i w_i (x_i - q - m)(x_i - q - m)',

    (V + lam I) u = m,      l_i(q) = w_i / s - w_i (x_i - q - m)'u,      g(q) = sum_i l_i(q) y_i,

the ridge fit around q with a free intercept. One system serves every output column: the weights
l(q) do not depend on y. With p > k columns the k x k form (Z Z' + lam I) v = Z m, Z = W^(1/2)
(X - q - m), gives w_i^(1/2) v_i in place of w_i (x_i - q - m)'u.
"""

from typing import Any, NamedTuple

import numpy as np

from vicinal._kernels._jit import fast_jit, inner_jit
from vicinal._kernels.local._small_dense import cholesky_lower, cholesky_solve, gram_lower
from vicinal._kernels.local._workspace import (
    gather,
    gathered_width,
    longest_neighborhood,
    moments,
    total_weight,
)


class _RidgeArrays(NamedTuple):
    R: Any  # rows, centred and times root weights
    Z: Any  # the same by columns
    m: Any
    G: Any
    L: Any
    v: Any


@fast_jit
def _allocate(queries):
    k, p = longest_neighborhood(queries.indptr), gathered_width(queries)
    order = min(p, k)
    return _RidgeArrays(
        np.empty((k, p)),
        np.empty((p, k) if p <= k else (1, 1)),
        np.empty(p),
        np.empty((order, order)),
        np.empty((order, order)),
        np.empty(max(p, k)),
    )


@inner_jit
def _system(queries, t, rows, w, work):
    """Gather, centre and scale one neighbourhood, form its Gram matrix; return (unit, trace of V).

    Rows, V and what follows are in that unit.
    """
    R, Z, m = work.R, work.Z, work.m
    k, p = rows.shape[0], R.shape[1]
    unit = gather(queries, t, rows, w, R)
    trace = moments(R, w, p, m)
    if trace == 0.0:
        return unit, trace
    is_wide = p > k
    for i in range(k):
        root = np.sqrt(w[i])
        for a in range(p):
            value = (R[i, a] - m[a]) * root
            R[i, a] = value
            if not is_wide:
                Z[a, i] = value
    if is_wide:
        gram_lower(R, k, p, work.G)
    else:
        gram_lower(Z, p, k, work.G)
    return unit, trace


@inner_jit
def _subtract_tilt(w, work, out):
    """Subtract w_i (x_i - q - m)'u from the local constant fit in ``out``."""
    R, m, v = work.R, work.m, work.v
    k, p = w.shape[0], R.shape[1]
    if p > k:
        for i in range(k):
            value = 0.0
            for a in range(p):
                value += R[i, a] * m[a]
            v[i] = value
        cholesky_solve(work.L, k, v)
        for i in range(k):
            out[i] -= np.sqrt(w[i]) * v[i]
        return
    for a in range(p):
        v[a] = m[a]
    cholesky_solve(work.L, p, v)
    for i in range(k):
        value = 0.0
        for a in range(p):
            value += R[i, a] * v[a]
        out[i] -= np.sqrt(w[i]) * value


@fast_jit
def ridge_equivalent_kernels(queries, alphas, relative, skip, out, solved):
    """Write l(q) of every query and penalty into ``out`` of shape (n_alphas, nnz).

    The weights given must be positive. ``skip[t]`` asks for the local constant fit only.
    ``solved[t]`` turns False where the system is singular to working precision; ``out`` then holds
    the local constant fit.
    """
    indptr, indices, weights = queries.indptr, queries.indices, queries.weights
    work = _allocate(queries)
    p = work.R.shape[1]
    for t in range(indptr.shape[0] - 1):
        start, stop = indptr[t], indptr[t + 1]
        rows, w = indices[start:stop], weights[start:stop]
        k = stop - start
        total = total_weight(w)
        for c in range(alphas.shape[0]):
            for i in range(k):
                out[c, start + i] = w[i] / total
        if k == 0 or queries.degree == 0 or skip[t]:
            continue
        unit, trace = _system(queries, t, rows, w, work)
        if trace == 0.0:
            continue
        for c in range(alphas.shape[0]):
            lam = alphas[c] * trace / p if relative else alphas[c] / unit / unit
            if lam == np.inf:
                continue
            if cholesky_lower(work.G, min(k, p), lam, work.L):
                _subtract_tilt(w, work, out[c, start:stop])
            else:
                solved[t] = False


@inner_jit
def _slope_of(y, rows, w, work, out):
    """Write (V + lam I)^-1 sum_i w_i (x_i - q - m)(y_i - ybar) of one output column."""
    R, v = work.R, work.v
    k, p = w.shape[0], R.shape[1]
    mean = 0.0
    for i in range(k):
        mean += w[i] * y[rows[i]]
    mean /= total_weight(w)
    if p > k:
        for i in range(k):
            v[i] = np.sqrt(w[i]) * (y[rows[i]] - mean)
        cholesky_solve(work.L, k, v)
        for i in range(k):
            for a in range(out.shape[0]):
                out[a] += R[i, a] * v[i]
        return
    for a in range(p):
        v[a] = 0.0
    for i in range(k):
        target = np.sqrt(w[i]) * (y[rows[i]] - mean)
        for a in range(p):
            v[a] += R[i, a] * target
    cholesky_solve(work.L, p, v)
    for a in range(out.shape[0]):
        out[a] = v[a]


@fast_jit
def ridge_slopes(queries, Y, alpha, relative, out, solved):
    """Write the gradients of the local models at their queries.

    ``out`` has shape (n_queries, n_outputs, n_features) and comes as zeros, which queries without
    spread keep.
    """
    indptr, indices, weights = queries.indptr, queries.indices, queries.weights
    work = _allocate(queries)
    p = work.R.shape[1]
    for t in range(indptr.shape[0] - 1):
        start, stop = indptr[t], indptr[t + 1]
        if start == stop or queries.degree == 0:
            continue
        rows, w = indices[start:stop], weights[start:stop]
        unit, trace = _system(queries, t, rows, w, work)
        if trace == 0.0:
            continue
        lam = alpha * trace / p if relative else alpha / unit / unit
        if lam == np.inf:
            continue
        if not cholesky_lower(work.G, min(stop - start, p), lam, work.L):
            solved[t] = False
            continue
        for c in range(Y.shape[1]):
            _slope_of(Y[:, c], rows, w, work, out[t, c])
            for a in range(out.shape[2]):
                out[t, c, a] /= unit
