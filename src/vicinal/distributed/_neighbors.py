"""Exact nearest neighbours among rows that no machine holds: search every block, merge the best."""

from collections.abc import Callable
from numbers import Integral
from typing import Any

import dask.array as da
import numpy as np
from dask import delayed

from vicinal._base import Block
from vicinal.distributed._blocks import DaskBlocks
from vicinal.neighbors.blocks import BlockSearch, Nearest, NeighborRows, merge, search_block


def kneighbors(
    X: Any, Q: Any, n_neighbors: int, *, metric: str = "euclidean", metric_params: Any = None
):
    """Find the nearest rows of ``X`` for every row of ``Q``, exactly, block by block.

    Every block of ``X`` is searched for every block of ``Q`` with the library's own search, and the
    best are merged by a tree. Distances are measured by differences and ties are broken by
    position, so that the answer does not depend on the blocks.

    Parameters
    ----------
    X : dask array or data frame of shape (n_samples, n_features)
        The rows searched.
    Q : dask array or data frame of shape (n_queries, n_features)
        The queries. Each of its blocks visits all blocks of ``X``: few large ones cost fewer
        visits, and ``len(block) * n_neighbors`` numbers must fit a worker some thirty times.
    n_neighbors : int
        How many neighbours of each query.
    metric : str, default="euclidean"
        Any metric of scikit-learn.
    metric_params : dict, default=None
        Its further arguments.

    Returns
    -------
    distances : dask array of shape (n_queries, n_neighbors)
        Not computed yet; ascending in each row.
    positions : dask array of shape (n_queries, n_neighbors)
        Where the neighbours stand in ``X``, counted from its first row.

    See Also
    --------
    local_predict : Fits a model to the neighbours of each query.
    vicinal.neighbors.NeighborSearch : The search within one machine's memory.

    Notes
    -----
    The k nearest of the whole are among the k nearest of the parts, so merging loses nothing. With
    b blocks of rows, q queries and k neighbours, b q k pairs travel, each once, and no more than
    eight partial answers meet in one task. Where the lengths of the blocks of ``X`` are unknown, as
    in a data frame, one pass counts them first.

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
    check_columns(rows, queries)
    lengths = block_lengths(rows, X)
    if n_neighbors > sum(lengths):
        raise ValueError(
            f"n_neighbors={n_neighbors} exceeds the {sum(lengths)} rows of X; lower n_neighbors."
        )
    rows = rows.located(lengths)
    search = BlockSearch(metric=metric, metric_params=metric_params)
    as_table = delayed(_as_table, pure=True, nout=2)
    distances, positions = [], []
    for rows_asked, length in zip(lazy_rows(queries), query_lengths(Q, len(queries)), strict=True):
        found = lazy_search(rows, search, rows_asked, Nearest(int(n_neighbors)))
        near, where = as_table(found, int(n_neighbors))
        shape = (length, int(n_neighbors))
        distances.append(da.from_delayed(near, shape, dtype=np.float64))
        positions.append(da.from_delayed(where, shape, dtype=np.int64))
    return (
        da.concatenate(distances, allow_unknown_chunksizes=True),
        da.concatenate(positions, allow_unknown_chunksizes=True),
    )


def lazy_search(blocks: DaskBlocks, search: BlockSearch, queries: Any, rule: Any) -> Any:
    """Return what is found for queries (lazy or not) among located rows, lazily."""
    # Queries are sent once, not per block.
    shared = delayed(search, pure=True), [delayed(queries, pure=True)], rule
    return blocks.lazy_totals(search_block, 1, *shared, combine=merge)[0]


def _as_table(found: NeighborRows, width: int) -> tuple[np.ndarray, np.ndarray]:
    shape = (found.n_queries, width)
    return found.pairs.distances.reshape(shape), found.pairs.positions.reshape(shape)


def lazy_rows(blocks: DaskBlocks, place: Callable | None = None) -> list:
    """Return the rows of every block, lazily, in the coordinates of a search."""
    as_rows = delayed(_placed_rows, pure=True)
    place = delayed(place, pure=True)
    return [as_rows(part, place) for part in blocks.parts]


def _placed_rows(block: Block, place):
    return block.X if place is None else place(block.X)


def check_columns(rows: DaskBlocks, queries: DaskBlocks) -> None:
    """Refuse queries of another width, or under other names."""
    if rows.n_features != queries.n_features:
        raise ValueError(
            f"Q has {queries.n_features} columns, but X has {rows.n_features}; ask in the columns "
            "of X."
        )
    own, asked = rows.feature_names, queries.feature_names
    if own is not None and asked is not None and list(own) != list(asked):
        raise ValueError(
            f"Q has the columns {list(asked)}, but X has {list(own)}; bring them into one order."
        )


def block_lengths(blocks: DaskBlocks, X: Any) -> list[int]:
    """Return the numbers of rows; where the collection does not tell, one pass counts them."""
    known = query_lengths(X, len(blocks))
    return blocks.gather(len) if np.isnan(known).any() else [int(length) for length in known]


def query_lengths(X: Any, n_blocks: int) -> list:
    """Return what a collection tells of the lengths of its blocks, NaN where it does not."""
    return list(X.chunks[0]) if hasattr(X, "chunks") else [np.nan] * n_blocks
