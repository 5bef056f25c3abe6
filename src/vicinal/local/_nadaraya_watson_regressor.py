"""Regression by weighted averages."""

from vicinal._base import atomic_fit, documented
from vicinal._base._compat import StrOptions
from vicinal.local._base import SHARED_CONSTRAINTS
from vicinal.local._regression import BaseLocalRegressor


@documented
class NadarayaWatsonRegressor(BaseLocalRegressor):
    r"""Weighted average of the targets around every query (local constant regression).

    The preset of :class:`LocalRegressor` of degree 0: no slopes, never outside the range of the
    targets, robust in high dimensions where a linear model has too few rows.

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
            name: SHARED_CONSTRAINTS[name]
            for name in (
                "bandwidth",
                "n_neighbors",
                "kernel",
                "metric",
                "metric_params",
                "algorithm",
                "n_jobs",
                "random_state",
            )
        },
        "outside": [StrOptions({"nearest", "nan", "prior", "raise"})],
    }

    # What a preset fixes.
    degree = 0
    alpha = 0.0
    penalty = "relative"
    robust_iterations = 0
    location_columns = None
    clip = False
    verbose = 0

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
        self.bandwidth = bandwidth
        self.n_neighbors = n_neighbors
        self.kernel = kernel
        self.metric = metric
        self.metric_params = metric_params
        self.algorithm = algorithm
        self.outside = outside
        self.n_jobs = n_jobs
        self.random_state = random_state

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

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
