"""Local hinge-loss classifiers by dual coordinate descent.

Around a query minimise lam / 2 (|b|^2 + b_0^2 / kappa^2) + C sum_i w_i max(0, 1 - y_i f_i) with
f_i = b'(x_i - q) + b_0. In the dual each alpha_i lies in [0, C w_i]; one pass minimises over every
coordinate in turn (Hsieh et al. 2008), and Newton steps over the variables inside their boxes end
the crawl along the last face. The intercept must carry a little penalty for that, given by kappa.
"""

import numpy as np

from vicinal._kernels._jit import fast_jit
from vicinal._kernels.local._newton import SQUARED_HINGE, one_class_score, scatter_trace
from vicinal._kernels.local._ridge import (
    append_products,
    count_classes,
    gather_rows,
    longest_neighborhood,
)
from vicinal._kernels.local._small_dense import cholesky_lower, cholesky_solve


@fast_jit
def margin(R, theta, i, d):
    f = theta[d]
    for a in range(d):
        f += theta[a] * R[i, a]
    return f


@fast_jit
def _change(R, y, i, d, lam, constant, amount, theta):
    """Change the dual variable i by ``amount`` and the primal ones with it."""
    step = amount * y[i] / lam
    for a in range(d):
        theta[a] += step * R[i, a]
    theta[d] += step * constant


@fast_jit
def _one_pass(R, y, weights, k, d, C, lam, constant, theta, dual, norms):
    """Minimise over every coordinate in turn; return the largest violation met."""
    worst = 0.0
    for i in range(k):
        gradient = y[i] * margin(R, theta, i, d) - 1.0
        upper = C * weights[i]
        violation = gradient
        if dual[i] <= 0.0:
            violation = min(gradient, 0.0)
        elif dual[i] >= upper:
            violation = max(gradient, 0.0)
        worst = max(worst, abs(violation))
        if violation != 0.0:
            value = min(max(dual[i] - gradient / norms[i], 0.0), upper)
            _change(R, y, i, d, lam, constant, value - dual[i], theta)
            dual[i] = value
    return worst


@fast_jit
def _newton_on_face(R, y, weights, k, d, C, lam, constant, theta, dual, free, G, L, step):
    """Take the Newton step of the variables strictly inside their boxes, as far as boxes allow.

    Coordinate descent finds the right face soon and crawls along it; this step ends on it. Returns
    whether the step was full; otherwise a variable has come to its bound.
    """
    n_free = 0
    for i in range(k):
        if 0.0 < dual[i] < C * weights[i]:
            free[n_free] = i
            n_free += 1
    if n_free == 0:
        return True
    largest = 0.0
    for r in range(n_free):
        i = free[r]
        step[r] = 1.0 - y[i] * margin(R, theta, i, d)
        for t in range(r + 1):
            j = free[t]
            dot = constant
            for a in range(d):
                dot += R[i, a] * R[j, a]
            G[r, t] = y[i] * y[j] * dot / lam
        largest = max(largest, G[r, r])
    # More free variables than columns make the system singular: a little is added.
    shift = 0.0
    while not cholesky_lower(G, n_free, shift, L):
        shift = max(10.0 * shift, 1e-12 * largest)
    cholesky_solve(L, n_free, step)
    length = 1.0
    for r in range(n_free):
        i = free[r]
        if step[r] > 0.0:
            length = min(length, (C * weights[i] - dual[i]) / step[r])
        elif step[r] < 0.0:
            length = min(length, -dual[i] / step[r])
    for r in range(n_free):
        i = free[r]
        upper = C * weights[i]
        value = min(max(dual[i] + length * step[r], 0.0), upper)
        if value < 1e-12 * upper:
            value = 0.0
        elif value > (1.0 - 1e-12) * upper:
            value = upper
        _change(R, y, i, d, lam, constant, value - dual[i], theta)
        dual[i] = value
    return length >= 1.0


@fast_jit
def dual_descent(R, y, weights, k, d, C, lam, kappa, tol, max_iter, theta, dual, work):
    """Return whether the largest violation of the optimality conditions fell below ``tol``."""
    norms, free, G, L, step = work
    constant = kappa * kappa
    for i in range(k):
        square = constant
        for a in range(d):
            square += R[i, a] * R[i, a]
        norms[i] = square / lam
        dual[i] = 0.0
    for a in range(d + 1):
        theta[a] = 0.0
    for iteration in range(max_iter):
        worst = _one_pass(R, y, weights, k, d, C, lam, constant, theta, dual, norms)
        if worst <= tol:
            return True
        if iteration >= 4:
            for _ in range(k):
                if _newton_on_face(
                    R, y, weights, k, d, C, lam, constant, theta, dual, free, G, L, step
                ):
                    break
    return False


@fast_jit
def local_hinge(
    X,
    Q,
    indptr,
    indices,
    weights,
    codes,
    degree,
    alpha,
    relative,
    C,
    kappa,
    tol,
    max_iter,
    want_slopes,
    scores,
    slopes,
    converged,
):
    """Fit one model per query and class; see ``local_newton`` for the arguments.

    ``kappa`` is the size of the constant column; with ``relative`` it is multiplied by the root
    mean square distance from the query.
    """
    n_queries = indptr.shape[0] - 1
    n_classes = scores.shape[1]
    d = X.shape[1]
    longest = longest_neighborhood(indptr)
    full = d + d * (d + 1) // 2 if degree == 2 else d
    R = np.empty((longest, full))
    y = np.empty(longest)
    dual = np.empty(longest)
    work = (
        np.empty(longest),
        np.empty(longest, dtype=np.int64),
        np.empty((longest, longest)),
        np.empty((longest, longest)),
        np.empty(longest),
    )
    theta = np.empty(full + 1)
    counts = np.zeros(n_classes, dtype=np.int64)
    for t in range(n_queries):
        start, stop = indptr[t], indptr[t + 1]
        k = stop - start
        if k == 0:
            continue
        n_present = count_classes(codes, indices[start:stop], counts)
        alone = one_class_score(1.0, 1.0, 0.0, SQUARED_HINGE)
        for c in range(n_classes):
            scores[t, c] = -alone
            if want_slopes:
                slopes[t, c] = 0.0
        if n_present == 1:
            scores[t, codes[indices[start]]] = alone
            continue
        w = weights[start:stop]
        gather_rows(X, Q[t], indices[start:stop], R, d)
        if degree == 2:
            append_products(R, w, k, d)
        p = 0 if degree == 0 else full
        lam, size = alpha, kappa
        if relative:
            s, trace = scatter_trace(R, w, k, full)
            square = 0.0
            for i in range(k):
                for a in range(full):
                    square += w[i] * R[i, a] * R[i, a]
            lam = alpha * (trace if trace > 0.0 else s) / full
            size = kappa * (np.sqrt(square / s) if square > 0.0 else 1.0)
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
            done = dual_descent(R, y, w, k, p, C, lam, size, tol, max_iter, theta, dual, work)
            converged[t] = converged[t] and done
            scores[t, c] = theta[p]
            if want_slopes and p > 0:
                for a in range(d):
                    slopes[t, c, a] = theta[a]
