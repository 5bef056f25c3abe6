r"""Score of a local classifier and its exact gradient with respect to the query.

Around q, with a_i = (x_i - q, 1), the local model minimises

    lam(q) / 2 |b|^2 + rho(q) / 2 b_0^2 + C sum_i w_i(q) loss(y_i, a_i'theta),     F(q) = b_0.

Writing the model about a fixed origin and differentiating its optimality condition for b and the
intercept jointly gives, with H z = (0, .., 0, 1) for the Hessian H of the objective,

    grad F = b - rho (z_0 b + F z_b) + sum_i c_i grad w_i,
    c_i = -C loss'_i (a_i'z) - (b'z_b) dlam/dw_i - F z_0 drho/dw_i,

which is the joint form of Brown and Benton's equation (6) with every dependence on q in it: c_i is
the derivative of the score with respect to the weight of row i. Their equations (7) and (8) treat b
and the intercept apart and lose the cross block of H.

The hinge loss has no Hessian. Between changes of the active set the rows on the margin stay there,
and z = P (0, .., 0, 1) with P the inverse of the penalty restricted to the directions that keep
them; the rows inside the margin carry loss' = -y.

Weights move with the query as ``grad w_i = radial_i (x_i - q) + common_i extra(q)``; the caller
knows the kernel and supplies these. Distances may be measured in other columns than the model's.
"""

import numpy as np

from vicinal._kernels._jit import fast_jit
from vicinal._kernels.local._hinge import dual_descent
from vicinal._kernels.local._newton import (
    LOGISTIC,
    SQUARED_HINGE,
    design_columns,
    margins,
    newton_fit,
    newton_system,
    one_class_score,
    slopes_from,
)
from vicinal._kernels.local._ridge import count_classes, gather_rows, longest_neighborhood
from vicinal._kernels.local._small_dense import cholesky_lower, cholesky_solve, gram_lower

SQUARED = 2


@fast_jit
def _moments(R, weights, k, d, m):
    """Write the weighted mean of the offsets; return (sum of weights, trace of their scatter)."""
    s = 0.0
    size = 0.0
    for a in range(d):
        m[a] = 0.0
    for i in range(k):
        s += weights[i]
        for a in range(d):
            m[a] += weights[i] * R[i, a]
            size += weights[i] * R[i, a] * R[i, a]
    square = 0.0
    for a in range(d):
        m[a] /= s
        square += m[a] * m[a]
    trace = size - s * square
    return s, trace if trace > 1e-12 * size else 0.0


@fast_jit
def _deviation(R, i, d, m):
    """Squared distance of one offset from the weighted mean: the derivative of the trace."""
    total = 0.0
    for a in range(d):
        total += (R[i, a] - m[a]) * (R[i, a] - m[a])
    return total


@fast_jit
def _factor(H, p, L):
    """Cholesky factor of H, with as small a shift as makes it positive."""
    shift = 0.0
    largest = 0.0
    for a in range(p):
        largest = max(largest, H[a, a])
    for _ in range(60):
        if cholesky_lower(H, p, shift, L):
            return
        shift = max(10.0 * shift, 1e-13 * largest + 1e-300)


@fast_jit
def _through_weights(P, place, rows, radial, common, extra, k, c, out):
    """Add ``sum_i c_i grad w_i`` to ``out``."""
    width = P.shape[1]
    shared = 0.0
    for i in range(k):
        shared += c[i] * common[i]
        pull = c[i] * radial[i]
        if pull != 0.0:
            row = P[rows[i]]
            for a in range(width):
                out[a] += pull * (row[a] - place[a])
    if shared != 0.0:
        for a in range(width):
            out[a] += shared * extra[a]


@fast_jit
def _alone_slope(alone, s, C, rho, rho_per_weight, loss):
    """Differentiate the score of a one-class neighbourhood by the total weight."""
    if loss == SQUARED_HINGE:
        fixed = rho - rho_per_weight * s
        return C * fixed / ((C * s + rho) * (C * s + rho))
    if loss == LOGISTIC and rho > 0.0:
        miss = 1.0 / (1.0 + np.exp(alone))
        return (C * miss - rho_per_weight * alone) / (C * s * miss * (1.0 - miss) + rho)
    return 0.0


