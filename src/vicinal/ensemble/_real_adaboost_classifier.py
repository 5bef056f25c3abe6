"""AdaBoost of class probabilities."""

from numbers import Integral, Real

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import check_random_state

from vicinal._base import (
    Progress,
    SparseInputMixin,
    atomic_fit,
    documented,
    fit_weighted,
    predicted_labels,
    query_rows,
    store_parameters,
    takes_weights,
    training_data,
)
from vicinal._base._compat import HasMethods, Interval
from vicinal._base._explanation import ExplainRowMixin, ExplanationSection, show
from vicinal.ensemble._learners import class_probabilities, fresh_learner, resample_rows, row_count


@documented
class RealAdaBoostClassifier(SparseInputMixin, ExplainRowMixin, ClassifierMixin, BaseEstimator):
    r"""AdaBoost classifier that combines probabilities instead of votes.

    Each round fits a copy of ``estimator`` to reweighted rows and adds the logarithms of its class
    probabilities. Rows whose class has a low probability weigh more in the next round. For two
    classes this is Real AdaBoost, for more SAMME.R, which scikit-learn has removed. Learners that
    do not accept ``sample_weight`` (discriminant analysis, nearest neighbours) are fitted to rows
    sampled in proportion to the weights.

    Read more in the :doc:`user guide </guide/ensemble>`.

    Parameters
    ----------
    estimator : classifier, default=None
        Learner with ``predict_proba``; ``None`` is ``DecisionTreeClassifier(max_leaf_nodes=5)``.
    n_estimators : int, default=100
        Largest number of rounds.
    learning_rate : float, default=0.3
        Shrinkage of each round.
    eps : float, default=1e-5
        Probabilities are kept within ``[eps, 1 - eps]``; pure leaves would give infinite scores.
    random_state : int, RandomState instance or None, default=None
        Seed of the learners and of sampled rows.

    Attributes
    ----------
    estimators_ : list of length `n_iter_`
        Base models; they predict class codes, indices into ``classes_``.
    estimator_errors_ : ndarray of shape (`n_iter_`,)
        Weighted training error of each base model.
    n_iter_ : int
        Number of base models.

    See Also
    --------
    FunctionalGradientBoostingClassifier : Boosting of regressors by the gradient of any loss.
    sklearn.ensemble.AdaBoostClassifier : Discrete AdaBoost, which combines votes.

    Notes
    -----
    With :math:`p_k(x)` the clipped probabilities of the weighted fit and :math:`K` classes, a round
    adds to the scores [1]_

    .. math:: f_k(x) = (K-1) \Big(\log p_k(x) - \tfrac1K \sum_j \log p_j(x)\Big), \quad
              F \leftarrow F + \nu f

    and multiplies the weight of row :math:`i` by

    .. math:: \exp\Big(-\nu \tfrac{K-1}{K} \Big[\log p_{y_i} -
              \tfrac{1}{K-1} \sum_{j \ne y_i} \log p_j\Big]\Big),

    which for two classes are :math:`f = \tfrac12 \log (p / (1-p))` and :math:`w_i \exp(-\nu y_i
    f(x_i))`, :math:`y_i = \pm 1` [2]_. Probabilities are the softmax of :math:`F / (K-1)`. A base
    model that gives every row's class the largest probability allowed ends the fit and replaces
    all others.

    References
    ----------
    .. [1] Zhu, Zou, Rosset, Hastie, "Multi-class AdaBoost", Statistics and Its Interface 2, 2009,
       algorithm 4. :doi:`10.4310/SII.2009.v2.n3.a8`
    .. [2] Friedman, Hastie, Tibshirani, "Additive logistic regression: a statistical view of
       boosting", Annals of Statistics 28(2), 2000, algorithm 2. :doi:`10.1214/aos/1016218223`

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from vicinal.ensemble import RealAdaBoostClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = RealAdaBoostClassifier(random_state=0).fit(X[::2], y[::2])
    >>> model.score(X[1::2], y[1::2]) > 0.94
    True
    """

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "predict_proba"]), None],
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "eps": [Interval(Real, 0, 0.5, closed="neither")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        estimator=None,
        *,
        n_estimators=100,
        learning_rate=0.3,
        eps=1e-5,
        random_state=None,
        verbose=0,
    ):
        store_parameters(self, locals())

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Fit the rounds.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights before the first round.
        """
        data = training_data(self, X, y, sample_weight, task="classification", accept_sparse="csr")
        self.classes_, X, codes = data.classes, data.X, data.y
        learner = (
            DecisionTreeClassifier(max_leaf_nodes=5) if self.estimator is None else self.estimator
        )
        rng = check_random_state(self.random_state)
        n_sampled = row_count(data.weights)
        log_weight = np.log(data.weights)
        self.estimators_, errors = [], []
        with Progress(self.n_estimators, type(self).__name__, verbose=self.verbose) as progress:
            for _ in range(self.n_estimators):
                round_weight = softmax(log_weight)
                estimator = fresh_learner(learner, rng)
                if takes_weights(learner):
                    # Mean one, so that learners with absolute thresholds on weights keep working.
                    fit_weighted(estimator, X, codes, round_weight * len(codes))
                else:
                    rows = resample_rows(rng, round_weight, n_sampled, codes)
                    estimator.fit(X[rows], codes[rows])
                log_p = self._log_probabilities(estimator, X)
                is_wrong = log_p.argmax(axis=1) != codes
                own = log_p[np.arange(len(codes)), codes]
                is_perfect = own.min() >= np.log1p(-self.eps) - 1e-12
                if is_perfect:
                    self.estimators_, errors = [], []
                self.estimators_.append(estimator)
                errors.append(float(round_weight @ is_wrong))
                progress.advance(note=f"weighted error {errors[-1]:.4f}")
                if is_perfect:
                    break
                # The exponent of equation (7): own - rest / (K - 1) = (K own - sum) / (K - 1).
                K = len(self.classes_)
                log_weight = log_weight - self.learning_rate * (own - log_p.sum(axis=1) / K)
                log_weight -= log_weight.max()
        self.estimator_errors_ = np.array(errors)
        self.n_iter_ = len(self.estimators_)
        return self

    def _log_probabilities(self, estimator, X):
        probability = class_probabilities(estimator, X, len(self.classes_))
        return np.log(np.clip(probability, self.eps, 1.0 - self.eps))

    def _staged_scores(self, X):
        """Yield the scores of all classes after each round."""
        X = query_rows(self, X, accept_sparse="csr")
        n_classes = len(self.classes_)
        score = np.zeros((X.shape[0], n_classes))
        for estimator in self.estimators_:
            log_p = self._log_probabilities(estimator, X)
            log_p -= log_p.mean(axis=1, keepdims=True)
            score = score + self.learning_rate * (n_classes - 1) * log_p
            yield score, X.dtype

    def _final_scores(self, X):
        for last in self._staged_scores(X):  # noqa: B007 - only the last stage is wanted
            pass
        return last

    def decision_function(self, X):
        """Sum of the scores of the base models.

        Returns
        -------
        score : ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes half the log-odds of the second, else one column per class.
        """
        score, dtype = self._final_scores(X)
        return (score[:, 1] if len(self.classes_) == 2 else score).astype(dtype)

    def predict_proba(self, X):
        """Probabilities of the classes, the softmax of the scores over ``n_classes - 1``."""
        score, dtype = self._final_scores(X)
        return softmax(score / (len(self.classes_) - 1), axis=1).astype(dtype)

    def predict(self, X):
        """Predict the most probable class."""
        return predicted_labels(self, self.predict_proba(X))

    def staged_predict(self, X):
        """Predict after each round.

        Yields
        ------
        y : ndarray of shape (n_samples,)
            Class labels after one more round.
        """
        for score, _ in self._staged_scores(X):
            yield predicted_labels(self, score)

    def _sections(self, X, columns):
        """Return what every round adds to the score of the predicted class."""
        chosen = int(np.argmax(self.predict_proba(X)[0]))
        scores = np.array([score[0, chosen] for score, _ in self._staged_scores(X)])
        steps = np.diff(scores, prepend=0.0)
        rows = [
            (f"round {m + 1}", float(self.estimator_errors_[m]), float(steps[m]))
            for m in np.argsort(-np.abs(steps), kind="stable")
        ]
        n_agreeing = int((steps > 0).sum())
        summary = (
            f"{n_agreeing} of {len(steps)} base models vote for {show(self.classes_[chosen])}; "
            f"the sum of their scores is {show(float(scores[-1]))}. The largest steps come first."
        )
        head = ("round", "weighted error", "contribution")
        values = {"score": float(scores[-1]), "n_agreeing": n_agreeing}
        return [ExplanationSection("base_models", "Rounds", summary, head, rows, head[-1], values)]
