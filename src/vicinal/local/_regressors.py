"""Regression by a weighted model around every query, and inference for linear smoothers."""

from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy import sparse, stats
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from vicinal._base import SparseInputMixin, TrainingData, atomic_fit, documented, store_parameters
from vicinal._base._compat import HasMethods, Interval, Options, StrOptions
from vicinal._conformal import IntervalMixin, check_coverage
from vicinal.local._base import SHARED_CONSTRAINTS, BaseLocal, check_compiled
from vicinal.local._data import local_data
from vicinal.local._fits import LocalFit, store
from vicinal.local._selection import select
from vicinal.local._settings import resolve

# Above this number of rows the second moment of the residual operator is estimated by probes.
MAX_EXACT_ROWS = 2000
N_PROBES = 30


@dataclass(frozen=True)
class SmootherStatistics:
    """Noise level, degrees of freedom and leverages of a linear smoother.

    Attributes
    ----------
    sigma : ndarray of shape (n_outputs,)
        Residual standard deviation, sqrt(RSS / one_delta).
    one_delta, two_delta : float
        First and second moment of (I - L)'(I - L).
    dof : float
        one_delta^2 / two_delta, degrees of freedom of the t distribution.
    trace : float
        tr L.
    equivalent_parameters : float
        tr L'L.
    leverage : ndarray of shape (n_samples,)
        Diagonal of L.
    largest_norm : float
        Largest |l(x_i)|^2 over training rows.
    rss : ndarray of shape (n_outputs,)
        Residual sum of squares.
    n_observations : float
        Number of rows, counted with their weights.
    """

    sigma: np.ndarray
    one_delta: float
    two_delta: float
    dof: float
    trace: float
    equivalent_parameters: float
    leverage: np.ndarray
    largest_norm: float
    rss: np.ndarray
    n_observations: float

    @property
    def aicc(self) -> np.ndarray:
        """Corrected Akaike criterion of Hurvich, Simonoff and Tsai (1998)."""
        n, trace = self.n_observations, self.trace
        if n - trace - 2 <= 0:
            return np.full(len(self.rss), np.inf)
        with np.errstate(divide="ignore"):  # an exact fit
            return np.log(self.rss / n) + 1 + 2 * (trace + 1) / (n - trace - 2)

    @property
    def gcv(self) -> np.ndarray:
        """Generalised cross-validation."""
        n = self.n_observations
        return n * self.rss / (n - self.trace) ** 2


def smoother_statistics(model: LocalFit, *, exact: bool) -> SmootherStatistics:
    """Return the statistics of a linear smoother on its training rows.

    Rows of weight s count as s rows: with A = S^(1/2) (I - L) S^(-1/2) the moments are those of
    A'A, plus one for every further copy (copies differ only in directions that L ignores).
    ``exact`` computes A, of n^2 numbers; otherwise random probes estimate the second moment.
    """
    targets, s = model.data.y, model.data.weights
    n = len(targets)
    root = np.sqrt(s)
    leverage, norms = np.zeros(n), np.zeros(n)
    rss = np.zeros(targets.shape[1])
    A = np.eye(n) if exact else None
    for block, L in _smoother_rows(model):
        leverage[block] = L[:, block].diagonal()
        norms[block] = L.power(2) @ (1.0 / s)
        rss += s[block] @ (targets[block] - L @ targets) ** 2
        if A is not None:
            A[block] -= root[block, None] * L.toarray() / root
    n_observations = float(s.sum())
    trace = float(leverage.sum())
    parameters = float(s @ norms)
    one_delta = n_observations - 2.0 * trace + parameters
    if A is not None:
        two_delta = float(((A.T @ A) ** 2).sum()) + n_observations - n
    else:
        two_delta = _probe_second_moment(model, root[:, None]) + n_observations - n
    return SmootherStatistics(
        sigma=np.sqrt(rss / one_delta) if one_delta > 0 else np.full(len(rss), np.nan),
        one_delta=one_delta,
        two_delta=two_delta,
        dof=one_delta**2 / two_delta if two_delta > 0 else np.nan,
        trace=trace,
        equivalent_parameters=parameters,
        leverage=leverage,
        largest_norm=float(norms.max()),
        rss=rss,
        n_observations=n_observations,
    )


def _smoother_rows(model: LocalFit) -> Iterator[tuple[slice, sparse.csr_matrix]]:
    """Yield (block, its rows of L) for all training rows."""
    for block, design, found in model.on_training():
        yield block, found.matrix(model.block_kernel(design, found), model.data.n_samples)


