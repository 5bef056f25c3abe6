"""Smoothing kernels, weighted sums over neighbourhoods, forest weights and density ridges.

Forest weights: a forest predicts a weighted mean of training targets. With c_it the number of times
that tree t sampled row i and L_t(q) the leaf of q,

    w_i(q) = mean_t  c_it 1{i in L_t(q)} / sum_j c_jt 1{j in L_t(q)},

the adaptive nearest neighbours of Lin and Jeon (2006). A training row that is left out uses
only the trees that were grown without it.

Ridges of a Gaussian kernel density by subspace-constrained mean shift: with p(x) = sum_i s_i
exp(-|x - x_i|^2 / 2 h^2) and w_i its terms scaled to sum one, the mean shift is s(x) = sum_i w_i
x_i - x and the scatter around the mean C(x) = sum_i w_i (x_i - x)(x_i - x)' - s s'; then

    grad log p = s / h^2,      Hess log p = (C / h^2 - I) / h^2.

The Hessian has the eigenvectors of C. A point lies on the ridge of dimension m when s has no part
in the space V of the d - m smallest eigenvalues, and x <- x + V V's(x) leads there.
"""

from collections.abc import Callable
from typing import Any

import array_api_compat as compat
import numpy as np
from scipy import sparse

from vicinal._base import namespace, positive_part, row_blocks
from vicinal._kernels._jit import fast_jit, jit
from vicinal._kernels.ensemble._boosting import weighted_quantile
from vicinal._kernels.linear._covariance import standard_scale, usable_scale
from vicinal._kernels.neighbors._nearest import select_first, tighten

# Rows whose Gaussian weight is below this share of the largest are ignored.
GAUSSIAN_CUTOFF = 1e-8
# Rounding allowance when a total weight is compared with the required number of neighbours.
_COUNT_TOLERANCE = 1e-9


def _tricube(u: Any) -> Any:
    t = positive_part(1.0 - u * u * u)
    return t * t * t


def _cosine(u: Any) -> Any:
    xp = namespace(u)
    return xp.cos(0.5 * np.pi * xp.minimum(u, xp.ones_like(u))) * xp.astype(u < 1.0, u.dtype)


KERNELS: dict[str, Callable[[Any], Any]] = {
    "uniform": lambda u: namespace(u).astype(u <= 1.0, u.dtype),
    "epanechnikov": lambda u: 0.75 * positive_part(1.0 - u * u),
    "tricube": _tricube,
    "gaussian": lambda u: namespace(u).exp(-0.5 * u * u),
    "bisquare": lambda u: positive_part(1.0 - u * u) ** 2,
    "triangular": lambda u: positive_part(1.0 - u),
    "cosine": _cosine,
}


def _call_user_kernel(kernel: Callable, u: Any) -> Any:
    """Evaluate a callable kernel and check shape, sign and finiteness of what it returns."""
    xp = namespace(u)
    weights = xp.asarray(kernel(u), dtype=u.dtype, device=compat.device(u))
    if weights.shape != u.shape:
        raise ValueError(
            f"kernel returned shape {tuple(weights.shape)} for distances of shape "
            f"{tuple(u.shape)}; it must "
            "return one weight per distance."
        )
    if not bool(xp.all(xp.isfinite(weights) & (weights >= 0.0))):
        raise ValueError(
            "kernel returned negative or non-finite weights; it must return finite weights >= 0."
        )
    return weights


def kernel_values(u: Any, kernel: str | Callable) -> Any:
    """Return K(u) for scaled distances ``u >= 0``, of the same shape, in any array library."""
    if callable(kernel):
        return _call_user_kernel(kernel, u)
    return KERNELS[kernel](u)


def vanishes_at_one(kernel: str | Callable) -> bool:
    """Return whether K(1) = 0, so that rows at the bandwidth itself have no weight."""
    if callable(kernel):
        return bool(_call_user_kernel(kernel, np.ones(1))[0] == 0.0)
    return kernel not in ("uniform", "gaussian")


def nearest_scale(kernel: str | Callable) -> float:
    """Return the scaled distance of the k-th neighbour: 2 for a Gaussian, else 1."""
    return 2.0 if kernel == "gaussian" else 1.0


