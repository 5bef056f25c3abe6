"""Local models on arrays of other libraries (torch, CuPy): everything stays on their device."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import array_api_compat as compat
import numpy as np

from vicinal._base import free_memory, namespace, row_blocks, take_rows
from vicinal._kernels.local._batched import (
    batched_kernel,
    batched_least_squares,
    batched_newton,
    batched_ridge,
    batched_ridge_values,
    batched_slopes,
    batched_vote,
    one_class_scores,
    put_rows,
    transpose,
)
from vicinal._kernels.local._smoothing import nearest_scale
from vicinal.local._class_models import Objective, warn_unconverged
from vicinal.local._neighborhood import NearestRule
from vicinal.neighbors import NeighborSearch


@dataclass(frozen=True)
class DeviceData:
    """Training rows in the coordinates of search and fit, on their device.

    The coordinates are (X - mean) / scale, times ``matrix`` if there is one; ``weights`` is None
    for ones.
    """

    X: Any
    search: NeighborSearch
    mean: Any
    scale: Any
    weights: Any
    are_counts: bool
    matrix: Any = None

    @property
    def total_weight(self) -> float:
        """Number of rows, counted with their weights."""
        if self.weights is None:
            return float(self.X.shape[0])
        return float(namespace(self.X).sum(self.weights))

    def place(self, X: Any) -> Any:
        """Return queries in the coordinates of the model."""
        xp = namespace(X)
        placed = (xp.astype(X, self.X.dtype) - self.mean) / self.scale
        return placed if self.matrix is None else placed @ self.matrix

    def pull_back(self, slopes: Any) -> Any:
        """Return slopes with respect to the columns given, from those in coordinates."""
        if self.matrix is not None:
            slopes = slopes @ self.matrix.T
        return slopes / self.scale

    def mapped(self, matrix: Any) -> "DeviceData":
        """Return the same rows with their standardised columns mapped by ``matrix``."""
        matrix = namespace(self.X).astype(matrix, self.X.dtype)
        X = self.X @ matrix
        return replace(self, X=X, search=NeighborSearch().fit(X), matrix=matrix)

    def take(self, rows: Any) -> "DeviceData":
        """Return some of the rows, in the same coordinates."""
        xp = namespace(self.X)
        X = xp.take(self.X, rows, axis=0)
        weights = None if self.weights is None else xp.take(self.weights, rows)
        return replace(self, X=X, search=NeighborSearch().fit(X), weights=weights)


def make_device_data(X: Any, weights: Any, metric: str) -> DeviceData:
    """Learn the coordinates of a metric that needs no labels, and prepare the search."""
    xp = namespace(X)
    mean = xp.zeros_like(X[0, :])
    scale = xp.ones_like(mean)
    if metric != "euclidean":
        w = xp.ones_like(X[:, 0]) if weights is None else weights
        w = w / xp.sum(w)
        mean = xp.sum(w[:, None] * X, axis=0)
        variance = xp.sum(w[:, None] * (X - mean) ** 2, axis=0)
        floor = (10.0 * float(xp.finfo(X.dtype).eps)) ** 2 * xp.maximum(mean * mean, scale)
        scale = xp.sqrt(xp.where(variance > floor, variance, scale))
    placed = (X - mean) / scale
    are_counts = weights is None or bool(xp.all(weights == xp.round(weights)))
    return DeviceData(placed, NeighborSearch().fit(placed), mean, scale, weights, are_counts)


def device_candidates(data: DeviceData, Q: Any, rule: NearestRule, rows: Any = None):
    """Return (distances, indices, user weights) that hold every neighbour of the rule.

    ``rows`` are the training rows that the queries are: one copy of each is left out.
    """
    xp = namespace(Q)
    n = data.X.shape[0]
    m = min(n, int(np.ceil(rule.count)) + 1 + (rows is not None))
    while True:
        distances, indices = data.search.kneighbors(Q, m)
        user = _user_weights(data, indices, rows)
        h, reached = _radius(distances, user, rule)
        needs_ties = (h <= 0.0) if rule.exceed or rule.loess else xp.ones_like(reached)
        complete = reached & ~(needs_ties & (distances[:, -1] <= h))
        if m == n or bool(xp.all(complete)):
            return distances, indices, user
        m = min(n, 2 * m)


def _user_weights(data: DeviceData, indices, rows):
    xp = namespace(indices)
    if data.weights is None:
        user = xp.ones(indices.shape, dtype=data.X.dtype, device=compat.device(data.X))
    else:
        user = take_rows(data.weights, indices)
    if rows is None:
        return user
    left = xp.maximum(user - 1.0, xp.zeros_like(user)) if data.are_counts else 0.0 * user
    return xp.where(indices == rows[:, None], left, user)


def _radius(distances, user, rule: NearestRule):
    """Return the bandwidth of each query and whether enough weight was found."""
    xp = namespace(distances)
    total = xp.cumulative_sum(user, axis=1)
    tolerance = 1e-9 * max(1.0, rule.count)
    enough = total > rule.count + tolerance if rule.exceed else total >= rule.count - tolerance
    position = xp.argmax(xp.astype(enough, xp.int8), axis=1)
    columns = xp.arange(distances.shape[1], device=compat.device(distances))
    here = columns[None, :] == position[:, None]
    h = xp.sum(xp.where(here, distances, xp.zeros_like(distances)), axis=1)
    reached = xp.any(enough, axis=1)
    widest = distances[:, -1] * (1.0 + 1.0 / max(1.0, rule.count))
    return xp.where(reached, h, widest), reached


def device_weights(found, rule: NearestRule) -> tuple[Any, Any]:
    """Return row numbers and weights (n_queries, k) of one size among the candidates."""
    distances, indices, user = found
    xp = namespace(distances)
    h, _ = _radius(distances, user, rule)
    u = distances / xp.where(h > 0.0, h, xp.ones_like(h))[:, None]
    factor = nearest_scale(rule.kernel)
    weights = batched_kernel(u * factor if factor != 1.0 else u, rule.kernel)
    if rule.loess and rule.kernel == "tricube":
        weights = xp.where(u < 0.001, xp.ones_like(u), weights)
        weights = xp.where(u > 0.999, xp.zeros_like(u), weights)
    weights = xp.where(u > 1.0, xp.zeros_like(u), weights)
    at_query = xp.astype(distances <= 0.0, weights.dtype)
    weights = xp.where((h > 0.0)[:, None], weights, at_query)
    return indices, weights * user


def query_blocks(data: DeviceData, n_queries: int, count: float) -> Iterator[slice]:
    """Cut queries into blocks whose gathered rows fit the working memory."""
    width = (count + 2) * (data.X.shape[1] + 4) * 8 * 4
    return row_blocks(n_queries, int(width), working_memory=free_memory(data.X))


def ridge_values(
    data: DeviceData, Y, Q, indices, weights, alphas, *, relative: bool, degree: int
) -> list[Any]:
    """Return predictions (n_queries, n_outputs) for each penalty; degree 0 gives plain averages."""
    xp = namespace(Q)
    if degree > 0 and all(alpha > 0.0 for alpha in alphas):
        return batched_ridge_values(data.X, Y, Q, indices, weights, list(alphas), relative=relative)
    if degree == 0:
        level = weights / xp.sum(weights, axis=1)[:, None]
        fits = [level for _ in alphas]
    else:
        plain = batched_least_squares(data.X, Q, indices, weights)
        positive = [alpha for alpha in alphas if alpha > 0.0]
        rest = iter(batched_ridge(data.X, Q, indices, weights, positive, relative=relative))
        fits = [plain if alpha == 0.0 else next(rest) for alpha in alphas]
    targets = take_rows(Y, indices)
    return [xp.sum(l[:, :, None] * targets, axis=1) for l in fits]  # noqa: E741


def class_values(
    objective: Objective, data, codes, n_classes, Q, indices, weights, alphas, *, relative, degree
) -> list[Any]:
    """Return scores (n_queries, n_classes) for each penalty."""
    if objective.solver == "ridge":
        Y = indicators(codes, n_classes, data.X)
        return ridge_values(data, Y, Q, indices, weights, alphas, relative=relative, degree=degree)
    labels = take_rows(codes, indices)
    return [
        newton_values(objective, data, labels, n_classes, Q, indices, weights, alpha, relative)[0]
        for alpha in alphas
    ]


def indicators(codes, n_classes: int, like) -> Any:
    """Return one column per class, 1 where a row belongs to it."""
    xp = namespace(like)
    kinds = xp.arange(n_classes, device=compat.device(like))
    return xp.astype(codes[:, None] == kinds[None, :], like.dtype)


def newton_values(
    objective: Objective,
    data,
    labels,
    n_classes,
    Q,
    indices,
    weights,
    alpha,
    relative,
    *,
    want_slopes: bool = False,
):
    """Return one-against-the-rest scores and, if asked, slopes of iterative local classifiers.

    The fits of all classes form one batch of (query, class) pairs. A class that is alone, or
    absent, needs none; of two classes the second is the negative of the first.
    """
    xp = namespace(Q)
    total = xp.sum(weights, axis=1)
    rho = objective.rho + objective.rho_per_weight * total
    alone = one_class_scores(total, rho, C=objective.C, loss=objective.solver)[:, None]
    active = xp.astype(weights > 0.0, weights.dtype)
    present = batched_vote(active, labels, n_classes) > 0.0
    n_present = xp.sum(xp.astype(present, xp.int64), axis=1)[:, None]
    first = present & (xp.cumulative_sum(xp.astype(present, xp.int64), axis=1) == 1)
    queries, classes = xp.nonzero(present & ((n_present > 2) | (first & (n_present == 2))))
    theta = _newton_pairs(
        objective, data, labels, Q, indices, weights, rho, alpha, relative, queries, classes
    )
    place = queries * n_classes + classes
    scores = xp.reshape(xp.where(present, alone, -alone), (-1,))
    scores = xp.reshape(put_rows(scores, place, theta[:, -1]), present.shape)
    mirrored = (n_present == 2) & present & ~first
    scores = xp.where(mirrored, -_only(first, scores), scores)
    if not want_slopes:
        return scores, None
    shape = (Q.shape[0], n_classes, Q.shape[1])
    slopes = xp.zeros((shape[0] * shape[1], shape[2]), dtype=Q.dtype, device=compat.device(Q))
    slopes = xp.reshape(put_rows(slopes, place, theta[:, :-1]), shape)
    negative = -_only(first[:, :, None], slopes)
    return scores, xp.where(mirrored[:, :, None], negative, slopes)


def _only(marked, values):
    """Return the one marked entry along the axis of classes, kept as an axis of length one."""
    xp = namespace(values)
    return xp.sum(xp.where(marked, values, xp.zeros_like(values)), axis=1, keepdims=True)


def _newton_pairs(
    objective, data, labels, Q, indices, weights, rho, alpha, relative, queries, classes
):
    """Fit the given pairs of query and class; return coefficients, the intercept last."""
    xp = namespace(Q)
    k, d = indices.shape[1], Q.shape[1]
    # Offsets and their weighted copy in both precisions, the row-wise terms, and the systems.
    p = min(k, d) + 1
    cost = 24 * k * d + 24 * k * p + 150 * k + 40 * p * p
    parts = [xp.zeros((0, d + 1), dtype=Q.dtype, device=compat.device(Q))]
    for block in row_blocks(queries.shape[0], cost, working_memory=free_memory(Q)):
        some = queries[block]
        w = xp.take(weights, some, axis=0)
        rows = take_rows(data.X, xp.take(indices, some, axis=0))
        offsets = rows - xp.take(Q, some, axis=0)[:, None, :]
        lam = _relative_penalty(offsets, w, alpha) if relative else alpha + 0.0 * w[:, 0]
        member = xp.take(labels, some, axis=0) == classes[block][:, None]
        theta, converged = batched_newton(
            offsets,
            xp.where(member, xp.ones_like(w), -xp.ones_like(w)),
            w,
            lam,
            xp.take(rho, some),
            C=objective.C,
            loss=objective.solver,
            tol=objective.tol,
            max_iter=objective.max_iter,
        )
        warn_unconverged(objective, int(xp.sum(xp.astype(~converged, xp.int64))), some.shape[0])
        parts.append(theta)
    return xp.concat(parts, axis=0)


def _relative_penalty(offsets, weights, alpha: float):
    xp = namespace(offsets)
    total = xp.sum(weights, axis=1)
    mean = (transpose(offsets) @ weights[:, :, None])[:, :, 0] / total[:, None]
    centred = offsets - mean[:, None, :]
    trace = xp.sum(weights * xp.sum(centred * centred, axis=2), axis=1)
    size = trace + total * xp.sum(mean * mean, axis=1)
    # Without spread the slopes are immaterial; any penalty keeps the system regular.
    return xp.where(trace > 1e-12 * size, alpha * trace / offsets.shape[2], total)


def ridge_slopes_on_device(data, Y, Q, indices, weights, alpha, *, relative: bool, degree: int):
    """Return slopes in the columns given, shape (n_queries, n_outputs, n_features)."""
    xp = namespace(Q)
    if degree == 0:
        shape = (Q.shape[0], Y.shape[1], Q.shape[1])
        return xp.zeros(shape, dtype=Q.dtype, device=compat.device(Q))
    slopes = batched_slopes(data.X, Y, Q, indices, weights, alpha, relative=relative)
    return data.pull_back(slopes)


def device_losses(
    data: DeviceData,
    rules: Sequence[NearestRule],
    rows: np.ndarray,
    n_alphas: int,
    evaluate: Callable,
    loss: Callable,
) -> np.ndarray:
    """Return the summed leave-one-out loss of each (rule, alpha); sums alone reach the host."""
    xp = namespace(data.X)
    total = np.zeros((len(rules), n_alphas))
    for block in query_blocks(data, len(rows), rules[-1].count):
        own = xp.asarray(rows[block], device=compat.device(data.X))
        Q = xp.take(data.X, own, axis=0)
        found = device_candidates(data, Q, rules[-1], own)
        for j, rule in enumerate(rules):
            indices, weights = device_weights(found, rule)
            for c, predictions in enumerate(evaluate(Q, indices, weights)):
                total[j, c] += float(xp.sum(loss(predictions, own)))
    return total
