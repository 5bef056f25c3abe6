"""Local classifiers of a block of queries, and the exact gradient of their scores.

Around q, with a_i = (x_i - q, 1), the local model minimises

    lam(q) / 2 |b|^2 + rho(q) / 2 b_0^2 + C sum_i w_i(q) loss(y_i, a_i'theta),     F(q) = b_0.

Writing the model about a fixed origin and differentiating its optimality condition for b and the
intercept jointly gives, with H z = (0, .., 0, 1) for the Hessian H of the objective,

    grad F = b - rho (z_0 b + F z_b) + sum_i c_i grad w_i,
    c_i = -C loss'_i (a_i'z) - (b'z_b) dlam/dw_i - F z_0 drho/dw_i,

which is Brown and Benton's equation (6) with every dependence on q: c_i is the derivative of the
score with respect to the weight of row i. Their equations (7) and (8) treat b and the intercept
separately and omit the cross block of H.

Logistic and squared-hinge models have labels y_i = +1 or -1 and loss(z) = log(1 + exp(-z)) or
max(0, 1 - z)^2 / 2 at the margins z = y_i a_i'theta; Newton's method fits them. With more columns
than rows the rows are first written in an orthonormal basis of their own span (a pivoted Cholesky
factor of their Gram matrix), which changes neither objective nor scores.
"""

import numpy as np

from vicinal._kernels._jit import fast_jit, inline_jit, inner_jit, outer_jit
from vicinal._kernels.local._workspace import (
    LOGISTIC,
    SQUARED,
    SQUARED_HINGE,
    Fit,
    FitObjective,
    Fits,
    Motion,
    Queries,
    cholesky_solve,
    count_classes,
    gather,
    gram_lower,
    moments,
    shifted_cholesky,
    total_weight,
    workspace,
)

# Where the Hessian is singular, its diagonal is raised by this share of its largest entry.
_SHIFT = 1e-13
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


# --- scores and their gradients ---


@inner_jit
def pull_through_weights(motion, t, start, rows, c, out):
    """Add ``sum_i c_i grad w_i`` to ``out``."""
    P, query, extra = motion.P, motion.queries[t], motion.extra[t]
    shared = 0.0
    for i in range(rows.shape[0]):
        shared += c[i] * motion.common[start + i]
        pull = c[i] * motion.radial[start + i]
        if pull != 0.0:
            row = P[rows[i]]
            for a in range(out.shape[0]):
                out[a] += pull * (row[a] - query[a])
    if shared != 0.0:
        for a in range(out.shape[0]):
            out[a] += shared * extra[a]


@inner_jit
def one_class_slope(score, total, rho, objective):
    """Differentiate the score of a one-class neighbourhood by the total weight."""
    C, per_weight = objective.C, objective.rho_per_weight
    if objective.loss == SQUARED_HINGE:
        fixed = rho - per_weight * total
        return C * fixed / ((C * total + rho) * (C * total + rho))
    if objective.loss == LOGISTIC and rho > 0.0:
        miss = 1.0 / (1.0 + np.exp(score))
        return (C * miss - per_weight * score) / (C * total * miss * (1.0 - miss) + rho)
    return 0.0


@inner_jit
def _squared_fit(fit, work):
    """Fit ridge to one target column; write theta, z and residuals; return the score at the query.

    With at least as many rows as columns the design is centred at their mean: H z = (-m, 1).
    """
    A, B, H, L, m, z, theta = work.A, work.B, work.H, work.L, work.m, work.z, work.theta
    y, w, k, p = work.y, fit.weights, fit.k, fit.p
    is_centred = work.R.shape[1] <= k
    for i in range(k):
        root = np.sqrt(w[i])
        for a in range(p):
            B[a, i] = A[a, i] * root
        B[p, i] = root
    gram_lower(B, p + 1, k, H)
    for a in range(p):
        H[a, a] += fit.lam
    shifted_cholesky(H, p + 1, _SHIFT, L)
    for a in range(p):
        theta[a] = 0.0
        z[a] = -m[a] if is_centred else 0.0
    theta[p] = 0.0
    z[p] = 1.0
    for i in range(k):
        value = w[i] * y[i]
        for a in range(p):
            theta[a] += value * A[a, i]
        theta[p] += value
    cholesky_solve(L, p + 1, theta)
    cholesky_solve(L, p + 1, z)
    margins(A, theta, p, k, work.f)
    for i in range(k):
        work.c[i] = y[i] - work.f[i]
    score = theta[p]
    if is_centred:
        for a in range(p):
            score -= theta[a] * m[a]
    return score


@inner_jit
def _newton_response(fit, objective, work):
    """Fit one class against the rest; write z and -C loss'; return whether it converged."""
    L, z, p = work.L, work.z, fit.p
    done = newton_fit(fit, objective.loss, objective, work)
    margins(work.A, work.theta, p, fit.k, work.f)
    newton_system(fit, objective.loss, objective.C, work)
    shifted_cholesky(work.H, p + 1, _SHIFT, L)
    for a in range(p):
        z[a] = 0.0
    z[p] = 1.0
    cholesky_solve(L, p + 1, z)
    for i in range(fit.k):
        work.c[i] = work.B[p + 1, i] / fit.weights[i]
    return done


@inner_jit
def _through_penalties(fit, objective, work):
    """Finish c_i: through the row's own loss, then through lam and rho."""
    R, m, c, z, theta, reach = work.R, work.m, work.c, work.z, work.theta, work.new
    k, p, d = fit.k, fit.p, work.R.shape[1]
    margins(work.A, z, p, k, reach)
    along = 0.0
    if objective.relative:
        for a in range(p):
            along += theta[a] * z[a]
        along *= objective.alpha / d
    shift = 0.0
    if objective.loss != SQUARED:
        shift = theta[p] * z[p] * objective.rho_per_weight
    for i in range(k):
        c[i] = c[i] * reach[i] - shift
        if along != 0.0:
            deviation = 0.0
            for a in range(d):
                deviation += (R[i, a] - m[a]) * (R[i, a] - m[a])
            c[i] -= along * deviation