def nearest_bandwidth(distances: Any, weights: Any, count: float, *, exceed: bool) -> Any:
    """Return the radius that holds ``count`` neighbours, for each row of sorted distances.

    Parameters
    ----------
    distances : array of shape (n_queries, m)
        Ascending along each row.
    weights : array of shape (n_queries, m) or None
        User weights of those rows; ``None`` means ones.
    count : float
        Number of neighbours, or total weight.
    exceed : bool
        The smallest radius whose total weight exceeds ``count`` (the distance of the (k+1)-th
        neighbour when all weights are one), else the smallest that reaches it (the k-th).

    Returns
    -------
    array of shape (n_queries,)
        ``nan`` where the rows given do not hold enough weight.
    """
    xp = namespace(distances)
    if weights is None:
        position = int(np.floor(count + 1e-9)) if exceed else int(np.ceil(count - 1e-9)) - 1
        if position >= distances.shape[1]:
            return xp.full_like(distances[:, 0], float("nan"))
        return distances[:, max(position, 0)] + 0.0
    total = xp.cumulative_sum(weights, axis=1)
    tolerance = _COUNT_TOLERANCE * max(1.0, count)
    reached = total > count + tolerance if exceed else total >= count - tolerance
    # The first column that reaches the count has the least distance of all that do.
    infinite = xp.full_like(distances, float("inf"))
    h = xp.min(xp.where(reached, distances, infinite), axis=1)
    return xp.where(reached[:, -1], h, xp.full_like(h, float("nan")))


def loess_values(u: Any) -> Any:
    """Tricube with LOESS's guards: 1 below 0.001, 0 above 0.999 (Cleveland and Grosse 1991)."""
    xp = namespace(u)
    weights = xp.where(u < 0.001, xp.ones_like(u), _tricube(u))
    return xp.where(u > 0.999, xp.zeros_like(u), weights)


def robustness_weights(residuals: np.ndarray, sample_weight: np.ndarray | None) -> np.ndarray:
    """Bisquare weights of residuals scaled by six times their median size.

    Cleveland (1979), section 2; the guards 0.001 and 0.999 are LOESS's own.
    """
    size = np.abs(residuals)
    weights = np.ones_like(size) if sample_weight is None else sample_weight
    scale = 6.0 * float(weighted_quantile(size, 0.5, weights))
    if scale <= 0.0:
        return np.ones_like(size)
    u = size / scale
    weights = KERNELS["bisquare"](u)
    weights[u < 0.001] = 1.0
    weights[u > 0.999] = 0.0
    return weights


_SLOPES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "uniform": np.zeros_like,
    "epanechnikov": lambda u: np.where(u < 1.0, -1.5 * u, 0.0),
    "tricube": lambda u: -9.0 * u * u * np.maximum(1.0 - u * u * u, 0.0) ** 2,
    "gaussian": lambda u: -u * np.exp(-0.5 * u * u),
    "bisquare": lambda u: -4.0 * u * np.maximum(1.0 - u * u, 0.0),
    "triangular": lambda u: np.where(u < 1.0, -1.0, 0.0),
    "cosine": lambda u: np.where(u < 1.0, -0.5 * np.pi * np.sin(0.5 * np.pi * u), 0.0),
}


def kernel_slopes(u: np.ndarray, kernel: str | Callable) -> np.ndarray:
    """Return dK/du for scaled distances ``u >= 0``; a callable is differenced (step 1e-6)."""
    if callable(kernel):
        low, high = np.maximum(u - 1e-6, 0.0), u + 1e-6
        return (kernel_values(high, kernel) - kernel_values(low, kernel)) / (high - low)
    return _SLOPES[kernel](u)


def column_scale(X: Any, sample_weight: Any) -> tuple[Any, Any]:
    """Return mean and standard deviation of the columns, one where a column does not vary.

    Sparse columns have no mean to subtract.
    """
    if sparse.issparse(X):
        return None, _sparse_scale(X, sample_weight)
    return standard_scale(X, sample_weight)


def _sparse_scale(X, sample_weight) -> np.ndarray:
    """Return the standard deviations of sparse columns, as for the same rows in a dense array."""
    weights = np.ones(X.shape[0]) if sample_weight is None else sample_weight
    share = weights / weights.sum()
    mean = np.asarray(X.T @ share).ravel()
    X = sparse.csr_matrix(X, dtype=np.float64)
    owner = np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))
    terms = share[owner] * (X.data - mean[X.indices]) ** 2
    filled = np.bincount(X.indices, share[owner], minlength=X.shape[1])
    variance = np.bincount(X.indices, terms, minlength=X.shape[1])
    return usable_scale(mean, variance + np.maximum(1.0 - filled, 0.0) * mean**2)


