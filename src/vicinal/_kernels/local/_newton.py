"""Local logistic, squared-hinge and multinomial classifiers by Newton's method.

Around a query q, with a_i = (x_i - q, 1), labels y_i = +1 or -1 and theta = (b, b_0), minimise

    lam / 2 |b|^2 + rho / 2 b_0^2 + C sum_i w_i loss(y_i a_i'theta),

loss(z) = max(0, 1 - z)^2 / 2 (squared hinge) or log(1 + exp(-z)) (logistic). The score at q is b_0.

With more columns than rows the rows are first written in an orthonormal basis of their own span (a
pivoted Cholesky factor of their Gram matrix), which changes neither objective nor scores.

Multinomial logistic regression, with one theta_c = (b_c, b_c0) for each class in the neighbourhood,
minimises

    lam / 2 sum_c |b_c|^2 + C sum_i w_i [ log sum_c exp(a_i'theta_c) - a_i'theta_(y_i) ].

The intercepts are free; they start at zero and keep the sum zero. Newton systems are solved by
conjugate gradients through products with the Hessian. With two classes the model is the binary one,
whose penalty is on the difference of the two scores; each score is then half of it or its negative.
"""

from typing import Any, NamedTuple

import numpy as np

from vicinal._kernels._jit import fast_jit, inline_jit, inner_jit
from vicinal._kernels.local._workspace import (
    LOGISTIC,
    SQUARED_HINGE,
    cholesky_solve,
    gram_lower,
    shifted_cholesky,
    total_weight,
)

MAX_HALVINGS = 40
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
def enough_decrease(value, candidate, length, slope):
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
        for _ in range(MAX_HALVINGS):
            for a in range(p + 1):
                theta[a] += length * step[a]
            margins(A, theta, p, k, new)
            candidate = newton_value(new, y, theta, fit, loss, C)
            accepted = enough_decrease(value, candidate, length, slope)
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


class Joint(NamedTuple):
    """Arrays of a fit of m classes together: scores have shape (m, k), coefficients (m, p + 1)."""

    labels: Any  # of the rows, among the classes present
    theta: Any
    f: Any  # scores of the rows
    P: Any  # probabilities
    r: Any  # derivatives of the loss by the scores
    g: Any
    step: Any
    rest: Any  # conjugate gradients: residual, direction, Hessian times direction
    way: Any
    product: Any


def joint_workspace(k: int, p: int, m: int) -> Joint:
    """Allocate for k rows, p columns and m classes."""
    return Joint(
        np.empty(k, dtype=np.int64),
        np.empty((m, p + 1)),
        np.empty((m, k)),
        np.empty((m, k)),
        np.empty((m, k)),
        np.empty((m, p + 1)),
        np.empty((m, p + 1)),
        np.empty((m, p + 1)),
        np.empty((m, p + 1)),
        np.empty((m, p + 1)),
    )


@inner_jit
def _products(A, V, fit, m, out):
    """Write a_i'v_c for every row and class, shape (m, k)."""
    k, p = fit.k, fit.p
    for c in range(m):
        row = out[c]
        for i in range(k):
            row[i] = V[c, p]
        for a in range(p):
            value = V[c, a]
            column = A[a]
            for i in range(k):
                row[i] += value * column[i]


@inner_jit
def _pull(A, r, V, fit, m, out):
    """Write lam v_c + sum_i r_ci a_i, intercepts without penalty, shape (m, p + 1)."""
    k, p = fit.k, fit.p
    for c in range(m):
        row = r[c]
        total = 0.0
        for i in range(k):
            total += row[i]
        out[c, p] = total
        for a in range(p):
            column = A[a]
            value = 0.0
            for i in range(k):
                value += row[i] * column[i]
            out[c, a] = fit.lam * V[c, a] + value


@inner_jit
def _value(f, fit, C, m, joint):
    """Return the objective; leave the probabilities of the rows with scores ``f`` in ``P``."""
    labels, theta, P = joint.labels, joint.theta, joint.P
    total = 0.0
    for i in range(fit.k):
        largest = f[0, i]
        for c in range(1, m):
            largest = max(largest, f[c, i])
        mass = 0.0
        for c in range(m):
            P[c, i] = np.exp(f[c, i] - largest)
            mass += P[c, i]
        for c in range(m):
            P[c, i] /= mass
        total += fit.weights[i] * (np.log(mass) + largest - f[labels[i], i])
    penalty = 0.0
    for c in range(m):
        for a in range(fit.p):
            penalty += theta[c, a] * theta[c, a]
    return C * total + 0.5 * fit.lam * penalty


