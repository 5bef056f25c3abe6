"""Regression on any table by a mixture of local, linear and tree models."""

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted

from vicinal._base import as_given, atomic_fit, documented
from vicinal._conformal import IntervalMixin
from vicinal.auto._base import BaseAuto
from vicinal.auto._scorers import NumberScorer


@documented
class AutoRegressor(RegressorMixin, IntervalMixin, BaseAuto):
    r"""Regression on a table by a mixture of models, each judged on rows it had not seen.

    Local ridge models, forests, linear and quadratic models, boosted trees and a support vector
    machine answer training rows that they were not fitted to, and are mixed by the weights that
    would have answered best; a mixture of few members remains, whose contributions add up to the
    answer. ``score_`` says how well it will do: every choice that went into it was made without the
    rows it is computed from.

    Read more in the :doc:`user guide </guide/auto>`.

    Parameters
    ----------
    members : "default" or list, default="default"
        Members to try: pairs (name, regressor), names of kinds of default members (``"constant"``,
        ``"local"``, ``"forest"``, ``"boosting"``, ``"linear"``, ``"gradient"``, ``"svm"``,
        ``"kernel"``, ``"neural"``), or both. ``"default"`` tries every kind but the last, which
        takes minutes, each where it can pay.

    Attributes
    ----------
    score_, score_error_ : float
        R2 to expect on new rows and its standard error: for each fold, settings, members and
        weights were chosen on the other folds. The error counts the luck of the rows that were
        answered and of those that were learned from.
    held_out_ : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Predictions of each training row by models that had not seen it, mixed by a pool that was
        not chosen on it; NaN for rows that were not drawn.

    See Also
    --------
    AutoClassifier : The same for classes.
    vicinal.local.LocalRegressor : One local model.
    sklearn.ensemble.StackingRegressor : Any final model on top of given members.

    Notes
    -----
    With :math:`f_m^{-i}` the answer of member m to row i by a model that had not seen it, the
    weights minimise

    .. math:: \sum_i s_i \Big(y_i - \sum_m w_m f_m^{-i}(x_i)\Big)^2, \qquad w \ge 0, \sum_m w_m = 1,

    which is convex; outputs are compared in units of their variance. Members below 2 % are dropped
    and at most six remain; where none beats the constant answer by two standard errors, the
    constant answers. Local models leave the row out of its neighbourhood, forests ask the
    trees that did not draw it, whatever else learns from targets learns from the other folds.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from vicinal.auto import AutoRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = AutoRegressor(members=["local", "linear"], random_state=0).fit(X, y)
    >>> parts = model.contributions(X[:2])
    >>> bool(abs(parts.sum(axis=1)[:, 0] - model.predict(X[:2])).max() < 1e-9)
    True
    >>> model.predict_interval(X[:2], coverage=0.9).shape
    (2, 2)
    """

    _method = "predict"

    def __init__(
        self,
        members="default",
        *,
        max_fit_time=None,
        cv=5,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        super().__init__(
            members,
            max_fit_time=max_fit_time,
            cv=cv,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
        )

    @atomic_fit
    def fit(self, X, y, sample_weight=None, groups=None):
        """Try the members, weigh them, and fit those that carry weight.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_samples, n_features)
            Training rows; NaN are gaps. Words, dates and the like are encoded by
            :class:`~vicinal.table.TableEncoder`. Rows on a GPU (torch, CuPy) stay there, and the
            members that run there are tried.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        """
        X, y = self._validated(X, y, multi_output=True, y_numeric=True)
        self._is_flat = y.ndim == 1
        y = np.asarray(y, dtype=np.float64)
        X, y, counts, groups, rows = self._weighted_rows(X, y, sample_weight, groups)
        self._learn(X, y, rows, counts, groups, None)
        self.held_out_ = self._flat(self.held_out_)
        return self

    def _checked_targets(self, y) -> np.ndarray:
        return check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")

    def _scorer(self, y, entries, weight) -> NumberScorer:
        Y = y.reshape(len(y), -1)
        mean = np.average(Y, axis=0, weights=weight)
        scale = np.sqrt(np.average((Y - mean) ** 2, axis=0, weights=weight))
        return NumberScorer(Y[entries], weight[entries], np.where(scale > 0.0, scale, 1.0))

    def _calibrated(self, answers: np.ndarray, slope: float) -> np.ndarray:
        return answers

    def _flat(self, answers: np.ndarray) -> np.ndarray:
        return answers[:, 0] if self._is_flat else answers

    def predict(self, X):
        """Return the mixture of the members' predictions.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features)
            Queries; NaN are gaps.
        """
        return as_given(self._flat(self._pooled(X)), X)

    def held_out_scale(self):
        """Return how large errors are around each training row, its own left out.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Local mean of the absolute errors of held-out answers; NaN where there is none.
        """
        check_is_fitted(self)
        out = np.full(self.held_out_.shape, np.nan)
        is_known = np.isfinite(self.held_out_.reshape(len(out), -1)).all(axis=1)
        out[is_known] = self._flat(self._answered.intervals.scale.held_out)
        return out

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