def smooth_targets(indptr, indices, smoother, Y) -> np.ndarray:
    """Return sum_i l_i(q) Y_i of every query, shape (n_queries, n_outputs).

    Several smoothers (n_smoothers, nnz) give shape (n_smoothers, n_queries, n_outputs).
    """
    if len(indptr) == 2:  # one query, which needs no sparse matrix
        return (smoother @ Y[indices])[..., None, :]
    shape = (len(indptr) - 1, len(Y))
    matrix = sparse.csr_matrix((np.empty(len(indices)), indices, indptr), shape=shape)

    def sums(values) -> np.ndarray:
        matrix.data = values
        return matrix @ Y

    return sums(smoother) if smoother.ndim == 1 else np.stack([sums(one) for one in smoother])


def smooth_classes(indptr, indices, smoother, codes, n_classes: int) -> np.ndarray:
    """Return sum_i l_i(q) 1{y_i = c}, the fit to indicator columns, without forming them."""
    n_queries = len(indptr) - 1
    entry = np.repeat(np.arange(n_queries) * n_classes, indptr[1:] - indptr[:-1]) + codes[indices]
    sums = np.bincount(entry, smoother, minlength=n_queries * n_classes)
    return sums.reshape(n_queries, n_classes)


def is_pure(indptr, indices, codes) -> np.ndarray:
    """Return which queries have neighbours of one class only."""
    own, pure = codes[indices], indptr[1:] == indptr[:-1]
    first = indptr[:-1][~pure]
    pure[~pure] = np.minimum.reduceat(own, first) == np.maximum.reduceat(own, first)
    return pure


@fast_jit
def blend_values(indptr, indices, weights, Q, origins, values, slopes, out):
    """Write sum_j v_j (a_j + B_j (q - o_j)) / sum_j v_j for every query, (n_queries, n_outputs).

    The models of query t are ``indices[indptr[t]:indptr[t + 1]]``, with weights v_j;
    ``values`` holds a_j (n_models, n_outputs), ``slopes`` B_j (n_models, n_outputs, d).
    """
    d = Q.shape[1]
    for t in range(indptr.shape[0] - 1):
        total = 0.0
        for c in range(out.shape[1]):
            out[t, c] = 0.0
        for e in range(indptr[t], indptr[t + 1]):
            j = indices[e]
            w = weights[e]
            total += w
            for c in range(out.shape[1]):
                value = values[j, c]
                row = slopes[j, c]
                for a in range(d):
                    value += row[a] * (Q[t, a] - origins[j, a])
                out[t, c] += w * value
        for c in range(out.shape[1]):
            out[t, c] /= total


@jit
def shared_leaves(leaves, use_tree, queries, start, rows, shares, n_samples, found):
    """Write the neighbourhoods of some queries into ``found``: rows, weights and their number.

    If there are more rows than columns of ``found``, the heaviest are kept, and of equally heavy
    ones the first.

    Parameters
    ----------
    leaves : ndarray of int64 of shape (n_queries, n_trees)
        Leaf of each query in each tree, numbered through the forest.
    use_tree : ndarray of bool of shape (n_queries, n_trees) or (1, 1)
        Trees to use for each query; a single True uses all.
    queries : ndarray of int64
        Which queries.
    start, rows, shares : ndarray
        Rows of each leaf as compressed rows, with their shares of it (positive).
    n_samples : int
        Number of training rows.
    found : tuple of ndarray of shape (n_queries, max_size), (n_queries, max_size), (n_queries,)
        Rows, weights and how many there are.
    """
    indices, weights, sizes = found
    uses_all = use_tree.size == 1
    weight, negative = np.zeros(n_samples), np.empty(n_samples)
    shared, near = np.empty(n_samples + 1, dtype=np.int64), np.empty(n_samples, dtype=np.int64)
    for q in queries:
        size, n_used = 0, 0
        for t in range(leaves.shape[1]):
            if not (uses_all or use_tree[q, t]):
                continue
            n_used += 1
            leaf = leaves[q, t]
            for entry in range(start[leaf], start[leaf + 1]):
                row = rows[entry]
                known = weight[row]
                shared[size] = row  # without a branch, which could not be predicted
                size += known == 0.0
                weight[row] = known + shares[entry]
        heaviest = 0.0
        for i in range(size):
            near[i], negative[i] = shared[i], -weight[shared[i]]
            heaviest = max(heaviest, weight[shared[i]])
            weight[shared[i]] = 0.0
        sizes[q] = min(size, indices.shape[1])
        if size > sizes[q]:
            kept, _ = tighten(negative, near, size, sizes[q], -heaviest, 0.0)
            select_first(negative, near, kept, sizes[q])
        for i in range(sizes[q]):
            indices[q, i], weights[q, i] = near[i], -negative[i] / n_used