@fast_jit
def _squared_fit(A, w, targets, origin, p, k, lam, B, H, L, z, theta):
    """Fit ridge to one target column; write theta and z with H z = (origin, 1)."""
    for i in range(k):
        root = np.sqrt(w[i])
        for a in range(p):
            B[a, i] = A[a, i] * root
        B[p, i] = root
    gram_lower(B, p + 1, k, H)
    for a in range(p):
        H[a, a] += lam
    _factor(H, p + 1, L)
    for a in range(p):
        theta[a] = 0.0
        z[a] = origin[a]
    theta[p] = 0.0
    z[p] = 1.0
    for i in range(k):
        value = w[i] * targets[i]
        for a in range(p):
            theta[a] += value * A[a, i]
        theta[p] += value
    cholesky_solve(L, p + 1, theta)
    cholesky_solve(L, p + 1, z)


@fast_jit
def local_gradients(
    X,
    Q,
    P,
    places,
    indptr,
    indices,
    weights,
    radial,
    common,
    extra,
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
    scores,
    slopes,
    pulls,
    converged,
):
    """Write scores (n_queries, n_classes), their slopes and their pulls.

    ``X``, ``Q`` are rows and queries in the columns of the model, ``P``, ``places`` in those that
    give distances. ``slopes`` (n_queries, n_classes, d) is the gradient with the weights held
    fixed, ``pulls`` what their change adds; ``loss`` is one of SQUARED (ridge on indicators),
    SQUARED_HINGE and LOGISTIC (one class against the rest). Degree is 0 or 1.
    """
    n_queries = indptr.shape[0] - 1
    n_classes = scores.shape[1]
    d = X.shape[1]
    longest = longest_neighborhood(indptr)
    width = min(d, longest)
    R = np.empty((longest, d))
    K = np.empty((width, width))
    basis = np.empty((width, width))
    pivots = np.empty(longest, dtype=np.int64)
    A = np.empty((width, longest))
    B = np.empty((width + 2, longest))
    H = np.empty((width + 1, width + 1))
    L = np.empty((width + 1, width + 1))
    g = np.empty(width + 1)
    f = np.empty(longest)
    reach = np.empty(longest)
    trial = np.empty(width + 1)
    theta = np.empty(width + 1)
    z = np.empty(width + 1)
    origin = np.empty(width)
    m = np.empty(d)
    y = np.empty(longest)
    c = np.empty(longest)
    work = (B, H, L, g, f, reach, trial)
    counts = np.zeros(n_classes, dtype=np.int64)
    for t in range(n_queries):
        start, stop = indptr[t], indptr[t + 1]
        k = stop - start
        if k == 0:
            continue
        rows, w = indices[start:stop], weights[start:stop]
        move = (radial[start:stop], common[start:stop])
        n_present = count_classes(codes, rows, counts)
        s = 0.0
        for i in range(k):
            s += w[i]
        level = rho + rho_per_weight * s
        absent, alone, rise = 0.0, 1.0, 0.0
        if loss != SQUARED:
            alone = one_class_score(s, C, level, loss)
            absent = -alone
            rise = _alone_slope(alone, s, C, level, rho_per_weight, loss)
        for i in range(k):
            c[i] = rise
        for j in range(n_classes):
            if counts[j] == 0 or n_present == 1:
                only = counts[j] > 0
                scores[t, j] = alone if only else absent
                if rise != 0.0:
                    _through_weights(P, places[t], rows, *move, extra[t], k, c, pulls[t, j])
                    if not only:
                        pulls[t, j] *= -1.0
        if n_present == 1:
            continue
        gather_rows(X, Q[t], rows, R, d)
        s, trace = _moments(R, w, k, d, m)
        lam = alpha * trace / d if relative else alpha
        p = 0
        if degree > 0 and not (relative and lam == 0.0):
            p = design_columns(R, k, d, K, basis, pivots, A)
        for a in range(p):
            origin[a] = 0.0
            if loss == SQUARED and d <= k:
                # About the mean, slopes and level separate, however far away the query is.
                origin[a] = -m[a]
                for i in range(k):
                    A[a, i] -= m[a]
        first = -1
        for j in range(n_classes):
            if counts[j] == 0:
                continue
            if loss != SQUARED and n_present == 2 and first >= 0:
                scores[t, j] = -scores[t, first]
                for a in range(d):
                    slopes[t, j, a] = -slopes[t, first, a]
                for a in range(P.shape[1]):
                    pulls[t, j, a] = -pulls[t, first, a]
                continue
            first = j
            if loss == SQUARED:
                for i in range(k):
                    y[i] = 1.0 if codes[rows[i]] == j else 0.0
                _squared_fit(A, w, y, origin, p, k, lam, B, H, L, z, theta)
                margins(A, theta, p, k, f)
                for i in range(k):
                    c[i] = y[i] - f[i]
            else:
                for i in range(k):
                    y[i] = 1.0 if codes[rows[i]] == j else -1.0
                for a in range(p + 1):
                    theta[a] = 0.0
                done = newton_fit(A, y, w, p, k, C, lam, level, loss, tol, max_iter, theta, work)
                converged[t] = converged[t] and done
                margins(A, theta, p, k, f)
                newton_system(A, f, y, w, theta, p, k, C, lam, level, loss, B, H, g)
                _factor(H, p + 1, L)
                for a in range(p):
                    z[a] = 0.0
                z[p] = 1.0
                cholesky_solve(L, p + 1, z)
                for i in range(k):
                    c[i] = B[p + 1, i] / w[i]
            margins(A, z, p, k, reach)
            along = 0.0
            scores[t, j] = theta[p]
            for a in range(p):
                along += theta[a] * z[a]
                scores[t, j] += theta[a] * origin[a]
            along = along * alpha / d if relative else 0.0
            shift = 0.0 if loss == SQUARED else theta[p] * z[p] * rho_per_weight
            for i in range(k):
                c[i] = c[i] * reach[i] - shift
                if along != 0.0:
                    c[i] -= along * _deviation(R, i, d, m)
            _through_weights(P, places[t], rows, *move, extra[t], k, c, pulls[t, j])
            if p > 0:
                penalty = 0.0 if loss == SQUARED else level
                for a in range(p):
                    trial[a] = theta[a] - penalty * (z[p] * theta[a] + theta[p] * z[a])
                slopes_from(trial, p, R, d, k, basis, pivots, slopes[t, j])


