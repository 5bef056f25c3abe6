"""Similarities that count: a soft neighbourhood without the rows whose vote rounding would lose.

Once a metric is learned, nearly all similarities ``exp(-d^2)`` of a row vanish beside its greatest.
Of ``n`` of them, those below ``tolerance / n`` of the greatest add up to less than ``tolerance`` of
the sum, so they are never exponentiated, nor multiplied with anything.
"""

from typing import NamedTuple

import numpy as np

from vicinal._kernels._jit import fast_jit, jit

# Entries examined at once: the greatest of a chunk tells whether to look at each.
_LANES = 16
_CHUNK = 4 * _LANES
# Part of the sum that may be lost, by precision: less than the rounding of the sum itself.
_TOLERANCE = {np.dtype(np.float32): 1e-6, np.dtype(np.float64): 1e-14}
# Exponents below are raised to it: exponentials that underflow take ten times as long.
_LEAST_EXPONENT = -60.0


class NearSimilarities(NamedTuple):
    """Similarities of some rows, divided by the greatest of each; those that count only."""

    columns: np.ndarray  # (n_kept,): ascending for each row
    values: np.ndarray  # (n_kept,)
    starts: np.ndarray  # (n_rows + 1,): those of row i lie in starts[i]:starts[i + 1]


def near_similarities(logits: np.ndarray, most: float = 1.0) -> NearSimilarities | None:
    """Exponentiate, in each row, the logits that count beside the greatest one.

    The part of a row's sum that is left out is below 1e-6 in single and 1e-14 in double precision.
    None if they are more than the part ``most`` of all: then it is quicker to take all.
    """
    n_rows, n = logits.shape
    reach = logits.dtype.type(np.log(n / _TOLERANCE[logits.dtype]))
    room = max(n, int(most * logits.size))
    columns, values = np.empty(room, np.int32), np.empty(room, logits.dtype)
    starts = np.zeros(n_rows + 1, np.int64)
    found = _gather(logits, reach, columns, values, starts)
    if found < 0:
        return None
    values = values[:found]
    return NearSimilarities(columns[:found], np.exp(values, out=values), starts)


def all_similarities(logits: np.ndarray) -> np.ndarray:
    """Exponentiate the logits of each row less its greatest, in place."""
    _shift(logits, logits.max(axis=1), logits.dtype.type(_LEAST_EXPONENT))
    return np.exp(logits, out=logits)


@jit
def _greatest_of_chunks(row, lanes, greatest):
    """Greatest entry of each chunk; lanes side by side, which compilers vectorise."""
    n_whole = len(row) // _CHUNK
    for c in range(n_whole):
        start = c * _CHUNK
        for k in range(_LANES):
            a, b = row[start + k], row[start + _LANES + k]
            first = a if a > b else b
            a, b = row[start + 2 * _LANES + k], row[start + 3 * _LANES + k]
            second = a if a > b else b
            lanes[k] = first if first > second else second
        top = lanes[0]
        for k in range(_LANES):
            top = lanes[k] if lanes[k] > top else top
        greatest[c] = top
    if n_whole < len(greatest):
        greatest[n_whole] = row[n_whole * _CHUNK :].max()


@jit
def _gather(logits, reach, columns, values, starts):
    """Write the entries that count; return how many, or -1 if there is no room for them."""
    n_rows, n = logits.shape
    lanes = np.empty(_LANES, logits.dtype)
    greatest = np.empty((n + _CHUNK - 1) // _CHUNK, logits.dtype)
    found = 0
    for i in range(n_rows):
        row = logits[i]
        _greatest_of_chunks(row, lanes, greatest)
        highest = greatest.max()
        least = highest - reach
        for c in range(len(greatest)):
            if greatest[c] < least:
                continue
            first = c * _CHUNK
            last = min(n, first + _CHUNK)
            if found + last - first > len(columns):
                return -1
            for j in range(first, last):
                # Written whether it counts or not: cheaper than a branch.
                columns[found] = j
                values[found] = row[j] - highest
                found += row[j] >= least
        starts[i + 1] = found
    return found


@fast_jit
def _shift(logits, highest, least):
    for i in range(logits.shape[0]):
        row, top = logits[i], highest[i]
        for j in range(len(row)):
            row[j] = max(row[j] - top, least)


@fast_jit
def near_shares(near, lower, upper):
    """Sum of each row, and the part of it in the columns ``lower:upper``."""
    n_rows = len(near.starts) - 1
    sums, shares = np.empty(n_rows), np.empty(n_rows)
    for i in range(n_rows):
        every, own = 0.0, 0.0
        for e in range(near.starts[i], near.starts[i + 1]):
            every += near.values[e]
            if lower <= near.columns[e] < upper:
                own += near.values[e]
        sums[i], shares[i] = every, own / every
    return sums, shares


@fast_jit
def pull_of_neighbors(near, sums, shares, weights, X, lower, upper, pull, totals):
    """Weigh the pairs by how moving them apart changes the shares, and add them up.

    With ``w_ij = weights_i (shares_i - [j is own]) s_ij / sums_i``, row ``i`` of ``pull`` becomes
    the sum of ``w_ij X_j``, and ``w_ij`` is added to ``totals_j``.
    """
    for i in range(len(sums)):
        row = pull[i]
        row[:] = 0
        scale = weights[i] / sums[i]
        for e in range(near.starts[i], near.starts[i + 1]):
            j = near.columns[e]
            own = 1.0 if lower <= j < upper else 0.0
            near.values[e] *= scale * (shares[i] - own)
            w = near.values[e]  # read back in the precision of the rows
            totals[j] += w
            for d in range(len(row)):
                row[d] += w * X[j, d]


@fast_jit
def near_votes(near, codes, n_classes):
    """Part of each row's sum that falls to each class: (n_rows, n_classes)."""
    n_rows = len(near.starts) - 1
    votes = np.zeros((n_rows, n_classes), near.values.dtype)
    for i in range(n_rows):
        every = 0.0
        for e in range(near.starts[i], near.starts[i + 1]):
            votes[i, codes[near.columns[e]]] += near.values[e]
            every += near.values[e]
        for c in range(n_classes):
            votes[i, c] /= every
    return votes
