"""Exact nearest neighbours among rows that no machine holds: search every block, merge the best."""

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral
from typing import Any, NamedTuple

import dask.array as da
import numpy as np
import scipy.sparse as sp
from dask import delayed
from sklearn.base import clone

from vicinal._kernels.neighbors._sorted_lists import merge_order
from vicinal.distributed._blocks import Block, Blocks, tree
from vicinal.neighbors import NeighborSearch

# Weights add up with rounding: a neighbourhood is cut only where it is surely heavy enough.
_SLACK = 1e-9


class Pairs(NamedTuple):
    """Queries and the rows found for them, by query, then distance, then position."""

    queries: np.ndarray
    positions: np.ndarray
    distances: np.ndarray
    weights: np.ndarray

    def take(self, entries) -> "Pairs":
        """Return some of the pairs."""
        return Pairs(*(column[entries] for column in self))


@dataclass(frozen=True)
class Found:
    """Neighbours of a block of queries, with the rows themselves: nobody has to look them up.

    ``positions`` are those of the rows carried, each once and ascending; ``columns`` are what is
    carried of them (rows of X, targets, weights).
    """

    rule: Any
    n_queries: int
    pairs: Pairs
    positions: np.ndarray
    columns: tuple

    @property
    def starts(self) -> np.ndarray:
        """Where the pairs of each query begin and end."""
        return np.searchsorted(self.pairs.queries, np.arange(self.n_queries + 1))


@dataclass(frozen=True)
class Nearest:
    """The ``count`` nearest rows; of those at one distance the ones that come first."""

    count: int

    def search(self, index: NeighborSearch, Q, weights) -> tuple:
        """Return (queries, rows, distances) that suffice, of one block."""
        width = min(self.count, len(weights))
        distances, rows = index.kneighbors(Q, width)
        return np.repeat(np.arange(Q.shape[0]), width), rows.ravel(), distances.ravel()

    def keeps(self, pairs: Pairs, starts: np.ndarray) -> np.ndarray:
        """Tell which of the sorted pairs are among the nearest."""
        return np.arange(len(pairs.queries)) - starts[pairs.queries] < self.count


@dataclass(frozen=True)
class Ball:
    """The smallest ball that weighs more than ``mass``, with everybody on its surface.

    It holds whatever a local model of ``mass`` neighbours asks for: the bandwidth, ties, copies.
    """

    mass: float

    def search(self, index: NeighborSearch, Q, weights) -> tuple:
        """Return (queries, rows, distances) that suffice, of one block."""
        enough = self.mass * (1.0 + _SLACK)
        if weights.sum() <= enough:
            return Nearest(len(weights)).search(index, Q, weights)
        found = index.mass_neighbors(Q, enough, sample_weight=weights)
        return _owners(found.indptr), found.indices, found.distances

    def keeps(self, pairs: Pairs, starts: np.ndarray) -> np.ndarray:
        """Tell which of the sorted pairs lie within the ball."""
        total = np.cumsum(pairs.weights)
        before = np.concatenate([[0.0], total])[starts[:-1]]
        light = total - before[pairs.queries] <= self.mass * (1.0 + _SLACK)
        n_queries = len(starts) - 1
        last = starts[:-1] + np.bincount(pairs.queries[light], minlength=n_queries)
        is_closed = last < starts[1:]
        radii = np.full(n_queries, np.inf)
        radii[is_closed] = pairs.distances[last[is_closed]]
        return pairs.distances <= radii[pairs.queries]


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
    rows, queries = Blocks.of(X), Blocks.of(Q)
    check_columns(rows, queries)
    lengths = block_lengths(rows, X)
    if n_neighbors > sum(lengths):
        raise ValueError(
            f"n_neighbors={n_neighbors} exceeds the {sum(lengths)} rows of X; lower n_neighbors."
        )
    shards = Shards(rows.located(lengths), metric=metric, metric_params=metric_params)
    as_table = delayed(_as_table, pure=True, nout=2)
    distances, positions = [], []
    for rows_asked, length in zip(lazy_rows(queries), query_lengths(Q, len(queries)), strict=True):
        found = shards.lazy_search([rows_asked], Nearest(int(n_neighbors)))[0]
        near, where = as_table(found, int(n_neighbors))
        shape = (length, int(n_neighbors))
        distances.append(da.from_delayed(near, shape, dtype=np.float64))
        positions.append(da.from_delayed(where, shape, dtype=np.int64))
    return (
        da.concatenate(distances, allow_unknown_chunksizes=True),
        da.concatenate(positions, allow_unknown_chunksizes=True),
    )


