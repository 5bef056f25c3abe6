"""Intervals for any regressor, wide where its errors are large."""

from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from vicinal._base import atomic_fit, documented
from vicinal._rows import IntervalMixin
from vicinal.uncertainty._base_conformal import SHARED_CONSTRAINTS, BaseConformal
from vicinal.uncertainty._explain import interval_section


@documented
class ConformalRegressor(RegressorMixin, IntervalMixin, BaseConformal):
    r"""Prediction intervals for any regressor, from the errors of its held-out answers.

    Every training row is answered by a model that had not seen it. The errors of these answers,
    each in units of the local mean of errors around its row, have a quantile q; an interval reaches
    q local means to either side of the prediction. Where noise is strong it is wide, where noise is
    weak narrow, and it covers a new row with the chance asked for. The model itself is fitted to
    all rows.

    Read more in the :ref:`user guide <rows>`.

    Parameters
    ----------
    estimator : estimator object
        Any regressor or pipeline. A fitted one inside
        :class:`~sklearn.frozen.FrozenEstimator` is kept, and the rows of ``fit`` only calibrate it:
        they must then be rows that it has not seen.
    cv : int, cross-validation generator or iterable, default=None
        Folds by which rows are held out; ``None`` means 5, and up to 20 on tables of fewer than 600
        rows. Each row must be held out once.

    Attributes
    ----------
    held_out_ : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Answers to the training rows by models that had not seen them; rows of zero sample weight
        are not counted.

    See Also
    --------
    ConformalClassifier : Sets of labels.

    Notes
    -----
    With residuals :math:`r_i = y_i - f_{-i}(x_i)` and the local scale
    :math:`s(x) = \sum_i w_i(x) |r_i| / \sum_i w_i(x)` (tricube weights in standardised columns;
    size, or one scale for all places, by the likelihood of rows left out; raised to the least
    power that the likelihood does not reject), the interval is
    :math:`f(x) \mp q\, s(x)`, where q is the :math:`\lceil c (n + 1) \rceil`-th smallest
    :math:`|r_i| / s_{-i}(x_i)` [1]_. Skewed residuals get a quantile for each end. With
    ``local=True`` the quantile is taken over the rows around the query, weighted by nearness, the
    query's own mass counted [2]_ [3]_.

    A model fitted to 80 % of the rows errs more than one fitted to all. Two further fits, to about
    half of the rows each, tell how errors fall with the number of rows,
    :math:`|r| / s \propto n^{-a}`, and residuals are shrunk to what all rows should give. Most rows
    around a held-out one had learned from it, those around a new row have not: :math:`s_{-i}` is
    raised by the ratio of the errors of neighbours of its own fold, which had not, to those of all.

    References
    ----------
    .. [1] J. Lei, M. G'Sell, A. Rinaldo, R. J. Tibshirani and L. Wasserman, "Distribution-free
       predictive inference for regression", Journal of the American Statistical Association 113
       (2018), section 5.2. :doi:`10.1080/01621459.2017.1307116`
    .. [2] L. Guan, "Localized conformal prediction", Biometrika 110 (2023), 33-50.
       :doi:`10.1093/biomet/asac040`
    .. [3] R. Hore and R. F. Barber, "Conformal prediction with local weights: randomization enables
       robust guarantees", Journal of the Royal Statistical Society B 87 (2025), 549-578.
       :doi:`10.1093/jrsssb/qkae103`

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from vicinal.uncertainty import ConformalRegressor
    >>> rng = np.random.RandomState(0)
    >>> x = rng.uniform(0, 1, size=(1000, 1))
    >>> y = 2 * x[:, 0] + rng.normal(size=1000) * (0.1 + x[:, 0])
    >>> model = ConformalRegressor(LinearRegression(), random_state=0).fit(x, y)
    >>> np.diff(model.predict_interval([[0.05], [0.95]], coverage=0.9)).ravel().round(1)
    array([0.5, 3.5])
    """

    _parameter_constraints: dict = {**SHARED_CONSTRAINTS}

    def __init__(self, estimator, *, cv=None, n_jobs=None, random_state=None):
        self.estimator = estimator
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state

    @atomic_fit
    def fit(self, X, y, sample_weight=None, groups=None):
        """Fit the model, and keep the errors of held-out answers.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Training rows, as the model takes them.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            How often each row counts, for the model and in the quantiles.
        """
        X, y, weights, groups = self._check_rows(
            X, y, sample_weight, groups, multi_output=True, y_numeric=True
        )
        self._fit_model(X, y, weights, groups, method="predict")
        self.held_out_ = self._answered.answers.reshape(-1, *y.shape[1:])
        return self

    def held_out_scale(self):
        """Return how large errors are around each training row, its own left out.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Local mean of the absolute errors of held-out answers.
        """
        check_is_fitted(self)
        return self._answered.intervals.scale.held_out.reshape(self.held_out_.shape)

    def _promise(self, X):
        low, high = self.predict_interval(X)[0].reshape(-1, 2)[0].tolist()
        return interval_section(low, high, 0.9)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self.estimator.__sklearn_tags__().target_tags.multi_output
        return tags
