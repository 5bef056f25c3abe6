"""Bootstrap of any learner: mean, standard deviation, intervals and label sets."""

import functools
from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils import check_random_state

from vicinal._base import (
    ArgmaxClassifierMixin,
    SparseInputMixin,
    TrainingData,
    atomic_fit,
    documented,
    is_frame,
    parallel_map,
    query_rows,
    random_seeds,
    store_parameters,
    training_data,
)
from vicinal._base._compat import RUN_CONSTRAINTS, HasMethods, Interval
from vicinal._base._explanation import ExplainRowMixin, ExplanationSection, show
from vicinal._base._tables import spread_rows
from vicinal._base._unseen import report_unseen, unreported
from vicinal._conformal import MAX_HELD_OUT, HeldOutRows, IntervalMixin, LabelSetMixin
from vicinal.ensemble._learners import class_probabilities, fresh_learner, resample_rows, row_count
from vicinal.table import TableEncoder

# Largest bootstrap sample: two gigabytes of row numbers.
_MAX_SAMPLE = 2**28


def _predictions(estimator: Any, X: Any) -> np.ndarray:
    """Return the predictions of a regressor as one column."""
    return np.asarray(estimator.predict(X), dtype=np.float64).reshape(-1, 1)


def _fit_estimator(learner: Any, output: Callable, data: TrainingData, n_sampled: int, seed: int):
    """Fit one base model; return it, its out-of-bag rows and its predictions there."""
    rng = check_random_state(seed)
    rows = resample_rows(rng, data.weights, n_sampled, None if data.classes is None else data.y)
    estimator = fresh_learner(learner, rng).fit(data.rows(rows), data.y[rows])
    unused = np.setdiff1d(np.arange(len(data)), rows)
    with unreported():
        return estimator, unused, output(estimator, data.rows(unused)) if len(unused) else None


def _fit_estimators(model: Any, learner: Any, output: Callable, data: TrainingData) -> tuple:
    """Return base models and the mean out-of-bag prediction of each row, NaN without one."""
    n_sampled = row_count(data.weights)
    if n_sampled > _MAX_SAMPLE:
        raise ValueError(
            f"sample_weight sums to {n_sampled:.3g}, the size of every bootstrap sample, and "
            f"exceeds {_MAX_SAMPLE:.3g}; divide the weights by their mean."
        )
    seeds = random_seeds(model.random_state, model.n_estimators)
    results = parallel_map(
        _fit_estimator,
        [(learner, output, data, n_sampled, seed) for seed in seeds],
        n_jobs=model.n_jobs,
        label=type(model).__name__,
        verbose=model.verbose,
    )
    total = np.zeros((len(data), 1 if data.classes is None else len(data.classes)))
    count = np.zeros((len(data), 1))
    for _, unused, out in results:
        if out is not None:
            total[unused] += out
            count[unused] += 1
    mean = np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)
    return [estimator for estimator, _, _ in results], mean


