"""Truncated RBF ridge models on the device of the data, for any array-API library.

The twin of ``_truncated_rbf``: the same problems in double precision, solved where the rows are.
"""

from collections.abc import Callable, Iterator
from typing import Any

import array_api_compat as compat

from vicinal._base import free_memory, is_torch, namespace, row_blocks
from vicinal._kernels.subspace._truncated_rbf import (
    MonomialPlan,
    truncated_rbf_features,
    truncated_rbf_kernel,
)

# Yields (rows, features of those rows), as often as it is called.
DeviceFeatureBlocks = Callable[[], Iterator[tuple[slice, Any]]]


def plan_on_device(plan: MonomialPlan, X: Any) -> MonomialPlan:
    """Return the plan as arrays beside ``X``, so that blocks share one copy."""
    xp, device = namespace(X), compat.device(X)

    def move(column):
        return tuple(xp.asarray(a, device=device) for a in column)

    return MonomialPlan(move(plan.parents), move(plan.letters), move(plan.factors), plan.n_outputs)


def feature_row_bytes(plan: MonomialPlan, n_features: int) -> int:
    """Return the memory that the features of one row take while they are made."""
    return 40 * plan.n_outputs + 24 * n_features


def device_feature_blocks(Z: Any, gamma: float, plan: MonomialPlan) -> DeviceFeatureBlocks:
    """Return a re-iterable over feature blocks; they are held if all of them fit in one block."""
    plan = plan_on_device(plan, Z)
    cost = feature_row_bytes(plan, Z.shape[1])
    blocks = list(row_blocks(Z.shape[0], cost, working_memory=free_memory(Z)))

    def compute():
        for rows in blocks:
            yield rows, truncated_rbf_features(Z[rows, :], gamma, plan)

    if len(blocks) == 1:
        held = list(compute())
        return lambda: iter(held)
    return compute


def device_ridge_primal(
    blocks: DeviceFeatureBlocks, Y: Any, weights: Any, alpha: float, n_outputs: int
) -> tuple[Any, Any, tuple]:
    """Return coefficients, intercepts and (mean, Cholesky factor); see ``ridge_primal``."""
    xp, device = namespace(Y), compat.device(Y)
    total = xp.sum(weights)
    target_mean = weights @ Y / total
    mean = xp.zeros(n_outputs, dtype=Y.dtype, device=device)
    for rows, P in blocks():
        mean = mean + weights[rows] @ P
    mean = mean / total
    gram = alpha * xp.eye(n_outputs, dtype=Y.dtype, device=device)
    moments = xp.zeros((n_outputs, Y.shape[1]), dtype=Y.dtype, device=device)
    for rows, P in blocks():
        root = xp.sqrt(weights[rows])[:, None]
        Pc = (P - mean) * root
        gram = gram + Pc.T @ Pc
        moments = moments + Pc.T @ (root * (Y[rows, :] - target_mean))
    lower = xp.linalg.cholesky(gram)
    coef = solve_lower(lower, solve_lower(lower, moments), transposed=True)
    return coef, target_mean - mean @ coef, (mean, lower)


def device_primal_leverage(blocks: DeviceFeatureBlocks, total: Any, state: tuple) -> Any:
    """Leverage of one unit of weight at every row of a primal ridge fit."""
    mean, lower = state
    xp = namespace(mean)
    parts = []
    for _, P in blocks():
        half = solve_lower(lower, (P - mean).T)
        parts.append(xp.sum(half * half, axis=0))
    return xp.concat(parts) + 1.0 / total


