"""Local squared-hinge and logistic classifiers: Newton's method on every neighbourhood.

Around a query q, with a_i = (x_i - q, 1), labels y_i = +1 or -1 and theta = (b, b_0), minimise

    lam / 2 |b|^2 + rho / 2 b_0^2 + C sum_i w_i loss(y_i a_i'theta),

loss(z) = max(0, 1 - z)^2 / 2 (squared hinge) or log(1 + exp(-z)) (logistic). The score at q is b_0.
Several classes are told apart one against the rest; two classes need one fit. A neighbourhood of
one class, or a class without a neighbour, has a closed-form answer and is not fitted.

With more columns than rows the rows are first written in an orthonormal basis of their own span (a
pivoted Cholesky factor of their Gram matrix), which changes neither objective nor scores.
"""

import numpy as np

from vicinal._kernels._jit import fast_jit
from vicinal._kernels.local._ridge import (
    append_products,
    count_classes,
    gather_rows,
    longest_neighborhood,
)
from vicinal._kernels.local._small_dense import cholesky_lower, cholesky_solve, gram_lower

SQUARED_HINGE = 0
LOGISTIC = 1

_MAX_HALVINGS = 40
_ARMIJO = 1e-4


@fast_jit
def scatter_trace(R, weights, k, d):
    """Return (sum of weights, trace of V) of offsets ``R[:k, :d]``."""
    s = 0.0
    size = 0.0
    for i in range(k):
        s += weights[i]
        for a in range(d):
            size += weights[i] * R[i, a] * R[i, a]
    mean = 0.0
    for a in range(d):
        m = 0.0
        for i in range(k):
            m += weights[i] * R[i, a]
        mean += m * m
    trace = size - mean / s
    return s, trace if trace > 1e-12 * size else 0.0


@fast_jit
def pivoted_factor(R, k, d, K, F, pivots):
    """Factor ``R R' = F F'`` by pivoted Cholesky; return the rank (``F`` has shape (k, rank))."""
    gram_lower(R, k, d, K)
    rest = np.empty(k)
    used = np.zeros(k, dtype=np.bool_)
    largest = 0.0
    for i in range(k):
        rest[i] = K[i, i]
        largest = max(largest, rest[i])
    for r in range(k):
        best = -1
        for i in range(k):
            if not used[i] and (best < 0 or rest[i] > rest[best]):
                best = i
        if not rest[best] > 1e-13 * largest:
            return r
        used[best] = True
        pivots[r] = best
        root = np.sqrt(rest[best])
        for i in range(k):
            if used[i] and i != best:
                F[i, r] = 0.0
                continue
            value = K[i, best] if i > best else K[best, i]
            for t in range(r):
                value -= F[i, t] * F[best, t]
            F[i, r] = value / root
            rest[i] -= F[i, r] * F[i, r]
        F[best, r] = root
        for t in range(r):
            # Rows already used keep zeros to the right of their own column.
            F[pivots[t], r] = 0.0
    return k


@fast_jit
def one_class_score(s, C, rho, loss):
    """Return the intercept that minimises the objective when every label is +1."""
    if loss == SQUARED_HINGE:
        return C * s / (C * s + rho)
    if rho <= 0.0:
        return np.inf
    b = 0.0
    for _ in range(200):
        p = 1.0 / (1.0 + np.exp(b))
        step = (C * s * p - rho * b) / (C * s * p * (1.0 - p) + rho)
        b += step
        if abs(step) <= 1e-12 * (1.0 + abs(b)):
            break
    return b


@fast_jit
def margins(A, theta, p, k, f):
    """Write the scores a_i'theta; the last row of ``A`` is the constant one."""
    for i in range(k):
        f[i] = theta[p]
    for a in range(p):
        coefficient = theta[a]
        row = A[a]
        for i in range(k):
            f[i] += coefficient * row[i]


@fast_jit
def _objective(f, y, weights, theta, p, k, C, lam, rho, loss):
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
    penalty = rho * theta[p] * theta[p]
    for a in range(p):
        penalty += lam * theta[a] * theta[a]
    return C * total + 0.5 * penalty


@fast_jit
def newton_system(A, f, y, weights, theta, p, k, C, lam, rho, loss, B, H, g):
    """Fill the Hessian (lower triangle) and the negative gradient; return the rows in use."""
    n_used = 0
    for a in range(p):
        g[a] = -lam * theta[a]
    g[p] = -rho * theta[p]
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
        H[a, a] += lam
    H[p, p] += rho
    return n_used


@fast_jit
def _same_active(f, new, y, k):
    for i in range(k):
        if (y[i] * f[i] < 1.0) != (y[i] * new[i] < 1.0):
            return False
    return True


