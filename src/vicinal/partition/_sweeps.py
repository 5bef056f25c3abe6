"""Algorithm 1: alternate between the models of the regions and the gates between them.

The order of a sweep, the rules of its corner cases, what is recorded and when it ends are written
here, once. An engine brings the rows: arrays in memory or on a device, or blocks of a table. It is
asked for several starts at once, so that one pass over a table can serve all of them.
"""

from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Protocol

import numpy as np

from vicinal.partition._cascade import Cascade
from vicinal.partition.stages import ConstantGate


class Subproblem(Protocol):
    """The rows that a region model or a gate is to be learned from."""

    @property
    def n_rows(self) -> int:
        """Number of rows."""

    def fit(self, previous: Any) -> Any:
        """Return the model or gate; ``previous`` is that of the last sweep. May refuse its rows."""


class RegionProblem(Subproblem, Protocol):
    """The rows of a region."""

    def fit_all(self) -> Any:
        """Return the model of all rows."""


class GateProblem(Subproblem, Protocol):
    """The rows on which it matters whether a gate passes them on."""

    @property
    def n_passed(self) -> int:
        """Number of rows that should be passed on."""


class Outcome(NamedTuple):
    """What a sweep has come to."""

    error: float  # weighted training loss
    region_sizes: np.ndarray
    is_settled: bool  # nothing moved since the last sweep
    recorded: dict[str, float]  # "validation_error", "objective": what else the history holds
    region: Any = None  # of every row, where the engine holds one


class Run:
    """One start: its models and gates as they are, and its record.

    ``state`` is what the engine keeps of the rows between its questions.
    """

    def __init__(self, n_regions: int, state: Any) -> None:
        self.n_regions, self.state = n_regions, state
        self.models: list[Any] = [None] * n_regions
        self.gates: list[Any] = [None] * (n_regions - 1)
        self.disagreement = np.zeros(n_regions - 1)
        self.history: dict[str, list] = {"error": [], "region_sizes": [], "disagreement": []}
        self.best: Any = None
        self.best_region: Any = None
        self.converged = False
        self.n_gates_fitted = 0
        self.refusal: Exception | None = None

    @property
    def n_sweeps(self) -> int:
        """Number of sweeps that are over."""
        return len(self.history["error"])

    def record(self, outcome: Outcome, keep: str) -> None:
        """Note what a sweep came to; keep its cascade if it is the best, or the last is wanted."""
        values = {
            "error": outcome.error,
            "region_sizes": outcome.region_sizes,
            "disagreement": self.disagreement.copy(),
            **outcome.recorded,
        }
        for name, value in values.items():
            self.history.setdefault(name, []).append(value)
        error = outcome.recorded.get("validation_error", outcome.error)
        if keep == "last" or self.best is None or error < self.best.selection_error:
            self.best = Cascade(list(self.models), list(self.gates))
            self.best.train_error, self.best.selection_error = outcome.error, error
            self.best.region_sizes, self.best_region = outcome.region_sizes, outcome.region
        self.converged = outcome.is_settled

    def result(self) -> Cascade:
        """Return the kept cascade with the record of all sweeps."""
        if self.refusal is not None and self.n_gates_fitted == 0:
            # Not the size of a problem but the learner itself: it never fitted a single gate.
            raise self.refusal
        self.best.history = {name: np.array(values) for name, values in self.history.items()}
        self.best.n_iter, self.best.converged = self.n_sweeps, self.converged
        return self.best


class Engine(ABC):
    """What the alternation asks of the rows."""

    n_rows: int

    @abstractmethod
    def region_problems(self, runs: list[Run]) -> list[list[RegionProblem]]:
        """Return, for every run, the rows that are now in each region."""

    @abstractmethod
    def set_regions(self, run: Run, models: list) -> None:
        """Take the new region models, or those that lower the loss."""

    @abstractmethod
    def gate_problems(self, runs: list[Run], k: int) -> list[GateProblem]:
        """Return, for every run, what gate ``k`` learns from, given the gates after it."""

    @abstractmethod
    def set_gate(self, run: Run, k: int, gate: Any, problem: GateProblem) -> None:
        """Take a new gate, if it lowers the loss where that is asked for."""

    @abstractmethod
    def reroute(self, runs: list[Run]) -> list[Outcome]:
        """Let the new gates decide from now on, and tell what that comes to."""

    def finish(self, runs: list[Run]) -> None:  # noqa: B027
        """Complete the cascades that were kept; most need nothing more."""


def run_sweeps(engine: Engine, runs: list[Run], *, max_iter: int, keep: str) -> list[Cascade]:
    """Sweep until nothing moves or ``max_iter`` is reached, and return the kept cascades.

    A sweep refits all region models, then the gates from the last to the first, then routes anew.
    """
    open_runs = runs
    for _ in range(max_iter):
        for run, problems in zip(open_runs, engine.region_problems(open_runs), strict=True):
            pairs = zip(problems, run.models, strict=True)
            engine.set_regions(run, [_fit_region(*pair) for pair in pairs])
        for k in reversed(range(open_runs[0].n_regions - 1)):
            for run, problem in zip(open_runs, engine.gate_problems(open_runs, k), strict=True):
                run.disagreement[k] = problem.n_rows / engine.n_rows
                engine.set_gate(run, k, _fit_gate(run, problem, run.gates[k]), problem)
        for run, outcome in zip(open_runs, engine.reroute(open_runs), strict=True):
            run.record(outcome, keep)
        open_runs = [run for run in open_runs if not run.converged]
        if not open_runs:
            break
    cascades = [run.result() for run in runs]
    engine.finish(runs)
    return cascades


def _fit_region(problem: RegionProblem, previous: Any) -> Any:
    """Fit a region; an empty region keeps its model, or learns from all samples."""
    if problem.n_rows == 0 and previous is not None:
        return previous
    if problem.n_rows:
        try:
            return problem.fit(previous)
        except ValueError:
            if previous is not None:
                return previous
    # A learner that refuses these rows may accept all of them; if not, its error is the user's.
    return problem.fit_all()


def _fit_gate(run: Run, problem: GateProblem, previous: Any) -> Any:
    """Fit a gate; without rows it stays as it was, with rows of one kind it is constant."""
    kept = ConstantGate(False) if previous is None else previous
    if problem.n_rows == 0:
        return kept
    if problem.n_passed in (0, problem.n_rows):
        return ConstantGate(problem.n_passed > 0)
    try:
        gate = problem.fit(previous)
    except ValueError as error:
        run.refusal = error
        return kept
    run.n_gates_fitted += 1
    return gate
