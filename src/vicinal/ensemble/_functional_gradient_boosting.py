"""Gradient boosting of any regressor by any loss."""

import warnings
from numbers import Integral, Real

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from vicinal._base import (
    TrainingData,
    atomic_fit,
    documented,
    predicted_labels,
    query_rows,
    saved,
    store_parameters,
    training_data,
)
from vicinal._base._compat import HasMethods, Interval, StrOptions
from vicinal._base._explanation import ExplainRowMixin, ExplanationSection, show
from vicinal._conformal import FoldedRowsMixin, IntervalMixin, LabelSetMixin
from vicinal._kernels.ensemble._boosting import (
    REGRESSION_LOSSES,
    Exponential,
    Logistic,
    Multinomial,
)
from vicinal.ensemble._boosting_rounds import Rounds, boost, group_outputs, resolve_boosting


@documented
class _FunctionalGradientBoosting(FoldedRowsMixin, ExplainRowMixin, BaseEstimator):
    r"""Gradient boosting over any regressor and differentiable loss.

    Parameters
    ----------
    estimator : regressor, default=None
        Learner of every round; ``None`` is ``DecisionTreeRegressor(max_depth=3)``.
    n_estimators : int, default=100
        Largest number of rounds.
    learning_rate : float, default=0.1
        Shrinkage of each round. With ``coefficients="corrective"``, the step towards the refitted
        coefficients in each round; 1 is the full refit.
    coefficients : {"auto", "line_search", "leaf", "corrective", "fixed"}, default="auto"
        Coefficients of the base models. ``"line_search"``: the one of least loss for the new base
        model. ``"leaf"``: the best constant in each leaf of a
        :class:`~sklearn.tree.DecisionTreeRegressor`. ``"corrective"``: a refit of all coefficients
        in every round under a ridge penalty ``alpha``, which lowers the training loss fastest and
        overfits soonest. ``"fixed"``: 1. ``"auto"`` is ``"leaf"`` for trees and
        ``"line_search"`` for other learners.
    newton : bool, default=False
        Whether base models are fitted to the Newton step (residual over curvature, weighted by
        the curvature) instead of the residual. Needs a learner that accepts ``sample_weight``.
    post_fit : {"l1"}, default=None
        ``"l1"`` refits all coefficients after the last round with an L1 penalty, chosen by
        five-fold cross-validation, and drops the base models of coefficient zero.
    alpha : float, default=1e-3
        Ridge penalty of ``coefficients="corrective"``, relative to the mean loss and to outputs of
        unit standard deviation. The intercept is not penalised.
    subsample : float, default=1.0
        Share of the rows, sampled without replacement, that each round is fitted to.
    validation_fraction : float, default=0.1
        Share of the rows held out for early stopping; used with ``n_iter_no_change`` only.
    n_iter_no_change : int, default=None
        Early stopping: end when the held-out loss has not fallen for this many rounds, and return
        to the best round. ``None`` uses all rows and all rounds.
    tol : float, default=1e-4
        Smallest relative decrease of the held-out loss that counts.
    random_state : int, RandomState instance or None, default=None
        Seed of the learners, the subsamples, and the folds.

    Attributes
    ----------
    coef_ : ndarray of shape (`n_iter_`,)
        Coefficient of each base model, learning rate included.
    train_score_ : ndarray of shape (n_rounds,)
        Mean training loss after each round. With ``subsample < 1`` over all rows.
    validation_score_ : ndarray of shape (n_rounds,) or None
        Mean held-out loss after each round, with early stopping only.
    n_iter_ : int
        Number of base models.

    Notes
    -----
    Gradient boosting [1]_ is gradient descent in function space. With :math:`F_0 = \arg\min_c
    \sum_i w_i L(y_i, c)`, round :math:`m` fits the learner by least squares to

    .. math:: r_i = -\left.\frac{\partial L(y_i, F)}{\partial F}\right|_{F = F_{m-1}(x_i)}

    and adds the new base model :math:`f_m` by one of

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
    Base models that do not lower the loss are dropped; two in a row end the fit.

    References
    ----------
    .. [1] Friedman, "Greedy function approximation: a gradient boosting machine", Annals of
       Statistics 29(5), 2001. :doi:`10.1214/aos/1013203451`
    .. [2] Toussaint, "Local learning and ensemble learning", lecture slides, pages 22 to 25.
    .. [3] Hastie, Tibshirani, Friedman, "The Elements of Statistical Learning", 2nd edition,
       Springer 2009, chapters 10 and 16. :doi:`10.1007/978-0-387-84858-7`
    """

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        "n_estimators": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "coefficients": [StrOptions({"auto", "line_search", "leaf", "corrective", "fixed"})],
        "newton": ["boolean"],
        "post_fit": [StrOptions({"l1"}), None],
        "alpha": [Interval(Real, 0, None, closed="left")],
        "subsample": [Interval(Real, 0, 1, closed="right")],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left"), None],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def _store(self, data: TrainingData, rounds: Rounds):
        self._keep_rows(data.X, data.labels, data.sample_weight)
        single = rounds.n_scores == 1
        self._loss = rounds.loss
        self.estimators_ = [group[0] if single else group for group in rounds.groups]
        self.coef_ = rounds.coef
        self.intercept_ = float(rounds.intercept[0]) if single else rounds.intercept
        self.train_score_ = np.array(rounds.train_score)
        self.validation_score_ = None
        if rounds.held is not None:
            self.validation_score_ = np.array(rounds.validation_score)
        self.n_iter_ = len(rounds.groups)
        self._stages = rounds.stages
        is_quadratic = getattr(rounds.loss, "is_quadratic", False)
        if is_quadratic and self.estimators_ and hasattr(self.estimators_[0], "coef_"):
            warnings.warn(
                f"{type(self).__name__} boosts a linear learner with the squared error, and a sum "
                "of linear models is linear, so the result tends to least squares. Use a learner "
                "that is not linear in its inputs (trees, kernels, local models).",
                UserWarning,
                stacklevel=5,
            )
        return self

    def _outputs(self, X):
        """Yield the predictions of each round, (n_samples, n_scores)."""
        for group in self.estimators_:
            yield group_outputs(group if isinstance(group, list) else [group], X)

    def _raw_scores(self, X):
        score = np.zeros((X.shape[0], np.size(self.intercept_))) + self.intercept_
        for coef, output in zip(self.coef_, self._outputs(X), strict=True):
            score += coef * output
        return score

    def _staged_scores(self, X):
        if self._stages is None:
            score = np.zeros((X.shape[0], np.size(self.intercept_))) + self.intercept_
            for coef, output in zip(self.coef_, self._outputs(X), strict=True):
                score = score + coef * output
                yield score
            return
        outputs = []
        for (intercept, coef), output in zip(self._stages, self._outputs(X), strict=True):
            outputs.append(output)
            yield intercept + sum(c * f for c, f in zip(coef, outputs, strict=True))

    def _sections(self, X, columns):
        """Return what every round adds to the score."""
        outputs = np.zeros((0, 1))
        if self.n_iter_:
            queries = query_rows(self, X, accept_sparse="csr")
            outputs = np.stack(list(self._outputs(queries)), axis=1)[0]
        column, sign, target = 0, 1.0, "the prediction"
        if hasattr(self, "classes_"):
            chosen = int(np.argmax(self.predict_proba(X)[0]))
            target = f"the score of {show(self.classes_[chosen])}"
            # Two classes share one score, that of the second.
            column = chosen if outputs.shape[1] > 1 else 0
            sign = -1.0 if outputs.shape[1] == 1 and chosen == 0 else 1.0
        parts = sign * self.coef_ * outputs[:, column]
        start = sign * float(np.atleast_1d(self.intercept_)[column])
        score = start + float(parts.sum())
        rows = [
            (
                f"round {m + 1}",
                float(self.coef_[m]),
                sign * float(outputs[m, column]),
                float(parts[m]),
            )
            for m in np.argsort(-np.abs(parts), kind="stable")
        ]
        summary = (
            f"{self.n_iter_} rounds add to {target}: from {show(start)} to {show(score)}. The "
            "largest steps come first."
        )
        head = ("round", "weight", "output", "contribution")
        values = {"start": start, "score": score}
        return [ExplanationSection("base_models", "Rounds", summary, head, rows, head[-1], values)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


@saved(classes_="c labels", coef_="m | m *")
@documented
class FunctionalGradientBoostingClassifier(
    ClassifierMixin, LabelSetMixin, _FunctionalGradientBoosting
):
    """Gradient boosting classifier over any regressor and loss.

    Each round fits copies of ``estimator``, a *regressor* (a tree, kernel ridge, a local model, a
    pipeline), to the residuals of the current probabilities: one copy for two classes, else one
    per class, with one coefficient for all of them.

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
        Base models; with more than two classes each is a list of one regressor per class.
    intercept_ : float or ndarray of shape (n_classes,)
        Score before the first round (or its refitted value).

    See Also
    --------
    FunctionalGradientBoostingRegressor : The same for regression.
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
        **_FunctionalGradientBoosting._parameter_constraints,
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
        store_parameters(self, locals())

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Fit the rounds.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights; the learner must accept them if they differ.
        """
        data = training_data(self, X, y, sample_weight, task="classification", accept_sparse="csr")
        self.classes_, loss = data.classes, self.loss
        n_classes = len(data.classes)
        if n_classes > 2 and loss != "log_loss":
            raise ValueError(
                f"loss={loss!r} is for two classes, and y holds {n_classes}; use "
                "loss='log_loss', or wrap the model in sklearn.multiclass.OneVsRestClassifier."
            )
        if loss == "exponential":
            loss = Exponential()
        elif loss == "log_loss":
            loss = Logistic() if n_classes == 2 else Multinomial(n_classes)
        return self._store(data, boost(data, resolve_boosting(self, loss)))

    def decision_function(self, X):
        """Raw scores: log-odds for two classes, one column per class for more."""
        X = query_rows(self, X, accept_sparse="csr")
        score = self._raw_scores(X).astype(X.dtype, copy=False)
        return score[:, 0] if score.shape[1] == 1 else score

    def predict_proba(self, X):
        """Probabilities of the classes."""
        X = query_rows(self, X, accept_sparse="csr")
        return self._probability(self._raw_scores(X)).astype(X.dtype, copy=False)

    def predict(self, X):
        """Predict the most probable class."""
        return predicted_labels(self, self.predict_proba(X))

    def staged_predict_proba(self, X):
        """Probabilities after each round (after each base model that ``post_fit`` left).

        Yields
        ------
        probability : ndarray of shape (n_samples, n_classes)
            Probabilities after one more round.
        """
        X = query_rows(self, X, accept_sparse="csr")
        for score in self._staged_scores(X):
            yield self._probability(score).astype(X.dtype, copy=False)

    def staged_predict(self, X):
        """Predict after each round (after each base model that ``post_fit`` left).

        Yields
        ------
        y : ndarray of shape (n_samples,)
            Class labels after one more round.
        """
        for probability in self.staged_predict_proba(X):
            yield predicted_labels(self, probability)

    def _probability(self, score):
        probability = getattr(self._loss, "probability", expit)
        if score.shape[1] > 1:
            return probability(score)
        second = probability(score[:, 0])
        return np.column_stack([1.0 - second, second])


@saved(coef_="m | m *")
@documented
class FunctionalGradientBoostingRegressor(
    RegressorMixin, IntervalMixin, _FunctionalGradientBoosting
):
    """Gradient boosting regressor over any regressor and loss.

    Each round fits a copy of ``estimator`` (a tree, kernel ridge, a local model, a pipeline) to the
    residuals of the previous rounds. For trees with standard losses scikit-learn's histogram
    boosting is faster; this class is for other learners, other losses, and other ways to find
    coefficients.

    Read more in the :doc:`user guide </guide/ensemble>`.

    Parameters
    ----------
    loss : str or object, default="squared_error"
        One of ``"squared_error", "absolute_error", "huber", "quantile", "poisson"``, or an object.
        An object has ``value(y, score)``, ``gradient(y, score)`` and ``hessian(y, score)``, each
        of vectors; it may have ``constant(y, weight)`` (the best constant score), ``mean(score)``
        (the prediction) and ``has_curvature = False``.
    n_estimators : int, default=300
        Largest number of rounds.
    quantile : float, default=0.9
        Level of the quantile loss; for ``"huber"`` the quantile of absolute residuals beyond which
        the loss is linear, computed again in each round.

    Attributes
    ----------
    estimators_ : list of length `n_iter_`
        Base models.
    intercept_ : float
        Score before the first round (or its refitted value).

    See Also
    --------
    FunctionalGradientBoostingClassifier : The same for classification.
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
        **_FunctionalGradientBoosting._parameter_constraints,
        "loss": [StrOptions(set(REGRESSION_LOSSES)), HasMethods(["value", "gradient", "hessian"])],
        "quantile": [Interval(Real, 0, 1, closed="neither")],
    }

    def __init__(
        self,
        estimator=None,
        *,
        loss="squared_error",
        quantile=0.9,
        n_estimators=300,
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
        store_parameters(self, locals())

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Fit the rounds.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights; the learner must accept them if they differ.
        """
        data = training_data(self, X, y, sample_weight, task="regression", accept_sparse="csr")
        if self.loss == "poisson" and (data.y.min() < 0 or data.y.sum() <= 0):
            raise ValueError(
                f"loss='poisson' needs y >= 0 with a positive sum, but y has minimum "
                f"{data.y.min()!r} and sum {data.y.sum()!r}; use another loss."
            )
        loss = self.loss
        if isinstance(loss, str):
            loss = REGRESSION_LOSSES[loss](self.quantile)
        return self._store(data, boost(data, resolve_boosting(self, loss)))

    def predict(self, X):
        """Predict the target."""
        X = query_rows(self, X, accept_sparse="csr")
        return self._mean(self._raw_scores(X)).astype(X.dtype, copy=False)

    def staged_predict(self, X):
        """Predict after each round (after each base model that ``post_fit`` left).

        Yields
        ------
        y : ndarray of shape (n_samples,)
            Predictions after one more round.
        """
        X = query_rows(self, X, accept_sparse="csr")
        for score in self._staged_scores(X):
            yield self._mean(score).astype(X.dtype, copy=False)

    def _mean(self, score):
        return self._loss.mean(score[:, 0]) if hasattr(self._loss, "mean") else score[:, 0]