# Terms below this share of the largest are left out.
_LOG_CUTOFF = -np.log(1e-12)
# Beyond this exponent every term of the density underflows.
_LOG_UNDERFLOW = 700.0
# A list of near rows serves while the point stays within this many bandwidths of where it was made.
_SLACK = 0.5


@jit
def _square_distances(x, X, squares):
    """Write the squared distances of the rows from ``x``; return the number of the nearest."""
    nearest = 0
    for i in range(X.shape[0]):
        squares[i] = 0.0
        for a in range(X.shape[1]):
            squares[i] += (X[i, a] - x[a]) ** 2
        if squares[i] < squares[nearest]:
            nearest = i
    return nearest


@jit
def local_moments(x, X, weights, h):
    """Return the mean shift and the scatter around the mean at ``x``."""
    share = np.empty(X.shape[0])
    least = share[_square_distances(x, X, share)]
    for i in range(len(share)):
        exponent = (share[i] - least) / (2.0 * h * h)
        share[i] = weights[i] * np.exp(-exponent) if exponent <= _LOG_CUTOFF else 0.0
    share /= share.sum()
    offsets = X - x
    shift = share @ offsets
    return shift, (offsets.T * share) @ offsets - np.outer(shift, shift)


@jit
def project_to_ridge(Q, X, weights, h, m, tol, max_iter, out, converged, n_iter):
    """Move every row of ``Q`` to the ridge of dimension ``m``; one row after the other."""
    squares = np.empty(X.shape[0])
    for t in range(Q.shape[0]):
        x = Q[t].copy()
        nearest = _square_distances(x, X, squares)
        if squares[nearest] > 2.0 * _LOG_UNDERFLOW * h * h:
            # The density is zero to working precision here: start at the nearest sample.
            x[:] = X[nearest]
        origin, near, near_weights = x, X, weights
        converged[t] = False
        for iteration in range(max_iter):
            n_iter[t] = iteration + 1
            if iteration == 0 or ((x - origin) ** 2).sum() > (_SLACK * h) ** 2:
                # Rows that can have weight while x stays within the slack.
                least = np.sqrt(squares[_square_distances(x, X, squares)]) + _SLACK * h
                reach = np.sqrt(least**2 + 2.0 * _LOG_CUTOFF * h * h) + _SLACK * h
                rows = np.flatnonzero(squares <= reach * reach)
                origin, near, near_weights = x, X[rows], weights[rows]
            shift, scatter = local_moments(x, near, near_weights, h)
            if m > 0:
                normal = np.ascontiguousarray(np.linalg.eigh(scatter)[1][:, : x.shape[0] - m])
                shift = normal @ (shift @ normal)
            x = x + shift
            if (shift**2).sum() <= (tol * h) ** 2:
                converged[t] = True
                break
        out[t] = x


def left_out_log_density(X: np.ndarray, weights: np.ndarray, rows: np.ndarray, bandwidths):
    """Return log p of some rows without themselves and their copies, (n_bandwidths, n_rows).

    Up to the constant that rows share; -inf where there is no other row.
    """
    n, d = X.shape
    out = np.empty((len(bandwidths), len(rows)))
    for block in row_blocks(len(rows), 8 * n * 6, max_rows=512):
        square = np.zeros((len(rows[block]), n))
        for a in range(d):
            square += (X[rows[block], a, None] - X[None, :, a]) ** 2
        square[square == 0.0] = np.inf
        least = square.min(axis=1)
        for j, h in enumerate(bandwidths):
            terms = np.exp((least[:, None] - square) / (2.0 * h * h)) @ weights
            out[j, block] = np.log(terms) - least / (2.0 * h * h) - d * np.log(h)
    return out