@fast_jit
def newton_fit(A, y, weights, p, k, C, lam, rho, loss, tol, max_iter, theta, work):
    """Minimise the objective from ``theta``; return whether it converged.

    The squared hinge is solved exactly: a full step that leaves the active set unchanged is the
    minimiser. The logistic loss stops when no component of the gradient exceeds ``tol`` times the
    total weight.
    """
    B, H, L, g, f, new, trial = work
    total = 0.0
    for i in range(k):
        total += weights[i]
    margins(A, theta, p, k, f)
    value = _objective(f, y, weights, theta, p, k, C, lam, rho, loss)
    for _ in range(max_iter):
        newton_system(A, f, y, weights, theta, p, k, C, lam, rho, loss, B, H, g)
        largest = 0.0
        for a in range(p + 1):
            largest = max(largest, abs(g[a]))
        if largest <= tol * C * total:
            return True
        shift = 0.0
        while not cholesky_lower(H, p + 1, shift, L):
            shift = max(10.0 * shift, 1e-10 * (1.0 + abs(H[p, p])))
        slope = 0.0
        for a in range(p + 1):
            trial[a] = g[a]
        cholesky_solve(L, p + 1, trial)
        for a in range(p + 1):
            slope += trial[a] * g[a]
        step = 1.0
        accepted = False
        for _ in range(_MAX_HALVINGS):
            for a in range(p + 1):
                theta[a] += step * trial[a]
            margins(A, theta, p, k, new)
            candidate = _objective(new, y, weights, theta, p, k, C, lam, rho, loss)
            if candidate <= value - _ARMIJO * step * slope:
                accepted = True
                break
            if candidate <= value + 1e-14 * abs(value) and slope <= 1e-13 * abs(value):
                # Rounding of the objective hides a decrease that small: the step is accepted.
                accepted = True
                break
            for a in range(p + 1):
                theta[a] -= step * trial[a]
            step *= 0.5
        if not accepted:
            return slope <= 1e-10 * abs(value)
        exact = loss == SQUARED_HINGE and step == 1.0 and shift == 0.0
        if exact and _same_active(f, new, y, k):
            return True
        for i in range(k):
            f[i] = new[i]
        value = candidate
    return False


@fast_jit
def design_columns(R, k, d, K, F, pivots, A):
    """Write the rows of one neighbourhood as columns; return their number."""
    if d <= k:
        for a in range(d):
            for i in range(k):
                A[a, i] = R[i, a]
        return d
    rank = pivoted_factor(R, k, d, K, F, pivots)
    for a in range(rank):
        for i in range(k):
            A[a, i] = F[i, a]
    return rank


@fast_jit
def slopes_from(theta, p, R, full, k, F, pivots, out):
    """Turn coefficients into slopes on the original columns (the first of the design)."""
    d = out.shape[0]
    if full <= k:
        for a in range(d):
            out[a] = theta[a]
        return
    beta = np.empty(p)
    for a in range(p - 1, -1, -1):
        value = theta[a]
        for j in range(a + 1, p):
            value -= F[pivots[j], a] * beta[j]
        beta[a] = value / F[pivots[a], a]
    for a in range(d):
        out[a] = 0.0
    for j in range(p):
        for a in range(d):
            out[a] += beta[j] * R[pivots[j], a]


@fast_jit
def local_newton(
    X,
    Q,
    indptr,
    indices,
    weights,
    codes,
    loss,
    degree,
    alpha,
    relative,
    C,
    rho,
    rho_per_weight,
    tol,
    max_iter,
    want_slopes,
    scores,
    slopes,
    converged,
):
    """Fit one model per query and class; write scores (n_queries, n_classes).

    lam is ``alpha * trace(V) / p`` over the p design columns if ``relative``, else ``alpha``; the
    intercept's penalty is ``rho + rho_per_weight * sum(w)``. ``slopes`` has shape (n_queries,
    n_classes, d) if wanted.
    """
    n_queries = indptr.shape[0] - 1
    n_classes = scores.shape[1]
    d = X.shape[1]
    longest = longest_neighborhood(indptr)
    full = d + d * (d + 1) // 2 if degree == 2 else d
    width = min(full, longest)
    R = np.empty((longest, full))
    K = np.empty((width, width))
    F = np.empty((width, width))
    pivots = np.empty(longest, dtype=np.int64)
    A = np.empty((width, longest))
    work = (
        np.empty((width + 2, longest)),
        np.empty((width + 1, width + 1)),
        np.empty((width + 1, width + 1)),
        np.empty(width + 1),
        np.empty(longest),
        np.empty(longest),
        np.empty(width + 1),
    )
    theta = np.empty(width + 1)
    y = np.empty(longest)
    counts = np.zeros(n_classes, dtype=np.int64)
    for t in range(n_queries):
        start, stop = indptr[t], indptr[t + 1]
        k = stop - start
        if k == 0:
            continue
        n_present = count_classes(codes, indices[start:stop], counts)
        w = weights[start:stop]
        s = 0.0
        for i in range(k):
            s += w[i]
        intercept = rho + rho_per_weight * s
        alone = one_class_score(s, C, intercept, loss)
        for c in range(n_classes):
            scores[t, c] = -alone
            if want_slopes:
                slopes[t, c] = 0.0
        if n_present == 1:
            scores[t, codes[indices[start]]] = alone
            continue
        gather_rows(X, Q[t], indices[start:stop], R, d)
        if degree == 2:
            append_products(R, w, k, d)
        lam = alpha
        if relative:
            s, trace = scatter_trace(R, w, k, full)
            lam = alpha * trace / full
        p = 0
        if degree > 0 and not (relative and lam == 0.0):
            p = design_columns(R, k, full, K, F, pivots, A)
        first = -1
        for c in range(n_classes):
            if counts[c] == 0:
                continue
            if n_present == 2 and first >= 0:
                scores[t, c] = -scores[t, first]
                if want_slopes:
                    for a in range(d):
                        slopes[t, c, a] = -slopes[t, first, a]
                continue
            first = c
            for i in range(k):
                y[i] = 1.0 if codes[indices[start + i]] == c else -1.0
            for a in range(p + 1):
                theta[a] = 0.0
            done = newton_fit(A, y, w, p, k, C, lam, intercept, loss, tol, max_iter, theta, work)
            converged[t] = converged[t] and done
            scores[t, c] = theta[p]
            if want_slopes and p > 0:
                slopes_from(theta, p, R, full, k, F, pivots, slopes[t, c])
