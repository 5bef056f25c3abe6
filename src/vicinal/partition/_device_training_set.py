"""A training set whose rows stay on the device they came on, and discriminant stages from it."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import device as device_of
from sklearn.preprocessing import StandardScaler

from vicinal._base import as_numpy, namespace
from vicinal._kernels.cascade._device import (
    device_gate_decisions,
    device_hyperplanes,
    device_kmeans,
    device_lda_statistics,
    device_linear_errors,
    region_sizes,
    rows_by_region,
)
from vicinal._kernels.cascade._hard import assign_classes, assign_random
from vicinal.linear import WeightedLDA
from vicinal.partition._scaling import scale_rows, scaler_of
from vicinal.partition._training_set import TrainingSet
from vicinal.partition.stages import (
    LinearGate,
    LinearRegionClassifier,
    discriminant_gate,
    discriminant_region,
    stacked_gates,
    stacked_regions,
)


@dataclass(frozen=True)
class DeviceTrainingSet(TrainingSet):
    """A training set whose rows, codes and weights are arrays of another library.

    ``y`` holds the codes too: predictions on a device are codes until the user sees them.
    """

    @property
    def xp(self) -> Any:
        """The array library."""
        return namespace(self.X)

    @property
    def device(self) -> Any:
        """The device of the rows."""
        return device_of(self.X)

    def take(self, rows: np.ndarray) -> "DeviceTrainingSet":
        xp, chosen = self.xp, self.xp.asarray(rows, device=self.device)
        codes = xp.take(self.codes, chosen)
        return replace(
            self,
            X=xp.take(self.X, chosen, axis=0),
            y=codes,
            codes=codes,
            weight=xp.take(self.weight, chosen),
            first_region=None if self.first_region is None else self.first_region[rows],
        )

    def standardized(self) -> tuple["DeviceTrainingSet", StandardScaler]:
        """Standardise as scikit-learn does; means and scales are kept on the host."""
        xp = self.xp
        X = xp.astype(self.X, xp.float64)
        total = xp.sum(self.weight)
        mean = self.weight @ X / total
        variance = self.weight @ ((X - mean) ** 2) / total
        scaler = scaler_of(as_numpy(mean), as_numpy(variance), float(total))
        return replace(self, X=scale_rows(scaler, self.X)), scaler

    def first_regions(self, init: Any, n_regions: int, rng: np.random.RandomState) -> Any:
        xp = self.xp
        if self.first_region is not None:
            return xp.asarray(self.first_region, device=self.device)
        if init == "random":
            return xp.asarray(assign_random(self.n_samples, n_regions, rng), device=self.device)
        if init == "classes":
            by_class = assign_classes(np.arange(len(self.classes)), n_regions, rng)
            return xp.take(xp.asarray(by_class, device=self.device), self.codes)
        if init == "hyperplane":
            return device_hyperplanes(self.X, self.weight, n_regions, rng)
        return device_kmeans(self.X, self.weight, n_regions, rng)

    # --- errors ---

    def error(self, cascade: Any) -> float:
        return self.average(cascade.predict_codes(self.X) != self.codes)

    def rows_by_region(self, region: Any, n_regions: int) -> list:
        return rows_by_region(region, n_regions)

    def region_sizes(self, region: Any, n_regions: int) -> np.ndarray:
        return region_sizes(region, n_regions)

    def passes_on(self, gate: Any) -> Any:
        coefs, intercepts = stacked_gates([gate], self.X.shape[1])
        return device_gate_decisions(self.X, coefs, intercepts)[:, 0] > 0


class DeviceLDALearner:
    """Discriminant regions and gates, summed up where the rows are; only the sums are copied."""

    def __init__(self, estimator: WeightedLDA) -> None:
        self.shrinkage = float(estimator.shrinkage or 0.0)

    def fit_region(self, data: Any, rows, seed, previous=None) -> LinearRegionClassifier:
        """Return the discriminant classifier of the given rows."""
        codes = data.xp.take(data.codes, rows)
        weight = data.xp.take(data.weight, rows) if data.is_weighted else None
        statistics = device_lda_statistics(data.X, codes, weight, len(data.classes), rows)
        return discriminant_region(statistics, data.classes, self.shrinkage)

    def fit_gate(self, data: Any, rows, labels, weights, seed, previous=None) -> LinearGate:
        """Return the half-space between rows to keep and rows to pass on."""
        codes = data.xp.astype(labels, data.xp.int64)
        weight = weights if data.is_weighted else None
        return discriminant_gate(
            device_lda_statistics(data.X, codes, weight, 2, rows), self.shrinkage
        )

    def losses(self, models: list, data: Any) -> Any:
        """Return which samples each region gets wrong, of shape (n_regions, n_samples)."""
        return device_linear_errors(data.X, *stacked_regions(models), data.codes)

    def finish(self, models: list, data: Any, region: Any) -> None:
        """Complete the models that were kept; discriminant scores are complete."""