@inner_jit
def _gradient(A, fit, C, m, joint):
    """Fill the gradient at the probabilities ``P``; return its largest component."""
    P, r, g = joint.P, joint.r, joint.g
    for i in range(fit.k):
        for c in range(m):
            r[c, i] = C * fit.weights[i] * P[c, i]
        r[joint.labels[i], i] -= C * fit.weights[i]
    _pull(A, r, joint.theta, fit, m, g)
    largest = 0.0
    for c in range(m):
        for a in range(fit.p + 1):
            largest = max(largest, abs(g[c, a]))
    return largest


@inner_jit
def _curve(A, fit, C, m, joint):
    """Write the product of the Hessian with ``way`` to ``product``."""
    P, r = joint.P, joint.r
    _products(A, joint.way, fit, m, r)
    for i in range(fit.k):
        mean = 0.0
        for c in range(m):
            mean += P[c, i] * r[c, i]
        for c in range(m):
            r[c, i] = C * fit.weights[i] * P[c, i] * (r[c, i] - mean)
    _pull(A, r, joint.way, fit, m, joint.product)


@inner_jit
def _dot(U, V, p, m):
    total = 0.0
    for c in range(m):
        for a in range(p + 1):
            total += U[c, a] * V[c, a]
    return total


@inner_jit
def _newton_step(A, fit, C, m, accuracy, joint):
    """Solve H step = -g by conjugate gradients to a relative ``accuracy``."""
    g, step, rest, way, product = joint.g, joint.step, joint.rest, joint.way, joint.product
    p = fit.p
    for c in range(m):
        for a in range(p + 1):
            step[c, a] = 0.0
            rest[c, a] = -g[c, a]
            way[c, a] = -g[c, a]
    size = _dot(rest, rest, p, m)
    target = accuracy * accuracy * size
    for _ in range(2 * m * (p + 1)):
        if size <= target:
            break
        _curve(A, fit, C, m, joint)
        curvature = _dot(way, product, p, m)
        if not curvature > 0.0:
            break
        length = size / curvature
        for c in range(m):
            for a in range(p + 1):
                step[c, a] += length * way[c, a]
                rest[c, a] -= length * product[c, a]
        before = size
        size = _dot(rest, rest, p, m)
        for c in range(m):
            for a in range(p + 1):
                way[c, a] = rest[c, a] + size / before * way[c, a]


@inline_jit
def _add(theta, length, step, p, m):
    for c in range(m):
        for a in range(p + 1):
            theta[c, a] += length * step[c, a]


@inner_jit
def _joint_fit(A, fit, objective, m, joint):
    """Minimise the objective from zero into ``joint.theta``; return whether it converged."""
    theta, f, step, C = joint.theta, joint.f, joint.step, objective.C
    for c in range(m):
        for a in range(fit.p + 1):
            theta[c, a] = 0.0
        for i in range(fit.k):
            f[c, i] = 0.0
    total = total_weight(fit.weights)
    value = _value(f, fit, C, m, joint)
    first = 0.0
    for iteration in range(objective.max_iter):
        largest = _gradient(A, fit, C, m, joint)
        if largest <= objective.tol * C * total:
            return True
        if iteration == 0:
            first = largest
        accuracy = max(1e-8, min(0.1, np.sqrt(largest / first)))
        _newton_step(A, fit, C, m, accuracy, joint)
        slope = -_dot(step, joint.g, fit.p, m)
        length = 1.0
        accepted = False
        for _ in range(MAX_HALVINGS):
            _add(theta, length, step, fit.p, m)
            _products(A, theta, fit, m, f)
            candidate = _value(f, fit, C, m, joint)
            accepted = enough_decrease(value, candidate, length, slope)
            if accepted:
                break
            _add(theta, -length, step, fit.p, m)
            length *= 0.5
        if not accepted:
            return slope <= 1e-10 * abs(value)
        value = candidate
    return False


@inner_jit
def _binary_fit(fit, objective, work, joint):
    """Fit the single difference of two classes; write half of it and its negative."""
    labels, theta = joint.labels, joint.theta
    for i in range(fit.k):
        work.y[i] = 2.0 * labels[i] - 1.0
    done = newton_fit(fit, LOGISTIC, objective, work)
    for a in range(fit.p + 1):
        theta[0, a] = -0.5 * work.theta[a]
        theta[1, a] = 0.5 * work.theta[a]
    return done


@inner_jit
def multinomial_fit(rows, codes, fit, objective, work, joint):
    """Fit the classes that have rows together, in their order; return whether it converged."""
    # Replace the count of each class by its index among those present.
    counts = work.counts
    m = 0
    for c in range(counts.shape[0]):
        if counts[c] > 0:
            counts[c] = m
            m += 1
        else:
            counts[c] = -1
    for i in range(fit.k):
        joint.labels[i] = counts[codes[rows[i]]]
    if m == 2:
        return _binary_fit(fit, objective, work, joint)
    return _joint_fit(work.A, fit, objective, m, joint)
