"""Classification by a weighted model around every query."""

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from vicinal._base import atomic_fit, encode_labels, is_array_api
from vicinal._base._compat import HasMethods, Options, StrOptions, num_samples
from vicinal._kernels._temperature import clipped_proba, fit_temperature, temperature_proba
from vicinal.local._base import SHARED_CONSTRAINTS, BaseLocal
from vicinal.local._class_models import (
    Objective,
    class_scores,
    exact_objective,
    iterative_fits,
)
from vicinal.local._classifier_on_device import ClassifierOnDevice
from vicinal.local._data import drop_zero_weights
from vicinal.local._generic import check_local_estimator, generic_class_scores
from vicinal.local._neighborhood import Neighborhoods, take_queries
from vicinal.local._selection import ALPHA_LADDER, MAX_ROWS, draw_rows

# Newton's method costs ten times a ridge solve: fewer candidates, around those that win.
_ITERATIVE_ALPHAS = (0.01, 0.03, 0.1, 0.3, 1.0)
_ITERATIVE_NEIGHBORS = (10, 20, 40, 80, 160)
_SOLVERS = ("ridge", "logistic", "squared_hinge", "hinge")


def _has_scores(method: str):
    """Return a check that the local model offers ``method``."""

    def check(self) -> bool:
        estimator = self.estimator
        if estimator is None or exact_objective(estimator) is not None:
            return True
        return hasattr(estimator, method)

    return check


