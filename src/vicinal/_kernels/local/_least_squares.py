"""Local polynomials without penalty: Householder QR of the weighted design, never its square.

The design of a query has rows w_i^(1/2) (1, x_i - q, products). With W^(1/2) D = Q R the prediction
at q is the first coefficient and its equivalent kernel is l = W^(1/2) Q R^-T e_1.
"""

from typing import Any, NamedTuple

import numpy as np

from vicinal._kernels._jit import fast_jit, inner_jit
from vicinal._kernels.local._workspace import gather, gathered_width, longest_neighborhood

# Columns whose part outside the span of earlier ones is smaller than this share are left to the
# pseudo-inverse, which decides by singular values.
_DEPENDENT = 1e-9
# Singular values below this share of the largest are dropped (Cleveland and Grosse 1991).
PSEUDO_INVERSE_CUTOFF = 1e-12


class _PolynomialArrays(NamedTuple):
    R: Any
    A: Any  # the scaled design, one column a row, then its reflectors
    U: Any
    v: Any


@fast_jit
def _allocate(queries):
    k, p = longest_neighborhood(queries.indptr), gathered_width(queries)
    return _PolynomialArrays(
        np.empty((k, p)), np.empty((p + 1, k)), np.empty((p + 1, p + 1)), np.empty(k)
    )


@inner_jit
def _householder(A, p, k, U):
    """Reduce the columns (rows of ``A``) to triangular form; reflectors stay in ``A``.

    ``U[j, :j + 1]`` holds column j of the triangular factor. Returns False at a dependent column.
    """
    for j in range(p):
        before = 0.0
        for i in range(k):
            before += A[j, i] * A[j, i]
        for r in range(j):
            dot = 0.0
            for i in range(r, k):
                dot += A[r, i] * A[j, i]
            for i in range(r, k):
                A[j, i] -= 2.0 * dot * A[r, i]
            U[j, r] = A[j, r]
        tail = 0.0
        for i in range(j, k):
            tail += A[j, i] * A[j, i]
        if not tail > _DEPENDENT * _DEPENDENT * before or before == 0.0:
            return False
        norm = np.sqrt(tail)
        if A[j, j] > 0.0:
            norm = -norm
        U[j, j] = norm
        A[j, j] -= norm
        # |v|^2 = 2 norm (norm - a_jj), written with the updated entry.
        length = np.sqrt(-2.0 * norm * A[j, j])
        for i in range(j, k):
            A[j, i] /= length
    return True


@inner_jit
def _reflect(A, j, k, v):
    dot = 0.0
    for i in range(j, k):
        dot += A[j, i] * v[i]
    for i in range(j, k):
        v[i] -= 2.0 * dot * A[j, i]


@inner_jit
def _factor(queries, t, rows, weights, work):
    """Factor the design of one query; return its number of columns and its unit.

    The number is 0 where rank is missing.
    """
    R, A = work.R, work.A
    k = rows.shape[0]
    p = 0 if queries.degree == 0 else R.shape[1]
    if p + 1 > k:
        return 0, 1.0
    unit = gather(queries, t, rows, weights, R)
    for i in range(k):
        root = np.sqrt(weights[i])
        A[0, i] = root
        for a in range(p):
            A[a + 1, i] = R[i, a] * root
    return p + 1 if _householder(A, p + 1, k, work.U) else 0, unit


@inner_jit
def _write_kernel(p, weights, work, out):
    """Write l = W^(1/2) Q R^-T e_1."""
    A, U, v = work.A, work.U, work.v
    k = weights.shape[0]
    for j in range(p):
        value = 1.0 if j == 0 else 0.0
        for r in range(j):
            value -= U[j, r] * v[r]
        v[j] = value / U[j, j]
    for i in range(p, k):
        v[i] = 0.0
    for j in range(p - 1, -1, -1):
        _reflect(A, j, k, v)
    for i in range(k):
        out[i] = np.sqrt(weights[i]) * v[i]


