"""Local polynomials: ridge by Cholesky, and least squares on sorted points of a line.

Ridge regression, one small system per query:

With s = sum_i w_i, m = sum_i w_i (x_i - q) / s and V = sum_i w_i (x_i - q - m)(x_i - q - m)',

    (V + lam I) u = m,      l_i(q) = w_i / s - w_i (x_i - q - m)'u,      g(q) = sum_i l_i(q) y_i,

the ridge fit around q with a free intercept. One system serves every output column: the weights
l(q) do not depend on y. With p > k columns the k x k form (Z Z' + lam I) v = Z m, Z = W^(1/2)
(X - q - m), gives w_i^(1/2) v_i in place of w_i (x_i - q - m)'u.

Columns that are constant among the neighbours (often indicators of categories) do not matter and
are removed from the system.

Tricube polynomials in one dimension: the neighbours of a query are a window of the sorted points,
so a fit is one pass over consecutive memory. With z_i = (x_i - q) / h, w_i = f_i K(|z_i|) and the
moments S_j = sum_i w_i z_i^j and T_j = sum_i w_i z_i^j y_i the coefficients solve
sum_b S_{a+b} c_b = T_a; moments of z within [-1, 1] are well scaled. The prediction is c_0, its
derivative c_1 / h.
"""

from typing import Any, NamedTuple

import numpy as np

from vicinal._kernels._jit import fast_jit, inner_jit
from vicinal._kernels.local._workspace import (
    cholesky_lower,
    cholesky_solve,
    gather,
    gathered_width,
    gram_lower,
    longest_neighborhood,
    total_weight,
)

# Spread around the weighted mean, relative to the size of the rows, that counts as none.
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

    Rows and V are in that unit.
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

    The weights given must be positive. ``skip[t]`` selects the local constant fit.
    ``solved[t]`` becomes False where the system is singular in working precision; ``out`` is then
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


# Singular values below this share of the largest are dropped (Cleveland and Grosse 1991).
PSEUDO_INVERSE_CUTOFF = 1e-12


def pseudo_inverse_fit(
    offsets: np.ndarray, weights: np.ndarray, degree: int, alpha: float = 0.0, relative: bool = True
) -> np.ndarray:
    """Return the rows that map y to (prediction, slopes) of the minimum-norm weighted fit.

    Rows are centred at the weighted mean, so the intercept is not shrunk. A column without spread
    has slope 0. The penalty is that of the compiled routines. Shape (1 + n_features, k).
    """
    D, share = offsets, weights / weights.sum()
    if degree == 2:
        size = np.sqrt(share @ (offsets**2).mean(axis=1))
        left, right = np.tril_indices(offsets.shape[1])
        D = np.hstack([D, offsets[:, left] * (offsets[:, right] / (size if size > 0 else 1.0))])
    mean = share @ D
    root = np.sqrt(weights)[:, None]
    U, values, Vt = np.linalg.svd((D - mean) * root, full_matrices=False)
    penalty = alpha * (values @ values) / D.shape[1] if relative else alpha
    largest = values[0] if values.size else 0.0
    reference = max(largest, np.abs(D * root).max(initial=0.0) * 1e-3)
    keep = values > PSEUDO_INVERSE_CUTOFF * reference
    inverse = np.where(keep, values / (np.where(keep, values, 1.0) ** 2 + penalty), 0.0)
    slopes = (Vt.T * inverse) @ (U * root).T
    return np.vstack([share - mean @ slopes, slopes[: offsets.shape[1]]])


# QR is used when a pivot of the moment matrix is below this share of its diagonal entry.
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
def _add_moments(x, y, f, q, inverse, guarded, S, T):
    """Write moments of tricube weights and of weighted targets over points within the bandwidth.

    Without branches, so that it is vectorised.
    """
    low = 0.001 if guarded else -1.0
    high = 0.999 if guarded else 1.0
    s0 = s1 = s2 = s3 = s4 = t0 = t1 = t2 = 0.0
    for i in range(x.shape[0]):
        z = (x[i] - q) * inverse
        u = abs(z)
        t = 1.0 - u * u * u
        w = 1.0 if u < low else t * t * t
        w = f[i] * (0.0 if u > high else w)
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
    S[0], S[1], S[2], S[3], S[4] = s0, s1, s2, s3, s4
    T[0], T[1], T[2] = t0, t1, t2


@fast_jit
def _solve_moments(S, T, order, A, c):
    """Solve sum_b S_{a+b} c_b = T_a by elimination; return False where it is nearly singular."""
    for a in range(order):
        c[a] = T[a]
        for b in range(order):
            A[a, b] = S[a + b]
    for a in range(order):
        if not A[a, a] > _PIVOT * S[2 * a]:
            return False
        for b in range(a + 1, order):
            ratio = A[b, a] / A[a, a]
            c[b] -= ratio * c[a]
            for j in range(a, order):
                A[b, j] -= ratio * A[a, j]
    for a in range(order - 1, -1, -1):
        for b in range(a + 1, order):
            c[a] -= A[a, b] * c[b]
        c[a] /= A[a, a]
    return True


class LinePoints(NamedTuple):
    """Sorted points (n,), their targets (n_outputs, n), and factors on their weights (n,)."""

    x: Any
    Y: Any
    f: Any


class LineWindow(NamedTuple):
    """Size and weights of a window.

    ``k`` neighbours; the (k+1)-th gives the bandwidth if ``beyond``, else the k-th; ``stretch``
    multiplies it; weights follow LOESS's guards at 0.001 and 0.999 if ``guarded``; polynomials of
    ``degree`` 0, 1 or 2.
    """

    k: int
    beyond: bool
    stretch: float
    guarded: bool
    degree: int


@fast_jit
def smooth_line(points, Q, window, values, slopes, solved):
    """Evaluate local polynomials of sorted points at the queries (n_queries,).

    Writes predictions and derivatives, (n_queries, n_outputs); ``solved`` becomes False where the
    moments do not determine the fit or the bandwidth is 0.
    """
    x, Y, f = points
    k, beyond, stretch, guarded, degree = window
    size = min(x.shape[0], k + 1) if beyond else k
    S, T, A, coefficients = np.empty(5), np.empty(3), np.empty((3, 3)), np.zeros(3)
    for t in range(Q.shape[0]):
        q = Q[t]
        start = _window(x, q, size)
        stop = start + size
        h = max(q - x[start], x[stop - 1] - q) * stretch
        if not h > 0.0:
            solved[t] = False
            continue
        # Points at the bandwidth have weight zero, so ties at the edge may be ignored.
        inverse = 1.0 / h
        near, weights = x[start:stop], f[start:stop]
        for c in range(Y.shape[0]):
            _add_moments(near, Y[c, start:stop], weights, q, inverse, guarded, S, T)
            if not _solve_moments(S, T, degree + 1, A, coefficients):
                solved[t] = False
                break
            values[t, c] = coefficients[0]
            slopes[t, c] = coefficients[1] * inverse
