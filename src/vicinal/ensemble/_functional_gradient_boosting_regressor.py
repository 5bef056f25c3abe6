"""Gradient boosting of any regressor, for regression."""

from numbers import Real

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils.validation import validate_data

from vicinal._base import atomic_fit, documented, positive_rows, saved
from vicinal._base._compat import HasMethods, Interval, StrOptions
from vicinal._kernels.ensemble._losses import REGRESSION_LOSSES
from vicinal.ensemble._base_boosting import BaseFunctionalGradientBoosting


@saved(coef_="m | m *")
@documented
class FunctionalGradientBoostingRegressor(RegressorMixin, BaseFunctionalGradientBoosting):
    r"""Gradient boosting of any regressor by any loss.

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

    Notes
    -----
    Gradient boosting [1]_ goes down the loss in function space. With :math:`F_0 = \arg\min_c \sum_i
    w_i L(y_i, c)`, round :math:`m` fits the learner by least squares to

    .. math:: r_i = -\left.\frac{\partial L(y_i, F)}{\partial F}\right|_{F = F_{m-1}(x_i)}

    and takes the new member :math:`f_m` in by one of

    .. math::

        \alpha_m &= \arg\min_a \sum_i w_i L(y_i, F_{m-1}(x_i) + a f_m(x_i)), \quad
        F_m = F_{m-1} + \nu \alpha_m f_m
        && \text{(line search)} \\
        v_l &= \sum_{i \in l} w_i r_i \Big/ \sum_{i \in l} w_i h_i
        && \text{(leaf; $h$: second derivative)} \\
        \alpha_{0..m} &= \arg\min_\alpha \tfrac1W \sum_i w_i L\Big(y_i,
        \sum_j \alpha_j f_j(x_i)\Big) + \tfrac{\lambda}{2} \sum_{j>0} \alpha_j^2
        && \text{(corrective)}

    (equations 9 to 13 of the guide; steps 3 to 5 of the lecture's algorithm [2]_). Losses whose
    second derivative vanishes take the leaf's own median or quantile, and a bracketing line search.
    Members that do not descend get coefficient zero and are left out; two in a row end the fit.

    References
    ----------
    .. [1] Friedman, "Greedy function approximation: a gradient boosting machine", Annals of
       Statistics 29(5), 2001. :doi:`10.1214/aos/1013203451`
    .. [2] Toussaint, "Local learning and ensemble learning", lecture slides, pages 22 to 25.
    .. [3] Hastie, Tibshirani, Friedman, "The Elements of Statistical Learning", 2nd edition,
       Springer 2009, chapters 10 and 16. :doi:`10.1007/978-0-387-84858-7`

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
        super().__init__(
            estimator,
            loss=loss,
            n_estimators=n_estimators,
            learning_rate=learning_rate,
            coefficients=coefficients,
            newton=newton,
            post_fit=post_fit,
            alpha=alpha,
            subsample=subsample,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            tol=tol,
            random_state=random_state,
            verbose=verbose,
        )
        self.quantile = quantile

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
