"""Local polynomial regression with standard errors (LOESS)."""

from numbers import Integral, Real

from vicinal._base import atomic_fit, documented, store_parameters
from vicinal._base._compat import HasMethods, Interval, Options, StrOptions
from vicinal.local._fit import local_data, resolve, select, store
from vicinal.local._regressors import BaseLocalRegressor
from vicinal.local._rows import METRICS


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
        ``"interpolate"`` fits at the nodes of a grid only and interpolates between them: much
        faster for many rows, with a small error. For one or two columns.
    cell : float, default=0.2
        With ``surface="interpolate"``: rows in a grid cell, as a share of those in a neighbourhood.
        Smaller is closer to the direct surface.
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
    n_nodes_ : int or None
        Number of fits behind an interpolated surface.

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
        "cell": [Interval(Real, 0, 1, closed="right")],
        "metric": [StrOptions(METRICS), callable, HasMethods(["fit", "transform"])],
        "algorithm": [StrOptions({"auto", "tree", "brute"})],
        "n_jobs": [Integral, None],
    }

    _preset = {"alpha": 0.0}

    def __init__(
        self,
        span=0.75,
        *,
        degree=2,
        robust_iterations=0,
        surface="direct",
        cell=0.2,
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
        data = local_data(self, X, y, sample_weight, None, accept_sparse=False)
        settings = resolve(self, data)
        store(self, select(data, settings), settings)
        self.n_nodes_ = getattr(self._model, "n_nodes", None)
        return self

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        return tags
