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

    Parameters
    ----------
    bandwidth : float, "auto" or None, default=None
        Fixed radius of the kernel; ``inf`` gives the overall mean, ``"auto"`` is chosen by
        leave-one-out. ``None`` uses ``n_neighbors``.
    n_neighbors : int, float or "auto", default="auto"
        Size of the neighbourhood, as in :class:`LocalRegressor`; ``"auto"`` is chosen by
        leave-one-out from 10 to 640.
    kernel : str or callable, default="tricube"
        Smoothing kernel, as in :class:`LocalRegressor`.
    metric : str, callable or transformer, default="standardized"
        As in :class:`LocalRegressor`.
    metric_params : dict, default=None
        Further arguments of the metric.
    algorithm : {"auto", "tree", "brute"}, default="auto"
        Neighbour search; ``"auto"`` takes a tree where few columns make it faster.
    outside : {"nearest", "nan", "prior", "raise"}, default="nearest"
        What to answer when no row lies within a fixed ``bandwidth``.
    n_jobs : int, default=None
        Threads; ``None`` uses every core.
    random_state : int, RandomState instance or None, default=None
        Draws the rows on which candidates are compared when there are more than 3000.

    Attributes
    ----------
    n_neighbors_ : int or None
        Number of neighbours in use.
    bandwidth_ : float or None
        Fixed bandwidth in use.
    alpha_ : float
        0: there are no slopes to shrink.
    degree_ : int
        0.
    metric_ : str, callable or transformer
        Metric in use.
    selection_ : dict of ndarray
        Path of the choice, when something was chosen.
    loo_score_ : float
        Leave-one-out mean squared error of the choice, in units of the variance of y.

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
