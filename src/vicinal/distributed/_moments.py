"""Weighted means and variances of columns, merged over blocks of rows without cancellation."""

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp

from vicinal.distributed._blocks import Block

_SPARSE = (
    "X has sparse blocks, and this fit sums up dense rows; convert them, for instance with "
    "X.map_blocks(lambda block: block.toarray())."
)


class Moments(NamedTuple):
    """Weight, means, sums of squares about the means, and the range of every column."""

    weight: float
    mean: np.ndarray
    squares: np.ndarray
    low: np.ndarray
    high: np.ndarray

    @property
    def variance(self) -> np.ndarray:
        return self.squares / self.weight

    @property
    def constant(self) -> np.ndarray:
        return self.low == self.high


def block_moments(block: Block) -> Moments:
    """Return the moments of a block; sparse rows are refused."""
    X, weight = dense(block), block.sample_weight
    if len(X) == 0:
        zero = np.zeros(X.shape[1])
        return Moments(0.0, zero, zero, zero + np.inf, zero - np.inf)
    mean = weight @ X / weight.sum()
    squares = weight @ (X - mean) ** 2
    return Moments(float(weight.sum()), mean, squares, X.min(axis=0), X.max(axis=0))


def merge_moments(a: Moments, b: Moments) -> Moments:
    """Return the moments of both sets of rows (Chan, Golub and LeVeque, 1983)."""
    weight = a.weight + b.weight
    if weight == 0:
        return a
    gap = b.mean - a.mean
    mean = a.mean + gap * (b.weight / weight)
    squares = a.squares + b.squares + gap**2 * (a.weight * b.weight / weight)
    return Moments(weight, mean, squares, np.minimum(a.low, b.low), np.maximum(a.high, b.high))


def table_moments(found: Any) -> Moments:
    """Return the moments of a surveyed table, whose blocks must be dense."""
    if found.moments is None:
        raise ValueError(_SPARSE)
    return found.moments


def dense(block: Block) -> np.ndarray:
    """Return the rows of a block, which must be dense."""
    if sp.issparse(block.X):
        raise ValueError(_SPARSE)
    return block.X