@inner_jit
def _write_slope(p, y, rows, weights, work, out):
    """Write the slopes of R^-1 Q' W^(1/2) y."""
    A, U, v = work.A, work.U, work.v
    k = weights.shape[0]
    for i in range(k):
        v[i] = np.sqrt(weights[i]) * y[rows[i]]
    for j in range(p):
        _reflect(A, j, k, v)
    for j in range(p - 1, -1, -1):
        value = v[j]
        for r in range(j + 1, p):
            value -= U[r, j] * v[r]
        v[j] = value / U[j, j]
    for a in range(out.shape[0]):
        out[a] = v[a + 1]


@fast_jit
def polynomial_equivalent_kernels(queries, out, solved):
    """Write l(q) of every query into ``out``; ``solved[t]`` turns False where rank is missing."""
    indptr, indices, weights = queries.indptr, queries.indices, queries.weights
    work = _allocate(queries)
    for t in range(indptr.shape[0] - 1):
        start, stop = indptr[t], indptr[t + 1]
        if start == stop:
            continue
        w = weights[start:stop]
        p, _ = _factor(queries, t, indices[start:stop], w, work)
        if p > 0:
            _write_kernel(p, w, work, out[start:stop])
        else:
            solved[t] = False


@fast_jit
def polynomial_slopes(queries, Y, out, solved):
    """Write the gradients at the queries, shape (n_queries, n_outputs, n_features), from zeros."""
    indptr, indices, weights = queries.indptr, queries.indices, queries.weights
    work = _allocate(queries)
    for t in range(indptr.shape[0] - 1):
        start, stop = indptr[t], indptr[t + 1]
        if start == stop or queries.degree == 0:
            continue
        rows, w = indices[start:stop], weights[start:stop]
        p, unit = _factor(queries, t, rows, w, work)
        if p == 0:
            solved[t] = False
            continue
        for c in range(Y.shape[1]):
            _write_slope(p, Y[:, c], rows, w, work, out[t, c])
            for a in range(out.shape[2]):
                out[t, c, a] /= unit


def design_matrix(offsets: np.ndarray, weights: np.ndarray, degree: int) -> np.ndarray:
    """Return the rows (1, x_i - q, products) that the compiled routines use, unweighted."""
    k, d = offsets.shape
    if degree == 0:
        return np.ones((k, 1))
    columns = [np.ones((k, 1)), offsets]
    if degree == 2:
        size = np.sqrt((weights @ (offsets**2).sum(axis=1)) / (weights.sum() * d))
        scale = 1.0 / size if size > 0 else 1.0
        columns += [
            (scale * offsets[:, a] * offsets[:, b])[:, None] for a in range(d) for b in range(a + 1)
        ]
    return np.hstack(columns)


def pseudo_inverse_fit(
    offsets: np.ndarray, weights: np.ndarray, degree: int, penalty: float = 0.0
) -> np.ndarray:
    """Return the rows that map y to (prediction, slopes) of the minimum-norm weighted fit.

    Slopes are taken around the weighted mean, so that the intercept is never shrunk: a column
    without spread gets slope 0 and the prediction is then the weighted mean. ``penalty`` is an
    absolute ridge term. Shape (1 + n_features, k).
    """
    D = design_matrix(offsets, weights, degree)[:, 1:]
    total = weights.sum()
    share = weights / total
    mean = share @ D
    root = np.sqrt(weights)[:, None]
    U, values, Vt = np.linalg.svd((D - mean) * root, full_matrices=False)
    largest = values[0] if values.size else 0.0
    reference = max(largest, np.abs(D * root).max(initial=0.0) * 1e-3)
    keep = values > PSEUDO_INVERSE_CUTOFF * reference
    inverse = np.where(keep, values / (np.where(keep, values, 1.0) ** 2 + penalty), 0.0)
    slopes = (Vt.T * inverse) @ (U * root).T
    prediction = share - mean @ slopes if D.shape[1] else share
    return np.vstack([prediction[None, :], slopes[: offsets.shape[1]]])
