"""Ridges of a Gaussian kernel density: subspace-constrained mean shift.

With p(x) = sum_i s_i exp(-|x - x_i|^2 / 2 h^2) and w_i its terms scaled to sum one, the mean shift
is s(x) = sum_i w_i x_i - x and the scatter around the mean C(x) = sum_i w_i (x_i - x)(x_i - x)' -
s s'; then

    grad log p = s / h^2,      Hess log p = (C / h^2 - I) / h^2.

The Hessian has the eigenvectors of C. A point lies on the ridge of dimension m when s has no part
in the space V of the d - m smallest eigenvalues, and x <- x + V V's(x) leads there.
"""

import numpy as np

from vicinal._base import row_blocks
from vicinal._kernels._jit import jit

# Terms below this share of the largest are left out.
_LOG_CUTOFF = -np.log(1e-12)
# Beyond this exponent every term of the density underflows.
_LOG_UNDERFLOW = 700.0
# A list of near rows serves while the point stays within this many bandwidths of where it was made.
_SLACK = 0.5


@jit
def nearest_row(x, X):
    """Return the number of the row nearest to ``x`` and its squared distance."""
    best, least = 0, np.inf
    for i in range(X.shape[0]):
        square = 0.0
        for a in range(X.shape[1]):
            square += (X[i, a] - x[a]) ** 2
        if square < least:
            best, least = i, square
    return best, least


@jit
def rows_in_reach(x, X, h, rows):
    """Write the rows that can have weight near ``x`` into ``rows``; return their number."""
    _, least = nearest_row(x, X)
    slack = _SLACK * h
    reach = np.sqrt((np.sqrt(least) + slack) ** 2 + 2.0 * _LOG_CUTOFF * h * h) + slack
    limit = reach * reach
    n = 0
    for i in range(X.shape[0]):
        square = 0.0
        for a in range(X.shape[1]):
            square += (X[i, a] - x[a]) ** 2
        if square <= limit:
            rows[n] = i
            n += 1
    return n


@jit
def local_moments(x, X, weights, rows, n, h, squares, shift, scatter):
    """Fill the mean shift and the scatter around the mean at ``x`` from ``rows[:n]``."""
    d = X.shape[1]
    least = np.inf
    for t in range(n):
        square = 0.0
        i = rows[t]
        for a in range(d):
            square += (X[i, a] - x[a]) ** 2
        squares[t] = square
        least = min(least, square)
    scale = 0.5 / (h * h)
    limit = least + _LOG_CUTOFF / scale
    shift[:] = 0.0
    scatter[:] = 0.0
    total = 0.0
    for t in range(n):
        if squares[t] > limit:
            continue
        i = rows[t]
        w = weights[i] * np.exp(-(squares[t] - least) * scale)
        total += w
        for a in range(d):
            offset = X[i, a] - x[a]
            shift[a] += w * offset
            for b in range(a + 1):
                scatter[a, b] += w * offset * (X[i, b] - x[b])
    for a in range(d):
        shift[a] /= total
    for a in range(d):
        for b in range(a + 1):
            scatter[a, b] = scatter[a, b] / total - shift[a] * shift[b]
            scatter[b, a] = scatter[a, b]


@jit
def project_to_ridge(Q, X, weights, h, m, tol, max_iter, out, converged, n_iter):
    """Move every row of ``Q`` to the ridge of dimension ``m``; one row after the other."""
    d = X.shape[1]
    rows = np.empty(X.shape[0], dtype=np.int64)
    squares = np.empty(X.shape[0])
    shift = np.empty(d)
    scatter = np.empty((d, d))
    step = np.empty(d)
    for t in range(Q.shape[0]):
        x = Q[t].copy()
        nearest, least = nearest_row(x, X)
        if least > 2.0 * _LOG_UNDERFLOW * h * h:
            # The density is zero to working precision here: start at the nearest sample.
            x[:] = X[nearest]
        origin = x.copy()
        n = rows_in_reach(x, X, h, rows)
        converged[t] = False
        for iteration in range(max_iter):
            n_iter[t] = iteration + 1
            moved = 0.0
            for a in range(d):
                moved += (x[a] - origin[a]) ** 2
            if moved > (_SLACK * h) ** 2:
                origin[:] = x
                n = rows_in_reach(x, X, h, rows)
            local_moments(x, X, weights, rows, n, h, squares, shift, scatter)
            if m == 0:
                step[:] = shift
            else:
                _, vectors = np.linalg.eigh(scatter)
                step[:] = 0.0
                for v in range(d - m):
                    part = 0.0
                    for a in range(d):
                        part += vectors[a, v] * shift[a]
                    for a in range(d):
                        step[a] += part * vectors[a, v]
            size = 0.0
            for a in range(d):
                x[a] += step[a]
                size += step[a] * step[a]
            if size <= (tol * h) ** 2:
                converged[t] = True
                break
        out[t] = x


def left_out_log_density(X: np.ndarray, weights: np.ndarray, rows: np.ndarray, bandwidths):
    """Return log p of some rows without themselves and their copies, (n_bandwidths, n_rows).

    Up to the constant that rows share; -inf where there is no other row.
    """
    n, d = X.shape
    out = np.empty((len(bandwidths), len(rows)))
    for block in row_blocks(len(rows), 8 * n * 6, max_rows=512):
        square = np.zeros((len(rows[block]), n))
        for a in range(d):
            square += (X[rows[block], a, None] - X[None, :, a]) ** 2
        square[square == 0.0] = np.inf
        least = square.min(axis=1)
        for j, h in enumerate(bandwidths):
            terms = np.exp((least[:, None] - square) / (2.0 * h * h)) @ weights
            out[j, block] = np.log(terms) - least / (2.0 * h * h) - d * np.log(h)
    return out
