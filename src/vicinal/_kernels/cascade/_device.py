"""A cascade of reject classifiers over linear region models, for any array-API library.

The counterpart of ``_hard`` and of ``lda_statistics``. Rows stay on their device; only small
results are copied to the host: class sums, Gram matrices, counts, costs.
"""

from typing import Any

import array_api_compat as compat
import numpy as np

from vicinal._base import as_numpy, free_memory, namespace, row_blocks
from vicinal._kernels.linear._covariance import LDAStatistics


def device_lda_statistics(
    X: Any, codes: Any, weights: Any, n_classes: int, rows: Any = None
) -> LDAStatistics:
    """Sum up ``X[rows]`` (all rows for ``None``) in double precision; see ``lda_statistics``.

    ``codes`` and ``weights`` (``None`` for ones) have one entry for each of the rows summed.
    """
    xp, device = namespace(X), compat.device(X)
    codes_of = xp.arange(n_classes, device=device)
    n_rows = X.shape[0] if rows is None else rows.shape[0]
    counts: Any = 0.0
    sums: Any = 0.0
    gram: Any = 0.0
    cost = 24 * X.shape[1] + 16 * n_classes
    for span in row_blocks(n_rows, cost, working_memory=free_memory(X)):
        block = X[span, :] if rows is None else xp.take(X, rows[span], axis=0)
        block = xp.astype(block, xp.float64)
        indicators = xp.astype(codes[span][:, None] == codes_of[None, :], xp.float64)
        if weights is not None:
            indicators = indicators * weights[span][:, None]
        counts = counts + xp.sum(indicators, axis=0)
        sums = sums + indicators.T @ block
        if weights is not None:
            block = block * xp.sqrt(weights[span])[:, None]
        gram = gram + block.T @ block
    shifts = np.zeros((n_classes, X.shape[1]))
    return LDAStatistics(as_numpy(counts), as_numpy(sums), as_numpy(gram), shifts)


def rows_by_region(region: Any, n_regions: int) -> list[Any]:
    """Return the rows of every region, from one sort."""
    xp = namespace(region)
    order = xp.argsort(xp.astype(region, xp.int32), stable=True)
    bounds = np.r_[0, np.cumsum(region_sizes(region, n_regions))]
    return [order[int(bounds[k]) : int(bounds[k + 1])] for k in range(n_regions)]


def region_sizes(region: Any, n_regions: int) -> np.ndarray:
    """Return the number of rows in each region, on the host."""
    xp = namespace(region)
    codes_of = xp.arange(n_regions, device=compat.device(region))
    hits = xp.astype(region[None, :] == codes_of[:, None], xp.int64)
    return as_numpy(xp.sum(hits, axis=1))


def device_region_scores(X: Any, coefs: np.ndarray, intercepts: np.ndarray) -> Any:
    """Return scores (n_rows, n_regions, n_classes) of every region from one product."""
    n_regions, n_classes, n_features = coefs.shape
    xp, device = namespace(X), compat.device(X)
    weights = xp.asarray(
        np.ascontiguousarray(coefs.reshape(-1, n_features).T), dtype=X.dtype, device=device
    )
    offsets = xp.asarray(intercepts.reshape(-1), dtype=X.dtype, device=device)
    return xp.reshape(X @ weights + offsets, (X.shape[0], n_regions, n_classes))


def device_linear_errors(X: Any, coefs: np.ndarray, intercepts: np.ndarray, codes: Any) -> Any:
    """Return which rows each region misclassifies, (n_regions, n_rows); see ``linear_errors``."""
    xp = namespace(X)
    parts = []
    cost = 32 * intercepts.size
    for rows in row_blocks(X.shape[0], cost, working_memory=free_memory(X)):
        scores = device_region_scores(X[rows, :], coefs, intercepts)
        parts.append(xp.argmax(scores, axis=2) != codes[rows][:, None])
    return xp.permute_dims(xp.concat(parts, axis=0), (1, 0))


def device_gate_decisions(X: Any, coefs: np.ndarray, intercepts: np.ndarray) -> Any:
    """Return scores (n_rows, n_gates) of half-spaces; above 0 means "pass on"."""
    xp, device = namespace(X), compat.device(X)
    weights = xp.asarray(np.ascontiguousarray(coefs.T), dtype=X.dtype, device=device)
    return X @ weights + xp.asarray(intercepts, dtype=X.dtype, device=device)


def take_own(values: Any, region: Any) -> Any:
    """Return ``values[i, region[i]]`` for an array of shape (n_rows, n_regions, ...)."""
    xp = namespace(values)
    n_rows, n_regions = values.shape[:2]
    flat = xp.reshape(values, (n_rows * n_regions, *values.shape[2:]))
    starts = xp.arange(n_rows, device=compat.device(values)) * n_regions
    return xp.take(flat, starts + region, axis=0)


# --- first assignments ---


def _direction(X: Any, rng: np.random.RandomState) -> Any:
    """Return the rows' coordinates along a random direction."""
    xp = namespace(X)
    direction = rng.standard_normal(X.shape[1])
    return X @ xp.asarray(direction, dtype=X.dtype, device=compat.device(X))


def _quantile_row(values: Any, weight: Any, level: float) -> int:
    """Return the row at the weighted quantile; see ``quantile_row``."""
    xp = namespace(values)
    order = xp.argsort(values, stable=True)
    mass = xp.cumulative_sum(xp.take(weight, order))
    position = int(xp.sum(xp.astype(mass < level * mass[-1], xp.int64)))
    return int(order[min(position, order.shape[0] - 1)])


def device_hyperplanes(X: Any, weight: Any, n_regions: int, rng: np.random.RandomState) -> Any:
    """Split off one region after the other; see ``assign_hyperplanes``."""
    xp, device = namespace(X), compat.device(X)
    region = xp.full(X.shape[0], n_regions - 1, dtype=xp.int64, device=device)
    rest = xp.ones(X.shape[0], dtype=xp.bool, device=device)
    for k in range(n_regions - 1):
        rows = xp.nonzero(rest)[0]
        along = _direction(X, rng)
        values = xp.take(along, rows)
        cut = values[_quantile_row(values, xp.take(weight, rows), 1.0 / (n_regions - k))]
        stays = rest & (along <= cut)
        if not bool(xp.any(rest & ~stays)):
            break
        region = xp.where(stays, xp.full_like(region, k), region)
        rest = rest & ~stays
    return region


def device_kmeans(
    X: Any, weight: Any, n_regions: int, rng: np.random.RandomState, n_steps: int = 10
) -> Any:
    """Assign rows to the nearest centre after a few Lloyd steps; see ``assign_kmeans``."""
    xp, device = namespace(X), compat.device(X)
    rows = []
    for _ in range(n_regions):
        values = _direction(X, rng)
        rows.append(_quantile_row(values, weight, rng.uniform()))
    centers = xp.take(X, xp.asarray(rows, device=device), axis=0)
    codes_of = xp.arange(n_regions, device=device)
    weight = xp.astype(weight, X.dtype)
    region: Any = None
    for _ in range(n_steps + 1):
        half_norms = 0.5 * xp.sum(centers * centers, axis=1)
        previous, region = region, xp.argmin(half_norms - X @ centers.T, axis=1)
        if previous is not None and bool(xp.all(region == previous)):
            break
        indicators = xp.astype(region[:, None] == codes_of[None, :], X.dtype) * weight[:, None]
        mass = xp.sum(indicators, axis=0)[:, None]
        means = indicators.T @ X / xp.where(mass > 0, mass, xp.ones_like(mass))
        centers = xp.where(mass > 0, means, centers)
    return region
