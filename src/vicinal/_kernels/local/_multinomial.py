"""Local multinomial logistic regression: Newton's method on every neighbourhood.

Around a query q, with a_i = (x_i - q, 1) and one theta_c = (b_c, b_c0) for each class that the
neighbourhood holds, minimise

    lam / 2 sum_c |b_c|^2 + C sum_i w_i [ log sum_c exp(a_i'theta_c) - a_i'theta_(y_i) ].

The intercepts are free; started at zero they keep the sum zero, because every step does. Newton
systems are solved by conjugate gradients through products with the Hessian, which is never formed.
With two classes the model is the binary one, whose penalty is on the single difference: the two
scores are then half of it and its negative, so that their softmax is the probability always.
"""

import numpy as np

from vicinal._kernels._jit import fast_jit
from vicinal._kernels.local._newton import LOGISTIC, design_columns, newton_fit, slopes_from
from vicinal._kernels.local._ridge import (
    append_products,
    gather_rows,
    longest_neighborhood,
)

_MAX_HALVINGS = 40
_ARMIJO = 1e-4


@fast_jit
def _products(A, V, p, k, m, out):
    """Write a_i'v_c for every row and class, shape (m, k)."""
    for c in range(m):
        row = out[c]
        for i in range(k):
            row[i] = V[c, p]
        for a in range(p):
            value = V[c, a]
            column = A[a]
            for i in range(k):
                row[i] += value * column[i]


@fast_jit
def _pull(A, r, p, k, m, out):
    """Add sum_i r_ci a_i to ``out``, shape (m, p + 1)."""
    for c in range(m):
        row = r[c]
        total = 0.0
        for i in range(k):
            total += row[i]
        out[c, p] += total
        for a in range(p):
            column = A[a]
            value = 0.0
            for i in range(k):
                value += row[i] * column[i]
            out[c, a] += value


@fast_jit
def _objective(f, labels, weights, theta, p, k, m, C, lam):
    total = 0.0
    for i in range(k):
        largest = f[0, i]
        for c in range(1, m):
            largest = max(largest, f[c, i])
        mass = 0.0
        for c in range(m):
            mass += np.exp(f[c, i] - largest)
        total += weights[i] * (np.log(mass) + largest - f[labels[i], i])
    penalty = 0.0
    for c in range(m):
        for a in range(p):
            penalty += theta[c, a] * theta[c, a]
    return C * total + 0.5 * lam * penalty


@fast_jit
def _gradient(A, f, labels, weights, theta, p, k, m, C, lam, P, r, g):
    """Fill the probabilities and the gradient; return its largest component."""
    for i in range(k):
        largest = f[0, i]
        for c in range(1, m):
            largest = max(largest, f[c, i])
        mass = 0.0
        for c in range(m):
            P[c, i] = np.exp(f[c, i] - largest)
            mass += P[c, i]
        for c in range(m):
            P[c, i] /= mass
            r[c, i] = C * weights[i] * P[c, i]
        r[labels[i], i] -= C * weights[i]
    for c in range(m):
        for a in range(p):
            g[c, a] = lam * theta[c, a]
        g[c, p] = 0.0
    _pull(A, r, p, k, m, g)
    largest = 0.0
    for c in range(m):
        for a in range(p + 1):
            largest = max(largest, abs(g[c, a]))
    return largest


@fast_jit
def _curve(A, P, weights, V, p, k, m, C, lam, r, out):
    """Write the product of the Hessian with ``V``."""
    _products(A, V, p, k, m, r)
    for i in range(k):
        mean = 0.0
        for c in range(m):
            mean += P[c, i] * r[c, i]
        for c in range(m):
            r[c, i] = C * weights[i] * P[c, i] * (r[c, i] - mean)
    for c in range(m):
        for a in range(p):
            out[c, a] = lam * V[c, a]
        out[c, p] = 0.0
    _pull(A, r, p, k, m, out)


@fast_jit
def _dot(U, V, p, m):
    total = 0.0
    for c in range(m):
        for a in range(p + 1):
            total += U[c, a] * V[c, a]
    return total


@fast_jit
def _newton_step(A, P, weights, g, p, k, m, C, lam, accuracy, r, step, rest, way, bent):
    """Solve H step = -g by conjugate gradients to a relative ``accuracy``."""
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
        _curve(A, P, weights, way, p, k, m, C, lam, r, bent)
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


