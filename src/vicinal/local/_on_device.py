"""What the local estimators do when X belongs to another array library."""

from collections.abc import Callable
from typing import Any

import array_api_compat as compat

from vicinal._base import (
    check_same_library,
    namespace,
    validate_array_api,
    weighted_device_rows,
)
from vicinal.local._data import Settings
from vicinal.local._device import (
    DeviceData,
    device_candidates,
    device_losses,
    device_weights,
    make_device_data,
    query_blocks,
)
from vicinal.local._device_rounds import DeviceRounds
from vicinal.local._neighborhood import NearestRule
from vicinal.local._selection import (
    Candidate,
    best_candidate,
    cross_fit_folds,
    draw_rows,
    selection_table,
)

_PLAIN = ("euclidean", "standardized")
_METRICS = (*_PLAIN, "gradient", "auto")
# Rounds of metric="gradient"; most of them, and how many without gain end the search, for "auto".
_ROUNDS = 3
_MAX_ROUNDS, _PATIENCE = 6, 2


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
    _slope_targets: Callable

    def _validate_on_device(self, X, y, sample_weight, groups):
        """Return X, the targets as given, and weights on the device; unweighted rows dropped."""
        self._check_device_parameters(groups)
        X = validate_array_api(self, X, reset=True)
        if X.shape[0] < 2:
            raise ValueError(f"Found {X.shape[0]} sample(s); at least 2 are needed.")
        return weighted_device_rows(X, y, sample_weight)

    def _is_multinomial(self) -> bool:
        return getattr(getattr(self, "_objective", None), "solver", None) == "multinomial"

    def _check_device_parameters(self, groups) -> None:
        unsupported = {
            "bandwidth": self.bandwidth is not None,
            "location_columns": self.location_columns is not None,
            "metric": not isinstance(self.metric, str) or self.metric not in _METRICS,
            "degree": self.degree == 2,
            "groups": groups is not None,
            "estimator": self._generic is not None or self._is_multinomial(),
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
        """Settle metric, size and penalty on rows that are left out, or that a metric never saw."""
        metrics = list(_PLAIN) if self.metric == "auto" else [self.metric]
        degree = 1 if self.degree == "auto" else self.degree
        is_open = len(metrics) * len(self._alpha_candidates()) > 1 or self._size_is_open()
        rows = draw_rows(X.shape[0], self.random_state)
        plans: dict[str, DeviceData] = {}
        candidates: list[Candidate] = []
        for metric in metrics:
            if metric == "gradient":
                rounds = self._rounds(X, weights, rows if is_open else rows[:0])
                for _ in range(_ROUNDS):
                    rounds.advance()
                plans[metric], views = rounds.final(), rounds.views()
            else:
                plans[metric] = make_device_data(X, weights, metric)
                views = iter([(plans[metric], rows)])
            if not is_open:
                rule, alpha = self._rules(plans[metric])[0], self._alpha_candidates()[0]
                self._keep_on_device(plans[metric], metric, rule, degree, alpha)
                return
            candidates += self._judge_on_device(metric, views, degree, criterion)
        if self.metric == "auto" and degree > 0:
            self._try_rounds(X, weights, rows, degree, criterion, candidates, plans)
        best: Any = best_candidate(candidates)
        self.selection_ = selection_table(candidates)
        self.loo_score_ = best.loss
        self._keep_on_device(plans[best.metric], best.metric, best.rule, best.degree, best.alpha)

    def _judge_on_device(self, metric: str, views, degree, criterion) -> list[Candidate]:
        """Return the loss of every size and penalty over the rows of all views."""
        alphas = self._alpha_candidates()
        losses: Any = 0.0
        total = 0.0
        rules: Any = None
        for data, rows in views:
            rules = self._rules(data) if rules is None else rules
            evaluate, loss, weight = criterion(data, alphas, degree, rows)
            losses = losses + device_losses(data, rules, rows, len(alphas), evaluate, loss)
            total += weight
        return [
            Candidate(metric, degree, rule, alpha, float(losses[j, c] / total))
            for j, rule in enumerate(rules)
            for c, alpha in enumerate(alphas)
        ]

    def _rounds(self, X, weights, rows) -> DeviceRounds:
        """Prepare the gradient metric, cross-fitted on folds of the rows to be judged."""
        base = make_device_data(X, weights, "standardized")
        folds = cross_fit_folds(rows, X.shape[0], None, self.random_state) if len(rows) else []
        Y, alpha = self._slope_targets(base)
        return DeviceRounds(base, Y, folds, alpha, self.random_state)

    def _try_rounds(self, X, weights, rows, degree, criterion, candidates, plans) -> None:
        """Add rounds of the gradient metric while rows that it never saw gain by them."""
        rounds = self._rounds(X, weights, rows)
        waited = 0
        while rounds.n_rounds < _MAX_ROUNDS and waited < _PATIENCE:
            least = min(candidate.loss for candidate in candidates)
            rounds.advance()
            metric = f"gradient {rounds.n_rounds}"
            found = self._judge_on_device(metric, rounds.views(), degree, criterion)
            waited = 0 if min(candidate.loss for candidate in found) < least else waited + 1
            candidates += found
            plans[metric] = rounds.final()

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

    def _map_all_left_out(self, function) -> Any:
        """Do the same for every training row, each left out of its own neighbourhood."""
        X = self._device.X
        return self._map_left_out(
            namespace(X).arange(X.shape[0], device=compat.device(X)), function
        )

    def _map_left_out(self, rows: Any, function) -> Any:
        """Do the same for training rows, each left out of its own neighbourhood."""
        data: Any = self._device
        rule: Any = self._settings.rule
        xp = namespace(data.X)
        parts = []
        for block in query_blocks(data, rows.shape[0], rule.count):
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
