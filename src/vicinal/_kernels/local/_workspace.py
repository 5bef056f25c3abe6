"""Named tuples, workspaces and small dense linear algebra of the compiled local fits."""

import math
from typing import Any, NamedTuple

import numpy as np

from vicinal._kernels._jit import fast_jit, inline_jit, inner_jit


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


SQUARED_HINGE = 0
LOGISTIC = 1
SQUARED = 2

# Rows have no spread around their weighted mean below this share of their own size.
_FLAT = 1e-14


class Queries(NamedTuple):
    """Rows, queries and neighbourhoods; the local models are polynomials of ``degree``."""

    X: Any
    Q: Any
    indptr: Any
    indices: Any
    weights: Any
    degree: int


class FitObjective(NamedTuple):
    """Loss and penalties of local classifiers.

    Slopes are penalised by ``alpha``, or by ``alpha * trace(V) / p`` over the p design columns if
    ``relative``; the intercept by ``rho + rho_per_weight * sum(w)``; ``C`` multiplies the loss.
    """

    loss: int
    alpha: float
    relative: bool
    C: float
    rho: float
    rho_per_weight: float
    tol: float
    max_iter: int


class Motion(NamedTuple):
    """How weights move with the query: grad w_i = radial_i (x_i - q) + common_i extra(q).

    ``P`` and ``queries`` are rows and queries in the columns that give distances. What the motion
    adds to the gradients is written to ``pulls``, shape (n_queries, n_classes, columns of P).
    """

    P: Any
    queries: Any
    radial: Any
    common: Any
    extra: Any
    pulls: Any


class Fits(NamedTuple):
    """What is written: scores (n_queries, n_classes), slopes (n_queries, n_classes, d), converged.

    ``slopes`` come as zeros, with no columns if none are wanted; ``converged`` as ones.
    """

    scores: Any
    slopes: Any
    converged: Any


class Fit(NamedTuple):
    """One neighbourhood laid out: k rows, p columns in a unit, penalties of slopes and level."""

    weights: Any
    k: int
    p: int
    unit: float
    lam: float
    rho: float


class Workspace(NamedTuple):
    """Arrays that every neighbourhood of a call uses again."""

    R: Any  # offsets from the query, one row of the table a row
    m: Any  # their weighted mean
    A: Any  # design, one column a row
    K: Any  # Gram matrix of the rows, and its pivoted factor
    basis: Any
    pivots: Any
    B: Any  # design times root curvatures; the last row holds slopes of the loss
    H: Any  # Hessian and its factor
    L: Any
    g: Any  # gradient
    f: Any  # scores of the rows, and those after a step
    new: Any
    step: Any
    theta: Any
    z: Any  # derivative of the coefficients by a unit force on the score
    y: Any
    c: Any  # derivatives of the score by the weights
    counts: Any


def n_design_columns(n_features: int, degree: int) -> int:
    """Return the number of non-constant columns of a polynomial of total degree ``degree``."""
    if degree == 0:
        return 0
    return n_features if degree == 1 else n_features + n_features * (n_features + 1) // 2


@fast_jit
def longest_neighborhood(indptr):
    """Return the number of rows in the largest neighbourhood, at least one."""
    longest = 1
    for t in range(indptr.shape[0] - 1):
        longest = max(longest, indptr[t + 1] - indptr[t])
    return longest


@fast_jit
def gathered_width(queries):
    """Return the number of columns that ``gather`` fills."""
    d = queries.X.shape[1]
    return d + d * (d + 1) // 2 if queries.degree == 2 else d


def workspace(queries: Queries, n_classes: int) -> Workspace:
    """Allocate for the largest neighbourhood."""
    k = longest_neighborhood(queries.indptr)
    columns = gathered_width(queries)
    p = min(columns, k)
    return Workspace(
        np.empty((k, columns)),
        np.empty(columns),
        np.empty((p, k)),
        np.empty((p, p)),
        np.empty((p, p)),
        np.empty(k, dtype=np.int64),
        np.empty((p + 2, k)),
        np.empty((p + 1, p + 1)),
        np.empty((p + 1, p + 1)),
        np.empty(p + 1),
        np.empty(k),
        np.empty(k),
        np.empty(p + 1),
        np.empty(p + 1),
        np.empty(p + 1),
        np.empty(k),
        np.empty(k),
        np.empty(n_classes, dtype=np.int64),
    )


@inner_jit
def total_weight(weights):
    """Return the sum of the weights."""
    total = 0.0
    for w in weights:
        total += w
    return total


@inner_jit
def _append_products(R, weights, k, d):
    """Append the products of columns, divided by the spread so that they keep the columns' unit."""
    size = 0.0
    for i in range(k):
        row = 0.0
        for a in range(d):
            row += R[i, a] * R[i, a]
        size += weights[i] * row
    scale = 1.0
    if size > 0.0:
        scale = 1.0 / np.sqrt(size / (total_weight(weights) * d))
    for i in range(k):
        position = d
        for a in range(d):
            left = R[i, a] * scale
            for b in range(a + 1):
                R[i, position] = left * R[i, b]
                position += 1


@inner_jit
def unit_of(size):
    """Return the power of 2^20 nearest to a size: one for data of everyday units.

    Division by it rounds nothing, and keeps squares from overflow and systems from mixing scales.
    """
    if not (size > 0.0 and size < np.inf):
        return 1.0
    return math.ldexp(1.0, 20 * int(np.floor(math.frexp(size)[1] / 20.0 + 0.5)))


@inner_jit
def gather(queries, t, rows, weights, R):
    """Write the offsets of a query's neighbours, and products at degree two, into ``R``.

    Returns the unit that they were divided by.
    """
    X, q = queries.X, queries.Q[t]
    k, d = rows.shape[0], X.shape[1]
    largest = 0.0
    for i in range(k):
        row, size = X[rows[i]], 0.0  # sums vectorise, largest values do not
        for a in range(d):
            R[i, a] = row[a] - q[a]
            size += abs(R[i, a])
        largest = max(largest, size)
    unit = unit_of(largest / max(1, d))
    if unit != 1.0:
        for i in range(k):
            for a in range(d):
                R[i, a] /= unit
    if queries.degree == 2:
        _append_products(R, weights, k, d)
    return unit


@inner_jit
def moments(R, weights, p, m):
    """Write the weighted mean of ``R``; return the trace of the scatter V around it."""
    k = weights.shape[0]
    total = total_weight(weights)
    for a in range(p):
        m[a] = 0.0
    for i in range(k):
        share = weights[i] / total
        for a in range(p):
            m[a] += share * R[i, a]
    trace = 0.0
    size = 0.0
    for i in range(k):
        spread = 0.0
        square = 0.0
        for a in range(p):
            spread += (R[i, a] - m[a]) * (R[i, a] - m[a])
            square += R[i, a] * R[i, a]
        trace += weights[i] * spread
        size += weights[i] * square
    return trace if trace > _FLAT * size else 0.0


@inline_jit
def count_classes(codes, rows, counts):
    """Write how many of the rows are of each class; return how many classes there are."""
    for c in range(counts.shape[0]):
        counts[c] = 0
    n_present = 0
    for row in rows:
        if counts[codes[row]] == 0:
            n_present += 1
        counts[codes[row]] += 1
    return n_present
