"""Compiled local fits over a block of neighbourhoods, in threads."""

import warnings
from collections.abc import Callable

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from vicinal._base import n_threads, thread_map
from vicinal._kernels.local._least_squares import (
    polynomial_equivalent_kernels,
    polynomial_slopes,
    pseudo_inverse_fit,
)
from vicinal._kernels.local._ridge import (
    is_pure,
    ridge_equivalent_kernels,
    ridge_slopes,
    smooth_classes,
    smooth_targets,
)
from vicinal._kernels.local._workspace import Queries, n_design_columns
from vicinal.local._neighborhood import Neighborhoods

# Enough queries per task to forget the cost of a call, few enough to share the work evenly.
_QUERIES_PER_TASK = 256


def over_queries(function: Callable[[slice], None], n_queries: int, n_jobs: int | None) -> None:
    """Call ``function`` on slices of the queries, in threads."""
    threads = n_threads(n_jobs)
    size = max(1, min(_QUERIES_PER_TASK, -(-n_queries // threads)))
    slices = [slice(i, min(i + size, n_queries)) for i in range(0, n_queries, size)]
    thread_map(function, slices, n_jobs)


def _queries(X, Q, found: Neighborhoods, some: slice, degree: int) -> Queries:
    """Bundle some queries; entries keep their places in the flat arrays."""
    indptr = found.indptr[some.start : some.stop + 1]
    return Queries(X, Q[some], indptr, found.indices, found.weights, degree)


def equivalent_kernels(
    X: np.ndarray,
    Q: np.ndarray,
    found: Neighborhoods,
    alphas,
    *,
    relative: bool,
    degree: int,
    skip: np.ndarray | None = None,
    n_jobs: int | None = None,
) -> np.ndarray:
    """Return l(q) for each penalty, shape (n_alphas, nnz), in the order of ``found.indices``."""
    alphas = np.asarray(alphas, dtype=np.float64)
    out = np.empty((len(alphas), len(found.indices)))
    solved = np.ones((found.n_queries), dtype=bool)
    if skip is None:
        skip = np.zeros(found.n_queries, dtype=bool)
    penalised = alphas > 0.0
    if penalised.any() or degree == 0:
        values = out if penalised.all() else np.empty((int(penalised.sum()), out.shape[1]))
        used = alphas if degree == 0 else alphas[penalised]
        if degree == 0:
            values = out

        def ridge(some):
            queries = _queries(X, Q, found, some, degree)
            ridge_equivalent_kernels(queries, used, relative, skip[some], values, solved[some])

        over_queries(ridge, found.n_queries, n_jobs)
        if values is not out:
            out[penalised] = values
        _repair(X, Q, found, np.flatnonzero(~solved), used, relative, degree, out, penalised)
    if degree > 0 and not penalised.all():
        out[~penalised] = _unpenalised(X, Q, found, degree, n_jobs)
    return out


def _unpenalised(X, Q, found, degree, n_jobs) -> np.ndarray:
    values = np.empty(len(found.indices))
    solved = np.ones(found.n_queries, dtype=bool)

    def polynomial(some):
        queries = _queries(X, Q, found, some, degree)
        polynomial_equivalent_kernels(queries, values, solved[some])

    over_queries(polynomial, found.n_queries, n_jobs)
    failed = np.flatnonzero(~solved)
    warn_underdetermined(X, found, failed, degree)
    for t in failed:
        entries = slice(found.indptr[t], found.indptr[t + 1])
        offsets = X[found.indices[entries]] - Q[t]
        values[entries] = pseudo_inverse_fit(offsets, found.weights[entries], degree)[0]
    return values


def warn_underdetermined(X, found, failed, degree) -> None:
    """Warn once when neighbourhoods hold fewer rows than the model has coefficients."""
    needed = n_design_columns(X.shape[1], degree) + 1
    short = int((found.sizes()[failed] < needed).sum())
    if short:
        warnings.warn(
            f"{short} neighbourhoods hold fewer rows than the {needed} coefficients of the local "
            "model; their minimum-norm fit is used. Raise n_neighbors or bandwidth, or set "
            "alpha > 0.",
            ConvergenceWarning,
            stacklevel=2,
        )


def _repair(X, Q, found, failed, alphas, relative, degree, out, penalised) -> None:
    """Solve the few systems that are singular to working precision by singular values."""
    places = np.arange(len(out)) if degree == 0 else np.flatnonzero(penalised)
    for t in failed:
        entries = slice(found.indptr[t], found.indptr[t + 1])
        offsets, weights = X[found.indices[entries]] - Q[t], found.weights[entries]
        for place, alpha in zip(places, alphas, strict=True):
            penalty = _absolute(offsets, weights, alpha, relative, degree)
            out[place, entries] = pseudo_inverse_fit(offsets, weights, degree, penalty)[0]


def _absolute(offsets, weights, alpha, relative, degree) -> float:
    """Return lam = alpha tr(V) / p for the relative penalty."""
    if not relative:
        return alpha
    from vicinal._kernels.local._least_squares import design_matrix

    D = design_matrix(offsets, weights, degree)[:, 1:]
    D = D - (weights @ D) / weights.sum()
    return alpha * float(weights @ (D * D).sum(axis=1)) / D.shape[1]


def local_slopes(
    X, Y, Q, found, alpha: float, *, relative: bool, degree: int, n_jobs: int | None = None
) -> np.ndarray:
    """Return the gradients of the local models, shape (n_queries, n_outputs, n_features)."""
    out = np.zeros((found.n_queries, Y.shape[1], X.shape[1]))
    if degree == 0:
        return out
    solved = np.ones(found.n_queries, dtype=bool)

    def slopes(some):
        queries = _queries(X, Q, found, some, degree)
        if alpha > 0.0:
            ridge_slopes(queries, Y, float(alpha), relative, out[some], solved[some])
        else:
            polynomial_slopes(queries, Y, out[some], solved[some])

    over_queries(slopes, found.n_queries, n_jobs)
    for t in np.flatnonzero(~solved):
        entries = slice(found.indptr[t], found.indptr[t + 1])
        rows = found.indices[entries]
        offsets, weights = X[rows] - Q[t], found.weights[entries]
        penalty = _absolute(offsets, weights, alpha, relative, degree) if alpha > 0 else 0.0
        out[t] = (pseudo_inverse_fit(offsets, weights, degree, penalty)[1:] @ Y[rows]).T
    return out


def smooth(found: Neighborhoods, smoother: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Return sum_i l_i(q) Y_i, shape (n_queries, n_outputs)."""
    out = np.empty((found.n_queries, Y.shape[1]))
    smooth_targets(found.indptr, found.indices, smoother, Y, out)
    return out


def smooth_labels(found, smoother, codes: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the fit to indicator columns, shape (n_queries, n_classes)."""
    out = np.empty((found.n_queries, n_classes))
    smooth_classes(found.indptr, found.indices, smoother, codes, out)
    return out


def pure_queries(found: Neighborhoods, codes: np.ndarray) -> np.ndarray:
    """Tell which queries see one class only."""
    pure = np.empty(found.n_queries, dtype=bool)
    is_pure(found.indptr, found.indices, codes, pure)
    return pure
