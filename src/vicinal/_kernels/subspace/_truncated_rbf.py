"""The truncated RBF kernel, its exact finite feature map, and models that are linear in it.

``K_p(x, z) = exp(-g|x|^2) exp(-g|z|^2) sum_{k <= p} (2 g x.z)^k / k!`` is spanned by the monomials
of degree at most ``p``, so a kernel model becomes a linear model of ``J = C(M + p, p)`` columns.
The ridge is written for any array library, in double precision, where the rows are.
"""

from collections.abc import Callable, Iterator
from math import comb
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np

from vicinal._base import block_limits, namespace, row_blocks, solve_lower


class MonomialPlan(NamedTuple):
    """How each monomial is made from one of lower degree; one entry per degree above zero."""

    parents: tuple[np.ndarray, ...]
    letters: tuple[np.ndarray, ...]
    factors: tuple[np.ndarray, ...]
    n_outputs: int


def n_monomials(n_features: int, order: int) -> int:
    """Return ``J = C(n_features + order, order)``."""
    return comb(n_features + order, order)


def monomial_plan(n_features: int, order: int) -> MonomialPlan:
    """Plan all monomials of degree at most ``order``.

    A monomial is a non-decreasing word of letters (features); dropping its last letter gives its
    parent, so each is made once: ``phi_{a + e_i} = phi_a sqrt(2 gamma) x_i / sqrt(a_i + 1)``.
    """
    last, repeats = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    parents, letters, factors = [], [], []
    for _ in range(order):
        n_children = n_features - last
        parent = np.repeat(np.arange(len(last)), n_children)
        starts = np.repeat(np.cumsum(n_children) - n_children, n_children)
        letter = last[parent] + np.arange(len(parent)) - starts
        repeats = np.where(letter == last[parent], repeats[parent], 0) + 1
        last = letter
        parents.append(parent)
        letters.append(letter)
        factors.append(1.0 / np.sqrt(repeats))
    return MonomialPlan(
        tuple(parents), tuple(letters), tuple(factors), n_monomials(n_features, order)
    )


def plan_on_device_of(plan: MonomialPlan, X: Any) -> MonomialPlan:
    """Return the plan as arrays on the device of ``X``, so that blocks share one copy."""
    xp, device = namespace(X), compat.device(X)

    def move(column):
        return tuple(xp.asarray(a, device=device) for a in column)

    return MonomialPlan(move(plan.parents), move(plan.letters), move(plan.factors), plan.n_outputs)


def truncated_rbf_features(X: Any, gamma: float, plan: MonomialPlan) -> Any:
    """Return ``Phi`` with ``Phi Phi^T = K_p``, (n_samples, J), in the array library of ``X``."""
    xp = namespace(X)
    device = getattr(X, "device", None)
    scaled = xp.permute_dims(X, (1, 0)) * (2.0 * gamma) ** 0.5
    level = xp.exp(-0.5 * xp.sum(scaled**2, axis=0, keepdims=True))
    levels = [level]
    for parents, letters, factors in zip(plan.parents, plan.letters, plan.factors, strict=True):
        factor = xp.asarray(factors[:, None], dtype=X.dtype, device=device)
        level = xp.take(level, xp.asarray(parents, device=device), axis=0) * (
            xp.take(scaled, xp.asarray(letters, device=device), axis=0) * factor
        )
        levels.append(level)
    return xp.permute_dims(xp.concat(levels, axis=0), (1, 0))


def truncated_rbf_kernel(X: Any, Z: Any, gamma: float, order: int) -> Any:
    """Return ``K_p`` between the rows of ``X`` and of ``Z``, (n_x, n_z)."""
    xp = namespace(X, Z)
    products = 2.0 * gamma * (X @ xp.permute_dims(Z, (1, 0)))
    series = xp.ones_like(products)
    for k in range(order, 0, -1):  # Horner: 1 + t (1 + t/2 (1 + t/3 (...)))
        series = 1.0 + series * products / k
    decay_x = xp.exp(-gamma * xp.sum(X**2, axis=1))
    decay_z = xp.exp(-gamma * xp.sum(Z**2, axis=1))
    return decay_x[:, None] * decay_z[None, :] * series


# --- linear models over blocks of rows ------------------------------------------------------------

# Yields (rows, features of those rows), as often as it is called.
FeatureBlocks = Callable[[], Iterator[tuple[slice, Any]]]


def feature_rows(X: Any, n_outputs: int) -> Iterator[slice]:
    """Yield slices of rows whose features fit the memory while they are made."""
    return row_blocks(X.shape[0], 40 * n_outputs + 24 * X.shape[1], **block_limits(X, 16384))


def feature_blocks(Z: Any, gamma: float, plan: MonomialPlan, *, hold: bool = True) -> FeatureBlocks:
    """Return a re-iterable over feature blocks; they are held if all of them fit in memory.

    Without ``hold`` there are never more than 32 MB of features at a time.
    """
    plan = plan_on_device_of(plan, Z)
    few = row_blocks(Z.shape[0], 8 * plan.n_outputs, working_memory=32)
    slices = list(feature_rows(Z, plan.n_outputs) if hold else few)

    def compute():
        for rows in slices:
            yield rows, truncated_rbf_features(Z[rows, :], gamma, plan)

    whole = row_blocks(Z.shape[0], 40 * plan.n_outputs, **block_limits(Z))
    if hold and len(list(whole)) == 1:
        held = list(compute())
        return lambda: iter(held)
    return compute


