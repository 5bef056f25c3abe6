"""Classification by a weighted model around every query."""

from numbers import Integral, Real

from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from vicinal._base import atomic_fit, atomic_fit_blocks
from vicinal._base._compat import HasMethods, Interval, Options, StrOptions
from vicinal.local._anchored import keeps_rows
from vicinal.local._anchored_blocks import fit_anchored_blocks
from vicinal.local._base import SHARED_CONSTRAINTS
from vicinal.local._class_models import exact_objective
from vicinal.local._classification import BaseLocalClassifier
from vicinal.local._gradient import has_gradient, scores_and_gradients

_SOLVERS = ("ridge", "logistic", "squared_hinge")


def _has_scores(method: str):
    """Return a check that the local model offers ``method``."""

    def check(self) -> bool:
        estimator = self.estimator
        if estimator is None or exact_objective(estimator) is not None:
            return True
        return hasattr(estimator, method)

    return check


class LocalClassifier(BaseLocalClassifier):
    r"""Classification by a weighted model around every query.

    For each query a small model (ridge on class indicators, logistic, squared hinge, or any
    classifier) is fitted to the rows around it, near rows weighing more than far ones, and
    evaluated there. It beats k-nearest-neighbour votes wherever classes mix, and every answer comes
    with its neighbours, their weights and the slopes of the model that spoke.

    Parameters
    ----------
    estimator : classifier, default=None
        Local model, cloned and fitted on the neighbours centred at the query with their weights.
        ``None`` takes ``solver``. ``RidgeClassifier``, ``LogisticRegression`` and ``LinearSVC``
        themselves (not subclasses) are computed by compiled code that solves their own objective.
    solver : {"ridge", "logistic", "squared_hinge"}, default="ridge"
        Built-in local model, with an unpenalised intercept. ``"ridge"`` (on indicator columns) is
        one linear system per query for all classes; ``"logistic"`` and ``"squared_hinge"`` are
        fitted by Newton's method, one class against the rest, at ten times the cost.
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
    metric : str, callable or transformer, default="auto"
        A metric of scikit-learn; ``"standardized"`` (columns scaled to unit variance);
        ``"ranked"`` (columns bent to normal scores, for long tails); ``"within_class"``
        (whitening by the pooled within-class covariance); ``"gradient"`` (a linear map
        learned from local slopes, see :class:`GradientMetric`); ``"forest"`` or ``"extra_forest"``
        (rows that share leaves of a random forest or of extremely random trees); or a transformer,
        whose output gives the coordinates of search and fit. ``"auto"`` tries them all and, as the
        end of the ladder, global models (linear, quadratic, and boosted trees where a forest shows
        that steps matter); see ``combine``. With fewer than 30 rows, sparse
        X, ``location_columns``, ``anchors``, another ``solver`` or an ``estimator``, it takes the
        best of the columns as given, standardised and (from 200 rows) whitened.
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
    anchors : int, "auto", array-like of shape (n_anchors, n_features) or None, default=None
        ``None`` fits a model around every query. Otherwise that many models are fitted once, at
        centres placed by k-means (denser where classes mix) or at the centres given, and
        blended at prediction, whose cost then does not depend on the number of training rows, which
        are not kept. ``"auto"`` takes the fewest of 64, 256, 1024 and 4096 whose held-out loss is
        within one standard error of the model fitted around every query, or else the best of them.
        Anchors stand in one metric: ``metric="auto"`` is then the best by leave-one-out of the
        columns as given, standardised, whitened within classes and mapped by slopes
        (``"gradient"``).
    algorithm : {"auto", "tree", "brute"}, default="auto"
        Neighbour search; ``"auto"`` takes a tree where few columns make it faster.
    outside : {"nearest", "prior", "raise"}, default="nearest"
        What to answer when no row lies within a fixed ``bandwidth``: reach to the d+1 nearest rows,
        the class shares of the training set, or an error.
    calibration : {"temperature", None}, default="temperature"
        ``"temperature"`` turns scores into softmax(score / T) with T of least leave-one-out log
        loss; ``None`` cuts negative ridge scores to 0 and normalises (other scores go through the
        logistic function first).
    class_weight : dict, "balanced" or None, default=None
        Factors on the weights of each class's rows; neighbourhood sizes do not change.
    combine : {"stack", "best"}, default="stack"
        What ``metric="auto"`` does with the models it tried, each judged on rows it did not see:
        ``"stack"`` takes their weighted mean, with the weights of least held-out log loss;
        ``"best"`` keeps the one local model of least loss.
    max_fit_time : float, default=None
        Seconds after which ``metric="auto"`` tries no further kind of model; the one under way is
        finished, and the first is always tried.
    n_jobs : int, default=None
        Threads; ``None`` uses every core for compiled models.
    random_state : int, RandomState instance or None, default=None
        Draws the rows on which candidates are compared, the folds of what learns from labels, and
        forests.
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
        Metric in use, in a stack that of the heaviest model; a transformer is the fitted one.
    temperature_ : float or None
        Temperature of the probabilities.
    selection_ : dict of ndarray
        Path of the choice: ``metric``, ``degree``, ``size``, ``alpha``, ``loss`` and, with
        ``metric="auto"``, ``weight``; present when something was chosen.
    loo_score_, loo_score_error_ : float
        Error rate of rows that neither the models nor their weights had seen, and its standard
        error (the latter with ``metric="auto"``).
    rungs_ : list
        Models of the stack, heaviest first: fitted local estimators, each with one setting, and
        global models. Absent when one local model answers alone.
    rung_weights_ : ndarray of shape (n_rungs,)
        Their weights, of sum one.
    anchors_ : Anchors or None
        Stored models as plain arrays: ``centers``, ``origins``, ``values``, ``slopes`` and
        ``n_blended``. With anchors, ``n_neighbors_`` and ``alpha_`` are those of the models at the
        anchors.
    anchor_selection_ : dict of ndarray
        Path of their choice: ``n_anchors``, ``size``, ``alpha``, ``n_blended``, ``n_refits``,
        ``loss``.
    n_refits_ : int
        With ``anchors``: how often the models were refitted to what their blend left over.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
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

    With ``anchors`` the model at anchor :math:`c_j` is stored as a plane and a query is answered by
    :math:`\sum_j v_j (a_j + B_j (q - c_j)) / \sum_j v_j` over its nearest anchors, with
    :math:`v_j = (1 - (\|q - c_j\|/h)^3)^3` and h the distance of the first anchor that does not
    speak, as in [4]_. Models of squared loss may be refitted, up to three times, to what their
    blend leaves over (twicing, [5]_), which lets them learn of each other. The number blended, the
    refits, the size of the anchors' neighbourhoods (from ``n_neighbors`` up to what covers the
    space between them) and, if ``alpha="auto"``, the penalty are the smoothest within one standard
    error of the least loss on rows held out of every model. ``neighbors`` then gives weights of
    anchors instead of rows, ``local_coef`` the blended slopes, and what needs the training rows
    (``partial_fit``, ``leave_one_out``,
    ``equivalent_kernel``) is
    not available.

    Weights count rows: weight 2 equals the row written twice, in neighbourhood sizes as well.

    References
    ----------
    .. [1] C. S. Brown and R. G. Benton, "Decision Surfaces of Localized Classifiers".
    .. [2] C. G. Atkeson, A. W. Moore and S. Schaal, "Locally weighted learning", Artificial
       Intelligence Review 11 (1997), 11-73. :doi:`10.1023/A:1006559212014`
    .. [3] L. Bottou and V. Vapnik, "Local learning algorithms", Neural Computation 4 (1992),
       888-900. :doi:`10.1162/neco.1992.4.6.888`
    .. [4] S. Schaal and C. G. Atkeson, "Constructive incremental learning from only local
       information", Neural Computation 10 (1998), 2047-2084. :doi:`10.1162/089976698300016963`
    .. [5] P. Buehlmann and B. Yu, "Boosting with the L2 loss: regression and classification",
       Journal of the American Statistical Association 98 (2003), 324-339.
       :doi:`10.1198/016214503000125`

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from vicinal.local import LocalClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LocalClassifier(n_neighbors=40, alpha=1.0, metric="euclidean").fit(X, y)
    >>> print(model.predict(X[[0, 70, 140]]), f"{model.score(X, y):.2f}")
    [0 1 2] 0.99
    """

    _parameter_constraints: dict = {
        **SHARED_CONSTRAINTS,
        "estimator": [HasMethods(["fit", "predict"]), None],
        "solver": [StrOptions(set(_SOLVERS))],
        "degree": [Options(Integral, {0, 1, 2})],
        "outside": [StrOptions({"nearest", "prior", "raise"})],
        "calibration": [StrOptions({"temperature"}), None],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "combine": [StrOptions({"stack", "best"})],
        "max_fit_time": [Interval(Real, 0, None, closed="neither"), None],
    }

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
        anchors=None,
        algorithm="auto",
        outside="nearest",
        calibration="temperature",
        class_weight=None,
        combine="stack",
        max_fit_time=None,
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
        self.anchors = anchors
        self.algorithm = algorithm
        self.outside = outside
        self.calibration = calibration
        self.class_weight = class_weight
        self.combine = combine
        self.max_fit_time = max_fit_time
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

    @atomic_fit_blocks
    def fit_blocks(self, blocks):
        """Fit models at ``anchors`` to a table in blocks of rows.

        Centres and all that is open come from a sample of 100,000 rows, the models from all rows.

        Parameters
        ----------
        blocks : Blocks
            The table, as :func:`vicinal.distributed.fit` hands it over.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        fit_anchored_blocks(self, blocks)

    @available_if(keeps_rows)
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
        if not hasattr(self, "classes_"):
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
            # Two ridge scores are opposite, unless a global model has joined them.
            first, second = scores[:, 0], scores[:, 1]
            scores = second if self._stack is None else 0.5 * (second - first)
        return scores if self._device is not None else scores.astype(self._dtype, copy=False)

    @available_if(has_gradient)
    def decision_function_and_gradient(self, X, *, weights_move=True):
        """Return the decision function and its exact gradient.

        The gradient follows every part of the local fit: the model, the weights that move with the
        query, the bandwidth and the penalty. It exists, once fitted, for the built-in models of
        degree 0 or 1 on dense rows with Euclidean distances (in columns as given, standardised or
        whitened); between changes of the set of neighbours or margins, where the function has
        kinks, it is exact.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Queries.
        weights_move : bool, default=True
            ``False`` holds the weights fixed and gives the slopes of the local models.

        Returns
        -------
        values : ndarray of shape (n_queries,) or (n_queries, n_classes)
            As ``decision_function`` returns them.
        gradients : ndarray of shape (n_queries, n_features) or (n_queries, n_classes, n_features)
            With respect to the columns of X.
        """
        X = self._validate_queries(X)
        scores, gradients = scores_and_gradients(self, X, weights_move)
        if self._objective.solver == "ridge":
            scores, gradients = 2.0 * scores - 1.0, 2.0 * gradients
        if len(self.classes_) == 2:
            scores, gradients = scores[:, 1], gradients[:, 1]
        return scores.astype(self._dtype, copy=False), gradients.astype(self._dtype, copy=False)

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
        slopes = self._raw_slopes(X) if self._stack is None else self._stack.slopes(X)
        slopes = slopes.astype(self._dtype, copy=False)
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
        return self._raw_kernel(X) if self._stack is None else self._stack.kernel(X)

    def leave_one_out(self):
        """Return the class probabilities of every training row by a model that did not see it.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Rows of zero sample weight are not counted.
        """
        check_is_fitted(self)
        self._check_compiled("leave_one_out")
        if self._device is not None:
            return self._device_left_out()
        self._check_rows("leave_one_out")
        if self._stack is not None:
            return self._proba(self._stack.left_out())
        return self._proba(self._raw_left_out())

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.anchors is None
        return tags
