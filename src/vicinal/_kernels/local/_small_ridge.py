"""Local ridge of small tables in NumPy: the kernels of ``_ridge`` without anything to compile.

Compiling takes seconds once in an environment and loading what was compiled takes some tenths of a
second in every process: more than the fits themselves of a table of a few hundred rows. Here
neighbourhoods are padded with rows of weight zero to the longest and solved in batches, which takes
about three times as long as compiled code.
"""

from collections.abc import Iterator

import numpy as np

from vicinal._kernels.local._workspace import Queries, n_design_columns

# Rows of a table, and multiply-adds of one call, up to which it goes here: some hundredths of a
# second.
_MAX_ROWS, _MAX_WORK = 320, 1e7
# Numbers of one batch, so that it stays in the processor's cache.
_BATCH = 1 << 16
# Smaller penalties may leave systems singular, larger offsets overflow: compiled code knows both.
_LEAST_PENALTY, _LARGEST = 1e-3, 1e70
_FLAT = 1e-14


def is_small(queries: Queries, alphas, *, relative: bool) -> bool:
    """Tell whether fits of degree one or two are fewer than compiling would be worth."""
    sizes = np.diff(queries.indptr)
    k, p = sizes.max(initial=0), n_design_columns(queries.X.shape[1], queries.degree)
    work = len(sizes) * k * p * (min(p, k) + 4.0)
    is_everyday = relative and np.min(alphas) >= _LEAST_PENALTY and np.max(alphas) < np.inf
    if len(queries.X) > _MAX_ROWS or work > _MAX_WORK or not is_everyday:
        return False
    largest = max(np.abs(queries.X).max(initial=0), np.abs(queries.Q).max(initial=0))
    return 1.0 / _LARGEST < largest < _LARGEST


def small_equivalent_kernels(queries: Queries, alphas: np.ndarray, skip: np.ndarray, out) -> None:
    """Write l(q) of every query and penalty into ``out`` of shape (n_alphas, nnz).

    ``skip`` marks queries that ask for the local constant fit only.
    """
    sizes = np.diff(queries.indptr)
    for some in _batches(queries, np.flatnonzero(sizes > 0)):
        inside, indices, weights = _padded(queries, some)
        level = weights / weights.sum(axis=1, keepdims=True)
        kernels = np.repeat(level[None], len(alphas), axis=0)
        fitted = np.flatnonzero(~skip[some])
        if fitted.size:
            Z, mean, root, trace = _centred(queries, some[fitted], indices[fitted], weights[fitted])
            right = mean if _is_tall(Z) else Z @ mean
            U = _solutions(Z, right, trace, alphas)[..., 0].transpose(1, 2, 0)
            along = Z @ U if _is_tall(Z) else U  # (n_queries, k, n_alphas)
            kernels[:, fitted] -= root * along.transpose(2, 0, 1)
        entries = (queries.indptr[some, None] + np.arange(indices.shape[1]))[inside]
        out[:, entries] = kernels[:, inside]


def small_slopes(queries: Queries, Y: np.ndarray, alpha: float, out: np.ndarray) -> None:
    """Write the gradients of the local models at their queries; ``out`` comes as zeros."""
    d = out.shape[2]
    sizes = np.diff(queries.indptr)
    for some in _batches(queries, np.flatnonzero(sizes > 0)):
        _, indices, weights = _padded(queries, some)
        Z, _, root, trace = _centred(queries, some, indices, weights)
        level = weights / weights.sum(axis=1, keepdims=True)
        targets = Y[indices]
        T = (targets - level[:, None] @ targets) * root[..., None]
        right = Z.transpose(0, 2, 1) @ T if _is_tall(Z) else T
        U = _solutions(Z, right, trace, np.array([alpha]))[0]
        slopes = U if _is_tall(Z) else Z.transpose(0, 2, 1) @ U
        out[some] = slopes[:, :d].transpose(0, 2, 1)


def _batches(queries: Queries, some: np.ndarray) -> Iterator[np.ndarray]:
    """Cut queries, the shortest neighbourhoods first, into batches of about equal size."""
    sizes = np.diff(queries.indptr)[some]
    order = np.argsort(sizes, kind="stable")
    width = n_design_columns(queries.X.shape[1], queries.degree)
    first = 0
    while first < len(order):
        count = max(1, _BATCH // (int(sizes[order[first]]) * width))
        yield some[order[first : first + count]]
        first += count


def _padded(queries: Queries, some: np.ndarray):
    """Return (which entries are rows, row numbers, weights) as rectangles."""
    start, stop = queries.indptr[some], queries.indptr[some + 1]
    place = start[:, None] + np.arange((stop - start).max())
    inside = place < stop[:, None]
    place = np.minimum(place, stop[:, None] - 1)
    return inside, queries.indices[place], np.where(inside, queries.weights[place], 0.0)


def _centred(queries: Queries, some, indices, weights):
    """Return (rows centred times root weights, mean offset, root weights, trace of V)."""
    R = queries.X.take(indices, axis=0).astype(np.float64, copy=False)
    R -= queries.Q[some, None]
    if queries.degree == 2:
        R = _with_products(R, weights)
    total = weights.sum(axis=1)
    mean = (weights / total[:, None])[:, None] @ R
    R -= mean
    root = np.sqrt(weights)
    R *= root[..., None]
    trace = np.einsum("tia,tia->t", R, R)
    size = trace + total * np.einsum("tia,tia->t", mean, mean)
    return R, mean.transpose(0, 2, 1), root, np.where(trace > _FLAT * size, trace, 0.0)


def _with_products(R: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Append products of columns, divided by the spread so that they keep the columns' unit."""
    d = R.shape[2]
    size = np.einsum("tia,tia,ti->t", R, R, weights)
    spread = np.sqrt(size / (weights.sum(axis=1) * d))
    left, right = np.tril_indices(d)
    products = R[..., left] * R[..., right] / np.where(spread > 0.0, spread, 1.0)[:, None, None]
    return np.concatenate([R, products], axis=2)


def _is_tall(Z: np.ndarray) -> bool:
    return Z.shape[2] <= Z.shape[1]


def _solutions(Z, right, trace, alphas) -> np.ndarray:
    """Return (gram + lam I)^-1 right of every penalty, zero where rows have no spread."""
    gram = Z.transpose(0, 2, 1) @ Z if _is_tall(Z) else Z @ Z.transpose(0, 2, 1)
    lam = np.where(trace > 0.0, alphas[:, None] * trace / Z.shape[2], 1.0)
    shifted = np.repeat(gram[None], len(alphas), axis=0)
    diagonal = np.arange(gram.shape[1])
    shifted[..., diagonal, diagonal] += lam[..., None]
    right = np.where((trace > 0.0)[:, None, None], right, 0.0)
    return np.linalg.solve(shifted, np.broadcast_to(right, (len(alphas), *right.shape)))
