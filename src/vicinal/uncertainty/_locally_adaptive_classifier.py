"""Locally adaptive classification piloted by uncertainty: one metric per component."""

import warnings
from numbers import Integral, Real
from typing import NamedTuple

import array_api_compat as compat
import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from vicinal._base import (
    Progress,
    as_numpy,
    atomic_fit,
    atomic_fit_blocks,
    check_neighbor_count,
    check_same_library,
    check_weights,
    documented,
    draw_seeds,
    encode_labels,
    hold_out,
    n_threads,
    saved,
    thread_map,
)
from vicinal._base._compat import Interval, StrOptions
from vicinal._base._explanation import ExplainRowMixin
from vicinal._kernels.linear._covariance import class_covariances, whitening_map
from vicinal._kernels.metric._block_map import block_threads, one_blas_thread, one_thread_each
from vicinal._kernels.metric._mixture import COVARIANCE_TYPES
from vicinal._kernels.metric._soft_votes import nearest_votes, soft_votes
from vicinal.uncertainty._adaptive_blocks import fit_adaptive
from vicinal.uncertainty._base import merge_copies, validate_labels, validate_rows
from vicinal.uncertainty._explain import adaptive_sections
from vicinal.uncertainty._metric_problem import (
    MetricFit,
    MetricProblem,
    SortedRows,
    best_start,
    fit_metrics,
    nearest_scale,
)
from vicinal.uncertainty._responsibility_mixture import ResponsibilityMixture
from vicinal.uncertainty._uncertainty_map import _map_of_codes

_CANDIDATES = (1, 4)
# Coordinates that init="auto" tries: from whitened to merely standardised, and those in which the
# scatter within classes is round. The first is init="whiten".
_WHITENINGS = (
    {"shrinkage": 0.0},
    {"shrinkage": 0.1},
    {"shrinkage": 1.0},
    {"shrinkage": 100.0},
    {"within": True, "shrinkage": 0.01},
    {"within": True, "shrinkage": 0.1},
    {"within": True, "shrinkage": 1.0},
)
# Iterations that all components spend together on one metric. A few are enough to leave a poor
# start; from a metric that is already sharp the components would not move apart.
_SHARED_ITERATIONS = 3
# Rows by which starts are scored: so many at most, and rows held out only if so many at least.
_MAX_SCORED = 2000
_MIN_HELD_OUT = 100
# Added to probabilities before their logarithm: one hopeless row must not decide.
_FLOOR = 1e-3
# Components that answer less than this for a query are not asked.
_LEAST_VOTE = 1e-12


class _Split(NamedTuple):
    """Rows to learn from, and rows to watch."""

    train: SortedRows
    held_out: SortedRows | None


class _Model(NamedTuple):
    """One number of components, learned on one split."""

    mixture: ResponsibilityMixture
    fit: MetricFit
    gain: float


