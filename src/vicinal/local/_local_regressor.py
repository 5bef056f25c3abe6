"""Regression by a weighted model around every query."""

from numbers import Integral, Real

import numpy as np
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.utils.metaestimators import available_if

from vicinal._base import atomic_fit, atomic_fit_blocks
from vicinal._base._compat import HasMethods, Interval, Options, StrOptions
from vicinal.local._anchored import keeps_rows
from vicinal.local._anchored_blocks import fit_anchored_blocks
from vicinal.local._base import SHARED_CONSTRAINTS
from vicinal.local._generic import check_local_estimator
from vicinal.local._regression import BaseLocalRegressor

# Regression targets often need less shrinkage than class indicators.
_ALPHA_LADDER = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
# Quadratic models have (d + 1)(d + 2) / 2 coefficients; beyond this they are not tried by "auto".
_MAX_QUADRATIC_COLUMNS = 8


class LocalRegressor(BaseLocalRegressor):
    r"""Regression by a weighted model around every query.

    For each query a small model (local constant, linear or quadratic ridge, or any estimator) is
    fitted to the rows around it, near rows weighing more than far ones, and evaluated there. Use it
    for smooth targets without a known form, when you want the slopes at a row, and for
    geographically weighted regression (``location_columns``).

    Parameters
    ----------
    estimator : estimator, default=None
        Local model, cloned and fitted on the neighbours centred at the query with their weights.
        ``None`` is ridge regression with an unpenalised intercept. ``Ridge`` and
        ``LinearRegression`` themselves (not subclasses) are computed by the same compiled code.
    degree : {"auto", 0, 1, 2}, default="auto"
        Degree of the local polynomial: 0 is the Nadaraya-Watson average. ``"auto"`` compares 1 and,
        with at most eight columns, 2.
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
        ``"ranked"`` (columns bent to normal scores, for long tails); ``"gradient"`` (a linear map
        learned from local slopes, see :class:`GradientMetric`); ``"forest"`` or ``"extra_forest"``
        (rows that share leaves of a random forest or of extremely random trees); or a transformer,
        whose output gives the coordinates of search and fit. ``"auto"`` tries them all and, as the
        end of the ladder, global models (linear, quadratic, and boosted trees where a forest shows
        that steps matter); see ``combine``. With fewer than 30 rows, sparse
        X, ``location_columns``, ``anchors``, robust iterations, ``clip`` or an ``estimator``, it
        takes the better of the columns as given and standardised.
    metric_params : dict, default=None
        Further arguments of the metric.
    alpha : float or "auto", default="auto"
        Ridge penalty; 0 is plain least squares. ``"auto"`` is chosen by leave-one-out.
    penalty : {"relative", "absolute"}, default="relative"
        ``"relative"`` multiplies ``alpha`` by the mean squared spread of the neighbourhood, which
        makes it free of scale.
    robust_iterations : int, default=0
        Number of refits in which rows with large residuals weigh less (bisquare weights).
    location_columns : array-like, default=None
        Columns (numbers, names or a mask) that give distances; the model is then fitted on the
        other columns: geographically weighted regression. ``None`` uses all columns for both.
    anchors : int, "auto", array-like of shape (n_anchors, n_features) or None, default=None
        ``None`` fits a model around every query. Otherwise that many models are fitted once, at
        centres placed by k-means or at the centres given, and
        blended at prediction, whose cost then does not depend on the number of training rows, which
        are not kept. ``"auto"`` takes the fewest of 64, 256, 1024 and 4096 whose held-out loss is
        within one standard error of the model fitted around every query, or else the best of them.
        Anchors stand in one metric: ``metric="auto"`` is then the best by leave-one-out of the
        columns as given, standardised and mapped by slopes (``"gradient"``).
    algorithm : {"auto", "tree", "brute"}, default="auto"
        Neighbour search; ``"auto"`` takes a tree where few columns make it faster.
    outside : {"nearest", "nan", "prior", "raise"}, default="nearest"
        What to answer when no row lies within a fixed ``bandwidth``: reach to the d+1 nearest rows,
        NaN, the overall mean, or an error.
    clip : bool, default=False
        Keep predictions within the range of the neighbours' targets.
    combine : {"stack", "best"}, default="stack"
        What ``metric="auto"`` does with the models it tried, each judged on rows it did not see:
        ``"stack"`` takes their weighted mean, with the weights of least held-out squared error;
        ``"best"`` keeps the one local model of least loss.
    max_fit_time : float, default=None
        Seconds after which ``metric="auto"`` tries no further kind of model; the one under way is
        finished, and the first is always tried.
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
        Metric in use, in a stack that of the heaviest model; a transformer is the fitted one.
    selection_ : dict of ndarray
        Path of the choice: ``metric``, ``degree``, ``size``, ``alpha``, ``loss`` and, with
        ``metric="auto"``, ``weight``; present when something was chosen.
    loo_score_, loo_score_error_ : float
        Mean squared error, in units of the variance of y, of rows that neither the models nor their
        weights had seen, and its standard error (the latter with ``metric="auto"``).
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
    LocalClassifier : The same for classes.
    LoessRegressor : Local polynomials with standard errors, as in Cleveland's LOESS.
    NadarayaWatsonRegressor : Weighted averages.

    Notes
    -----
    With weights :math:`w_i = s_i K(\|x_i - q\| / h)`, :math:`s = \sum_i w_i`, mean offset
    :math:`m = \sum_i w_i (x_i - q) / s` and scatter
    :math:`V = \sum_i w_i (x_i - q - m)(x_i - q - m)^\top` the prediction is
    :math:`g(q) = \sum_i l_i(q) y_i` with

    .. math:: l_i(q) = w_i / s - w_i (x_i - q - m)^\top (V + \lambda I)^{-1} m,

    the ridge fit centred at the query with a free intercept; :math:`\lambda = \alpha
    \operatorname{tr}(V) / d` for the relative penalty. :math:`\alpha \to \infty` gives the
    local constant, :math:`\alpha = 0` the local linear fit (by QR, never by squaring the design).
    The
    method is a linear smoother, which gives standard errors and degrees of freedom [1]_, [2]_.

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
    ``equivalent_kernel``, standard errors and intervals) is
    not available.

    Weights count rows: weight 2 equals the row written twice, in neighbourhood sizes as well.

    References
    ----------
    .. [1] W. S. Cleveland and S. J. Devlin, "Locally weighted regression: an approach to regression
       analysis by local fitting", Journal of the American Statistical Association 83 (1988),
       596-610. :doi:`10.1080/01621459.1988.10478639`
    .. [2] C. Loader, "Local Regression and Likelihood", Springer (1999).
    .. [3] C. G. Atkeson, A. W. Moore and S. Schaal, "Locally weighted learning", Artificial
       Intelligence Review 11 (1997), 11-73. :doi:`10.1023/A:1006559212014`
    .. [4] S. Schaal and C. G. Atkeson, "Constructive incremental learning from only local
       information", Neural Computation 10 (1998), 2047-2084. :doi:`10.1162/089976698300016963`
    .. [5] P. Buehlmann and B. Yu, "Boosting with the L2 loss: regression and classification",
       Journal of the American Statistical Association 98 (2003), 324-339.
       :doi:`10.1198/016214503000125`

    Examples
    --------
    >>> import numpy as np
    >>> from vicinal.local import LocalRegressor
    >>> x = np.linspace(0, 6, 200)[:, None]
    >>> model = LocalRegressor(n_neighbors=30, degree=1, alpha=0.0, metric="euclidean")
    >>> model = model.fit(x, np.sin(x).ravel())
    >>> print(model.predict([[1.0]]).round(2), model.local_coef([[1.0]]).round(2))
    [0.83] [[0.53]]
    """

    _parameter_constraints: dict = {
        **SHARED_CONSTRAINTS,
        "estimator": [HasMethods(["fit", "predict"]), None],
        "degree": [Options(Integral, {0, 1, 2}), StrOptions({"auto"})],
        "robust_iterations": [Interval(Integral, 0, None, closed="left")],
        "outside": [StrOptions({"nearest", "nan", "prior", "raise"})],
        "clip": ["boolean"],
        "combine": [StrOptions({"stack", "best"})],
        "max_fit_time": [Interval(Real, 0, None, closed="neither"), None],
    }

    def __init__(
        self,
        estimator=None,
        *,
        degree="auto",
        n_neighbors="auto",
        bandwidth=None,
        kernel="tricube",
        metric="auto",
        metric_params=None,
        alpha="auto",
        penalty="relative",
        robust_iterations=0,
        location_columns=None,
        anchors=None,
        algorithm="auto",
        outside="nearest",
        clip=False,
        combine="stack",
        max_fit_time=None,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.estimator = estimator
        self.degree = degree
        self.n_neighbors = n_neighbors
        self.bandwidth = bandwidth
        self.kernel = kernel
        self.metric = metric
        self.metric_params = metric_params
        self.alpha = alpha
        self.penalty = penalty
        self.robust_iterations = robust_iterations
        self.location_columns = location_columns
        self.anchors = anchors
        self.algorithm = algorithm
        self.outside = outside
        self.clip = clip
        self.combine = combine
        self.max_fit_time = max_fit_time
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @atomic_fit
    def fit(self, X, y, sample_weight=None, groups=None):
        """Keep the rows and choose what was left open.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            How often each row counts; rows of weight 0 are removed.
        groups : array-like of shape (n_samples,), default=None
            Rows of the same group are left out together when candidates are compared.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        self._resolve_estimator()
        self._fit_rows(X, y, sample_weight, groups)
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
    def partial_fit(self, X, y, sample_weight=None, groups=None):
        """Add rows; the first call is ``fit``.

        What the first call chose or learned (metric, degree, size, penalty) stays.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Further rows.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Their targets.
        sample_weight : array-like of shape (n_samples,), default=None
            How often each row counts.
        groups : array-like of shape (n_samples,), default=None
            Groups, in every call or in none; rows of different calls never share one.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        if not hasattr(self, "_targets"):
            self._resolve_estimator()
            self._fit_rows(X, y, sample_weight, groups)
        else:
            self._append_rows(X, y, sample_weight, groups)
        return self

    def predict(self, X, return_std=False):
        """Predict targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features)
            Queries.
        return_std : bool, default=False
            Also return the standard error of each prediction.

        Returns
        -------
        y : ndarray of shape (n_queries,) or (n_queries, n_outputs)
            Predictions.
        std : ndarray of the same shape
            Standard errors, if asked for.
        """
        X = self._validate_queries(X)
        if return_std:
            return self._predict_with_std(X)
        if self._device is not None:
            return self._predict_on_device(X)
        return self._shape(self._predict_values(X)[0])

    def _resolve_estimator(self) -> None:
        """Use compiled code for the exact types it reproduces, clones of anything else."""
        estimator = self.estimator
        self._exact_alpha = None
        if estimator is None:
            return
        if self.degree not in ("auto", 1):
            raise ValueError(
                f"degree={self.degree!r} belongs to the built-in local polynomial; with "
                "estimator= leave it at 'auto' and put PolynomialFeatures into the estimator."
            )
        if type(estimator) is Ridge and _is_plain_ridge(estimator):
            self._exact_alpha = float(estimator.alpha)
        elif type(estimator) is LinearRegression and estimator.fit_intercept:
            self._exact_alpha = None if estimator.positive else 0.0
        if self._exact_alpha is None:
            self._generic = estimator
            self._generic_weighted = check_local_estimator(estimator, self.kernel)

    def _has_linear_rungs(self) -> bool:
        return self.estimator is None and self.robust_iterations == 0 and not self.clip

    def _is_relative(self) -> bool:
        return self._exact_alpha is None and self.penalty == "relative"

    def _size_is_open(self) -> bool:
        # A black box is too slow to compare sizes with: it takes the good fixed value.
        return self._generic is None and super()._size_is_open()

    def _metric_candidates(self, X, codes, total_weight: float) -> list:
        if self._generic is not None and self.metric == "auto":
            return ["euclidean"]
        return super()._metric_candidates(X, codes, total_weight)

    def _degree_candidates(self, X) -> list[int]:
        if self.degree != "auto":
            return [self.degree]
        if self.estimator is not None or X.shape[1] > _MAX_QUADRATIC_COLUMNS:
            return [1]
        return [1, 2]

    def _alpha_candidates(self) -> list[float]:
        if self._exact_alpha is not None:
            return [self._exact_alpha]
        if self._generic is not None:
            return [0.0]
        return list(_ALPHA_LADDER) if self.alpha == "auto" else [float(self.alpha)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self.anchors is None
        return tags


def _is_plain_ridge(estimator: Ridge) -> bool:
    return estimator.fit_intercept and not estimator.positive and np.ndim(estimator.alpha) == 0
