"""Fitted cascades: linear region models and gates, their chain, and scaling of rows."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from array_api_compat import device as device_of
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from vicinal._base import free_memory, is_array_api, namespace, row_blocks, saved
from vicinal._kernels.cascade._device import (
    device_gate_decisions,
    device_region_scores,
    take_own,
)
from vicinal._kernels.cascade._hard import route
from vicinal._kernels.cascade._soft import gate_log_priors
from vicinal._kernels.linear._covariance import LDAStatistics, lda_coefficients


@saved(classes_="c labels", coef_="c q", intercept_="c logs")
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
        return X @ self.coef_.T + self.intercept_

    def predict(self, X: Any) -> np.ndarray:
        """Return the class of the largest score."""
        return self.classes_[np.argmax(self.decision_function(X), axis=1)]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the softmax of the scores; classes without training rows have probability 0."""
        scores = self.decision_function(X)
        # In-place, since most of the time of a prediction is spent here.
        scores -= scores.max(axis=1, keepdims=True)
        if self.temperature_ != 1.0:
            scores /= self.temperature_
        np.exp(scores, out=scores)
        scores /= scores.sum(axis=1, keepdims=True)
        return scores


@saved(coef_="q")
class LinearRegionRegressor:
    """Linear model of the target in one region: ``X @ coef_ + intercept_``."""

    def __init__(self, coef, intercept):
        self.coef_ = coef
        self.intercept_ = intercept

    def predict(self, X: Any) -> np.ndarray:
        """Return the predicted target."""
        return X @ self.coef_ + self.intercept_


@saved(coef_="q")
class LinearGate:
    """Linear gate: a sample is passed on where ``X @ coef_ + intercept_ > 0``."""

    def __init__(self, coef, intercept):
        self.coef_ = coef
        self.intercept_ = intercept

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the gate score; above 0 means "pass on"."""
        # OpenBLAS may flag finite products of single precision as invalid.
        with np.errstate(invalid="ignore"):
            return X @ self.coef_ + self.intercept_

    def predict(self, X: Any) -> np.ndarray:
        """Return 1 if a sample is passed on, else 0."""
        return (self.decision_function(X) > 0).astype(np.int64)


@saved()
class ConstantGate:
    """Gate that treats all samples alike."""

    def __init__(self, passes_on: bool):
        self.passes_on = passes_on

    def decision_function(self, X: Any) -> np.ndarray:
        """Return 1 ("pass on") or -1 ("stay") for every sample."""
        return np.full(X.shape[0], 1.0 if self.passes_on else -1.0)

    def predict(self, X: Any) -> np.ndarray:
        """Return the same decision for every sample."""
        return np.full(X.shape[0], int(self.passes_on))


def gate_scores(gate: Any, X: Any) -> np.ndarray:
    """Return a score above 0 where ``gate`` passes on, for any fitted classifier of {0, 1}."""
    if hasattr(gate, "decision_function"):
        return np.asarray(gate.decision_function(X))
    if hasattr(gate, "predict_proba"):
        return np.asarray(gate.predict_proba(X))[:, 1] - 0.5
    return np.asarray(gate.predict(X)) - 0.5


def passes_on(gate: Any, X: Any) -> Any:
    """Return where a gate passes rows on."""
    if is_array_api(X):
        return device_gate_decisions(X, *stacked_gates([gate], X.shape[1]))[:, 0] > 0
    return np.asarray(gate.predict(X)) == 1


def aligned_proba(model: Any, X: Any, classes: np.ndarray) -> np.ndarray:
    """Return probabilities with one column per class of the cascade, 0 where the model has none."""
    proba = model.predict_proba(X)
    if len(model.classes_) == len(classes):
        return proba
    full = np.zeros((X.shape[0], len(classes)), dtype=proba.dtype)
    full[:, np.searchsorted(classes, model.classes_)] = proba
    return full


def rows_by_class(coef: Any, intercept: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients of two classes, one row each, from those of their difference."""
    halves = np.array([[-0.5], [0.5]])
    return halves * coef, halves[:, 0] * intercept


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


