"""A chain of rejects over region models: losses, gate problems, routing, first assignments.

Region ``k`` of ``r`` is reached by the samples that the gates ``0 .. k-1`` passed on; gate ``k``
keeps a sample (score at most 0) or passes it on (score above 0), and the last region has no gate.
Arrays may be of any library, if the docstring names no other; rows stay on their device.
"""

from typing import Any

import array_api_compat as compat
import numpy as np
from scipy import sparse
from scipy.linalg import solve

from vicinal._base import as_numpy, block_limits, namespace, on_device_of, row_blocks, take_rows
from vicinal._kernels._jit import jit

# Rows per scoring block: scores of a block should stay in the cache. Constants, because the last
# bits of a matrix product may depend on the shape of the block, and results must not depend on
# the memory settings.
_BLOCK_ROWS = 4096
_SCORE_ROWS = 256

# Steps of k-means that make a first assignment.
LLOYD_STEPS = 10


@jit
def _mark_errors(scores, offsets, codes, errors):
    """Write into ``errors`` whether the arg-max of scores and offsets differs from the code."""
    n_rows = scores.shape[0]
    n_regions = errors.shape[0]
    n_classes = scores.shape[1] // n_regions
    for i in range(n_rows):
        code = codes[i]
        for k in range(n_regions):
            first = k * n_classes
            own = scores[i, first + code] + offsets[first + code]
            # NumPy's arg-max takes the first of equal scores: earlier classes win ties, later
            # ones lose them. Counting without an early exit lets the loops be vectorised.
            rivals = 0
            for j in range(first, first + code):
                rivals += scores[i, j] + offsets[j] >= own
            for j in range(first + code + 1, first + n_classes):
                rivals += scores[i, j] + offsets[j] > own
            errors[k, i] = rivals > 0


def linear_errors(X: Any, coefs: np.ndarray, intercepts: np.ndarray, codes: np.ndarray):
    """Return which samples on the host each linear region classifier gets wrong.

    One matrix product scores all regions; the scores of a block are compared and forgotten.

    Parameters
    ----------
    X : ndarray or CSR matrix of shape (n_samples, n_features)
    coefs : ndarray of shape (n_regions, n_classes, n_features)
    intercepts : ndarray of shape (n_regions, n_classes)
    codes : ndarray of int of shape (n_samples,)

    Returns
    -------
    errors : ndarray of bool of shape (n_regions, n_samples)
    """
    n_regions, n_classes, n_features = coefs.shape
    weights = np.ascontiguousarray(coefs.reshape(n_regions * n_classes, n_features).T)
    offsets = intercepts.reshape(-1)
    errors = np.empty((n_regions, X.shape[0]), dtype=bool)
    for start in range(0, X.shape[0], _SCORE_ROWS):
        block = slice(start, start + _SCORE_ROWS)
        _mark_errors(X[block] @ weights, offsets, codes[block], errors[:, block])
    return errors


def any_linear_errors(X: Any, coefs: np.ndarray, intercepts: np.ndarray, codes: Any) -> Any:
    """Return the result of ``linear_errors`` for arrays of any library."""
    xp, (n_regions, n_classes, n_features) = namespace(X), coefs.shape
    weights = on_device_of(coefs.reshape(-1, n_features).T, X)
    offsets = on_device_of(intercepts.reshape(-1), X)
    parts = []
    for rows in row_blocks(X.shape[0], 32 * intercepts.size, **block_limits(X)):
        scores = xp.reshape(X[rows, :] @ weights + offsets, (-1, n_regions, n_classes))
        parts.append(xp.argmax(scores, axis=2) != codes[rows][:, None])
    return xp.permute_dims(xp.concat(parts, axis=0), (1, 0))


def weighted_ridge(
    X: np.ndarray, y: np.ndarray, weight: np.ndarray, rows: np.ndarray, alpha: float
) -> tuple[np.ndarray, float]:
    """Return coefficients and intercept of the weighted ridge regression on ``X[rows]``.

    Minimises ``sum_i w_i (y_i - b - x_i'c)^2 + alpha |c|^2``; the intercept is free.
    """
    w = weight[rows]
    part, target = (values[rows].astype(np.float64, copy=False) for values in (X, y))
    shifts = w @ part / w.sum(), w @ target / w.sum()
    return ridge_of_sums(ridge_sums(part, target, w, *shifts), *shifts, alpha)


