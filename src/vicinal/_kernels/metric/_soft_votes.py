"""Soft-neighbour classification in a linear metric: expected accuracy, its gradient, and votes.

References are sorted by class, so that "neighbours of the same class" is a run of columns and no
mask is ever made. Sums over pairs go through blocks of rows and groups of blocks of fixed sizes:
results depend on neither the number of threads nor ``working_memory``.

On the host, neighbourhoods are truncated once the metric is sharp, for nearly all similarities
``exp(-d^2)`` of a row then vanish compared with its greatest. Of ``n`` of them, those below
``tolerance / n`` of the greatest add up to less than ``tolerance`` of the sum, so they are never
exponentiated, nor multiplied with anything. The sums differ by less than 1e-6 of themselves in
single precision, 1e-14 in double.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np

from vicinal._base import as_numpy, exponentials, fill_entries, free_memory, host_jobs, saved
from vicinal._kernels._jit import fast_jit, jit
from vicinal._kernels.metric._uncertainty import block_map, class_blocks

# Entries per chunk: a chunk is skipped if its maximum is negligible.
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
    """Exponentiate, in each row, the logits that are not negligible.

    The part of a row's sum that is ignored is below 1e-6 in single and 1e-14 in double precision.
    ``None`` if they are more than the share ``most`` of all: then using all is faster.
    """
    n_rows, n = logits.shape
    reach = logits.dtype.type(np.log(n / _TOLERANCE[logits.dtype]))
    capacity = max(n, int(most * logits.size))
    columns, values = np.empty(capacity, np.int32), np.empty(capacity, logits.dtype)
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
    """Write the entries that are not negligible; return their number, or -1 if they do not fit."""
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


# Small enough for a core's cache on the host; a device wants long blocks.
_HOST_BLOCK_MIB = 4
_DEVICE_BLOCK_MIB = 1024
# Each group holds one vector over the references, so there are not too many of them.
_MOST_GROUPS = 32
_SERIAL_PAIRS = 250_000
# Part of the similarities up to which it is quicker to pick those that count than to take all.
_SPARSE = 0.25


@saved(X="n m", bounds="c+1 <n+1", log_weights="n")
class References(NamedTuple):
    """Rows that vote, sorted by class."""

    X: Any  # (n, m)
    bounds: np.ndarray  # (n_classes + 1,): rows bounds[c]:bounds[c + 1] are of class c
    log_weights: Any  # (n,)


class Anchors(NamedTuple):
    """Rows whose classification is scored, sorted by class.

    ``positions`` are the indices of the anchors among the references, since a row must not be its
    own neighbour; ``None`` for held-out rows.
    """

    X: Any  # (n_anchors, m)
    bounds: np.ndarray  # (n_classes + 1,)
    weights: Any  # (n_anchors,): responsibility times sample weight
    positions: Any  # (n_anchors,) or None


def expected_accuracy(
    A: np.ndarray,
    anchors: Anchors,
    references: References,
    *,
    floor: float | None = None,
    gradient: bool = True,
    n_jobs: int | None = None,
) -> tuple[float, np.ndarray | None]:
    """Weighted sum over anchors of the probability of their class, and its gradient in ``A``.

    With ``floor``, of ``log((p + floor) / (1 + floor))``: the likelihood, but for a bound on what
    one anchor can cost. ``A`` (q, m) is on the host in float64, and so is the gradient; pairs are
    worked on where the rows are and in their floating type.
    """
    xp = compat.array_namespace(references.X)
    device, dtype = compat.device(references.X), references.X.dtype
    on_host = isinstance(references.X, np.ndarray)
    A_rows = xp.asarray(A, dtype=dtype, device=device)
    factors = _logit_factors(A_rows, references, xp)
    left = _with_ones(anchors.X @ A_rows.T, xp)
    augmented = _with_ones(references.X, xp)
    logits = _logit_engine(left, factors, anchors.positions, xp)

    def score_group(blocks):
        value: Any = 0.0
        cross: Any = 0.0
        columns = xp.zeros(factors.shape[1], dtype=dtype, device=device) if gradient else None
        for rows, runs in blocks:
            L, weights = logits(rows), anchors.weights[rows]
            near = near_similarities(L, _SPARSE) if on_host else None
            if near is None:
                gains, V = _score_block(L, runs, weights, augmented, floor, columns)
            else:
                gains, V = _score_near(near, runs[0][1], weights, references.X, floor, columns)
            value += gains
            if gradient:
                cross += xp.astype(anchors.X[rows, :].T @ V, xp.float64)
        return value, cross, columns

    groups = _groups(_runs_of_blocks(anchors.bounds, references))
    parts = block_map(score_group, groups, _worthwhile(n_jobs, anchors.X, references))
    # One transfer at the end, because each one waits for the device.
    value = float(sum(part[0] for part in parts))
    if not gradient:
        return value, None
    # w_ij = r_i (p_i p_ij - [c_i = c_j] p_ij) sums to zero over j, so of the four terms of
    # sum_ij w_ij (x_i - x_j)(x_i - x_j)^T three are left.
    cross = as_numpy(sum(part[1] for part in parts))
    columns = sum(xp.astype(part[2], xp.float64) for part in parts)
    X = xp.astype(references.X, xp.float64)
    weighted = as_numpy((X * columns[:, None]).T @ X)
    return value, 2.0 * A @ (weighted - cross - cross.T)


def own_class_probabilities(
    A: np.ndarray, anchors: Anchors, references: References, *, n_jobs: int | None = None
) -> np.ndarray:
    """Probability of its own class for each anchor, on the host: (n_anchors,)."""
    xp = compat.array_namespace(references.X)
    A_rows = xp.asarray(A, dtype=references.X.dtype, device=compat.device(references.X))
    factors = _logit_factors(A_rows, references, xp)
    left = _with_ones(anchors.X @ A_rows.T, xp)
    logits = _logit_engine(left, factors, anchors.positions, xp)

    def probability(task):
        c, rows = task
        L = logits(rows)
        lower, upper = int(references.bounds[c]), int(references.bounds[c + 1])
        near = near_similarities(L, _SPARSE) if isinstance(L, np.ndarray) else None
        if near is not None:
            return near_shares(near, lower, upper)[1]
        E = _exponentiate(L, xp)
        return xp.sum(E[:, lower:upper], axis=1) / xp.sum(E, axis=1)

    blocks = _pair_blocks(anchors.bounds, references)
    parts = block_map(probability, blocks, _worthwhile(n_jobs, anchors.X, references))
    return as_numpy(xp.concat(parts)).astype(np.float64)


def soft_votes(A: np.ndarray, X: Any, references: References, *, n_jobs: int | None = None) -> Any:
    """Probability of each class by soft neighbours among the references: (n_queries, C)."""
    xp = compat.array_namespace(X)
    codes = _codes(references.bounds)

    def vote(L):
        if isinstance(L, np.ndarray):
            # Never all similarities, so that results do not depend on the other queries.
            return near_votes(near_similarities(L), codes, len(references.bounds) - 1)
        E = _exponentiate(L, xp)
        votes = xp.stack(
            [
                xp.sum(E[:, lower:upper], axis=1)
                for lower, upper in pairwise(references.bounds.tolist())
            ],
            axis=1,
        )
        return votes / xp.sum(votes, axis=1, keepdims=True)

    return _map_queries(A, X, references, vote, n_jobs)


# --- parts ----------------------------------------------------------------------------------------


def _score_block(L, runs, weights, augmented, floor, columns):
    """Return the objective of a block of anchors, and their part of the gradient (n, m).

    The references' part is added to ``columns``; without ``columns`` no gradient is made.
    """
    xp = compat.array_namespace(L)
    E = _exponentiate(L, xp)
    every = E @ augmented  # the last column is the sum of similarities
    parts = [E[run, own] @ augmented[own, :] for run, own in runs]
    same = parts[0] if len(parts) == 1 else xp.concat(parts, axis=0)
    p = same[:, -1] / every[:, -1]
    gains, weights = _gains(p, weights, floor, xp)
    if columns is None:
        return gains, None
    scale = weights / every[:, -1]
    columns += (scale * p) @ E
    for run, own in runs:
        columns[own] -= scale[run] @ E[run, own]
    return gains, scale[:, None] * (p[:, None] * every[:, :-1] - same[:, :-1])


def _score_near(near, own, weights, X, floor, columns):
    """Do as ``_score_block`` where few similarities differ from zero."""
    sums, shares = near_shares(near, own.start, own.stop)
    gains, weights = _gains(shares, weights, floor, np)
    if columns is None:
        return gains, None
    V = np.empty((len(sums), X.shape[1]), X.dtype)
    pull_of_neighbors(near, sums, shares, weights, X, own.start, own.stop, V, columns)
    return gains, V


def _gains(p: Any, weights: Any, floor: float | None, xp: Any) -> tuple[Any, Any]:
    """Return the objective of the anchors' probabilities, and the weights of their derivatives."""
    if floor is None:
        return xp.sum(xp.astype(weights * p, xp.float64)), weights
    raised = p + floor
    value = xp.sum(xp.astype(weights * xp.log(raised / (1.0 + floor)), xp.float64))
    return value, xp.astype(weights / raised, weights.dtype)