def discriminant_region(
    statistics: LDAStatistics, classes: np.ndarray, shrinkage: float
) -> LinearRegionClassifier:
    """Return the discriminant classifier of a region; a class without weight is never predicted."""
    present = np.flatnonzero(statistics.weights > 0)
    coef = np.zeros(statistics.sums.shape)
    intercept = np.full(len(classes), -np.inf)
    if len(present) == 1:
        intercept[present] = 0.0
    else:
        counts, sums, gram, shifts = statistics
        part = LDAStatistics(counts[present], sums[present], gram, shifts[present])
        coef[present], intercept[present] = lda_coefficients(part, shrinkage)
    return LinearRegionClassifier(classes, coef, intercept)


def discriminant_gate(statistics: LDAStatistics, shrinkage: float) -> LinearGate:
    """Return the half-space between rows to keep (code 0) and rows to pass on (code 1)."""
    coef, intercept = lda_coefficients(statistics, shrinkage)
    return LinearGate(coef[1] - coef[0], intercept[1] - intercept[0])


# --- the chain ---


@saved()
class Cascade:
    """Chain of gates over region models, fitted from one start.

    Rows may be arrays of another library where all stages are linear; models stay on the host.

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
    selection_error : float
        Error by which starts are compared: on the training or on the validation rows.
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
        self.selection_error = np.nan
        self.region_sizes = np.zeros(len(regions), dtype=np.int64)
        self.n_iter = 0
        self.converged = False

    @classmethod
    def single(cls, model: Any, error: float, n_samples: int) -> "Cascade":
        """Return the cascade of one region, which needs no sweeps."""
        cascade = cls([model], [])
        cascade.train_error = cascade.selection_error = error
        cascade.region_sizes = np.array([n_samples])
        cascade.history = {
            "error": np.array([error]),
            "region_sizes": cascade.region_sizes[None, :],
            "disagreement": np.zeros((1, 0)),
        }
        cascade.n_iter, cascade.converged = 1, True
        return cascade

    @property
    def n_regions(self) -> int:
        """Number of regions."""
        return len(self.regions)

    def apply(self, X: Any) -> np.ndarray:
        """Return the region of each row; a gate is evaluated for the rows that reach it."""
        if is_array_api(X):
            passed = namespace(X).permute_dims(self.gate_scores(X) > 0, (1, 0))
            return route(passed, X.shape[0])
        region = np.full(X.shape[0], len(self.gates), dtype=np.int64)
        rows = np.arange(X.shape[0])
        for k, gate in enumerate(self.gates):
            if len(rows) == 0:
                break
            passed = passes_on(gate, _take(X, rows))
            region[rows[~passed]] = k
            rows = rows[passed]
        return region

    def gate_scores(self, X: Any) -> np.ndarray:
        """Return the scores of all gates, of shape (n_samples, n_regions - 1)."""
        if is_array_api(X):
            return device_gate_decisions(X, *stacked_gates(self.gates, X.shape[1]))
        scores = np.empty((X.shape[0], len(self.gates)), dtype=X.dtype)
        for k, gate in enumerate(self.gates):
            scores[:, k] = gate_scores(gate, X)
        return scores

    def by_region(self, X: Any) -> Iterator[tuple[Any, np.ndarray, Any]]:
        """Yield the model, the rows and the data of every region that rows of ``X`` fall in."""
        region = self.apply(X)
        for k, model in enumerate(self.regions):
            rows = np.flatnonzero(region == k)
            if len(rows):
                yield model, rows, _take(X, rows)

    def predict(self, X: Any, dtype: Any) -> np.ndarray:
        """Return the prediction of each row's region."""
        predicted = np.empty(X.shape[0], dtype=dtype)
        for model, rows, X_rows in self.by_region(X):
            predicted[rows] = model.predict(X_rows)
        return predicted

    def predict_proba(self, X: Any, classes: np.ndarray) -> np.ndarray:
        """Return class probabilities: of the own region, or mixed over regions if soft."""
        if is_array_api(X):
            return namespace(X).concat([_softmax(part) for part in self._own_scores(X)], axis=0)
        proba = np.zeros((X.shape[0], len(classes)), dtype=X.dtype)
        if self.soft and self.gates:
            priors = np.exp(gate_log_priors(self.gate_scores(X)))
            for k, model in enumerate(self.regions):
                proba += priors[:, k : k + 1] * aligned_proba(model, X, classes)
            return proba / proba.sum(axis=1, keepdims=True)
        for model, rows, X_rows in self.by_region(X):
            proba[rows] = aligned_proba(model, X_rows, classes)
        return proba

    def _own_scores(self, X: Any) -> Iterator[Any]:
        """Yield the scores (n_rows, n_classes) of each row's own region, block by block."""
        coefs, intercepts = stacked_regions(self.regions)
        for rows in row_blocks(X.shape[0], 40 * intercepts.size, working_memory=free_memory(X)):
            block = X[rows, :]
            yield take_own(device_region_scores(block, coefs, intercepts), self.apply(block))

    def prune(self) -> None:
        """Delete the stages that hold no training sample; training samples keep their models."""
        keep = np.flatnonzero(self.region_sizes > 0)
        # The gate of the last stage is deleted too: there is no stage after it.
        self.gates = [self.gates[k] for k in keep[:-1]]
        self.regions = [self.regions[k] for k in keep]
        self.region_sizes = self.region_sizes[keep]


