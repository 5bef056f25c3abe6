"""A linear map learned from the slopes of local models.

With the slopes B_q (one row per output) of local models at queries q, the expected gradient outer
product G = mean_q B_q' B_q says along which directions the answer changes. One round maps the
coordinates by U diag(w_j^(1/4) + floor w_1^(1/4)) U' for G = U diag(w_j) U'.
"""

import numpy as np


def gradient_rows(slopes: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Return R of shape (n_queries * n_outputs, d) whose product R'R is the mean of B_q' B_q."""
    share = np.ones(len(slopes)) if weights is None else weights
    return (slopes * np.sqrt(share / share.sum())[:, None, None]).reshape(-1, slopes.shape[2])


def gradient_outer_product(slopes: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Return the weighted mean of B_q' B_q over slopes of shape (n_queries, n_outputs, d)."""
    rows = gradient_rows(slopes, weights)
    return rows.T @ rows


def metric_step(G: np.ndarray, *, floor: float, diagonal: bool) -> np.ndarray:
    """Return the symmetric map of one round, scaled to squared Frobenius norm d.

    ``floor`` keeps every direction: one that is lost cannot return in a later round. A product of
    zero (no slope anywhere) changes nothing.
    """
    d = len(G)
    if diagonal:
        G = np.diag(np.diag(G))
    values, vectors = np.linalg.eigh(G)
    if values[-1] <= 0.0:
        return np.eye(d)
    # Rounding errors have visible fourth roots.
    roots = np.where(values > 1e-12 * values[-1], values, 0.0) ** 0.25
    step = (vectors * (roots + floor * roots[-1])) @ vectors.T
    return step * (np.sqrt(d) / np.linalg.norm(step))
