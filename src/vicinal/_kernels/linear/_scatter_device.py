"""Sums over rows of device arrays that decompositions need; results of the features' size.

The twin of the sums in ``_scatter``: rows are read where they are, in double precision, block by
block; means and scatter matrices come back as NumPy arrays.
"""

from collections.abc import Iterator
from typing import Any

import array_api_compat as compat
import numpy as np

from vicinal._base import as_numpy, free_memory, namespace, row_blocks


def _wide_blocks(X: Any, bytes_per_row: int) -> Iterator[tuple[slice, Any]]:
    """Yield blocks of rows in double precision."""
    xp = namespace(X)
    for rows in row_blocks(X.shape[0], bytes_per_row, working_memory=free_memory(X)):
        yield rows, xp.astype(X[rows, :], xp.float64)


def device_column_means(X: Any, weights: Any) -> np.ndarray:
    """Weighted mean of every column."""
    sums = sum(weights[rows] @ Z for rows, Z in _wide_blocks(X, 16 * X.shape[1]))
    return as_numpy(sums / namespace(X).sum(weights))


def device_constant_columns(X: Any) -> np.ndarray:
    """Tell which columns hold one value only."""
    xp = namespace(X)
    return as_numpy(xp.max(X, axis=0) == xp.min(X, axis=0))


def device_class_means(X: Any, codes: Any, weights: Any, n_classes: int) -> tuple:
    """Weight and mean of every class, on the host: (n_classes,), (n_classes, n_features)."""
    xp = namespace(X)
    kinds = xp.arange(n_classes, device=compat.device(X))
    counts: Any = 0.0
    sums: Any = 0.0
    for rows, Z in _wide_blocks(X, 16 * X.shape[1] + 16 * n_classes):
        member = xp.astype(codes[rows][:, None] == kinds[None, :], xp.float64)
        member = member * weights[rows][:, None]
        counts = counts + xp.sum(member, axis=0)
        sums = sums + member.T @ Z
    counts, sums = as_numpy(counts), as_numpy(sums)
    return counts, sums / counts[:, None]


def device_scatter_matrix(X: Any, weights: Any, centers: np.ndarray, codes: Any = None) -> Any:
    """Scatter about one centre, or about that of each row's class; see ``scatter_matrix``."""
    xp = namespace(X)
    centers = xp.asarray(np.atleast_2d(centers), dtype=xp.float64, device=compat.device(X))
    S: Any = 0.0
    for rows, Z in _wide_blocks(X, 40 * X.shape[1]):
        center = centers[0, :] if codes is None else xp.take(centers, codes[rows], axis=0)
        Z = (Z - center) * xp.sqrt(weights[rows])[:, None]
        S = S + Z.T @ Z
    return as_numpy(S)


def device_block_gram(X: Any, weights: Any, mean: np.ndarray, blocks: list) -> np.ndarray:
    """Inner products of blocks of columns about the mean; see ``block_gram``."""
    xp, device = namespace(X), compat.device(X)
    m, width = len(blocks), max(len(block) for block in blocks)
    mean = xp.asarray(mean, dtype=xp.float64, device=device)
    # Narrow blocks are padded with a column of zeros, kept beside the others.
    places = np.full((m, width), X.shape[1])
    for i, block in enumerate(blocks):
        places[i, : len(block)] = block
    columns = xp.asarray(places.ravel(), device=device)
    G: Any = 0.0
    for rows, Z in _wide_blocks(X, 16 * X.shape[1] + 24 * m * width):
        Z = (Z - mean) * xp.sqrt(weights[rows])[:, None]
        Z = xp.concat([Z, xp.zeros_like(Z[:, :1])], axis=1)
        flat = xp.reshape(xp.take(Z, columns, axis=1), (Z.shape[0], m, width))
        flat = xp.reshape(xp.permute_dims(flat, (1, 0, 2)), (m, -1))
        G = G + flat @ flat.T
    return as_numpy(G)


def device_map(X: Any, matrix: np.ndarray) -> Any:
    """Return ``X @ matrix`` for a matrix from the host, in the precision of the rows."""
    xp = namespace(X)
    return X @ xp.asarray(np.ascontiguousarray(matrix), dtype=X.dtype, device=compat.device(X))


def device_columns(X: Any, columns: np.ndarray) -> Any:
    """Return some columns."""
    xp = namespace(X)
    return xp.take(X, xp.asarray(columns, device=compat.device(X)), axis=1)
