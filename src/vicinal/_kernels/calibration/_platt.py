r"""Platt's sigmoid on scores, and the coupling of pairwise probabilities."""

import numpy as np
from scipy.special import expit

# Quantiles of the size of scores at which they may be cut; beyond them they say nothing more.
_REACHES = (1.0, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5)


def smoothed_targets(positive, weights) -> np.ndarray:
    """Return Platt's targets, (N+ + 1) / (N+ + 2) and 1 / (N- + 2)."""
    n_positive, n_negative = weights[positive].sum(), weights[~positive].sum()
    return np.where(positive, (n_positive + 1.0) / (n_positive + 2.0), 1.0 / (n_negative + 2.0))


def fit_saturated_platt(scores, positive, weights=None, *, c=1.0) -> tuple[float, float, float]:
    """Return (limit, A, B) of sigma(A clip(s, -limit, limit) + B).

    The limit is the quantile of |s|, from the median to the largest, of least loss: a row twice as
    far away as most need not be twice as certain.
    """
    weights = np.ones(len(scores)) if weights is None else weights
    targets = smoothed_targets(positive, weights)
    options = []
    for reach in _REACHES:
        limit = float(np.quantile(np.abs(scores), reach, weights=weights, method="inverted_cdf"))
        cut = np.clip(scores, -limit, limit)
        A, B = fit_platt(cut, positive, weights, c=c)
        f = A * cut + B
        loss = weights @ (np.logaddexp(0.0, f) - targets * f)
        options.append((float(loss), limit, A, B))
    best = min(options, key=lambda option: option[0])
    return best[1:]


def fit_platt(scores, positive, weights=None, *, c=1.0) -> tuple[float, float]:
    r"""Return (A, B) of sigma(A s + B).

    Minimises the log loss against Platt's smoothed targets, (N+ + 1) / (N+ + 2) and 1 / (N- + 2),
    plus A^2 / (2c), by Newton's method with halving steps; N+ and N- count weights.
    """
    weights = np.ones(len(scores)) if weights is None else weights
    n_positive, n_negative = weights[positive].sum(), weights[~positive].sum()
    targets = smoothed_targets(positive, weights)
    design = np.column_stack([scores, np.ones(len(scores))])
    theta = np.array([0.0, np.log((n_positive + 1.0) / (n_negative + 1.0))])
    ridge = np.array([1.0 / c, 0.0])

    def loss(theta):
        f = design @ theta
        return weights @ (np.logaddexp(0.0, f) - targets * f) + 0.5 * ridge @ (theta * theta)

    value = loss(theta)
    for _ in range(100):
        p = expit(design @ theta)
        gradient = design.T @ (weights * (p - targets)) + ridge * theta
        curvature = (design.T * (weights * p * (1.0 - p))) @ design + np.diag(ridge + 1e-12)
        move = np.linalg.solve(curvature, gradient)
        if gradient @ move <= 1e-20 * (1.0 + abs(value)):
            break
        share = 1.0
        while share > 1e-10:
            new = loss(theta - share * move)
            if new <= value - 1e-4 * share * (gradient @ move):
                break
            share *= 0.5
        else:
            break
        theta, value = theta - share * move, new
    return float(theta[0]), float(theta[1])


def couple_pairs(pairwise, counts, *, max_iter=1000, tol=1e-10) -> np.ndarray:
    r"""Return class probabilities p whose ratios p_i / (p_i + p_j) fit pairwise probabilities r_ij.

    Hastie and Tibshirani (1998), the iteration of their section 3: p_i is multiplied by
    sum_j n_ij r_ij / sum_j n_ij mu_ij until nothing moves.

    Parameters
    ----------
    pairwise : ndarray of shape (m, K, K)
        r_ij in [0, 1], r_ji = 1 - r_ij; the diagonal is not read.
    counts : ndarray of shape (K, K)
        Number of training rows behind each pair.
    """
    m, K, _ = pairwise.shape
    off = ~np.eye(K, dtype=bool)
    weight = np.where(off, counts, 0.0)
    r = np.clip(pairwise, 1e-7, 1.0 - 1e-7)
    wanted = np.einsum("ij,mij->mi", weight, r)
    p = wanted / wanted.sum(axis=1, keepdims=True)
    active = np.arange(m)
    for _ in range(max_iter):
        q = p[active]
        mu = q[:, :, None] / (q[:, :, None] + q[:, None, :])
        factor = wanted[active] / np.einsum("ij,mij->mi", weight, mu)
        new = q * factor
        new /= new.sum(axis=1, keepdims=True)
        p[active] = new
        active = active[np.abs(new - q).max(axis=1) > tol]
        if not active.size:
            break
    return p
