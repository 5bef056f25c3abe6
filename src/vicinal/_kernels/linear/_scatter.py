"""Scatter matrices and the linear maps that divide a feature space: PCA, DCA, BCD and ABD.

Samples are rows. Every matrix is accumulated over blocks of rows in double precision; sparse input
is centred implicitly, so that it is never made dense. Arrays of any library are summed where they
are; what comes back is of the size of the features, and a NumPy array.
"""

from collections.abc import Iterator
from functools import reduce
from typing import Any

import array_api_compat as compat
import numpy as np
import scipy.linalg
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, svds

from vicinal._base import (
    add_tuples,
    as_numpy,
    block_limits,
    namespace,
    on_device_of,
    row_blocks,
    sums_by_class,
)
from vicinal._kernels._jit import jit

# Below these shares a variance or an eigenvalue is rounding noise, not a direction.
_NO_VARIANCE = 1e-10
_NO_EIGENVALUE = 1e-8

# A NumPy array, a SciPy sparse array or matrix, or an array of another library.
Matrix = Any

# --- sums over rows -------------------------------------------------------------------------------


def _wide_blocks(X: Any, bytes_per_row: int) -> Iterator[tuple[slice, Any]]:
    """Yield blocks of rows in double precision."""
    xp = namespace(X)
    for rows in row_blocks(X.shape[0], bytes_per_row, **block_limits(X)):
        yield rows, xp.astype(X[rows, :], xp.float64, copy=False)


def column_means(X: Matrix, weights: Any) -> np.ndarray:
    """Weighted mean of every column, in double precision."""
    if sp.issparse(X):
        return np.asarray(X.T @ weights).ravel().astype(np.float64) / weights.sum()
    sums = sum(weights[rows] @ Z for rows, Z in _wide_blocks(X, 16 * X.shape[1]))
    return as_numpy(sums / namespace(X).sum(weights))


def constant_columns(X: Matrix) -> np.ndarray:
    """Return which columns hold one value only."""
    if sp.issparse(X):
        columns = X.tocsc()
        low, high = (part.toarray() for part in (columns.min(axis=0), columns.max(axis=0)))
    else:
        low, high = namespace(X).min(X, axis=0), namespace(X).max(X, axis=0)
    return as_numpy(low == high).ravel()


def take_columns(X: Matrix, columns: np.ndarray) -> Matrix:
    """Return some columns, without a copy when they are all columns."""
    if np.array_equal(columns, np.arange(X.shape[1])):
        return X
    return (
        X[:, columns] if sp.issparse(X) else namespace(X).take(X, on_device_of(columns, X), axis=1)
    )


def class_sums(X: Matrix, codes: Any, weights: Any, n_classes: int) -> tuple:
    """Weight and weighted sum of every class: (n_classes,), (n_classes, n_features)."""
    if sp.issparse(X):
        shape = (n_classes, len(codes))
        memberships = sp.csr_array((weights, (codes, np.arange(len(codes)))), shape=shape)
        counts = np.bincount(codes, weights=weights, minlength=n_classes)
        return counts, np.asarray((memberships @ X).toarray(), np.float64)
    parts = (
        sums_by_class(Z, codes[rows], weights[rows], n_classes)
        for rows, Z in _wide_blocks(X, 16 * X.shape[1] + 16 * n_classes)
    )
    counts, sums = reduce(add_tuples, parts)
    return as_numpy(counts), as_numpy(sums)


def scatter_matrix(
    X: Matrix, weights: np.ndarray, centers: np.ndarray, codes: np.ndarray | None = None
) -> np.ndarray:
    r"""Return :math:`\sum_n w_n (x_n - c_{k(n)})(x_n - c_{k(n)})^\top`, (n_features, n_features).

    ``centers`` is one row, the mean, or one row per code: the weighted means of the rows they
    stand for (sparse input relies on that).
    """
    centers = np.atleast_2d(centers)
    if sp.issparse(X):
        scaled = sp.csr_array(X).astype(np.float64).multiply(np.sqrt(weights)[:, None]).tocsr()
        gram = (scaled.T @ scaled).toarray()
        if codes is None:
            return gram - weights.sum() * np.outer(centers[0], centers[0])
        counts = np.bincount(codes, weights=weights, minlength=len(centers))
        return gram - (centers.T * counts) @ centers
    xp = namespace(X)
    centers = xp.asarray(centers, dtype=xp.float64, device=compat.device(X))
    S: Any = 0.0
    for rows, Z in _wide_blocks(X, 40 * X.shape[1]):
        center = centers[0, :] if codes is None else xp.take(centers, codes[rows], axis=0)
        Z = (Z - center) * xp.sqrt(weights[rows])[:, None]
        S = S + Z.T @ Z
    return as_numpy(S)


