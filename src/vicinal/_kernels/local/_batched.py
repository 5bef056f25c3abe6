"""Local fits as batches of small dense systems, for any array-API library and device.

The same objectives as in ``_polynomials`` and ``_classifiers``, one batch axis in front.
Neighbourhoods are rectangular, ``indices`` and ``weights`` of shape (n_queries, k); entries of
weight zero do not count. It is also used for small NumPy tables: compiled code is three times as
fast, but compiling it takes seconds, and loading it takes longer than the fits of a few hundred
rows.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np

from vicinal._base import free_memory, lower_factor, namespace, row_blocks, solve_regular, take_rows
from vicinal._kernels.local._workspace import Queries, n_design_columns

_FLAT = 1e-14
# Columns whose part outside the span of earlier ones is below this share use singular values.
_DEPENDENT = 1e-9
# Largest number of rows, and of multiply-adds of a call, for batches in NumPy.
_MAX_ROWS, _MAX_WORK = 320, 1e7
# Size of a batch, so that it fits the processor's cache.
_BATCH = 1 << 16
# With smaller penalties systems may be singular, and larger offsets overflow: use compiled code.
_LEAST_PENALTY, _LARGEST = 1e-3, 1e70
_ARMIJO = 1e-4
_MAX_HALVINGS = 40
# Largest change of a margin in the last step, in float32 and in float64.
_COARSE = 0.03
_FINE = 1e-3
_COARSE_STEPS = 20


def transpose(A: Any) -> Any:
    """Swap the last two axes."""
    return namespace(A).matrix_transpose(A)


def _eye(n: int, like: Any) -> Any:
    return namespace(like).eye(n, dtype=like.dtype, device=compat.device(like))


def _offsets(X, Q, indices):
    """Return the neighbours of every query, less the query, (n_queries, k, d)."""
    return take_rows(X, indices) - Q[:, None, :]


def _centred(offsets, weights, degree: int = 1):
    """Return (offsets from the mean times root weights, mean offset, total, trace of V)."""
    xp = namespace(offsets)
    total = xp.sum(weights, axis=1)
    if degree == 2:
        offsets = _with_products(offsets, weights, total)
    mean = (transpose(offsets) @ weights[:, :, None])[:, :, 0] / total[:, None]
    Z = (offsets - mean[:, None, :]) * xp.sqrt(weights)[:, :, None]
    trace = xp.sum(Z * Z, axis=(1, 2))
    size = trace + total * xp.sum(mean * mean, axis=1)
    return Z, mean, total, xp.where(trace > _FLAT * size, trace, xp.zeros_like(trace))


def _with_products(offsets, weights, total):
    """Append products of columns, divided by the spread so that they keep the columns' unit."""
    xp = namespace(offsets)
    d = offsets.shape[2]
    size = xp.sum(xp.sum(offsets * offsets, axis=2) * weights, axis=1)
    spread = xp.sqrt(size / (total * d))
    scaled = offsets / xp.where(spread > 0.0, spread, xp.ones_like(spread))[:, None, None]
    left, right = (xp.asarray(i, device=compat.device(offsets)) for i in np.tril_indices(d))
    products = xp.take(offsets, left, axis=2) * xp.take(scaled, right, axis=2)
    return xp.concat([offsets, products], axis=2)


def _penalty(trace, alpha: float, relative: bool, p: int):
    """Return lam of each query; 1 without spread, where all slopes are 0."""
    xp = namespace(trace)
    lam = alpha * trace / p if relative else xp.full_like(trace, alpha)
    return xp.where(trace > 0.0, lam, xp.ones_like(trace))


def batched_ridge(
    X: Any, Q: Any, indices: Any, weights: Any, alphas, *, relative: bool, degree: int = 1
) -> list[Any]:
    """Return the equivalent kernels l(q), shape (n_queries, k), for each penalty alpha > 0."""
    xp = namespace(X)
    Z, mean, total, trace = _centred(_offsets(X, Q, indices), weights, degree)
    k, d = Z.shape[1:]
    level = weights / total[:, None]
    gram, right = _ridge_system(Z, mean)
    root = xp.sqrt(weights)
    out = []
    for solution in _ridge_path(gram, right, trace, alphas, relative, d):
        along = Z @ solution if d <= k else solution
        out.append(level - root * along[:, :, 0])
    return out


