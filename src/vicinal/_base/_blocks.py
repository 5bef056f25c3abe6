"""A table of any size as blocks of rows: what a fit by blocks asks of whoever holds them."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import add
from typing import Any

import numpy as np
import scipy.sparse as sp


@dataclass(frozen=True)
class Block:
    """Consecutive rows in memory: what a task sees of the table."""

    X: Any
    y: Any
    sample_weight: np.ndarray
    start: Any = None  # position of the first row in the whole table, once it is known

    def __len__(self) -> int:
        return self.X.shape[0]

    def take(self, rows: np.ndarray) -> "Block":
        """Return some of the rows, which have no common start any more."""
        y = None if self.y is None else self.y[rows]
        return Block(self.X[rows], y, self.sample_weight[rows])


class Blocks(ABC):
    """Rows, targets and weights that are visited block by block and never held whole.

    A model with a method ``fit_blocks(blocks)`` learns from such passes alone. Functions given to
    a pass are called as ``function(block, *shared)`` with a :class:`Block` (or what ``then`` made
    of it), perhaps on another machine: they must be importable and must not change their arguments.
    """

    n_features: int
    feature_names: np.ndarray | None

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of blocks."""

    @abstractmethod
    def located(self, lengths: Sequence[int]) -> "Blocks":
        """Tell every block where it starts: what is drawn for a row then hangs on the row alone."""

    @abstractmethod
    def then(self, function: Callable, *shared: Any, n_features: int | None = None) -> "Blocks":
        """Return the blocks as the function makes them, when they are asked for.

        ``n_features`` is given where they have other columns, which have no names.
        """

    @abstractmethod
    def held(self) -> "Blocks":
        """Return the same blocks, made once and kept where they were made."""

    @abstractmethod
    def gather(self, function: Callable, *shared: Any) -> list:
        """Return what the function makes of every block, in order."""

    def values(self) -> list:
        """Return all blocks; for those that ``then`` or ``regrouped`` made small."""
        return self.gather(_same)

    @abstractmethod
    def total(
        self, function: Callable, *shared: Any, combine: Callable[[Any, Any], Any] = add
    ) -> Any:
        """Return the sum over blocks of what the function makes of them, by a fixed tree."""

    @abstractmethod
    def totals(self, function: Callable, n: int, *shared: Any, combine: Callable) -> list:
        """Like ``total`` for functions that return ``n`` values: each is added up by itself."""

    @abstractmethod
    def regrouped(self, split: Callable, join: Callable, groups: list[tuple], *shared) -> "Blocks":
        """Return one block for each group, made of the pieces that all blocks have for it.

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


def join_blocks(blocks: Sequence[Block]) -> Block:
    """Return the rows of several blocks as one."""
    return Block(
        stack_rows([block.X for block in blocks]),
        None if blocks[0].y is None else np.concatenate([block.y for block in blocks]),
        np.concatenate([block.sample_weight for block in blocks]),
    )


def rows_at(blocks: Blocks, positions: np.ndarray) -> Block:
    """Gather the rows at ascending positions of located blocks."""
    return join_blocks([part for part in blocks.gather(_pick, positions) if len(part)])


def _pick(block: Block, positions: np.ndarray) -> Block:
    first, last = np.searchsorted(positions, [block.start, block.start + len(block)])
    return block.take(positions[first:last] - block.start)