class LocalClassifier(ClassifierMixin, ClassifierOnDevice, BaseLocal):
    r"""Classification by a weighted model around every query.

    For each query a small model (ridge on class indicators, logistic, squared hinge, hinge, or any
    classifier) is fitted to the rows around it, near rows weighing more than far ones, and
    evaluated there. It beats k-nearest-neighbour votes wherever classes mix, and every answer comes
    with its neighbours, their weights and the slopes of the model that spoke.

    Parameters
    ----------
    estimator : classifier, default=None
        Local model, cloned and fitted on the neighbours centred at the query with their weights.
        ``None`` takes ``solver``. ``RidgeClassifier``, ``LogisticRegression`` and ``LinearSVC``
        themselves (not subclasses) are computed by compiled code that solves their own objective.
    solver : {"ridge", "logistic", "squared_hinge", "hinge"}, default="ridge"
        Built-in local model, with an unpenalised intercept. ``"ridge"`` (on indicator columns) is
        one linear system per query for all classes; ``"logistic"`` and ``"squared_hinge"`` are
        fitted by Newton's method, one class against the rest, at ten times the cost; ``"hinge"`` is
        slow and has kinks.
    n_neighbors : int, float or "auto", default="auto"
        Size of the neighbourhood. An integer k puts the (k+1)-th neighbour at the edge of the
        kernel; a fraction in (0, 1] takes that share of the rows (LOESS's rule). ``"auto"`` is
        chosen by leave-one-out from 10 to 160. With sample weights, total weight is counted.
    bandwidth : float, "auto" or None, default=None
        Fixed radius instead of ``n_neighbors``; ``inf`` is the global model, ``"auto"`` is chosen
        by leave-one-out.
    kernel : str or callable, default="tricube"
        ``"uniform"``, ``"epanechnikov"``, ``"tricube"``, ``"gaussian"``, ``"bisquare"``,
        ``"triangular"``, ``"cosine"``, or a function K(u) of the scaled distance. With
        ``n_neighbors`` only those neighbours speak; a Gaussian then has half their radius as its
        standard deviation.
    metric : str, callable or transformer, default="auto"
        A metric of scikit-learn; ``"standardized"`` (columns scaled to unit variance);
        ``"within_class"`` (whitening by the pooled within-class covariance); or a transformer,
        whose output gives the coordinates of search and fit. ``"auto"`` takes the best of the
        columns as given, standardised and (from 200 rows) whitened, by leave-one-out in which no
        metric saw the label it is judged by.
    metric_params : dict, default=None
        Further arguments of the metric.
    degree : {0, 1, 2}, default=1
        Degree of the local polynomial; 0 is a weighted vote.
    alpha : float or "auto", default="auto"
        Ridge penalty on the slopes. ``"auto"`` is chosen by leave-one-out.
    penalty : {"relative", "absolute"}, default="relative"
        ``"relative"`` multiplies ``alpha`` by the mean squared spread of the neighbourhood, which
        makes it free of scale.
    location_columns : array-like, default=None
        Columns (numbers, names or a mask) that give distances; the model is then fitted on the
        other columns. ``None`` uses all columns for both.
    algorithm : {"auto", "tree", "brute"}, default="auto"
        Neighbour search; ``"auto"`` takes a tree for at most eight columns.
    outside : {"nearest", "prior", "raise"}, default="nearest"
        What to answer when no row lies within a fixed ``bandwidth``: reach to the d+1 nearest rows,
        the class shares of the training set, or an error.
    calibration : {"temperature", None}, default="temperature"
        ``"temperature"`` turns scores into softmax(score / T) with T of least leave-one-out log
        loss; ``None`` cuts negative ridge scores to 0 and normalises (logistic and hinge scores go
        through the logistic function first).
    class_weight : dict, "balanced" or None, default=None
        Factors on the weights of each class's rows; neighbourhood sizes do not change.
    n_jobs : int, default=None
        Threads; ``None`` uses every core for compiled models.
    random_state : int, RandomState instance or None, default=None
        Draws the rows on which candidates are compared when there are more than 3000, and the folds
        of metrics that learn from labels.
    verbose : int, default=0
        Show progress of the choice.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Class labels.
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
    temperature_ : float or None
        Temperature of the probabilities.
    selection_ : dict of ndarray
        Path of the choice: ``metric``, ``degree``, ``size``, ``alpha``, ``loss``; present when
        something was chosen.
    loo_score_ : float
        Leave-one-out error rate of the choice.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Their names, when X has string names.

    See Also
    --------
    LocalRegressor : The same for numbers.
    sklearn.neighbors.KNeighborsClassifier : Votes without a local model.

    Notes
    -----
    With weights :math:`w_i = s_i K(\|x_i - q\| / h)` the local model minimises, over a function f
    that is linear in :math:`x - q` with free intercept,

    .. math:: \sum_i w_i\, E(y_i, f(x_i)) + \tfrac{\lambda}{2} \|\nabla f\|^2,

    equation (2) of [1]_ with a penalty, and the score is :math:`f(q)`;
    :math:`\lambda = \alpha \operatorname{tr}(V) / d` with the scatter V of the neighbourhood.
    Centring at the query makes the result independent of the origin. For the ridge solver all
    classes share one system, see :class:`LocalRegressor`; scores of classes without a neighbour
    are 0. The others have finite scores too: the minimiser of their objective, whose intercept
    carries a penalty of 1e-8 times the total weight.

    A neighbourhood of one class is answered without a fit. Good fixed values are ``n_neighbors=40``
    and ``alpha=1`` for ridge, ``alpha=0.1`` for the other solvers.

    Weights count rows: weight 2 equals the row written twice, in neighbourhood sizes as well.

    References
    ----------
    .. [1] C. S. Brown and R. G. Benton, "Decision Surfaces of Localized Classifiers".
    .. [2] C. G. Atkeson, A. W. Moore and S. Schaal, "Locally weighted learning", Artificial
       Intelligence Review 11 (1997), 11-73. :doi:`10.1023/A:1006559212014`
    .. [3] L. Bottou and V. Vapnik, "Local learning algorithms", Neural Computation 4 (1992),
       888-900. :doi:`10.1162/neco.1992.4.6.888`

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from vicinal.local import LocalClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LocalClassifier(n_neighbors=40, alpha=1.0, metric="euclidean").fit(X, y)
    >>> print(model.predict(X[[0, 70, 140]]), f"{model.score(X, y):.2f}")
    [0 1 2] 0.97
    """

    _parameter_constraints: dict = {
        **SHARED_CONSTRAINTS,
        "estimator": [HasMethods(["fit", "predict"]), None],
        "solver": [StrOptions(set(_SOLVERS))],
        "degree": [Options(Integral, {0, 1, 2})],
        "outside": [StrOptions({"nearest", "prior", "raise"})],
        "calibration": [StrOptions({"temperature"}), None],
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    # The estimator fitted around every query, when compiled code does not reproduce it.
    _generic = None
    _objective: Any

    def __init__(
        self,
        estimator=None,
        *,
        solver="ridge",
        n_neighbors="auto",
        bandwidth=None,
        kernel="tricube",
        metric="auto",
        metric_params=None,
        degree=1,
        alpha="auto",
        penalty="relative",
        location_columns=None,
        algorithm="auto",
        outside="nearest",
        calibration="temperature",
        class_weight=None,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.estimator = estimator
        self.solver = solver
        self.n_neighbors = n_neighbors
        self.bandwidth = bandwidth
        self.kernel = kernel
        self.metric = metric
        self.metric_params = metric_params
        self.degree = degree
        self.alpha = alpha
        self.penalty = penalty
        self.location_columns = location_columns
        self.algorithm = algorithm
        self.outside = outside
        self.calibration = calibration
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @atomic_fit
    def fit(self, X, y, sample_weight=None, groups=None):
        """Keep the rows, choose what was left open and calibrate.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            How often each row counts; rows of weight 0 are removed.
        groups : array-like of shape (n_samples,), default=None
            Rows of the same group are left out together when candidates are compared and
            probabilities calibrated.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        self._fit_rows(X, y, sample_weight, groups, None)
        return self

    @atomic_fit
    def partial_fit(self, X, y, classes=None, sample_weight=None, groups=None):
        """Add rows; the first call is ``fit``.

        What the first call chose or learned (metric, size, penalty, temperature) stays.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Further rows.
        y : array-like of shape (n_samples,)
            Their labels.
        classes : array-like of shape (n_classes,), default=None
            All labels that will ever be seen; in the first call, if its rows lack some.
        sample_weight : array-like of shape (n_samples,), default=None
            How often each row counts.
        groups : array-like of shape (n_samples,), default=None
            Groups, in every call or in none; rows of different calls never share one.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        if not hasattr(self, "_settings"):
            self._fit_rows(X, y, sample_weight, groups, classes)
        else:
            self._append_rows(X, y, sample_weight, groups, classes)
        return self

    def predict(self, X):
        """Predict class labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features)
            Queries.

        Returns
        -------
        ndarray of shape (n_queries,)
            The class of largest score.
        """
        X = self._validate_queries(X)
        if self._device is not None:
            return self._device_labels(self._device_scores(X))
        return self.classes_[self._scores(X).argmax(axis=1)]

    @available_if(_has_scores("predict_proba"))
    def predict_proba(self, X):
        """Predict class probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features)
            Queries.

        Returns
        -------
        ndarray of shape (n_queries, n_classes)
            Rows sum to one; columns follow ``classes_``.
        """
        X = self._validate_queries(X)
        if self._device is not None:
            return self._device_proba(self._device_scores(X))
        scores = self._scores(X, method="predict_proba")
        return self._proba(scores).astype(self._dtype, copy=False)

    @available_if(_has_scores("decision_function"))
    def decision_function(self, X):
        """Return the scores that ``predict`` compares.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features)
            Queries.

        Returns
        -------
        ndarray of shape (n_queries,) or (n_queries, n_classes)
            Two classes: positive where the second one wins.
        """
        X = self._validate_queries(X)
        if self._device is not None:
            scores = self._device_scores(X)
        else:
            scores = self._scores(X, method="decision_function")
        if self._objective is not None and self._objective.solver == "ridge":
            # Indicators 0 and 1 become the targets -1 and 1.
            scores = 2.0 * scores - 1.0
        if len(self.classes_) == 2:
            scores = scores[:, 1]
        return scores if self._device is not None else scores.astype(self._dtype, copy=False)

    def local_coef(self, X):
        """Return the slopes of the local models at each query.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Queries.

        Returns
        -------
        ndarray of shape (n_queries, n_features) or (n_queries, n_classes, n_features)
            Gradient of each class's score with respect to the columns of X; for two classes that
            of the second. Zero where the neighbourhood holds one class.
        """
        X = self._validate_queries(X)
        self._check_compiled("local_coef")
        if self._device is not None:
            slopes = self._device_slopes(X)
            return slopes[:, 1, :] if len(self.classes_) == 2 else slopes
        parts = [self._class_slopes(design, found) for _, design, found in self._localized(X)]
        slopes = self._pull_back(np.concatenate(parts), X).astype(self._dtype, copy=False)
        return slopes[:, 1] if len(self.classes_) == 2 else slopes

    def equivalent_kernel(self, X):
        """Return the weight of every training row in the ridge scores.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Queries.

        Returns
        -------
        CSR matrix of shape (n_queries, n_samples)
            Rows l(q); the score of class c is the sum over its rows. Rows of zero sample weight
            are not counted.
        """
        X = self._validate_queries(X)
        if self._objective is None or self._objective.solver != "ridge":
            raise ValueError(
                "equivalent_kernel exists for the ridge solver only: other local classifiers are "
                "not linear in the labels."
            )
        return self._stack_rows(X, self._smoother)

    def leave_one_out(self):
        """Return the class probabilities of every training row by a model that did not see it.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Rows of zero sample weight are not counted.
        """
        check_is_fitted(self)
        self._check_compiled("leave_one_out")
        self._check_on_host("leave_one_out")
        rows = np.arange(self._data.n_samples)
        return self._proba(self._left_out_scores(rows, self._data))

    # --- fit ---

    def _fit_rows(self, X, y, sample_weight, groups, classes) -> None:
        """Validate, settle everything that depends on the data, and calibrate."""
        if is_array_api(X):
            self._fit_device_rows(X, y, sample_weight, groups, classes)
            return
        X, y, weights, groups = self._validate_training(X, y, sample_weight, groups)
        check_classification_targets(y)
        weights, X, y, groups = drop_zero_weights(weights, X, y, groups)
        if classes is None:
            self.classes_, codes = encode_labels(y)
        else:
            self.classes_, _ = encode_labels(np.asarray(classes))
            codes = self._encode(y)
        self._codes = codes.astype(np.int64)
        self._dtype = X.dtype
        self._resolve_model()
        self._factor = self._class_factors(weights)
        self._choose(X, self._codes, self._codes, weights, groups)
        self._calibrate(X, weights, groups)

    def _append_rows(self, X, y, sample_weight, groups, classes) -> None:
        """Validate further rows and take them in."""
        if classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(
                f"classes={classes!r} differ from those of the first call, {self.classes_!r}."
            )
        X, y, weights, groups = self._validate_training(
            X, y, sample_weight, groups, reset=False, min_samples=1
        )
        weights, X, y, groups = drop_zero_weights(weights, X, y, groups)
        codes = self._encode(y)
        self._add_rows(X, weights, groups)
        self._codes = np.concatenate([self._codes, codes])
        self._factor = self._class_factors(self._data.sample_weight)

    def _encode(self, y) -> np.ndarray:
        """Return the codes of labels that must be among the classes."""
        codes = np.clip(np.searchsorted(self.classes_, y), 0, len(self.classes_) - 1)
        unknown = np.unique(np.asarray(y)[self.classes_[codes] != y])
        if unknown.size:
            raise ValueError(
                f"y holds labels {unknown.tolist()} that are not among the classes "
                f"{self.classes_.tolist()}; name all of them in the first call (classes=)."
            )
        return codes.astype(np.int64)

    # --- models ---

    def _resolve_model(self) -> None:
        """Settle on compiled code, or on clones of an estimator it does not reproduce."""
        self._exact_alpha = None
        if self.estimator is None:
            max_iter = 10_000 if self.solver == "hinge" else 100
            self._objective = Objective(self.solver, max_iter=max_iter)
            return
        exact = exact_objective(self.estimator)
        # Beyond two classes LogisticRegression is one multinomial model, not one against the rest.
        if exact is not None and (exact[0].solver != "logistic" or len(self.classes_) == 2):
            self._objective, self._exact_alpha = exact
            return
        self._objective = None
        self._generic = self.estimator
        self._generic_weighted = check_local_estimator(self.estimator, self.kernel)

    def _check_compiled(self, what: str) -> None:
        if self._generic is not None:
            raise ValueError(
                f"{what} needs a built-in local model, but estimator={self._generic!r} is fitted "
                "as a black box; use solver= instead."
            )

    def _class_factors(self, weights) -> np.ndarray | None:
        if self.class_weight is None:
            return None
        y = self.classes_[self._codes]
        factors = compute_class_weight(
            self.class_weight, classes=self.classes_, y=y, sample_weight=weights
        )
        return np.asarray(factors, dtype=np.float64)[self._codes]

    def _evaluate(self, data, design, found: Neighborhoods, alphas, degree) -> np.ndarray:
        return class_scores(
            self._objective,
            data,
            self._codes,
            len(self.classes_),
            design,
            found,
            alphas,
            relative=self._is_relative(),
            degree=degree,
            n_jobs=self.n_jobs,
        )

    def _block_scores(self, design, found: Neighborhoods, method: str) -> np.ndarray:
        if self._generic is None:
            settings = self._settings
            return self._evaluate(self._data, design, found, [settings.alpha], settings.degree)[0]
        return generic_class_scores(
            self._generic,
            self._data.rows,
            self._codes,
            len(self.classes_),
            design,
            found,
            method=method,
            weighted=self._generic_weighted,
            n_jobs=self.n_jobs,
        )

    def _scores(self, X, method: str | None = None) -> np.ndarray:
        """Return one score per class; the class shares where nobody is near."""
        if method is None:
            offered = ("predict_proba", "decision_function")
            method = next((m for m in offered if hasattr(self.estimator, m)), "predict")
        out = np.empty((num_samples(X), len(self.classes_)))
        if self._has_global_model():
            return self._global_scores(X)
        for block, design, found in self._localized(X):
            empty = found.sizes() == 0
            if not empty.any():
                out[block] = self._block_scores(design, found, method)
                continue
            some = np.flatnonzero(~empty)
            out[block][empty] = self._class_shares()
            if some.size:
                out[block.start + some] = self._block_scores(
                    design[some], take_queries(found, some), method
                )
        return out

    def _class_shares(self) -> np.ndarray:
        counts = np.bincount(
            self._codes, self._data.sample_weight, minlength=len(self.classes_)
        ).astype(np.float64)
        return counts / counts.sum()

    def _class_slopes(self, design, found: Neighborhoods) -> np.ndarray:
        """Return slopes of the scores, shape (n_queries, n_classes, n_columns)."""
        if self._objective.solver == "ridge":
            indicators = np.eye(len(self.classes_))[self._codes]
            return self._slopes(design, found, indicators)
        return iterative_fits(
            self._objective,
            self._data.rows,
            self._codes,
            len(self.classes_),
            design,
            found,
            self._settings.alpha,
            relative=self._settings.relative,
            degree=self._settings.degree,
            want_slopes=True,
            n_jobs=self.n_jobs,
        )[1]

    # --- the global model ---

    def _has_global_model(self) -> bool:
        """One fit answers all queries if the model does not depend on the origin."""
        return (
            self._settings.is_global
            and self._settings.degree == 1
            and self._generic is None
            and (self._exact_alpha is None or self._objective.solver == "ridge")
            and self._objective.solver != "hinge"
        )

    def _global_scores(self, X) -> np.ndarray:
        data = self._data
        weights = np.ones(data.n_samples) if data.sample_weight is None else data.sample_weight
        weights = weights if self._factor is None else weights * self._factor
        centre = np.asarray(weights @ data.rows / weights.sum()).reshape(1, -1)
        everybody = Neighborhoods(
            np.array([0, data.n_samples]),
            np.arange(data.n_samples),
            weights,
            np.zeros(data.n_samples),
            np.full(1, np.inf),
        )
        level = self._block_scores(centre, everybody, "decision_function")
        slopes = self._class_slopes(centre, everybody)[0]
        _, design = self._locate(X)
        return level + (design - centre) @ slopes.T

    # --- probabilities ---

    def _proba(self, scores: np.ndarray) -> np.ndarray:
        if self._generic is not None:
            return scores
        if self._exact_alpha is not None and self._objective.solver == "logistic":
            second = 1.0 / (1.0 + np.exp(-scores[:, 1]))
            return np.column_stack([1.0 - second, second])
        if self.temperature_ is not None:
            return temperature_proba(scores, self.temperature_)
        if self._objective.solver != "ridge":
            scores = 1.0 / (1.0 + np.exp(-scores))
        return clipped_proba(scores)

    def _calibrate(self, X, weights, groups) -> None:
        """Fit the temperature to scores of rows that their models, and metrics, did not see."""
        self.temperature_ = None
        is_sigmoid = self._exact_alpha is not None and self._objective.solver == "logistic"
        if self._generic is not None or self.calibration is None or is_sigmoid:
            return
        rows = draw_rows(self._data.n_samples, self.random_state, MAX_ROWS)
        arrays = (X, self._codes, self._codes, weights, groups)
        metric = self.metric if hasattr(self.metric, "transform") else self.metric_
        scores, used = [], []
        for data, some in self._views(metric, rows, arrays, fitted=self._data):
            scores.append(self._left_out_scores(some, data))
            used.append(some)
        order = np.concatenate(used)
        share = None if weights is None else weights[order]
        self.temperature_ = fit_temperature(np.concatenate(scores), self._codes[order], share)

    def _left_out_scores(self, rows, data) -> np.ndarray:
        scores = np.empty((len(rows), len(self.classes_)))
        settings = self._settings
        for block, design, found in self._localized_training(rows, leave_out=True, data=data):
            empty = np.flatnonzero(found.sizes() == 0)
            scores[block] = self._evaluate(data, design, found, [settings.alpha], settings.degree)[
                0
            ]
            scores[block.start + empty] = self._class_shares()
        return scores

    # --- choice ---

    def _criterion(self, data, alphas, degree):
        """Error rate of held-out labels."""
        codes = self._codes

        def evaluate(design, found):
            return self._evaluate(data, design, found, alphas, degree)

        def loss(scores, rows):
            wrong = (scores.argmax(axis=1) != codes[rows]).astype(np.float64)
            return wrong if data.sample_weight is None else wrong * data.sample_weight[rows]

        return evaluate, loss

    def _is_relative(self) -> bool:
        return self._exact_alpha is None and self.penalty == "relative"

    def _size_is_open(self) -> bool:
        # A black box is too slow to compare sizes with: it takes the good fixed value.
        return self._generic is None and super()._size_is_open()

    def _metric_candidates(self, X, codes, total_weight: float) -> list:
        if self._generic is not None and isinstance(self.metric, str) and self.metric == "auto":
            return ["euclidean"]
        return super()._metric_candidates(X, codes, total_weight)

    def _neighbor_candidates(self) -> tuple[int, ...]:
        if self._objective is not None and self._objective.solver != "ridge":
            return _ITERATIVE_NEIGHBORS
        return super()._neighbor_candidates()

    def _alpha_candidates(self) -> list[float]:
        if self._exact_alpha is not None:
            return [self._exact_alpha]
        if self._generic is not None:
            return [0.0]
        if self.alpha != "auto":
            return [float(self.alpha)]
        return list(ALPHA_LADDER if self.solver == "ridge" else _ITERATIVE_ALPHAS)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
