"""The driver of local classifiers: gather a neighbourhood, count its classes, fit, write.

Several classes are told apart one against the rest; two classes need one fit; the multinomial model
fits all together. A neighbourhood of one class, or a class without a neighbour, has a closed-form
answer and is not fitted.
"""

import numpy as np

from vicinal._kernels._jit import inline_jit, inner_jit, outer_jit
from vicinal._kernels.local._gradient import (
    fit_with_gradient,
    one_class_slope,
    pull_through_weights,
)
from vicinal._kernels.local._multinomial import joint_workspace, multinomial_fit
from vicinal._kernels.local._newton import (
    design_columns,
    newton_fit,
    one_class_score,
    write_slopes,
)
from vicinal._kernels.local._workspace import (
    MULTINOMIAL,
    SQUARED,
    Fit,
    FitObjective,
    Fits,
    Motion,
    Queries,
    count_classes,
    gather,
    moments,
    total_weight,
    workspace,
)


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
    n_classes = out.scores.shape[1]
    work = workspace(queries, n_classes)
    joint = None
    if objective.loss == MULTINOMIAL:
        p, k = work.A.shape
        joint = joint_workspace(k, p, min(n_classes, k))
    _fit_all(queries, codes, objective, work, joint, motion, out)


# Arguments that are None take their branches with them when this is compiled.
@outer_jit
def _fit_all(queries, codes, objective, work, joint, motion, out):
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
        # The intercepts of the multinomial model are free.
        fit = Fit(w, stop - start, p, unit, lam, 0.0 if joint is not None else rho)
        if joint is not None:
            done = multinomial_fit(rows, codes, fit, objective, work, joint)
            _write_joint(t, fit, work, joint, out)
            out.converged[t] = out.converged[t] and done
            continue
        first = -1
        for c in range(out.scores.shape[1]):
            if work.counts[c] == 0:
                continue
            if first >= 0 and n_present == 2 and objective.loss != SQUARED:
                _mirror(t, first, c, out)
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
    if objective.loss == MULTINOMIAL:
        return 0.0, -np.inf
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
        # About the mean, slopes and level separate, however far away the query is.
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


@inline_jit
def _mirror(t, first, c, out):
    """Give the second of two classes the opposite of the first."""
    out.scores[t, c] = -out.scores[t, first]
    _negate(out.slopes[t, first], out.slopes[t, c])


@inner_jit
def _write_joint(t, fit, work, joint, out):
    """Write the scores and slopes of the classes that have rows; the others keep -inf and 0."""
    for c in range(out.scores.shape[1]):
        place = work.counts[c]
        if place >= 0:
            out.scores[t, c] = joint.theta[place, fit.p]
            if fit.p > 0:
                write_slopes(joint.theta[place], fit, work, out.slopes[t, c])
