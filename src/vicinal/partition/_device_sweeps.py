"""Sweeps over device arrays: discriminant regions and gates, summed up where the rows are."""

from dataclasses import dataclass, replace
from typing import Any

import array_api_compat as compat
import numpy as np

from vicinal._base import as_numpy, free_memory, namespace, row_blocks
from vicinal._kernels.cascade._device import (
    device_gate_decisions,
    device_hyperplanes,
    device_kmeans,
    device_lda_statistics,
    device_linear_errors,
    device_region_scores,
    device_route,
    region_sizes,
    rows_by_region,
    take_own,
)
from vicinal._kernels.cascade._hard import assign_classes, assign_random
from vicinal._kernels.linear._lda import LDAStatistics, lda_coefficients
from vicinal.partition._cascade import Cascade
from vicinal.partition._learners import TrainingSet
from vicinal.partition._stages import ConstantGate, LinearGate, LinearRegionClassifier
from vicinal.partition._sweeps import Sweeps


@dataclass(frozen=True)
class DeviceTrainingSet(TrainingSet):
    """A training set whose rows, codes and weights are arrays of another library.

    ``y`` holds the codes too: predictions on a device are codes until the user sees them.
    """

    def take(self, rows: np.ndarray) -> "DeviceTrainingSet":
        """Return the given rows as a training set of their own."""
        xp = namespace(self.X)
        chosen = xp.asarray(rows, device=compat.device(self.X))
        codes = xp.take(self.codes, chosen)
        return replace(
            self,
            X=xp.take(self.X, chosen, axis=0),
            y=codes,
            codes=codes,
            weight=xp.take(self.weight, chosen),
            first_region=None if self.first_region is None else self.first_region[rows],
        )

    def average(self, loss: Any) -> float:
        """Return the weighted mean of a loss."""
        xp = namespace(self.X)
        values = xp.astype(loss, self.weight.dtype)
        return float(xp.sum(values * self.weight) / xp.sum(self.weight))


class DeviceSweeps(Sweeps):
    """The alternation with discriminant analysis; only sums of the models' size are copied."""

    def __init__(self, data, shrinkage, gate_shrinkage, region, n_regions, monotone, rng):
        super().__init__(data, None, None, region, n_regions, monotone, rng)
        self.shrinkage, self.gate_shrinkage = shrinkage, gate_shrinkage
        xp = namespace(data.X)
        shape = (n_regions - 1, data.n_samples)
        self.passed_on = xp.zeros(shape, dtype=xp.bool, device=compat.device(data.X))
        self.weight = data.weight if data.is_weighted else None

    def sweep(self) -> None:
        """Refit all region models, then all gates from the last to the first, then reroute."""
        self._update_models()
        self._update_gates()
        self.region = device_route(self.passed_on, self.data.n_samples)

    def _update_models(self) -> None:
        data, xp = self.data, namespace(self.data.X)
        candidates = [
            self._fit_rows(k, rows)
            for k, rows in enumerate(rows_by_region(self.region, self.n_regions))
        ]
        coefs, intercepts = stacked_regions(candidates)
        losses = device_linear_errors(data.X, coefs, intercepts, data.codes)
        if self.monotone and self.losses is not None:
            kinds = xp.arange(self.n_regions, device=compat.device(data.X))
            own = self.region[None, :] == kinds[:, None]
            nothing = xp.zeros_like(data.weight)
            new, old = (
                as_numpy(xp.sum(xp.where(own & values, data.weight, nothing), axis=1))
                for values in (losses, self.losses)
            )
            keeps = xp.asarray(~(new < old), device=compat.device(data.X))
            losses = xp.where(keeps[:, None], self.losses, losses)
            candidates = [
                self.models[k] if not new[k] < old[k] else candidates[k]
                for k in range(self.n_regions)
            ]
        self.models, self.losses = candidates, losses

    def _fit_rows(self, k: int, rows) -> Any:
        """Fit region ``k``; an empty region keeps its model, or learns from all samples."""
        if rows.shape[0] == 0:
            if self.models[k] is not None:
                return self.models[k]
            rows = None
        return fit_device_region(self.data, self.weight, rows, self.shrinkage)

    def _update_gates(self) -> None:
        xp = namespace(self.data.X)
        later = self.losses[self.n_regions - 1, :]
        passed = [self.passed_on[k, :] for k in range(self.n_regions - 1)]
        for k in range(self.n_regions - 2, -1, -1):
            own = self.losses[k, :]
            # Losses are right or wrong: a row matters where the two differ, with its own weight.
            rows = xp.nonzero((self.region >= k) & (own != later))[0]
            self.disagreement[k] = rows.shape[0] / self.data.n_samples
            passed[k] = self._update_device_gate(k, rows, xp.take(own, rows), passed[k])
            later = xp.where(passed[k], later, own)
        self.passed_on = xp.stack(passed, axis=0) if passed else self.passed_on

    def _update_device_gate(self, k: int, rows, labels, passed) -> Any:
        """Fit gate ``k`` to pass on the rows labelled so; return its decisions."""
        data, xp = self.data, namespace(self.data.X)
        previous = self.gates[k]
        if rows.shape[0] == 0:
            if previous is None:
                self.gates[k] = ConstantGate(False)
            return passed
        n_passed = int(xp.sum(xp.astype(labels, xp.int64)))
        if n_passed in (0, rows.shape[0]):
            gate: Any = ConstantGate(n_passed > 0)
        else:
            gate = self._fit_gate(rows, labels)
            self.n_gates_fitted += 1
        coefs, intercepts = stacked_gates([gate], data.X.shape[1])
        decided = device_gate_decisions(data.X, coefs, intercepts)[:, 0] > 0
        if self.monotone and previous is not None:
            weight = xp.take(data.weight, rows)
            new, old = (
                float(xp.sum(weight * xp.astype(xp.take(d, rows) != labels, weight.dtype)))
                for d in (decided, passed)
            )
            if not new < old:
                return passed
        self.gates[k] = gate
        return decided

    def _fit_gate(self, rows, labels) -> LinearGate:
        data, xp = self.data, namespace(self.data.X)
        weight = None if self.weight is None else xp.take(self.weight, rows)
        codes = xp.astype(labels, xp.int64)
        statistics = device_lda_statistics(data.X, codes, weight, 2, rows)
        return discriminant_gate(statistics, self.gate_shrinkage)

    # --- what the run of sweeps asks of arrays ---

    def _chain_loss(self) -> Any:
        xp = namespace(self.data.X)
        return take_own(xp.permute_dims(self.losses, (1, 0)), self.region)

    def _sizes(self, region) -> np.ndarray:
        return region_sizes(region, self.n_regions)

    def _is_same(self, a, b) -> bool:
        return bool(namespace(a).all(a == b))

    def _average(self, loss) -> float:
        return self.data.average(loss)

    def _validation_error(self, cascade: Cascade, validation: Any) -> float:
        return validation.average(device_predict(cascade, validation.X) != validation.codes)

    def _finish(self, models, region) -> None:
        """Complete the models that were kept; discriminant scores are complete."""