def device_ridge_dual(K: Any, Y: Any, weights: Any, alpha: float) -> tuple[Any, Any, Any]:
    """Return dual coefficients, intercepts and leverages; see ``ridge_dual``."""
    xp = namespace(K)
    total = xp.sum(weights)
    share, root = weights / total, xp.sqrt(weights)
    column = K @ share
    centered = K - column[:, None] - column[None, :] + share @ column
    target_mean = share @ Y
    A = root[:, None] * centered * root[None, :]
    A = A + alpha * xp.eye(K.shape[0], dtype=K.dtype, device=compat.device(K))
    lower = xp.linalg.cholesky(A)
    right = root[:, None] * (Y - target_mean)
    c = root[:, None] * solve_lower(lower, solve_lower(lower, right), transposed=True)
    dual = c - share[:, None] * xp.sum(c, axis=0)
    half = solve_lower(lower, root[:, None] * centered)
    own = xp.linalg.diagonal(centered)
    leverage = (own - xp.sum(half * half, axis=0)) / alpha + 1.0 / total
    return dual, target_mean - share @ (K @ dual), leverage


def device_scores(
    X: Any, mean: Any, gamma: float, plan: MonomialPlan, coef: Any, intercept: Any
) -> Any:
    """Return the linear predictor of rows in the primal, (n_samples, n_targets)."""
    xp = namespace(X)
    plan = plan_on_device(plan, X)
    cost = feature_row_bytes(plan, X.shape[1])
    parts = []
    for rows in row_blocks(X.shape[0], cost, working_memory=free_memory(X)):
        P = truncated_rbf_features(X[rows, :] - mean, gamma, plan)
        parts.append(P @ coef + intercept)
    return xp.concat(parts, axis=0)


def device_dual_scores(
    X: Any, mean: Any, gamma: float, order: int, fitted: Any, dual: Any, intercept: Any
) -> Any:
    """Return the linear predictor of rows in the dual, (n_samples, n_targets)."""
    xp = namespace(X)
    parts = []
    for rows in row_blocks(X.shape[0], 32 * fitted.shape[0], working_memory=free_memory(X)):
        K = truncated_rbf_kernel(X[rows, :] - mean, fitted, gamma, order)
        parts.append(K @ dual + intercept)
    return xp.concat(parts, axis=0)


def device_slope(scores: Any, codes: Any, weights: Any) -> float:
    """Return the slope for which ``softmax(a * scores)`` is most likely; see ``fit_slope``."""
    xp = namespace(scores)
    n_classes = scores.shape[1]
    kinds = xp.arange(n_classes, device=compat.device(scores))
    member = codes[:, None] == kinds[None, :]
    counts = xp.sum(xp.where(member, weights[:, None], xp.zeros_like(scores)), axis=0)
    weight = xp.take(counts, codes)[:, None]
    base = 2.0 / n_classes + xp.zeros_like(weight)
    targets = xp.where(member, base + weight, base) / (weight + 2.0)
    spread = float(xp.max(xp.abs(scores - xp.mean(scores, axis=1, keepdims=True))))
    if spread == 0.0:
        return 1.0
    z = scores / spread
    wanted = xp.sum(targets * z, axis=1)
    slope = 1.0
    for _ in range(100):
        powers = xp.exp(slope * (z - xp.max(z, axis=1, keepdims=True)))
        p = powers / xp.sum(powers, axis=1, keepdims=True)
        center = xp.sum(p * z, axis=1)
        grad = float(weights @ (center - wanted))
        curve = float(weights @ (xp.sum(p * z * z, axis=1) - center * center))
        if curve <= 0.0:
            break
        new = min(max(slope - grad / curve, slope / 4.0), 4.0 * slope)
        new = min(max(new, 1e-3), 1e4)
        done = abs(new - slope) <= 1e-12 * slope
        slope = new
        if done:
            break
    return slope / spread


def solve_lower(lower: Any, right: Any, *, transposed: bool = False) -> Any:
    """Solve with a lower triangular matrix, or with its transpose."""
    xp = namespace(lower)
    matrix = lower.T if transposed else lower
    if is_torch(lower):
        return xp.linalg.solve_triangular(matrix, right, upper=transposed)
    return xp.linalg.solve(matrix, right)