@unreported()
def _mean_and_std(estimators: list, output: Callable, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and standard deviation of the predictions without storing them (Welford)."""
    mean = squares = np.zeros(1)
    for count, estimator in enumerate(estimators, 1):
        out = output(estimator, X)
        change = out - mean
        mean = mean + change / count
        squares = squares + change * (out - mean)
    dtype = np.float64 if is_frame(X) else X.dtype
    std = np.sqrt(squares / max(1, len(estimators) - 1))
    return mean.astype(dtype, copy=False), std.astype(dtype, copy=False)


@documented
class _BootstrapEnsemble(SparseInputMixin, ExplainRowMixin, BaseEstimator):
    """Ensemble of copies of a learner fitted to bootstrap samples.

    Parameters
    ----------
    n_estimators : int, default=100
        Number of base models.
    n_jobs : int, default=None
        Number of base models run in parallel, through joblib; ``None`` means 1 unless in a
        ``joblib.parallel_config`` context. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of the bootstrap samples and of the learners.
    """

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        "n_estimators": [Interval(Integral, 2, None, closed="left")],
        **RUN_CONSTRAINTS,
    }

    def __init__(
        self, estimator=None, *, n_estimators=100, n_jobs=None, random_state=None, verbose=0
    ):
        store_parameters(self, locals())

    def _store_held_out(self, data: TrainingData, mean: np.ndarray, targets: np.ndarray) -> None:
        """Store some of the rows that have an out-of-bag prediction."""
        rows = np.flatnonzero(~np.isnan(mean[:, 0]))
        rows = rows[spread_rows(len(rows), MAX_HELD_OUT)]
        self._table = TableEncoder(unseen="ignore").fit(data.X) if is_frame(data.X) else None
        numbers = self._as_numbers(data.rows(rows))
        self._out_of_bag = HeldOutRows(
            numbers, mean[rows], targets[rows], data.weights[rows], self.n_jobs
        )

    def _held_out_rows(self) -> HeldOutRows:
        if not len(self._out_of_bag.targets):
            raise ValueError(
                "Every bootstrap sample holds every row, so no row is out of bag; raise "
                "n_estimators."
            )
        return self._out_of_bag

    def _row_numbers(self, X):
        return self._as_numbers(self._queries(X))

    def _as_numbers(self, X):
        return X if self._table is None else self._table.transform(X)

    def _queries(self, X):
        learners = getattr(self, "estimators_", ())[:1]
        return query_rows(self, X, learners=learners, accept_sparse="csr")


@documented
class BootstrapEnsembleClassifier(ArgmaxClassifierMixin, LabelSetMixin, _BootstrapEnsemble):
    r"""Bootstrap ensemble of any classifier, with the standard deviation of its probabilities.

    Read more in the :doc:`user guide </guide/ensemble>`.

    Parameters
    ----------
    estimator : classifier, default=None
        Learner; ``None`` is :class:`~sklearn.tree.DecisionTreeClassifier`. Without
        ``predict_proba`` the base models vote.

    Attributes
    ----------
    estimators_ : list of length n_estimators
        Base models; they predict class codes, indices into ``classes_``.
    oob_decision_function_ : ndarray of shape (n_samples, n_classes)
        Mean probabilities of each training row over the base models that were not fitted to it,
        NaN where all were. Rows of weight zero are removed.
    oob_score_ : float
        Accuracy of ``oob_decision_function_``, NaN if no row is out of bag.

    See Also
    --------
    BootstrapEnsembleRegressor : The same for regression, with intervals.
    sklearn.ensemble.BaggingClassifier : Bagging without standard deviations.
    sklearn.ensemble.RandomForestClassifier : Bagged trees with random splits.

    Notes
    -----
    Base model :math:`m` is fitted to :math:`n` rows sampled with replacement, with probabilities
    proportional to the weights, and :math:`P(k|x) = \tfrac1M \sum_m P_m(k|x)` [1]_. A sample
    without one of the classes is repeated, ten times at most; then each class is sampled
    separately. Weights that are all integers count as repetitions.

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
        """Fit the base models.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows.
        sample_weight : array-like of shape (n_samples,), default=None
            Probabilities of being sampled, up to a factor; any learner works with them.
        """
        learner = DecisionTreeClassifier() if self.estimator is None else self.estimator
        options = {"learners": [learner], "accept_sparse": "csr"}
        data = training_data(self, X, y, sample_weight, task="classification", **options)
        self.classes_ = data.classes
        self.estimators_, mean = _fit_estimators(self, learner, self._output(), data)
        self._store_held_out(data, mean, data.y)
        self.oob_decision_function_, self.oob_score_ = mean, float("nan")
        is_known = ~np.isnan(mean[:, 0])
        if is_known.any():
            is_right = mean[is_known].argmax(axis=1) == data.y[is_known]
            self.oob_score_ = float(np.average(is_right, weights=data.weights[is_known]))
        return self

    def _output(self):
        return functools.partial(class_probabilities, n_classes=len(self.classes_))

    def predict_proba(self, X, return_std=False):
        """Mean probabilities over the base models.

        Parameters
        ----------
        return_std : bool, default=False
            Also return the standard deviation over the base models.

        Returns
        -------
        probability : ndarray of shape (n_samples, n_classes)
            Rows sum to one.
        std : ndarray of shape (n_samples, n_classes)
            Only with ``return_std=True``.
        """
        X = self._queries(X)
        report_unseen(lambda: self.unseen_values(X))
        mean, std = _mean_and_std(self.estimators_, self._output(), X)
        return (mean, std) if return_std else mean

    def _sections(self, X, columns):
        """Return the votes of the base models, and the deviation of their probabilities."""
        n, queries = len(self.estimators_), self._queries(X)
        mean, std = self.predict_proba(X, return_std=True)
        predicted = [int(estimator.predict(queries)[0]) for estimator in self.estimators_]
        votes = np.bincount(predicted, minlength=len(self.classes_))
        order = np.argsort(-mean[0], kind="stable")
        rows = [
            (self.classes_[c], int(votes[c]), float(mean[0, c]), float(std[0, c])) for c in order
        ]
        first = int(order[0])
        summary = (
            f"{int(votes[first])} of {n} base models vote for {show(self.classes_[first])}; the "
            f"standard deviation of its probability is {show(float(std[0, first]))}."
        )
        head = ("class", "votes", "probability", "deviation")
        values = {"votes": dict(zip(self.classes_.tolist(), votes.tolist(), strict=True))}
        return [
            ExplanationSection("base_models", "Base models", summary, head, rows, head[2], values)
        ]


@documented
class BootstrapEnsembleRegressor(RegressorMixin, IntervalMixin, _BootstrapEnsemble):
    r"""Bootstrap ensemble of any regressor, with prediction intervals.

    The standard deviation over the base models estimates how much the *model* would change with
    other training rows. It does not include the noise, and an interval made of it can cover a
    fifth of what it promises. The intervals here come from residuals of out-of-bag rows.

    Read more in the :doc:`user guide </guide/ensemble>`.

    Parameters
    ----------
    estimator : regressor, default=None
        Learner; ``None`` is :class:`~sklearn.tree.DecisionTreeRegressor`.

    Attributes
    ----------
    estimators_ : list of length n_estimators
        Base models.
    oob_prediction_ : ndarray of shape (n_samples,)
        Mean prediction of each training row over the base models that were not fitted to it, NaN
        where all were. Rows of weight zero are removed.
    oob_residuals_ : ndarray of shape (n_samples,)
        Target minus ``oob_prediction_``.
    oob_score_ : float
        :math:`R^2` of ``oob_prediction_``.

    See Also
    --------
    BootstrapEnsembleClassifier : The same for classification.
    sklearn.ensemble.BaggingRegressor : Bagging without intervals.

    Notes
    -----
    Base model :math:`m` is fitted to :math:`n` rows sampled with replacement, with probabilities
    proportional to the weights; the prediction is :math:`f(x) = \tfrac1M \sum_m f_m(x)` [1]_. With
    :math:`e_i = y_i - f^{-i}(x_i)`, the residual of row :math:`i` under the mean of the base models
    that were not fitted to it, and :math:`s` the local mean of :math:`|e|`, the interval of
    coverage :math:`c` is :math:`f(x) \mp q\, s(x)` with the conformal quantile :math:`q` of
    :math:`|e_i| / s_{-i}(x_i)`, one for each end where errors are skewed, as in
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
        """Fit the base models.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows.
        sample_weight : array-like of shape (n_samples,), default=None
            Probabilities of being sampled, up to a factor; any learner works with them.
        """
        learner = DecisionTreeRegressor() if self.estimator is None else self.estimator
        options = {"learners": [learner], "accept_sparse": "csr"}
        data = training_data(self, X, y, sample_weight, task="regression", **options)
        self.estimators_, mean = _fit_estimators(self, learner, _predictions, data)
        is_known = ~np.isnan(mean[:, 0])
        if np.count_nonzero(is_known) < 2:
            raise ValueError(
                f"n_samples={len(data)} with n_estimators={self.n_estimators} left fewer than two "
                "rows out of bag, so no residual is known; give more rows or raise n_estimators."
            )
        self._store_held_out(data, mean, data.y[:, None])
        self.oob_prediction_ = mean[:, 0]
        self.oob_residuals_ = data.y - self.oob_prediction_
        targets, predicted = data.y[is_known], self.oob_prediction_[is_known]
        weights = data.weights[is_known]
        self.oob_score_ = float(r2_score(targets, predicted, sample_weight=weights))
        return self

    def predict(self, X, return_std=False):
        """Predict the mean over the base models.

        Parameters
        ----------
        return_std : bool, default=False
            Also return the standard deviation over the base models, which excludes the noise.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Predictions.
        std : ndarray of shape (n_samples,)
            Only with ``return_std=True``.
        """
        X = self._queries(X)
        report_unseen(lambda: self.unseen_values(X))
        mean, std = _mean_and_std(self.estimators_, _predictions, X)
        return (mean[:, 0], std[:, 0]) if return_std else mean[:, 0]

    def _sections(self, X, columns):
        """Return quantiles of the predictions of the base models, and the interval."""
        queries = self._queries(X)
        predicted = np.array(
            [_predictions(estimator, queries)[0, 0] for estimator in self.estimators_]
        )
        levels = (0.05, 0.25, 0.5, 0.75, 0.95)
        rows = [(f"{level:.0%}", float(np.quantile(predicted, level))) for level in levels]
        low, high = self.predict_interval(X)[0]
        summary = (
            f"{len(predicted)} base models predict {show(float(predicted.mean()))} on average, "
            f"with standard deviation {show(float(predicted.std()))}. The 90 % interval is "
            f"{show(float(low))} to {show(float(high))}."
        )
        values = {"std": float(predicted.std()), "interval": [float(low), float(high)]}
        head = ("share of base models below", "prediction")
        return [ExplanationSection("base_models", "Base models", summary, head, rows, None, values)]
