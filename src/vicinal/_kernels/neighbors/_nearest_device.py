"""Exact Euclidean neighbours for any array-API library, on the device where the data are.

The counterpart of `vicinal._kernels.neighbors._nearest`, with the same lower bound (its docstring
has the proof): the rows of smallest bound are measured by differences in float64, and the answer
stands when the first bound left out exceeds the k-th distance; the few queries where it does not
are searched again with more candidates.
"""

from typing import Any

import array_api_compat as compat

from vicinal._base import free_memory, is_torch, namespace, row_blocks, take_rows
from vicinal._kernels.neighbors._nearest import rounding_bound


class DeviceRows:
    """Training rows with what the lower bounds need, made once.

    Parameters
    ----------
    X : array of shape (n_samples, n_features), real floating
        Training rows of any array-API library.
    """

    def __init__(self, X: Any) -> None:
        xp = namespace(X)
        self.X = X
        self.center = xp.mean(X, axis=0)
        shifted = X - self.center
        largest = float(xp.max(xp.abs(shifted)))
        self.scale = 1 / largest if 0 < largest < float("inf") else 1.0
        self.rows = shifted * self.scale
        self.norms = xp.sum(self.rows * self.rows, axis=1)

    def lower_bounds(self, Q: Any) -> tuple[Any, Any, float]:
        """Return lower bounds of the squared distances, in two terms, and their unit.

        The bounds are the sum of an (n_queries, n_samples) array, which is one matrix product, and
        of one number per query, which changes nothing about their order.
        """
        xp = namespace(Q)
        # One more rounding than on the CPU: the norms are summed in the precision of the data.
        shrink = 1 - 4 * rounding_bound(Q.shape[1], _product_eps(Q))
        shifted = (Q - self.center) * self.scale
        left = xp.concat([-2 * shifted, xp.ones_like(shifted[:, :1])], axis=1)
        right = xp.concat([self.rows, (self.norms * shrink)[:, None]], axis=1)
        norms = xp.sum(shifted * shifted, axis=1) * shrink
        return left @ right.T, norms, self.scale**2


def nearest_on_device(
    fitted: DeviceRows, Q: Any, k: int, row_codes: Any, query_codes: Any, n_spare: int
) -> tuple[Any, Any]:
    """Return distances and indices of the ``k`` nearest rows, of shape (n_queries, k).

    ``n_spare`` is the largest number of rows that a query leaves out (codes as in `nearest_rows`).
    """
    xp = namespace(Q)
    n_rows = fitted.X.shape[0]
    width = min(n_rows, k + n_spare + 8)
    cost = 3 * n_rows * _itemsize(Q) + 40 * width * (Q.shape[1] + 4)
    places, distances, indices = [], [], []
    for block in row_blocks(Q.shape[0], cost, working_memory=free_memory(Q)):
        bounds, norms, unit = fitted.lower_bounds(Q[block, :])
        pending, wide = xp.arange(block.start, block.stop, device=compat.device(Q)), width
        while pending.shape[0]:
            candidates, farthest = _smallest(bounds, wide)
            queries = xp.take(Q, pending, axis=0)
            codes = xp.take(query_codes, pending)
            squares, rows = _ordered(fitted.X, queries, candidates, row_codes, codes, k)
            least = xp.astype(farthest, xp.float64) + xp.astype(norms, xp.float64)
            settled = least > squares[:, -1] * unit
            if wide == n_rows:
                settled = xp.ones_like(settled)
            done, left = xp.nonzero(settled)[0], xp.nonzero(~settled)[0]
            places.append(xp.take(pending, done))
            distances.append(xp.astype(xp.sqrt(xp.take(squares, done, axis=0)), Q.dtype))
            indices.append(xp.take(rows, done, axis=0))
            bounds, norms = xp.take(bounds, left, axis=0), xp.take(norms, left)
            pending = xp.take(pending, left)
            wide = min(n_rows, 4 * wide)
    order = xp.argsort(xp.concat(places))
    return xp.take(xp.concat(distances), order, axis=0), xp.take(xp.concat(indices), order, axis=0)


def within_on_device(
    fitted: DeviceRows, Q: Any, radii: Any, row_codes: Any, query_codes: Any
) -> tuple[Any, Any, Any]:
    """Return queries, rows and distances of all pairs within the radius of their query.

    Pairs are ordered by query, distance and row.
    """
    xp = namespace(Q)
    parts = []
    cost = 6 * fitted.X.shape[0] * _itemsize(Q)
    for block in row_blocks(Q.shape[0], cost, working_memory=free_memory(Q)):
        bounds, norms, unit = fitted.lower_bounds(Q[block, :])
        bounds += norms[:, None]
        reach = xp.astype(radii[block], xp.float64)
        limit = xp.astype(reach * reach * (unit * (1 + 1e-6)), Q.dtype)
        queries, rows = xp.nonzero(bounds <= limit[:, None])
        squares = _pair_squares(fitted.X, Q[block, :], queries, rows)
        roots = xp.sqrt(squares)
        codes = xp.take(query_codes[block], queries)
        kept = (roots <= xp.take(reach, queries)) & (xp.take(row_codes, rows) != codes)
        queries, rows, roots = queries[kept], rows[kept], roots[kept]
        # Pairs come by query and row: two stable sorts order them by query, distance and row.
        order = xp.argsort(roots, stable=True)
        order = xp.take(order, xp.argsort(xp.take(queries, order), stable=True))
        queries = xp.take(queries, order) + block.start
        parts.append((queries, xp.take(rows, order), xp.take(roots, order)))
    queries, rows, roots = (xp.concat(column) for column in zip(*parts, strict=True))
    return queries, rows, xp.astype(roots, Q.dtype)


def _smallest(bounds, width):
    """Return the columns of the ``width`` smallest entries of each row, and the last of those."""
    xp = namespace(bounds)
    if is_torch(bounds):
        values, columns = bounds.topk(width, dim=1, largest=False, sorted=False)
        return columns, xp.max(values, axis=1)
    columns = xp.argsort(bounds, axis=1)[:, :width]
    return columns, _along(bounds, columns[:, -1:])[:, 0]


def _ordered(X, Q, candidates, row_codes, query_codes, k):
    """Measure the candidates by differences and return the ``k`` first by distance, then row."""
    xp = namespace(Q)
    n_queries, width = candidates.shape
    rows = xp.sort(candidates, axis=1)
    flat = xp.reshape(rows, (-1,))
    difference = xp.astype(take_rows(X, rows), xp.float64)
    difference -= xp.astype(Q, xp.float64)[:, None, :]
    difference *= difference
    squares = xp.sum(difference, axis=2)
    left_out = xp.reshape(xp.take(row_codes, flat), (n_queries, width)) == query_codes[:, None]
    squares = xp.where(left_out, xp.asarray(xp.inf, dtype=xp.float64), squares)
    order = xp.argsort(squares, axis=1, stable=True)[:, :k]
    return _along(squares, order), _along(rows, order)


def _pair_squares(X, Q, queries, rows):
    """Return squared distances of pairs, by differences in float64."""
    xp = namespace(Q)
    difference = xp.astype(xp.take(Q, queries, axis=0), xp.float64)
    difference -= xp.astype(xp.take(X, rows, axis=0), xp.float64)
    difference *= difference
    return xp.sum(difference, axis=1)


def _along(values, columns):
    """Take ``values[i, columns[i, c]]``."""
    xp = namespace(values)
    starts = xp.arange(values.shape[0], device=compat.device(values))[:, None] * values.shape[1]
    flat = xp.take(xp.reshape(values, (-1,)), xp.reshape(columns + starts, (-1,)))
    return xp.reshape(flat, columns.shape)


def _itemsize(X) -> int:
    return 4 if X.dtype == namespace(X).float32 else 8


def _product_eps(X) -> float:
    """Return the machine epsilon of a product; torch may multiply float32 with fewer bits."""
    xp = namespace(X)
    if is_torch(X) and X.dtype == xp.float32:
        return {"highest": 2.0**-23, "high": 2.0**-10, "medium": 2.0**-7}[
            xp.get_float32_matmul_precision()
        ]
    return float(xp.finfo(X.dtype).eps)