class Shards:
    """Blocks of located rows, each to be searched where it is.

    Parameters
    ----------
    blocks : Blocks
        Rows that know their positions.
    place : callable, default=None
        From rows to the coordinates of the search; queries are in those already.
    carry : sequence of str, default=()
        What of a row travels with it: "X", "y", "sample_weight".
    count_weights : bool, default=False
        Whether a row counts by its weight, or as one.
    metric, metric_params
        As `NeighborSearch` takes them.
    """

    def __init__(
        self,
        blocks: Blocks,
        *,
        place: Callable | None = None,
        carry: tuple[str, ...] = (),
        count_weights: bool = False,
        metric: Any = "euclidean",
        metric_params: Any = None,
    ):
        self.blocks = blocks
        search = NeighborSearch(metric=metric, metric_params=metric_params, n_jobs=1)
        self._settings = delayed((search, place, carry, count_weights), pure=True)

    def lazy_search(self, queries: list, rule: Any) -> list:
        """Return what is found for each set of queries, lazily; one visit of a block serves all."""
        visit = delayed(_visit, pure=True, nout=len(queries))
        queries = [delayed(query, pure=True) for query in queries]  # sent once, not per block
        visits = [list(visit(part, queries, rule, self._settings)) for part in self.blocks.parts]
        return [tree([found[i] for found in visits], merge) for i in range(len(queries))]


def merge(left: Found, right: Found) -> Found:
    """Return the best of two answers to the same queries, with their rows.

    The rows of ``left`` come before those of ``right`` in the table: so ties keep their order.
    """
    order, starts = merge_order(
        left.starts,
        writeable(left.pairs.distances),
        right.starts,
        writeable(right.pairs.distances),
    )
    pairs = Pairs(*map(np.concatenate, zip(left.pairs, right.pairs, strict=True))).take(order)
    positions = np.concatenate([left.positions, right.positions])
    columns = tuple(map(_stack, zip(left.columns, right.columns, strict=True)))
    return _cut(left.rule, left.n_queries, pairs, starts, positions, columns)


def _cut(rule, n_queries: int, pairs: Pairs, starts, positions, columns) -> Found:
    """Keep of sorted pairs what the rule keeps, and drop the rows that no query needs."""
    pairs = pairs.take(rule.keeps(pairs, starts))
    if not columns:
        return Found(rule, n_queries, pairs, np.empty(0, dtype=np.int64), ())
    needed = np.unique(pairs.positions)
    rows = np.searchsorted(positions, needed)
    return Found(rule, n_queries, pairs, needed, tuple(column[rows] for column in columns))


def _stack(parts):
    """Join rows, dense or sparse."""
    parts = list(parts)
    return sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.concatenate(parts)


def _visit(block: Block, queries: list, rule, settings) -> list[Found]:
    """Search one block for several sets of queries."""
    search, place, carry, count_weights = settings
    weights = block.sample_weight if count_weights else np.ones(len(block))
    columns = tuple(getattr(block, name) for name in carry)
    positions = np.arange(len(block)) + block.start
    index = None
    if len(block):
        index = clone(search).fit(writeable(block.X if place is None else place(block.X)))
    answers = []
    for Q in map(writeable, queries):
        if index is None or Q.shape[0] == 0:
            none = np.empty(0, dtype=np.int64)
            pairs = Pairs(none, none, np.empty(0), np.empty(0))
        else:
            of, rows, distances = rule.search(index, Q, weights)
            pairs = Pairs(of, positions[rows], distances, weights[rows])
        starts = np.searchsorted(pairs.queries, np.arange(Q.shape[0] + 1))
        answers.append(_cut(rule, Q.shape[0], pairs, starts, positions, columns))
    return answers


def writeable(values):
    """Return the array, or a copy: what came over the network is another type to compiled code."""
    return values if sp.issparse(values) else np.require(values, requirements=["C", "W"])


def _owners(indptr: np.ndarray) -> np.ndarray:
    return np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))


def _as_table(found: Found, width: int) -> tuple[np.ndarray, np.ndarray]:
    shape = (found.n_queries, width)
    return found.pairs.distances.reshape(shape), found.pairs.positions.reshape(shape)


def lazy_rows(blocks: Blocks, place: Callable | None = None) -> list:
    """Return the rows of every block, lazily, in the coordinates of a search."""
    as_rows = delayed(_placed_rows, pure=True)
    place = delayed(place, pure=True)
    return [as_rows(part, place) for part in blocks.parts]


def _placed_rows(block: Block, place):
    return block.X if place is None else place(block.X)


def take_rows(blocks: Blocks, positions: np.ndarray, *, verbose: int = 0) -> Block:
    """Gather the rows at ascending positions of located blocks."""
    parts = [part for part in blocks.gather(_pick, positions, verbose=verbose) if len(part)]
    y = None if parts[0].y is None else np.concatenate([part.y for part in parts])
    return Block(
        _stack([part.X for part in parts]),
        y,
        np.concatenate([part.sample_weight for part in parts]),
        None,
    )


def _pick(block: Block, positions: np.ndarray) -> Block:
    first, last = np.searchsorted(positions, [block.start, block.start + len(block)])
    rows = positions[first:last] - block.start
    y = None if block.y is None else block.y[rows]
    return Block(block.X[rows], y, block.sample_weight[rows], None)


def check_columns(rows: Blocks, queries: Blocks) -> None:
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


def block_lengths(blocks: Blocks, X: Any) -> list[int]:
    """Return the numbers of rows; where the collection does not tell, one pass counts them."""
    known = query_lengths(X, len(blocks))
    return blocks.gather(len) if np.isnan(known).any() else [int(length) for length in known]


def query_lengths(X: Any, n_blocks: int) -> list:
    """Return what a collection tells of the lengths of its blocks, NaN where it does not."""
    return list(X.chunks[0]) if hasattr(X, "chunks") else [np.nan] * n_blocks
