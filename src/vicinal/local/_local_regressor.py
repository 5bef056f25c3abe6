"""Regression by a weighted model around every query."""

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression, Ridge

from vicinal._base import atomic_fit, documented, is_array_api
from vicinal._base._compat import HasMethods, Interval, Options, StrOptions
from vicinal.local._base import SHARED_CONSTRAINTS
from vicinal.local._regression import ALPHAS, BaseLocalRegressor
from vicinal.local._solvers import (
    ClippedSolver,
    EstimatorSolver,
    RidgeSolver,
    check_local_estimator,
)

# Quadratic models have (d + 1)(d + 2) / 2 coefficients; beyond this they are not tried by "auto".
_MAX_QUADRATIC_COLUMNS = 8


@documented
class LocalRegressor(BaseLocalRegressor):
    r"""Regression by a weighted model around every query.

    For each query a small model (local constant, linear or quadratic ridge, or any estimator) is
    fitted to the rows around it, near rows weighing more than far ones, and evaluated there. Use it
    for smooth targets without a known form, when you want the slopes at a row, and for
    geographically weighted regression (``location_columns``).

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
    clip : bool, default=False
        Keep predictions within the range of the neighbours' targets.

    See Also
    --------
    LocalClassifier : The same for classes.
    LoessRegressor : Local polynomials with standard errors, as in Cleveland's LOESS.
    NadarayaWatsonRegressor : Weighted averages.
    AnchoredLocalRegressor : Models fitted once at anchors, for quick predictions.
    vicinal.auto.AutoRegressor : A mixture of local and other models.

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

    Of the sizes and penalties at least as large as those of least leave-one-out loss, the largest
    penalty and then the largest size whose loss is within half a (paired) standard error is taken:
    a few rows cannot carry the choice of a rough fit.

    Weights count rows: weight 2 equals the row written twice, in neighbourhood sizes as well. A
    weight common to all rows changes nothing.

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
        "clip": ["boolean"],
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
        penalty="relative",
        robust_iterations=0,
        location_columns=None,
        algorithm="auto",
        outside="nearest",
        clip=False,
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
        self.algorithm = algorithm
        self.outside = outside
        self.clip = clip
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
        groups : array-like of shape (n_samples,), default=None
            Rows of the same group are left out together when candidates are compared.
        """
        self._fit_rows(X, y, sample_weight, groups)
        return self

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
        groups : array-like of shape (n_samples,), default=None
            Groups, in every call or in none; rows of different calls never share one.
        """
        if not hasattr(self, "_model"):
            self._fit_rows(X, y, sample_weight, groups)
        else:
            self._append_rows(X, y, sample_weight, groups)
        return self

    def _complete(self, temperature: None) -> None:
        """Do what follows the choice of a setting."""
        self._statistics = {}
        self._reweight()

    def _solver(self, degree: int) -> Any:
        solver = self._plain_solver(degree)
        return ClippedSolver(solver) if self.clip else solver

    def _plain_solver(self, degree: int) -> Any:
        """Use compiled code for the exact types it reproduces, clones of anything else."""
        estimator, n_jobs = self.estimator, self.n_jobs
        if estimator is None:
            return RidgeSolver(degree, self._is_relative(), n_jobs=n_jobs)
        if self.degree not in ("auto", 1):
            raise ValueError(
                f"degree={self.degree!r} belongs to the built-in local polynomial; with "
                "estimator= leave it at 'auto' and put PolynomialFeatures into the estimator."
            )
        own = None
        if type(estimator) is Ridge and _is_plain_ridge(estimator):
            own = float(estimator.alpha)
        elif type(estimator) is LinearRegression and estimator.fit_intercept:
            own = None if estimator.positive else 0.0
        if own is not None:
            return RidgeSolver(degree, relative=False, own_alpha=own, n_jobs=n_jobs)
        return EstimatorSolver(estimator, check_local_estimator(estimator, self.kernel), n_jobs)

    def _size_is_open(self) -> bool:
        # A black box is too slow to compare sizes with: it takes the good fixed value.
        return self._solver(1).is_compiled and super()._size_is_open()

    def _degrees(self, table) -> list[int]:
        if self.degree != "auto":
            return [self.degree]
        if self.estimator is not None or table.X.shape[1] > _MAX_QUADRATIC_COLUMNS:
            return [1]
        # Arrays of other libraries have no quadratic models.
        return [1] if is_array_api(table.X) else [1, 2]

    def _alphas(self) -> list[float]:
        solver = self._solver(1)
        if solver.own_alpha is not None:
            return [solver.own_alpha]
        return list(ALPHAS) if isinstance(self.alpha, str) else [float(self.alpha)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _is_plain_ridge(estimator: Ridge) -> bool:
    return estimator.fit_intercept and not estimator.positive and np.ndim(estimator.alpha) == 0
