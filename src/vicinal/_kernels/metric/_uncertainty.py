"""Uncertainty of nearest-neighbour classification at each row, in blocks of distances."""

from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import array_api_compat as compat
import numpy as np

from vicinal import _base
from vicinal._base._compat import threadpool_controller


def one_blas_thread() -> Any:
    """Return a context in which BLAS keeps to one thread, so that threads of ours can call it."""
    return threadpool_controller().limit(limits=1, user_api="blas")


def block_map(function: Callable, blocks: Iterable[Any], n_jobs: int | None = None) -> list:
    """Apply ``function`` to each block in threads and return the results in order.

    BLAS is held to one thread meanwhile: element-wise work, which BLAS does not thread, is as large
    as the products here, so threads pay only around both.
    """
    with one_blas_thread():
        return _base.thread_map(function, blocks, n_jobs)


_RUN = 16


def class_bounds(sorted_codes: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the ``n_classes + 1`` positions between which each class lies in sorted codes."""
    return np.searchsorted(sorted_codes, np.arange(n_classes + 1))


def cached_rows(X: Any) -> int | None:
    """Rows of distances to all of ``X`` that stay in a core's cache; no limit on a device."""
    return _base.block_limits(X, max(1, 2**19 // X.shape[0]))["max_rows"]


def squared_distance_block(X: Any, norms: Any, hidden: Any, rows: slice, xp: Any) -> Any:
    """Squared distances of ``X[rows]`` to all of ``X``: (n_rows, n_samples).

    Infinite to the row itself and to the rows where ``hidden`` is infinite (zero elsewhere).
    """
    d2 = X[rows, :] @ X.T
    d2 *= -2.0
    d2 += norms[rows][:, None]
    d2 += norms[None, :]
    d2 = xp.clip(d2, 0.0, None)
    d2 += hidden[None, :]
    own = xp.arange(rows.start, rows.stop, device=compat.device(X))
    return _base.fill_entries(d2, own, np.inf)


def hide_unweighted(weights: Any, xp: Any) -> Any:
    """Infinity for the rows of weight zero, zero for the others."""
    zero = xp.zeros_like(weights)
    return xp.where(weights > 0, zero, zero + np.inf)


def mean_neighbor_distance(
    X: Any, k: int, weights: Any, *, max_queries: int | None = None, n_jobs: int | None = None
) -> float:
    """Weighted mean over rows of the squared distance to their ``k``-th neighbour.

    With ``max_queries``, over about so many rows, in short runs spread evenly.
    """
    xp = compat.array_namespace(X)
    n = X.shape[0]
    norms, hidden = xp.sum(X * X, axis=1), hide_unweighted(weights, xp)

    def of_block(rows):
        d2 = squared_distance_block(X, norms, hidden, rows, xp)
        weighted = _base.kth_smallest(d2, k) * weights[rows]
        return float(xp.sum(weighted)), float(xp.sum(weights[rows]))

    if max_queries is None or max_queries >= n:
        blocks = list(_base.row_blocks(n, 4 * 8 * n, max_rows=cached_rows(X)))
    else:
        starts = np.linspace(0, n - _RUN, max(1, max_queries // _RUN)).astype(int).tolist()
        blocks = [slice(start, start + _RUN) for start in starts]
    parts = block_map(of_block, blocks, _base.host_jobs(X, n_jobs))
    return sum(part[0] for part in parts) / sum(part[1] for part in parts)


def neighbor_uncertainty(
    X: Any,
    bounds: np.ndarray,
    n_neighbors: np.ndarray,
    bandwidth2: float,
    weights: Any,
    *,
    n_jobs: int | None = None,
) -> Any:
    """Share of similarity that each row has with other classes, among its neighbours.

    ``X`` (n_samples, n_features) is centred, in float64, and sorted by class; ``bounds`` are the
    positions of :func:`class_bounds`; ``n_neighbors[c]`` neighbours are counted for rows of class
    ``c`` and neighbours tied with the last one are kept. The row itself is never a neighbour.
    """
    xp = compat.array_namespace(X)
    n = X.shape[0]
    norms, hidden = xp.sum(X * X, axis=1), hide_unweighted(weights, xp)
    # Distances come from products, so ties differ by rounding; this is its size.
    slack = 16 * float(np.finfo(np.float64).eps) * float(xp.max(norms))

    def of_block(task):
        c, rows = task
        d2 = squared_distance_block(X, norms, hidden, rows, xp)
        k = int(n_neighbors[c])
        reach = _base.kth_smallest(d2, k)[:, None] + slack if k < n - 1 else None
        # The nearest neighbour has similarity one, so the sums cannot vanish.
        with np.errstate(over="ignore"):
            similarity = xp.exp((xp.min(d2, axis=1, keepdims=True) - d2) / bandwidth2)
        if reach is not None:
            similarity *= xp.astype(d2 <= reach, similarity.dtype)
        similarity *= weights[None, :]
        lower, upper = int(bounds[c]), int(bounds[c + 1])
        same = xp.sum(similarity[:, lower:upper], axis=1)
        other = xp.sum(similarity[:, :lower], axis=1) + xp.sum(similarity[:, upper:], axis=1)
        return other / (same + other)

    # No block crosses a class.
    blocks = [
        (c, slice(lower + block.start, lower + block.stop))
        for c, (lower, upper) in enumerate(pairwise(bounds.tolist()))
        for block in _base.row_blocks(upper - lower, 4 * 8 * n, max_rows=cached_rows(X))
    ]
    return xp.concat(block_map(of_block, blocks, _base.host_jobs(X, n_jobs)))
