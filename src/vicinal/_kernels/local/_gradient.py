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
"""

import numpy as np

from vicinal._kernels._jit import inner_jit
from vicinal._kernels.local._newton import (
    margins,
    newton_fit,
    newton_system,
    write_slopes,
)
from vicinal._kernels.local._small_dense import cholesky_solve, gram_lower, shifted_cholesky
from vicinal._kernels.local._workspace import LOGISTIC, SQUARED, SQUARED_HINGE

# Where the Hessian is singular, its diagonal is raised by this share of its largest entry.
_SHIFT = 1e-13


@inner_jit
def pull_through_weights(motion, t, start, rows, c, out):
    """Add ``sum_i c_i grad w_i`` to ``out``."""
    P, place, extra = motion.P, motion.places[t], motion.extra[t]
    shared = 0.0
    for i in range(rows.shape[0]):
        shared += c[i] * motion.common[start + i]
        pull = c[i] * motion.radial[start + i]
        if pull != 0.0:
            row = P[rows[i]]
            for a in range(out.shape[0]):
                out[a] += pull * (row[a] - place[a])
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

    Where rows are as many as columns, the design stands about their mean: H z = (-m, 1).
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
