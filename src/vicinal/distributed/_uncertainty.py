"""Where classes mix, in a table larger than memory: the uncertainty map and mixtures."""

from copy import deepcopy
from numbers import Integral, Real
from typing import Any

import dask.array as da
import numpy as np
from dask import delayed

from vicinal._base import draw_seeds
from vicinal._kernels.metric._mixture import (
    Components,
    Moments,
    add_moments,
    expectation_maximisation,
    label_moments,
    moments,
    scatter,
    update,
)
from vicinal.distributed._blocks import Block, Blocks, add_tuples, tree
from vicinal.distributed._compute import compute
from vicinal.distributed._fit import fits
from vicinal.distributed._moments import table_moments
from vicinal.distributed._neighbors import Ball, Found, Nearest, Shards, lazy_rows
from vicinal.distributed._sample import sample_rows
from vicinal.distributed._survey import Survey, survey
from vicinal.uncertainty import ResponsibilityMixture
from vicinal.uncertainty._base import best_mixture, nearest_center, weighted_centers

# The neighbour whose mean squared distance is the bandwidth, as in memory.
_SCALE_NEIGHBOR = 7
# Rows on which the starts of EM are found by k-means.
SAMPLE_ROWS = 100_000


# --- the map ---


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
    blocks, found = survey(Blocks.of(X, y, sample_weight), has_classes=True, verbose=verbose)
    shards = Shards(blocks, carry=("y", "sample_weight"))
    if bandwidth == "auto":
        bandwidth2 = _mean_neighbor_distance(blocks, found, verbose)
    else:
        bandwidth2 = float(bandwidth) ** 2
    bandwidth2 = max(bandwidth2, float(np.finfo(np.float64).tiny))
    rule = Ball(float(min(n_neighbors, found.n_rows - 1)))
    share = delayed(_foreign_shares, pure=True)
    values = [
        da.from_delayed(
            share(shards.lazy_search([rows], rule)[0], part, bandwidth2), (length,), float
        )
        for rows, part, length in zip(lazy_rows(blocks), blocks.parts, found.lengths, strict=True)
    ]
    return da.concatenate(values)


def _mean_neighbor_distance(blocks: Blocks, found: Survey, verbose: int) -> float:
    """Return the weighted mean over rows of the squared distance to the seventh neighbour."""
    k = min(_SCALE_NEIGHBOR, found.n_rows - 1)
    shards, measure = Shards(blocks), delayed(_neighbor_squares, pure=True)
    parts = [
        measure(shards.lazy_search([rows], Nearest(k + 1))[0], part, k)
        for rows, part in zip(lazy_rows(blocks), blocks.parts, strict=True)
    ]
    total, weight = compute([tree(parts, add_tuples)], verbose=verbose)[0]
    return float(total / weight)


def _neighbor_squares(found: Found, block: Block, k: int) -> tuple[float, float]:
    # The row itself is at distance 0, so that the k-th other one is the next but k.
    distances = found.pairs.distances.reshape(len(block), k + 1)[:, k]
    return float(block.sample_weight @ distances**2), float(block.sample_weight.sum())


def _foreign_shares(found: Found, block: Block, bandwidth2: float) -> np.ndarray:
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


# --- mixtures ---


@fits(ResponsibilityMixture)
def fit_mixture(model: ResponsibilityMixture, blocks: Blocks, verbose: int) -> None:
    """Weighted EM: one pass over the rows is an E-step of all starts.

    The starts are found on a sample; a table of no more than ``SAMPLE_ROWS`` rows is its own
    sample, and the fit then that in memory.
    """
    blocks, found = survey(blocks, has_classes=False, verbose=verbose)
    if found.n_rows < model.n_components:
        raise ValueError(
            f"n_components={model.n_components} exceeds the {found.n_rows} rows that count; lower "
            "n_components or give more rows."
        )
    spread = table_moments(found)
    center, variance = spread.mean, float(spread.variance.mean())
    ridge = model.reg_covar * (variance or 1.0) * found.weight / model.n_components
    total_scatter = blocks.total(_scatter, center, verbose=verbose)
    settings = total_scatter, ridge, model.covariance_type

    def e_step(asked: list[Components]) -> list[Moments]:
        shared = center, asked, model.covariance_type
        return blocks.total(_moments, *shared, combine=_add_all, verbose=verbose)

    ends = expectation_maximisation(
        e_step,
        _starts(model, blocks, found, center, settings, verbose),
        *settings,
        tol=model.tol,
        max_iter=model.max_iter,
    )
    model._keep(best_mixture(ends, center))


def _starts(model, blocks, found: Survey, center, settings, verbose: int) -> list[Components]:
    """Return the M-step of every assignment to nearest centres."""
    means_init = model._check_means_init(blocks.n_features)
    if means_init is not None:
        centers = [means_init - center]
    elif model.n_components == 1:
        centers = [np.zeros((1, blocks.n_features))]
    else:
        random_state = 0 if model.random_state is None else deepcopy(model.random_state)
        seeds = draw_seeds(random_state, model.n_init)
        X, _, weights = sample_rows(blocks, found, SAMPLE_ROWS, seeds[0], verbose=verbose)
        centers = [
            weighted_centers(X - center, weights, model.n_components, seed) for seed in seeds
        ]
    total_scatter, ridge, covariance_type = settings
    shared = center, centers, covariance_type
    hard = blocks.total(_label_moments, *shared, combine=_add_all, verbose=verbose)
    origin = np.zeros((model.n_components, blocks.n_features))
    return [update(each, origin, total_scatter, ridge, covariance_type) for each in hard]


def _scatter(block: Block, center: Any) -> np.ndarray:
    if block.y is not None:
        raise ValueError(
            "labels weigh rows by their uncertainty, which costs a search of its own: pass "
            "sample_weight=vicinal.distributed.uncertainty_map(X, y, n_neighbors) instead of y."
        )
    return scatter(block.X - center, block.sample_weight)


def _moments(block: Block, center, asked: list[Components], covariance_type: str) -> list[Moments]:
    rows = block.X - center
    return [moments(rows, block.sample_weight, each, covariance_type) for each in asked]


def _label_moments(block: Block, center, centers, covariance_type: str) -> list[Moments]:
    rows = block.X - center
    return [
        label_moments(
            rows, block.sample_weight, nearest_center(rows, each), len(each), covariance_type
        )
        for each in centers
    ]


def _add_all(left: list[Moments], right: list[Moments]) -> list[Moments]:
    return [add_moments(a, b) for a, b in zip(left, right, strict=True)]
