"""One round of the gradient metric: local slopes at drawn rows, and the map they suggest."""

import numpy as np

from vicinal._base import row_blocks
from vicinal._kernels.local._gradient_metric import gradient_outer_product, metric_step
from vicinal.local._fits import local_slopes
from vicinal.local._neighborhood import Localizer, NearestRule
from vicinal.local._search import NeighborIndex

# A direction whose slope vanished keeps this share of the largest scale.
FLOOR = 1e-3
# Slopes at so many rows settle the outer product; fewer where one slope is dear.
_MAX_QUERIES, _MIN_QUERIES, _FLOPS = 1500, 200, 2e9


def slope_neighbors(n_features: int, total_weight: float) -> int:
    """Return a neighbourhood that can carry a slope per column without seeing everything."""
    return max(2, int(min(max(40, 2 * n_features), 160, total_weight / 3)))


def slope_queries(n_samples: int, n_features: int, n_neighbors: int, rng) -> np.ndarray:
    """Draw the rows at which slopes are taken."""
    affordable = int(_FLOPS / (n_neighbors * n_features**2 + n_features**3 / 3))
    limit = min(_MAX_QUERIES, max(_MIN_QUERIES, affordable))
    if n_samples <= limit:
        return np.arange(n_samples)
    return np.sort(rng.choice(n_samples, limit, replace=False))


def outer_product(
    Z: np.ndarray,
    Y: np.ndarray,
    sample_weight: np.ndarray | None,
    queries: np.ndarray,
    *,
    n_neighbors: int,
    alpha: float,
    n_jobs: int | None,
) -> np.ndarray:
    """Return the gradient outer product of local ridge models at some rows, each left out."""
    localizer = Localizer(
        NeighborIndex(Z, n_jobs=n_jobs),
        NearestRule(float(n_neighbors)),
        sample_weight=sample_weight,
    )
    weights = np.ones(len(Z)) if sample_weight is None else sample_weight
    total = weights[queries].sum()
    G = np.zeros((Z.shape[1], Z.shape[1]))
    size = 8 * (10 * n_neighbors + Z.shape[1] * Y.shape[1])
    for block in row_blocks(len(queries), size, max_rows=2048):
        rows = queries[block]
        found = localizer.neighborhoods(Z[rows], rows=rows)
        slopes = local_slopes(Z, Y, Z[rows], found, alpha, relative=True, degree=1, n_jobs=n_jobs)
        share = weights[rows]
        G += gradient_outer_product(slopes, share) * (share.sum() / total)
    return G


def gradient_round(
    Z, Y, sample_weight, queries, *, n_neighbors, alpha, diagonal=False, n_jobs=None
) -> tuple[np.ndarray, np.ndarray]:
    """Return (map of this round, outer product) for rows already in coordinates ``Z``."""
    G = outer_product(
        Z, Y, sample_weight, queries, n_neighbors=n_neighbors, alpha=alpha, n_jobs=n_jobs
    )
    return metric_step(G, floor=FLOOR, diagonal=diagonal), G


def rescaled(P: np.ndarray) -> np.ndarray:
    """Return the map with squared Frobenius norm equal to its number of rows."""
    return P * (np.sqrt(len(P)) / np.linalg.norm(P))
