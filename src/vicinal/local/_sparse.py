"""Local fits on sparse rows: a dense block of the few columns that the neighbours use."""

import numpy as np

from vicinal.local._fits import equivalent_kernels, local_slopes
from vicinal.local._neighborhood import Neighborhoods


def _dense_block(X, row, indices):
    """Return the neighbours and the query on the columns used by any of them.

    A column that no neighbour uses is constant over the neighbourhood: it has slope 0 and adds
    nothing to the fit.
    """
    rows = X[indices]
    used = np.unique(rows.indices)
    if used.size == 0:
        used = np.zeros(1, dtype=np.int64)
    block = np.ascontiguousarray(rows[:, used].toarray())
    query = np.ascontiguousarray(row[:, used].toarray())
    return block, query, used


def _one_query(found: Neighborhoods, t: int) -> Neighborhoods:
    entries = slice(found.indptr[t], found.indptr[t + 1])
    size = entries.stop - entries.start
    return Neighborhoods(
        np.array([0, size], dtype=np.int64),
        np.arange(size, dtype=np.int64),
        found.weights[entries],
        found.distances[entries],
        found.bandwidths[t : t + 1],
    )


def dense_blocks(X, Q, found: Neighborhoods, alpha, relative: bool, degree: int):
    """Yield (query number, its rows, the query, columns in use, neighbourhood, penalties).

    The relative penalty is alpha tr(V) over all columns of X, as for a dense X.
    """
    for t in range(found.n_queries):
        block, query, used = _dense_block(
            X, Q[t], found.indices[found.indptr[t] : found.indptr[t + 1]]
        )
        share = used.size / X.shape[1] if relative and degree == 1 else 1.0
        yield t, block, query, used, _one_query(found, t), np.multiply(alpha, share)


def sparse_equivalent_kernels(X, Q, found, alphas, *, relative: bool, degree: int) -> np.ndarray:
    """Return l(q) for each penalty, shape (n_alphas, nnz); see ``equivalent_kernels``."""
    out = np.empty((len(alphas), len(found.indices)))
    for t, block, query, _, one, scaled in dense_blocks(X, Q, found, alphas, relative, degree):
        out[:, found.indptr[t] : found.indptr[t + 1]] = equivalent_kernels(
            block, query, one, scaled, relative=relative, degree=degree, n_jobs=1
        )
    return out


def sparse_slopes(X, Y, Q, found, alpha: float, *, relative: bool, degree: int):
    """Return gradients as a dense array, shape (n_queries, n_outputs, n_features)."""
    out = np.zeros((found.n_queries, Y.shape[1], X.shape[1]))
    for t, block, query, used, one, scaled in dense_blocks(X, Q, found, alpha, relative, degree):
        targets = np.ascontiguousarray(Y[found.indices[found.indptr[t] : found.indptr[t + 1]]])
        out[t][:, used] = local_slopes(
            block,
            targets,
            query,
            one,
            float(scaled),
            relative=relative,
            degree=degree,
            n_jobs=1,
        )[0]
    return out
