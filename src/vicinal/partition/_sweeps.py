"""Algorithm 1: alternate between the models of the regions and the gates between them."""

from typing import Any

import numpy as np

from vicinal._kernels.cascade._hard import chain_loss, gate_problem, route
from vicinal.partition._cascade import Cascade
from vicinal.partition._learners import TrainingSet, constant_gate, passes_on
from vicinal.partition._stages import ConstantGate

_MAX_SEED = np.iinfo(np.int32).max


class Sweeps:
    """One start of the alternation, from an assignment of samples to regions.

    Parameters
    ----------
    data : TrainingSet
        Training samples.
    region_learner, gate_learner : learners
        How region models and gates are fitted.
    region : ndarray of int of shape (n_samples,)
        First assignment.
    n_regions : int
        Number of regions.
    monotone : bool
        Whether a new model must strictly lower its own term of the training loss to be taken.
    rng : RandomState
        Source of the learners' seeds.
    """

    def __init__(self, data, region_learner, gate_learner, region, n_regions, monotone, rng):
        self.data = data
        self.region_learner = region_learner
        self.gate_learner = gate_learner
        self.n_regions = n_regions
        self.monotone = monotone
        self.rng = rng
        self.region = region
        self.models: list[Any] = [None] * n_regions
        self.gates: list[Any] = [None] * (n_regions - 1)
        self.losses: Any = None
        self.passed_on: Any = np.zeros((n_regions - 1, data.n_samples), dtype=bool)
        self.disagreement = np.zeros(n_regions - 1)
        self.n_gates_fitted = 0
        self.refusal: Exception | None = None

    def run(self, max_iter: int, keep: str, validation: TrainingSet | None) -> Cascade:
        """Sweep until nothing moves or ``max_iter`` is reached, and return the kept cascade."""
        history: dict[str, list] = {"error": [], "region_sizes": [], "disagreement": []}
        if validation is not None:
            history["validation_error"] = []
        best: Any = None
        best_error = np.inf
        converged = False
        old_region, old_loss = self.region, None
        for _ in range(max_iter):
            self.sweep()
            loss = self._chain_loss()
            cascade = self._snapshot(loss)
            history["error"].append(cascade.train_error)
            history["region_sizes"].append(self._sizes(self.region))
            history["disagreement"].append(self.disagreement.copy())
            if validation is not None:
                cascade.selection_error = self._validation_error(cascade, validation)
                history["validation_error"].append(cascade.selection_error)
            if keep == "last" or cascade.selection_error < best_error:
                best, best_error = cascade, cascade.selection_error
                best_region = self.region
            converged = (
                old_loss is not None
                and self._is_same(self.region, old_region)
                and self._is_same(loss, old_loss)
            )
            old_region, old_loss = self.region, loss
            if converged or self.n_regions == 1:
                break
        if self.refusal is not None and self.n_gates_fitted == 0:
            # Not the size of a problem but the learner itself: it never fitted a single gate.
            raise self.refusal
        self._finish(best.regions, best_region)
        best.history = {name: np.array(values) for name, values in history.items()}
        best.n_iter = len(history["error"])
        best.converged = converged or self.n_regions == 1
        best.region_sizes = self._sizes(best_region)
        return best

    def sweep(self) -> None:
        """Refit all region models, then all gates from the last to the first, then reroute."""
        self._update_models()
        self._update_gates()
        self.region = route(self.passed_on, self.data.n_samples)

    def _update_models(self) -> None:
        candidates = [self._fit_region(k) for k in range(self.n_regions)]
        losses = self.region_learner.losses(candidates, self.data)
        if self.monotone and self.losses is not None:
            for k in range(self.n_regions):
                rows = self.region == k
                weight = self.data.weight[rows]
                if not weight @ losses[k, rows] < weight @ self.losses[k, rows]:
                    candidates[k], losses[k] = self.models[k], self.losses[k]
        self.models, self.losses = candidates, losses

    def _fit_region(self, k: int) -> Any:
        """Fit region ``k``; an empty region keeps its model, or learns from all samples."""
        rows = np.flatnonzero(self.region == k)
        seed = self._draw_seed()
        previous = self.models[k]
        if len(rows) == 0 and previous is not None:
            return previous
        if len(rows):
            try:
                return self.region_learner.fit_region(self.data, rows, seed, previous)
            except ValueError:
                if previous is not None:
                    return previous
        # A learner that refuses these rows may accept all of them; if not, its error is the user's.
        return self.region_learner.fit_region(self.data, np.arange(self.data.n_samples), seed, None)

    def _update_gates(self) -> None:
        later = self.losses[-1]
        for k in range(self.n_regions - 2, -1, -1):
            own = self.losses[k]
            rows, labels, weights = gate_problem(own, later, self.region >= k, self.data.weight)
            self.disagreement[k] = len(rows) / self.data.n_samples
            self._update_gate(k, rows, labels, weights)
            later = np.where(self.passed_on[k], later, own)

    def _update_gate(self, k: int, rows, labels, weights) -> None:
        seed = self._draw_seed()
        previous = self.gates[k]
        if len(rows) == 0:
            if previous is None:
                self.gates[k] = ConstantGate(False)
            return
        gate = constant_gate(labels)
        if gate is None:
            try:
                gate = self.gate_learner.fit_gate(self.data, rows, labels, weights, seed, previous)
                self.n_gates_fitted += 1
            except ValueError as error:
                self.refusal = error
                gate = previous if previous is not None else ConstantGate(False)
        if gate is previous:
            return
        passed = passes_on(gate, self.data.X)
        if self.monotone and previous is not None:
            cost = weights @ (passed[rows] != labels)
            if not cost < weights @ (self.passed_on[k, rows] != labels):
                return
        self.gates[k], self.passed_on[k] = gate, passed

    def _draw_seed(self) -> int:
        return int(self.rng.randint(_MAX_SEED))

    def _snapshot(self, loss: Any) -> Cascade:
        cascade = Cascade(list(self.models), list(self.gates))
        cascade.train_error = self._average(loss)
        cascade.selection_error = cascade.train_error
        return cascade

    # --- what the run of sweeps asks of arrays ---

    def _chain_loss(self) -> Any:
        return chain_loss(self.losses, self.region)

    def _sizes(self, region) -> np.ndarray:
        return np.bincount(region, minlength=self.n_regions)

    def _is_same(self, a, b) -> bool:
        return np.array_equal(a, b)

    def _average(self, loss) -> float:
        return float(np.average(loss, weights=self.data.weight))

    def _validation_error(self, cascade: Cascade, validation: TrainingSet) -> float:
        return validation_error(cascade, validation)

    def _finish(self, models: list, region) -> None:
        self.region_learner.finish(models, self.data, region)


def validation_error(cascade: Cascade, validation: TrainingSet) -> float:
    """Return the weighted loss of a cascade on rows that its fit did not see."""
    loss = validation.loss(cascade.predict(validation.X, validation.y.dtype))
    return float(np.average(loss, weights=validation.weight))