def _logit_factors(A: Any, references: References, xp: Any) -> Any:
    """Columns ``[2 z_j, log v_j - |z_j|^2]``: the product with ``[z_i, 1]`` is a logit.

    It lacks ``-|z_i|^2``, which is the same for all neighbours of a row.
    """
    Z = references.X @ A.T
    bias = references.log_weights - xp.sum(Z * Z, axis=1)
    return xp.concat([2 * Z, bias[:, None]], axis=1).T


def _with_ones(X: Any, xp: Any) -> Any:
    ones = xp.ones((X.shape[0], 1), dtype=X.dtype, device=compat.device(X))
    return xp.concat([X, ones], axis=1)


def _codes(bounds: np.ndarray) -> np.ndarray:
    """Class of each reference."""
    return np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))


def _logit_engine(left: Any, factors: Any, positions: Any, xp: Any) -> Callable[[slice], Any]:
    """Return a function from a slice of rows to their logits."""

    def logits(rows):
        values = left[rows, :] @ factors
        return values if positions is None else fill_entries(values, positions[rows], -np.inf)

    return logits


def _exponentiate(logits: Any, xp: Any) -> Any:
    """Similarities, scaled to at most one in each row; in place where the library can."""
    if isinstance(logits, np.ndarray):
        return all_similarities(logits)
    logits -= xp.max(logits, axis=1, keepdims=True)
    return exponentials(logits)