class DeviceStart:
    """One start on device arrays, as a function of its seed; ``shrinkages`` of region and gate."""

    def __init__(
        self, data, validation, shrinkages, init, n_regions, max_iter, monotone, keep, prune
    ):
        self.data, self.validation, self.shrinkages = data, validation, shrinkages
        self.init, self.n_regions = init, n_regions
        self.max_iter, self.monotone, self.keep, self.prune = max_iter, monotone, keep, prune

    def __call__(self, seed: int) -> Cascade:
        rng = np.random.RandomState(seed)
        region = first_device_assignment(self.init, self.data, self.n_regions, rng)
        of_region, of_gate = self.shrinkages
        sweeps = DeviceSweeps(
            self.data, of_region, of_gate, region, self.n_regions, self.monotone, rng
        )
        cascade = sweeps.run(self.max_iter, self.keep, self.validation)
        if self.prune:
            cascade.prune()
        return cascade


def first_device_assignment(init, data: DeviceTrainingSet, n_regions: int, rng) -> Any:
    """Return the region of each sample before the first sweep, on the device."""
    xp, device = namespace(data.X), compat.device(data.X)
    if data.first_region is not None:
        return xp.asarray(data.first_region, device=device)
    if init == "random":
        return xp.asarray(assign_random(data.n_samples, n_regions, rng), device=device)
    if init == "classes":
        by_class = assign_classes(np.arange(len(data.classes)), n_regions, rng)
        return xp.take(xp.asarray(by_class, device=device), data.codes)
    if init == "hyperplane":
        return device_hyperplanes(data.X, data.weight, n_regions, rng)
    return device_kmeans(data.X, data.weight, n_regions, rng)


def fit_device_region(data: DeviceTrainingSet, weight, rows, shrinkage) -> LinearRegionClassifier:
    """Return the discriminant classifier of the given rows (all for ``None``)."""
    xp = namespace(data.X)
    n_classes = len(data.classes)
    codes = data.codes if rows is None else xp.take(data.codes, rows)
    if weight is not None and rows is not None:
        weight = xp.take(weight, rows)
    statistics = device_lda_statistics(data.X, codes, weight, n_classes, rows)
    return discriminant_region(statistics, data.classes, shrinkage)


# --- models from sums over rows, wherever the rows were ---


def discriminant_region(
    statistics: LDAStatistics, classes: np.ndarray, shrinkage: float
) -> LinearRegionClassifier:
    """Return the discriminant classifier of a region; a class without weight never answers."""
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


# --- a fitted cascade on device arrays ---


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


def device_gate_scores(cascade: Cascade, X: Any) -> Any:
    """Return the scores of all gates, (n_samples, n_regions - 1)."""
    return device_gate_decisions(X, *stacked_gates(cascade.gates, X.shape[1]))


def device_apply(cascade: Cascade, X: Any) -> Any:
    """Return the region of each row."""
    passed = device_gate_scores(cascade, X) > 0
    return device_route(namespace(X).permute_dims(passed, (1, 0)), X.shape[0])


def _own_scores(cascade: Cascade, X: Any):
    """Yield the scores (n_rows, n_classes) of each row's own region, block by block."""
    coefs, intercepts = stacked_regions(cascade.regions)
    for rows in row_blocks(X.shape[0], 40 * intercepts.size, working_memory=free_memory(X)):
        block = X[rows, :]
        yield take_own(device_region_scores(block, coefs, intercepts), device_apply(cascade, block))


def device_predict(cascade: Cascade, X: Any) -> Any:
    """Return the code that each row's own region predicts."""
    xp = namespace(X)
    return xp.concat([xp.argmax(scores, axis=1) for scores in _own_scores(cascade, X)])


def device_predict_proba(cascade: Cascade, X: Any) -> Any:
    """Return the probabilities of each row's own region."""
    xp = namespace(X)
    parts = []
    for scores in _own_scores(cascade, X):
        powers = xp.exp(scores - xp.max(scores, axis=1, keepdims=True))
        parts.append(powers / xp.sum(powers, axis=1, keepdims=True))
    return xp.concat(parts, axis=0)
