"""Local logistic and squared-hinge classifiers by Newton's method.

Around a query q, with a_i = (x_i - q, 1), labels y_i = +1 or -1 and theta = (b, b_0), minimise

    lam / 2 |b|^2 + rho / 2 b_0^2 + C sum_i w_i loss(y_i a_i'theta),

loss(z) = max(0, 1 - z)^2 / 2 (squared hinge) or log(1 + exp(-z)) (logistic). The score at q is b_0.

With more columns than rows the rows are first written in an orthonormal basis of their own span (a
pivoted Cholesky factor of their Gram matrix), which changes neither objective nor scores.
"""

import numpy as np

from vicinal._kernels._jit import fast_jit, inline_jit, inner_jit
from vicinal._kernels.local._workspace import (
    SQUARED_HINGE,
    cholesky_solve,
    gram_lower,
    shifted_cholesky,
)

_MAX_HALVINGS = 40
_ARMIJO = 1e-4


@inner_jit
def pivoted_factor(R, k, d, K, F, pivots, rest):
    """Factor ``R R' = F F'`` by pivoted Cholesky; return the rank (``F`` has shape (k, rank)).

    ``rest`` holds the remaining diagonal, -1 for rows already chosen.
    """
    gram_lower(R, k, d, K)
    largest = 0.0
    for i in range(k):
        rest[i] = K[i, i]
        largest = max(largest, rest[i])
    for r in range(k):
        best = 0
        for i in range(1, k):
            if rest[i] > rest[best]:
                best = i
        if not rest[best] > 1e-13 * largest:
            return r
        pivots[r] = best
        root = np.sqrt(rest[best])
        rest[best] = -1.0
        for i in range(k):
            F[i, r] = 0.0
            if rest[i] >= 0.0:
                value = K[i, best] if i > best else K[best, i]
                for t in range(r):
                    value -= F[i, t] * F[best, t]
                F[i, r] = value / root
                rest[i] = max(rest[i] - F[i, r] * F[i, r], 0.0)
        F[best, r] = root
    return k


@inline_jit
def design_columns(columns, k, work):
    """Write the rows of one neighbourhood as columns of the design; return their number."""
    R, A = work.R, work.A
    if columns <= k:
        for a in range(columns):
            for i in range(k):
                A[a, i] = R[i, a]
        return columns
    F = work.basis
    rank = pivoted_factor(R, k, columns, work.K, F, work.pivots, work.f)
    for a in range(rank):
        for i in range(k):
            A[a, i] = F[i, a]
    return rank


@inner_jit
def write_slopes(theta, fit, work, out):
    """Turn coefficients into slopes on the original columns (the first of the design)."""
    R, F, pivots = work.R, work.basis, work.pivots
    p = fit.p
    if out.shape[0] == 0:
        return
    if R.shape[1] <= fit.k:
        for a in range(min(p, out.shape[0])):
            out[a] = theta[a] / fit.unit
        return
    beta = work.new
    for a in range(p - 1, -1, -1):
        value = theta[a]
        for j in range(a + 1, p):
            value -= F[pivots[j], a] * beta[j]
        beta[a] = value / F[pivots[a], a]
    for a in range(out.shape[0]):
        out[a] = 0.0
    for j in range(p):
        for a in range(out.shape[0]):
            out[a] += beta[j] * R[pivots[j], a] / fit.unit


@fast_jit
def one_class_score(total, C, rho, loss):
    """Return the intercept that minimises the objective when every label is +1."""
    if loss == SQUARED_HINGE:
        return C * total / (C * total + rho)
    if rho <= 0.0:
        return np.inf
    b = 0.0
    for _ in range(200):
        p = 1.0 / (1.0 + np.exp(b))
        step = (C * total * p - rho * b) / (C * total * p * (1.0 - p) + rho)
        b += step
        if abs(step) <= 1e-12 * (1.0 + abs(b)):
            break
    return b


@inner_jit
def margins(A, theta, p, k, f):
    """Write the scores a_i'theta; the last coefficient is the intercept."""
    for i in range(k):
        f[i] = theta[p]
    for a in range(p):
        coefficient = theta[a]
        row = A[a]
        for i in range(k):
            f[i] += coefficient * row[i]


@inner_jit
def newton_value(f, y, theta, fit, loss, C):
    """Return the objective at rows with scores ``f``."""
    weights, k, p = fit.weights, fit.k, fit.p
    total = 0.0
    if loss == SQUARED_HINGE:
        for i in range(k):
            r = max(0.0, 1.0 - y[i] * f[i])
            total += weights[i] * r * r
        total *= 0.5
    else:
        for i in range(k):
            z = y[i] * f[i]
            total += weights[i] * (np.log1p(np.exp(-abs(z))) + max(0.0, -z))
    penalty = fit.rho * theta[p] * theta[p]
    for a in range(p):
        penalty += fit.lam * theta[a] * theta[a]
    return C * total + 0.5 * penalty


