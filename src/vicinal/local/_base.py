"""What the local estimators share: how a fit is settled, and what a user sees of a prediction."""

import copy
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, clone, is_classifier
from sklearn.utils.validation import check_is_fitted

from vicinal._base import HeldOut, Progress, documented, fold_entries, held_out_by_folds
from vicinal._base._compat import HasMethods, Interval, StrOptions, num_samples
from vicinal._base._explanation import ExplainRowMixin
from vicinal._conformal import HeldOutRows, TypicalityMixin, some_rows
from vicinal._kernels.local._smoothing import KERNELS
from vicinal.local._coordinates import METRICS, location_mask, search_metric, sees_labels
from vicinal.local._data import HostEngine, SearchOptions, TrainingTable, is_forest
from vicinal.local._explain import local_sections
from vicinal.local._fits import make_fit
from vicinal.local._forest import FOREST_ROWS, ForestRule
from vicinal.local._gradient_metric import GradientMetric
from vicinal.local._neighborhoods import NearestRule, RadiusRule
from vicinal.local._selection import (
    ALPHAS,
    BANDWIDTHS,
    MAX_ROUNDS,
    NEIGHBORS,
    SMALL,
    Candidate,
    Patience,
    View,
    affordable_sizes,
    best_candidate,
    candidate_answers,
    compare,
    draw_rows,
    label_folds,
    least_loss,
    selection_table,
)
from vicinal.local._solvers import weight_shares

# A good fixed size, and the neighbour whose median distance is the unit of bandwidths tried.
_REFERENCE_NEIGHBOR = 40

SHARED_CONSTRAINTS: dict = {
    "n_neighbors": [
        Interval(Integral, 1, None, closed="left"),
        Interval(Real, 0, 1, closed="right"),
        StrOptions({"auto"}),
    ],
    "bandwidth": [Interval(Real, 0, None, closed="right"), StrOptions({"auto"}), None],
    "kernel": [StrOptions(set(KERNELS)), callable],
    "metric": [StrOptions(METRICS), callable, HasMethods(["fit", "transform"])],
    "metric_params": [dict, None],
    "alpha": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
    "penalty": [StrOptions({"relative", "absolute"})],
    "location_columns": ["array-like", None],
    "algorithm": [StrOptions({"auto", "tree", "brute"})],
    "n_jobs": [Integral, None],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}


