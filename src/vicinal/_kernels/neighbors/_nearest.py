r"""Exact Euclidean neighbours by blocked brute force: matrix products find, differences decide.

For a query :math:`q` and a row :math:`x`, both centred and scaled by a power of two, one entry of a
matrix product in low precision gives a *lower bound* of the squared distance,

.. math:: \ell = (1 - 2\gamma)\,(|x|^2 + |q|^2) - 2\,q^\top x - \tau \;\le\; |q - x|^2,

where :math:`\gamma` bounds the relative rounding of the product. Proof: every term of
:math:`|x|^2 - 2 q^\top x` carries a relative error of at most :math:`\gamma_m = m u / (1 - m u)`,
with :math:`m` roundings of unit :math:`u` on its way, in any order of summation ([1]_, lemma 3.1,
equation 3.5), so the error is at most :math:`\gamma_m (|x| + |q|)^2 \le 2 \gamma_m (|x|^2 +
|q|^2)`; :math:`\tau` covers underflow. Twice :math:`\gamma_m` is taken, which also covers the
rounding of the distance by differences, in float64.

A row is skipped only if its lower bound exceeds the k-th smallest distance found so far; the others
are measured by differences. So neither the precision of the product nor the size of the blocks can
change which rows are found, in which order, or their distances.

For arrays of other libraries the same lower bound is used where the data are: the distances of the
rows of smallest bound are computed by differences in float64. The result is final if the next bound
exceeds the k-th distance; other queries are searched again with more candidates.

References
----------
.. [1] N. J. Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., SIAM, 2002,
   :doi:`10.1137/1.9780898718027`.
"""

import math
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np

from vicinal._base import (
    free_memory,
    namespace,
    product_eps,
    row_blocks,
    smallest_entries,
    take_rows,
)
from vicinal._kernels._jit import fast_jit, jit

# Queries and rows of one matrix product; it fills 1 MB in float32, a second-level cache.
QUERY_BLOCK = 64
ROW_BLOCK = 4096
# Products tested against one bound, and how many of them one comparison dismisses.
_SEGMENT = 1024
_STRETCH = 16
# Squared scaled norm of a query beyond which its products may overflow.
_FAR = 1e30


class ProductRows:
    """Training rows in the form that the matrix product needs, made once.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features), float32 or float64, C-contiguous
        Training rows, kept for the distances by differences.
    dtype : dtype, default=numpy.float32
        Precision of the matrix product. The result does not depend on it.
    """

    def __init__(self, X: np.ndarray, dtype=np.float32) -> None:
        self.X = X
        self.dtype = np.dtype(dtype)
        self.center = X.mean(axis=0, dtype=np.float64)
        extremes = np.abs(np.stack([X.max(axis=0), X.min(axis=0)]) - self.center)
        # A power of two scales without rounding; the clip keeps its square finite.
        self.scale = math.ldexp(1.0, -min(max(math.frexp(extremes.max())[1], -500), 500))
        self.rounding = rounding_bound(X.shape[1], np.finfo(self.dtype).eps)
        self.rows = np.empty((X.shape[0], X.shape[1] + 1), self.dtype)
        for start in range(0, X.shape[0], 4096):
            part = slice(start, start + 4096)
            shifted = (X[part] - self.center) * self.scale
            norms = np.einsum("ij,ij->i", shifted, shifted)
            self.rows[part, :-1] = shifted
            self.rows[part, -1] = norms * (1 - 2 * self.rounding) - np.finfo(self.dtype).tiny * 1e3

    def queries(self, Q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the left factor of the product and the scaled squared norms of the queries."""
        shifted = (Q - self.center) * self.scale
        norms = np.einsum("ij,ij->i", shifted, shifted) * (1 - 2 * self.rounding)
        left = np.ones((Q.shape[0], Q.shape[1] + 1), self.dtype)
        with np.errstate(over="ignore"):  # an infinite product excludes no row, see `_collect`
            left[:, :-1] = -2 * shifted
        return left, norms


def rounding_bound(n_features: int, eps: float) -> float:
    """Return the gamma of this module's docstring for the machine epsilon ``eps`` = 2 u."""
    return 1.1 * (n_features + 8) * float(eps)


@fast_jit
def squared_distance(a, b):
    """Return the squared distance of two vectors by differences, accumulated in float64."""
    total = 0.0
    for j in range(a.shape[0]):
        difference = np.float64(a[j]) - np.float64(b[j])
        total += difference * difference
    return total


@jit
def listed_distances(Q, X, queries, rows, distances):
    """Fill ``distances`` (squared) of pairs given as two lists."""
    for c in range(rows.shape[0]):
        distances[c] = squared_distance(Q[queries[c]], X[rows[c]])


@jit
def csr_distances(
    q_data, q_columns, q_starts, x_data, x_columns, x_starts, queries, rows, distances
):
    """Fill ``distances`` (squared) of pairs of sparse rows with sorted columns."""
    for c in range(rows.shape[0]):
        i, i_end = q_starts[queries[c]], q_starts[queries[c] + 1]
        j, j_end = x_starts[rows[c]], x_starts[rows[c] + 1]
        total = 0.0
        while i < i_end or j < j_end:
            difference = 0.0
            take_query = j == j_end or (i < i_end and q_columns[i] <= x_columns[j])
            take_row = i == i_end or (j < j_end and x_columns[j] <= q_columns[i])
            if take_query:
                difference += q_data[i]
                i += 1
            if take_row:
                difference -= x_data[j]
                j += 1
            total += difference * difference
        distances[c] = total


@jit
def _precedes(distance, row, other_distance, other_row):
    """Order by distance, then by row number."""
    return distance < other_distance or (distance == other_distance and row < other_row)


@jit
def _swap(distances, rows, i, j):
    distances[i], distances[j] = distances[j], distances[i]
    rows[i], rows[j] = rows[j], rows[i]


@jit
def _split(distances, rows, low, high):
    """Partition ``low..high`` around a median of three and return the two inner ends."""
    middle = (low + high) // 2
    if _precedes(distances[middle], rows[middle], distances[low], rows[low]):
        _swap(distances, rows, low, middle)
    if _precedes(distances[high], rows[high], distances[middle], rows[middle]):
        _swap(distances, rows, middle, high)
        if _precedes(distances[middle], rows[middle], distances[low], rows[low]):
            _swap(distances, rows, low, middle)
    pivot, pivot_row = distances[middle], rows[middle]
    i, j = low, high
    while i <= j:
        while _precedes(distances[i], rows[i], pivot, pivot_row):
            i += 1
        while _precedes(pivot, pivot_row, distances[j], rows[j]):
            j -= 1
        if i <= j:
            _swap(distances, rows, i, j)
            i += 1
            j -= 1
    return i, j


@jit
def select_first(distances, rows, count, k):
    """Move the ``k`` smallest of ``count`` pairs to the front; only the k-th is in order."""
    low, high = 0, count - 1
    while low < high:
        i, j = _split(distances, rows, low, high)
        if k - 1 <= j:
            high = j
        elif k - 1 >= i:
            low = i
        else:
            return


@jit
def tighten(distances, rows, count, k, low, reach):
    """Keep the ``k`` first of ``count`` pairs and possibly some more; return their number.

    ``low`` and ``reach`` bound all distances. Bisection of the distances needs only passes over
    them that vectorise; where ties defeat it, an exact selection is made.
    """
    high = reach
    if not high < np.inf:
        high = low
        for c in range(count):
            high = max(high, distances[c])
    for _ in range(12):
        middle = 0.5 * (low + high)
        inside = 0
        for c in range(count):
            inside += distances[c] <= middle
        if inside < k:
            low = middle
        else:
            high = middle
            if inside <= k + k // 8:
                break
    kept = 0
    for c in range(count):
        distance, row = distances[c], rows[c]
        distances[kept], rows[kept] = distance, row
        kept += distance <= high
    if kept > k + (count - k) // 2:
        select_first(distances, rows, kept, k)
        kept = k
        high = distances[k - 1]
    return kept, high


@jit
def _collect(products, bound, lowest, found):
    """Write the positions of products not above ``bound`` to ``found`` and return their number.

    The products are folded into ``_STRETCH`` layers whose minimum dismisses most of them at once.
    Single ones are kept unless they are above, so that an overflow to NaN keeps its row.
    """
    width = products.shape[0] // _STRETCH
    for j in range(width):
        lowest[j] = products[j]
    for layer in range(1, _STRETCH):
        values = products[layer * width : (layer + 1) * width]
        for j in range(width):
            lowest[j] = values[j] if values[j] < lowest[j] else lowest[j]
    count = 0
    for j in range(width):
        if not lowest[j] > bound:
            for layer in range(_STRETCH):
                found[count] = layer * width + j
                count += not products[layer * width + j] > bound
    for j in range(_STRETCH * width, products.shape[0]):
        found[count] = j
        count += not products[j] > bound
    return count


@jit
def _product_bound(reach, scale, norm, gamma):
    """Return the product above which a row is farther than ``reach`` (squared), rounded up."""
    if not norm < _FAR:
        return np.inf
    bound = reach * scale * scale - norm
    return bound + abs(bound) * gamma


@jit
def _first_reach(products, pairs, i, k, largest):
    """Return a squared distance within which ``k`` of the rows of some products are, or infinity.

    Bisection finds a product that hardly more than k are below. Products are lower bounds; the same
    rounding bounds how much smaller they are. ``largest`` is the largest squared norm of the rows.
    """
    norm, codes, code = pairs.norms[i], pairs.row_codes, pairs.query_codes[i]
    low, high, found = -norm, largest + 2.0 * math.sqrt(largest * norm), 0
    for _ in range(16):
        middle, inside = 0.5 * (low + high) if found else high, 0
        for j in range(products.shape[0]):
            inside += (products[j] <= middle) & (codes[j] != code)
        if inside < k:
            low = middle
        else:
            high, found = middle, inside
            if found <= k + k // 16:
                break
    if found == 0 or not norm < _FAR:
        return np.inf
    slack = 5 * pairs.gamma * (largest + norm) + np.finfo(products.dtype).tiny * 2e3
    return (high + norm + slack) / (pairs.scale * pairs.scale)


class Pairs(NamedTuple):
    """Queries and rows to be paired; ``left``, ``norms`` and ``rows``, ``scale`` as `ProductRows`.

    ``gamma`` bounds the rounding of the product. Row ``j`` is left out for query ``i`` where
    ``row_codes[j] == query_codes[i]``.
    """

    Q: np.ndarray
    X: np.ndarray
    left: np.ndarray
    rows: np.ndarray
    norms: np.ndarray
    scale: float
    gamma: float
    row_codes: np.ndarray
    query_codes: np.ndarray


@jit
def nearest_rows(pairs, n_neighbors, distances, indices):
    """Fill ``distances`` (squared) and ``indices`` with the nearest rows of queries, unsorted.

    Where fewer than ``n_neighbors`` rows remain, the other distances are infinite.
    """
    Q, X, left, rows, norms, scale, gamma, row_codes, query_codes = pairs
    capacity = 2 * n_neighbors + 64
    buffer = np.empty(QUERY_BLOCK * ROW_BLOCK, rows.dtype)
    lowest = np.empty(_SEGMENT, rows.dtype)
    found = np.empty(_SEGMENT + 1, np.int64)
    held = np.empty((QUERY_BLOCK, capacity), np.float64)
    held_rows = np.empty((QUERY_BLOCK, capacity), np.int64)
    counts = np.empty(QUERY_BLOCK, np.int64)
    reach = np.empty(QUERY_BLOCK, np.float64)  # not below the k-th squared distance so far
    largest = max(np.float64(rows[:ROW_BLOCK, -1].max()), 0.0) * 1.01
    for start in range(0, Q.shape[0], QUERY_BLOCK):
        stop = min(start + QUERY_BLOCK, Q.shape[0])
        counts[:] = 0
        reach[:] = np.inf
        for first in range(0, X.shape[0], ROW_BLOCK):
            last = min(first + ROW_BLOCK, X.shape[0])
            products = buffer[: (stop - start) * (last - first)].reshape(stop - start, last - first)
            np.dot(left[start:stop], rows[first:last].T, products)
            for i in range(stop - start):
                query = Q[start + i]
                code = query_codes[start + i]
                norm = norms[start + i]
                if first == 0:
                    reach[i] = _first_reach(products[i], pairs, start + i, n_neighbors, largest)
                bound = _product_bound(reach[i], scale, norm, gamma)
                count = counts[i]
                for offset in range(0, last - first, _SEGMENT):
                    segment = products[i, offset : offset + _SEGMENT]
                    n_found = _collect(segment, bound, lowest, found)
                    for c in range(n_found):
                        if segment[found[c]] > bound:  # the bound has come down meanwhile
                            continue
                        row = first + offset + found[c]
                        if row_codes[row] == code:
                            continue
                        held[i, count] = squared_distance(query, X[row])
                        held_rows[i, count] = row
                        count += held[i, count] <= reach[i]
                        if count == capacity:
                            count, reach[i] = tighten(
                                held[i], held_rows[i], capacity, n_neighbors, 0.0, reach[i]
                            )
                            bound = _product_bound(reach[i], scale, norm, gamma)
                counts[i] = count
        for i in range(stop - start):
            while counts[i] < n_neighbors:
                held[i, counts[i]] = np.inf
                held_rows[i, counts[i]] = 0
                counts[i] += 1
            if counts[i] > n_neighbors + n_neighbors // 8:
                counts[i], _ = tighten(held[i], held_rows[i], counts[i], n_neighbors, 0.0, reach[i])
            select_first(held[i], held_rows[i], counts[i], n_neighbors)
            # By entries: copying a slice compiles, for its error message, all of numba's texts.
            for c in range(n_neighbors):
                distances[start + i, c] = held[i, c]
                indices[start + i, c] = held_rows[i, c]


def sort_rows(distances, indices):
    """Sort each row of both arrays in place by distance, then by index."""
    # NumPy's sort is vectorised but not stable.
    order = np.argsort(distances, axis=1)
    distances[:] = np.take_along_axis(distances, order, axis=1)
    indices[:] = np.take_along_axis(indices, order, axis=1)
    _sort_ties(distances, indices)


@jit
def _sort_ties(distances, indices):
    """Sort the indices of equal distances, which follow each other."""
    for i in range(distances.shape[0]):
        for j in range(1, distances.shape[1]):
            at, row = j, indices[i, j]
            while at > 0 and distances[i, at - 1] == distances[i, j] and indices[i, at - 1] > row:
                indices[i, at] = indices[i, at - 1]
                at -= 1
            indices[i, at] = row


@jit
def rows_within(pairs, radii):
    """Return queries, rows and squared distances of all pairs within the radius of their query.

    They come by blocks of queries and rows.
    """
    Q, X, left, rows, norms, scale, gamma, row_codes, query_codes = pairs
    buffer = np.empty(QUERY_BLOCK * ROW_BLOCK, rows.dtype)
    lowest = np.empty(ROW_BLOCK, rows.dtype)
    found = np.empty(ROW_BLOCK + 1, np.int64)
    size, count = 1024, 0
    pair_queries = np.empty(size, np.int64)
    pair_rows = np.empty(size, np.int64)
    distances = np.empty(size, np.float64)
    for start in range(0, Q.shape[0], QUERY_BLOCK):
        stop = min(start + QUERY_BLOCK, Q.shape[0])
        for first in range(0, X.shape[0], ROW_BLOCK):
            last = min(first + ROW_BLOCK, X.shape[0])
            products = buffer[: (stop - start) * (last - first)].reshape(stop - start, last - first)
            np.dot(left[start:stop], rows[first:last].T, products)
            for query in range(start, stop):
                reach = radii[query] * radii[query]
                # The radius is compared after the root, whose rounding may let a little more in.
                bound = _product_bound(reach * (1 + 1e-15), scale, norms[query], gamma)
                n_found = _collect(products[query - start], bound, lowest, found)
                if count + n_found > size:
                    size = 2 * (count + n_found)
                    pair_queries = _longer(pair_queries, size)
                    pair_rows = _longer(pair_rows, size)
                    distances = _longer(distances, size)
                for c in range(n_found):
                    row = first + found[c]
                    if row_codes[row] == query_codes[query]:
                        continue
                    distance = squared_distance(Q[query], X[row])
                    if math.sqrt(distance) <= radii[query]:
                        pair_queries[count] = query
                        pair_rows[count] = row
                        distances[count] = distance
                        count += 1
    return pair_queries[:count], pair_rows[:count], distances[:count]


@jit
def _longer(values, size):
    """Copy ``values`` to an array of ``size`` entries."""
    copy = np.empty(size, values.dtype)
    copy[: values.shape[0]] = values
    return copy


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
        shrink = 1 - 4 * rounding_bound(Q.shape[1], product_eps(Q))
        shifted = (Q - self.center) * self.scale
        left = xp.concat([-2 * shifted, xp.ones_like(shifted[:, :1])], axis=1)
        right = xp.concat([self.rows, (self.norms * shrink)[:, None]], axis=1)
        norms = xp.sum(shifted * shifted, axis=1) * shrink
        return left @ right.T, norms, self.scale**2

    def nearest(self, Q: Any, k: int, left_out: Any) -> tuple[Any, Any]:
        """Return distances and indices of the ``k`` nearest rows, of shape (n_queries, k).

        ``left_out`` has ``row_codes`` and ``query_codes``, as in `nearest_rows`, and ``most``, the
        largest number of rows excluded for a query.
        """
        xp = namespace(Q)
        n_rows = self.X.shape[0]
        width = min(n_rows, k + left_out.most + 8)
        cost = 3 * n_rows * xp.finfo(Q.dtype).bits // 8 + 40 * width * (Q.shape[1] + 4)
        done_queries, distances, indices = [], [], []
        for block in row_blocks(Q.shape[0], cost, working_memory=free_memory(Q)):
            bounds, norms, unit = self.lower_bounds(Q[block, :])
            pending, wide = xp.arange(block.start, block.stop, device=compat.device(Q)), width
            while pending.shape[0]:
                candidates, farthest = smallest_entries(bounds, wide)
                queries = xp.take(Q, pending, axis=0)
                codes = xp.take(left_out.query_codes, pending)
                squares, rows = _ordered(self.X, queries, candidates, left_out.row_codes, codes, k)
                least = xp.astype(farthest, xp.float64) + xp.astype(norms, xp.float64)
                is_final = least > squares[:, -1] * unit
                if wide == n_rows:
                    is_final = xp.ones_like(is_final)
                done, left = xp.nonzero(is_final)[0], xp.nonzero(~is_final)[0]
                done_queries.append(xp.take(pending, done))
                distances.append(xp.astype(xp.sqrt(xp.take(squares, done, axis=0)), Q.dtype))
                indices.append(xp.take(rows, done, axis=0))
                bounds, norms = xp.take(bounds, left, axis=0), xp.take(norms, left)
                pending = xp.take(pending, left)
                wide = min(n_rows, 4 * wide)
        order = xp.argsort(xp.concat(done_queries))
        found, rows = (xp.take(xp.concat(part), order, axis=0) for part in (distances, indices))
        return found, rows

    def within(self, Q: Any, radii: Any, left_out: Any) -> tuple[Any, Any, Any]:
        """Return queries, rows and distances of all pairs within the radius of their query.

        Pairs are ordered by query, distance and row.
        """
        xp = namespace(Q)
        parts = []
        cost = 6 * self.X.shape[0] * xp.finfo(Q.dtype).bits // 8
        for block in row_blocks(Q.shape[0], cost, working_memory=free_memory(Q)):
            bounds, norms, unit = self.lower_bounds(Q[block, :])
            bounds += norms[:, None]
            reach = xp.astype(radii[block], xp.float64)
            limit = xp.astype(reach * reach * (unit * (1 + 1e-6)), Q.dtype)
            queries, rows = xp.nonzero(bounds <= limit[:, None])
            squares = _pair_squares(self.X, Q[block, :], queries, rows)
            roots = xp.sqrt(squares)
            codes = xp.take(left_out.query_codes[block], queries)
            kept = (roots <= xp.take(reach, queries)) & (xp.take(left_out.row_codes, rows) != codes)
            queries, rows, roots = queries[kept], rows[kept], roots[kept]
            # Pairs come by query and row: two stable sorts order them by query, distance and row.
            order = xp.argsort(roots, stable=True)
            order = xp.take(order, xp.argsort(xp.take(queries, order), stable=True))
            queries = xp.take(queries, order) + block.start
            parts.append((queries, xp.take(rows, order), xp.take(roots, order)))
        queries, rows, roots = (xp.concat(column) for column in zip(*parts, strict=True))
        return queries, rows, xp.astype(roots, Q.dtype)


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
    return xp.take_along_axis(squares, order, axis=1), xp.take_along_axis(rows, order, axis=1)


def _pair_squares(X, Q, queries, rows):
    """Return squared distances of pairs, by differences in float64."""
    xp = namespace(Q)
    difference = xp.astype(xp.take(Q, queries, axis=0), xp.float64)
    difference -= xp.astype(xp.take(X, rows, axis=0), xp.float64)
    difference *= difference
    return xp.sum(difference, axis=1)