@inner_jit
def newton_system(fit, loss, C, work):
    """Fill the Hessian (lower triangle), the negative gradient and the slopes of the loss."""
    A, B, H, g, theta, y, f = work.A, work.B, work.H, work.g, work.theta, work.y, work.f
    weights, k, p = fit.weights, fit.k, fit.p
    n_used = 0
    for a in range(p):
        g[a] = -fit.lam * theta[a]
    g[p] = -fit.rho * theta[p]
    slope = B[p + 1]
    for i in range(k):
        z = y[i] * f[i]
        if loss == SQUARED_HINGE:
            curvature = C * weights[i] if z < 1.0 else 0.0
            slope[i] = curvature * (1.0 - z) * y[i]
        else:
            e = np.exp(-abs(z))
            miss = e / (1.0 + e) if z > 0.0 else 1.0 / (1.0 + e)
            curvature = C * weights[i] * miss * (1.0 - miss)
            slope[i] = C * weights[i] * miss * y[i]
        if curvature > 0.0:
            root = np.sqrt(curvature)
            for a in range(p):
                B[a, n_used] = A[a, i] * root
            B[p, n_used] = root
            n_used += 1
        g[p] += slope[i]
    for a in range(p):
        row = A[a]
        value = 0.0
        for i in range(k):
            value += slope[i] * row[i]
        g[a] += value
    gram_lower(B, p + 1, n_used, H)
    for a in range(p):
        H[a, a] += fit.lam
    H[p, p] += fit.rho


@inner_jit
def _same_active(f, new, y, k):
    for i in range(k):
        if (y[i] * f[i] < 1.0) != (y[i] * new[i] < 1.0):
            return False
    return True


@inline_jit
def _enough_decrease(value, candidate, length, slope):
    """Return whether a step has lowered the objective enough (Armijo rule)."""
    if candidate <= value - _ARMIJO * length * slope:
        return True
    # A decrease below the rounding of the objective is accepted.
    return candidate <= value + 1e-14 * abs(value) and slope <= 1e-13 * abs(value)


@inline_jit
def _direction(p, work):
    """Solve for the Newton step; return the predicted decrease, and the shift of H."""
    L, g, step = work.L, work.g, work.step
    shift = shifted_cholesky(work.H, p + 1, 1e-10, L)
    for a in range(p + 1):
        step[a] = g[a]
    cholesky_solve(L, p + 1, step)
    slope = 0.0
    for a in range(p + 1):
        slope += step[a] * g[a]
    return slope, shift


@inner_jit
def newton_fit(fit, loss, objective, work):
    """Minimise the objective from zero into ``work.theta``; return whether it converged.

    The squared hinge is solved exactly: a full step that leaves the active set unchanged is the
    minimiser. The logistic loss stops when no component of the gradient exceeds ``tol`` times the
    total weight.
    """
    A, f, new, g, y, theta, step = work.A, work.f, work.new, work.g, work.y, work.theta, work.step
    C, k, p = objective.C, fit.k, fit.p
    total = 0.0
    for i in range(k):
        total += fit.weights[i]
        f[i] = 0.0
    for a in range(p + 1):
        theta[a] = 0.0
    value = newton_value(f, y, theta, fit, loss, C)
    for _ in range(objective.max_iter):
        newton_system(fit, loss, C, work)
        largest = 0.0
        for a in range(p + 1):
            largest = max(largest, abs(g[a]))
        if largest <= objective.tol * C * total:
            return True
        slope, shift = _direction(p, work)
        if shift < 0.0:
            return False
        length = 1.0
        accepted = False
        for _ in range(_MAX_HALVINGS):
            for a in range(p + 1):
                theta[a] += length * step[a]
            margins(A, theta, p, k, new)
            candidate = newton_value(new, y, theta, fit, loss, C)
            accepted = _enough_decrease(value, candidate, length, slope)
            if accepted:
                break
            for a in range(p + 1):
                theta[a] -= length * step[a]
            length *= 0.5
        if not accepted:
            return slope <= 1e-10 * abs(value)
        exact = loss == SQUARED_HINGE and length == 1.0 and shift == 0.0
        if exact and _same_active(f, new, y, k):
            return True
        for i in range(k):
            f[i] = new[i]
        value = candidate
    return False
