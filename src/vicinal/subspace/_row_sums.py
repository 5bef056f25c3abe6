"""What a decomposition asks of its rows: sums, never the rows themselves."""

from typing import Any

import array_api_compat as compat
import numpy as np
import scipy.sparse as sp
from sklearn.utils.sparsefuncs import min_max_axis

from vicinal._base import (
    Block,
    Blocks,
    as_numpy,
    dense,
    encode_device_labels,
    encode_labels,
    is_array_api,
    namespace,
    survey,
)
from vicinal._kernels.linear import _scatter

# Above this many columns a scatter matrix and its eigenvectors are no longer formed.
MAX_SCATTER = 5000


class RowSums:
    """Sums over rows in memory or on a device; a table in blocks has the same methods."""

    def __init__(self, X: Any, y: Any, weights: Any) -> None:
        self.X, self.y, self.weights = X, y, weights
        self.n_samples = X.shape[0]

    @property
    def dtype(self):
        """NumPy's name of the precision of the rows."""
        if not is_array_api(self.X):
            return self.X.dtype
        return np.float32 if self.X.dtype == namespace(self.X).float32 else np.float64

    def constant_columns(self) -> np.ndarray:
        """Tell which columns hold one value only."""
        X = self.X
        if sp.issparse(X):
            low, high = min_max_axis(X, axis=0)
        else:
            xp = namespace(X)
            low, high = xp.min(X, axis=0), xp.max(X, axis=0)
        return as_numpy(low == high).ravel()

    def means(self) -> np.ndarray:
        """Return the weighted mean of every column."""
        return _scatter.column_means(self.X, self.weights)

    def scatter(self, columns: np.ndarray, center: np.ndarray) -> np.ndarray:
        """Return the scatter matrix of some columns about their mean."""
        return _scatter.scatter_matrix(take_columns(self.X, columns), self.weights, center)

    def order(self, columns: np.ndarray) -> int:
        """Return the order of the matrix that is decomposed in place of the scatter matrix."""
        return min(self.n_samples, len(columns))

    def centered(self, columns: np.ndarray, center: np.ndarray) -> np.ndarray | None:
        """Return rows whose product is the scatter matrix, where they are fewer than columns."""
        if self.n_samples >= len(columns):
            return None
        return _scatter.centered_rows(take_columns(self.X, columns), self.weights, center)

    def in_coordinates(self, Z: np.ndarray) -> "RowSums":
        """Return the same rows, on the host, in coordinates Z times the roots of their weights."""
        weights = as_numpy(self.weights)
        y = as_numpy(self.y) if is_array_api(self.y) else self.y
        return RowSums(Z / np.sqrt(weights)[:, None], y, weights)

    def within_classes(self, columns: np.ndarray) -> tuple:
        """Return classes, their weights and means, and the scatter about those means."""
        X = take_columns(self.X, columns)
        if is_array_api(X):
            classes, codes = encode_device_labels(self.y, X)
        else:
            classes, codes = encode_labels(self.y)
        counts, means = _scatter.class_means(X, codes, self.weights, len(classes))
        return classes, counts, means, _scatter.scatter_matrix(X, self.weights, means, codes)

    def block_grams(self, mean: np.ndarray, partitions: list) -> list[np.ndarray]:
        """Return the Gram matrix of the blocks of every partition of the columns."""
        return [_scatter.block_gram(self.X, self.weights, mean, blocks) for blocks in partitions]

    def leading_directions(self, columns, center, n_directions: int, start) -> tuple:
        """Return leading eigenpairs of a scatter matrix too large to form."""
        if is_array_api(self.X):
            raise ValueError(
                f"method='principal' forms the scatter matrix of device arrays, and X has "
                f"{len(columns)} varying columns, more than {MAX_SCATTER}; reduce the columns, or "
                "convert X with numpy.asarray."
            )
        return _scatter.leading_principal_directions(
            take_columns(self.X, columns), self.weights, center, n_directions, start
        )


def take_columns(X: Any, columns: np.ndarray) -> Any:
    """Return some columns, without a copy when they are all columns of a device array."""
    if not is_array_api(X):
        return X[:, columns]
    if len(columns) == X.shape[1]:
        return X
    xp = namespace(X)
    return xp.take(X, xp.asarray(columns, device=compat.device(X)), axis=1)


class BlockSums:
    """The same sums over a table in blocks, by passes over its rows."""

    dtype = np.float64

    def __init__(self, blocks: Blocks, has_classes: bool) -> None:
        self.blocks, self.found = survey(blocks, has_classes=has_classes)
        self.n_samples = self.found.n_rows
        self.moments = self.found.moments

    def constant_columns(self) -> np.ndarray:
        return self.moments.constant

    def means(self) -> np.ndarray:
        return self.moments.mean

    def scatter(self, columns: np.ndarray, center: np.ndarray) -> np.ndarray:
        return self.blocks.total(_sum_scatter, columns, center)

    def order(self, columns: np.ndarray) -> int:
        return len(columns)

    def centered(self, columns, center) -> None:
        return None

    def within_classes(self, columns: np.ndarray) -> tuple:
        classes = self.found.classes
        counts = self.found.class_weights
        sums = self.blocks.total(_sum_classes, columns, classes)
        means = sums / counts[:, None]
        within = self.blocks.total(_sum_within, columns, classes, means)
        return classes, counts, means, within

    def block_grams(self, mean: np.ndarray, partitions: list) -> list[np.ndarray]:
        return list(self.blocks.total(_sum_grams, mean, partitions))

    def leading_directions(self, columns, center, n_directions, start):
        raise ValueError(
            f"method='principal' forms the scatter matrix of a table in blocks, and X has "
            f"{len(columns)} varying columns, more than {MAX_SCATTER}; reduce the columns, or use "
            "method='random' or 'approximate'."
        )


def _sum_scatter(block: Block, columns, center) -> np.ndarray:
    return _scatter.scatter_matrix(dense(block)[:, columns], block.sample_weight, center)


def _sum_classes(block: Block, columns, classes) -> np.ndarray:
    codes = np.searchsorted(classes, block.y)
    member = (codes == np.arange(len(classes))[:, None]) * block.sample_weight
    return member @ dense(block)[:, columns]


def _sum_within(block: Block, columns, classes, means) -> np.ndarray:
    codes = np.searchsorted(classes, block.y)
    return _scatter.scatter_matrix(dense(block)[:, columns], block.sample_weight, means, codes)


def _sum_grams(block: Block, mean, partitions) -> np.ndarray:
    weight = block.sample_weight
    return np.stack([_scatter.block_gram(dense(block), weight, mean, p) for p in partitions])
