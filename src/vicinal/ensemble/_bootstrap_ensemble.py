"""Bootstrap of any learner: mean, spread over members, intervals and label sets."""

import functools
from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.metrics import r2_score
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils import check_array, check_consistent_length, check_random_state

from vicinal._base import (
    TrainingData,
    atomic_fit,
    documented,
    draw_seeds,
    is_frame,
    parallel_map,
    predicted_labels,
    query_rows,
    reads_frames,
    training_data,
)
from vicinal._base._compat import HasMethods, Interval
from vicinal._base._explanation import ExplainRowMixin, ExplanationSection, show
from vicinal._conformal import HeldOutRows, IntervalMixin, LabelSetMixin, some_rows
from vicinal.ensemble._learners import class_probabilities, draw_rows, fresh_learner, row_count
from vicinal.table import TableEncoder

# Rows that one member may draw: two gigabytes of row numbers.
_MOST_DRAWS = 2**28


def _predictions(member: Any, X: Any) -> np.ndarray:
    """Return the predictions of a regressor as one column."""
    return np.asarray(member.predict(X), dtype=np.float64).reshape(-1, 1)


def _bootstrap_data(model: Any, learner: Any, X, y, sample_weight, task: str) -> TrainingData:
    """Check the training data; a frame goes as it is to a learner that reads it."""
    if is_frame(X) and reads_frames(learner):
        y = check_array(y, ensure_2d=False, dtype=None, input_name="y")
        check_consistent_length(X, y)
        return training_data(model, X, y, sample_weight, task=task, skip_check_array=True)
    return training_data(model, X, y, sample_weight, task=task, accept_sparse="csr")


def _fit_member(learner: Any, output: Callable, data: TrainingData, n_draws: int, seed: int):
    """Fit one member to its own draw; returns it, its unused rows and its outputs there."""
    rng = check_random_state(seed)
    rows = draw_rows(rng, data.weights, n_draws, None if data.classes is None else data.y)
    member = fresh_learner(learner, rng).fit(data.rows(rows), data.y[rows])
    unused = np.setdiff1d(np.arange(len(data)), rows)
    return member, unused, output(member, data.rows(unused)) if len(unused) else None


def _fit_members(model: Any, learner: Any, output: Callable, data: TrainingData) -> tuple:
    """Return the members and the mean out-of-bag output of each row, NaN where there is none."""
    n_draws = row_count(data.weights)
    if n_draws > _MOST_DRAWS:
        raise ValueError(
            f"sample_weight sums to {n_draws:.3g}, and every member draws so many rows, but at "
            f"most {_MOST_DRAWS:.3g}; divide the weights by their mean to draw one for each."
        )
    seeds = draw_seeds(model.random_state, model.n_estimators)
    results = parallel_map(
        _fit_member,
        [(learner, output, data, n_draws, seed) for seed in seeds],
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
    return [member for member, _, _ in results], mean


def _mean_and_std(members: list, output: Callable, X: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return mean and deviation of the members' outputs without storing them (Welford)."""
    mean = squares = np.zeros(1)
    for count, member in enumerate(members, 1):
        out = output(member, X)
        change = out - mean
        mean = mean + change / count
        squares = squares + change * (out - mean)
    dtype = np.float64 if is_frame(X) else X.dtype
    std = np.sqrt(squares / max(1, len(members) - 1))
    return mean.astype(dtype, copy=False), std.astype(dtype, copy=False)


@documented
class _BootstrapEnsemble(ExplainRowMixin, BaseEstimator):
    """Copies of a learner fitted to rows drawn with replacement.

    Parameters
    ----------
    n_estimators : int, default=100
        Number of members.
    n_jobs : int, default=None
        Members at once, through joblib; ``None`` is one, unless ``joblib.parallel_config`` says
        otherwise. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seeds of the draws and of learners that have one.
    """

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "predict"]), None],
        "n_estimators": [Interval(Integral, 2, None, closed="left")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self, estimator=None, *, n_estimators=100, n_jobs=None, random_state=None, verbose=0
    ):
        self.estimator = estimator
        self.n_estimators = n_estimators
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _store_held_out(self, data: TrainingData, mean: np.ndarray, targets: np.ndarray) -> None:
        """Store some of the rows that have an out-of-bag prediction."""
        rows = np.flatnonzero(~np.isnan(mean[:, 0]))
        rows = rows[some_rows(len(rows))]
        self._table = TableEncoder().fit(data.X) if is_frame(data.X) else None
        numbers = self._as_numbers(data.rows(rows))
        self._answered = HeldOutRows(
            numbers, mean[rows], targets[rows], data.weights[rows], self.n_jobs
        )

    def _held_out_rows(self) -> HeldOutRows:
        if not len(self._answered.targets):
            raise ValueError("every member drew every row; no row was held out to learn from.")
        return self._answered

    def _row_numbers(self, X):
        return self._as_numbers(self._queries(X))

    def _as_numbers(self, X):
        return X if self._table is None else self._table.transform(X)

    def _queries(self, X):
        members = getattr(self, "estimators_", None)
        if members and is_frame(X) and reads_frames(members[0]):
            return query_rows(self, X, skip_check_array=True)
        return query_rows(self, X, accept_sparse="csr")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


@documented
class BootstrapEnsembleClassifier(ClassifierMixin, LabelSetMixin, _BootstrapEnsemble):
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
        learner = DecisionTreeClassifier() if self.estimator is None else self.estimator
        data = _bootstrap_data(self, learner, X, y, sample_weight, "classification")
        self.classes_ = data.classes
        self.estimators_, mean = _fit_members(self, learner, self._output(), data)
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
        X = self._queries(X)
        mean, std = _mean_and_std(self.estimators_, self._output(), X)
        return (mean, std) if return_std else mean

    def predict(self, X):
        """Predict the class of largest mean probability."""
        return predicted_labels(self, self.predict_proba(X))

    def _sections(self, X, columns):
        """Return the votes of the members, and how their probabilities spread."""
        n, queries = len(self.estimators_), self._queries(X)
        mean, std = self.predict_proba(X, return_std=True)
        predicted = [int(member.predict(queries)[0]) for member in self.estimators_]
        votes = np.bincount(predicted, minlength=len(self.classes_))
        order = np.argsort(-mean[0], kind="stable")
        rows = [
            (self.classes_[c], int(votes[c]), float(mean[0, c]), float(std[0, c])) for c in order
        ]
        first = int(order[0])
        summary = (
            f"{int(votes[first])} of {n} members vote for {show(self.classes_[first])}; their "
            f"probability for it deviates by {show(float(std[0, first]))}."
        )
        head = ("class", "votes", "probability", "deviation")
        values = {"votes": dict(zip(self.classes_.tolist(), votes.tolist(), strict=True))}
        return [
            ExplanationSection("base_models", "Base models", summary, head, rows, head[2], values)
        ]


@documented
class BootstrapEnsembleRegressor(RegressorMixin, IntervalMixin, _BootstrapEnsemble):
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
        learner = DecisionTreeRegressor() if self.estimator is None else self.estimator
        data = _bootstrap_data(self, learner, X, y, sample_weight, "regression")
        self.estimators_, mean = _fit_members(self, learner, _predictions, data)
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
        X = self._queries(X)
        mean, std = _mean_and_std(self.estimators_, _predictions, X)
        return (mean[:, 0], std[:, 0]) if return_std else mean[:, 0]

    def _sections(self, X, columns):
        """Return how the members spread, and the interval."""
        queries = self._queries(X)
        predicted = np.array([_predictions(member, queries)[0, 0] for member in self.estimators_])
        levels = (0.05, 0.25, 0.5, 0.75, 0.95)
        rows = [(f"{level:.0%}", float(np.quantile(predicted, level))) for level in levels]
        low, high = self.predict_interval(X)[0]
        summary = (
            f"{len(predicted)} members predict {show(float(predicted.mean()))} on average, with "
            f"deviation {show(float(predicted.std()))}; nine targets in ten should lie between "
            f"{show(float(low))} and {show(float(high))}."
        )
        values = {"std": float(predicted.std()), "interval": [float(low), float(high)]}
        head = ("share of members below", "prediction")
        return [ExplanationSection("base_models", "Base models", summary, head, rows, None, values)]