@inner_jit
def fit_with_gradient(fit, objective, work, slope):
    """Fit one class; write the gradient with the weights held fixed, and all c_i to ``work.c``.

    Returns the score and whether the fit converged.
    """
    theta, z, p = work.theta, work.z, fit.p
    done, rho = True, 0.0
    if objective.loss == SQUARED:
        score = _squared_fit(fit, work)
    else:
        done, rho = _newton_response(fit, objective, work), fit.rho
        score = theta[p]
    _through_penalties(fit, objective, work)
    if p > 0:
        for a in range(p):
            work.step[a] = theta[a] - rho * (z[p] * theta[a] + theta[p] * z[a])
        write_slopes(work.step, fit, work, slope)
    return score, done


def local_classifiers(
    queries: Queries,
    codes: np.ndarray,
    objective: FitObjective,
    out: Fits,
    motion: Motion | None = None,
) -> None:
    """Fit the local classifiers of every query and write scores, slopes and convergence.

    ``out.slopes`` holds the slopes of the local models. With ``motion`` (degree 0 or 1, one class
    against the rest) it holds the gradients of the scores with the weights held fixed instead, and
    ``motion.pulls`` what the change of the weights adds.
    """
    _fit_all(queries, codes, objective, workspace(queries, out.scores.shape[1]), motion, out)


# Branches for a motion that is None are removed when this is compiled.
@outer_jit
def _fit_all(queries, codes, objective, work, motion, out):
    indptr, indices, weights = queries.indptr, queries.indices, queries.weights
    for t in range(indptr.shape[0] - 1):
        start, stop = indptr[t], indptr[t + 1]
        if start == stop:
            continue
        rows, w = indices[start:stop], weights[start:stop]
        n_present = count_classes(codes, rows, work.counts)
        total = total_weight(w)
        rho = objective.rho + objective.rho_per_weight * total
        only, absent = _lone_scores(objective, total, rho)
        for c in range(out.scores.shape[1]):
            out.scores[t, c] = only if work.counts[c] > 0 else absent
        if motion is not None:
            rise = one_class_slope(only, total, rho, objective)
            _pull_lone(motion, t, start, rows, rise, n_present, work)
        if n_present == 1:
            continue
        p, unit, lam = _lay_out(queries, t, rows, w, objective, work)
        fit = Fit(w, stop - start, p, unit, lam, rho)
        first = -1
        for c in range(out.scores.shape[1]):
            if work.counts[c] == 0:
                continue
            if first >= 0 and n_present == 2 and objective.loss != SQUARED:
                out.scores[t, c] = -out.scores[t, first]
                _negate(out.slopes[t, first], out.slopes[t, c])
                if motion is not None:
                    _negate(motion.pulls[t, first], motion.pulls[t, c])
                continue
            first = c
            _label(codes, rows, c, objective.loss, work.y)
            if motion is None:
                done = newton_fit(fit, objective.loss, objective, work)
                out.scores[t, c] = work.theta[fit.p]
                write_slopes(work.theta, fit, work, out.slopes[t, c])
            else:
                score, done = fit_with_gradient(fit, objective, work, out.slopes[t, c])
                out.scores[t, c] = score
                pull_through_weights(motion, t, start, rows, work.c, motion.pulls[t, c])
            out.converged[t] = out.converged[t] and done


@inline_jit
def _lone_scores(objective, total, rho):
    """Return the scores of the only class of a neighbourhood, and of a class without rows."""
    if objective.loss == SQUARED:
        return 1.0, 0.0
    score = one_class_score(total, objective.C, rho, objective.loss)
    return score, -score


@inline_jit
def _pull_lone(motion, t, start, rows, rise, n_present, work):
    """Write the pulls of the scores that need no fit."""
    if rise == 0.0:
        return
    for c in range(work.counts.shape[0]):
        if work.counts[c] == 0 or n_present == 1:
            for i in range(rows.shape[0]):
                work.c[i] = rise if work.counts[c] > 0 else -rise
            pull_through_weights(motion, t, start, rows, work.c, motion.pulls[t, c])


@inline_jit
def _lay_out(queries, t, rows, w, objective, work):
    """Gather the rows, write the design; return its width, its unit and the slopes' penalty."""
    k, columns = rows.shape[0], work.R.shape[1]
    unit = gather(queries, t, rows, w, work.R)
    lam = objective.alpha / unit / unit
    if objective.relative or objective.loss == SQUARED:
        trace = moments(work.R, w, columns, work.m)
        if objective.relative:
            lam = objective.alpha * trace / columns
    p = 0
    if queries.degree > 0 and lam < np.inf and not (objective.relative and lam == 0.0):
        p = design_columns(columns, k, work)
    if objective.loss == SQUARED and columns <= k:
        # Centred at the mean, slopes and intercept are independent, also for queries far away.
        for a in range(p):
            for i in range(k):
                work.A[a, i] -= work.m[a]
    return p, unit, lam


@inline_jit
def _label(codes, rows, c, loss, y):
    """Write +1 for rows of the class; the rest gets 0 for a squared loss, else -1."""
    other = 0.0 if loss == SQUARED else -1.0
    for i in range(rows.shape[0]):
        y[i] = 1.0 if codes[rows[i]] == c else other


@inline_jit
def _negate(source, target):
    for a in range(source.shape[0]):
        target[a] = -source[a]
