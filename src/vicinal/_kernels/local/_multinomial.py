"""Local multinomial logistic regression: Newton's method on every neighbourhood.

Around a query q, with a_i = (x_i - q, 1) and one theta_c = (b_c, b_c0) for each class that the
neighbourhood holds, minimise

    lam / 2 sum_c |b_c|^2 + C sum_i w_i [ log sum_c exp(a_i'theta_c) - a_i'theta_(y_i) ].

The intercepts are free; started at zero they keep the sum zero, because every step does. Newton
systems are solved by conjugate gradients through products with the Hessian, which is never formed.
With two classes the model is the binary one, whose penalty is on the single difference: the two
scores are then half of it and its negative, so that their softmax is the probability always.
"""

from typing import Any, NamedTuple

import numpy as np

from vicinal._kernels._jit import inline_jit, inner_jit
from vicinal._kernels.local._newton import MAX_HALVINGS, enough_decrease, newton_fit
from vicinal._kernels.local._workspace import LOGISTIC, total_weight


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
    bent: Any


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
    """Write the product of the Hessian with ``way`` to ``bent``."""
    P, r = joint.P, joint.r
    _products(A, joint.way, fit, m, r)
    for i in range(fit.k):
        mean = 0.0
        for c in range(m):
            mean += P[c, i] * r[c, i]
        for c in range(m):
            r[c, i] = C * fit.weights[i] * P[c, i] * (r[c, i] - mean)
    _pull(A, r, joint.way, fit, m, joint.bent)


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
    g, step, rest, way, bent = joint.g, joint.step, joint.rest, joint.way, joint.bent
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
        curvature = _dot(way, bent, p, m)
        if not curvature > 0.0:
            break
        length = size / curvature
        for c in range(m):
            for a in range(p + 1):
                step[c, a] += length * way[c, a]
                rest[c, a] -= length * bent[c, a]
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
    # A class's place among those present takes the place of its count.
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
