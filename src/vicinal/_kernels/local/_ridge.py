"""Weighted local ridge regression: equivalent kernels and slopes, one small system per query.

With s = sum_i w_i, m = sum_i w_i (x_i - q) / s and V = sum_i w_i (x_i - q - m)(x_i - q - m)',

    (V + lam I) u = m,      l_i(q) = w_i / s - w_i (x_i - q - m)'u,      g(q) = sum_i l_i(q) y_i,

the ridge fit around q with a free intercept. One system serves every output column: the weights
l(q) do not depend on y. With p > k columns the k x k form (Z Z' + lam I) v = Z m, Z = W^(1/2)
(X - q - m), gives w_i^(1/2) v_i in place of w_i (x_i - q - m)'u.

Neighbourhoods come as compressed rows: those of query t are ``indices[indptr[t]:indptr[t + 1]]``.
"""

import numpy as np

from vicinal._kernels._jit import fast_jit
from vicinal._kernels.local._small_dense import cholesky_lower, cholesky_solve, gram_lower

# A value is "flat" (no spread around the weighted mean) below this share of its own size.
_FLAT = 1e-14


def n_design_columns(n_features: int, degree: int) -> int:
    """Return the number of non-constant columns of a polynomial of total degree ``degree``."""
    if degree == 0:
        return 0
    return n_features if degree == 1 else n_features + n_features * (n_features + 1) // 2


@fast_jit
def gather_rows(X, q, indices, R, d):
    """Write ``X[indices] - q`` into the rows of ``R``."""
    for i in range(indices.shape[0]):
        row = X[indices[i]]
        for a in range(d):
            R[i, a] = row[a] - q[a]


@fast_jit
def append_products(R, weights, k, d):
    """Append the products of columns, divided by the spread so that they keep the columns' unit."""
    total = 0.0
    size = 0.0
    for i in range(k):
        row = 0.0
        for a in range(d):
            row += R[i, a] * R[i, a]
        size += weights[i] * row
        total += weights[i]
    if size <= 0.0:
        scale = 1.0
    else:
        scale = 1.0 / np.sqrt(size / (total * d))
    for i in range(k):
        position = d
        for a in range(d):
            left = R[i, a] * scale
            for b in range(a + 1):
                R[i, position] = left * R[i, b]
                position += 1


@fast_jit
def centre_rows(R, weights, k, p, m):
    """Subtract the weighted mean (kept in ``m``), scale by root weights; return (s, trace of V)."""
    s = 0.0
    for a in range(p):
        m[a] = 0.0
    for i in range(k):
        w = weights[i]
        s += w
        for a in range(p):
            m[a] += w * R[i, a]
    for a in range(p):
        m[a] /= s
    trace = 0.0
    size = 0.0
    for i in range(k):
        root = np.sqrt(weights[i])
        w = weights[i]
        for a in range(p):
            size += w * R[i, a] * R[i, a]
            value = (R[i, a] - m[a]) * root
            R[i, a] = value
            trace += value * value
    if trace <= _FLAT * size:
        trace = 0.0
    return s, trace


@fast_jit
def transpose_rows(R, k, p, Z):
    """Write the leading block of ``R`` column by column into the rows of ``Z``."""
    for i in range(k):
        for a in range(p):
            Z[a, i] = R[i, a]


@fast_jit
def _design(X, q, indices, weights, degree, R, m):
    """Gather, expand and centre the design of one query; return (p, s, trace of V)."""
    d = X.shape[1]
    k = indices.shape[0]
    gather_rows(X, q, indices, R, d)
    p = d
    if degree == 2:
        append_products(R, weights, k, d)
        p = d + d * (d + 1) // 2
    s, trace = centre_rows(R, weights, k, p, m)
    return p, s, trace


@fast_jit
def count_classes(codes, rows, counts):
    """Write how many of the rows are of each class; return how many classes there are."""
    counts[:] = 0
    n_present = 0
    for row in rows:
        if counts[codes[row]] == 0:
            n_present += 1
        counts[codes[row]] += 1
    return n_present


@fast_jit
def longest_neighborhood(indptr):
    """Return the number of rows in the largest neighbourhood, at least one."""
    longest = 1
    for t in range(indptr.shape[0] - 1):
        longest = max(longest, indptr[t + 1] - indptr[t])
    return longest


