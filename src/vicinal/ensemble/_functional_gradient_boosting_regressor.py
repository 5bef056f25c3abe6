"""Gradient boosting of any regressor, for regression."""

from numbers import Real

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from vicinal._base import atomic_fit, documented, positive_rows, saved
from vicinal._base._compat import HasMethods, Interval, StrOptions
from vicinal._conformal import IntervalMixin
from vicinal._kernels.ensemble._losses import REGRESSION_LOSSES
from vicinal.ensemble._base_boosting import BaseFunctionalGradientBoosting


@saved(coef_="m | m *")
@documented
class FunctionalGradientBoostingRegressor(
    RegressorMixin, IntervalMixin, BaseFunctionalGradientBoosting
):
    """Gradient boosting of any regressor by any loss.

    Each round fits a copy of ``estimator`` (a tree, kernel ridge, a local model, a pipeline) to the
    residuals of the rounds before. For trees with standard losses scikit-learn's histogram boosting
    is faster; this class is for other learners, other losses, and other ways to find coefficients.

    Read more in the :doc:`user guide </guide/ensemble>`.

    Parameters
    ----------
    loss : str or object, default="squared_error"
        One of ``"squared_error", "absolute_error", "huber", "quantile", "poisson"``, or an object.
        Loss of a raw score. Any object with ``value(y, score)``, ``gradient(y, score)`` and
        ``hessian(y, score)``, each of vectors, will do; it may have ``constant(y, weight)`` (the
        best constant score), ``mean(score)`` (the prediction) and ``has_curvature = False``.
    quantile : float, default=0.9
        Level of the quantile loss; for ``"huber"`` the quantile of absolute residuals beyond which
        the loss is linear, taken anew each round.

    Attributes
    ----------
    estimators_ : list of length `n_iter_`
        Fitted members.
    intercept_ : float
        Score before the first round (or its refitted value).

    See Also
    --------
    FunctionalGradientBoostingClassifier : The same for classes.
    sklearn.ensemble.HistGradientBoostingRegressor : Fast boosting of binned trees.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from sklearn.kernel_ridge import KernelRidge
    >>> from vicinal.ensemble import FunctionalGradientBoostingRegressor
    >>> X, y = make_friedman1(n_samples=400, noise=1.0, random_state=0)
    >>> learner = KernelRidge(kernel="rbf", gamma=0.5)
    >>> model = FunctionalGradientBoostingRegressor(learner, n_iter_no_change=5, random_state=0)
    >>> model.fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.8
    True
    """

    _parameter_constraints: dict = {
        **BaseFunctionalGradientBoosting._parameter_constraints,
        "loss": [StrOptions(set(REGRESSION_LOSSES)), HasMethods(["value", "gradient", "hessian"])],
        "quantile": [Interval(Real, 0, 1, closed="neither")],
    }

    def __init__(
        self,
        estimator=None,
        *,
        loss="squared_error",
        quantile=0.9,
        n_estimators=100,
        learning_rate=0.1,
        coefficients="auto",
        newton=False,
        post_fit=None,
        alpha=1e-3,
        subsample=1.0,
        validation_fraction=0.1,
        n_iter_no_change=None,
        tol=1e-4,
        random_state=None,
        verbose=0,
    ):
        self.estimator = estimator
        self.loss = loss
        self.quantile = quantile
        self.n_estimators = n_estimators
        self.learning_rate = learning_rate
        self.coefficients = coefficients
        self.newton = newton
        self.post_fit = post_fit
        self.alpha = alpha
        self.subsample = subsample
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Fit the rounds.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights; the learner must take them if they differ.
        """
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], y_numeric=True
        )
        self._keep_rows(X, y, sample_weight)
        weight, X, y = positive_rows(sample_weight, X, y.astype(np.float64))
        return self._boost(X, y, weight, self._make_loss(y), stratify=False)

    def _make_loss(self, y):
        """Return the loss, if the targets are such that it has one."""
        if self.loss == "poisson" and (y.min() < 0 or y.sum() <= 0):
            raise ValueError(
                f"loss='poisson' needs y >= 0 with a positive sum, but y has minimum {y.min()!r} "
                f"and sum {y.sum()!r}; use another loss."
            )
        return (
            REGRESSION_LOSSES[self.loss](self.quantile) if isinstance(self.loss, str) else self.loss
        )

    def predict(self, X):
        """Predict the target."""
        X, dtype = self._checked(X)
        return self._mean(self._raw_scores(X)).astype(dtype, copy=False)

    def staged_predict(self, X):
        """Predict after each round; after ``post_fit``, with the kept members one by one.

        Yields
        ------
        y : ndarray of shape (n_samples,)
            Predictions after one more member.
        """
        X, dtype = self._checked(X)
        for score in self._staged_scores(X):
            yield self._mean(score).astype(dtype, copy=False)

    def _mean(self, score):
        return self._loss.mean(score[:, 0]) if hasattr(self._loss, "mean") else score[:, 0]
