"""What linear classifiers share: scores and probabilities."""

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal._base import check_magnitude, documented
from vicinal._base._explanation import ExplainRowMixin, linear_sections


@documented
class LinearScores(ExplainRowMixin, ClassifierMixin, BaseEstimator):
    """Predictions from ``coef_``, ``intercept_`` and ``classes_``, as scikit-learn shapes them.

    Two classes share one row of coefficients, whose score is that of ``classes_[1]`` less that of
    ``classes_[0]``.
    """

    _accept_sparse: bool | str = False
    # Scores are divided by this before the softmax.
    _score_scale = 1.0

    def decision_function(self, X):
        """Return the score of each class."""
        check_is_fitted(self)
        check_magnitude("X", X)
        X = validate_data(
            self,
            X,
            accept_sparse=self._accept_sparse,
            dtype=[np.float64, np.float32],
            reset=False,
        )
        scores = X @ self.coef_.T + self.intercept_
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X):
        """Predict the class of each sample."""
        scores = self.decision_function(X)
        codes = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[codes]

    def predict_proba(self, X):
        """Predict the probability of each class."""
        scores = self.decision_function(X) / self._score_scale
        if scores.ndim == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        return softmax(scores, axis=1)

    def predict_log_proba(self, X):
        """Predict the logarithm of the probability of each class.

        Returns
        -------
        log_probabilities : ndarray of shape (n_samples, n_classes)
            Logarithms in the order of ``classes_``, exact also where probabilities underflow.
        """
        scores = self.decision_function(X) / self._score_scale
        if scores.ndim == 1:
            return np.column_stack([log_expit(-scores), log_expit(scores)])
        return log_softmax(scores, axis=1)

    def _sections(self, X, columns):
        return linear_sections(self, X, columns)

    def _store_scores(self, coef, intercept, dtype):
        """Keep the coefficients in ``dtype``, one row for two classes."""
        if len(coef) == 2:
            coef, intercept = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
        self.coef_ = coef.astype(dtype)
        self.intercept_ = intercept.astype(dtype)