@fast_jit
def ridge_equivalent_kernels(
    X, Q, indptr, indices, weights, alphas, relative, degree, skip, out, solved
):
    """Write l(q) of every query and penalty into ``out`` of shape (n_alphas, nnz).

    The weights given must be positive. ``skip[t]`` asks for the local constant
    fit only. ``solved[t]`` turns False
    where the system is singular to working precision; ``out`` then holds the local constant fit.
    """
    n_queries = indptr.shape[0] - 1
    d = X.shape[1]
    longest = longest_neighborhood(indptr)
    width = d + d * (d + 1) // 2 if degree == 2 else d
    order = min(width, longest)
    R = np.empty((longest, width))
    Z = np.empty((width, longest) if width <= longest else (1, 1))
    G = np.empty((order, order))
    L = np.empty((order, order))
    m = np.empty(width)
    v = np.empty(max(order, longest))
    for t in range(n_queries):
        start, stop = indptr[t], indptr[t + 1]
        k = stop - start
        if k == 0:
            continue
        w = weights[start:stop]
        s = 0.0
        for i in range(k):
            s += w[i]
        for c in range(alphas.shape[0]):
            for i in range(k):
                out[c, start + i] = w[i] / s
        if degree == 0 or skip[t]:
            continue
        p, s, trace = _design(X, Q[t], indices[start:stop], w, degree, R, m)
        if trace == 0.0:
            continue
        dual = p > k
        if dual:
            gram_lower(R, k, p, G)
        else:
            transpose_rows(R, k, p, Z)
            gram_lower(Z, p, k, G)
        for c in range(alphas.shape[0]):
            lam = alphas[c] * trace / p if relative else alphas[c]
            if not cholesky_lower(G, k if dual else p, lam, L):
                solved[t] = False
                continue
            if dual:
                for i in range(k):
                    value = 0.0
                    for a in range(p):
                        value += R[i, a] * m[a]
                    v[i] = value
                cholesky_solve(L, k, v)
                for i in range(k):
                    out[c, start + i] -= np.sqrt(w[i]) * v[i]
            else:
                for a in range(p):
                    v[a] = m[a]
                cholesky_solve(L, p, v)
                for i in range(k):
                    value = 0.0
                    for a in range(p):
                        value += R[i, a] * v[a]
                    out[c, start + i] -= np.sqrt(w[i]) * value


@fast_jit
def ridge_slopes(X, Y, Q, indptr, indices, weights, alpha, relative, degree, out, solved):
    """Write the gradient of the local model at q, (V + lam I)^-1 sum_i w_i (x_i-q-m)(y_i-ybar)'.

    ``out`` has shape (n_queries, n_outputs, n_features); queries without spread get zeros.
    """
    n_queries = indptr.shape[0] - 1
    d = X.shape[1]
    n_outputs = Y.shape[1]
    longest = longest_neighborhood(indptr)
    width = d + d * (d + 1) // 2 if degree == 2 else d
    order = min(width, longest)
    R = np.empty((longest, width))
    Z = np.empty((width, longest) if width <= longest else (1, 1))
    G = np.empty((order, order))
    L = np.empty((order, order))
    m = np.empty(width)
    v = np.empty(max(order, width))
    for t in range(n_queries):
        start, stop = indptr[t], indptr[t + 1]
        k = stop - start
        out[t] = 0.0
        if k == 0 or degree == 0:
            continue
        w = weights[start:stop]
        p, s, trace = _design(X, Q[t], indices[start:stop], w, degree, R, m)
        if trace == 0.0:
            continue
        dual = p > k
        if dual:
            gram_lower(R, k, p, G)
        else:
            transpose_rows(R, k, p, Z)
            gram_lower(Z, p, k, G)
        lam = alpha * trace / p if relative else alpha
        if not cholesky_lower(G, k if dual else p, lam, L):
            solved[t] = False
            continue
        for c in range(n_outputs):
            mean = 0.0
            for i in range(k):
                mean += w[i] * Y[indices[start + i], c]
            mean /= s
            if dual:
                for i in range(k):
                    v[i] = np.sqrt(w[i]) * (Y[indices[start + i], c] - mean)
                cholesky_solve(L, k, v)
                for i in range(k):
                    for a in range(d):
                        out[t, c, a] += R[i, a] * v[i]
            else:
                for a in range(p):
                    v[a] = 0.0
                for i in range(k):
                    target = np.sqrt(w[i]) * (Y[indices[start + i], c] - mean)
                    for a in range(p):
                        v[a] += R[i, a] * target
                cholesky_solve(L, p, v)
                for a in range(d):
                    out[t, c, a] = v[a]


@fast_jit
def smooth_targets(indptr, indices, smoother, Y, out):
    """Write sum_i l_i(q) Y_i of every query into ``out`` of shape (n_queries, n_outputs)."""
    for t in range(indptr.shape[0] - 1):
        for c in range(Y.shape[1]):
            out[t, c] = 0.0
        for e in range(indptr[t], indptr[t + 1]):
            value = smoother[e]
            row = indices[e]
            for c in range(Y.shape[1]):
                out[t, c] += value * Y[row, c]


@fast_jit
def smooth_classes(indptr, indices, smoother, codes, out):
    """Write sum_i l_i(q) 1{y_i = c}, the fit to indicator columns, without forming them."""
    for t in range(indptr.shape[0] - 1):
        for c in range(out.shape[1]):
            out[t, c] = 0.0
        for e in range(indptr[t], indptr[t + 1]):
            out[t, codes[indices[e]]] += smoother[e]


@fast_jit
def is_pure(indptr, indices, codes, pure):
    """Mark the queries whose neighbours all belong to one class: their answer needs no fit."""
    for t in range(indptr.shape[0] - 1):
        pure[t] = True
        for e in range(indptr[t] + 1, indptr[t + 1]):
            if codes[indices[e]] != codes[indices[indptr[t]]]:
                pure[t] = False
                break