@saved(
    classes_="c labels",
    mean_="p",
    whitening_="r p",
    _matrices="m * r",
    metrics_="m * p",
    _numbers="c <c",
    **{"_voters.bounds": "c+1", "_voters.X": "n r"},
)
@documented
class LocallyAdaptiveClassifier(ExplainRowMixin, ClassifierMixin, BaseEstimator):
    r"""Soft nearest neighbours in several learned metrics, placed where classes mix (LCU).

    A :class:`ResponsibilityMixture` of the whitened rows, weighted by their uncertainty, divides
    the space; each component learns its own linear metric from how the rows classify one another;
    a query asks all components and weighs their votes by responsibility. With one component
    and the accuracy as objective it is neighbourhood components analysis (NCA).

    Use it where nearest neighbours do well and one metric does not fit everywhere. Rows held out
    decide when learning stops, since rising accuracy on the training rows is no evidence.

    Read more in the :doc:`user guide </guide/uncertainty>`.

    Parameters
    ----------
    n_regions : int or "auto", default="auto"
        Number of local metrics. ``"auto"`` takes 4 if rows held out do better with them than with
        one metric.
    n_components : int, default=None
        Rows of each metric: it maps into that many dimensions. ``None``: as many as the features
        have independent directions.
    objective : {"likelihood", "accuracy"}, default="likelihood"
        What the metrics maximise, averaged over the rows: the logarithm of p, the probability of a
        row's class by the votes of the others (a thousandth is added, so that one hopeless row
        cannot decide), or p itself, the rule of the source. The latter gains by looking at ever
        fewer neighbours, since votes that are too sure of themselves cost it nothing.
    solver : {"lbfgs", "adam", "anneal"}, default="lbfgs"
        How the objective is maximised: quasi-Newton steps; Adam on batches of rows, where an
        iteration is a pass over the data; simulated annealing as in the source.
    init : {"auto", "whiten"} or array-like of shape (n_components, n_features), default="auto"
        First metric of all components. ``"whiten"``: unit covariance, in units of the mean distance
        to the nearest neighbour. ``"auto"``: also whitening with some shrinkage, mere
        standardisation, and unit covariance within classes, and several scales; the one whose soft
        votes give the rows held out the greatest likelihood before any learning. Steps are taken in
        the coordinates of the start; with a given map, in whitened ones.
    neighbors : "soft" or int, default="soft"
        Votes of all rows, falling with distance, or of that many nearest ones in each metric.
    placement : {"uncertainty", "density"}, default="uncertainty"
        What the components follow: the uncertainty of the rows, or the rows alone.
    covariance_type : {"full", "tied", "diag", "spherical"}, default="tied"
        Covariances of the mixture.
    early_stopping : bool, default=True
        Stop when rows held out no longer gain, and keep the best metrics by them.
    validation_fraction : float, default=0.1
        Part of the rows to hold out, by class; used if ``early_stopping`` is set or
        ``n_regions`` is ``"auto"``, unless ``fit`` is given ``X_val``.
    n_splits : int, default=4
        How often rows are held out. Each time others are, and each component learns another metric
        from the rest; the votes in all of them are averaged, which is steadier than those in one.
        Without effect if no rows are held out, or with ``X_val``.
    n_iter_no_change : int, default=5
        Iterations without gain on the rows held out before learning stops.
    max_iter : int, default=100
        Most iterations. With several components, the first three go to a metric they share.
    tol : float, default=1e-5
        L-BFGS stops when the relative gain falls below, and a smaller gain on the rows held out
        counts as none.
    n_jobs : int, default=None
        Threads of the compiled loops; ``None`` is every core. Results do not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of the rows held out, the mixture's starts, batches and annealing.

    Attributes
    ----------
    metrics_ : array of shape (`n_splits_` * `n_regions_`, n_components, n_features)
        Local metrics: the distance of component k is ``norm(metrics_[k] @ (x - x_i))``, as learned
        in the first split; those of the next one follow. One of them can be handed to other models,
        e.g. as the metric of a local classifier.
    n_regions_ : int
        Number of components.
    n_splits_ : int
        Number of metrics of each component.
    mixture_ : ResponsibilityMixture
        Mixture of the rows in the coordinates of the start, ``(x - mean_) @ whitening_.T``.
    uncertainty_ : ndarray of shape (n_samples,)
        Uncertainty of each training row in the coordinates of the start; NaN for rows of
        weight zero and rows held out in the first split.
    objective_ : float
        The objective at its end: the mean over the rows learned from and the splits. With
        ``objective="accuracy"``, the leave-one-out accuracy expected, G / N.
    validation_score_ : float
        The objective on the rows held out, the mean of the splits; NaN if none were.
    objective_paths_ : list of ndarray
        What was watched at each iteration, per metric (per split for annealing, which moves all
        components together).
    n_iter_ : int
        Iterations, of the component that took most.
    mean_ : array of shape (n_features,)
        Mean of the training rows.
    whitening_ : array of shape (rank, n_features)
        Map to the coordinates of the start.

    See Also
    --------
    ResponsibilityMixture : The mixture that places the components.
    uncertainty_map : What it is weighted by.
    sklearn.neighbors.NeighborhoodComponentsAnalysis : One metric, without blocks or early stopping.

    Notes
    -----
    With responsibilities :math:`r_{ik}` fixed, each component of the source maximises its part of

    .. math:: G = \sum_i \sum_k r_{ik} \sum_{j \ne i,\, c_j = c_i} p_{ij}^k, \qquad
        p_{ij}^k = \frac{\exp(-\|A^k (x_i - x_j)\|^2)}{\sum_{o \ne i} \exp(-\|A^k (x_i - x_o)\|^2)},

    equations (6) and (7) of [1]_; :math:`G` is the leave-one-out accuracy expected of the rule that
    :meth:`predict_proba` uses. Its gradient, equation (8) with the sign that print lost, is
    :math:`2 A^k \sum_{ij} w_{ij} x_{ij} x_{ij}^\top`, :math:`w_{ij} = r_{ik} (p_i p_{ij} -
    [c_i = c_j] p_{ij})`. By default :math:`\log\frac{p_i^k + \epsilon}{1 + \epsilon}` stands in
    place of :math:`p_i^k`, the sum of its :math:`p_{ij}^k` of the own class: but for the
    :math:`\epsilon`, a lower bound of the log-likelihood of the mixed votes. Its gradient has
    :math:`w_{ij} / (p_i^k + \epsilon)`. The gradient is A times a scatter, so features of large
    variance would take the whole step: rows are brought to the coordinates of the start first,
    always.

    A row of sample weight v counts v times in :math:`G` and as a voter, but is never its own
    neighbour. Equal rows of the same class are merged into one of their total weight, so neither
    repetition nor the order of the rows changes anything.

    One gradient takes :math:`O(N^2 (q + m))` operations in single precision, in blocks of rows:
    memory does not grow with :math:`N^2`. Neighbourhoods are truncated: of a sum over N rows, those
    below 1e-6 / N of the nearest one's part are left out (1e-14 / N in double precision, for
    predictions of float64 rows), which changes it by less than rounding; once a metric is sharp,
    only the distances are left to pay for. Torch tensors (any array of the array-API standard) are
    worked on where they are, whole; only matrices of the size of a metric travel.

    References
    ----------
    .. [1] J. Dai, S. Yan, X. Tang and J. T. Kwok, "Locally adaptive classification piloted by
       uncertainty", ICML 2006.
    .. [2] J. Goldberger, S. Roweis, G. Hinton and R. Salakhutdinov, "Neighbourhood components
       analysis", NeurIPS 2004.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.model_selection import train_test_split
    >>> from vicinal.uncertainty import LocallyAdaptiveClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
    >>> model = LocallyAdaptiveClassifier(1, random_state=0).fit(X_train, y_train)
    >>> model.score(X_test, y_test) > 0.9
    True
    >>> model.metrics_.shape  # one component, four splits
    (4, 13, 13)
    """

    _parameter_constraints = {
        "n_regions": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "objective": [StrOptions({"likelihood", "accuracy"})],
        "solver": [StrOptions({"lbfgs", "adam", "anneal"})],
        "init": [StrOptions({"auto", "whiten"}), "array-like"],
        "neighbors": [StrOptions({"soft"}), Interval(Integral, 1, None, closed="left")],
        "placement": [StrOptions({"uncertainty", "density"})],
        "covariance_type": [StrOptions(set(COVARIANCE_TYPES))],
        "early_stopping": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_splits": [Interval(Integral, 1, None, closed="left")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "n_jobs": [Integral, None],
        "verbose": ["verbose"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_regions="auto",
        *,
        n_components=None,
        objective="likelihood",
        solver="lbfgs",
        init="auto",
        neighbors="soft",
        placement="uncertainty",
        covariance_type="tied",
        early_stopping=True,
        validation_fraction=0.1,
        n_splits=4,
        n_iter_no_change=5,
        max_iter=100,
        tol=1e-5,
        n_jobs=None,
        verbose=0,
        random_state=None,
    ):
        self.n_regions = n_regions
        self.n_components = n_components
        self.objective = objective
        self.solver = solver
        self.init = init
        self.neighbors = neighbors
        self.placement = placement
        self.covariance_type = covariance_type
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_splits = n_splits
        self.n_iter_no_change = n_iter_no_change
        self.max_iter = max_iter
        self.tol = tol
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.random_state = random_state

    @atomic_fit
    def fit(self, X, y, sample_weight=None, X_val=None, y_val=None):
        """Place the components and learn their metrics.

        Parameters
        ----------
        X_val : array-like of shape (n_val, n_features), default=None
            Rows to hold out, instead of a part of ``X``. Take them like the data to come: other
            days, other speakers, other lightings than those learned from.
        y_val : array-like of shape (n_val,), default=None
            Their labels.
        """
        X, codes, weights, kinds = self._validate(X, y, sample_weight)
        rng = check_random_state(self.random_state)
        learned, validation = self._hold_out(X, codes, weights, X_val, y_val, rng)
        self.n_splits_ = 1 if validation is None or X_val is not None else self.n_splits
        with one_blas_thread():
            self._choose_coordinates(X, codes, weights, learned, validation, rng)
            rows = self._single(X)
            u, importance = self._uncertainty(rows, codes, weights, learned)
            self.uncertainty_ = np.append(u, np.nan)[kinds]
            seeds = draw_seeds(rng, 1 + self.n_splits_)
            splits = [self._split(rows, codes, weights, learned, validation)]
            for _ in range(1, self.n_splits_):
                again = self._hold_out(X, codes, weights, None, None, rng)
                splits.append(self._split(rows, codes, weights, *again))
            models = self._learn(splits, importance, self._first_matrix(splits[0].train), seeds)
            voters = SortedRows.of(self._whiten(X), codes, weights, np.arange(len(codes)))
            self._voters = voters.as_references(len(self.classes_))
            self._store(models, validation is not None, dtype=X.dtype)
        return self

    @atomic_fit_blocks
    def fit_blocks(self, blocks):
        """Fit to a table in blocks of rows.

        A sample of 20,000 rows is fitted as in memory and votes; further rows correct the metrics.
        """
        fit_adaptive(self, blocks)

    def predict_proba(self, X):
        """Return the probability of each class.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Votes of all components, weighed by their responsibility for the query.
        """
        check_is_fitted(self)
        X = validate_rows(self, X, reset=False)
        check_same_library(self.mean_, X)
        xp = compat.array_namespace(X)
        rows = self._whiten(X)
        total = self._mix_votes(rows, self._shares(rows))
        total = xp.take(total, xp.asarray(self._numbers, device=compat.device(X)), axis=1)
        return total / xp.sum(total, axis=1, keepdims=True)

    def predict(self, X):
        """Return the most probable class."""
        probabilities = as_numpy(self.predict_proba(X))
        return self.classes_[probabilities.argmax(axis=1)]

    def score_samples(self, X):
        """Return the log density of the mixture, small where no component is near.

        Returns
        -------
        array of shape (n_samples,)
            Log density in whitened coordinates. Far from all components responsibilities turn
            one-hot and the answer becomes that of the nearest row.
        """
        check_is_fitted(self)
        X = validate_rows(self, X, reset=False)
        check_same_library(self.mean_, X)
        return self.mixture_.score_samples(self._whiten(X))

    # --- steps of fit -----------------------------------------------------------------------------

    def _validate(self, X, y, sample_weight):
        X = validate_rows(self, X, reset=True, ensure_min_samples=2)
        y = validate_labels(y, X)
        if sample_weight is not None:
            sample_weight = as_numpy(sample_weight)
        weights = check_weights(sample_weight, np.empty((X.shape[0], 1)))
        seen = np.flatnonzero(weights > 0)
        self.classes_, codes = encode_labels(y[seen])
        xp, device = compat.array_namespace(X), compat.device(X)
        rows = X if len(seen) == len(y) else xp.take(X, xp.asarray(seen, device=device), axis=0)
        first, kind, weights = merge_copies(rows, codes, weights[seen])
        if self.neighbors != "soft":
            check_neighbor_count(self.neighbors, len(first), name="neighbors")
        # Which distinct row each given row is; -1 where its weight is zero.
        kinds = np.full(len(y), -1)
        kinds[seen] = kind
        codes = codes[first]
        # Inside, classes are numbered as they appear, so that their names decide nothing.
        self._numbers = np.argsort(np.argsort([np.argmax(codes == c) for c in np.unique(codes)]))
        distinct = xp.take(rows, xp.asarray(first, device=device), axis=0)
        return distinct, self._numbers[codes], weights, kinds

    def _choose_coordinates(self, X, codes, weights, learned, validation, rng):
        """Find the coordinates in which learning starts from a multiple of the identity."""
        xp, device = compat.array_namespace(X), compat.device(X)
        n_classes = len(self.classes_)
        index = xp.asarray(learned, device=device)
        found = class_covariances(
            xp.take(X, index, axis=0), codes[learned], weights[learned], n_classes
        )
        if not np.isfinite(found.scale).any():
            raise ValueError("all rows of X are equal; there is no direction to learn a metric in.")
        self.mean_ = xp.asarray(found.mean, dtype=X.dtype, device=device)
        precision = float(xp.finfo(X.dtype).eps)

        def whitening_of(settings):
            found_map = whitening_map(found, precision=precision, **settings)
            return xp.asarray(found_map, dtype=X.dtype, device=device)

        if not (isinstance(self.init, str) and self.init == "auto"):
            self.whitening_, self._start_scale = whitening_of(_WHITENINGS[0]), None
            return
        if validation is not None and len(validation.codes) < _MIN_HELD_OUT:
            validation = None
        n = len(learned) if validation is None else len(validation.codes)
        scored = np.sort(rng.choice(n, min(n, _MAX_SCORED), replace=False))
        best = -np.inf
        for settings in _WHITENINGS:
            trial = whitening_of(settings)
            train, watched = (
                rows and rows._replace(X=xp.astype((rows.X - self.mean_) @ trial.T, xp.float32))
                for rows in (SortedRows.of(X, codes, weights, learned), validation)
            )
            score, scale = best_start(train, watched, scored, n_classes, self.n_jobs)
            if score > best:
                best, self.whitening_, self._start_scale = score, trial, scale

    def _whiten(self, X):
        return (X - self.mean_[None, :]) @ self.whitening_.T

    def _single(self, X):
        """Rows in the coordinates of learning, in single precision."""
        xp = compat.array_namespace(X)
        return xp.astype(self._whiten(X), xp.float32)

    def _hold_out(self, X, codes, weights, X_val, y_val, rng):
        """Return the rows to learn from and, sorted, the rows to watch (or None)."""
        everyone = np.arange(len(codes))
        if X_val is not None:
            if y_val is None:
                raise ValueError("X_val was given without y_val; give the labels of its rows.")
            X_val = validate_rows(self, X_val, reset=False)
            check_same_library(X, X_val)
            labels = validate_labels(y_val, X_val)
            unknown = np.setdiff1d(labels, self.classes_)
            if len(unknown):
                raise ValueError(f"y_val holds labels that y does not: {unknown.tolist()!r}.")
            held_out = SortedRows.of(
                X_val,
                self._numbers[np.searchsorted(self.classes_, labels)],
                np.ones(len(labels)),
                np.arange(len(labels)),
            )
            return everyone, held_out
        if y_val is not None:
            raise ValueError("y_val was given without X_val; give the rows that it labels.")
        if not (self.early_stopping or self.n_regions == "auto"):
            return everyone, None
        mask = hold_out(codes, self.validation_fraction, rng)
        if not mask.any():
            return everyone, None
        return everyone[~mask], SortedRows.of(X, codes, weights, everyone[mask])

    def _split(self, rows, codes, weights, learned, validation) -> _Split:
        held_out = validation and validation._replace(X=self._single(validation.X))
        return _Split(SortedRows.of(rows, codes, weights, learned), held_out)

    def _uncertainty(self, rows, codes, weights, learned):
        """Uncertainty of the rows learned from, NaN for others; and the importance of rows."""
        xp, device = compat.array_namespace(rows), compat.device(rows)
        index = xp.asarray(learned, device=device)
        u = as_numpy(
            _map_of_codes(
                xp.take(rows, index, axis=0), codes[learned], weights[learned], n_jobs=self.n_jobs
            )
        )
        everywhere = np.full(rows.shape[0], np.nan)
        everywhere[learned] = u
        importance = weights[learned] * (u if self.placement == "uncertainty" else 1.0)
        order = np.argsort(codes[learned], kind="stable")
        return everywhere, importance[order]

    def _first_matrix(self, train):
        """Return the start in whitened coordinates, in units of the distance to a neighbour."""
        rank = train.X.shape[1]
        if not isinstance(self.init, str):
            given = np.asarray(as_numpy(self.init), dtype=np.float64)
            if given.ndim != 2 or given.shape[1] != self.n_features_in_:
                raise ValueError(
                    f"init has shape {given.shape}; expected (n_components, "
                    f"{self.n_features_in_}), a map of the features."
                )
            if self.n_components not in (None, len(given)):
                raise ValueError(
                    f"init maps into {len(given)} dimensions, but n_components="
                    f"{self.n_components}; leave n_components out, or give as many rows of init."
                )
            return given @ np.linalg.pinv(as_numpy(self.whitening_).astype(np.float64))
        n_out = rank if self.n_components is None else self.n_components
        if n_out > rank:
            raise ValueError(
                f"n_components={n_out} exceeds the {rank} independent directions of X; lower it."
            )
        if self._start_scale is None:
            return np.eye(n_out, rank) / np.sqrt(nearest_scale(train, self.n_jobs))
        return np.eye(n_out, rank) * self._start_scale

    def _learn(self, splits, importance, start, seeds) -> list[_Model]:
        """Learn the metrics of every split, for the number of components that is best in the first.

        Placement is that of the first split: where components stand exactly matters little.
        """
        counts = self._region_counts(len(splits[0].train.codes))
        threads = n_threads(block_threads(splits[0].train.X, self.n_jobs))
        mixtures = [self._place(splits[0].train, importance, k, seeds[0]) for k in counts]
        steps = (sum(counts) + (len(splits) - 1) * max(counts)) * self.max_iter
        with Progress(steps, type(self).__name__, verbose=self.verbose) as progress:

            def fit_on(split, seed, mixtures, n_jobs):
                options = self._solver_options(progress, np.random.RandomState(seed), n_jobs)
                return self._fit_metrics(split, mixtures, start, options)

            first = fit_on(splits[0], seeds[1], mixtures, threads)
            best = max(first, key=lambda model: model.fit.score)
            # Splits are learned side by side; threads that are left share their components.
            each = max(1, threads // max(1, len(splits) - 1))
            others = thread_map(
                lambda task: fit_on(task[0], task[1], [best.mixture], each)[0],
                zip(splits[1:], seeds[2:], strict=True),
                threads,
            )
        return [best, *others]

    def _region_counts(self, n_rows) -> tuple[int, ...]:
        """Return the numbers of components to try, none above that of the rows learned from."""
        if self.n_regions == "auto":
            return tuple(k for k in _CANDIDATES if k <= n_rows)
        if self.n_regions > n_rows:
            raise ValueError(
                f"n_regions={self.n_regions} exceeds the {n_rows} different rows that are learned "
                "from; lower n_regions, or give more rows."
            )
        return (self.n_regions,)

    def _fit_metrics(self, split, mixtures, start, options) -> list[_Model]:
        """Learn one metric per component of each mixture; several start from one they share."""
        is_alone = [mixture.n_components == 1 for mixture in mixtures]
        n_shared = min(_SHARED_ITERATIONS, max(1, self.max_iter // 3))
        everyone = [np.ones((len(rows.codes), 1)) for rows in split if rows is not None]
        problems = self._problems(split, everyone, options["n_jobs"])
        single = fit_metrics(problems, start, self.max_iter if any(is_alone) else n_shared, options)
        shared = single.iterates[int(single.paths[0][: n_shared + 1].argmax())]
        models = []
        for mixture, alone in zip(mixtures, is_alone, strict=True):
            found = single
            if not alone:
                xp = compat.array_namespace(split.train.X)
                shares = [
                    as_numpy(mixture.predict_proba(xp.astype(rows.X, xp.float64)))
                    for rows in split
                    if rows is not None
                ]
                problems = self._problems(split, shares, options["n_jobs"])
                found = fit_metrics(problems, shared, max(1, self.max_iter - n_shared), options)
            models.append(_Model(mixture, found, _gain(problems, found)))
        return models

    def _problems(self, split, shares, n_jobs) -> list[MetricProblem]:
        """Return one problem per component; shares are of the rows learned from, and watched."""
        train, held_out = split
        n_regions = shares[0].shape[1]
        return [
            MetricProblem(
                train,
                held_out,
                len(self.classes_),
                shares[0][:, k],
                None if held_out is None else shares[1][:, k],
                self._floor(),
                # Components are learned side by side; threads that are left share their rows.
                max(1, n_jobs // n_regions),
            )
            for k in range(n_regions)
        ]

    def _floor(self) -> float | None:
        return _FLOOR if self.objective == "likelihood" else None

    def _solver_options(self, progress, random_state, n_jobs):
        return {
            "n_jobs": n_jobs,
            "solver": self.solver,
            "patience": self.n_iter_no_change if self.early_stopping else None,
            "tol": self.tol,
            "random_state": random_state,
            "progress": lambda score: progress.advance(note=f"{self.objective} {score:.4f}"),
        }

    def _place(self, train, importance, n_regions, seed):
        """Fit the mixture that says which component answers where."""
        # A poor start can miss a gap between groups of rows.
        mixture = ResponsibilityMixture(
            n_regions,
            covariance_type=self.covariance_type,
            n_init=3,
            random_state=seed,
        )
        xp = compat.array_namespace(train.X)
        with one_thread_each(), warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            # In double precision, so that rounding cannot send EM to another solution.
            rows = xp.astype(train.X, xp.float64)
            return mixture.fit(rows, sample_weight=_not_all_zero(importance))

    def _store(self, models, has_watched, dtype):
        xp, device = compat.array_namespace(self.mean_), compat.device(self.mean_)
        fits = [model.fit for model in models]
        self._matrices = np.concatenate([found.matrices for found in fits])
        self.n_regions_ = len(fits[0].matrices)
        maps = self._matrices @ as_numpy(self.whitening_).astype(np.float64)
        self.metrics_ = xp.asarray(maps, dtype=dtype, device=device)
        self.mixture_ = _with_dtype(models[0].mixture, dtype)
        self.objective_ = float(np.mean([model.gain for model in models]))
        watched = [found.score for found in fits]
        self.validation_score_ = float(np.mean(watched)) if has_watched else float("nan")
        self.objective_paths_ = [path for found in fits for path in found.paths]
        self.n_iter_ = max(1, max(len(path) - 1 for path in self.objective_paths_))
        if not all(found.finished for found in fits):
            warnings.warn(
                f"L-BFGS used all max_iter={self.max_iter} iterations; raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _shares(self, rows):
        """Return what each metric's vote counts: its component's responsibility, by split."""
        shares = self.mixture_.predict_proba(rows)
        xp = compat.array_namespace(shares)
        return xp.concat([shares] * self.n_splits_, axis=1) / self.n_splits_

    def _votes(self, A, rows):
        if self.neighbors == "soft":
            return soft_votes(A, rows, self._voters, n_jobs=self.n_jobs)
        return nearest_votes(A, rows, self._voters, self.neighbors, n_jobs=self.n_jobs)

    def _mix_votes(self, rows, shares):
        """Votes of all components for rows in the coordinates of the start, by their shares."""
        xp, device, dtype = compat.array_namespace(rows), compat.device(rows), rows.dtype
        total = xp.zeros((rows.shape[0], len(self.classes_)), dtype=dtype, device=device)
        for k, A in enumerate(self._matrices):
            asked = np.flatnonzero(as_numpy(shares[:, k]) > _LEAST_VOTE)
            if len(asked) == 0:
                continue
            index = xp.asarray(asked, device=device)
            votes = self._votes(A, xp.take(rows, index, axis=0))
            votes = xp.astype(votes, dtype) * xp.take(shares[:, k], index)[:, None]
            total = _add_rows(total, asked, votes, xp)
        return total

    def _sections(self, X, columns):
        return adaptive_sections(self, X, columns)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        return tags


def _gain(problems, found):
    return sum(problem.value(A) for problem, A in zip(problems, found.matrices, strict=True))


def _not_all_zero(importance):
    """Where no row is uncertain, all are alike."""
    return importance if importance.any() else np.ones_like(importance)


def _with_dtype(mixture, dtype):
    """Return the mixture with its parameters in the floating type of the data."""
    xp = compat.array_namespace(mixture.means_)
    for name in ("weights_", "means_", "covariances_"):
        setattr(mixture, name, xp.astype(getattr(mixture, name), dtype))
    return mixture


def _add_rows(total, index, rows, xp):
    """Add ``rows`` to the rows of ``total`` named by ``index``, each named once."""
    if len(index) == total.shape[0]:
        return total + rows
    spread = np.full(total.shape[0], len(index))
    spread[index] = np.arange(len(index))
    blank = xp.zeros((1, total.shape[1]), dtype=total.dtype, device=compat.device(total))
    padded = xp.concat([rows, blank])
    return total + xp.take(padded, xp.asarray(spread, device=compat.device(total)), axis=0)
