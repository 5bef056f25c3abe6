"""The truncated RBF kernel, its exact finite feature map, and models that are linear in it.

``K_p(x, z) = exp(-g|x|^2) exp(-g|z|^2) sum_{k <= p} (2 g x.z)^k / k!`` is spanned by the monomials
of degree at most ``p``, so a kernel machine becomes a linear model of ``J = C(M + p, p)`` columns.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import comb
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from scipy.special import expit, log_softmax, softmax

from vicinal._base import namespace, row_blocks


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
FeatureBlocks = Callable[[], Iterator[tuple[slice, np.ndarray]]]


def feature_blocks(X: np.ndarray, gamma: float, plan: MonomialPlan) -> FeatureBlocks:
    """Return a re-iterable over feature blocks; they are held if all of them fit in memory."""
    bytes_per_row = 24 * plan.n_outputs + 16 * X.shape[1]
    slices = list(row_blocks(X.shape[0], bytes_per_row, max_rows=16384))

    def compute():
        for rows in slices:
            yield rows, truncated_rbf_features(X[rows].astype(np.float64), gamma, plan)

    if len(list(row_blocks(X.shape[0], bytes_per_row))) == 1:
        held = list(compute())
        return lambda: iter(held)
    return compute


def _centered_gram(blocks: FeatureBlocks, weights, n_outputs) -> tuple[np.ndarray, np.ndarray]:
    """Weighted mean of the features and their Gram matrix about it."""
    mean = np.zeros(n_outputs)
    for rows, P in blocks():
        mean += weights[rows] @ P
    mean /= weights.sum()
    gram = np.zeros((n_outputs, n_outputs))
    for rows, P in blocks():
        Pc = (P - mean) * np.sqrt(weights[rows])[:, None]
        gram += Pc.T @ Pc
    return mean, gram


def ridge_primal(
    blocks: FeatureBlocks, Y: np.ndarray, weights: np.ndarray, alpha: float, n_outputs: int
) -> tuple[np.ndarray, np.ndarray, tuple]:
    """Ridge regression with a free intercept, from accumulated normal equations.

    Returns coefficients (J, n_targets), intercepts (n_targets,), and what ``unit_leverage``
    needs: the mean and the factor of the regularised Gram matrix.
    """
    mean, gram = _centered_gram(blocks, weights, n_outputs)
    target_mean = weights @ Y / weights.sum()
    moments = np.zeros((n_outputs, Y.shape[1]))
    for rows, P in blocks():
        moments += (P - mean).T @ (weights[rows][:, None] * (Y[rows] - target_mean))
    gram[np.diag_indices(n_outputs)] += alpha
    factor = scipy.linalg.cho_factor(gram, lower=True, overwrite_a=True)
    coef = scipy.linalg.cho_solve(factor, moments)
    return coef, target_mean - mean @ coef, (mean, factor)


class RidgeSums(NamedTuple):
    """Sums over rows that determine a ridge fit, features about ``feature_origin``; they add."""

    weight: float
    features: np.ndarray  # (J,)
    targets: np.ndarray  # (n_targets,)
    gram: np.ndarray  # (J, J)
    moments: np.ndarray  # (J, n_targets)


def feature_origin(n_outputs: int) -> np.ndarray:
    """Return the features of the zero row: near the mean of those of centred rows."""
    return np.eye(1, n_outputs)[0]


def ridge_sums(X: np.ndarray, Y, weights, gamma: float, plan: MonomialPlan) -> RidgeSums:
    """Sum up centred rows, a few thousand at a time."""
    J, origin = plan.n_outputs, feature_origin(plan.n_outputs)
    features, moments = np.zeros(J), np.zeros((J, Y.shape[1]))
    gram = np.zeros((J, J))
    for rows, P in _some_features(X, gamma, plan):
        P -= origin
        features += weights[rows] @ P
        moments += P.T @ (weights[rows][:, None] * Y[rows])
        P *= np.sqrt(weights[rows])[:, None]
        gram += P.T @ P
    return RidgeSums(weights.sum(), features, weights @ Y, gram, moments)


def ridge_from_sums(sums: RidgeSums, alpha: float) -> tuple[np.ndarray, np.ndarray, tuple]:
    """Return what ``ridge_primal`` returns."""
    total, features, targets, gram, moments = sums
    share = features / total
    gram = gram - np.outer(features, share)
    gram[np.diag_indices_from(gram)] += alpha
    factor = scipy.linalg.cho_factor(gram, lower=True, overwrite_a=True)
    coef = scipy.linalg.cho_solve(factor, moments - np.outer(share, targets))
    mean = share + feature_origin(len(share))
    return coef, targets / total - mean @ coef, (mean, factor)


def fitted_and_leverage(
    X: np.ndarray, gamma: float, plan: MonomialPlan, coef, intercept, total: float, state
) -> tuple[np.ndarray, np.ndarray]:
    """Return fitted values and leverages of centred rows, a few thousand at a time."""
    mean, (lower, _) = state
    fitted, leverage = np.empty((len(X), len(intercept))), np.empty(len(X))
    for rows, P in _some_features(X, gamma, plan):
        fitted[rows] = P @ coef + intercept
        half = scipy.linalg.solve_triangular(lower, (P - mean).T, lower=True)
        leverage[rows] = (half**2).sum(axis=0)
    return fitted, leverage + 1.0 / total


def _some_features(X: np.ndarray, gamma: float, plan: MonomialPlan):
    """Yield rows and their features, never more than 32 MB of them."""
    size = max(64, 2**22 // plan.n_outputs)
    for start in range(0, len(X), size):
        rows = slice(start, start + size)
        yield rows, truncated_rbf_features(X[rows], gamma, plan)


def primal_leverage(blocks: FeatureBlocks, n_samples: int, total: float, state) -> np.ndarray:
    """Leverage of one unit of weight at every row of a primal ridge fit."""
    mean, (lower, _) = state
    leverage = np.empty(n_samples)
    for rows, P in blocks():
        half = scipy.linalg.solve_triangular(lower, (P - mean).T, lower=True)
        leverage[rows] = (half**2).sum(axis=0)
    return leverage + 1.0 / total


def ridge_dual(
    K: np.ndarray, Y: np.ndarray, weights: np.ndarray, alpha: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Solve the same problem as ``ridge_primal`` from the kernel matrix.

    Returns dual coefficients (n_samples, n_targets) and intercepts (n_targets,), such that
    ``f(x) = K(x, X) dual + intercept``, and the leverage of one unit of weight at every row.
    """
    share = weights / weights.sum()
    root = np.sqrt(weights)
    column = K @ share
    centered = K - column[:, None] - column[None, :] + share @ column
    target_mean = share @ Y
    A = root[:, None] * centered * root[None, :]
    A[np.diag_indices_from(A)] += alpha
    inverse_root = scipy.linalg.cho_factor(A, lower=True, overwrite_a=True)
    c = root[:, None] * scipy.linalg.cho_solve(inverse_root, root[:, None] * (Y - target_mean))
    dual = c - share[:, None] * c.sum(axis=0)
    # u'A^-1 u for the centred feature u of every row, by the identity P(P'P+a)^-1 P' = (K-KA^-1K)/a
    half = scipy.linalg.solve_triangular(inverse_root[0], root[:, None] * centered, lower=True)
    leverage = (np.diag(centered) - (half**2).sum(axis=0)) / alpha + 1.0 / weights.sum()
    return dual, target_mean - share @ (K @ dual), leverage


