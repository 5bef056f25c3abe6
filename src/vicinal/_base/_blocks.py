"""Tables as blocks of rows: passes over the blocks, and the statistics of a first pass."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import add
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from sklearn.utils.multiclass import check_classification_targets

from vicinal._base._held_out import row_uniforms
from vicinal._base._training_data import TrainingData
from vicinal._base._validation import check_two_classes


class Blocks(ABC):
    """Rows, targets and weights that are processed block by block and never held in memory whole.

    A model with a method ``fit_blocks(blocks)`` learns from such passes alone. Functions given to
    a pass are called as ``function(block, *shared)`` with :class:`TrainingData` (or the result of
    ``then``), perhaps on another computer: they must be importable and must not change their
    arguments.
    """

    n_features: int
    feature_names: np.ndarray | None

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of blocks."""

    @abstractmethod
    def located(self, lengths: Sequence[int]) -> "Blocks":
        """Return blocks with their first row number, on which random numbers of a row depend."""

    @abstractmethod
    def then(self, function: Callable, *shared: Any, n_features: int | None = None) -> "Blocks":
        """Return blocks to which the function is applied when they are needed.

        ``n_features`` is given if the columns change; they then have no names.
        """

    @abstractmethod
    def held(self) -> "Blocks":
        """Return the same blocks, computed once and kept in the memory of the workers."""

    @abstractmethod
    def gather(self, function: Callable, *shared: Any) -> list:
        """Return the result of the function for every block, in order."""

    def values(self) -> list:
        """Return all blocks; only for small ones, as ``then`` or ``regrouped`` return."""
        return self.gather(_same)

    @abstractmethod
    def total(
        self, function: Callable, *shared: Any, combine: Callable[[Any, Any], Any] = add
    ) -> Any:
        """Return the sum of the function over blocks, added in a fixed order."""

    @abstractmethod
    def regrouped(self, split: Callable, join: Callable, groups: list[tuple], *shared) -> "Blocks":
        """Return one block for each group, joined from the pieces of all blocks.

        ``split(block, *shared)`` returns a list with one piece for each group, and
        ``join(pieces, *own)`` makes the new block of a group from its pieces, in the order of the
        table, and the group's own arguments.
        """


def _same(block: Any) -> Any:
    return block


def add_tuples(left: tuple, right: tuple) -> tuple:
    """Add two tuples of sums entry by entry."""
    return tuple(a + b for a, b in zip(left, right, strict=True))


def stack_rows(parts: Sequence) -> Any:
    """Join rows, dense or sparse."""
    return sp.vstack(parts, format="csr") if sp.issparse(parts[0]) else np.concatenate(parts)


def join_blocks(blocks: Sequence[TrainingData]) -> TrainingData:
    """Return the rows of several blocks as one."""
    return TrainingData(
        stack_rows([block.X for block in blocks]),
        None if blocks[0].y is None else np.concatenate([block.y for block in blocks]),
        sample_weight=np.concatenate([block.sample_weight for block in blocks]),
    )


_SPARSE = (
    "X has sparse blocks, but this fit needs dense ones; convert them, for example with "
    "X.map_blocks(lambda block: block.toarray())."
)


class ColumnMoments(NamedTuple):
    """Weight, means, sums of squares about the means, and the range of every column."""

    weight: float
    mean: np.ndarray
    squares: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @property
    def variance(self) -> np.ndarray:
        """Weighted variance of every column."""
        return self.squares / self.weight

    @property
    def constant(self) -> np.ndarray:
        """Which columns hold one value only."""
        return self.low == self.high


@dataclass(frozen=True)
class Survey:
    """Statistics of a table from one pass over its blocks."""

    lengths: tuple[int, ...]
    weight: float
    classes: Any  # sorted labels, or None where y is not a class
    class_rows: Any  # number of rows of each class
    class_weights: Any  # weight of each class
    dense_moments: ColumnMoments | None  # of the columns, where blocks are dense

    @property
    def n_rows(self) -> int:
        """Number of rows of positive weight."""
        return sum(self.lengths)

    @property
    def moments(self) -> ColumnMoments:
        """Moments of the columns; sparse blocks raise."""
        if self.dense_moments is None:
            raise ValueError(_SPARSE)
        return self.dense_moments