def _probe_second_moment(model: LocalFit, root: np.ndarray) -> float:
    """Estimate tr (A'A)^2 = E |A'A z|^2 over random signs z (Hutchinson 1990)."""
    Z = check_random_state(0).choice([-1.0, 1.0], size=(len(root), N_PROBES))
    AZ = Z.copy()
    for block, L in _smoother_rows(model):
        AZ[block] -= root[block] * (L @ (Z / root))
    AtAZ = AZ.copy()
    for block, L in _smoother_rows(model):
        AtAZ -= L.T @ (root[block] * AZ[block]) / root
    return float((AtAZ**2).sum() / N_PROBES)


@documented
class BaseLocalRegressor(
    SparseInputMixin, MultiOutputMixin, RegressorMixin, IntervalMixin, BaseLocal
):
    """Base class of the regressors that are fitted around every query.

    Parameters
    ----------
    robust_iterations : int, default=0
        Number of refits in which rows with large residuals weigh less (bisquare weights); 4 is
        LOESS's "symmetric" family.
    outside : {"nearest", "nan", "prior", "raise"}, default="nearest"
        Prediction where no row lies within a fixed ``bandwidth``: from the d+1 nearest rows, NaN,
        the overall mean, or an error.

    Attributes
    ----------
    loo_score_ : float
        Leave-one-out mean squared error of the selected setting, in units of the variance of y, on
        the rows used for the selection and therefore optimistic; present if something was selected.
    """

    @atomic_fit
    def fit(self, X, y, sample_weight=None, groups=None):
        """Store the rows and select the parameters that are ``"auto"``.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        groups : array-like of shape (n_samples,), default=None
            Rows of the same group are left out together when candidates are compared.
        """
        return self._fit_data(local_data(self, X, y, sample_weight, groups))

    def _fit_data(self, data: TrainingData) -> "BaseLocalRegressor":
        settings = resolve(self, data)
        chosen, compared = select(data, settings)
        store(self, chosen, settings, compared)
        return self

    # --- queries ---

    def predict(self, X, return_std=False):
        """Predict targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Queries.
        return_std : bool, default=False
            Also return the standard error of each prediction.

        Returns
        -------
        y : ndarray of shape (n_queries,) or (n_queries, n_outputs)
            Predictions.
        std : ndarray of the same shape
            Standard errors, with ``return_std=True``.
        """
        X = self._queries(X)
        if not return_std:
            return self._shaped(self._model.predictions(X))
        self._check_smoother("return_std=True")
        values, norms = self._model.predictions_and_norms(X)
        return self._shaped(values), self._shaped(np.sqrt(norms)[:, None] * self.statistics().sigma)

    def _check_smoother(self, what: str) -> None:
        """Refuse what needs a linear smoother and NumPy arrays."""
        if not self._model.solver.is_linear:
            raise ValueError(
                f"{what} needs a linear smoother, but estimator={self.estimator!r} is not one; "
                "use estimator=None, Ridge() or LinearRegression()."
            )
        self._model.data.check_host(what)

    def statistics(self, dof: str = "auto") -> SmootherStatistics:
        """Return noise level, degrees of freedom and leverages of the fitted smoother.

        Parameters
        ----------
        dof : {"auto", "exact", "approximate"}, default="auto"
            ``"exact"`` forms the n x n residual operator, ``"approximate"`` estimates its second
            moment by 30 random probes; ``"auto"`` is exact up to 2000 rows.

        Returns
        -------
        SmootherStatistics
            With ``sigma``, ``one_delta``, ``two_delta``, ``dof``, ``trace``,
            ``equivalent_parameters``, ``leverage``, ``aicc``, ``gcv``.
        """
        check_is_fitted(self)
        if dof not in ("auto", "exact", "approximate"):
            raise ValueError(f'dof={dof!r} must be "auto", "exact" or "approximate".')
        self._check_smoother("statistics()")
        is_small = self._model.data.n_samples <= MAX_EXACT_ROWS
        exact = dof == "exact" or (dof == "auto" and is_small)
        known = vars(self._model).setdefault("_statistics", {})  # as long as the model lives
        if exact not in known:
            known[exact] = smoother_statistics(self._model, exact=exact)
        return known[exact]

    def predict_interval(
        self, X, coverage=0.9, *, method="conformal", kind="prediction", local=False
    ):
        """Return intervals that contain the target with the given probability.

        Parameters
        ----------
        coverage : float, default=0.9
            Probability, between 0 and 1.
        method : {"conformal", "normal"}, default="conformal"
            ``"conformal"`` uses quantiles of leave-one-out errors relative to their local mean, and
            assumes no distribution. ``"normal"`` assumes independent normal noise of constant
            variance, and needs a linear smoother.
        kind : {"prediction", "confidence"}, default="prediction"
            With ``method="normal"``: interval of a new observation, or of the expected value.
        local : bool, default=False
            Compute the conformal quantile from the rows around each query.

        Returns
        -------
        ndarray of shape (n_queries, 2) or (n_queries, n_outputs, 2)
            Lower and upper ends.
        """
        if method not in ("conformal", "normal"):
            raise ValueError(f'method={method!r} must be "conformal" or "normal".')
        if kind not in ("prediction", "confidence"):
            raise ValueError(f'kind={kind!r} must be "prediction" or "confidence".')
        if method == "normal":
            return self._normal_interval(X, coverage, kind)
        if kind == "confidence":
            raise ValueError(
                'kind="confidence" needs method="normal", and method="conformal" was given.'
            )
        return super().predict_interval(X, coverage, local=local)

    def _normal_interval(self, X, coverage, kind) -> Any:
        X = self._queries(X)
        self._check_smoother('method="normal"')
        check_coverage(coverage)
        values, norms = self._model.predictions_and_norms(X)
        statistics = self.statistics()
        variance = norms + 1.0 if kind == "prediction" else norms
        reach = stats.t.ppf(0.5 + coverage / 2.0, statistics.dof) * np.sqrt(variance)
        half = reach[:, None] * statistics.sigma
        return self._shaped(np.stack([values - half, values + half], axis=-1))

    def extrapolates(self, X):
        """Return which queries are extrapolated: their variance exceeds that of all training rows.

        Returns
        -------
        ndarray of bool of shape (n_queries,)
            Whether :math:`|l(q)|^2` exceeds its largest value over the training rows, or is not
            known because no row is near (``outside="nan"``).
        """
        X = self._queries(X)
        self._check_smoother("extrapolates")
        _, norms = self._model.predictions_and_norms(X)
        return ~(norms <= self.statistics().largest_norm * (1.0 + 1e-9))

    def equivalent_kernel(self, X):
        """Return the weight of every training target in each prediction.

        Returns
        -------
        CSR matrix of shape (n_queries, n_samples)
            Rows l(q): the prediction is ``equivalent_kernel(X) @ y``, except where no row is near:
            those are empty. Rows of zero sample weight are not counted.
        """
        X = self._queries(X)
        self._check_smoother("equivalent_kernel")
        return self._model.kernel(X)

    def local_coef(self, X):
        """Return the slopes of the local model at each query.

        Returns
        -------
        ndarray of shape (n_queries, n_features) or (n_queries, n_outputs, n_features)
            Gradient of the local model with respect to the columns of X.
        """
        X = self._queries(X)
        check_compiled(self, "local_coef")
        return self._shaped(self._model.slopes(X))

    def leave_one_out(self):
        """Return the prediction of every training row by a model that did not see it.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Rows of zero sample weight are not counted.
        """
        check_is_fitted(self)
        return self._shaped(self._model.left_out())


