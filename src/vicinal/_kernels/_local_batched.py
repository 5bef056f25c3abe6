"""Local fits as batches of small dense systems, for any array-API library and device.

The twin of ``_local_ridge`` and ``_local_newton``: the same objectives, one batch axis in front.
Neighbourhoods are rectangular, ``indices`` and ``weights`` of shape (n_queries, k); entries of
weight zero do not count.
"""

from collections.abc import Callable
from typing import Any

import array_api_compat as compat

from vicinal._base import namespace

_FLAT = 1e-14
_ARMIJO = 1e-4
_MAX_HALVINGS = 40


def batched_kernel(u: Any, kernel: str | Callable) -> Any:
    """Return K(u); see ``vicinal._kernels._smoothing``."""
    xp = namespace(u)
    if callable(kernel):
        return kernel(u)
    zero = xp.zeros_like(u)
    if kernel == "uniform":
        return xp.astype(u <= 1.0, u.dtype)
    if kernel == "gaussian":
        return xp.exp(-0.5 * u * u)
    if kernel == "triangular":
        return xp.maximum(1.0 - u, zero)
    if kernel == "cosine":
        inside = xp.minimum(u, xp.ones_like(u))
        return xp.where(u < 1.0, xp.cos(1.5707963267948966 * inside), zero)
    if kernel == "tricube":
        t = xp.maximum(1.0 - u * u * u, zero)
        return t * t * t
    t = xp.maximum(1.0 - u * u, zero)
    return 0.75 * t if kernel == "epanechnikov" else t * t


def take_rows(X: Any, indices: Any) -> Any:
    """Return ``X[indices]`` for a matrix of row numbers: shape (*indices.shape, ...)."""
    xp = namespace(X)
    flat = xp.take(X, xp.reshape(indices, (-1,)), axis=0)
    return xp.reshape(flat, (*indices.shape, *X.shape[1:]))


def _transpose(A: Any) -> Any:
    return namespace(A).matrix_transpose(A)


def _eye(n: int, like: Any) -> Any:
    return namespace(like).eye(n, dtype=like.dtype, device=compat.device(like))


def _centred(X, Q, indices, weights):
    """Return (offsets from the mean times root weights, mean offset, total, trace of V)."""
    xp = namespace(X)
    offsets = take_rows(X, indices) - Q[:, None, :]
    total = xp.sum(weights, axis=1)
    mean = xp.sum(weights[:, :, None] * offsets, axis=1) / total[:, None]
    Z = (offsets - mean[:, None, :]) * xp.sqrt(weights)[:, :, None]
    trace = xp.sum(xp.sum(Z * Z, axis=2), axis=1)
    size = xp.sum(xp.sum(offsets * offsets, axis=2) * weights, axis=1)
    return Z, mean, total, xp.where(trace > _FLAT * size, trace, xp.zeros_like(trace))


def _penalty(trace, alpha: float, relative: bool, p: int):
    """Return lam of each query; one where there is nothing to fit, which leaves slopes at 0."""
    xp = namespace(trace)
    lam = alpha * trace / p if relative else xp.full_like(trace, alpha)
    return xp.where(trace > 0.0, lam, xp.ones_like(trace))


def batched_ridge(
    X: Any, Q: Any, indices: Any, weights: Any, alphas: list[float], *, relative: bool
) -> list[Any]:
    """Return the equivalent kernels l(q), shape (n_queries, k), for each penalty alpha > 0."""
    xp = namespace(X)
    k, d = indices.shape[1], X.shape[1]
    Z, mean, total, trace = _centred(X, Q, indices, weights)
    level = weights / total[:, None]
    flat = (trace <= 0.0)[:, None, None]
    Z = xp.where(flat, xp.zeros_like(Z), Z)
    root = xp.sqrt(weights)
    if d <= k:
        gram, right = _transpose(Z) @ Z, mean[:, :, None]
    else:
        gram, right = Z @ _transpose(Z), Z @ mean[:, :, None]
    identity = _eye(gram.shape[1], X)
    out = []
    for alpha in alphas:
        lam = _penalty(trace, alpha, relative, d)[:, None, None]
        solution = xp.linalg.solve(gram + lam * identity, right)
        along = Z @ solution if d <= k else solution
        out.append(level - root * along[:, :, 0])
    return out