def _take(X: Any, rows: np.ndarray) -> Any:
    """Return the given rows, without a copy when they are all rows in order."""
    return X if len(rows) == X.shape[0] else X[rows]


def _softmax(scores: Any) -> Any:
    xp = namespace(scores)
    powers = xp.exp(scores - xp.max(scores, axis=1, keepdims=True))
    return powers / xp.sum(powers, axis=1, keepdims=True)


# --- several cascades together ---


def mean_proba(cascades: list[Cascade], X: Any, classes: np.ndarray) -> Any:
    """Return class probabilities, averaged over the cascades."""
    total = cascades[0].predict_proba(X, classes)
    for cascade in cascades[1:]:
        total += cascade.predict_proba(X, classes)
    return total / len(cascades)


def mean_prediction(cascades: list[Cascade], X: Any) -> np.ndarray:
    """Return predicted values, averaged over the cascades."""
    total = np.zeros(X.shape[0], dtype=X.dtype)
    for cascade in cascades:
        total += cascade.predict(X, X.dtype)
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


# --- scaling ---


def scaler_of(mean: np.ndarray, variance: np.ndarray, total: float) -> StandardScaler:
    """Return scikit-learn's scaler with the given moments; constant columns have scale one."""
    scaler = StandardScaler()
    eps = np.finfo(np.float64).eps
    constant = variance <= total * eps * variance + (total * mean * eps) ** 2
    scaler.mean_, scaler.var_ = mean, variance
    scaler.scale_ = np.where(constant, 1.0, np.sqrt(np.where(constant, 1.0, variance)))
    scaler.n_features_in_ = len(mean)
    scaler.n_samples_seen_ = total
    return scaler


def scale_rows(scaler: StandardScaler | None, X: Any) -> Any:
    """Return scaled rows, in the array library of ``X``."""
    if scaler is None:
        return X
    if not is_array_api(X):
        # A model of sparse rows does not centre; sparse queries to others become dense.
        is_centred = scaler.with_mean and sparse.issparse(X)
        X = X.toarray() if is_centred else X
        # Single precision cannot represent the scales of every model.
        numbers = np.r_[scaler.mean_, scaler.scale_] if scaler.with_mean else scaler.scale_
        is_held = np.abs(numbers).max() < np.finfo(X.dtype).max
        return scaler.transform(X if is_held else X.astype(np.float64))
    xp, device = namespace(X), device_of(X)
    mean = xp.asarray(scaler.mean_, dtype=X.dtype, device=device)
    return (X - mean) / xp.asarray(scaler.scale_, dtype=X.dtype, device=device)
