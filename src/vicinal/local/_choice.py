"""Choice of metric, degree, size and penalty, as a mixin of the local estimators."""

from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse

from vicinal.local._data import LocalData, Settings
from vicinal.local._forest import FOREST_ROWS, ForestIndex, ForestRule
from vicinal.local._metrics import learn_coordinates, sees_labels
from vicinal.local._neighborhood import NearestRule, RadiusRule
from vicinal.local._selection import (
    ALPHA_LADDER,
    BANDWIDTH_LADDER,
    MAX_ROWS,
    NEIGHBOR_LADDER,
    Candidate,
    best_candidate,
    compare,
    cross_fit_folds,
    draw_rows,
    leave_one_out_losses,
    neighbor_ladder,
    selection_table,
)

# A good fixed size, and the neighbour whose median distance is the unit of bandwidths tried.
_REFERENCE_NEIGHBOR = 40


class LeaveOneOutChoice:
    """Settle what the user left open; the estimator supplies data, predictions and losses."""

    # Parameters of the estimators that mix this in.
    n_neighbors: Any
    bandwidth: Any
    kernel: Any
    metric: Any
    degree: Any
    alpha: Any
    penalty: str
    location_columns: Any
    outside: str
    random_state: Any
    verbose: int
    _make_data: Callable
    _place_data: Callable
    _split_columns: Callable
    _criterion: Callable

    def _choose(self, X, codes, targets, weights, groups) -> None:
        """Settle metric, degree, neighbourhood size and penalty; keep data and settings."""
        total = float(X.shape[0] if weights is None else weights.sum())
        metrics = self._metric_candidates(X, codes, total)
        degrees = self._degree_candidates(X)
        alphas = self._alpha_candidates()
        if len(metrics) * len(degrees) * len(alphas) == 1 and not self._size_is_open():
            data = self._make_data(X, codes, targets, weights, groups, metrics[0])
            rule = self._rules(data)[0]
            self._keep(data, metrics[0], rule, degrees[0], alphas[0])
            return
        # Sparse neighbourhoods are gathered one by one, which costs fifty times as much.
        limit = MAX_ROWS // 5 if sparse.issparse(X) else MAX_ROWS
        rows = draw_rows(X.shape[0], self.random_state, limit)
        arrays = (X, codes, targets, weights, groups)
        plans = [(metric, degree) for metric in metrics for degree in degrees]
        candidates = compare(
            plans,
            lambda metric, degree: self._try_plan(metric, degree, alphas, rows, arrays),
            f"{type(self).__name__} leave-one-out",
            self.verbose,
        )
        best = best_candidate(candidates)
        self.selection_ = selection_table(candidates)
        self.loo_score_ = best.loss
        data = self._make_data(X, codes, targets, weights, groups, best.metric)
        self._keep(data, best.metric, best.rule, best.degree, best.alpha)

    def _try_plan(self, metric, degree, alphas, rows, arrays) -> list[Candidate]:
        """Return the leave-one-out loss of every size and penalty under one metric."""
        weights = arrays[3]
        share = 1.0 if weights is None else weights[rows]
        total = float(np.sum(share * np.ones(len(rows))))
        losses: Any = 0.0
        rules: Any = None
        for data, some in self._views(metric, rows, arrays):
            if rules is None:
                rules = self._rules(data)
            evaluate, loss = self._criterion(data, alphas, degree)
            losses = losses + leave_one_out_losses(data, rules, some, len(alphas), evaluate, loss)
        return [
            Candidate(metric, degree, rule, alpha, float(losses[j, c] / total))
            for j, rule in enumerate(rules)
            for c, alpha in enumerate(alphas)
        ]

    def _views(self, metric, rows, arrays, fitted=None):
        """Yield (data, rows): one view, or one per fold when the metric learns from the labels.

        The metric of a fold never saw the labels of that fold's rows, so their leave-one-out is
        honest; neighbours are searched among all rows as at prediction. ``fitted`` saves building
        the one view again.
        """
        X, codes, targets, weights, groups = arrays
        if not sees_labels(metric):
            yield fitted or self._make_data(X, codes, targets, weights, groups, metric), rows
            return
        for fold in cross_fit_folds(rows, X.shape[0], groups, self.random_state):
            mask = np.ones(X.shape[0], dtype=bool)
            mask[fold] = False
            located, _ = self._split_columns(X)
            coordinates = learn_coordinates(
                metric,
                located[mask],
                None if codes is None else codes[mask],
                targets[mask],
                None if weights is None else weights[mask],
            )
            yield self._place_data(X, weights, groups, metric, coordinates), fold

    def _keep(self, data: LocalData, metric, rule, degree: int, alpha: float) -> None:
        self._data = data
        self.metric_ = data.coordinates.transformer or metric
        self._settings = Settings(rule, degree, float(alpha), self._is_relative())
        self.alpha_ = float(alpha)
        self.degree_ = degree
        if isinstance(rule, ForestRule):
            self.n_neighbors_: int | None = None
            self.bandwidth_: float | None = None
        elif isinstance(rule, NearestRule):
            self.n_neighbors_ = int(rule.count)
            self.bandwidth_ = None
        else:
            self.n_neighbors_ = None
            self.bandwidth_ = float(rule.bandwidth)

    def _size_is_open(self) -> bool:
        if self.bandwidth is None:
            return self.n_neighbors == "auto"
        return self.bandwidth == "auto"

    def _rules(self, data: LocalData) -> list:
        """Return the neighbourhood sizes to compare, ascending; one if the user named it."""
        if isinstance(getattr(data, "index", None), ForestIndex):
            return [ForestRule(FOREST_ROWS)]
        if self.bandwidth is not None:
            if self.n_neighbors != "auto":
                raise ValueError(
                    f"n_neighbors={self.n_neighbors!r} and bandwidth={self.bandwidth!r} are both "
                    "given; give one of them."
                )
            sizes = [self.bandwidth] if self.bandwidth != "auto" else self._bandwidths(data)
            return [RadiusRule(float(h), self.kernel, self.outside) for h in sizes]
        if self.n_neighbors == "auto":
            fixed = (_REFERENCE_NEIGHBOR,)
            ladder = self._neighbor_candidates() if self._size_is_open() else fixed
            counts = neighbor_ladder(data.total_weight, ladder)
            return [NearestRule(float(k), self.kernel) for k in counts]
        return [self._nearest_rule(self.n_neighbors, data.total_weight)]

    def _bandwidths(self, data: LocalData) -> list[float]:
        rows = draw_rows(data.n_samples, self.random_state, 500)
        m = min(data.n_samples, _REFERENCE_NEIGHBOR + 1)
        distances, _ = data.index.nearest(data.index.X[rows], m)
        reference = float(np.median(distances[:, -1]))
        return [factor * (reference or 1.0) for factor in BANDWIDTH_LADDER]

    def _nearest_rule(self, n_neighbors, total_weight: float) -> NearestRule:
        """Return the rule of an explicit number or fraction of neighbours."""
        if isinstance(n_neighbors, Integral):
            if int(n_neighbors) > total_weight:
                raise ValueError(
                    f"n_neighbors={n_neighbors} exceeds the {total_weight:g} samples given "
                    "(counted by weight); lower n_neighbors, or use bandwidth=inf for one global "
                    "model."
                )
            return NearestRule(float(n_neighbors), self.kernel)
        count = max(1.0, float(np.floor(total_weight * n_neighbors + 1e-5)))
        return NearestRule(count, self.kernel, loess=True)

    def _metric_candidates(self, X, codes, total_weight: float) -> list:
        """Return the metrics to compare: the one given, or the automatic list."""
        if not isinstance(self.metric, str) or self.metric != "auto":
            return [self.metric]
        if self.location_columns is not None:
            return ["euclidean"]
        candidates = ["euclidean", "standardized"]
        # Whitening needs far more rows than columns, or it blows up directions of chance.
        enough = total_weight >= max(200, 10 * X.shape[1])
        if codes is not None and enough and not sparse.issparse(X):
            candidates.append("within_class")
        return candidates

    def _degree_candidates(self, X) -> list[int]:
        return [self.degree]

    def _neighbor_candidates(self) -> tuple[int, ...]:
        return NEIGHBOR_LADDER

    def _alpha_candidates(self) -> list[float]:
        return list(ALPHA_LADDER) if self.alpha == "auto" else [float(self.alpha)]

    def _is_relative(self) -> bool:
        return self.penalty == "relative"