@fast_jit
def multinomial_fit(A, labels, weights, p, k, m, C, lam, tol, max_iter, theta, work):
    """Minimise the objective from ``theta``; return whether it converged."""
    f, new, P, r, g, step, rest, way, bent = work
    total = 0.0
    for i in range(k):
        total += weights[i]
    _products(A, theta, p, k, m, f)
    value = _objective(f, labels, weights, theta, p, k, m, C, lam)
    first = 0.0
    for iteration in range(max_iter):
        largest = _gradient(A, f, labels, weights, theta, p, k, m, C, lam, P, r, g)
        if largest <= tol * C * total:
            return True
        if iteration == 0:
            first = largest
        accuracy = max(1e-8, min(0.1, np.sqrt(largest / first)))
        _newton_step(A, P, weights, g, p, k, m, C, lam, accuracy, r, step, rest, way, bent)
        slope = -_dot(step, g, p, m)
        length = 1.0
        accepted = False
        for _ in range(_MAX_HALVINGS):
            for c in range(m):
                for a in range(p + 1):
                    theta[c, a] += length * step[c, a]
            _products(A, theta, p, k, m, new)
            candidate = _objective(new, labels, weights, theta, p, k, m, C, lam)
            if candidate <= value - _ARMIJO * length * slope:
                accepted = True
                break
            if candidate <= value + 1e-14 * abs(value) and slope <= 1e-13 * abs(value):
                # Rounding of the objective hides a decrease that small: the step is accepted.
                accepted = True
                break
            for c in range(m):
                for a in range(p + 1):
                    theta[c, a] -= length * step[c, a]
            length *= 0.5
        if not accepted:
            return slope <= 1e-10 * abs(value)
        for c in range(m):
            for i in range(k):
                f[c, i] = new[c, i]
        value = candidate
    return False


@fast_jit
def local_multinomial(
    X,
    Q,
    indptr,
    indices,
    weights,
    codes,
    degree,
    lam,
    C,
    tol,
    max_iter,
    want_slopes,
    scores,
    slopes,
    converged,
):
    """Fit one model per query; write scores (n_queries, n_classes), -inf for absent classes."""
    n_queries = indptr.shape[0] - 1
    n_classes = scores.shape[1]
    d = X.shape[1]
    longest = longest_neighborhood(indptr)
    full = d + d * (d + 1) // 2 if degree == 2 else d
    width = min(full, longest)
    most = min(n_classes, longest)
    R = np.empty((longest, full))
    K = np.empty((width, width))
    F = np.empty((width, width))
    pivots = np.empty(longest, dtype=np.int64)
    A = np.empty((width, longest))
    binary = (
        np.empty((width + 2, longest)),
        np.empty((width + 1, width + 1)),
        np.empty((width + 1, width + 1)),
        np.empty(width + 1),
        np.empty(longest),
        np.empty(longest),
        np.empty(width + 1),
    )
    work = (
        np.empty((most, longest)),
        np.empty((most, longest)),
        np.empty((most, longest)),
        np.empty((most, longest)),
        np.empty((most, width + 1)),
        np.empty((most, width + 1)),
        np.empty((most, width + 1)),
        np.empty((most, width + 1)),
        np.empty((most, width + 1)),
    )
    theta = np.empty((most, width + 1))
    half = np.empty(width + 1)
    sign = np.empty(longest)
    labels = np.empty(longest, dtype=np.int64)
    place = np.empty(n_classes, dtype=np.int64)
    for t in range(n_queries):
        start, stop = indptr[t], indptr[t + 1]
        k = stop - start
        if k == 0:
            continue
        place[:] = -1
        for e in range(start, stop):
            place[codes[indices[e]]] = 0
        m = 0
        for c in range(n_classes):
            scores[t, c] = -np.inf
            if want_slopes:
                slopes[t, c] = 0.0
            if place[c] == 0:
                place[c] = m
                m += 1
        if m == 1:
            scores[t, codes[indices[start]]] = 0.0
            continue
        for i in range(k):
            labels[i] = place[codes[indices[start + i]]]
        w = weights[start:stop]
        gather_rows(X, Q[t], indices[start:stop], R, d)
        if degree == 2:
            append_products(R, w, k, d)
        p = 0
        if degree > 0:
            p = design_columns(R, k, full, K, F, pivots, A)
        theta[:m, : p + 1] = 0.0
        if m == 2:
            for i in range(k):
                sign[i] = 2.0 * labels[i] - 1.0
            half[: p + 1] = 0.0
            done = newton_fit(A, sign, w, p, k, C, lam, 0.0, LOGISTIC, tol, max_iter, half, binary)
            for a in range(p + 1):
                theta[0, a] = -0.5 * half[a]
                theta[1, a] = 0.5 * half[a]
        else:
            done = multinomial_fit(A, labels, w, p, k, m, C, lam, tol, max_iter, theta, work)
        converged[t] = converged[t] and done
        for c in range(n_classes):
            if place[c] < 0:
                continue
            scores[t, c] = theta[place[c], p]
            if want_slopes and p > 0:
                slopes_from(theta[place[c]], p, R, full, k, F, pivots, slopes[t, c])
