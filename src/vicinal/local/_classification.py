"""What the local classifiers share: labels, scores, probabilities."""

from typing import Any

import numpy as np
from array_api_compat import device as device_of
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets

from vicinal._base import (
    as_numpy,
    documented,
    encode_device_labels,
    encode_labels,
    is_array_api,
    namespace,
    validate_array_api,
    weighted_device_rows,
)
from vicinal._kernels.calibration._probabilities import fit_temperature, fit_temperatures
from vicinal.local._arrays import ArrayApiEngine, ArrayLabels, check_array_parameters
from vicinal.local._base import BaseLocal
from vicinal.local._coordinates import sees_labels
from vicinal.local._data import Labels, TrainingTable, checked_rows
from vicinal.local._selection import ALPHAS, MAX_ROWS, NEIGHBORS, View, draw_rows
from vicinal.local._solvers import class_solver, exact_class_solver

SOLVERS = ("ridge", "logistic", "squared_hinge")
# Newton's method costs ten times a ridge solve: fewer candidates, around those that win.
_ITERATIVE_ALPHAS = (0.01, 0.03, 0.1, 0.3, 1.0)
_ITERATIVE_NEIGHBORS = (10, 20, 40, 80, 160)


def _has_scores(method: str):
    """Return a check that the local model offers ``method``."""

    def check(self) -> bool:
        estimator = self.estimator
        if estimator is None or exact_class_solver(estimator) is not None:
            return True
        return hasattr(estimator, method)

    return check


@documented
class BaseLocalClassifier(ClassifierMixin, BaseLocal):
    """Private base of local classifiers.

    Parameters
    ----------
    solver : {"ridge", "logistic", "squared_hinge"}, default="ridge"
        Built-in local model, with an unpenalised intercept. ``"ridge"`` (on indicator columns) is
        one linear system per query for all classes; ``"logistic"`` and ``"squared_hinge"`` are
        fitted by Newton's method, one class against the rest, at seven to thirty times the cost of
        a ridge fit; the search for neighbours, often the longer part, is the same.
    degree : {0, 1, 2}, default=1
        Degree of the local polynomial; 0 is a weighted vote.
    calibration : {"temperature", None}, default="temperature"
        ``"temperature"`` turns scores into softmax(score / T) with T of least leave-one-out log
        loss; ``None`` cuts negative ridge scores to 0 and normalises (logistic and hinge scores go
        through the logistic function first).
    class_weight : dict, "balanced" or None, default=None
        Factors on the weights of each class's rows; neighbourhood sizes do not change.

    Attributes
    ----------
    temperature_ : float or None
        Temperature of the probabilities.
    loo_score_ : float
        Leave-one-out error rate of the setting chosen, on the rows it was chosen by; present when
        something was chosen.
    """

    estimator: Any = None

    # --- fit ---

    def _read(self, X, y, sample_weight, groups, classes=None) -> tuple[TrainingTable, Any]:
        """Check the training data; return them and the engine of their array library."""
        if is_array_api(X):
            return self._read_arrays(X, y, sample_weight, groups, classes), ArrayApiEngine()
        X, y, weights, groups = checked_rows(self, X, y, sample_weight, groups)
        check_classification_targets(y)
        if classes is None:
            self.classes_, codes = encode_labels(y)
        else:
            self.classes_, _ = encode_labels(np.asarray(classes))
            codes = self._encode(y)
        table = TrainingTable(
            X, Labels(codes.astype(np.int64), len(self.classes_)), weights, groups
        )
        return table, self._engine(X)

    def _read_arrays(self, X, y, sample_weight, groups, classes) -> TrainingTable:
        """Do the same where the arrays are."""
        # The classes decide which settings can be used, and those are checked before the rows.
        self.classes_ = encode_device_labels(y, X)[0] if classes is None else np.unique(classes)
        check_array_parameters(self, self._solver(1), groups)
        X = validate_array_api(self, X, reset=True)
        if X.shape[0] < 2:
            raise ValueError(f"Found {X.shape[0]} sample(s); at least 2 are needed.")
        on_device = is_array_api(y)
        X, y, weights = weighted_device_rows(X, y, sample_weight)
        if classes is None:
            self.classes_, codes = encode_device_labels(y, X)
        else:
            codes = namespace(X).asarray(self._encode(as_numpy(y)), device=device_of(X))
        targets = ArrayLabels(codes, len(self.classes_), X.dtype, on_device)
        return TrainingTable(X, targets, weights, None)

    def _encode(self, y) -> np.ndarray:
        """Return the codes of labels that must be among the classes."""
        codes = np.clip(np.searchsorted(self.classes_, y), 0, len(self.classes_) - 1)
        unknown = np.unique(np.asarray(y)[self.classes_[codes] != y])
        if unknown.size:
            raise ValueError(
                f"y holds labels {unknown.tolist()} that are not among the classes "
                f"{self.classes_.tolist()}; name all of them in the first call (classes=)."
            )
        return codes.astype(np.int64)

    def _solver(self, degree: int) -> Any:
        return class_solver(
            self.estimator,
            self.solver,
            self.kernel,
            len(self.classes_),
            degree=degree,
            relative=self._is_relative(),
            n_jobs=self.n_jobs,
        )

    def _factor(self, data) -> np.ndarray | None:
        if self.class_weight is None:
            return None
        codes = data.targets.codes
        factors = compute_class_weight(
            self.class_weight,
            classes=self.classes_,
            y=self.classes_[codes],
            sample_weight=data.sample_weight,
        )
        return np.asarray(factors, dtype=np.float64)[codes]

    def _calibrate(self, table: TrainingTable, engine) -> None:
        """Fit the temperature to scores of rows that their models, and metrics, did not see."""
        self.temperature_: float | None = None
        if not self._has_temperature():
            return
        rows = draw_rows(table.n_samples, self.random_state, MAX_ROWS)
        scores, used = [], []
        metric = self.metric_ if self._is_gradient() else self.metric
        views = [View(self._model.data, rows, np.arange(len(rows)))]
        if sees_labels(metric):
            views = next(iter(self._views(table, engine, metric, rows)))[1]
        for view in views:
            scores.append(as_numpy(self._model.left_out(view.rows, view.data)))
            used.append(view.rows)
        order = np.concatenate(used)
        weights = None if table.sample_weight is None else as_numpy(table.sample_weight)[order]
        codes = as_numpy(table.targets.codes)[order]
        self.temperature_ = fit_temperature(
            np.concatenate(scores).astype(np.float64), codes, weights
        )

    def _has_temperature(self) -> bool:
        """Tell whether scores become probabilities by a temperature."""
        return self.calibration is not None and self._solver(1).link in ("score", "margin")

    # --- what is left open ---

    def _size_is_open(self) -> bool:
        # A black box is too slow to compare sizes with: it takes the good fixed value.
        return self._solver(1).is_compiled and super()._size_is_open()

    def _neighbors(self) -> tuple[int, ...]:
        return NEIGHBORS if self._solver(1).is_linear else _ITERATIVE_NEIGHBORS

    def _alphas(self) -> list[float]:
        solver = self._solver(1)
        if solver.own_alpha is not None:
            return [solver.own_alpha]
        if not isinstance(self.alpha, str):
            return [float(self.alpha)]
        return list(ALPHAS if solver.is_linear else _ITERATIVE_ALPHAS)

    def _as_answers(self, scores, solver, rows, table) -> tuple[np.ndarray, list]:
        """Return probabilities, scores of each candidate at its best temperature, and these."""
        codes = as_numpy(table.targets.codes)[rows]
        weights = None if table.sample_weight is None else as_numpy(table.sample_weight)[rows]
        temperatures: list[float | None] = [None] * len(scores)
        if self._has_temperature():
            exact = scores.astype(np.float64)
            temperatures = fit_temperatures(exact, codes, weights).tolist()
        for said, temperature in zip(scores, temperatures, strict=True):
            said[:] = probabilities(said.astype(np.float64), solver.link, temperature)
        return scores, temperatures

    # --- queries ---

    def predict(self, X):
        """Predict class labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Queries.
        """
        X = self._queries(X)
        return self._model.data.targets.decode(self.classes_, self._model.answers(X))

    @available_if(_has_scores("predict_proba"))
    def predict_proba(self, X):
        """Predict class probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Queries.
        """
        X = self._queries(X)
        return self._model.data.as_given(self._proba(self._model.answers(X, "predict_proba")))

    def _proba(self, scores) -> Any:
        return probabilities(scores, self._model.solver.link, self.temperature_)

    @available_if(_has_scores("decision_function"))
    def decision_function(self, X):
        """Return the scores that ``predict`` compares.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Queries.
        """
        X = self._queries(X)
        scores = self._model.answers(X, "decision_function")
        if self._model.solver.is_linear:
            # Indicators 0 and 1 become the targets -1 and 1.
            scores = 2.0 * scores - 1.0
        scores = scores[:, 1] if len(self.classes_) == 2 else scores
        return self._model.data.as_given(scores)

    def local_coef(self, X):
        """Return the slopes of the local models at each query.

        Returns
        -------
        ndarray of shape (n_queries, n_features) or (n_queries, n_classes, n_features)
            Gradient of each class's score with respect to the columns of X; for two classes that
            of the second. Zero where the neighbourhood holds one class.
        """
        X = self._queries(X)
        self._check_compiled("local_coef")
        slopes = self._model.slopes(X)
        slopes = slopes[:, 1, :] if len(self.classes_) == 2 else slopes
        return self._model.data.as_given(slopes)

    def _check_compiled(self, what: str) -> None:
        if not self._model.solver.is_compiled:
            raise ValueError(
                f"{what} needs a built-in local model, but estimator={self.estimator!r} is fitted "
                "as a black box; use solver= instead."
            )


