"""Gradient boosting of any regressor, for classification."""

import numpy as np
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import validate_data

from vicinal._base import atomic_fit, documented, encode_labels, positive_rows, saved
from vicinal._base._compat import HasMethods, StrOptions
from vicinal._conformal import LabelSetMixin
from vicinal._kernels.ensemble._losses import Exponential, Logistic, Multinomial
from vicinal.ensemble._base_boosting import BaseFunctionalGradientBoosting


@saved(classes_="c labels", coef_="m | m *")
@documented
class FunctionalGradientBoostingClassifier(
    ClassifierMixin, LabelSetMixin, BaseFunctionalGradientBoosting
):
    """Gradient boosting of any regressor, for classes.

    Each round fits copies of ``estimator``, a *regressor* (a tree, kernel ridge, a local model, a
    pipeline), to the residuals of the probabilities so far: one copy for two classes, else one per
    class, with one coefficient for all of them.

    Read more in the :doc:`user guide </guide/ensemble>`.

    Parameters
    ----------
    loss : {"log_loss", "exponential"} or object, default="log_loss"
        ``"log_loss"`` is logistic for two classes and multinomial for more; ``"exponential"``, the
        loss of AdaBoost, is for two. An object with ``value(y, score)``, ``gradient(y, score)`` and
        ``hessian(y, score)``, each of vectors with ``y`` in {0, 1}, serves two classes; it may have
        ``constant(y, weight)`` and ``probability(score)`` (the logistic function otherwise).

    Attributes
    ----------
    estimators_ : list of length `n_iter_`
        Fitted members; with more than two classes each is a list of one member per class.
    intercept_ : float or ndarray of shape (n_classes,)
        Score before the first round (or its refitted value).

    See Also
    --------
    FunctionalGradientBoostingRegressor : The same for numbers.
    RealAdaBoostClassifier : Boosting of classifiers by reweighting.
    sklearn.ensemble.HistGradientBoostingClassifier : Fast boosting of binned trees.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from vicinal.ensemble import FunctionalGradientBoostingClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = FunctionalGradientBoostingClassifier(newton=True, random_state=0)
    >>> model.fit(X[::2], y[::2]).score(X[1::2], y[1::2]) > 0.92
    True
    """

    _parameter_constraints: dict = {
        **BaseFunctionalGradientBoosting._parameter_constraints,
        "loss": [
            StrOptions({"log_loss", "exponential"}),
            HasMethods(["value", "gradient", "hessian"]),
        ],
    }

    def __init__(
        self,
        estimator=None,
        *,
        loss="log_loss",
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
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32])
        weight, X, y = positive_rows(sample_weight, X, y)
        self.classes_, codes = encode_labels(y)
        self._keep_rows(X, y, None if sample_weight is None else weight)
        return self._boost(X, codes, weight, self._make_loss(codes), stratify=True)

    def _make_loss(self, codes):
        """Return the loss for the classes found."""
        n_classes = len(self.classes_)
        if n_classes > 2 and self.loss != "log_loss":
            raise ValueError(
                f"loss={self.loss!r} is for two classes, and y holds {n_classes}; use "
                "loss='log_loss', or wrap the model in sklearn.multiclass.OneVsRestClassifier."
            )
        if self.loss == "exponential":
            return Exponential()
        if self.loss == "log_loss":
            return Logistic() if n_classes == 2 else Multinomial(n_classes)
        return self.loss

    def decision_function(self, X):
        """Raw scores: log-odds for two classes, one column per class for more."""
        X, dtype = self._checked(X)
        score = self._raw_scores(X).astype(dtype, copy=False)
        return score[:, 0] if score.shape[1] == 1 else score

    def predict_proba(self, X):
        """Probabilities of the classes."""
        X, dtype = self._checked(X)
        return self._probability(self._raw_scores(X)).astype(dtype, copy=False)

    def predict(self, X):
        """Predict the most probable class."""
        probability = self.predict_proba(X)
        return self.classes_.take(probability.argmax(axis=1))

    def staged_predict_proba(self, X):
        """Probabilities after each round; after ``post_fit``, with the kept members one by one.

        Yields
        ------
        probability : ndarray of shape (n_samples, n_classes)
            Probabilities after one more member.
        """
        X, dtype = self._checked(X)
        for score in self._staged_scores(X):
            yield self._probability(score).astype(dtype, copy=False)

    def staged_predict(self, X):
        """Predict after each round; after ``post_fit``, with the kept members one by one.

        Yields
        ------
        y : ndarray of shape (n_samples,)
            Class labels after one more member.
        """
        for probability in self.staged_predict_proba(X):
            yield self.classes_.take(probability.argmax(axis=1))

    def _probability(self, score):
        probability = getattr(self._loss, "probability", expit)
        if score.shape[1] > 1:
            return probability(score)
        second = probability(score[:, 0])
        return np.column_stack([1.0 - second, second])