def centered_rows(X: Matrix, weights: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Return rows on the host whose product ``Z' Z`` is the scatter matrix, (n_samples, p)."""
    X = X.toarray() if sp.issparse(X) else as_numpy(X)
    return (X.astype(np.float64) - mean) * np.sqrt(as_numpy(weights))[:, None]


def row_space(Z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return coordinates of rows in an orthonormal basis of them, and the basis as rows."""
    left, singular, basis = scipy.linalg.svd(Z, full_matrices=False)
    kept = singular > max(Z.shape) * np.finfo(np.float64).eps * singular[0]
    return left[:, kept] * singular[kept], basis[kept]


# --- orthogonal maps ------------------------------------------------------------------------------


def fix_signs(components: np.ndarray) -> np.ndarray:
    """Make the largest entry of every row positive, so that a direction has one name only."""
    largest = np.abs(components).argmax(axis=1)
    signs = np.sign(components[np.arange(len(components)), largest])
    return components * signs[:, None]


def principal_directions(S: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues (descending) and unit eigenvectors (as rows) of ``S``, noise left out."""
    values, vectors = scipy.linalg.eigh(S)
    values, vectors = values[::-1], vectors[:, ::-1]
    kept = values > len(S) * np.finfo(np.float64).eps * values[0]
    return values[kept], fix_signs(vectors[:, kept].T)


def leading_principal_directions(
    X: Matrix, weights: np.ndarray, mean: np.ndarray, n_directions: int, start: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the leading eigenpairs of the scatter matrix without forming it.

    Lanczos iterations on the implicitly centred data, from the vector ``start`` of length
    ``min(X.shape)``.
    """
    root = np.sqrt(weights)

    def forward(v):
        v = np.ravel(v)
        return root * (X @ v - mean @ v)

    def backward(u):
        u = root * np.ravel(u)
        return X.T @ u - mean * u.sum()

    operator = LinearOperator(X.shape, matvec=forward, rmatvec=backward, dtype=np.float64)
    _, singular, rows = svds(operator, k=n_directions, v0=start)
    values, rows = singular[::-1] ** 2, rows[::-1]
    kept = values > max(X.shape) * np.finfo(np.float64).eps * values[0]
    return values[kept], fix_signs(rows[kept])


def discriminant_directions(
    S_between: np.ndarray, S_within: np.ndarray, ridge: float, n_features: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    r"""Solve :math:`(S_b + S_w) v = \lambda (S_w + \rho I) v`, :math:`\rho` relative to the trace.

    The matrices are those of ``n_features`` columns, or of coordinates in the row space: beyond it
    every eigenvalue is zero.

    Returns the eigenvalues in descending order and the eigenvectors as rows of unit length: in
    their natural scale they whiten the data, which would leave a kernel width chosen for the
    original features without meaning.
    """
    # Perfectly separated data have no scatter within classes; the total then sets the scale.
    within, between = np.trace(S_within), np.trace(S_between)
    rho = ridge * max(within, _NO_VARIANCE * between) / (n_features or len(S_within))
    # Subtracting the right side from the left shifts every eigenvalue by one: most of them lie
    # just below one, and their differences would be lost in rounding.
    identity = rho * np.eye(len(S_within))
    values, vectors = scipy.linalg.eigh(S_between - identity, S_within + identity)
    values, vectors = values[::-1] + 1.0, vectors[:, ::-1]
    kept = values > _NO_EIGENVALUE
    components = vectors[:, kept].T
    components /= np.linalg.norm(components, axis=1, keepdims=True)
    return values[kept], fix_signs(components)


# --- block Cholesky -------------------------------------------------------------------------------


def solve_semidefinite(A: np.ndarray, B: np.ndarray, rtol: float) -> np.ndarray:
    """Return ``A^+ B`` for a positive semidefinite matrix."""
    try:
        factor = scipy.linalg.cho_factor(A)
    except np.linalg.LinAlgError:
        return scipy.linalg.pinvh(A, rtol=rtol) @ B
    # Cholesky passes on an exactly dependent column with a pivot of the size of rounding.
    pivots = np.diag(factor[0]) ** 2
    if pivots.min() <= rtol * pivots.max():
        return scipy.linalg.pinvh(A, rtol=rtol) @ B
    return scipy.linalg.cho_solve(factor, B)


def block_elimination(S: np.ndarray, blocks: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    r"""Make ``S`` block diagonal by elimination: ``W S W^T`` has no mass across blocks.

    Row ``c`` of ``W`` is column ``c`` less its least-squares prediction from the blocks before
    its own. The elimination works on correlations, so that columns of unlike scale do not decide
    what counts as singular.

    Returns
    -------
    W : ndarray of shape (n_features, n_features)
        Rows of columns that the blocks before them explain completely are zero.
    kept : ndarray of bool of shape (n_features,)
        The other rows.
    """
    n_features = len(S)
    scale = np.sqrt(np.diag(S))
    A = S / np.outer(scale, scale)
    W = np.eye(n_features)
    kept = np.ones(n_features, dtype=bool)
    for i, block in enumerate(blocks):
        explained = block[np.diag(A)[block] <= _NO_VARIANCE]
        kept[explained] = False
        A[explained, :] = A[:, explained] = 0.0
        W[explained] = 0.0
        live = block[kept[block]]
        if i + 1 == len(blocks) or not len(live):
            continue
        later = np.concatenate(blocks[i + 1 :])
        within, across = A[np.ix_(live, live)], A[np.ix_(live, later)]
        gain = solve_semidefinite(within, across, _NO_VARIANCE).T  # (later, live)
        W[later] -= gain @ W[live]
        A[np.ix_(later, later)] -= gain @ A[np.ix_(live, later)]
        A[np.ix_(later, live)] = A[np.ix_(live, later)] = 0.0
    return W * scale[:, None] / scale, kept


def row_block_elimination(Z: np.ndarray, blocks: list[np.ndarray]) -> tuple:
    r"""Return ``block_elimination`` of the scatter matrix ``Z' Z``, which is not formed.

    For fewer rows than columns. With :math:`U_i S_i V_i^\top` the residuals of the live columns of
    block :math:`i`, each later column loses :math:`U_i U_i^\top` of its residual, so
    :math:`W^\top = I - \sum_i B_i T_i` with :math:`T_i` the coordinates of the later columns and
    :math:`B_i = W_i^\top V_i S_i^{-1}`. The ranks of all blocks add up to that of Z.

    Returns
    -------
    W : sparse array of shape (n_features, n_features)
        Rows of columns that the blocks before them explain completely are empty.
    kept : ndarray of bool of shape (n_features,)
        The other rows.
    """
    n_features = Z.shape[1]
    scale = np.linalg.norm(Z, axis=0)
    R = Z / scale
    kept = np.ones(n_features, dtype=bool)
    B, T = np.zeros((n_features, 0)), np.zeros((0, n_features))
    for i, block in enumerate(blocks):
        kept[block] = (R[:, block] ** 2).sum(axis=0) > _NO_VARIANCE
        live = block[kept[block]]
        if i + 1 == len(blocks) or not len(live):
            continue
        left, singular, right = scipy.linalg.svd(R[:, live], full_matrices=False)
        leading = singular**2 > _NO_VARIANCE * singular[0] ** 2
        left, inverse = left[:, leading], right[leading].T / singular[leading]
        gain = -B @ (T[:, live] @ inverse)
        gain[live] += inverse
        later = np.concatenate(blocks[i + 1 :])
        coordinates = np.zeros((left.shape[1], n_features))
        coordinates[:, later] = left.T @ R[:, later]
        R[:, later] -= left @ coordinates[:, later]
        B, T = np.hstack([B, gain]), np.vstack([T, coordinates])
    mixed = np.flatnonzero(kept & T.any(axis=0))
    selection = sp.csr_array(
        (np.ones(len(mixed)), (mixed, np.arange(len(mixed)))), shape=(n_features, len(mixed))
    )
    W = sp.diags_array(kept.astype(np.float64)) - selection @ sp.csr_array((B @ T[:, mixed]).T)
    return sp.csr_array(sp.diags_array(scale) @ W @ sp.diags_array(1.0 / scale)), kept


# --- approximate block decomposition --------------------------------------------------------------


@jit
def _run_products(data, indices, indptr, weights, n_blocks):
    """Sum products of entries of one row that share a position; indices are pos * m + block."""
    G = np.zeros((n_blocks, n_blocks))
    for row in range(len(indptr) - 1):
        first, end = indptr[row], indptr[row + 1]
        while first < end:
            position = indices[first] // n_blocks
            last = first
            while last < end and indices[last] // n_blocks == position:
                last += 1
            for a in range(first, last):
                for b in range(a, last):
                    i, j = indices[a] % n_blocks, indices[b] % n_blocks
                    product = weights[row] * data[a] * data[b]
                    G[i, j] += product
                    if i != j:
                        G[j, i] += product
            first = last
    return G


def block_gram(
    X: Matrix, weights: np.ndarray, mean: np.ndarray, blocks: list[np.ndarray]
) -> np.ndarray:
    r"""Return :math:`G_{ij} = \sum_n w_n\, \tilde x_n^{(i)} \cdot \tilde x_n^{(j)}`, (m, m).

    ``blocks`` lists the columns of every block; narrow blocks count as padded with zeros, and
    :math:`\tilde x` is the row less the mean.
    """
    m = len(blocks)
    width = max(len(block) for block in blocks)
    if sp.issparse(X):
        return _sparse_block_gram(X.tocsr(), weights, mean, blocks, width)
    xp = namespace(X)
    center = xp.asarray(mean, dtype=xp.float64, device=compat.device(X))
    G: Any = 0.0
    for rows, Z in _wide_blocks(X, 16 * X.shape[1] + 24 * m * width):
        Z = (Z - center) * xp.sqrt(weights[rows])[:, None]
        flat = xp.reshape(_pad_blocks(Z, blocks, width), (m, -1))
        G = G + flat @ flat.T
    return as_numpy(G)


def _sparse_block_gram(X, weights, mean, blocks, width):
    """``block_gram`` of CSR rows, one pass over the entries sorted by position within blocks."""
    m = len(blocks)
    key = np.full(X.shape[1], -1, dtype=np.int64)
    for i, block in enumerate(blocks):
        key[block] = np.arange(len(block)) * m + i
    held = key[X.indices] >= 0
    indptr = np.r_[0, np.cumsum(held)][X.indptr]
    keyed = sp.csr_array(
        (X.data[held].astype(np.float64), key[X.indices[held]], indptr),
        shape=(X.shape[0], width * m),
    )
    keyed.sort_indices()
    G = _run_products(
        keyed.data,
        keyed.indices.astype(np.int64),
        keyed.indptr.astype(np.int64),
        weights.astype(np.float64),
        m,
    )
    padded = _pad_blocks(mean[None], blocks, width)[:, 0]
    return G - weights.sum() * (padded @ padded.T)


def _pad_blocks(X: Any, blocks: list[np.ndarray], width: int) -> Any:
    """Stack the blocks of columns, narrow ones padded with zeros: (m, n, width)."""
    xp = namespace(X)
    # Narrow blocks are padded with a column of zeros.
    columns_of = np.full((len(blocks), width), X.shape[1])
    for i, block in enumerate(blocks):
        columns_of[i, : len(block)] = block
    X = xp.concat([X, xp.zeros_like(X[:, :1])], axis=1)
    columns = xp.asarray(columns_of.ravel(), device=compat.device(X))
    stacked = xp.reshape(xp.take(X, columns, axis=1), (X.shape[0], len(blocks), width))
    return xp.permute_dims(stacked, (1, 0, 2))


def map_rows(X: Matrix, matrix: Any) -> Any:
    """Return ``X @ matrix`` for a matrix from the host, dense; where the rows are."""
    mapped = X @ on_device_of(matrix, X)
    return mapped.toarray() if sp.issparse(mapped) else mapped


def mix_blocks(X: Matrix, blocks: list[np.ndarray], mixture: np.ndarray) -> Matrix:
    """Return ``sum_j mixture[j] * X[:, blocks[j]]``, of the width of the widest block."""
    matrix = mixing_matrix(X.shape[1], blocks, mixture)
    if sp.issparse(X):
        return (X @ matrix.astype(X.dtype)).tocsr()
    return namespace(X).astype(map_rows(X, matrix), X.dtype, copy=False)


def mixing_matrix(n_features: int, blocks: list[np.ndarray], mixture: np.ndarray) -> sp.csr_array:
    """Return the sparse ``T`` with ``mix_blocks(X) = X T``: one entry per used column."""
    # Indices of four bytes where they suffice: scikit-learn's linear models take no others.
    index = np.int32 if n_features < np.iinfo(np.int32).max else np.int64
    columns = np.concatenate(blocks).astype(index)
    positions = np.concatenate([np.arange(len(block), dtype=index) for block in blocks])
    shares = np.repeat(mixture, [len(block) for block in blocks])
    width = max(len(block) for block in blocks)
    return sp.csr_array((shares, (columns, positions)), shape=(n_features, width))
