"""Where classes mix, in a table larger than memory."""

from numbers import Integral, Real
from typing import Any

import dask.array as da
import numpy as np
from dask import delayed

from vicinal._base import Block, Survey, add_tuples, survey
from vicinal.distributed._blocks import DaskBlocks, tree
from vicinal.distributed._compute import compute
from vicinal.distributed._neighbors import lazy_rows, lazy_search
from vicinal.neighbors.blocks import Ball, BlockSearch, Nearest, NeighborRows

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


def _neighbor_squares(found: NeighborRows, block: Block, k: int) -> tuple[float, float]:
    # The row itself is at distance 0, so that the k-th other one is the next but k.
    distances = found.pairs.distances.reshape(len(block), k + 1)[:, k]
    return float(block.sample_weight @ distances**2), float(block.sample_weight.sum())


def _foreign_shares(found: NeighborRows, block: Block, bandwidth2: float) -> np.ndarray:
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