def ridge_sums(X: np.ndarray, y: np.ndarray, weight: np.ndarray, shift, target_shift) -> tuple:
    """Return the sums that determine a ridge regression, about shifts near the means; they add."""
    root = np.sqrt(weight)
    Z, z = (X - shift) * root[:, None], (y - target_shift) * root
    return weight.sum(), root @ Z, root @ z, Z.T @ Z, Z.T @ z


def ridge_of_sums(sums: tuple, shift, target_shift, alpha: float) -> tuple[np.ndarray, float]:
    """Return coefficients and intercept from the result of :func:`ridge_sums`."""
    total, row_sum, target_sum, gram, moments = sums
    gram = gram - np.outer(row_sum, row_sum) / total
    gram[np.diag_indices_from(gram)] += alpha
    coef = solve(gram, moments - row_sum * (target_sum / total), assume_a="pos")
    mean = shift + row_sum / total
    return coef, float(target_shift + target_sum / total - mean @ coef)


def gate_problem(own_loss: Any, next_loss: Any, reached: Any, weight: Any) -> tuple[Any, Any, Any]:
    """Return the weighted binary problem whose minimiser is the best gate of a stage.

    A sample that reaches the stage costs ``own_loss`` if it stays and ``next_loss`` if it is passed
    on, so a wrong decision costs the difference: rows where the two differ, the label "pass on"
    where staying costs more, and the difference times the sample weight, scaled so that the rows
    weigh together what their samples weigh.

    Returns
    -------
    rows : array of int
    labels : array of int (0 stay, 1 pass on) of shape (len(rows),)
    weights : array of shape (len(rows),)
    """
    rows, labels, costs = gate_costs(own_loss, next_loss, reached, weight)
    if rows.shape[0]:
        xp = namespace(costs)
        # No change for 0/1 losses; makes the rest independent of the unit of squared errors.
        costs = costs * (xp.sum(xp.take(weight, rows)) / xp.sum(costs))
    return rows, labels, costs


def gate_costs(own_loss: Any, next_loss: Any, reached: Any, weight: Any) -> tuple[Any, Any, Any]:
    """Return rows, labels and unscaled weights of ``gate_problem``, which add over blocks."""
    xp = namespace(weight)
    rows = xp.nonzero(reached & (own_loss != next_loss))[0]
    own, after = (xp.astype(xp.take(loss, rows), weight.dtype) for loss in (own_loss, next_loss))
    return rows, xp.astype(own > after, xp.int64), xp.abs(own - after) * xp.take(weight, rows)


def route(passed_on: Any, n_samples: int) -> Any:
    """Return the region of each sample: the first stage that does not pass it on, else the last.

    Parameters
    ----------
    passed_on : array of bool of shape (n_regions - 1, n_samples)
    n_samples : int
    """
    xp, device = namespace(passed_on), compat.device(passed_on)
    region = xp.zeros(n_samples, dtype=xp.int64, device=device)
    reached = xp.ones(n_samples, dtype=xp.bool, device=device)
    for k in range(passed_on.shape[0]):
        reached = reached & passed_on[k, :]
        region = region + xp.astype(reached, xp.int64)
    return region


def decisions(X: Any, coefs: np.ndarray, intercepts: np.ndarray) -> Any:
    """Return the decision of each linear gate for each row, (n_gates, n_rows)."""
    scores = X @ on_device_of(coefs.T, X) + on_device_of(intercepts, X)
    return namespace(scores).permute_dims(scores > 0, (1, 0))


def chain_loss(losses: Any, region: Any) -> Any:
    """Return the loss of each sample in its own region; ``losses`` is (n_regions, n_samples)."""
    xp, n_samples = namespace(losses), losses.shape[1]
    entries = region * n_samples + xp.arange(n_samples, device=compat.device(losses))
    return xp.take(xp.reshape(losses, (-1,)), entries)


