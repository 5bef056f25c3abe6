"""Sweeps over rows held in arrays, in memory or on a device: every row has its region."""

from dataclasses import dataclass, field
from typing import Any

import array_api_compat as compat
import numpy as np

from vicinal._base import namespace
from vicinal._kernels.cascade._hard import chain_loss
from vicinal.partition._cascade import Cascade
from vicinal.partition._sweeps import Engine, GateProblem, Outcome, RegionProblem, Run, run_sweeps
from vicinal.partition._training_set import TrainingSet

_MAX_SEED = np.iinfo(np.int32).max


@dataclass
class _RowState:
    """Where the rows are: their regions, the losses of all models, what the gates decide."""

    region: Any
    rng: np.random.RandomState
    losses: Any = None  # (n_regions, n_samples)
    passed_on: dict[int, Any] = field(default_factory=dict)
    later: Any = None  # loss of the stages after the gate in turn
    loss: Any = None  # of every row, after the last sweep

    def draw_seed(self) -> int:
        return int(self.rng.randint(_MAX_SEED))


@dataclass(frozen=True)
class _Region:
    data: TrainingSet
    learner: Any
    rows: Any
    seed: int

    @property
    def n_rows(self) -> int:
        return self.rows.shape[0]

    def fit(self, previous: Any) -> Any:
        return self.learner.fit_region(self.data, self.rows, self.seed, previous)

    def fit_all(self) -> Any:
        return self.learner.fit_region(self.data, self.data.all_rows(), self.seed, None)


@dataclass(frozen=True)
class _Gate:
    data: TrainingSet
    learner: Any
    rows: Any
    labels: Any
    weights: Any
    seed: int

    @property
    def n_rows(self) -> int:
        return self.rows.shape[0]

    @property
    def n_passed(self) -> int:
        return int(namespace(self.labels).sum(self.labels))

    def fit(self, previous: Any) -> Any:
        problem = self.rows, self.labels, self.weights
        return self.learner.fit_gate(self.data, *problem, self.seed, previous)


class ArrayEngine(Engine):
    """The rows of a training set, with any learner of regions and of gates.

    Parameters
    ----------
    data : TrainingSet
        Training samples, in memory or on a device.
    region_learner, gate_learner : learners
        How region models and gates are fitted.
    monotone : bool
        Whether a new model must strictly lower its own term of the training loss to be taken.
    validation : TrainingSet or None
        Samples on which sweeps are compared instead of the training samples.
    """

    def __init__(
        self,
        data: TrainingSet,
        region_learner: Any,
        gate_learner: Any,
        *,
        monotone: bool,
        validation: TrainingSet | None = None,
    ) -> None:
        self.data, self.validation, self.monotone = data, validation, monotone
        self.region_learner, self.gate_learner = region_learner, gate_learner
        self.n_rows = data.n_samples

    def region_problems(self, runs: list[Run]) -> list[list[RegionProblem]]:
        return [
            [
                _Region(self.data, self.region_learner, rows, run.state.draw_seed())
                for rows in self.data.rows_by_region(run.state.region, run.n_regions)
            ]
            for run in runs
        ]

    def set_regions(self, run: Run, models: list) -> None:
        state = run.state
        losses = self.region_learner.losses(models, self.data)
        if self.monotone and state.losses is not None:
            new, old = (self.data.region_losses(of, state.region) for of in (losses, state.losses))
            stays = ~(new < old)
            xp = namespace(losses)
            old_ones = xp.asarray(stays, device=compat.device(losses))[:, None]
            losses = xp.where(old_ones, state.losses, losses)
            models = [run.models[k] if stays[k] else model for k, model in enumerate(models)]
        run.models, state.losses = models, losses
        state.later = losses[run.n_regions - 1, :]

    def gate_problems(self, runs: list[Run], k: int) -> list[GateProblem]:
        return [self._gate_problem(run.state, k) for run in runs]

    def _gate_problem(self, state: _RowState, k: int) -> _Gate:
        own = state.losses[k, :]
        problem = self.data.gate_problem(own, state.later, state.region >= k)
        return _Gate(self.data, self.gate_learner, *problem, state.draw_seed())

    def set_gate(self, run: Run, k: int, gate: Any, problem: Any) -> None:
        state, previous = run.state, run.gates[k]
        if gate is not previous:
            passed = self.data.passes_on(gate)
            if self.monotone and previous is not None:
                kind = problem.rows, problem.labels, problem.weights
                new, old = (self.data.gate_cost(d, *kind) for d in (passed, state.passed_on[k]))
                gate, passed = (gate, passed) if new < old else (previous, state.passed_on[k])
            run.gates[k], state.passed_on[k] = gate, passed
        passed, own = state.passed_on[k], state.losses[k, :]
        state.later = namespace(own).where(passed, state.later, own)

    def reroute(self, runs: list[Run]) -> list[Outcome]:
        return [self._reroute(run) for run in runs]

    def _reroute(self, run: Run) -> Outcome:
        state, data = run.state, self.data
        region = data.route([state.passed_on[k] for k in range(run.n_regions - 1)])
        loss = chain_loss(state.losses, region)
        xp = namespace(loss)
        is_settled = (
            state.loss is not None
            and bool(xp.all(region == state.region))
            and bool(xp.all(loss == state.loss))
        )
        state.region, state.loss = region, loss
        recorded = {}
        if self.validation is not None:
            recorded["validation_error"] = self.validation.error(Cascade(run.models, run.gates))
        sizes = data.region_sizes(region, run.n_regions)
        return Outcome(data.average(loss), sizes, is_settled, recorded, region)

    def finish(self, runs: list[Run]) -> None:
        for run in runs:
            self.region_learner.finish(run.best.regions, self.data, run.best_region)


@dataclass(frozen=True)
class HardStart:
    """One start of the alternation, as a function of its seed that may travel to a worker."""

    engine: ArrayEngine
    init: Any
    n_regions: int
    max_iter: int
    keep: str
    prune: bool

    def __call__(self, seed: int) -> Cascade:
        rng = np.random.RandomState(seed)
        region = self.engine.data.first_regions(self.init, self.n_regions, rng)
        run = Run(self.n_regions, _RowState(region, rng))
        (cascade,) = run_sweeps(self.engine, [run], max_iter=self.max_iter, keep=self.keep)
        if self.prune:
            cascade.prune()
        return cascade
