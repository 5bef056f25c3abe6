"""The gradient metric on device arrays: rounds of slopes, learned once per fold and once on all."""

from collections.abc import Iterator
from typing import Any

import array_api_compat as compat
import numpy as np
from sklearn.utils import check_random_state

from vicinal._base import namespace
from vicinal._kernels.local._batched import (
    batched_slopes,
    other_rows,
    slope_metric_step,
    slope_outer_product,
)
from vicinal.local._device import (
    DeviceData,
    device_candidates,
    device_weights,
    query_blocks,
)
from vicinal.local._gradient_round import FLOOR, slope_neighbors, slope_queries
from vicinal.local._neighborhood import NearestRule


def device_outer_product(data: DeviceData, Y: Any, rows: Any, *, count: int, alpha: float) -> Any:
    """Return the mean outer product of slopes at some rows, each left out of its neighbourhood."""
    xp = namespace(data.X)
    rule = NearestRule(float(count))
    G: Any = 0.0
    total: Any = 0.0
    for block in query_blocks(data, rows.shape[0], count):
        own = rows[block]
        Q = xp.take(data.X, own, axis=0)
        indices, weights = device_weights(device_candidates(data, Q, rule, own), rule)
        slopes = batched_slopes(data.X, Y, Q, indices, weights, alpha, relative=True)
        share = xp.ones_like(Q[:, 0]) if data.weights is None else xp.take(data.weights, own)
        G = G + slope_outer_product(slopes, share)
        total = total + xp.sum(xp.astype(share, xp.float64))
    return G / total


def next_map(
    data: DeviceData, Y: Any, P: Any, queries: np.ndarray, *, count: int, alpha: float,
    diagonal: bool = False,
) -> tuple[Any, Any]:  # fmt: skip
    """Return the map after one more round, of squared Frobenius norm d, and the outer product.

    ``data`` are rows in the first coordinates, ``P`` the map reached so far, ``queries`` the rows
    at which slopes are taken.
    """
    xp = namespace(data.X)
    rows = xp.asarray(queries, dtype=xp.int64, device=compat.device(data.X))
    G = device_outer_product(data.mapped(P), Y, rows, count=count, alpha=alpha)
    P = P @ slope_metric_step(G, floor=FLOOR, diagonal=diagonal)
    return P * (P.shape[0] ** 0.5 / xp.sqrt(xp.sum(P * P))), G


class DeviceRounds:
    """Maps learned round after round: one that saw all rows, and one per fold that did not see it.

    Parameters
    ----------
    base : DeviceData
        Rows in standardised columns.
    Y : array of shape (n_samples, n_outputs)
        Indicators or targets in comparable units.
    folds : list of ndarray
        Rows whose labels the map of each fold must not see; none for a map of all rows only.
    alpha : float
        Relative penalty of the slopes.
    random_state : int, RandomState instance or None
        Draws the rows at which slopes are taken.
    """

    def __init__(self, base: DeviceData, Y: Any, folds: list, alpha: float, random_state) -> None:
        self.base, self.Y, self.folds, self.alpha = base, Y, folds, alpha
        self.rng = check_random_state(random_state)
        xp, device = namespace(base.X), compat.device(base.X)
        d = base.X.shape[1]
        self.maps = [xp.eye(d, dtype=xp.float64, device=device) for _ in range(len(folds) + 1)]
        self.n_rounds = 0

    def advance(self) -> None:
        """Learn one more round of every map."""
        xp, device = namespace(self.base.X), compat.device(self.base.X)
        for f, fold in enumerate(self.folds):
            rows = other_rows(xp.asarray(fold, device=device), self.base.X.shape[0])
            part = self.base.take(rows)
            self.maps[f] = self._next(part, xp.take(self.Y, rows, axis=0), self.maps[f])
        self.maps[-1] = self._next(self.base, self.Y, self.maps[-1])
        self.n_rounds += 1

    def views(self) -> Iterator[tuple[DeviceData, np.ndarray]]:
        """Yield all rows under the map of each fold, with the rows of the fold."""
        for P, fold in zip(self.maps, self.folds, strict=False):
            if len(fold):
                yield self.base.mapped(P), fold

    def final(self) -> DeviceData:
        """Return all rows under the map that saw all of them."""
        return self.base.mapped(self.maps[-1])

    def _next(self, data, Y, P) -> Any:
        n, d = data.X.shape
        count = slope_neighbors(d, data.total_weight)
        queries = slope_queries(n, d, count, self.rng)
        return next_map(data, Y, P, queries, count=count, alpha=self.alpha)[0]