@documented
class BaseLocal(TypicalityMixin, ExplainRowMixin, BaseEstimator):
    """Private base of the local estimators.

    A subclass says what is fitted around a query (``_solver(degree)``) and what is left open
    (``_degrees``, ``_alphas``, ``_neighbors``); a fit is then one object, ``_model``.

    Parameters
    ----------
    n_neighbors : int, float or "auto", default="auto"
        Size of the neighbourhood. An integer k puts the (k+1)-th neighbour at the edge of the
        kernel; a fraction in (0, 1] takes that share of the rows (LOESS's rule). ``"auto"`` is
        chosen by leave-one-out from 10 to 640. With sample weights, total weight is counted.
    bandwidth : float, "auto" or None, default=None
        Fixed radius instead of ``n_neighbors``; ``inf`` is the global model, ``"auto"`` is chosen
        by leave-one-out.
    kernel : str or callable, default="tricube"
        ``"uniform"``, ``"epanechnikov"``, ``"tricube"``, ``"gaussian"``, ``"bisquare"``,
        ``"triangular"``, ``"cosine"``, or a function K(u) of the scaled distance. With
        ``n_neighbors`` only those neighbours speak; a Gaussian then has half their radius as its
        standard deviation.
    metric : str, callable or transformer, default="standardized"
        A metric of scikit-learn; ``"standardized"`` (columns scaled to unit variance);
        ``"ranked"`` (columns bent to normal scores, for long tails); for classes
        ``"within_class"`` (whitening by the pooled within-class covariance); ``"gradient"`` (a
        linear map learned from local slopes, see :class:`GradientMetric`); ``"forest"`` or
        ``"extra_forest"`` (rows that share leaves of a random forest or of extremely random trees;
        not at anchors); or a transformer, whose output gives the coordinates of search and fit.
        ``"gradient"`` also chooses the number of rounds; name it with ``GradientMetric(n_rounds)``.
    metric_params : dict, default=None
        Further arguments of the metric; of ``"gradient"`` those of :class:`GradientMetric`.
    alpha : float or "auto", default="auto"
        Ridge penalty on the slopes; 0 is plain least squares. ``"auto"`` is chosen by
        leave-one-out.
    penalty : {"relative", "absolute"}, default="relative"
        ``"relative"`` multiplies ``alpha`` by the mean squared spread of the neighbourhood, which
        makes it free of scale.
    location_columns : array-like, default=None
        Columns (numbers, names or a mask) that give distances; the model is then fitted on the
        other columns: geographically weighted regression. ``None`` uses all columns for both.
    algorithm : {"auto", "tree", "brute"}, default="auto"
        Neighbour search; ``"auto"`` takes a tree where few columns make it faster.
    n_jobs : int, default=None
        Threads; ``None`` uses every core for compiled models.
    random_state : int, RandomState instance or None, default=None
        Draws the rows on which candidates are compared, the folds of what learns from targets, and
        forests.
    verbose : int, default=0
        Show progress of the choice.

    Attributes
    ----------
    n_neighbors_ : int or None
        Number of neighbours in use.
    bandwidth_ : float or None
        Fixed bandwidth in use.
    alpha_ : float
        Penalty in use.
    degree_ : int
        Degree in use.
    metric_ : str, callable or transformer
        Metric in use; a transformer is the fitted one.
    selection_ : dict of ndarray
        Path of the choice: ``metric``, ``degree``, ``size``, ``alpha``, ``loss``; present when
        something was chosen.
    """

    _answered: HeldOutRows | None = None
    _weight_unit = 1.0  # what one row of the first call weighed, where all weighed the same

    # --- how a fit is settled ---

    def _engine(self, X) -> HostEngine:
        """Return what learns coordinates and places rows of NumPy arrays."""
        located = None
        if self.location_columns is not None:
            names = getattr(self, "feature_names_in_", [])
            located = location_mask(self.location_columns, X.shape[1], names)
        metric = search_metric(self.metric)
        params = self.metric_params if metric == self.metric else None
        search = SearchOptions(metric, params, self.algorithm, self.n_jobs)
        return HostEngine(search, located, self.random_state)

    def _settle(self, table: TrainingTable, engine) -> None:
        """Choose what was left open, by leaving rows out, and keep the model."""
        degrees, alphas = self._degrees(table), self._alphas()
        is_open = len(degrees) * len(alphas) > 1 or self._size_is_open() or self._is_gradient()
        if not is_open:
            data = engine.rows(table, engine.learn(table, self.metric))
            rule = self._rules(data)[0]
            self._keep(data, engine, self.metric, rule, degrees[0], alphas[0])
            return
        rows = draw_rows(table.n_samples, self.random_state)
        candidates, data = self._compare(table, engine, rows, degrees, alphas)
        best = best_candidate(candidates)
        self.selection_ = selection_table(candidates)
        self.loo_score_ = best.loss
        if data is None:
            data = engine.rows(table, engine.learn(table, best.metric))
        self._keep(data, engine, best.metric, best.rule, best.degree, best.alpha)

    def _compare(self, table, engine, rows, degrees, alphas) -> tuple[list[Candidate], Any]:
        """Return all candidates, and the rows under a metric that did not look at the labels."""
        candidates: list[Candidate] = []
        patience, data = Patience(), None
        label = f"{type(self).__name__} leave-one-out"
        with Progress(self._n_metrics(table) * len(degrees), label, verbose=self.verbose) as shown:
            for metric, views in self._views(table, engine, self.metric, rows):
                views = list(views)
                data = None if sees_labels(self.metric) else views[0].data
                found = []
                for degree in degrees:
                    solver = engine.solver(self._solver(degree), table.X)
                    factor = self._factor(table)
                    shared = (self._rules, solver, alphas, factor, table.sample_weight)
                    found += compare(metric, views, *shared)
                    shown.advance(note=f"least loss {min(c.loss for c in found):.4g}")
                candidates += found
                if patience.ends_with(min(candidate.loss for candidate in found)):
                    break
        return candidates, data

    def _keep(self, data, engine, metric, rule, degree: int, alpha: float) -> None:
        """Keep the model of one setting and what users ask of it."""
        solver = engine.solver(self._solver(degree), data.rows)
        outside = self._outside(data)
        self._model = make_fit(data, rule, solver, alpha, outside, self._factor(data))
        self.metric_ = metric if data.learned is None else data.learned
        self.alpha_ = float(alpha)
        self.degree_ = degree
        self.n_neighbors_ = int(rule.count) if isinstance(rule, NearestRule) else None
        self.bandwidth_ = float(rule.bandwidth) if isinstance(rule, RadiusRule) else None

    def _outside(self, data) -> Any:
        """Return the answer where no row is near."""
        return data.targets.prior(data.sample_weight)

    def _factor(self, data) -> Any:
        """Return factors on the weights of training rows, if any."""
        return None

    # --- what is left open ---

    def _is_gradient(self) -> bool:
        return isinstance(self.metric, str) and self.metric == "gradient"

    def _n_metrics(self, table: TrainingTable) -> int:
        if not self._is_gradient():
            return 1
        return MAX_ROUNDS if table.n_samples >= SMALL else MAX_ROUNDS // 2

    def _size_is_open(self) -> bool:
        if is_forest(self.metric):
            return False
        if self.bandwidth is None:
            return isinstance(self.n_neighbors, str)
        return isinstance(self.bandwidth, str)

    def _degrees(self, table: TrainingTable) -> list[int]:
        return [self.degree]

    def _alphas(self) -> list[float]:
        return list(ALPHAS) if isinstance(self.alpha, str) else [float(self.alpha)]

    def _neighbors(self) -> tuple[int, ...]:
        return NEIGHBORS

    def _rules(self, data) -> list:
        """Return the neighbourhood sizes to compare, ascending; one if the user named it."""
        if is_forest(self.metric):
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
            sizes = self._neighbors() if self._size_is_open() else (_REFERENCE_NEIGHBOR,)
            counts = affordable_sizes(sizes, data.total_weight, data.n_columns)
            return [NearestRule(float(k), self.kernel) for k in counts]
        return [self._nearest_rule(self.n_neighbors, data.total_weight)]

    def _bandwidths(self, data) -> list[float]:
        rows = draw_rows(data.n_samples, self.random_state, 500)
        m = min(data.n_samples, _REFERENCE_NEIGHBOR + 1)
        distances, _ = data.index.nearest(data.index.X[rows], m)
        reference = float(np.median(distances[:, -1]))
        return [factor * (reference or 1.0) for factor in BANDWIDTHS]

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

    def _is_relative(self) -> bool:
        return self.penalty == "relative"

    # --- rows that a metric did not see ---

    def _views(self, table: TrainingTable, engine, metric, rows, folds=None, entries=None):
        """Yield (metric, views) for every metric to compare: one, or one per round of slopes.

        A metric that learns from labels is learned once per fold, without the fold; neighbours are
        searched among all rows as at prediction.
        """
        if not sees_labels(metric):
            data = engine.rows(table, engine.learn(table, metric))
            yield metric, [View(data, rows, np.arange(len(rows)))]
            return
        if folds is None or entries is None:
            folds = label_folds(table.n_samples, table.groups, self.random_state)
            entries = fold_entries(folds, rows)
        starts = np.cumsum([0] + [len(part) for part in entries])
        places = [
            np.arange(start, start + len(e)) for start, e in zip(starts, entries, strict=False)
        ]
        learned = [self._learned(engine, engine.others(table, fold), metric) for fold in folds]
        for r, coordinates in enumerate(zip(*learned, strict=False)):
            yield (
                self._round(metric, table, r + 1),
                (
                    View(engine.rows(table, one), own, place)
                    for one, own, place in zip(coordinates, entries, places, strict=True)
                    if len(own)
                ),
            )

    def _learned(self, engine, table: TrainingTable, metric) -> Iterable:
        """Return the coordinates of a metric; those after each round of ``"gradient"``, in turn."""
        if isinstance(metric, str) and metric == "gradient":
            return engine.learn_rounds(table, self._round(metric, table, self._n_metrics(table)))
        return [engine.learn(table, metric)]

    def _round(self, metric, table: TrainingTable, n_rounds: int):
        """Return the metric of a number of rounds."""
        if not (isinstance(metric, str) and metric == "gradient"):
            return metric
        task = "classification" if table.targets.are_labels else "regression"
        settings = {"task": task, "n_jobs": self.n_jobs, "random_state": 0}
        return GradientMetric(n_rounds, **settings | (self.metric_params or {}))

    # --- answers of every candidate ---

    def held_out(self, X, y, *, folds=None, rows=None, sample_weight=None, groups=None):
        """Return what every candidate says of training rows that it did not see.

        Candidates are the settings among which ``fit`` chooses: sizes, penalties, degrees and, with
        ``metric="gradient"``, numbers of rounds, until two of them gain nothing. A row is left out
        of its own neighbourhood, forests ask the trees that did not draw it, and a metric that
        learns from labels learns from the other folds. With an ``estimator`` that no compiled code
        computes, copies of this model are fitted to the rows outside each fold.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Labels or targets.
        folds : sequence of ndarray of int, default=None
            Rows of each fold; a row of several folds is answered in each of them. ``None`` draws
            five folds.
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
        table, engine = model._read(X, y, sample_weight, groups)
        if table.n_samples != len(y):
            raise ValueError(
                f"sample_weight is zero for {len(y) - table.n_samples} rows; held_out answers row "
                "by row, so leave those rows out of X and y first."
            )
        if folds is None:
            folds = label_folds(table.n_samples, table.groups, model.random_state)
        if not model._solver(1).is_compiled:
            method = "predict_proba" if is_classifier(model) else "predict"
            weights = None if sample_weight is None else np.asarray(sample_weight)
            return held_out_by_folds(
                model, X, np.asarray(y), folds, sample_weight=weights, method=method, rows=rows
            )
        entries = fold_entries(folds, rows)
        order = np.concatenate(entries)
        candidates: list[dict] = []
        answers: list[np.ndarray] = []
        settings: list[tuple] = []
        patience = Patience()
        for metric, views in model._views(table, engine, model.metric, order, folds, entries):
            views, losses = list(views), []
            for degree in model._degrees(table):
                solver = engine.solver(model._solver(degree), table.X)
                alphas = model._alphas()
                rules, said = candidate_answers(
                    views, model._rules, solver, alphas, model._factor(table)
                )
                candidates += model._parameters(metric, degree, rules, alphas)
                losses.append(least_loss(said, order, table))
                said, temperatures = model._as_answers(said, solver, order, table)
                answers.append(said)
                data = None if sees_labels(metric) else views[0].data
                pairs = [(rule, alpha) for rule in rules for alpha in alphas]
                settings += [
                    (data, metric, rule, degree, alpha, temperature)
                    for (rule, alpha), temperature in zip(pairs, temperatures, strict=True)
                ]
            if patience.ends_with(min(losses)):
                break

        def fitted(c: int, *rows):
            data, *setting = settings[c]
            read = (table, engine, data)
            if rows:
                read = (*model._read(*rows, None), None)
            return model._as_candidate(candidates[c], *read, *setting)

        # Models that store more than rows and a setting say nothing of how to complete one.
        is_complete = hasattr(model, "_complete")
        return HeldOut(candidates, order, np.concatenate(answers), fitted if is_complete else None)

    def _as_candidate(self, parameters, table, engine, data, *setting):
        """Return a copy fitted with one setting; ``data`` are rows in its metric, if known."""
        metric, rule, degree, alpha, temperature = setting
        one = copy.copy(self).set_params(**parameters)
        if data is None:
            data = engine.rows(table, engine.learn(table, metric))
        one._keep(data, engine, metric, rule, degree, alpha)
        one._complete(temperature)
        return one

    def _parameters(self, metric, degree, rules, alphas) -> list[dict]:
        """Return the constructor parameters of every size and penalty."""
        known = self.get_params(deep=False)
        return [
            {
                name: value
                for name, value in {
                    "metric": metric,
                    "degree": degree,
                    "alpha": alpha,
                    **_size_parameter(rule),
                }.items()
                if name in known
            }
            for rule in rules
            for alpha in alphas
        ]

    # --- what a user sees of a prediction ---

    def _queries(self, X):
        """Return checked queries."""
        check_is_fitted(self)
        return self._model.data.validate(self, X)

    def _shaped(self, values) -> Any:
        """Drop the output axis of a single target and restore the precision of the input."""
        data = self._model.data
        return data.as_given(values if data.targets.is_multi_output else values[:, 0, ...])

    def _known_rows(self) -> HeldOutRows:
        """Return training rows in coordinates of the search."""
        if self._answered is None:
            data = self._model.data
            data.check_host("Held-out answers")
            by_leaves = data.placement.by_leaves
            rows = some_rows(data.n_samples)
            targets = data.targets.codes if data.targets.are_labels else data.targets.columns
            self._answered = HeldOutRows(
                (data.rows if by_leaves else data.index.X)[rows],
                None,
                targets[rows],
                None if data.sample_weight is None else data.sample_weight[rows],
                self.n_jobs,
                are_coordinates=not by_leaves,
                groups=None if data.groups is None else data.groups[rows],
            )
        return self._answered

    def _held_out_rows(self) -> HeldOutRows:
        """Return the same rows, each answered by all others."""
        found = self._known_rows()
        if found.answers is None:
            found.answers = self._left_out(some_rows(self._model.data.n_samples))
        return found

    def _row_numbers(self, X):
        data = self._model.data
        return data.locate(self._queries(X))[1 if data.placement.by_leaves else 0]

    def _sections(self, X, columns):
        return local_sections(self, X, columns)

    def neighbors(self, X):
        """Return the rows around each query and their weights.

        Returns
        -------
        weights : CSR matrix of shape (n_queries, n_samples)
            Smoothing weight of each training row (rows of zero sample weight are not counted);
            zero weights are not stored. Of anchored models: weight of each anchor, shape
            (n_queries, n_anchors).
        """
        X = self._queries(X)
        return self._model.weights(X)

    def effective_sample_size(self, X):
        r"""Return how many equally weighted rows each local model is worth.

        Returns
        -------
        ndarray of shape (n_queries,)
            :math:`(\sum_i w_i)^2 / \sum_i w_i^2`; of anchored models, over the anchors blended.
        """
        X = self._queries(X)
        self._model.data.check_host("Effective sample sizes")
        out = np.zeros(num_samples(X))
        for block, _, found in self._model.localized(X):
            share = weight_shares(found)
            owner = np.repeat(np.arange(found.n_queries), found.sizes())
            square = np.bincount(owner, share**2, minlength=found.n_queries)
            out[block] = np.divide(1.0, square, out=np.zeros_like(square), where=square > 0.0)
        return out

    @property
    def coordinates_(self):
        """Map from the columns that locate a row to the coordinates of the search.

        An object with ``matrix``, ``mean``, ``transformer`` and ``warp``, those that are in use;
        called with rows it returns their coordinates.
        """
        check_is_fitted(self)
        return self._model.data.placement.coordinates

    @property
    def location_mask_(self):
        """Which columns locate a row; ``None`` where all do and models are fitted on all."""
        check_is_fitted(self)
        return self._model.data.placement.located


def _size_parameter(rule) -> dict:
    """Return the constructor parameter that asks for this size."""
    if isinstance(rule, ForestRule):
        return {}
    if isinstance(rule, RadiusRule):
        return {"bandwidth": rule.bandwidth}
    return {} if rule.loess else {"n_neighbors": int(rule.count)}