def probabilities(scores, link: str, temperature: float | None) -> Any:
    """Turn scores of local classifiers into probabilities.

    Parameters
    ----------
    scores : array of shape (n_queries, n_classes)
        Scores.
    link : {"probability", "softmax", "sigmoid", "score", "margin"}
        What they are: probabilities already, those of a multinomial or of a logistic model, fits to
        indicators, or margins of one class against the rest.
    temperature : float or None
        Of the last two, softmax(score / temperature); ``None`` cuts negative scores to 0 (margins
        go through the logistic function first) and scales rows to sum one.
    """
    if link == "probability":
        return scores
    xp = namespace(scores)
    if link == "sigmoid":
        second = scores[:, 1]
        return xp.exp(_log_sigmoid(xp.stack([-second, second], axis=1)))
    if link == "score" and temperature is None:
        powers = xp.where(scores > 0.0, scores, xp.zeros_like(scores))
        return powers / xp.sum(powers, axis=1, keepdims=True)
    if link == "margin" and temperature is None:
        scores = _log_sigmoid(scores)
    elif link != "softmax":
        scores = scores / temperature
    powers = xp.exp(scores - xp.max(scores, axis=1, keepdims=True))
    return powers / xp.sum(powers, axis=1, keepdims=True)


def _log_sigmoid(scores) -> Any:
    """Return log(1 / (1 + exp(-score))); no score is so far out that it overflows."""
    xp = namespace(scores)
    negative = xp.where(scores < 0.0, scores, xp.zeros_like(scores))
    return negative - xp.log1p(xp.exp(-xp.abs(scores)))
