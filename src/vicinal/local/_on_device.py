"""What the local estimators do when X belongs to another array library."""

from collections.abc import Callable
from typing import Any

import array_api_compat as compat
import numpy as np

from vicinal._base import as_numpy, check_same_library, namespace, validate_array_api
from vicinal._base._compat import check_sample_weight
from vicinal.local._data import Settings
from vicinal.local._device import (
    DeviceData,
    device_candidates,
    device_losses,
    device_weights,
    make_device_data,
    query_blocks,
)
from vicinal.local._neighborhood import NearestRule
from vicinal.local._selection import (
    Candidate,
    best_candidate,
    draw_rows,
    selection_table,
)

_METRICS = ("euclidean", "standardized")


class OnDevice:
    """Fit and query on the device of the data; numbers reach the host only as sums."""

    _device: Any = None

    # Parameters and methods of the estimators that mix this in.
    n_neighbors_: int | None
    bandwidth_: float | None
    bandwidth: Any
    location_columns: Any
    metric: Any
    degree: Any
    random_state: Any
    _generic: Any
    _alpha_candidates: Callable
    _size_is_open: Callable
    _rules: Callable
    _is_relative: Callable

    def _validate_on_device(self, X, y, sample_weight, groups):
        """Return X, the targets as given, and weights on the device; unweighted rows dropped."""
        self._check_device_parameters(groups)
        X = validate_array_api(self, X, reset=True)
        xp = namespace(X)
        if X.shape[0] < 2:
            raise ValueError(f"Found {X.shape[0]} sample(s); at least 2 are needed.")
        if y.shape[0] != X.shape[0]:
            raise ValueError(f"y has {y.shape[0]} entries for {X.shape[0]} rows of X.")
        if sample_weight is None:
            return X, y, None
        weights = check_sample_weight(as_numpy(sample_weight), np.empty((X.shape[0], 0)))
        if weights.min() < 0 or not weights.any():
            raise ValueError("sample_weight must be at least 0, and positive for some row.")
        keep = xp.asarray(np.flatnonzero(weights), device=compat.device(X))
        y = xp.take(y, keep, axis=0) if not isinstance(y, np.ndarray) else y[as_numpy(keep)]
        weights = xp.asarray(weights[weights > 0], dtype=X.dtype, device=compat.device(X))
        return xp.take(X, keep, axis=0), y, weights

    def _is_multinomial(self) -> bool:
        return getattr(getattr(self, "_objective", None), "solver", None) == "multinomial"

    def _check_device_parameters(self, groups) -> None:
        unsupported = {
            "bandwidth": self.bandwidth is not None,
            "location_columns": self.location_columns is not None,
            "metric": not isinstance(self.metric, str) or self.metric not in (*_METRICS, "auto"),
            "degree": self.degree == 2,
            "groups": groups is not None,
            "estimator": self._generic is not None or self._is_multinomial(),
            "solver": getattr(self, "solver", "ridge") == "hinge",
            "class_weight": getattr(self, "class_weight", None) is not None,
            "robust_iterations": getattr(self, "robust_iterations", 0) > 0,
            "clip": getattr(self, "clip", False),
            "anchors": getattr(self, "anchors", None) is not None,
        }
        named = [name for name, is_set in unsupported.items() if is_set]
        if named:
            raise ValueError(
                f"{', '.join(named)} as given cannot be used with a device array; leave out, or "
                "convert X with numpy.asarray."
            )

    def _choose_on_device(self, X, weights, criterion) -> None:
        """Settle metric, size and penalty by leave-one-out, as on the host."""
        metrics = list(_METRICS) if self.metric == "auto" else [self.metric]
        alphas = self._alpha_candidates()
        degree = 1 if self.degree == "auto" else self.degree
        if len(metrics) * len(alphas) == 1 and not self._size_is_open():
            data = make_device_data(X, weights, metrics[0])
            self._keep_on_device(data, metrics[0], self._rules(data)[0], degree, alphas[0])
            return
        rows = draw_rows(X.shape[0], self.random_state)
        candidates = []
        for metric in metrics:
            data = make_device_data(X, weights, metric)
            rules = self._rules(data)
            evaluate, loss, total = criterion(data, alphas, degree, rows)
            losses = device_losses(data, rules, rows, len(alphas), evaluate, loss)
            candidates += [
                Candidate(metric, degree, rule, alpha, float(losses[j, c] / total))
                for j, rule in enumerate(rules)
                for c, alpha in enumerate(alphas)
            ]
        best: Any = best_candidate(candidates)
        self.selection_ = selection_table(candidates)
        self.loo_score_ = best.loss
        data = make_device_data(X, weights, best.metric)
        self._keep_on_device(data, best.metric, best.rule, best.degree, best.alpha)

    def _keep_on_device(self, data: DeviceData, metric, rule: NearestRule, degree, alpha) -> None:
        self._device = data
        self.metric_ = metric
        self.alpha_ = float(alpha)
        self.degree_ = degree
        self.n_neighbors_ = int(rule.count)
        self.bandwidth_ = None
        self._settings = Settings(rule, degree, float(alpha), self._is_relative())

    def _validate_device_queries(self, X):
        check_same_library(self._device.X, X)
        return validate_array_api(self, X, reset=False)

    def _map_on_device(self, X, function) -> Any:
        """Apply ``function(Q, indices, weights)`` to blocks of queries and join the results."""
        data: Any = self._device
        rule: Any = self._settings.rule
        xp = namespace(X)
        Q = data.place(X)
        parts = []
        for block in query_blocks(data, X.shape[0], rule.count):
            some = Q[block, :]
            indices, weights = device_weights(device_candidates(data, some, rule), rule)
            parts.append(function(some, indices, weights))
        return xp.concat(parts, axis=0)

    def _map_left_out(self, rows: np.ndarray, function) -> Any:
        """Do the same for training rows, each left out of its own neighbourhood."""
        data: Any = self._device
        rule: Any = self._settings.rule
        xp = namespace(data.X)
        parts = []
        for block in query_blocks(data, len(rows), rule.count):
            own = xp.asarray(rows[block], device=compat.device(data.X))
            Q = xp.take(data.X, own, axis=0)
            indices, weights = device_weights(device_candidates(data, Q, rule, own), rule)
            parts.append(function(Q, indices, weights))
        return xp.concat(parts, axis=0)

    def _check_on_host(self, what: str) -> None:
        if self._device is not None:
            raise ValueError(
                f"{what} needs a model fitted on NumPy arrays; convert X with numpy.asarray and "
                "fit again."
            )