def batched_slopes(
    X: Any, Y: Any, Q: Any, indices: Any, weights: Any, alpha: float, *, relative: bool
) -> Any:
    """Return the slopes of local ridge models, shape (n_queries, n_outputs, n_features)."""
    xp = namespace(X)
    k, d = indices.shape[1], X.shape[1]
    Z, _, total, trace = _centred(X, Q, indices, weights)
    targets = take_rows(Y, indices)
    mean = xp.sum(weights[:, :, None] * targets, axis=1) / total[:, None]
    T = (targets - mean[:, None, :]) * xp.sqrt(weights)[:, :, None]
    lam = _penalty(trace, alpha, relative, d)[:, None, None]
    if d <= k:
        solution = xp.linalg.solve(
            _transpose(Z) @ Z + lam * _eye(d, X), _transpose(Z) @ T
        )  # (n_queries, d, n_outputs)
    else:
        solution = _transpose(Z) @ xp.linalg.solve(Z @ _transpose(Z) + lam * _eye(k, X), T)
    slopes = _transpose(solution)
    return xp.where((trace > 0.0)[:, None, None], slopes, xp.zeros_like(slopes))


def batched_least_squares(X: Any, Q: Any, indices: Any, weights: Any) -> Any:
    """Return the equivalent kernels of unpenalised local linear fits, through pseudo-inverses."""
    xp = namespace(X)
    Z, mean, total, _ = _centred(X, Q, indices, weights)
    inverse = xp.linalg.pinv(Z, rtol=1e-12)  # (n_queries, d, k)
    along = _transpose(inverse) @ mean[:, :, None]
    return weights / total[:, None] - xp.sqrt(weights) * along[:, :, 0]


def batched_vote(smoother: Any, labels: Any, n_classes: int) -> Any:
    """Return sum_i l_i 1{y_i = c}, shape (n_queries, n_classes); labels are codes per entry."""
    xp = namespace(smoother)
    zero = xp.zeros_like(smoother)
    columns = [xp.sum(xp.where(labels == c, smoother, zero), axis=1) for c in range(n_classes)]
    return xp.stack(columns, axis=1)


# --- Newton ---


def _loss_terms(z: Any, loss: str) -> tuple[Any, Any, Any]:
    """Return loss, negative slope and curvature at margins z."""
    xp = namespace(z)
    zero, one = xp.zeros_like(z), xp.ones_like(z)
    if loss == "squared_hinge":
        r = xp.maximum(1.0 - z, zero)
        return 0.5 * r * r, r, xp.where(z < 1.0, one, zero)
    e = xp.exp(-xp.abs(z))
    value = xp.log1p(e) + xp.maximum(-z, zero)
    miss = xp.where(z > 0.0, e / (1.0 + e), 1.0 / (1.0 + e))
    return value, miss, miss * (1.0 - miss)


def _objective(A, y, weights, theta, penalties, C, loss):
    xp = namespace(A)
    z = y * (A @ theta[:, :, None])[:, :, 0]
    value = C * xp.sum(weights * _loss_terms(z, loss)[0], axis=1)
    return value + 0.5 * xp.sum(penalties * theta * theta, axis=1)