def survey(blocks: Blocks, *, has_classes: bool) -> tuple[Blocks, Survey]:
    """Return blocks with their first row number, and counts of rows, weights and classes."""
    found = blocks.total(_look, has_classes, combine=_join)
    if found.n_rows == 0:
        raise ValueError("X has no rows of positive weight; at least one is needed.")
    if has_classes:
        check_classification_targets(found.classes)
        check_two_classes(found.classes)
    return blocks.located(found.lengths), found


def sample_rows(blocks: Blocks, found: Survey, n_rows: int, seed: int) -> TrainingData:
    """Return about ``n_rows`` random rows as one block, or all rows of a smaller table.

    ``blocks`` come from ``survey``: the sample does then not depend on the block size.
    """
    share = 1.0 if found.n_rows <= n_rows else n_rows / found.n_rows
    return join_blocks(blocks.gather(_sampled, share, seed))


def dense(block: TrainingData) -> np.ndarray:
    """Return the rows of a block, which must be dense."""
    if sp.issparse(block.X):
        raise ValueError(_SPARSE)
    return block.X


def block_moments(block: TrainingData) -> ColumnMoments:
    """Return the moments of a block; sparse rows raise."""
    X, weight = dense(block), block.sample_weight
    if len(X) == 0:
        zero = np.zeros(X.shape[1])
        return ColumnMoments(0.0, zero, zero, zero + np.inf, zero - np.inf)
    mean = weight @ X / weight.sum()
    squares = weight @ (X - mean) ** 2
    return ColumnMoments(float(weight.sum()), mean, squares, X.min(axis=0), X.max(axis=0))


def merge_moments(a: ColumnMoments, b: ColumnMoments) -> ColumnMoments:
    """Return the moments of both sets of rows (Chan, Golub and LeVeque, 1983)."""
    weight = a.weight + b.weight
    if weight == 0:
        return a
    shift = b.mean - a.mean
    mean = a.mean + shift * (b.weight / weight)
    squares = a.squares + b.squares + shift**2 * (a.weight * b.weight / weight)
    return ColumnMoments(
        weight, mean, squares, np.minimum(a.low, b.low), np.maximum(a.high, b.high)
    )


def _look(block: TrainingData, has_classes: bool) -> Survey:
    classes = rows = weights = None
    if has_classes:
        classes, codes = np.unique(np.asarray(block.y), return_inverse=True)
        rows = np.bincount(codes, minlength=len(classes))
        weights = np.bincount(codes, weights=block.sample_weight, minlength=len(classes))
    moments = None if sp.issparse(block.X) else block_moments(block)
    total = float(block.sample_weight.sum())
    return Survey((len(block),), total, classes, rows, weights, moments)


def _join(left: Survey, right: Survey) -> Survey:
    classes, rows, weights = left.classes, None, None
    if classes is not None:
        classes = np.union1d(left.classes, right.classes)
        rows, weights = np.zeros(len(classes), dtype=np.int64), np.zeros(len(classes))
        for part in (left, right):
            index = np.searchsorted(classes, part.classes)
            rows[index] += part.class_rows
            weights[index] += part.class_weights
    moments = None
    if left.dense_moments is not None and right.dense_moments is not None:
        moments = merge_moments(left.dense_moments, right.dense_moments)
    lengths = left.lengths + right.lengths
    return Survey(lengths, left.weight + right.weight, classes, rows, weights, moments)


def _sampled(block: TrainingData, share: float, seed: int) -> TrainingData:
    return block.take(np.flatnonzero(row_uniforms(seed, block.start, len(block)) < share))
