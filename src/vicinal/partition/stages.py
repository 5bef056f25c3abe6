"""Fitted cascades: linear region models and gates, and their chain.

Linear stages take rows of any array library; the models are stored on the host.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from vicinal import _base
from vicinal._kernels.cascade._hard import route
from vicinal._kernels.cascade._soft import gate_log_priors
from vicinal._kernels.linear._covariance import LDAStatistics, lda_coefficients


@_base.saved(classes_="c labels", coef_="c q", intercept_="c logs")
class LinearRegionClassifier:
    """Linear scores of the classes in one region.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
        All classes of the cascade, in the order of its columns.
    coef : ndarray of shape (n_classes, n_features)
        Weights on the (scaled) features.
    intercept : ndarray of shape (n_classes,)
        Offsets; ``-inf`` for a class without training rows in the region.
    temperature : float, default=1.0
        Divisor of the scores before the softmax of ``predict_proba``.
    """

    def __init__(self, classes, coef, intercept, temperature=1.0):
        self.classes_ = classes
        self.coef_ = coef
        self.intercept_ = intercept
        self.temperature_ = temperature

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the scores, of shape (n_samples, n_classes)."""
        return X @ _base.on_device_of(self.coef_.T, X) + _base.on_device_of(self.intercept_, X)

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of the largest score, on the host."""
        scores = self.decision_function(X)
        return self.classes_[_base.as_numpy(_base.namespace(scores).argmax(scores, axis=1))]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the softmax of the scores; classes without training rows have probability 0."""
        scores = self.decision_function(X)
        xp = _base.namespace(scores)
        # In-place, since most of the time of a prediction is spent here.
        scores -= xp.max(scores, axis=1, keepdims=True)
        if self.temperature_ != 1.0:
            scores /= self.temperature_
        scores = _base.exponentials(scores)
        scores /= xp.sum(scores, axis=1, keepdims=True)
        return scores


@_base.saved(coef_="q")
class LinearRegionRegressor:
    """Linear model of the target in one region: ``X @ coef_ + intercept_``."""

    def __init__(self, coef, intercept):
        self.coef_ = coef
        self.intercept_ = intercept

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted target."""
        return X @ self.coef_ + self.intercept_


@_base.saved(coef_="q")
class LinearGate:
    """Linear gate: a sample is passed on where ``X @ coef_ + intercept_ > 0``."""

    def __init__(self, coef, intercept):
        self.coef_ = coef
        self.intercept_ = intercept

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the gate score; above 0 means "pass on"."""
        # OpenBLAS may flag finite products of single precision as invalid.
        with np.errstate(invalid="ignore"):
            return X @ _base.on_device_of(self.coef_, X) + float(self.intercept_)

    def predict(self, X: Any) -> Any:
        """Return 1 if a sample is passed on, else 0."""
        scores = self.decision_function(X)
        xp = _base.namespace(scores)
        return xp.astype(scores > 0, xp.int64)


@_base.saved()
class ConstantGate:
    """Gate that treats all samples alike."""

    def __init__(self, passes_on: bool):
        self.passes_on = passes_on

    def decision_function(self, X: Any) -> np.ndarray:
        """Return 1 ("pass on") or -1 ("stay") for every sample."""
        return _base.on_device_of(np.full(X.shape[0], 1.0 if self.passes_on else -1.0), X)

    def predict(self, X: Any) -> np.ndarray:
        """Return the same decision for every sample."""
        return _base.on_device_of(np.full(X.shape[0], int(self.passes_on)), X)


def gate_scores(gate: Any, X: Any) -> Any:
    """Return a score above 0 where ``gate`` passes on, for any fitted classifier of {0, 1}."""
    if hasattr(gate, "decision_function"):
        return gate.decision_function(X)
    if hasattr(gate, "predict_proba"):
        return np.asarray(gate.predict_proba(X))[:, 1] - 0.5
    return np.asarray(gate.predict(X)) - 0.5


def aligned_proba(model: Any, X: Any, classes: np.ndarray) -> np.ndarray:
    """Return probabilities with one column per class of the cascade, 0 where the model has none."""
    proba = model.predict_proba(X)
    if len(model.classes_) == len(classes):
        return proba
    return _base.aligned_columns(proba, model.classes_, classes)


