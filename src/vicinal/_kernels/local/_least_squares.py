"""Local polynomials without penalty: Householder QR of the weighted design, never its square.

The design of a query has rows w_i^(1/2) (1, x_i - q, products). With W^(1/2) D = Q R the prediction
at q is the first coefficient and its equivalent kernel is l = W^(1/2) Q R^-T e_1.
"""

import numpy as np

from vicinal._kernels._jit import fast_jit
from vicinal._kernels.local._ridge import append_products, gather_rows, longest_neighborhood

# Columns whose part outside the span of earlier ones is smaller than this share are left to the
# pseudo-inverse, which decides by singular values.
_DEPENDENT = 1e-9
# Singular values below this share of the largest are dropped (Cleveland and Grosse 1991).
PSEUDO_INVERSE_CUTOFF = 1e-12


@fast_jit
def _fill_columns(X, q, indices, weights, degree, R, A):
    """Write the scaled design column by column into the rows of ``A``; return its width."""
    d = X.shape[1]
    k = indices.shape[0]
    gather_rows(X, q, indices, R, d)
    p = d
    if degree == 2:
        append_products(R, weights, k, d)
        p = d + d * (d + 1) // 2
    if degree == 0:
        p = 0
    for i in range(k):
        root = np.sqrt(weights[i])
        A[0, i] = root
        for a in range(p):
            A[a + 1, i] = R[i, a] * root
    return p + 1


@fast_jit
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


@fast_jit
def _reflect(A, j, k, v):
    dot = 0.0
    for i in range(j, k):
        dot += A[j, i] * v[i]
    for i in range(j, k):
        v[i] -= 2.0 * dot * A[j, i]


@fast_jit
def polynomial_equivalent_kernels(X, Q, indptr, indices, weights, degree, out, solved):
    """Write l(q) of every query into ``out``; ``solved[t]`` turns False where rank is missing."""
    n_queries = indptr.shape[0] - 1
    d = X.shape[1]
    longest = longest_neighborhood(indptr)
    width = d + d * (d + 1) // 2 if degree == 2 else d
    R = np.empty((longest, width))
    A = np.empty((width + 1, longest))
    U = np.empty((width + 1, width + 1))
    v = np.empty(longest)
    for t in range(n_queries):
        start, stop = indptr[t], indptr[t + 1]
        k = stop - start
        if k == 0:
            continue
        w = weights[start:stop]
        p = _fill_columns(X, Q[t], indices[start:stop], w, degree, R, A)
        if p > k or not _householder(A, p, k, U):
            solved[t] = False
            continue
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
            out[start + i] = np.sqrt(w[i]) * v[i]


@fast_jit
def polynomial_slopes(X, Y, Q, indptr, indices, weights, degree, out, solved):
    """Write the gradients at q, shape (n_queries, n_outputs, n_features)."""
    n_queries = indptr.shape[0] - 1
    d = X.shape[1]
    longest = longest_neighborhood(indptr)
    width = d + d * (d + 1) // 2 if degree == 2 else d
    R = np.empty((longest, width))
    A = np.empty((width + 1, longest))
    U = np.empty((width + 1, width + 1))
    v = np.empty(longest)
    for t in range(n_queries):
        start, stop = indptr[t], indptr[t + 1]
        k = stop - start
        out[t] = 0.0
        if k == 0 or degree == 0:
            continue
        w = weights[start:stop]
        p = _fill_columns(X, Q[t], indices[start:stop], w, degree, R, A)
        if p > k or not _householder(A, p, k, U):
            solved[t] = False
            continue
        for c in range(Y.shape[1]):
            for i in range(k):
                v[i] = np.sqrt(w[i]) * Y[indices[start + i], c]
            for j in range(p):
                _reflect(A, j, k, v)
            for j in range(p - 1, -1, -1):
                value = v[j]
                for r in range(j + 1, p):
                    value -= U[r, j] * v[r]
                v[j] = value / U[j, j]
            for a in range(d):
                out[t, c, a] = v[a + 1]


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
