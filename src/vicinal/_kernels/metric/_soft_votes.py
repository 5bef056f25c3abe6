"""Soft-neighbour classification in a linear metric: expected accuracy, its gradient, and votes.

References are sorted by class, so that "neighbours of the same class" is a run of columns and no
mask is ever made. Sums over pairs go through blocks of rows and groups of blocks of fixed sizes:
results depend on neither the number of threads nor ``working_memory``.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np

from vicinal import _base
from vicinal._kernels.metric._uncertainty import block_map

# Small enough for a core's cache on the host; a device wants long blocks.
_HOST_BLOCK_MIB = 4
_DEVICE_BLOCK_MIB = 1024
# Each group holds one vector over the references, so there are not too many of them.
_MOST_GROUPS = 32
_SERIAL_PAIRS = 250_000


@_base.saved(X="n m", bounds="c+1 <n+1", log_weights="n")
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
    augmented = _with_ones(references.X, xp)
    logits = _logits(A, anchors.X, references, anchors.positions)

    def score_group(blocks):
        value: Any = 0.0
        cross: Any = 0.0
        columns = xp.zeros(references.X.shape[0], dtype=dtype, device=device) if gradient else None
        for rows, runs in blocks:
            L, weights = logits(rows), anchors.weights[rows]
            gains, V = _score_block(L, runs, weights, augmented, floor, columns)
            value += gains
            if gradient:
                cross += xp.astype(anchors.X[rows, :].T @ V, xp.float64)
        return value, cross, columns

    groups = _groups(_runs_of_blocks(anchors, references))
    parts = block_map(score_group, groups, _worthwhile(n_jobs, anchors.X, references))
    # One transfer at the end, because each one waits for the device.
    value = float(sum(part[0] for part in parts))
    if not gradient:
        return value, None
    # w_ij = r_i (p_i p_ij - [c_i = c_j] p_ij) sums to zero over j, so of the four terms of
    # sum_ij w_ij (x_i - x_j)(x_i - x_j)^T three are left.
    cross = _base.as_numpy(sum(part[1] for part in parts))
    columns = sum(xp.astype(part[2], xp.float64) for part in parts)
    X = xp.astype(references.X, xp.float64)
    weighted = _base.as_numpy((X * columns[:, None]).T @ X)
    return value, 2.0 * A @ (weighted - cross - cross.T)


def own_class_probabilities(
    A: np.ndarray, anchors: Anchors, references: References, *, n_jobs: int | None = None
) -> np.ndarray:
    """Probability of its own class for each anchor, on the host: (n_anchors,)."""
    xp = compat.array_namespace(references.X)
    logits = _logits(A, anchors.X, references, anchors.positions)

    def probability(task):
        rows, runs = task
        E = _exponentiate(logits(rows), xp)
        same = xp.concat([xp.sum(E[run, own], axis=1) for run, own in runs])
        return same / xp.sum(E, axis=1)

    blocks = _runs_of_blocks(anchors, references)
    parts = block_map(probability, blocks, _worthwhile(n_jobs, anchors.X, references))
    return _base.as_numpy(xp.concat(parts)).astype(np.float64)


def soft_votes(A: np.ndarray, X: Any, references: References, *, n_jobs: int | None = None) -> Any:
    """Probability of each class by soft neighbours among the references: (n_queries, C)."""
    xp = compat.array_namespace(X)
    logits = _logits(A, X, references)

    def vote(rows):
        E = _exponentiate(logits(rows), xp)
        votes = xp.stack([xp.sum(E[:, own], axis=1) for own in _slices(references.bounds)], axis=1)
        return votes / xp.sum(votes, axis=1, keepdims=True)

    blocks = _pair_blocks(X.shape[0], references)
    return xp.concat(block_map(vote, blocks, _worthwhile(n_jobs, X, references)))


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


def _gains(p: Any, weights: Any, floor: float | None, xp: Any) -> tuple[Any, Any]:
    """Return the objective of the anchors' probabilities, and the weights of their derivatives."""
    if floor is None:
        return xp.sum(xp.astype(weights * p, xp.float64)), weights
    raised = p + floor
    value = xp.sum(xp.astype(weights * xp.log(raised / (1.0 + floor)), xp.float64))
    return value, xp.astype(weights / raised, weights.dtype)


def _logits(
    A: np.ndarray, X: Any, references: References, positions: Any = None
) -> Callable[[slice], Any]:
    """Return a function from a slice of the rows ``X`` to their logits.

    They are the product of ``[z_i, 1]`` with ``[2 z_j, log v_j - |z_j|^2]``. It lacks
    ``-|z_i|^2``, which is the same for all neighbours of a row.
    """
    xp = compat.array_namespace(X)
    rows_A = xp.asarray(A, dtype=X.dtype, device=compat.device(X))
    Z = references.X @ rows_A.T
    bias = references.log_weights - xp.sum(Z * Z, axis=1)
    factors = xp.concat([2 * Z, bias[:, None]], axis=1).T
    left = _with_ones(X @ rows_A.T, xp)

    def logits(rows):
        values = left[rows, :] @ factors
        return values if positions is None else _base.fill_entries(values, positions[rows], -np.inf)

    return logits


def _with_ones(X: Any, xp: Any) -> Any:
    ones = xp.ones((X.shape[0], 1), dtype=X.dtype, device=compat.device(X))
    return xp.concat([X, ones], axis=1)


def _slices(bounds: np.ndarray) -> list[slice]:
    """Rows of each class."""
    return [slice(lower, upper) for lower, upper in pairwise(bounds.tolist())]


def _exponentiate(logits: Any, xp: Any) -> Any:
    """Similarities, scaled to at most one in each row; in place where the library can."""
    logits -= xp.max(logits, axis=1, keepdims=True)
    return _base.exponentials(logits, least=-60.0)


def _pair_blocks(n_rows: int, references: References) -> list[slice]:
    """Blocks of rows whose similarities fit the cache of the host, or the memory of a device."""
    size = _base.pair_memory(references.X, _HOST_BLOCK_MIB, _DEVICE_BLOCK_MIB)
    return list(_base.row_blocks(n_rows, 8 * references.X.shape[0], working_memory=size))


def _runs_of_blocks(anchors: Anchors, references: References) -> list[tuple[slice, list]]:
    """Blocks of anchors, each with its runs of one class: slices of the block, own references."""
    own = _slices(references.bounds)
    blocks = []
    for rows in _pair_blocks(anchors.X.shape[0], references):
        runs = []
        for c, rows_of_class in enumerate(_slices(anchors.bounds)):
            start, stop = max(rows_of_class.start, rows.start), min(rows_of_class.stop, rows.stop)
            if start < stop:
                runs.append((slice(start - rows.start, stop - rows.start), own[c]))
        blocks.append((rows, runs))
    return blocks


def _worthwhile(n_jobs: int | None, X: Any, references: References) -> int | None:
    """One thread for few pairs, where starting another costs more than the work."""
    few = X.shape[0] * references.X.shape[0] <= _SERIAL_PAIRS
    return 1 if few else _base.host_jobs(X, n_jobs)


def _groups(blocks: list) -> list[list]:
    """Consecutive blocks in at most ``_MOST_GROUPS`` groups."""
    size = -(-len(blocks) // _MOST_GROUPS)
    return [blocks[i : i + size] for i in range(0, len(blocks), size)]