class RidgeSums(NamedTuple):
    """Sums over rows that determine a ridge fit, features less those of the zero row; they add."""

    weight: Any
    features: Any  # (J,)
    targets: Any  # (n_targets,)
    gram: Any  # (J, J)
    moments: Any  # (J, n_targets)


def _origin(P: Any) -> Any:
    """Return the features of the zero row: near the mean of those of centred rows."""
    xp = namespace(P)
    return xp.astype(xp.arange(P.shape[-1], device=compat.device(P)) == 0, P.dtype)


def ridge_sums(blocks: FeatureBlocks, Y: Any, weights: Any) -> RidgeSums:
    """Sum up the features of centred rows."""
    xp = namespace(Y)
    features: Any = 0.0
    gram: Any = 0.0
    moments: Any = 0.0
    for rows, P in blocks():
        w = weights[rows]
        P = P - _origin(P)
        features = features + w @ P
        moments = moments + P.T @ (w[:, None] * Y[rows, :])
        P = P * xp.sqrt(w)[:, None]
        gram = gram + P.T @ P
    return RidgeSums(xp.sum(weights), features, weights @ Y, gram, moments)


def ridge_from_sums(sums: RidgeSums, alpha: float) -> tuple[Any, Any, tuple]:
    """Return what :func:`ridge_primal` returns."""
    total, features, targets, gram, moments = sums
    xp = namespace(gram)
    share = features / total
    penalty = alpha * xp.eye(gram.shape[0], dtype=gram.dtype, device=compat.device(gram))
    lower = xp.linalg.cholesky(gram - features[:, None] * share[None, :] + penalty)
    coef = _solve_cholesky(lower, moments - share[:, None] * targets[None, :])
    mean = share + _origin(share)
    return coef, targets / total - mean @ coef, (mean, lower)


def ridge_primal(
    blocks: FeatureBlocks, Y: Any, weights: Any, alpha: float
) -> tuple[Any, Any, tuple]:
    """Ridge regression with a free intercept, from accumulated normal equations.

    Returns coefficients (J, n_targets), intercepts (n_targets,), and what
    :func:`fitted_and_leverage` needs: the mean and the factor of the regularised Gram matrix.
    """
    level = weights @ Y / namespace(Y).sum(weights)
    coef, intercept, state = ridge_from_sums(ridge_sums(blocks, Y - level, weights), alpha)
    return coef, intercept + level, state


def fitted_and_leverage(
    blocks: FeatureBlocks, coef: Any, intercept: Any, total: Any, state: tuple
) -> tuple[Any, Any]:
    """Return fitted values and the leverage of one unit of weight at every row of a primal fit."""
    mean, lower = state
    xp = namespace(mean)
    fitted, leverage = [], []
    for _, P in blocks():
        fitted.append(P @ coef + intercept)
        half = solve_lower(lower, (P - mean).T)
        leverage.append(xp.sum(half * half, axis=0))
    return xp.concat(fitted, axis=0), xp.concat(leverage) + 1.0 / total


def ridge_dual(K: Any, Y: Any, weights: Any, alpha: float) -> tuple[Any, Any, Any]:
    """Solve the same problem as ``ridge_primal`` from the kernel matrix.

    Returns dual coefficients (n_samples, n_targets) and intercepts (n_targets,), such that
    ``f(x) = K(x, X) dual + intercept``, and the leverage of one unit of weight at every row.
    """
    xp = namespace(K)
    total = xp.sum(weights)
    share, root = weights / total, xp.sqrt(weights)
    column = K @ share
    centered = K - column[:, None] - column[None, :] + share @ column
    target_mean = share @ Y
    A = root[:, None] * centered * root[None, :]
    A = A + alpha * xp.eye(K.shape[0], dtype=K.dtype, device=compat.device(K))
    lower = xp.linalg.cholesky(A)
    c = root[:, None] * _solve_cholesky(lower, root[:, None] * (Y - target_mean))
    dual = c - share[:, None] * xp.sum(c, axis=0)
    # u'A^-1 u for the centred feature u of every row, by the identity P(P'P+a)^-1 P' = (K-KA^-1K)/a
    half = solve_lower(lower, root[:, None] * centered)
    own = xp.linalg.diagonal(centered)
    leverage = (own - xp.sum(half * half, axis=0)) / alpha + 1.0 / total
    return dual, target_mean - share @ (K @ dual), leverage


def leave_one_out_scores(Y: Any, fitted: Any, leverage: Any, unit: Any) -> Any:
    """Score of every row by the ridge fit without one unit of it; ``unit`` is that unit's weight.

    ``y - (y - f) / (1 - h)`` is exact for least squares, so nothing is refitted.
    """
    xp = namespace(Y)
    rest = 1.0 - unit * leverage
    return Y - (Y - fitted) / xp.where(rest > 1e-12, rest, xp.full_like(rest, 1e-12))[:, None]


def _solve_cholesky(lower: Any, right: Any) -> Any:
    return solve_lower(lower, solve_lower(lower, right), transposed=True)
