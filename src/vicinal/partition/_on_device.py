"""What the partitioning estimators do when X belongs to another array library."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from array_api_compat import device as device_of
from sklearn.preprocessing import StandardScaler

from vicinal._base import (
    as_numpy,
    check_same_library,
    encode_device_labels,
    is_array_api,
    namespace,
    validate_array_api,
    weighted_device_rows,
)
from vicinal.linear import WeightedLDA
from vicinal.partition._cascade import Cascade
from vicinal.partition._device_sweeps import (
    DeviceStart,
    DeviceTrainingSet,
    device_apply,
    device_predict,
    device_predict_proba,
    fit_device_region,
)


class PartitionOnDevice:
    """Fit and query discriminant cascades on the device of the data; models live on the host."""

    # An empty array that tells library and device of the training rows; None for NumPy.
    _reference: Any = None

    # Parameters and methods of the estimators that mix this in.
    init: Any
    combine: str
    monotone: bool
    keep: str
    prune: bool
    scaler_: Any
    restarts_: list
    classes_: np.ndarray
    _region_estimator: Callable
    _reject_estimator: Callable
    _first_region: Callable
    _sweep_limit: Callable

    def _device_training_set(self, X, y, sample_weight) -> DeviceTrainingSet:
        """Check the training data; labels become codes on the device."""
        self._check_device_parameters()
        X = validate_array_api(self, X, reset=True)
        xp = namespace(X)
        first_region = self._first_region(X.shape[0])
        n_given = X.shape[0]
        # Rows of weight 0 are dropped, with their first region.
        rows = xp.arange(n_given, device=device_of(X))
        kept, rows, weight = weighted_device_rows(X, rows, sample_weight, dtype=xp.float64)
        _, y, _ = weighted_device_rows(X, y, sample_weight, dtype=xp.float64)
        if first_region is not None and kept.shape[0] < n_given:
            first_region = first_region[as_numpy(rows)]
        self._labels_on_device = is_array_api(y)
        self.classes_, codes = encode_device_labels(y, kept)
        is_weighted = weight is not None
        if weight is None:
            weight = xp.ones(kept.shape[0], dtype=xp.float64, device=device_of(X))
        self._reference = X[:0, :]
        return DeviceTrainingSet(
            kept, codes, weight, is_weighted, codes, self.classes_, first_region
        )

    def _check_device_parameters(self) -> None:
        given = {
            "region_estimator": not is_plain_lda(self._region_estimator()),
            "reject_estimator": not is_plain_lda(self._reject_estimator()),
            "gating": getattr(self, "gating", "hard") != "hard",
            "class_weight": getattr(self, "class_weight", None) is not None,
        }
        named = [name for name, is_set in given.items() if is_set]
        if named:
            raise ValueError(
                f"{', '.join(named)} as given cannot be used with a device array, where regions "
                "and hard gates are discriminant analyses; use region_estimator='lda', or convert "
                "X with numpy.asarray."
            )

    def _scaled_on_device(self, data: DeviceTrainingSet) -> DeviceTrainingSet:
        """Standardise as scikit-learn does; means and scales are kept on the host."""
        xp = namespace(data.X)
        X = xp.astype(data.X, xp.float64)
        total = xp.sum(data.weight)
        mean = data.weight @ X / total
        variance = data.weight @ ((X - mean) ** 2) / total
        self.scaler_ = host_scaler(as_numpy(mean), as_numpy(variance), float(total))
        return replace(data, X=self._scale_on_device(data.X))

    def _scale_on_device(self, X) -> Any:
        if self.scaler_ is None:
            return X
        xp, device = namespace(X), device_of(X)
        mean = xp.asarray(self.scaler_.mean_, dtype=X.dtype, device=device)
        return (X - mean) / xp.asarray(self.scaler_.scale_, dtype=X.dtype, device=device)

    def _device_start_function(self, data, validation, n_regions, max_sweeps) -> DeviceStart:
        shrinkages = [
            float(estimator.shrinkage or 0.0)
            for estimator in (self._region_estimator(), self._reject_estimator())
        ]
        return DeviceStart(
            data,
            validation,
            shrinkages,
            self.init,
            n_regions,
            self._sweep_limit(max_sweeps),
            self.monotone,
            self.keep,
            self.prune,
        )

    def _fit_single_on_device(self, data: DeviceTrainingSet) -> Cascade:
        shrinkage = float(self._region_estimator().shrinkage or 0.0)
        weight = data.weight if data.is_weighted else None
        cascade = Cascade([fit_device_region(data, weight, None, shrinkage)], [])
        loss = data.average(device_predict(cascade, data.X) != data.codes)
        cascade.train_error = cascade.selection_error = loss
        cascade.region_sizes = np.array([data.n_samples])
        cascade.history = {
            "error": np.array([loss]),
            "region_sizes": cascade.region_sizes[None, :],
            "disagreement": np.zeros((1, 0)),
        }
        cascade.n_iter, cascade.converged = 1, True
        return cascade

    # --- using ---

    def _prepared_on_device(self, X) -> Any:
        check_same_library(self._reference, X)
        return self._scale_on_device(validate_array_api(self, X, reset=False))

    def _apply_on_device(self, X) -> Any:
        regions = [device_apply(cascade, X) for cascade in self.restarts_]
        return regions[0] if self.combine == "best" else namespace(X).stack(regions, axis=1)

    def _device_mean_proba(self, cascades: list[Cascade], X) -> Any:
        mean = device_predict_proba(cascades[0], X)
        for cascade in cascades[1:]:
            mean = mean + device_predict_proba(cascade, X)
        return mean / len(cascades)

    def _device_brier(self, cascades: list[Cascade], data: DeviceTrainingSet) -> float:
        """Return the weighted Brier score of what the given cascades predict together."""
        xp = namespace(data.X)
        proba = xp.astype(self._device_mean_proba(cascades, data.X), xp.float64)
        kinds = xp.arange(proba.shape[1], device=device_of(proba))
        truth = xp.astype(data.codes[:, None] == kinds[None, :], xp.float64)
        return data.average(xp.sum((proba - truth) ** 2, axis=1))

    def _check_on_host(self, what: str) -> None:
        if self._reference is not None:
            raise ValueError(
                f"{what} needs a model fitted on NumPy arrays; convert X with numpy.asarray and "
                "fit again."
            )


def is_plain_lda(estimator: Any) -> bool:
    return (
        type(estimator) is WeightedLDA
        and estimator.priors is None
        and estimator.shrinkage != "auto"
    )


def host_scaler(mean: np.ndarray, variance: np.ndarray, total: float) -> StandardScaler:
    """Return scikit-learn's scaler with the given moments; constant columns have scale one."""
    scaler = StandardScaler()
    eps = np.finfo(np.float64).eps
    constant = variance <= total * eps * variance + (total * mean * eps) ** 2
    scaler.mean_, scaler.var_ = mean, variance
    scaler.scale_ = np.where(constant, 1.0, np.sqrt(np.where(constant, 1.0, variance)))
    scaler.n_features_in_ = len(mean)
    scaler.n_samples_seen_ = total
    return scaler