@fast_jit
def _margin_response(R, y, dual, w, k, d, C, lam, constant, free, G, L, v, z):
    """Write z = P (0, .., 0, 1): how the score answers a force, rows on the margin held there."""
    n_free = 0
    for i in range(k):
        if 0.0 < dual[i] < C * w[i]:
            free[n_free] = i
            n_free += 1
    for a in range(d):
        z[a] = 0.0
    z[d] = constant / lam
    if n_free == 0:
        return
    largest = 0.0
    for r in range(n_free):
        v[r] = constant / lam
        for t in range(r + 1):
            dot = constant
            for a in range(d):
                dot += R[free[r], a] * R[free[t], a]
            G[r, t] = dot / lam
        largest = max(largest, G[r, r])
    # More rows on the margin than coefficients make the system singular but consistent.
    shift = 0.0
    for _ in range(60):
        if cholesky_lower(G, n_free, shift, L):
            break
        shift = max(10.0 * shift, 1e-13 * largest)
    cholesky_solve(L, n_free, v)
    for r in range(n_free):
        for a in range(d):
            z[a] -= v[r] * R[free[r], a] / lam
        z[d] -= v[r] * constant / lam


@fast_jit
def local_hinge_gradients(
    X,
    Q,
    P,
    places,
    indptr,
    indices,
    weights,
    radial,
    common,
    extra,
    codes,
    degree,
    alpha,
    relative,
    C,
    kappa,
    tol,
    max_iter,
    scores,
    slopes,
    pulls,
    converged,
):
    """Write the same for the hinge loss; see ``local_gradients`` and ``local_hinge``."""
    n_queries = indptr.shape[0] - 1
    n_classes = scores.shape[1]
    d = X.shape[1]
    longest = longest_neighborhood(indptr)
    R = np.empty((longest, d))
    y = np.empty(longest)
    dual = np.empty(longest)
    c = np.empty(longest)
    m = np.empty(d)
    theta = np.empty(d + 1)
    z = np.empty(d + 1)
    norms = np.empty(longest)
    free = np.empty(longest, dtype=np.int64)
    G = np.empty((longest, longest))
    L = np.empty((longest, longest))
    step = np.empty(longest)
    work = (norms, free, G, L, step)
    counts = np.zeros(n_classes, dtype=np.int64)
    for t in range(n_queries):
        start, stop = indptr[t], indptr[t + 1]
        k = stop - start
        if k == 0:
            continue
        rows, w = indices[start:stop], weights[start:stop]
        n_present = count_classes(codes, rows, counts)
        for j in range(n_classes):
            scores[t, j] = 1.0 if n_present == 1 and counts[j] > 0 else -1.0
        if n_present == 1:
            continue
        gather_rows(X, Q[t], rows, R, d)
        s, trace = _moments(R, w, k, d, m)
        p = 0 if degree == 0 else d
        lam, size, square = alpha, kappa, 0.0
        if relative:
            for i in range(k):
                for a in range(d):
                    square += w[i] * R[i, a] * R[i, a]
            lam = alpha * (trace if trace > 0.0 else s) / d
            size = kappa * (np.sqrt(square / s) if square > 0.0 else 1.0)
        rho = lam / (size * size)
        first = -1
        for j in range(n_classes):
            if counts[j] == 0:
                continue
            if n_present == 2 and first >= 0:
                scores[t, j] = -scores[t, first]
                for a in range(d):
                    slopes[t, j, a] = -slopes[t, first, a]
                for a in range(P.shape[1]):
                    pulls[t, j, a] = -pulls[t, first, a]
                continue
            first = j
            for i in range(k):
                y[i] = 1.0 if codes[rows[i]] == j else -1.0
            done = dual_descent(R, y, w, k, p, C, lam, size, tol, max_iter, theta, dual, work)
            converged[t] = converged[t] and done
            F = theta[p]
            scores[t, j] = F
            _margin_response(R, y, dual, w, k, p, C, lam, size * size, free, G, L, step, z)
            along = 0.0
            for a in range(p):
                along += theta[a] * z[a]
            for i in range(k):
                c[i] = 0.0
                if dual[i] >= C * w[i]:
                    value = z[p]
                    for a in range(p):
                        value += R[i, a] * z[a]
                    c[i] = C * y[i] * value
                if relative and square > 0.0:
                    near = 0.0
                    for a in range(d):
                        near += R[i, a] * R[i, a]
                    # lam = alpha trace / d, rho = lam s / (kappa^2 square).
                    dlam = alpha * _deviation(R, i, d, m) / d if trace > 0.0 else alpha / d
                    drho = rho * (dlam / lam + 1.0 / s - near / square)
                    c[i] -= along * dlam + F * z[p] * drho
            move = (radial[start:stop], common[start:stop])
            _through_weights(P, places[t], rows, *move, extra[t], k, c, pulls[t, j])
            for a in range(d):
                if p > 0:
                    slopes[t, j, a] = theta[a] - rho * (z[p] * theta[a] + F * z[a])
                if relative and square > 0.0:
                    # The spread about q itself moves with q: d square / d q = -2 s m.
                    slopes[t, j, a] -= F * z[p] * rho * 2.0 * s * m[a] / square
