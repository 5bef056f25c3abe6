"""Weighted local ridge regression: equivalent kernels and slopes, one small system per query.

With s = sum_i w_i, m = sum_i w_i (x_i - q) / s and V = sum_i w_i (x_i - q - m)(x_i - q - m)',

    (V + lam I) u = m,      l_i(q) = w_i / s - w_i (x_i - q - m)'u,      g(q) = sum_i l_i(q) y_i,

the ridge fit around q with a free intercept. One system serves every output column: the weights
l(q) do not depend on y. With p > k columns the k x k form (Z Z' + lam I) v = Z m, Z = W^(1/2)
(X - q - m), gives w_i^(1/2) v_i in place of w_i (x_i - q - m)'u.

A column that is the same in all neighbours has no part in V, so that u there meets a factor zero:
such columns, most of those that stand for words, are left out of the system.
"""

from typing import Any, NamedTuple

import numpy as np

from vicinal._kernels._jit import fast_jit, inner_jit
from vicinal._kernels.local._small_dense import cholesky_lower, cholesky_solve, gram_lower
from vicinal._kernels.local._workspace import (
    gather,
    gathered_width,
    longest_neighborhood,
    total_weight,
)

# Rows have no spread around their weighted mean below this share of their own size.
_FLAT = 1e-14


class _RidgeArrays(NamedTuple):
    R: Any  # offsets by rows; of wide neighbourhoods centred and times root weights
    Z: Any  # the same by columns; of wide neighbourhoods one column at a time
    root: Any  # root weights
    columns: Any  # those that vary
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
        np.empty((p if p <= k else 1, k)),
        np.empty(k),
        np.empty(p, np.int64),
        np.empty(p),
        np.empty((order, order)),
        np.empty((order, order)),
        np.empty(max(p, k)),
    )


@inner_jit
def _center(w, total, work):
    """Keep the columns that vary, centred and times root weights; return (their number, |m|^2)."""
    R, Z, root = work.R, work.Z, work.root
    k, p = w.shape[0], R.shape[1]
    for i in range(k):
        root[i] = np.sqrt(w[i])
    n_columns, square = 0, 0.0
    for a in range(p):
        z = Z[n_columns if p <= k else 0]
        for i in range(k):
            z[i] = R[i, a]
        first, mean, spread = z[0], 0.0, 0.0
        for i in range(k):
            mean += w[i] / total * z[i]
            spread += abs(z[i] - first)
        square += mean * mean
        if spread == 0.0:
            continue
        for i in range(k):
            z[i] = (z[i] - mean) * root[i]
        if p > k:
            for i in range(k):
                R[i, n_columns] = z[i]
        work.m[n_columns] = mean
        work.columns[n_columns] = a
        n_columns += 1
    return n_columns, square


@inner_jit
def _system(queries, t, rows, w, work):
    """Form the Gram matrix of one neighbourhood; return (unit, trace of V, columns, order).

    Rows, V and what follows are in that unit.
    """
    k, p = rows.shape[0], work.R.shape[1]
    unit = gather(queries, t, rows, w, work.R)
    total = total_weight(w)
    n_columns, square = _center(w, total, work)
    order = k if p > k else n_columns
    gram_lower(work.R if p > k else work.Z, order, n_columns if p > k else k, work.G)
    trace = 0.0
    for a in range(order):
        trace += work.G[a, a]
    return unit, trace if trace > _FLAT * (trace + total * square) else 0.0, n_columns, order


@inner_jit
def _subtract_tilt(n_columns, work, out):
    """Subtract w_i (x_i - q - m)'u from the local constant fit in ``out``."""
    R, Z, root, m, v = work.R, work.Z, work.root, work.m, work.v
    k = out.shape[0]
    if R.shape[1] > k:
        for i in range(k):
            value = 0.0
            for a in range(n_columns):
                value += R[i, a] * m[a]
            v[i] = value
        cholesky_solve(work.L, k, v)
        for i in range(k):
            out[i] -= root[i] * v[i]
        return
    for a in range(n_columns):
        v[a] = m[a]
    cholesky_solve(work.L, n_columns, v)
    for a in range(n_columns):
        z, slope = Z[a], v[a]
        for i in range(k):
            out[i] -= root[i] * z[i] * slope


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
        unit, trace, n_columns, order = _system(queries, t, rows, w, work)
        if trace == 0.0:
            continue
        for c in range(alphas.shape[0]):
            lam = alphas[c] * trace / p if relative else alphas[c] / unit / unit
            if lam == np.inf:
                continue
            if cholesky_lower(work.G, order, lam, work.L):
                _subtract_tilt(n_columns, work, out[c, start:stop])
            else:
                solved[t] = False


@inner_jit
def _slope_of(y, rows, w, n_columns, work, out):
    """Write (V + lam I)^-1 sum_i w_i (x_i - q - m)(y_i - ybar) of one output column."""
    R, Z, root, v = work.R, work.Z, work.root, work.v
    k, slopes = w.shape[0], work.m  # the mean offset is not needed any more
    mean = 0.0
    for i in range(k):
        mean += w[i] * y[rows[i]]
    mean /= total_weight(w)
    for i in range(k):
        v[i] = root[i] * (y[rows[i]] - mean)
    if R.shape[1] > k:
        cholesky_solve(work.L, k, v)
        for a in range(n_columns):
            slopes[a] = 0.0
        for i in range(k):
            for a in range(n_columns):
                slopes[a] += R[i, a] * v[i]
    else:
        for a in range(n_columns):
            slopes[a] = 0.0
            for i in range(k):
                slopes[a] += Z[a, i] * v[i]
        cholesky_solve(work.L, n_columns, slopes)
    for a in range(n_columns):
        if work.columns[a] < out.shape[0]:
            out[work.columns[a]] = slopes[a]


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
        unit, trace, n_columns, order = _system(queries, t, rows, w, work)
        if trace == 0.0:
            continue
        lam = alpha * trace / p if relative else alpha / unit / unit
        if lam == np.inf:
            continue
        if not cholesky_lower(work.G, order, lam, work.L):
            solved[t] = False
            continue
        for c in range(Y.shape[1]):
            _slope_of(Y[:, c], rows, w, n_columns, work, out[t, c])
            for a in range(out.shape[2]):
                out[t, c, a] /= unit