def batched_ridge_values(
    X: Any, Y: Any, Q: Any, indices: Any, weights: Any, alphas: list[float], *, relative: bool
) -> list[Any]:
    """Return ridge predictions at the queries, (n_queries, n_outputs), for each penalty.

    With (V + lam I) u = m and S = sum w (x - q - m)(y - ybar)' they are ybar - S'u: one pass over
    the neighbours serves all penalties and outputs.
    """
    k, d = indices.shape[1], X.shape[1]
    Z, mean, total, trace = _centred(_offsets(X, Q, indices), weights)
    level, T = _centred_targets(Y, indices, weights, total)
    gram, right = _ridge_system(Z, mean)
    cross = transpose(Z) @ T if d <= k else T  # (n_queries, min(d, k), n_outputs)
    return [
        level - (transpose(solution) @ cross)[:, 0, :]
        for solution in _ridge_path(gram, right, trace, alphas, relative, d)
    ]


def _centred_targets(Y, indices, weights, total):
    """Return weighted means of the targets, and deviations from them times root weights."""
    xp = namespace(Y)
    targets = take_rows(Y, indices)
    level = (transpose(targets) @ weights[:, :, None])[:, :, 0] / total[:, None]
    return level, (targets - level[:, None, :]) * xp.sqrt(weights)[:, :, None]


def _ridge_system(Z, mean):
    """Return the smaller Gram matrix of the two, and its right-hand side."""
    gram = smaller_gram(Z)
    return gram, mean[:, :, None] if Z.shape[2] <= Z.shape[1] else Z @ mean[:, :, None]


def smaller_gram(Z: Any) -> Any:
    """Return Z'Z or ZZ', whichever is smaller."""
    return transpose(Z) @ Z if Z.shape[2] <= Z.shape[1] else Z @ transpose(Z)


def _ridge_path(gram, right, trace, alphas, relative, d):
    """Yield the solutions of (gram + lam I) u = right for each penalty; zero without spread."""
    xp = namespace(gram)
    identity = _eye(gram.shape[1], gram)
    flat = (trace <= 0.0)[:, None, None]
    any_flat = bool(xp.any(flat))
    for alpha in alphas:
        lam = _penalty(trace, alpha, relative, d)[:, None, None]
        solution = solve_regular(gram + lam * identity, right)
        yield xp.where(flat, xp.zeros_like(solution), solution) if any_flat else solution


def batched_slopes(
    X: Any, Y: Any, Q: Any, indices: Any, weights: Any, alpha, *, relative: bool, degree: int = 1
) -> Any:
    """Return the slopes of local ridge models, shape (n_queries, n_outputs, n_features)."""
    xp = namespace(X)
    Z, _, total, trace = _centred(_offsets(X, Q, indices), weights, degree)
    k, d = Z.shape[1:]
    _, T = _centred_targets(Y, indices, weights, total)
    right = transpose(Z) @ T if d <= k else T
    (solution,) = _ridge_path(smaller_gram(Z), right, trace, [alpha], relative, d)
    slopes = transpose(solution if d <= k else transpose(Z) @ solution)[:, :, : X.shape[1]]
    return xp.where((trace > 0.0)[:, None, None], slopes, xp.zeros_like(slopes))


def gradient_rows(slopes: Any, weights: Any = None) -> Any:
    """Return R of shape (n_queries * n_outputs, d) whose product R'R is the mean of B_q' B_q."""
    xp = namespace(slopes)
    rows = xp.astype(slopes, xp.float64)
    weights = xp.ones_like(rows[:, 0, 0]) if weights is None else xp.astype(weights, xp.float64)
    rows = rows * xp.sqrt(weights / xp.sum(weights))[:, None, None]
    return xp.reshape(rows, (-1, slopes.shape[2]))


def gradient_outer_product(slopes: Any, weights: Any = None) -> Any:
    """Return the mean of B_q' B_q in double precision, of slopes (n_queries, n_outputs, d)."""
    rows = gradient_rows(slopes, weights)
    return rows.T @ rows