def leave_one_out_scores(
    Y: np.ndarray, fitted: np.ndarray, leverage: np.ndarray, unit: np.ndarray
) -> np.ndarray:
    """Score of every row by the ridge fit without one unit of it; ``unit`` is that unit's weight.

    ``y - (y - f) / (1 - h)`` is exact for least squares, so nothing is refitted.
    """
    return Y - (Y - fitted) / np.maximum(1.0 - unit * leverage, 1e-12)[:, None]


# --- logistic loss --------------------------------------------------------------------------------


def _log_loss(scores: np.ndarray, codes: np.ndarray, weights: np.ndarray):
    """Loss, residual (p - t) and probabilities; one column of scores means two classes."""
    if scores.shape[1] == 1:
        sign = 2.0 * codes[:, None] - 1.0
        loss = weights @ np.logaddexp(0.0, -sign * scores)[:, 0]
        p = expit(scores)
        return loss, p - codes[:, None], p
    log_p = log_softmax(scores, axis=1)
    loss = -(weights @ log_p[np.arange(len(codes)), codes])
    p = np.exp(log_p)
    residual = p.copy()
    residual[np.arange(len(codes)), codes] -= 1.0
    return loss, residual, p


def _curve(p: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Second derivative of the loss in the scores, applied to ``directions``."""
    if p.shape[1] == 1:
        return p * (1.0 - p) * directions
    return p * (directions - (p * directions).sum(axis=1, keepdims=True))


@dataclass(frozen=True)
class _LogisticObjective:
    """Penalised log loss of intercepts (row 0) and coefficients of centred features."""

    blocks: FeatureBlocks
    codes: np.ndarray
    weights: np.ndarray
    mean: np.ndarray
    alpha: float

    def __call__(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the loss and its gradient."""
        value, grad = 0.5 * self.alpha * (theta[1:] ** 2).sum(), np.zeros_like(theta)
        grad[1:] = self.alpha * theta[1:]
        for rows, P in self.blocks():
            scores = (P - self.mean) @ theta[1:] + theta[0]
            loss, residual, _ = _log_loss(scores, self.codes[rows], self.weights[rows])
            residual *= self.weights[rows][:, None]
            value += loss
            grad[0] += residual.sum(axis=0)
            grad[1:] += (P - self.mean).T @ residual
        return value, grad

    def curvature(self, theta: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
        """Return the product of the Hessian at ``theta`` with a direction, as a function."""
        blocks, mean = self.blocks, self.mean
        p_blocks = [softmax_or_expit((P - mean) @ theta[1:] + theta[0]) for _, P in blocks()]

        def product(d):
            out = np.vstack([np.zeros_like(d[:1]), self.alpha * d[1:]])
            for (rows, P), p in zip(blocks(), p_blocks, strict=True):
                bent = self.weights[rows][:, None] * _curve(p, (P - mean) @ d[1:] + d[0])
                out[0] += bent.sum(axis=0)
                out[1:] += (P - mean).T @ bent
            return out

        return product


def fit_logistic(
    blocks: FeatureBlocks,
    codes: np.ndarray,
    n_classes: int,
    weights: np.ndarray,
    alpha: float,
    n_outputs: int,
    *,
    tol: float,
    max_iter: int,
) -> tuple[np.ndarray, np.ndarray, int, bool]:
    r"""Minimise :math:`\sum_n w_n \ell(s_n) + \frac{\alpha}{2}\|u\|^2`, :math:`s = P u + b`.

    Newton's method; each step is solved by conjugate gradients, preconditioned with the Gram
    matrix of the features, so that neither the rows nor the Hessian are held. Two classes have
    one column of scores, more have one each (softmax).

    Returns coefficients (J, k), intercepts (k,), the number of steps, whether it converged.
    """
    k = 1 if n_classes == 2 else n_classes
    mean, gram = _centered_gram(blocks, weights, n_outputs)
    total, bound = weights.sum(), 0.25 if k == 1 else 0.5
    gram *= bound
    gram[np.diag_indices(n_outputs)] += alpha
    factor = scipy.linalg.cho_factor(gram, lower=True, overwrite_a=True)
    priors = np.bincount(codes, weights=weights, minlength=n_classes) / total
    b = np.log(priors) if k > 1 else np.array([np.log(priors[1] / priors[0])])
    theta = np.vstack([b - b.mean() if k > 1 else b, np.zeros((n_outputs, k))])

    objective = _LogisticObjective(blocks, codes, weights, mean, alpha)

    def precondition(grad):
        return np.vstack([grad[:1] / (bound * total), scipy.linalg.cho_solve(factor, grad[1:])])

    value, grad = objective(theta)
    first = np.sqrt((grad * precondition(grad)).sum())
    for n_iter in range(1, max_iter + 1):
        size = np.sqrt(max((grad * precondition(grad)).sum(), 0.0))
        # The size of the gradient in this metric is that of the Newton step in the scores; below
        # the rounding of the loss no step can be told from another.
        if size <= tol * max(first, np.sqrt(total)):
            return theta[1:], theta[0] - mean @ theta[1:], n_iter - 1, True
        target = size * min(0.1, size / max(first, 1e-300))
        step = _conjugate_gradients(objective.curvature(theta), -grad, precondition, target)
        if k > 1:
            # A constant added to all scores changes nothing; without this, rounding would drift.
            step -= step.mean(axis=1, keepdims=True)
        slope, length = (grad * step).sum(), 1.0
        while True:
            candidate = theta + length * step
            new_value, new_grad = objective(candidate)
            if new_value <= value + 1e-4 * length * slope + 1e-12 * abs(value) or length < 1e-6:
                break
            length *= 0.5
        theta, value, grad = candidate, new_value, new_grad
    return theta[1:], theta[0] - mean @ theta[1:], max_iter, False


def _conjugate_gradients(product, rhs, precondition, target, max_iter=200):
    """Solve ``H x = rhs`` until the preconditioned residual is below ``target``."""
    x, r = np.zeros_like(rhs), rhs
    z = precondition(r)
    d, rho = z, (r * z).sum()
    for _ in range(max_iter):
        if np.sqrt(max(rho, 0.0)) <= target:
            break
        Hd = product(d)
        step = rho / (d * Hd).sum()
        x = x + step * d
        r = r - step * Hd
        z = precondition(r)
        rho, old = (r * z).sum(), rho
        d = z + rho / old * d
    return x


def softmax_or_expit(scores: np.ndarray) -> np.ndarray:
    """Probabilities of scores; one column means two classes and gives one column."""
    return expit(scores) if scores.shape[1] == 1 else softmax(scores, axis=1)