def _pair_blocks(bounds: np.ndarray, references: References) -> list[tuple[int, slice]]:
    """Blocks of rows, none crossing a class, whose similarities fit the cache."""
    size: float = _HOST_BLOCK_MIB
    if not isinstance(references.X, np.ndarray):
        # A device that is nearly full gets shorter blocks.
        free = free_memory(references.X)
        size = _DEVICE_BLOCK_MIB if free is None else min(_DEVICE_BLOCK_MIB, free)
    return class_blocks(bounds, 8 * references.X.shape[0], working_memory=size)


def _runs_of_blocks(bounds: np.ndarray, references: References) -> list[tuple[slice, list]]:
    """Blocks of rows, each with its runs of one class: slices of the block, own references.

    On the host no block crosses a class; on a device few long blocks are faster.
    """
    own = [slice(int(lower), int(upper)) for lower, upper in pairwise(references.bounds)]
    if isinstance(references.X, np.ndarray):
        return [
            (rows, [(slice(0, rows.stop - rows.start), own[c])])
            for c, rows in _pair_blocks(bounds, references)
        ]
    blocks = []
    for _, rows in _pair_blocks(np.array([0, bounds[-1]]), references):
        runs = []
        for c, (lower, upper) in enumerate(pairwise(bounds.tolist())):
            start, stop = max(lower, rows.start), min(upper, rows.stop)
            if start < stop:
                runs.append((slice(start - rows.start, stop - rows.start), own[c]))
        blocks.append((rows, runs))
    return blocks


def _worthwhile(n_jobs: int | None, X: Any, references: References) -> int | None:
    """One thread for few pairs, where starting another costs more than the work."""
    few = X.shape[0] * references.X.shape[0] <= _SERIAL_PAIRS
    return 1 if few else host_jobs(X, n_jobs)


def _groups(blocks: list) -> list[list]:
    """Consecutive blocks in at most ``_MOST_GROUPS`` groups."""
    size = -(-len(blocks) // _MOST_GROUPS)
    return [blocks[i : i + size] for i in range(0, len(blocks), size)]


def _map_queries(A, X, references, function, n_jobs):
    """Apply ``function`` to the logits of each block of queries; stack the results."""
    xp = compat.array_namespace(X)
    A_rows = xp.asarray(A, dtype=X.dtype, device=compat.device(X))
    left = _with_ones(X @ A_rows.T, xp)
    logits = _logit_engine(left, _logit_factors(A_rows, references, xp), None, xp)
    blocks = _pair_blocks(np.array([0, X.shape[0]]), references)
    n_jobs = _worthwhile(n_jobs, X, references)
    return xp.concat(block_map(lambda block: function(logits(block[1])), blocks, n_jobs))