def metric_step(G: Any, *, floor: float, diagonal: bool = False) -> Any:
    """Return the map U diag(w_j^(1/4) + floor w_1^(1/4)) U' of one round for G = U diag(w_j) U'.

    It is scaled to squared Frobenius norm d. ``floor`` keeps every direction, because a direction
    that is lost cannot come back.
    """
    xp = namespace(G)
    d = G.shape[0]
    identity = _eye(d, G)
    values, vectors = xp.linalg.eigh(G * identity if diagonal else G)
    # The fourth root enlarges rounding errors.
    roots = xp.where(values > 1e-12 * values[-1], values, xp.zeros_like(values)) ** 0.25
    largest = roots[-1]
    step = (vectors * (roots + floor * largest)) @ vectors.T
    size = xp.sqrt(xp.sum(step * step))
    step = step * (d**0.5 / xp.where(size > 0.0, size, xp.ones_like(size)))
    return xp.where(largest > 0.0, step, identity)


def batched_least_squares(X: Any, Q: Any, indices: Any, weights: Any) -> Any:
    """Return the equivalent kernels of unpenalised local linear fits, through pseudo-inverses."""
    xp = namespace(X)
    Z, mean, total, _ = _centred(_offsets(X, Q, indices), weights)
    inverse = xp.linalg.pinv(Z, rtol=1e-12)  # (n_queries, d, k)
    along = transpose(inverse) @ mean[:, :, None]
    return weights / total[:, None] - xp.sqrt(weights) * along[:, :, 0]


# --- NumPy: least squares, and ridge on small tables ---


def least_squares_fits(queries: Queries, Y: np.ndarray | None, out: np.ndarray) -> np.ndarray:
    """Fit polynomials without penalty by QR; return which queries have full rank.

    Writes l(q) of every query into ``out`` of shape (nnz,); with targets ``Y`` the gradients at the
    queries, shape (n_queries, n_outputs, n_features). With Z = Q R for the rows centred at their
    weighted mean m, times root weights, slopes are R^-1 Q'T and l = w / sum(w) - W^(1/2) Q R^-T m.
    """
    solved = np.zeros(len(queries.indptr) - 1, dtype=bool)
    d, p = queries.X.shape[1], n_design_columns(queries.X.shape[1], queries.degree)
    solved[np.diff(queries.indptr) > p] = True
    for some, entries, inside, indices, weights in _rectangles(queries, solved):
        offsets = queries.X[indices] - queries.Q[some][:, None]
        unit = np.abs(offsets).max(axis=(1, 2))
        unit[unit == 0.0] = 1.0
        offsets = offsets / unit[:, None, None]
        Z, mean, total, _ = _centred(offsets, weights, queries.degree)
        size = np.sqrt((Z * Z).sum(axis=1) + total[:, None] * mean**2)
        basis, R = np.linalg.qr(Z)
        pivots = np.abs(np.diagonal(R, axis1=1, axis2=2))
        good = (pivots > _DEPENDENT * size).all(axis=1)
        solved[some] = good
        R[~good] = np.eye(p)
        if Y is None:
            along = (basis @ np.linalg.solve(transpose(R), mean[:, :, None]))[:, :, 0]
            kernels = weights / total[:, None] - np.sqrt(weights) * along
            out[entries[inside]] = kernels[inside]
        else:
            _, T = _centred_targets(Y, indices, weights, total)
            slopes = transpose(np.linalg.solve(R, transpose(basis) @ T))[:, :, :d]
            out[some] = slopes / unit[:, None, None]
    return solved


def is_small(queries: Queries, alphas, *, relative: bool) -> bool:
    """Return whether the fits are too few for compiled code to pay."""
    sizes = queries.indptr[1:] - queries.indptr[:-1]
    k, p = sizes.max(initial=0), n_design_columns(queries.X.shape[1], queries.degree)
    work = len(sizes) * k * p * (min(p, k) + 4.0)
    is_everyday = relative and np.min(alphas) >= _LEAST_PENALTY and np.max(alphas) < np.inf
    if len(queries.X) > _MAX_ROWS or work > _MAX_WORK or not is_everyday:
        return False
    largest = max(np.abs(queries.X).max(initial=0), np.abs(queries.Q).max(initial=0))
    return bool(1.0 / _LARGEST < largest < _LARGEST)


def small_equivalent_kernels(queries: Queries, alphas: np.ndarray, skip: np.ndarray, out) -> None:
    """Write l(q) of every query and penalty into ``out`` of shape (n_alphas, nnz).

    ``skip`` marks queries that need the local constant fit only.
    """
    for some, entries, inside, indices, weights in _rectangles(queries):
        kernels = np.repeat((weights / weights.sum(axis=1, keepdims=True))[None], len(alphas), 0)
        fitted = np.flatnonzero(~skip[some])
        if fitted.size:
            shared = queries.X, queries.Q[some[fitted]], indices[fitted], weights[fitted], alphas
            kernels[:, fitted] = batched_ridge(*shared, relative=True, degree=queries.degree)
        out[:, entries[inside]] = kernels[:, inside]


