"""Exact nearest neighbours in Dask collections, and a map of class overlap."""

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
    local_predict : Fits a model to the neighbours of each query.
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
    for query_block, length in zip(lazy_rows(queries), query_lengths(Q, len(queries)), strict=True):
        found = lazy_search(rows, search, query_block, Nearest(int(n_neighbors)))
        near, where = as_table(found, int(n_neighbors))
        shape = (length, int(n_neighbors))
        distances.append(da.from_delayed(near, shape, dtype=np.float64))
        positions.append(da.from_delayed(where, shape, dtype=np.int64))
    return (
        da.concatenate(distances, allow_unknown_chunksizes=True),
        da.concatenate(positions, allow_unknown_chunksizes=True),
    )


def lazy_search(blocks: DaskBlocks, search: BlockSearch, queries: Any, rule: Any) -> Any:
    """Return the lazy result of a search of queries in located blocks."""
    # Queries are sent once, not for every block.
    shared = delayed(search, pure=True), [delayed(queries, pure=True)], rule
    return blocks.lazy_totals(search_block, 1, *shared, combine=merge)[0]


def _as_table(found: NeighborRows, width: int) -> tuple[np.ndarray, np.ndarray]:
    shape = (found.n_queries, width)
    return found.pairs.distances.reshape(shape), found.pairs.positions.reshape(shape)


def lazy_rows(blocks: DaskBlocks, transform: Callable | None = None) -> list:
    """Return the lazy rows of every block, in the coordinates of a search."""
    as_rows = delayed(_transformed_rows, pure=True)
    transform = delayed(transform, pure=True)
    return [as_rows(part, transform) for part in blocks.parts]


def _transformed_rows(block: TrainingData, transform):
    return block.X if transform is None else transform(block.X)


def check_columns(rows: DaskBlocks, queries: DaskBlocks) -> None:
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


def block_lengths(blocks: DaskBlocks, X: Any) -> list[int]:
    """Return the numbers of rows of the blocks; one pass counts them if they are unknown."""
    known = query_lengths(X, len(blocks))
    return blocks.gather(len) if np.isnan(known).any() else [int(length) for length in known]


def query_lengths(X: Any, n_blocks: int) -> list:
    """Return the known lengths of the blocks of a collection, NaN if they are unknown."""
    return list(X.chunks[0]) if hasattr(X, "chunks") else [np.nan] * n_blocks


# The bandwidth is the mean squared distance to this neighbour, as in memory.
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
    r"""Compute the uncertainty of nearest-neighbour classification at each row of a large table.

    The uncertainty of a row is the share of other classes among its ``n_neighbors`` nearest rows,
    weighted by similarity. The search is exact: values equal those in memory.

    Parameters
    ----------
    X : dask array or data frame of shape (n_samples, n_features)
        Rows.
    y : dask array or series of shape (n_samples,)
        Labels.
    n_neighbors : int
        Number of neighbours; further neighbours at the distance of the last one are included.
    bandwidth : "auto" or float, default="auto"
        The :math:`\sigma` of the similarity. ``"auto"``: :math:`\sigma^2` is the mean squared
        distance of a row to its seventh neighbour, which is computed immediately.
    sample_weight : dask array or series of shape (n_samples,), default=None
        Positive weights of the rows as neighbours.
    verbose : int, default=0
        With 1, Dask's progress bar for the passes made before the function returns.

    Returns
    -------
    dask array of shape (n_samples,)
        Lazy uncertainty of each row, in [0, 1]. As ``sample_weight`` it fits a
        :class:`~vicinal.uncertainty.ResponsibilityMixture` to regions where classes overlap.

    See Also
    --------
    vicinal.uncertainty.uncertainty_map : The same in memory, with its definition.
    kneighbors : The search alone.

    Notes
    -----
    The cost is quadratic in the number of rows: two million rows of 50 columns need
    :math:`2 \times 10^{14}` multiplications. ``n_neighbors="class"`` is available in memory only.

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
            f"n_neighbors={n_neighbors!r} must be an integer of at least 1; 'class' is available "
            "in vicinal.uncertainty.uncertainty_map only."
        )
    if bandwidth != "auto" and not (isinstance(bandwidth, Real) and bandwidth > 0):
        raise ValueError(f'bandwidth={bandwidth!r} must be "auto" or a positive number.')
    if sample_weight is not None and not compute([sample_weight.min()], verbose=verbose)[0] > 0:
        raise ValueError(
            "sample_weight must be positive for every row; drop rows of weight 0 first."
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
    # Column 0 is the row itself.
    distances = found.pairs.distances.reshape(len(block), k + 1)[:, k]
    return float(block.sample_weight @ distances**2), float(block.sample_weight.sum())


def _foreign_shares(found: NeighborRows, block: TrainingData, bandwidth2: float) -> np.ndarray:
    """Return the share of other classes in the similarity to each row of a block."""
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
