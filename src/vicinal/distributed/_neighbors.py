"""Exact nearest neighbours among rows that no machine holds, and where classes overlap."""

from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import dask.array as da
import numpy as np
from dask import delayed

from vicinal._base import Survey, TrainingData, add_tuples, survey
from vicinal.distributed._blocks import DaskBlocks, compute, tree
from vicinal.neighbors.blocks import Ball, BlockSearch, Nearest, NeighborRows, merge, search_block


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


def _placed_rows(block: TrainingData, place):
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


# The neighbour whose mean squared distance is the bandwidth, as in memory.
_SCALE_NEIGHBOR = 7


def uncertainty_map(
    X: Any,
    y: Any,
    n_neighbors: int,
    *,
    bandwidth: str | float = "auto",
    sample_weight: Any = None,
    verbose: int = 0,
):
    r"""Tell how uncertain nearest-neighbour classification is at each row of a large table.

    The value of a row is the share of its ``n_neighbors`` nearest rows, weighted by similarity,
    that belong to other classes. The neighbours are found by exact search in every block; the
    values equal those in memory and do not depend on the blocks.

    Parameters
    ----------
    X : dask array or data frame of shape (n_samples, n_features)
        Rows.
    y : dask array or series of shape (n_samples,)
        Labels.
    n_neighbors : int
        How many neighbours are counted; neighbours at the same distance as the last one too.
    bandwidth : "auto" or float, default="auto"
        The :math:`\sigma` of the similarity. ``"auto"``: :math:`\sigma^2` is the mean squared
        distance of a row to its seventh neighbour, for which one search is made at once.
    sample_weight : dask array or series of shape (n_samples,), default=None
        How much each row counts as a neighbour; positive.
    verbose : int, default=0
        With 1, Dask's progress bar for the passes made at once.

    Returns
    -------
    dask array of shape (n_samples,)
        Not computed yet: the uncertainty of each row, in [0, 1]. It is the weight that places a
        :class:`~vicinal.uncertainty.ResponsibilityMixture` where classes mix.

    See Also
    --------
    vicinal.uncertainty.uncertainty_map : The same in memory, with its definition.
    kneighbors : The search alone.

    Notes
    -----
    Every block of rows visits every block, so the work grows with the square of the number of
    rows: two million rows of 50 columns are :math:`2 \times 10^{14}` multiplications. ``"class"``,
    as many neighbours as the class has rows, is left to tables that memory holds.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from vicinal.distributed import uncertainty_map
    >>> X = da.from_array(np.arange(6.0)[:, None], chunks=(4, 1))
    >>> y = da.from_array(np.array([0, 0, 0, 1, 1, 1]), chunks=4)
    >>> uncertainty_map(X, y, 2, bandwidth=1.0).compute().round(2)
    array([0. , 0. , 0.5, 0.5, 0. , 0. ])
    """
    if not isinstance(n_neighbors, Integral) or n_neighbors < 1:
        raise ValueError(
            f"n_neighbors={n_neighbors!r} must be an integer of at least 1; counting as many as "
            "the class has rows is for tables that memory holds."
        )
    if bandwidth != "auto" and not (isinstance(bandwidth, Real) and bandwidth > 0):
        raise ValueError(f'bandwidth={bandwidth!r} must be "auto" or a positive number.')
    if sample_weight is not None and not compute([sample_weight.min()], verbose=verbose)[0] > 0:
        raise ValueError(
            "sample_weight must be positive, for every row gets a value; leave rows of weight 0 "
            "out first."
        )
    blocks, found = survey(DaskBlocks.of(X, y, sample_weight, verbose=verbose), has_classes=True)
    search = BlockSearch(carry=("y", "sample_weight"))
    if bandwidth == "auto":
        bandwidth2 = _mean_neighbor_distance(blocks, found, verbose)
    else:
        bandwidth2 = float(bandwidth) ** 2
    bandwidth2 = max(bandwidth2, float(np.finfo(np.float64).tiny))
    rule = Ball(float(min(n_neighbors, found.n_rows - 1)))
    share = delayed(_foreign_shares, pure=True)
    values = [
        da.from_delayed(
            share(lazy_search(blocks, search, rows, rule), part, bandwidth2), (length,), float
        )
        for rows, part, length in zip(lazy_rows(blocks), blocks.parts, found.lengths, strict=True)
    ]
    return da.concatenate(values)


def _mean_neighbor_distance(blocks: DaskBlocks, found: Survey, verbose: int) -> float:
    """Return the weighted mean over rows of the squared distance to the seventh neighbour."""
    k = min(_SCALE_NEIGHBOR, found.n_rows - 1)
    measure = delayed(_neighbor_squares, pure=True)
    parts = [
        measure(lazy_search(blocks, BlockSearch(), rows, Nearest(k + 1)), part, k)
        for rows, part in zip(lazy_rows(blocks), blocks.parts, strict=True)
    ]
    total, weight = compute([tree(parts, add_tuples)], verbose=verbose)[0]
    return float(total / weight)


def _neighbor_squares(found: NeighborRows, block: TrainingData, k: int) -> tuple[float, float]:
    # The row itself is at distance 0, so that the k-th other one is the next but k.
    distances = found.pairs.distances.reshape(len(block), k + 1)[:, k]
    return float(block.sample_weight @ distances**2), float(block.sample_weight.sum())


def _foreign_shares(found: NeighborRows, block: TrainingData, bandwidth2: float) -> np.ndarray:
    """Return the share of similarity with other classes, of each row of a block."""
    pairs = found.pairs.take(found.pairs.positions != found.pairs.queries + block.start)
    squares, queries = pairs.distances**2, pairs.queries
    nearest = np.full(len(block), np.inf)
    np.minimum.at(nearest, queries, squares)
    labels, weights = found.columns
    rows = np.searchsorted(found.positions, pairs.positions)
    with np.errstate(over="ignore"):
        similarity = np.exp((nearest[queries] - squares) / bandwidth2) * weights[rows]
    foreign = similarity * (labels[rows] != block.y[queries])
    whole = np.bincount(queries, similarity, minlength=len(block))
    return np.bincount(queries, foreign, minlength=len(block)) / whole