def batched_newton(
    offsets: Any,
    y: Any,
    weights: Any,
    lam: Any,
    rho: Any,
    *,
    C: float,
    loss: str,
    tol: float,
    max_iter: int,
) -> tuple[Any, Any]:
    """Minimise lam/2 |b|^2 + rho/2 b_0^2 + C sum w loss(y a'theta) for every query.

    Parameters
    ----------
    offsets : array of shape (n_queries, k, d)
        Rows centred at the query.
    y : array of shape (n_queries, k)
        Labels -1 and 1.
    weights : array of shape (n_queries, k)
        Smoothing weights.
    lam, rho : array of shape (n_queries,)
        Penalties of slopes and intercept.
    C : float
        Factor on the loss.
    loss : {"squared_hinge", "logistic"}
        Loss of the margin.
    tol : float
        Largest gradient component, relative to C times the total weight.
    max_iter : int
        Newton steps.

    Returns
    -------
    theta : array of shape (n_queries, d + 1)
        Slopes, then intercept.
    converged : boolean array of shape (n_queries,)
        Whether the tolerance was met.
    """
    xp = namespace(offsets)
    n_queries, k, d = offsets.shape
    ones = xp.ones((n_queries, k, 1), dtype=offsets.dtype, device=compat.device(offsets))
    A = xp.concat([offsets, ones], axis=2)
    penalties = xp.concat(
        [lam[:, None] + xp.zeros((n_queries, d), dtype=lam.dtype, device=compat.device(lam)),
         rho[:, None]], axis=1,
    )  # fmt: skip
    theta = xp.zeros_like(penalties)
    converged = xp.zeros((n_queries,), dtype=xp.bool, device=compat.device(offsets))
    bound = tol * C * xp.sum(weights, axis=1)
    pending = xp.arange(n_queries, device=compat.device(offsets))
    for _ in range(max_iter):
        part = [xp.take(a, pending, axis=0) for a in (A, y, weights, penalties, theta)]
        step, gradient = _newton_step(part, C, loss)
        done = xp.max(xp.abs(gradient), axis=1) <= xp.take(bound, pending)
        moved = _line_search(part, step, gradient, C, loss)
        theta = put_rows(theta, pending, xp.where(done[:, None], part[4], moved))
        converged = put_rows(converged, pending, done)
        left = xp.nonzero(~done)[0]
        if left.shape[0] == 0:
            break
        pending = xp.take(pending, left)
    return theta, converged


def _newton_step(part, C, loss):
    """Return the Newton step and the negative gradient."""
    A, y, weights, penalties, theta = part
    xp = namespace(A)
    z = y * (A @ theta[:, :, None])[:, :, 0]
    _, pull, curvature = _loss_terms(z, loss)
    gradient = (_transpose(A) @ (C * weights * pull * y)[:, :, None])[:, :, 0] - penalties * theta
    B = A * xp.sqrt(C * weights * curvature)[:, :, None]
    H = _transpose(B) @ B + penalties[:, :, None] * _eye(A.shape[2], A)
    # A class that no active row constrains leaves the intercept to its tiny penalty.
    ridge = 1e-14 * (1.0 + xp.max(xp.abs(H), axis=(1, 2)))
    H = H + ridge[:, None, None] * _eye(A.shape[2], A)
    return xp.linalg.solve(H, gradient[:, :, None])[:, :, 0], gradient


def _line_search(part, step, gradient, C, loss):
    """Halve steps until the objective falls enough; rounding may hide a fall that small."""
    A, y, weights, penalties, theta = part
    xp = namespace(A)
    value = _objective(A, y, weights, theta, penalties, C, loss)
    slope = xp.sum(step * gradient, axis=1)
    length = xp.ones_like(value)
    eps = 100.0 * float(xp.finfo(A.dtype).eps)
    for _ in range(_MAX_HALVINGS):
        trial = theta + length[:, None] * step
        found = _objective(A, y, weights, trial, penalties, C, loss)
        accepted = found <= value - _ARMIJO * length * slope + eps * xp.abs(value)
        if bool(xp.all(accepted)):
            break
        length = xp.where(accepted, length, 0.5 * length)
    return theta + length[:, None] * step


def put_rows(target: Any, rows: Any, values: Any) -> Any:
    """Return ``target`` with some rows replaced (array-API arrays need not allow assignment)."""
    xp = namespace(target)
    if rows.shape[0] == target.shape[0]:
        return values
    order = xp.concat([rows, _others(rows, target.shape[0])])
    joined = xp.concat([values, xp.take(target, order[rows.shape[0] :], axis=0)], axis=0)
    return xp.take(joined, xp.argsort(order), axis=0)


def _others(rows: Any, n: int) -> Any:
    """Return the row numbers below n that are not among the sorted ``rows``."""
    xp = namespace(rows)
    everyone = xp.arange(n, dtype=rows.dtype, device=compat.device(rows))
    place = xp.searchsorted(rows, everyone)
    place = xp.minimum(place, xp.full_like(place, rows.shape[0] - 1))
    return everyone[xp.take(rows, place) != everyone]
