"""Bootstrap of any regressor, with prediction intervals."""

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.tree import DecisionTreeRegressor

from vicinal._base import atomic_fit, documented, is_frame
from vicinal._conformal import IntervalMixin
from vicinal.ensemble._base_bootstrap import BaseBootstrapEnsemble


def _output(member, X):
    return np.asarray(member.predict(X), dtype=np.float64)


@documented
class BootstrapEnsembleRegressor(RegressorMixin, IntervalMixin, BaseBootstrapEnsemble):
    r"""Bootstrap of any regressor: mean, spread over members, and prediction intervals.

    The members' spread says how much the *model* would change with other training rows; it leaves
    out the noise, and as an interval it can cover a fifth of what it promises. Intervals therefore
    come from the residuals of rows that members did not see.

    Read more in the :doc:`user guide </guide/ensemble>`.

    Parameters
    ----------
    estimator : regressor, default=None
        Learner; ``None`` is :class:`~sklearn.tree.DecisionTreeRegressor`.

    Attributes
    ----------
    estimators_ : list of length n_estimators
        Fitted members.
    oob_prediction_ : ndarray of shape (n_samples,)
        Mean prediction of each training row by the members that did not see it, NaN where all
        did. Rows of weight zero are left out.
    oob_residuals_ : ndarray of shape (n_samples,)
        Target minus ``oob_prediction_``.
    oob_score_ : float
        :math:`R^2` of ``oob_prediction_``.

    See Also
    --------
    BootstrapEnsembleClassifier : The same for classes.
    sklearn.ensemble.BaggingRegressor : Bagging without spread and intervals.

    Notes
    -----
    Member :math:`m` is fitted to :math:`n` rows drawn with replacement, with chances proportional
    to the weights; the prediction is :math:`f(x) = \tfrac1M \sum_m f_m(x)` [1]_. With :math:`e_i =
    y_i - f^{-i}(x_i)`, the residual of row :math:`i` under the mean of the members that did not
    draw it, and :math:`s` their local mean, the interval of coverage :math:`c` is
    :math:`f(x) \mp q\, s(x)` with the conformal quantile :math:`q` of :math:`|e_i| / s_{-i}(x_i)`,
    one for each end where errors are skewed, as in
    :class:`~vicinal.uncertainty.ConformalRegressor`: wide where errors are large.

    References
    ----------
    .. [1] Breiman, "Bagging predictors", Machine Learning 24, 1996. :doi:`10.1007/BF00058655`
    .. [2] Johansson, Boström, Löfström, Linusson, "Regression conformal prediction with random
       forests", Machine Learning 97, 2014, section 3. :doi:`10.1007/s10994-014-5453-0`

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from sklearn.linear_model import LinearRegression
    >>> from vicinal.ensemble import BootstrapEnsembleRegressor
    >>> X, y = make_friedman1(n_samples=1000, noise=1.0, random_state=0)
    >>> model = BootstrapEnsembleRegressor(LinearRegression(), random_state=0).fit(X[:500], y[:500])
    >>> low, high = model.predict_interval(X[500:], coverage=0.9).T
    >>> bool(0.86 < ((low <= y[500:]) & (y[500:] <= high)).mean() < 0.94)
    True
    """

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Fit the members.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows.
        sample_weight : array-like of shape (n_samples,), default=None
            Chances of being drawn, up to a factor; any learner will do.
        """
        weight, X, y = self._training_rows(X, y, sample_weight, y_numeric=True)
        y = y.astype(np.float64)
        self._keep_out_of_bag(X, self._fit_members(X, y, weight), y, weight)
        return self

    def _learner(self):
        return DecisionTreeRegressor() if self.estimator is None else self.estimator

    def _output(self):
        return _output

    def _keep_out_of_bag(self, X, mean, y, weight):
        is_known = ~np.isnan(mean)
        if np.count_nonzero(is_known) < 2:
            raise ValueError(
                f"n_samples={len(y)} with n_estimators={self.n_estimators} left fewer than two "
                "rows out of bag, so no residual is known; give more rows or raise n_estimators."
            )
        self.oob_prediction_, self.oob_residuals_ = mean, y - mean
        self._keep_answers(X, mean[:, None], y[:, None], weight, is_known)
        self.oob_score_ = float(
            r2_score(y[is_known], mean[is_known], sample_weight=weight[is_known])
        )

    def predict(self, X, return_std=False):
        """Predict the mean over members.

        Parameters
        ----------
        return_std : bool, default=False
            Also return the deviation over members: the model's variance alone, without noise.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Predictions.
        std : ndarray of shape (n_samples,)
            Only with ``return_std=True``.
        """
        X = self._checked(X)
        moments = self._moments(X, _output)
        dtype = np.float64 if is_frame(X) else X.dtype
        mean = moments.mean.astype(dtype, copy=False)
        return (mean, moments.std().astype(dtype, copy=False)) if return_std else mean
