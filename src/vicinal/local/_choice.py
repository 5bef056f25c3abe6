"""Choice of metric, degree, size and penalty, as a mixin of the local estimators."""

from collections.abc import Callable
from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone

from vicinal._base import HeldOut, fold_entries
from vicinal.local._coordinates import Coordinates
from vicinal.local._data import LocalData, Settings
from vicinal.local._forest import FOREST_ROWS, ForestIndex, ForestRule
from vicinal.local._gradient_metric import GradientMetric
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
    leave_one_out_answers,
    leave_one_out_losses,
    neighbor_ladder,
    selection_table,
)

# A good fixed size, and the neighbour whose median distance is the unit of bandwidths tried.
_REFERENCE_NEIGHBOR = 40
# Numbers of neighbours that ``held_out`` answers with.
_SIZES = (10, 20, 40, 80, 160, 320, 640)
# Rounds of the gradient metric that candidates differ by; half of them on small tables.
_MAX_ROUNDS, _SMALL = 6, 300


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
    _factor: Any
    _generic: Any
    _held_out_arrays: Callable
    _n_outputs: Callable
    _as_answers: Callable
    _prior: Callable

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

    # --- answers of every candidate ---

    def held_out(self, X, y, *, folds=None, rows=None, sample_weight=None, groups=None):
        """Return what every candidate says of training rows that it did not see.

        Candidates are the settings among which ``fit`` would choose: sizes, penalties, degrees and,
        with ``metric="gradient"``, numbers of rounds. A row is left out of its own neighbourhood,
        forests ask the trees that did not draw it, and a metric that learns from labels learns from
        the other folds.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Labels or targets.
        folds : sequence of ndarray of int, default=None
            Rows of each fold; a row of several folds is answered in each of them. ``None`` draws
            five folds where the metric learns from labels.
        rows : ndarray of int, default=None
            Rows to answer; all of them by default.
        sample_weight : array-like of shape (n_samples,), default=None
            How often each row counts; all must be positive.
        groups : array-like of shape (n_samples,), default=None
            Rows of the same group are left out together.

        Returns
        -------
        HeldOut
            ``candidates``: parameters that turn a clone of this estimator into each candidate;
            ``rows``: the row of each answer, in the order of the folds; ``answers`` of shape
            (n_candidates, n_answers, n_outputs): predictions, or class probabilities.
        """
        model = clone(self)
        model._validate_params()
        arrays: Any = model._held_out_arrays(X, y, sample_weight, groups)
        if model._generic is not None:
            raise ValueError(
                f"held_out answers for built-in local models, but estimator={model._generic!r} is "
                "fitted as a black box; cross-validate it instead."
            )
        n_rows = arrays[0].shape[0]
        if folds is None:
            order = np.arange(n_rows) if rows is None else np.asarray(rows)
            folds = cross_fit_folds(order, n_rows, arrays[4], model.random_state)
        entries = fold_entries(folds, rows)
        alphas, degrees = model._alpha_candidates(), model._degree_candidates(arrays[0])
        candidates: list[dict] = []
        answers: list[np.ndarray] = []
        for metric in model._metric_candidates(arrays[0], arrays[1], _total_weight(arrays)):
            for degree in degrees:
                for named, views in model._held_out_views(metric, folds, entries, arrays):
                    params, said = model._candidate_answers(
                        named, views, degree, alphas, len(np.concatenate(entries)), arrays
                    )
                    candidates += params
                    answers.append(said)
        return HeldOut(candidates, np.concatenate(entries), np.concatenate(answers))

    def _positive_weights(self, weights: np.ndarray) -> np.ndarray | None:
        """Return the weights, ``None`` for ones; rows keep their numbers, so none may be zero."""
        if weights.min() <= 0.0:
            raise ValueError(
                f"sample_weight is zero for {int((weights <= 0.0).sum())} rows; held_out answers "
                "row by row, so leave those rows out of X and y first."
            )
        return None if np.all(weights == 1.0) else weights

    def _held_out_views(self, metric, folds, entries, arrays):
        """Yield (metric to name in the candidate, views), a view being (data, rows, places)."""
        X, codes, targets, weights, groups = arrays
        if not sees_labels(metric):
            data = self._make_data(X, codes, targets, weights, groups, metric)
            rows = np.concatenate(entries)
            yield metric, [(data, rows, np.arange(len(rows)))]
            return
        starts = np.cumsum([0] + [len(part) for part in entries])
        places = [np.arange(*pair) for pair in pairwise(starts)]
        located, _ = self._split_columns(X)
        masks = [np.ones(X.shape[0], dtype=bool) for _ in folds]
        for mask, fold in zip(masks, folds, strict=True):
            mask[fold] = False
        is_gradient = isinstance(metric, str) and metric == "gradient"
        n_rounds = (_MAX_ROUNDS if X.shape[0] >= _SMALL else _MAX_ROUNDS // 2) if is_gradient else 1
        learned = [
            _learn_rounds(metric, located[mask], codes, targets, weights, mask, n_rounds)
            for mask in masks
        ]
        for r in range(n_rounds):
            named = metric
            if is_gradient:
                task = "regression" if codes is None else "classification"
                named = GradientMetric(r + 1, task=task, random_state=0)
            yield (
                named,
                (
                    (self._place_data(X, weights, groups, metric, rounds[r]), rows, place)
                    for rounds, rows, place in zip(learned, entries, places, strict=True)
                    if len(rows)
                ),
            )

    def _candidate_answers(self, metric, views, degree, alphas, n_answers, arrays):
        """Return parameters and answers of every size and penalty under one metric."""
        rules, out = None, np.empty(0)
        weights = arrays[3]
        order = np.empty(n_answers, dtype=np.int64)
        for data, rows, places in views:
            if rules is None:
                rules = self._rules(data, _affordable(data))
                shape = (len(rules), len(alphas), n_answers, self._n_outputs())
                out = np.empty(shape, dtype=np.float32)
            evaluate, _ = self._criterion(data, alphas, degree)
            prior = self._prior(weights)
            for block, j, said in leave_one_out_answers(
                data, rules, rows, evaluate, factor=self._factor, prior=prior
            ):
                out[j][:, places[block]] = said
            order[places] = rows
        assert rules is not None
        known = self.get_params(deep=False)
        named = {"metric": metric, "degree": degree}
        params = [
            {k: v for k, v in {**named, "alpha": a, **_size_parameter(rule)}.items() if k in known}
            for rule in rules
            for a in alphas
        ]
        share = None if weights is None else weights[order]
        return params, self._as_answers(out.reshape(-1, *out.shape[2:]), order, share)

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

    def _rules(self, data: LocalData, sizes=None) -> list:
        """Return the neighbourhood sizes to compare, ascending; one if the user named it.

        ``sizes`` stands in for the numbers of neighbours that are compared by default.
        """
        if isinstance(getattr(data, "index", None), ForestIndex):
            return [ForestRule(FOREST_ROWS)]
        if self.bandwidth is not None:
            if self.n_neighbors != "auto":
                raise ValueError(
                    f"n_neighbors={self.n_neighbors!r} and bandwidth={self.bandwidth!r} are both "
                    "given; give one of them."
                )
            radii = [self.bandwidth] if self.bandwidth != "auto" else self._bandwidths(data)
            return [RadiusRule(float(h), self.kernel, self.outside) for h in radii]
        if self.n_neighbors == "auto":
            fixed = (_REFERENCE_NEIGHBOR,)
            ladder = sizes or (self._neighbor_candidates() if self._size_is_open() else fixed)
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


def _total_weight(arrays) -> float:
    X, weights = arrays[0], arrays[3]
    return float(X.shape[0] if weights is None else weights.sum())


def _affordable(data: LocalData) -> list[int]:
    """Return the numbers of neighbours to answer with, as far as a prediction may cost."""
    dear = max(160, int(2e6 / data.rows.shape[1] ** 2))
    return [k for k in _SIZES if k <= dear]


def _size_parameter(rule) -> dict:
    """Return the constructor parameter that asks for this size."""
    if isinstance(rule, ForestRule):
        return {}
    if isinstance(rule, RadiusRule):
        return {"bandwidth": rule.bandwidth}
    return {} if rule.loess else {"n_neighbors": int(rule.count)}


def _learn_rounds(metric, X, codes, targets, weights, mask, n_rounds: int) -> list[Coordinates]:
    """Learn a metric on some rows; the gradient metric once for every number of rounds."""
    codes = None if codes is None else codes[mask]
    weights = None if weights is None else weights[mask]
    if n_rounds == 1:
        return [learn_coordinates(metric, X, codes, targets[mask], weights)]
    task = "regression" if codes is None else "classification"
    learned = GradientMetric(n_rounds, task=task, random_state=0)
    return [
        Coordinates(P / learned.scale_[:, None], learned.mean_)
        for P in learned.fit(X, targets[mask], weights).maps_
    ]