@documented
class LocalRegressor(BaseLocalRegressor):
    r"""Regression by a weighted model around every query.

    For each query a small model (local constant, linear or quadratic ridge, or any estimator) is
    fitted to the rows around it, weighted by distance, and evaluated at the query. Use it for
    smooth targets of unknown form, to see the slopes at a row, and for geographically weighted
    regression (``location_columns``).

    Read more in the :doc:`user guide </guide/local>`.

    Parameters
    ----------
    estimator : estimator, default=None
        Local model, cloned and fitted on the neighbours centred at the query with their weights.
        ``None`` is ridge regression with an unpenalised intercept. ``Ridge`` and
        ``LinearRegression`` themselves (not subclasses) are computed by the same compiled code.
    degree : {"auto", 0, 1, 2}, default="auto"
        Degree of the local polynomial: 0 is the Nadaraya-Watson average. ``"auto"`` compares 1 and,
        with at most eight columns, 2.

    See Also
    --------
    LocalClassifier : The same for classification.
    LoessRegressor : Local polynomials with standard errors, as in Cleveland's LOESS.
    NadarayaWatsonRegressor : Weighted averages.
    AnchoredLocalRegressor : Models fitted once at anchors, for fast predictions.
    vicinal.auto.AutoRegressor : A weighted average of local and other models.

    Notes
    -----
    With weights :math:`w_i = s_i K(\|x_i - q\| / h)`, :math:`s = \sum_i w_i`, mean offset
    :math:`m = \sum_i w_i (x_i - q) / s` and scatter
    :math:`V = \sum_i w_i (x_i - q - m)(x_i - q - m)^\top` the prediction is
    :math:`g(q) = \sum_i l_i(q) y_i` with

    .. math:: l_i(q) = w_i / s - w_i (x_i - q - m)^\top (V + \lambda I)^{-1} m,

    the ridge fit centred at the query with a free intercept; :math:`\lambda = \alpha
    \operatorname{tr}(V) / d` for the relative penalty. :math:`\alpha \to \infty` gives the
    local constant, :math:`\alpha = 0` the local linear fit (computed by QR).
    The method is a linear smoother, which gives standard errors and degrees of freedom [1]_, [2]_.

    Among the settings at least as smooth as the one of least leave-one-out loss, and within half a
    (paired) standard error of it, the largest penalty and then the largest size is selected.

    A sample weight of 2 equals repeating the row, also for neighbourhood sizes. A weight common to
    all rows changes nothing.

    References
    ----------
    .. [1] W. S. Cleveland and S. J. Devlin, "Locally weighted regression: an approach to regression
       analysis by local fitting", Journal of the American Statistical Association 83 (1988),
       596-610. :doi:`10.1080/01621459.1988.10478639`
    .. [2] C. Loader, "Local Regression and Likelihood", Springer (1999).
    .. [3] C. G. Atkeson, A. W. Moore and S. Schaal, "Locally weighted learning", Artificial
       Intelligence Review 11 (1997), 11-73. :doi:`10.1023/A:1006559212014`

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
    }

    def __init__(
        self,
        estimator=None,
        *,
        degree="auto",
        n_neighbors="auto",
        bandwidth=None,
        kernel="tricube",
        metric="standardized",
        metric_params=None,
        alpha="auto",
        alpha_scale="relative",
        robust_iterations=0,
        location_columns=None,
        algorithm="auto",
        outside="nearest",
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        store_parameters(self, locals())


@documented
class NadarayaWatsonRegressor(BaseLocalRegressor):
    r"""Weighted average of the targets around every query (local constant regression).

    A preset of :class:`LocalRegressor` with degree 0. It has no slopes, never leaves the range of
    the targets, and suits many columns, where a local linear model has too few rows.

    Read more in the :doc:`user guide </guide/local>`.

    Attributes
    ----------
    alpha_ : float
        0: there are no slopes to shrink.
    degree_ : int
        0.

    See Also
    --------
    LocalRegressor : Local linear and quadratic models.
    sklearn.neighbors.KNeighborsRegressor : Averages of a fixed number of neighbours.

    Notes
    -----
    The prediction is :math:`g(q) = \sum_i w_i y_i / \sum_i w_i` with
    :math:`w_i = s_i K(\|x_i - q\| / h)` [1]_, [2]_, the minimiser of
    :math:`\sum_i w_i (y_i - g)^2`.

    References
    ----------
    .. [1] E. A. Nadaraya, "On estimating regression", Theory of Probability and its Applications 9
       (1964), 141-142. :doi:`10.1137/1109020`
    .. [2] G. S. Watson, "Smooth regression analysis", Sankhya A 26 (1964), 359-372.

    Examples
    --------
    >>> from vicinal.local import NadarayaWatsonRegressor
    >>> X, y = [[0.0], [1.0], [2.0]], [0.0, 1.0, 4.0]
    >>> model = NadarayaWatsonRegressor(bandwidth=2.0, kernel="triangular", metric="euclidean")
    >>> print(model.fit(X, y).predict([[1.0]]))
    [1.5]
    """

    _parameter_constraints: dict = {
        **{
            name: constraint
            for name, constraint in SHARED_CONSTRAINTS.items()
            if name not in ("alpha", "alpha_scale", "location_columns", "verbose")
        },
        "outside": [StrOptions({"nearest", "nan", "prior", "raise"})],
    }

    _preset = {"degree": 0, "alpha": 0.0}

    def __init__(
        self,
        bandwidth=None,
        *,
        n_neighbors="auto",
        kernel="tricube",
        metric="standardized",
        metric_params=None,
        algorithm="auto",
        outside="nearest",
        n_jobs=None,
        random_state=None,
    ):
        store_parameters(self, locals())


@documented
class LoessRegressor(BaseLocalRegressor):
    r"""Local polynomial regression with tricube weights and standard errors (LOESS).

    A polynomial is fitted around every query to the share ``span`` of the rows nearest to it. It is
    a preset of :class:`LocalRegressor` for smoothing noisy curves and surfaces in one to four
    columns, with standard errors, confidence and prediction intervals, and robust refits against
    outliers.

    Read more in the :doc:`user guide </guide/local>`.

    Parameters
    ----------
    span : float, default=0.75
        Share of the rows in each neighbourhood. Above 1 all rows are used and the bandwidth is the
        largest distance times ``span ** (1 / n_features)``.
    degree : {0, 1, 2}, default=2
        Degree of the local polynomial.
    surface : {"direct", "interpolate"}, default="direct"
        ``"interpolate"`` fits at some nodes only, five for each neighbourhood, and interpolates
        between them: much faster for many rows, with a small error. For one column.
    metric : str or transformer, default="euclidean"
        As for :class:`LocalRegressor`; ``"standardized"`` for columns in different units.

    Attributes
    ----------
    n_neighbors_ : int
        Number of rows in each neighbourhood.
    alpha_ : float
        0: LOESS has no penalty.
    bandwidth_ : None
        Neighbourhoods adapt to the density of the rows.
    metric_ : str or transformer
        Metric in use.

    See Also
    --------
    LocalRegressor : Any kernel, penalty and bandwidth.

    Notes
    -----
    With :math:`k = \lfloor n\,\mathrm{span} + 10^{-5} \rfloor` and h the distance of the k-th
    nearest row (the query itself included, if it is one) the weights are
    :math:`(1 - (d/h)^3)^3`, 1 below 0.001 h and 0 above 0.999 h; robust iterations multiply them by
    the bisquare of :math:`|r_i| / (6 \operatorname{median}|r|)` [1]_, [2]_. The fit is linear in y,
    :math:`\hat y = L y`; with :math:`\delta_1 = \operatorname{tr}(I-L)^\top(I-L)` and
    :math:`\delta_2 = \operatorname{tr}[(I-L)^\top(I-L)]^2` the noise level is
    :math:`\hat\sigma^2 = RSS/\delta_1`, the standard error :math:`\hat\sigma \|l(q)\|`, and
    intervals use the t distribution with :math:`\delta_1^2/\delta_2` degrees of freedom. They are
    those of the direct surface, and of the last weights after robust iterations.

    Values equal those of the reference code with ``surface="direct"`` and ``normalize=False``; its
    ``iterations`` counts the same reweightings.

    References
    ----------
    .. [1] W. S. Cleveland, "Robust locally weighted regression and smoothing scatterplots",
       Journal of the American Statistical Association 74 (1979), 829-836.
       :doi:`10.1080/01621459.1979.10481038`
    .. [2] W. S. Cleveland and E. Grosse, "Computational methods for local regression", Statistics
       and Computing 1 (1991), 47-62. :doi:`10.1007/BF01890836`

    Examples
    --------
    >>> import numpy as np
    >>> from vicinal.local import LoessRegressor
    >>> rng = np.random.RandomState(0)
    >>> x = np.linspace(0, 6, 200)[:, None]
    >>> y = np.sin(x).ravel() + 0.1 * rng.normal(size=200)
    >>> model = LoessRegressor(span=0.3).fit(x, y)
    >>> value, error = model.predict([[1.5]], return_std=True)
    >>> print(value.round(2), error.round(2), model.statistics().sigma.round(2))
    [0.95] [0.02] [0.1]
    """

    _parameter_constraints: dict = {
        "span": [Interval(Real, 0, None, closed="neither")],
        "degree": [Options(Integral, {0, 1, 2})],
        "robust_iterations": [Interval(Integral, 0, None, closed="left")],
        "surface": [StrOptions({"direct", "interpolate"})],
        **{name: SHARED_CONSTRAINTS[name] for name in ("metric", "algorithm", "n_jobs")},
    }

    _preset = {"alpha": 0.0}

    def __init__(
        self,
        span=0.75,
        *,
        degree=2,
        robust_iterations=0,
        surface="direct",
        metric="euclidean",
        algorithm="auto",
        n_jobs=None,
    ):
        store_parameters(self, locals())

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Store the rows, run robust iterations and build the surface.

        Parameters
        ----------
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        """
        return self._fit_data(local_data(self, X, y, sample_weight, None, accept_sparse=False))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags
