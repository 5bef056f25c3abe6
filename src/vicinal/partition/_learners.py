"""Learners of the models of a cascade: any estimator, or fast ones for linear models.

A fast learner gives the same model as a clone of its estimator on the same rows, but reads rows by
index, works with sums, and scores all regions with one matrix product.
"""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression, Ridge

from vicinal._base import TrainingData, fit_weighted, random_seeds, take_rows, takes_weights
from vicinal._kernels.cascade._hard import any_linear_errors, linear_errors, weighted_ridge
from vicinal._kernels.linear._covariance import lda_statistics
from vicinal._kernels.linear._perceptron import fit_perceptron, margin_scale, margins_of
from vicinal._kernels.linear._regression import fit_logistic
from vicinal.linear import AveragedPerceptron, WeightedLDA
from vicinal.partition import stages
from vicinal.partition.stages import LinearGate, LinearRegionClassifier, LinearRegionRegressor


def clone_with_seed(estimator: Any, seed: int | None) -> Any:
    """Clone ``estimator`` and set every ``random_state`` that is None to the seed."""
    model = clone(estimator)
    if seed is not None:
        open_states = {
            name: seed
            for name, value in model.get_params(deep=True).items()
            if (name == "random_state" or name.endswith("__random_state")) and value is None
        }
        if open_states:
            model.set_params(**open_states)
    return model


class EstimatorLearner:
    """Learner that fits a clone of any scikit-learn estimator per region or gate.

    If it raises for a small region, the region keeps its earlier model; a learner that never
    succeeds is an error.
    """

    def __init__(self, estimator: Any, data: TrainingData, parameter: str) -> None:
        self.estimator = estimator
        is_regression_gate = data.classes is None and parameter == "reject_estimator"
        if takes_weights(estimator) or not (data.is_weighted or is_regression_gate):
            return
        why = "sample_weight was passed" if data.is_weighted else "gates of a regressor use weights"
        raise ValueError(
            f"{why}, but fit of {parameter}={type(estimator).__name__} does not accept "
            "sample_weight; use another estimator, or omit the weights."
        )

    def fit_region(self, data: TrainingData, rows: np.ndarray, seed: int | None, previous=None):
        """Return a model of the given rows."""
        y = data.y[rows]
        if data.classes is not None:
            is_one_class = (y == y[0]).all()
            y = data.classes[y]
            if is_one_class:
                return DummyClassifier(strategy="prior").fit(np.zeros((1, 1)), y[:1])
        weight = data.weights[rows] if data.is_weighted else None
        return self._fit(data.X, rows, y, weight, seed)

    def fit_gate(self, data, rows, labels, weights, seed: int | None, previous=None) -> Any:
        """Return a gate for the given rows: 1 means "pass on"."""
        return self._fit(data.X, rows, labels, _gate_weights(data, weights), seed)

    def losses(self, models: list, data: TrainingData) -> np.ndarray:
        """Return the loss of every model on every sample, of shape (n_regions, n_samples)."""
        predicted = [model.predict(data.X) for model in models]
        if data.classes is None:
            return np.stack([(data.y - one) ** 2 for one in predicted])
        labels = data.labels
        return np.stack([one != labels for one in predicted])

    def _fit(self, X, rows, target, weight, seed):
        model = clone_with_seed(self.estimator, seed)
        part = X if len(rows) == X.shape[0] else X[rows]
        return fit_weighted(model, part, target, weight)


class LDALearner:
    """Discriminant analysis from the sums over the rows of a region, also on a device."""

    def __init__(self, estimator: WeightedLDA, data: TrainingData) -> None:
        if sparse.issparse(data.X):
            raise ValueError(
                "Discriminant analysis needs dense features, and X is sparse; use 'perceptron' or "
                "'logistic', or convert X with X.toarray()."
            )
        self.shrinkage = float(estimator.shrinkage or 0.0)
        self.dtype = np.float32 if data.X.dtype == data.xp.float32 else np.float64

    def fit_region(self, data: TrainingData, rows, seed, previous=None) -> LinearRegionClassifier:
        """Return the discriminant classifier of the given rows."""
        weight = take_rows(data.sample_weight, rows) if data.is_weighted else None
        codes, n_classes = take_rows(data.y, rows), len(data.classes)
        statistics = lda_statistics(data.X, codes, weight, n_classes, rows=rows)
        found = stages.discriminant_scores(statistics, self.shrinkage)
        return stages.region_of_scores(data.classes, data.n_features, *found, self.dtype)

    def fit_gate(self, data, rows, labels, weights, seed, previous=None) -> LinearGate:
        """Return the half-space that separates rows to pass on from rows to keep."""
        weight = _gate_weights(data, weights)
        statistics = lda_statistics(data.X, labels, weight, 2, rows=rows)
        _, scores = stages.discriminant_scores(statistics, self.shrinkage)
        return stages.gate_of_scores(scores, self.dtype)

    def losses(self, models: list, data: TrainingData) -> Any:
        """Return which samples each region gets wrong, of shape (n_regions, n_samples)."""
        find = linear_errors if data.xp is np else any_linear_errors
        return find(data.X, *stages.stacked_regions(models), data.y)


class LinearLearner(LDALearner):
    """Learner of linear scores per class; subclasses define ``_solve``.

    ``_solve(data, rows, codes, weight, n_classes, seed, start)`` returns coefficients of shape
    (n_classes, n_features) and intercepts; ``codes`` and ``weight`` have one entry for each of the
    rows, ``start`` is the solution for the last sweep's rows, if there is one.
    """

    _solve: Any  # returns coefficients and intercepts for the given rows

    def __init__(self, estimator: Any, data: TrainingData) -> None:
        self.estimator = estimator

    def fit_region(self, data: TrainingData, rows, seed, previous=None) -> LinearRegionClassifier:
        """Return the linear classifier of the classes that occur in the given rows."""
        present, scores = np.flatnonzero(np.bincount(data.y[rows])), None
        if len(present) > 1:
            codes = np.searchsorted(present, data.y[rows])
            weight = data.sample_weight[rows] if data.is_weighted else None
            start = known_start(stages.region_start(previous), present)
            scores = self._solve(data, rows, codes, weight, len(present), seed, start)
        return stages.region_of_scores(data.classes, data.n_features, present, scores, data.X.dtype)

    def fit_gate(self, data, rows, labels, weights, seed, previous=None) -> LinearGate:
        weight, start = _gate_weights(data, weights), stages.gate_start(previous)
        scores = self._solve(data, rows, labels, weight, 2, seed, start)
        return stages.gate_of_scores(scores, data.X.dtype)


class PerceptronLearner(LinearLearner):
    """Averaged perceptron in single precision."""

    def __init__(self, estimator: AveragedPerceptron, data: TrainingData) -> None:
        super().__init__(estimator, data)
        make = sparse.csr_array if sparse.issparse(data.X) else np.ascontiguousarray
        self.single = make(data.X, dtype=np.float32)

    def _solve(self, data, rows, codes, weight, n_classes, seed, start):
        options = {"seed": random_seeds(seed, 1)[0], "n_epochs": self.estimator.max_iter}
        fit = fit_perceptron(self.single[rows], codes, weight, n_classes, **options)
        return fit.coef, fit.intercept

    def scale_margins(self, models: list, data: TrainingData, region: np.ndarray) -> None:
        """Scale the probabilities of each region by the spread of its training margins."""
        for k, model in enumerate(models):
            rows = np.flatnonzero(region == k)
            if len(rows):
                margins = margins_of(model.decision_function(data.X[rows]), data.y[rows])
                # A row may have moved in after the fit, with a class unknown to the model.
                known = np.isfinite(margins)
                if known.any():
                    model.temperature_ = margin_scale(margins[known], data.weights[rows][known])


class LogisticLearner(LinearLearner):
    """Multinomial logistic regression, started where the last sweep ended."""

    def _solve(self, data, rows, codes, weight, n_classes, seed, start):
        if start is not None and n_classes == 2:
            start = difference_of_classes(*start)
        options = logistic_options(self.estimator)
        fit = fit_logistic(data.X[rows], codes, weight, n_classes, start=start, **options)
        return stages.rows_by_class(*fit[:2]) if n_classes == 2 else fit[:2]


def logistic_options(estimator: LogisticRegression) -> dict[str, Any]:
    """Return the settings of the minimisation."""
    return {
        "alpha": 1.0 / estimator.C,
        "fit_intercept": estimator.fit_intercept,
        "tol": estimator.tol,
        "max_iter": estimator.max_iter,
    }


def difference_of_classes(coef: np.ndarray, intercept: np.ndarray) -> tuple:
    """Return the scores of the second of two classes less those of the first."""
    return coef[1:] - coef[:1], intercept[1:] - intercept[:1]


class RidgeLearner:
    """Ridge regression of a region from the weighted Gram matrix of its rows."""

    def __init__(self, estimator: Ridge) -> None:
        self.alpha = float(estimator.alpha)

    def fit_region(self, data: TrainingData, rows, seed, previous=None) -> LinearRegionRegressor:
        """Return the ridge regression of the given rows."""
        coef, intercept = weighted_ridge(data.X, data.y, data.weights, rows, self.alpha)
        return LinearRegionRegressor(coef.astype(data.X.dtype), data.X.dtype.type(intercept))

    def losses(self, models: list, data: TrainingData) -> np.ndarray:
        """Return the squared error of every region on every sample."""
        coefs, intercepts = stages.stacked_regions(models)
        errors = data.X @ coefs.T
        errors += intercepts
        errors -= data.y[:, None]
        return np.ascontiguousarray(np.square(errors, out=errors).T)


def _gate_weights(data: TrainingData, weights: Any) -> Any:
    """Return the costs of a gate's rows, ``None`` if all are one."""
    return weights if data.is_weighted or data.classes is None else None


def known_start(start: Any, present: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the last scores of the present classes, if all of them had rows."""
    if start is None or not np.isfinite(start[1][present]).all():
        return None
    return start[0][present], start[1][present]


def make_learner(
    estimator: Any, data: TrainingData, parameter: str, *, is_single: bool = False
) -> Any:
    """Return the fast learner of an estimator that has one, else a learner of clones.

    Only the exact classes count: a subclass may differ. On the host, the model of a single region
    is a clone, so that it equals the estimator to the last bit.
    """
    if is_single and data.xp is np:
        return EstimatorLearner(estimator, data, parameter)
    if data.classes is None and parameter == "region_estimator":
        if is_plain_ridge(estimator) and not sparse.issparse(data.X):
            return RidgeLearner(estimator)
    elif is_plain_lda(estimator):
        return LDALearner(estimator, data)
    elif type(estimator) is AveragedPerceptron and estimator.class_weight is None:
        return PerceptronLearner(estimator, data)
    elif is_plain_logistic(estimator):
        return LogisticLearner(estimator, data)
    return EstimatorLearner(estimator, data, parameter)


def is_plain_lda(estimator: Any) -> bool:
    """Return whether an estimator is a discriminant analysis given by sums over rows."""
    return (
        type(estimator) is WeightedLDA
        and estimator.priors is None
        and estimator.shrinkage != "auto"
    )


def is_plain_logistic(estimator: Any) -> bool:
    """Return whether an estimator is a logistic regression with a ridge penalty only."""
    if type(estimator) is not LogisticRegression or not np.isfinite(estimator.C):
        return False
    given, defaults = (one.get_params(deep=False) for one in (estimator, LogisticRegression()))
    free = {"C", "tol", "max_iter", "fit_intercept", "random_state", "n_jobs"}
    return all(given[name] == defaults[name] for name in set(defaults) - free)


def is_plain_ridge(estimator: Any) -> bool:
    """Return whether an estimator is a ridge regression given by the normal equations."""
    return (
        type(estimator) is Ridge
        and isinstance(estimator.alpha, float | int)
        and estimator.alpha > 0
        and estimator.fit_intercept
        and not estimator.positive
        and estimator.solver == "auto"
    )