def rows_by_class(coef: Any, intercept: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients of two classes, one row each, from those of their difference."""
    halves = np.array([[-0.5], [0.5]])
    return halves * coef, halves[:, 0] * intercept


def region_start(model: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the last model of a region as scores of the classes."""
    return None if model is None else (model.coef_, model.intercept_)


def gate_start(gate: Any) -> tuple[np.ndarray, np.ndarray] | None:
    """Return the last gate of a stage as scores of "stay" and "pass on", if it is linear."""
    if not isinstance(gate, LinearGate):
        return None
    return rows_by_class(gate.coef_, gate.intercept_)


def stacked_regions(models: list) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients (n_regions, n_classes, n_features) and intercepts of region models."""
    return np.stack([m.coef_ for m in models]), np.stack([m.intercept_ for m in models])


def stacked_gates(gates: list, n_features: int) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients (n_gates, n_features) and intercepts of linear and constant gates."""
    coefs, intercepts = np.zeros((len(gates), n_features)), np.zeros(len(gates))
    for k, gate in enumerate(gates):
        if isinstance(gate, ConstantGate):
            intercepts[k] = 1.0 if gate.passes_on else -1.0
        else:
            coefs[k], intercepts[k] = gate.coef_, gate.intercept_
    return coefs, intercepts


def region_of_scores(
    classes: np.ndarray, n_features: int, present: np.ndarray, scores: Any, dtype: Any = np.float64
) -> LinearRegionClassifier:
    """Return the model of a region from the scores of the classes present, ``None`` for one.

    Other classes are never predicted.
    """
    coef = np.zeros((len(classes), n_features), dtype=dtype)
    intercept = np.full(len(classes), -np.inf, dtype=dtype)
    intercept[present] = 0.0
    if scores is not None:
        coef[present], intercept[present] = scores
    return LinearRegionClassifier(classes, coef, intercept)


def gate_of_scores(scores: tuple[np.ndarray, np.ndarray], dtype: Any = np.float64) -> LinearGate:
    """Return the half-space between rows to keep (code 0) and rows to pass on (code 1)."""
    coef, intercept = scores
    return LinearGate(
        (coef[1] - coef[0]).astype(dtype), np.dtype(dtype).type(intercept[1] - intercept[0])
    )


def discriminant_scores(statistics: LDAStatistics, shrinkage: float) -> tuple[np.ndarray, Any]:
    """Return the classes that have weight, and their discriminant scores, ``None`` for one."""
    present = np.flatnonzero(statistics.weights > 0)
    if len(present) == 1:
        return present, None
    counts, sums, gram, shifts = statistics
    part = LDAStatistics(counts[present], sums[present], gram, shifts[present])
    return present, lda_coefficients(part, shrinkage)


# --- the chain ---


@_base.saved()
class Cascade:
    """Chain of gates over region models, fitted from one start.

    Attributes
    ----------
    regions : list of length n_regions
        Fitted region models.
    gates : list of length n_regions - 1
        Fitted gates; gate ``k`` passes a sample on to stage ``k + 1`` or keeps it in region ``k``.
    soft : bool
        Whether predictions mix the regions by the gates' probabilities.
    history : dict
        What was recorded after every sweep (or iteration): ``error``, ``region_sizes``,
        ``disagreement`` (hard) or ``objective`` (soft).
    train_error : float
        Weighted error (mean squared error for regression) on the data of the fit.
    region_sizes : ndarray of shape (n_regions,)
        Number of training samples in each region.
    n_iter : int
        Number of sweeps or iterations that were run.
    converged : bool
        Whether the run stopped by itself.
    """

    def __init__(self, regions, gates, *, soft=False):
        self.regions = regions
        self.gates = gates
        self.soft = soft
        self.history = {}
        self.train_error = np.nan
        self.region_sizes = np.zeros(len(regions), dtype=np.int64)
        self.n_iter = 0
        self.converged = False

    @property
    def n_regions(self) -> int:
        """Number of regions."""
        return len(self.regions)

    def apply(self, X: Any) -> Any:
        """Return the region of each row."""
        n_rows = X.shape[0]
        if not self.gates:
            return _base.on_device_of(np.zeros(n_rows, dtype=np.int64), X)
        if all(isinstance(gate, LinearGate | ConstantGate) for gate in self.gates):
            passed = [gate.predict(X) == 1 for gate in self.gates]
            return route(_base.namespace(passed[0]).stack(passed, axis=0), n_rows)
        # Other gates are slower: each is evaluated for the rows that reach it.
        region = np.full(n_rows, len(self.gates), dtype=np.int64)
        rows = np.arange(n_rows)
        for k, gate in enumerate(self.gates):
            if len(rows) == 0:
                break
            is_passed = gate.predict(_some_rows(X, rows)) == 1
            region[rows[~is_passed]] = k
            rows = rows[is_passed]
        return region

    def gate_scores(self, X: Any) -> Any:
        """Return the scores of all gates, of shape (n_samples, n_regions - 1)."""
        scores = [_base.on_device_of(np.empty((X.shape[0], 0)), X)]
        scores += [gate_scores(gate, X)[:, None] for gate in self.gates]
        xp = _base.namespace(scores[0])
        return xp.astype(xp.concat(scores, axis=1), X.dtype, copy=False)

    def by_region(self, X: Any) -> Iterator[tuple[Any, Any, Any]]:
        """Yield the model, the rows and the data of every region that rows of ``X`` fall in."""
        region = self.apply(X)
        for k, model in enumerate(self.regions):
            rows = _base.namespace(region).nonzero(region == k)[0]
            if rows.shape[0]:
                yield model, rows, _some_rows(X, rows)

    def predict(self, X: Any, dtype: Any) -> np.ndarray:
        """Return the prediction of each row's region, on the host."""
        predicted = np.empty(X.shape[0], dtype=dtype)
        for model, rows, X_rows in self.by_region(X):
            predicted[_base.as_numpy(rows)] = model.predict(X_rows)
        return predicted

    def predict_proba(self, X: Any, classes: np.ndarray) -> Any:
        """Return class probabilities: of the own region, or mixed over regions if soft."""
        if self.soft and self.gates:
            proba = np.zeros((X.shape[0], len(classes)), dtype=X.dtype)
            priors = np.exp(gate_log_priors(self.gate_scores(X)))
            for k, model in enumerate(self.regions):
                proba += priors[:, k : k + 1] * aligned_proba(model, X, classes)
            return proba / proba.sum(axis=1, keepdims=True)
        parts = [
            (rows, aligned_proba(model, X_rows, classes))
            for model, rows, X_rows in self.by_region(X)
        ]
        proba = _base.join_rows(*zip(*parts, strict=True))
        return _base.namespace(proba).astype(proba, X.dtype, copy=False)

    def prune(self) -> None:
        """Delete the stages that hold no training sample; training samples keep their models."""
        keep = np.flatnonzero(self.region_sizes > 0)
        # The gate of the last stage is deleted too: there is no stage after it.
        self.gates = [self.gates[k] for k in keep[:-1]]
        self.regions = [self.regions[k] for k in keep]
        self.region_sizes = self.region_sizes[keep]


def _some_rows(X: Any, rows: Any) -> Any:
    """Return the given rows, without a copy when they are all rows in order."""
    return X if rows.shape[0] == X.shape[0] else _base.take_rows(X, rows)


# --- several cascades together ---


def mean_proba(cascades: list[Cascade], X: Any, classes: np.ndarray) -> Any:
    """Return class probabilities, averaged over the cascades."""
    total = cascades[0].predict_proba(X, classes)
    for cascade in cascades[1:]:
        total += cascade.predict_proba(X, classes)
    return total / len(cascades)


def mean_prediction(cascades: list[Cascade], X: Any) -> np.ndarray:
    """Return predicted values, averaged over the cascades."""
    total: Any = sum(cascade.predict(X, X.dtype) for cascade in cascades)
    return total / len(cascades)


def predict_labels(
    cascades: list[Cascade], X: Any, classes: np.ndarray, has_proba: bool
) -> np.ndarray:
    """Return labels: of the one cascade, of the mean probability, or by majority vote."""
    if len(cascades) == 1 and not cascades[0].soft:
        return cascades[0].predict(X, classes.dtype)
    if has_proba:
        return classes[np.argmax(mean_proba(cascades, X, classes), axis=1)]
    votes = np.zeros((X.shape[0], len(classes)))
    for cascade in cascades:
        labels = cascade.predict(X, classes.dtype)
        votes[np.arange(len(labels)), np.searchsorted(classes, labels)] += 1
    return classes[np.argmax(votes, axis=1)]


def weighted_mean(loss: Any, weights: Any) -> float:
    """Return the weighted mean of a loss, of any array library."""
    xp = _base.namespace(weights)
    return float(xp.sum(xp.astype(loss, weights.dtype) * weights) / xp.sum(weights))
