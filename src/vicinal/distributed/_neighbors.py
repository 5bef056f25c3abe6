"""Exact nearest neighbours in Dask collections."""

from functools import partial
from numbers import Integral
from typing import Any

import dask.array as da
import numpy as np
import scipy.sparse as sp
from dask import delayed
from sklearn.base import clone

from vicinal._base import TrainingData
from vicinal.distributed._blocks import DaskBlocks, tree
from vicinal.neighbors import NeighborSearch


def kneighbors(
    X: Any, Q: Any, n_neighbors: int, *, metric: str = "euclidean", metric_params: Any = None
):
    """Find the nearest rows of ``X`` for every row of ``Q``, exactly, block by block.

    Every block of ``X`` is searched for every block of ``Q``, and the results are merged by a tree
    of tasks. Ties are broken by row number, so that the result does not depend on the blocks.

    Parameters
    ----------
    X : dask array or data frame of shape (n_samples, n_features)
        The rows searched.
    Q : dask array or data frame of shape (n_queries, n_features)
        The queries, best in few large blocks, because each block of them is searched in all blocks
        of ``X``. A worker needs memory for about ``30 * len(block) * n_neighbors`` numbers.
    n_neighbors : int
        Number of neighbours of each query.
    metric : str, default="euclidean"
        Any metric of scikit-learn.
    metric_params : dict, default=None
        Further arguments of the metric.

    Returns
    -------
    distances : dask array of shape (n_queries, n_neighbors)
        Lazy distances, ascending in each row.
    positions : dask array of shape (n_queries, n_neighbors)
        Lazy row numbers of the neighbours in ``X``.

    See Also
    --------
    vicinal.neighbors.NeighborSearch : The search in memory.

    Notes
    -----
    The k nearest rows are among the k nearest rows of the blocks, so the result is exact. With b
    blocks of rows, q queries and k neighbours, b q k pairs are sent between workers, and one task
    merges at most eight partial results. If the lengths of the blocks of ``X`` are unknown, as in a
    data frame, one pass counts them first.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from vicinal.distributed import kneighbors
    >>> X = da.from_array(np.arange(10.0)[:, None], chunks=(4, 1))
    >>> Q = da.from_array(np.array([[3.2], [9.0]]), chunks=(1, 1))
    >>> distances, positions = kneighbors(X, Q, 2)
    >>> positions.compute()
    array([[3, 4],
           [9, 8]])
    >>> distances.compute().round(1)
    array([[0.2, 0.8],
           [0. , 1. ]])
    """
    if not isinstance(n_neighbors, Integral) or n_neighbors < 1:
        raise ValueError(f"n_neighbors={n_neighbors!r} must be an integer of at least 1.")
    rows, queries = DaskBlocks.of(X), DaskBlocks.of(Q)
    _check_columns(rows, queries)
    k, lengths = int(n_neighbors), _known_lengths(X, len(rows))
    if np.isnan(lengths).any():
        lengths = rows.gather(len)
    if k > sum(lengths):
        raise ValueError(
            f"n_neighbors={k} exceeds the {sum(lengths)} rows of X; lower n_neighbors."
        )
    rows = rows.located(lengths)
    search = NeighborSearch(metric=metric, metric_params=metric_params, n_jobs=1)
    nearest, merge = delayed(_nearest, pure=True), partial(_merge, k=k)
    distances, positions = [], []
    for own, length in zip(queries.parts, _known_lengths(Q, len(queries)), strict=True):
        found = tree([nearest(part, own, search, k) for part in rows.parts], merge)
        distances.append(da.from_delayed(found[0], (length, k), dtype=np.float64))
        positions.append(da.from_delayed(found[1], (length, k), dtype=np.int64))
    return (
        da.concatenate(distances, allow_unknown_chunksizes=True),
        da.concatenate(positions, allow_unknown_chunksizes=True),
    )


def _nearest(block: TrainingData, queries: TrainingData, search: Any, k: int) -> tuple:
    """Return distances and row numbers of at most ``k`` rows of a block for every query."""
    if len(block) == 0 or len(queries) == 0:
        shape = (len(queries), 0 if len(queries) else k)
        return np.empty(shape), np.empty(shape, dtype=np.int64)
    index = clone(search).fit(_writeable(block.X))
    distances, rows = index.kneighbors(_writeable(queries.X), min(k, len(block)))
    return distances, rows + block.start


def _merge(left: tuple, right: tuple, k: int) -> tuple:
    """Return the nearest of two results; a stable sort leaves ties in the order of the rows."""
    distances, positions = (np.hstack(pair) for pair in zip(left, right, strict=True))
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(distances, order, 1), np.take_along_axis(positions, order, 1)


def _writeable(values):
    """Return a writeable array: read-only ones would be compiled again."""
    return values if sp.issparse(values) else np.require(values, requirements=["C", "W"])


def _check_columns(rows: DaskBlocks, queries: DaskBlocks) -> None:
    """Raise for queries with another number of columns or other names."""
    if rows.n_features != queries.n_features:
        raise ValueError(
            f"Q has {queries.n_features} columns, but X has {rows.n_features}; both must have the "
            "same columns."
        )
    own, given = rows.feature_names, queries.feature_names
    if own is not None and given is not None and list(own) != list(given):
        raise ValueError(
            f"Q has the columns {list(given)}, but X has {list(own)}; use the same columns in the "
            "same order."
        )


def _known_lengths(X: Any, n_blocks: int) -> list:
    """Return the known lengths of the blocks of a collection, NaN if they are unknown."""
    return list(X.chunks[0]) if hasattr(X, "chunks") else [np.nan] * n_blocks
