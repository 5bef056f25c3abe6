"""Bootstrap of any classifier, with the spread of its probabilities."""

import functools

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.tree import DecisionTreeClassifier

from vicinal._base import atomic_fit, documented, encode_labels, is_frame
from vicinal._conformal import LabelSetMixin
from vicinal.ensemble._base_bootstrap import BaseBootstrapEnsemble
from vicinal.ensemble._learners import class_probabilities


@documented
class BootstrapEnsembleClassifier(ClassifierMixin, LabelSetMixin, BaseBootstrapEnsemble):
    r"""Bootstrap of any classifier: mean probabilities and their spread over members.

    Read more in the :doc:`user guide </guide/ensemble>`.

    Parameters
    ----------
    estimator : classifier, default=None
        Learner; ``None`` is :class:`~sklearn.tree.DecisionTreeClassifier`. Without
        ``predict_proba`` its members vote.

    Attributes
    ----------
    estimators_ : list of length n_estimators
        Fitted members; they predict class codes, positions in ``classes_``.
    oob_decision_function_ : ndarray of shape (n_samples, n_classes)
        Mean probabilities of each training row by the members that did not see it, NaN where all
        did. Rows of weight zero are left out.
    oob_score_ : float
        Accuracy of ``oob_decision_function_``, NaN where every row was always drawn.

    See Also
    --------
    BootstrapEnsembleRegressor : The same for numbers, with intervals.
    sklearn.ensemble.BaggingClassifier : Bagging without spread.
    sklearn.ensemble.RandomForestClassifier : Bagged trees with random splits.

    Notes
    -----
    Member :math:`m` is fitted to :math:`n` rows drawn with replacement, with chances proportional
    to the weights, and :math:`P(k|x) = \tfrac1M \sum_m P_m(k|x)` [1]_. A draw that misses a class
    is repeated, ten times at most; then each class is drawn by itself. Weights that are all whole
    numbers count as repetitions.

    References
    ----------
    .. [1] Breiman, "Bagging predictors", Machine Learning 24, 1996. :doi:`10.1007/BF00058655`

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from vicinal.ensemble import BootstrapEnsembleClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = BootstrapEnsembleClassifier(n_estimators=50, random_state=0).fit(X, y)
    >>> probability, spread = model.predict_proba(X[[0, 77]], return_std=True)
    >>> bool(spread[0].max() < spread[1].max())
    True
    >>> model.oob_score_ > 0.9
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
        weight, X, y = self._training_rows(X, y, sample_weight)
        self.classes_, codes = encode_labels(y)
        self._keep_out_of_bag(X, self._fit_members(X, codes, weight, codes), codes, weight)
        return self

    def _learner(self):
        return DecisionTreeClassifier() if self.estimator is None else self.estimator

    def _output_shape(self):
        return (len(self.classes_),)

    def _output(self):
        return functools.partial(class_probabilities, n_classes=len(self.classes_))

    def _keep_out_of_bag(self, X, mean, codes, weight):
        is_known = ~np.isnan(mean[:, 0])
        self.oob_decision_function_, self.oob_score_ = mean, float("nan")
        self._keep_answers(X, mean, codes, weight, is_known)
        if is_known.any():
            is_right = mean[is_known].argmax(axis=1) == codes[is_known]
            self.oob_score_ = float(np.average(is_right, weights=weight[is_known]))

    def predict_proba(self, X, return_std=False):
        """Mean probabilities over members.

        Parameters
        ----------
        return_std : bool, default=False
            Also return the deviation over members.

        Returns
        -------
        probability : ndarray of shape (n_samples, n_classes)
            Rows sum to one.
        std : ndarray of shape (n_samples, n_classes)
            Only with ``return_std=True``.
        """
        X = self._checked(X)
        moments = self._moments(X, self._output())
        dtype = np.float64 if is_frame(X) else X.dtype
        mean = moments.mean.astype(dtype, copy=False)
        return (mean, moments.std().astype(dtype, copy=False)) if return_std else mean

    def predict(self, X):
        """Predict the class of largest mean probability."""
        probability = self.predict_proba(X)
        return self.classes_.take(probability.argmax(axis=1))