def small_slopes(queries: Queries, Y: np.ndarray, alpha: float, out: np.ndarray) -> None:
    """Write the gradients of the local models at their queries; ``out`` comes as zeros."""
    for some, _, _, indices, weights in _rectangles(queries):
        shared = queries.X, Y, queries.Q[some], indices, weights, alpha
        out[some] = batched_slopes(*shared, relative=True, degree=queries.degree)


def _rectangles(queries: Queries, wanted: np.ndarray | None = None) -> Iterator[tuple]:
    """Yield (queries, indices of their entries, which are rows, row numbers, weights).

    Neighbourhoods of about equal length come together, padded with rows of weight zero.
    """
    sizes = np.diff(queries.indptr)
    if wanted is not None:
        sizes = np.where(wanted, sizes, 0)
    order = np.argsort(sizes, kind="stable")[np.count_nonzero(sizes == 0) :]
    width = n_design_columns(queries.X.shape[1], queries.degree)
    first = 0
    while first < len(order):
        count = max(1, _BATCH // (int(sizes[order[first]]) * width))
        some = order[first : first + count]
        entries = queries.indptr[some, None] + np.arange(sizes[some].max())
        inside = entries < queries.indptr[some + 1, None]
        entries = np.minimum(entries, queries.indptr[some + 1, None] - 1)
        weights = np.where(inside, queries.weights[entries], 0.0)
        yield some, entries, inside, queries.indices[entries], weights
        first += count


# --- Newton ---


def batched_vote(smoother: Any, labels: Any, n_classes: int) -> Any:
    """Return sum_i l_i 1{y_i = c}, shape (n_queries, n_classes); labels are codes per entry."""
    xp = namespace(smoother)
    zero = xp.zeros_like(smoother)
    columns = [xp.sum(xp.where(labels == c, smoother, zero), axis=1) for c in range(n_classes)]
    return xp.stack(columns, axis=1)


def one_class_scores(total: Any, rho: Any, *, C: float, loss: str) -> Any:
    """Return the intercepts that minimise the objective when every label is +1.

    ``total`` is the weight of each neighbourhood, ``rho`` the penalty of its intercept.
    """
    xp = namespace(total)
    mass = C * total
    if loss == "squared_hinge":
        return mass / (mass + rho)
    mass, penalty = xp.astype(mass, xp.float64), xp.astype(rho, xp.float64)
    free = penalty <= 0.0
    penalty = xp.where(free, xp.ones_like(penalty), penalty)
    # The root of mass / (1 + exp(b)) = rho b, from a start below it, where Newton is monotone.
    b = xp.log1p(mass / penalty)
    b = b - xp.log1p(b)
    for _ in range(12):
        p = 1.0 / (1.0 + xp.exp(b))
        b = b + (mass * p - penalty * b) / (mass * p * (1.0 - p) + penalty)
    infinite = xp.full_like(b, float("inf"))
    return xp.astype(xp.where(free, infinite, b), total.dtype)


class NewtonProblem(NamedTuple):
    """Minimise lam/2 |b|^2 + rho/2 b_0^2 + sum w loss(y a'theta) for every query of a batch.

    Attributes
    ----------
    offsets : array of shape (n_queries, k, d)
        Rows centred at the query.
    y : array of shape (n_queries, k)
        Labels -1 and 1.
    weights : array of shape (n_queries, k)
        Smoothing weights, times the factor on the loss.
    lam, rho : array of shape (n_queries,)
        Penalties of slopes and intercept.
    """

    offsets: Any
    y: Any
    weights: Any
    lam: Any
    rho: Any

    def take(self, rows: Any) -> "NewtonProblem":
        """Return some of the neighbourhoods."""
        xp = namespace(rows)
        return NewtonProblem(*(xp.take(a, rows, axis=0) for a in self))

    def astype(self, dtype: Any) -> "NewtonProblem":
        """Return the same numbers in another precision."""
        xp = namespace(self.offsets)
        return NewtonProblem(*(xp.astype(a, dtype) for a in self))


def batched_newton(
    problem: NewtonProblem, loss: str, *, tol: float, max_iter: int
) -> tuple[Any, Any]:
    """Minimise the objective of every query by Newton steps.

    Float32 problems are solved in float32 until the steps are small, then with one or two steps in
    float64: weights differ by many orders of magnitude, and float32 alone would stop far from the
    minimum.

    Parameters
    ----------
    problem : NewtonProblem
        The neighbourhoods.
    loss : {"squared_hinge", "log_loss"}
        Loss of the margin.
    tol : float
        The last step changes no margin by more than the root of ``tol``; since the steps converge
        quadratically, that leaves an error of about ``tol``. The squared hinge is exact: a full
        step that leaves the active rows as they are ends at the minimum.
    max_iter : int
        Newton steps.

    Returns
    -------
    theta : array of shape (n_queries, d + 1)
        Slopes, then intercept.
    converged : boolean array of shape (n_queries,)
        Whether the tolerance was met.
    """
    offsets = problem.offsets
    xp, (n, k, d) = namespace(offsets), offsets.shape
    if d > k:
        basis, rows = _row_span(offsets)
        theta, converged = batched_newton(
            problem._replace(offsets=rows), loss, tol=tol, max_iter=max_iter
        )
        slopes = (transpose(basis) @ theta[:, :-1, None])[:, :, 0]
        return xp.concat([slopes, theta[:, -1:]], axis=1), converged
    theta = xp.zeros((n, d + 1), dtype=offsets.dtype, device=compat.device(offsets))
    if offsets.dtype == xp.float64:
        return _newton(problem, theta, loss, tol**0.5, max_iter)
    theta, _ = _newton(problem, theta, loss, _COARSE, min(max_iter, _COARSE_STEPS))
    fine = problem.astype(xp.float64), xp.astype(theta, xp.float64)
    theta, converged = _newton(*fine, loss, max(tol**0.5, _FINE), max_iter)
    return xp.astype(theta, offsets.dtype), converged


def _row_span(offsets):
    """Return an orthonormal basis of the rows, (n, k, d), and the rows in it, (n, k, k).

    The best slopes lie in the span of the rows, where the problem has k coefficients instead of d.
    """
    xp = namespace(offsets)
    wide = xp.astype(offsets, xp.float64)
    gram = wide @ transpose(wide)
    k = gram.shape[1]
    size = xp.sum(xp.linalg.diagonal(gram), axis=1) / k
    # Equal rows leave the matrix singular; this changes margins by their rounding only.
    jitter = 1e-13 * k * size + xp.astype(size <= 0.0, xp.float64)
    gram = gram + jitter[:, None, None] * _eye(k, gram)
    lower = lower_factor(gram)
    basis = solve_regular(lower, wide)
    return xp.astype(basis, offsets.dtype), xp.astype(lower, offsets.dtype)


def _newton(problem, theta, loss, tol, max_iter):
    """Take Newton steps for all; converged neighbourhoods are removed once they are half of all."""
    xp = namespace(theta)
    rows = xp.arange(theta.shape[0], device=compat.device(theta))
    margins = _margins(problem, theta)
    value = _objective(problem, theta, margins, loss)
    done = xp.zeros(theta.shape[0], dtype=xp.bool, device=compat.device(theta))
    left: list[tuple[Any, Any, Any]] = []
    for _ in range(max_iter):
        step, slope = _newton_step(problem, theta, margins, loss)
        # Converged neighbourhoods are not changed before they are removed.
        failed = ~(xp.isfinite(slope) & (slope >= 0.0))
        step = xp.where((done | failed)[:, None], xp.zeros_like(step), step)
        slope = xp.where(failed, xp.zeros_like(slope), slope)
        change = _margins(problem, step)
        length, value = _step_length(problem, theta, value, margins, step, change, slope, loss)
        moved = margins + length[:, None] * change
        converged_now = _has_converged(problem, margins, moved, length, loss, tol)
        theta, margins = theta + length[:, None] * step, moved
        done = done | (converged_now & ~failed)
        n_pending = int(xp.sum(xp.astype(~done, xp.int64)))
        if n_pending == 0:
            break
        if 2 * n_pending <= done.shape[0]:
            out, stay = xp.nonzero(done)[0], xp.nonzero(~done)[0]
            left.append(tuple(xp.take(a, out, axis=0) for a in (rows, theta, done)))
            problem = problem.take(stay)
            rows, theta, margins, value, done = (
                xp.take(a, stay, axis=0) for a in (rows, theta, margins, value, done)
            )
    left.append((rows, theta, done))
    if len(left) == 1:
        return theta, done
    rows, theta, done = (xp.concat(column, axis=0) for column in zip(*left, strict=True))
    order = xp.argsort(rows)
    return xp.take(theta, order, axis=0), xp.take(done, order)


def _margins(problem, theta):
    """Return y a'theta for every row."""
    scores = (problem.offsets @ theta[:, :-1, None])[:, :, 0] + theta[:, -1:]
    return problem.y * scores


def _loss_terms(z: Any, loss: str) -> tuple[Any, Any]:
    """Return negative slope and curvature at margins z."""
    xp = namespace(z)
    if loss == "squared_hinge":
        zero = xp.zeros_like(z)
        return xp.maximum(1.0 - z, zero), xp.astype(z < 1.0, z.dtype)
    e = xp.exp(-xp.abs(z))
    miss = xp.where(z > 0.0, e, xp.ones_like(z)) / (1.0 + e)
    return miss, miss * (1.0 - miss)


def _objective(problem, theta, margins, loss):
    xp = namespace(margins)
    zero = xp.zeros_like(margins)
    if loss == "squared_hinge":
        r = xp.maximum(1.0 - margins, zero)
        losses = 0.5 * r * r
    else:
        losses = xp.log1p(xp.exp(-xp.abs(margins))) + xp.maximum(-margins, zero)
    slopes, level = theta[:, :-1], theta[:, -1]
    penalty = problem.lam * xp.sum(slopes * slopes, axis=1) + problem.rho * level * level
    return xp.sum(problem.weights * losses, axis=1) + 0.5 * penalty


def _newton_step(problem, theta, margins, loss):
    """Return the step that solves H step = - gradient, and the decrease that it predicts."""
    xp = namespace(theta)
    X, y, weights, lam, rho = problem
    pull, curvature = _loss_terms(margins, loss)
    curvature = weights * curvature
    pull = weights * pull * y
    across = transpose(X) @ xp.stack([curvature, pull], axis=2)  # (n_queries, d, 2)
    H = weighted_gram(X, curvature) + lam[:, None, None] * _eye(X.shape[2], X)
    corner = (xp.sum(curvature, axis=1) + rho)[:, None, None]
    side = across[:, :, :1]
    H = xp.concat([xp.concat([H, side], axis=2),
                   xp.concat([transpose(side), corner], axis=2)], axis=1)  # fmt: skip
    gradient = xp.concat(
        [across[:, :, 1] - lam[:, None] * theta[:, :-1],
         (xp.sum(pull, axis=1) - rho * theta[:, -1])[:, None]], axis=1,
    )  # fmt: skip
    step = solve_positive(H, gradient[:, :, None])[:, :, 0]
    return step, xp.sum(step * gradient, axis=1)


def weighted_gram(X: Any, weights: Any) -> Any:
    """Return X' diag(w) X of every neighbourhood, shape (n, d, d)."""
    return transpose(X) @ (X * weights[:, :, None])


def solve_positive(H: Any, right: Any) -> Any:
    """Solve batches of positive definite systems of any scale, shape (n, p, p) and (n, p, m)."""
    xp = namespace(H)
    scale = xp.sqrt(xp.linalg.diagonal(H))
    # Without active rows of a class only a tiny penalty, or none, determines the intercept.
    scale = 1.0 / xp.where(scale > 0.0, scale, xp.full_like(scale, float("inf")))
    ridge = 10.0 * float(xp.finfo(H.dtype).eps) * H.shape[1]
    H = H * scale[:, :, None] * scale[:, None, :] + ridge * _eye(H.shape[1], H)
    right = right * scale[:, :, None]
    return solve_regular(H, right) * scale[:, :, None]


def _step_length(problem, theta, value, margins, step, change, slope, loss):
    """Return step lengths at which the objective falls enough, and its values there.

    Steps are halved until then; a decrease below rounding is accepted.
    """
    xp = namespace(theta)
    length = xp.ones_like(value)
    slack = 100.0 * float(xp.finfo(theta.dtype).eps) * xp.abs(value)
    for _ in range(_MAX_HALVINGS):
        trial = theta + length[:, None] * step
        found = _objective(problem, trial, margins + length[:, None] * change, loss)
        accepted = found <= value - _ARMIJO * length * slope + slack
        if bool(xp.all(accepted)):
            break
        length = xp.where(accepted, length, 0.5 * length)
    return length, found


def _has_converged(problem, margins, moved, length, loss, tol):
    """Return which neighbourhoods have converged with this step."""
    xp = namespace(margins)
    counts = problem.weights > 0.0
    still = xp.abs(moved - margins) <= tol
    if loss == "squared_hinge":
        still = (margins < 1.0) == (moved < 1.0)
    return xp.all(still | ~counts, axis=1) & (length == 1.0)


def batched_classifiers(
    rows: Any, codes: Any, n_classes: int, Q: Any, indices: Any, weights: Any,
    objective: Any, alpha: float, *, relative: bool, want_slopes: bool = False,
) -> tuple[Any, Any, int]:  # fmt: skip
    """Fit one class against the rest of every neighbourhood.

    A class that is alone, or absent, needs no fit; of two classes the second is the negative of
    the first. ``objective`` has ``loss``, ``C``, ``rho``, ``rho_per_weight``, ``tol`` and
    ``max_iter``. Returns scores (n_queries, n_classes), slopes (n_queries, n_classes, d) or
    ``None``, and the number of fits that did not converge.
    """
    xp = namespace(Q)
    labels = take_rows(codes, indices)
    total = xp.sum(weights, axis=1)
    rho = objective.rho + objective.rho_per_weight * total
    alone = one_class_scores(total, rho, C=objective.C, loss=objective.loss)[:, None]
    active = xp.astype(weights > 0.0, weights.dtype)
    present = batched_vote(active, labels, n_classes) > 0.0
    n_present = xp.sum(xp.astype(present, xp.int64), axis=1)[:, None]
    first = present & (xp.cumulative_sum(xp.astype(present, xp.int64), axis=1) == 1)
    is_fitted = present & ((n_present > 2) | (first & (n_present == 2)))
    shared = rows, labels, Q, indices, weights, rho, objective
    theta, n_failed = _fit_pairs(*shared, alpha, relative, xp.nonzero(is_fitted))
    scores = xp.where(present, alone, -alone)
    scores[is_fitted] = theta[:, -1]
    mirrored = (n_present == 2) & present & ~first
    scores = xp.where(mirrored, -_only(first, scores), scores)
    if not want_slopes:
        return scores, None, n_failed
    shape = (Q.shape[0], n_classes, Q.shape[1])
    slopes = xp.zeros(shape, dtype=Q.dtype, device=compat.device(Q))
    slopes[is_fitted] = theta[:, :-1]
    negative = -_only(first[:, :, None], slopes)
    return scores, xp.where(mirrored[:, :, None], negative, slopes), n_failed


def _fit_pairs(X, labels, Q, indices, weights, rho, objective, alpha, relative, pairs):
    """Fit pairs of query and class; return coefficients, the intercept last, and failures."""
    xp = namespace(Q)
    queries, classes = pairs
    k, d = indices.shape[1], Q.shape[1]
    # Memory: offsets and their weighted copy in both precisions, terms per row, and the systems.
    p = min(k, d) + 1
    cost = 24 * k * d + 24 * k * p + 150 * k + 40 * p * p
    parts, n_failed = [xp.zeros((0, d + 1), dtype=Q.dtype, device=compat.device(Q))], 0
    for block in row_blocks(queries.shape[0], cost, working_memory=free_memory(Q)):
        some = queries[block]
        w = xp.take(weights, some, axis=0)
        offsets = _offsets(X, xp.take(Q, some, axis=0), xp.take(indices, some, axis=0))
        lam = xp.full_like(w[:, 0], alpha)
        if relative:
            lam = _penalty(_centred(offsets, w)[3], alpha, relative, d)
        is_class = xp.take(labels, some, axis=0) == classes[block][:, None]
        y = xp.where(is_class, xp.ones_like(w), -xp.ones_like(w))
        problem = NewtonProblem(offsets, y, objective.C * w, lam, xp.take(rho, some))
        theta, converged = batched_newton(
            problem, objective.loss, tol=objective.tol, max_iter=objective.max_iter
        )
        n_failed += int(xp.sum(xp.astype(~converged, xp.int64)))
        parts.append(theta)
    return xp.concat(parts, axis=0), n_failed


def _only(marked, values):
    """Return the one marked entry along the axis of classes, kept as an axis of length one."""
    xp = namespace(values)
    return xp.sum(xp.where(marked, values, xp.zeros_like(values)), axis=1, keepdims=True)
