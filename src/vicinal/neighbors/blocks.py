"""Exact neighbour search among blocks of rows: search of one block, merge of two results.

Used by :mod:`vicinal.distributed`; in memory use :class:`NeighborSearch`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from vicinal._base import Blocks, TrainingData, stack_rows
from vicinal._kernels.neighbors._nearest import merge_order
from vicinal.neighbors._neighbor_search import NeighborSearch

__all__ = [
    "Ball",
    "BlockSearch",
    "NeighborRows",
    "Nearest",
    "NeighborPairs",
    "merge",
    "search_block",
]

# Tolerance for the rounding of summed weights.
_SLACK = 1e-9


class NeighborPairs(NamedTuple):
    """Queries and the rows found for them, by query, then distance, then position."""

    queries: np.ndarray
    positions: np.ndarray
    distances: np.ndarray
    weights: np.ndarray

    def take(self, entries) -> "NeighborPairs":
        """Return some of the pairs."""
        return NeighborPairs(*(column[entries] for column in self))


@dataclass(frozen=True)
class NeighborRows:
    """Neighbours of a block of queries, with their rows.

    ``positions`` are the unique row numbers, ascending; ``columns`` are their rows of X, targets
    and weights, as ``BlockSearch.carry`` names them.
    """

    rule: Any
    n_queries: int
    pairs: NeighborPairs
    positions: np.ndarray
    columns: tuple

    @property
    def starts(self) -> np.ndarray:
        """Start and end of the pairs of each query."""
        return np.searchsorted(self.pairs.queries, np.arange(self.n_queries + 1))


@dataclass(frozen=True)
class Nearest:
    """Rule: the ``count`` nearest rows, ties by row number."""

    count: int

    def search(self, index: NeighborSearch, Q, weights) -> tuple:
        """Return (queries, rows, distances) of one block."""
        width = min(self.count, len(weights))
        distances, rows = index.kneighbors(Q, width)
        return np.repeat(np.arange(Q.shape[0]), width), rows.ravel(), distances.ravel()

    def keeps(self, pairs: NeighborPairs, starts: np.ndarray) -> np.ndarray:
        """Return which of the sorted pairs are among the nearest."""
        return np.arange(len(pairs.queries)) - starts[pairs.queries] < self.count


@dataclass(frozen=True)
class Ball:
    """Rule: the smallest ball of weight above ``mass``, ties included.

    It contains all rows that a local model of ``mass`` neighbours needs.
    """

    mass: float

    def search(self, index: NeighborSearch, Q, weights) -> tuple:
        """Return (queries, rows, distances) of one block."""
        enough = self.mass * (1.0 + _SLACK)
        if weights.sum() <= enough:
            return Nearest(len(weights)).search(index, Q, weights)
        found = index.mass_neighbors(Q, enough, sample_weight=weights)
        return _owners(found.indptr), found.indices, found.distances

    def keeps(self, pairs: NeighborPairs, starts: np.ndarray) -> np.ndarray:
        """Return which of the sorted pairs lie within the ball."""
        total = np.cumsum(pairs.weights)
        before = np.concatenate([[0.0], total])[starts[:-1]]
        light = total - before[pairs.queries] <= self.mass * (1.0 + _SLACK)
        n_queries = len(starts) - 1
        last = starts[:-1] + np.bincount(pairs.queries[light], minlength=n_queries)
        is_closed = last < starts[1:]
        radii = np.full(n_queries, np.inf)
        radii[is_closed] = pairs.distances[last[is_closed]]
        return pairs.distances <= radii[pairs.queries]


@dataclass(frozen=True)
class BlockSearch:
    """Settings of the search of a block, and columns returned with the neighbours.

    Parameters
    ----------
    coordinates : callable, default=None
        Map from rows to the coordinates of the search, in which queries are given.
    carry : sequence of str, default=()
        Columns returned with the neighbours: "X", "y", "sample_weight".
    count_weights : bool, default=False
        Whether rows count by their weight.
    metric, metric_params
        As :class:`NeighborSearch` takes them.
    """

    coordinates: Callable | None = None
    carry: tuple[str, ...] = ()
    count_weights: bool = False
    metric: Any = "euclidean"
    metric_params: Any = None

    def search(self, blocks: Blocks, queries: list, rule: Any) -> list[NeighborRows]:
        """Return the neighbours of each set of queries, with one pass over the blocks."""
        return blocks.totals(search_block, len(queries), self, queries, rule, combine=merge)


def search_block(
    block: TrainingData, search: BlockSearch, queries: list, rule: Any
) -> list[NeighborRows]:
    """Search one block of located rows for several sets of queries."""
    weights = block.sample_weight if search.count_weights else np.ones(len(block))
    columns = tuple(getattr(block, name) for name in search.carry)
    positions = np.arange(len(block)) + block.start
    index = None
    if len(block):
        index = NeighborSearch(metric=search.metric, metric_params=search.metric_params, n_jobs=1)
        index.fit(
            _writeable(block.X if search.coordinates is None else search.coordinates(block.X))
        )
    found = []
    for Q in map(_writeable, queries):
        if index is None or Q.shape[0] == 0:
            none = np.empty(0, dtype=np.int64)
            pairs = NeighborPairs(none, none, np.empty(0), np.empty(0))
        else:
            of, rows, distances = rule.search(index, Q, weights)
            pairs = NeighborPairs(of, positions[rows], distances, weights[rows])
        starts = np.searchsorted(pairs.queries, np.arange(Q.shape[0] + 1))
        found.append(_cut(rule, Q.shape[0], pairs, starts, positions, columns))
    return found


def merge(left: NeighborRows, right: NeighborRows) -> NeighborRows:
    """Return the nearest of two results for the same queries, with their rows.

    The rows of ``left`` precede those of ``right`` in the table, so ties stay in order.
    """
    order, starts = merge_order(
        left.starts,
        _writeable(left.pairs.distances),
        right.starts,
        _writeable(right.pairs.distances),
    )
    pairs = NeighborPairs(*map(np.concatenate, zip(left.pairs, right.pairs, strict=True))).take(
        order
    )
    positions = np.concatenate([left.positions, right.positions])
    columns = tuple(map(stack_rows, zip(left.columns, right.columns, strict=True)))
    return _cut(left.rule, left.n_queries, pairs, starts, positions, columns)


def _cut(rule, n_queries: int, pairs: NeighborPairs, starts, positions, columns) -> NeighborRows:
    """Apply the rule to sorted pairs, and drop the rows that no query needs."""
    pairs = pairs.take(rule.keeps(pairs, starts))
    if not columns:
        return NeighborRows(rule, n_queries, pairs, np.empty(0, dtype=np.int64), ())
    needed = np.unique(pairs.positions)
    rows = np.searchsorted(positions, needed)
    return NeighborRows(rule, n_queries, pairs, needed, tuple(column[rows] for column in columns))


def _writeable(values):
    """Return a writeable array: read-only ones would be compiled again."""
    return values if sp.issparse(values) else np.require(values, requirements=["C", "W"])


def _owners(indptr: np.ndarray) -> np.ndarray:
    return np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