def rows_by_region(region: Any, n_regions: int) -> list[Any]:
    """Return the rows of every region, from one sort."""
    xp = namespace(region)
    order = xp.argsort(xp.astype(region, xp.int32), stable=True)
    bounds = np.r_[0, np.cumsum(region_sizes(region, n_regions))]
    return [order[int(bounds[k]) : int(bounds[k + 1])] for k in range(n_regions)]


def region_sizes(region: Any, n_regions: int) -> np.ndarray:
    """Return the number of rows in each region, on the host."""
    return as_numpy(namespace(region).sum(_is_in(region, n_regions), axis=0))


def _is_in(region: Any, n_regions: int) -> Any:
    """Return whether each sample is in each region, (n_samples, n_regions), as zeros and ones."""
    xp = namespace(region)
    kinds = xp.arange(n_regions, device=compat.device(region))
    return xp.astype(region[:, None] == kinds[None, :], xp.int64)


# --- first assignments ---


def quantile_row(values: Any, weight: Any, level: float) -> int:
    """Return the row at the weighted quantile ``level`` of ``values``.

    The row depends on the weighted distribution only, not on the order or repetition of rows.
    """
    xp = namespace(values)
    order = xp.argsort(values, stable=True)
    mass = xp.cumulative_sum(xp.take(weight, order))
    position = int(xp.sum(xp.astype(mass < level * mass[-1], xp.int64)))
    return int(order[min(position, order.shape[0] - 1)])


def assign_kmeans(
    X: Any, weight: Any, n_regions: int, rng: np.random.RandomState, n_steps: int = LLOYD_STEPS
) -> Any:
    """Assign samples to the nearest of ``n_regions`` centres after a few Lloyd steps.

    An emptied centre stays where it was.
    """
    centers = first_centers(X, weight, n_regions, rng)
    xp = namespace(weight)
    for _ in range(n_steps):
        previous = centers
        centers = moved_centers(centers, center_sums(X, weight, centers))
        if bool(xp.all(centers == previous)):
            break
    return nearest_center(X, centers)


def center_sums(X: Any, weight: Any, centers: Any) -> tuple[Any, Any]:
    """Return the weight and the sum of the rows nearest to each centre; they add over blocks."""
    xp = namespace(weight)
    nearest = _is_in(nearest_center(X, centers), centers.shape[0])
    shares = xp.astype(nearest, X.dtype) * xp.astype(weight, X.dtype)[:, None]
    return xp.sum(shares, axis=0), shares.T @ X


def moved_centers(centers: Any, sums: tuple[Any, Any]) -> Any:
    """Return the means of rows in place of centres; those without rows do not move."""
    xp, mass, total = namespace(centers), sums[0][:, None], sums[1]
    means = total / xp.where(mass > 0, mass, xp.ones_like(mass))
    return xp.where(mass > 0, xp.astype(means, centers.dtype), centers)


def first_centers(X: Any, weight: Any, n_regions: int, rng: np.random.RandomState) -> Any:
    """Return samples at random quantiles of random directions, (n_regions, n_features).

    A random sample that does not depend on the order of the rows.
    """
    rows = []
    for _ in range(n_regions):
        values = X @ on_device_of(rng.standard_normal(X.shape[1]), X)
        rows.append(quantile_row(values, weight, rng.uniform()))
    centers = take_rows(X, on_device_of(np.array(rows), X))
    centers = centers.toarray() if sparse.issparse(centers) else centers
    return namespace(centers).astype(centers, weight.dtype)


def nearest_center(X: Any, centers: Any) -> Any:
    """Return the index of the nearest centre of each row."""
    xp = namespace(centers)
    half_norms = 0.5 * xp.sum(centers * centers, axis=1)
    transposed = xp.astype(centers.T, X.dtype)
    blocks = row_blocks(max(1, X.shape[0]), 32 * centers.shape[0], **block_limits(X, _BLOCK_ROWS))
    return xp.concat([xp.argmin(half_norms - X[b, :] @ transposed, axis=1) for b in blocks])
