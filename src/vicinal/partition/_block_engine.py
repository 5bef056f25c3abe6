"""Sweeps over a table in blocks of rows, from sums that the blocks send.

A sweep costs one pass over the rows for all regions and one for every gate, since a gate depends on
the gates after it. Every pass finds the route of its rows anew from the cascade as it is, so that
nothing as long as the table is ever kept; all starts are served by the same passes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial, reduce
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from vicinal._base import Block, Blocks, add_tuples, dense, row_uniforms
from vicinal._kernels.cascade._hard import (
    chain_loss,
    gate_costs,
    linear_errors,
    nearest_center,
    route,
)
from vicinal._kernels.linear._regression import logistic_sums
from vicinal.partition._block_learners import BlockLogistic, MixedPerceptron, Start
from vicinal.partition._linear_learners import training_margins
from vicinal.partition._sweeps import Engine, GateProblem, Outcome, RegionProblem, Run
from vicinal.partition.stages import LinearGate, gate_start, stacked_gates, stacked_regions

# --- what tasks know of the table and of a start --------------------------------------------------


@dataclass(frozen=True)
class BlockTable:
    """How a block becomes scaled rows, targets and weights, and what is learned from them."""

    mean: np.ndarray
    scale: np.ndarray | None
    learner: Any
    gate_learner: Any
    weight: float
    classes: np.ndarray | None = None

    def rows(self, block: Block) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return scaled rows, codes (or numbers) and weights."""
        X = dense(block)
        if self.scale is not None:
            X = (X - self.mean) / self.scale
        if self.classes is None:
            return X, np.asarray(block.y, dtype=np.float64), block.sample_weight
        return X, np.searchsorted(self.classes, block.y), block.sample_weight

    def losses(self, X, target, models: list) -> np.ndarray:
        """Return the loss of every model on every row, (n_models, n_rows)."""
        if self.classes is not None:
            return linear_errors(X, *stacked_regions(models), target)
        coefs, intercepts = stacked_regions(models)
        return (target - (coefs @ X.T + intercepts[:, None])) ** 2


@dataclass(frozen=True)
class FirstRegions:
    """A first assignment that every row finds by itself: by centre, gate, class or chance."""

    centers: np.ndarray | None = None
    gates: tuple[np.ndarray, np.ndarray] | None = None
    by_class: np.ndarray | None = None
    seed: int = 0

    def assign(self, X, codes, start: int, n_regions: int) -> np.ndarray:
        if self.centers is not None:
            return nearest_center(X, self.centers)
        if self.gates is not None:
            return route(_decisions(X, self.gates), len(X))
        if self.by_class is not None:
            return self.by_class[codes]
        return (row_uniforms(self.seed, start, len(X)) * n_regions).astype(np.int64)


@dataclass
class Chain:
    """A start as tasks see it: the routes of the last sweep, region models, and new gates."""

    first: FirstRegions
    n_regions: int
    seed: int
    models: list = field(default_factory=list)
    gates: list = field(init=False)  # the newest gate of every stage, or None
    routes: tuple[np.ndarray, np.ndarray] | None = None  # the gates before they were refitted
    n_sweeps: int = 0

    def __post_init__(self) -> None:
        self.gates = [None] * (self.n_regions - 1)

    def region(self, X, target, start: int) -> np.ndarray:
        if self.routes is None:
            return self.first.assign(X, target, start, self.n_regions)
        return route(_decisions(X, self.routes), len(X))

    def block_seed(self, start: int, stage: int) -> int:
        """Return a seed that belongs to the block, the sweep and the stage."""
        stream = (self.seed + 1009 * self.n_sweeps + stage) % (2**31)
        return int(row_uniforms(stream, start, 1)[0] * 2**31)


def _decisions(X: np.ndarray, gates: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return what each gate decides on each row, (n_gates, n_rows)."""
    coefs, intercepts = gates
    return coefs @ X.T + intercepts[:, None] > 0


# --- the engine -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _BlockRegion:
    """A region as all blocks tell of it."""

    n_rows: int
    make: Callable[[], Any]
    make_of_all: Callable[[], Any]

    def fit(self, previous: Any) -> Any:
        return self.make()

    def fit_all(self) -> Any:
        return self.make_of_all()


@dataclass(frozen=True)
class _BlockGate:
    """A gate as all blocks tell of it."""

    n_rows: int
    n_passed: int
    make: Callable[[], LinearGate]

    def fit(self, previous: Any) -> LinearGate:
        return self.make()


class Asked(NamedTuple):
    """What a stage of a start asks of the rows."""

    chain: int
    stage: int | None  # a region, or all rows; with a scale of the costs, a gate
    scale: float | None
    present: np.ndarray  # the classes that have rows
    question: Any = None


class BlockEngine(Engine):
    """Blocks of rows; ``max_iter`` tells which pass is the last, which need not sum up."""

    def __init__(self, blocks: Blocks, table: BlockTable, n_rows: int, max_iter: int) -> None:
        self.blocks, self.table, self.n_rows, self.max_iter = blocks, table, n_rows, max_iter
        self._totals: dict[Run, RegionSums] = {}  # of the last pass

    def region_problems(self, runs: list[Run]) -> list[list[RegionProblem]]:
        if not self._totals:
            self._visit(runs, with_sums=True)
        make = (
            self._logistic_regions
            if isinstance(self.table.learner, BlockLogistic)
            else self._regions
        )
        return make(runs)

    def _regions(self, runs: list[Run]) -> list[list[RegionProblem]]:
        region, classes = self.table.learner.region, self.table.classes
        problems: list[list[RegionProblem]] = []
        for run in runs:
            sums = self._totals[run].sums
            of_all = partial(region, reduce(add_tuples, sums)[1:], classes)
            makes = [(n, partial(region, tuple(own), classes)) for n, *own in sums]
            problems.append([_BlockRegion(n, make, of_all) for n, make in makes])
        return problems

    def _logistic_regions(self, runs: list[Run]) -> list[list[RegionProblem]]:
        """Solve the regions of all starts side by side."""
        learner, classes, width = self.table.learner, self.table.classes, self.blocks.n_features

        def solve(asked: list[Asked], masses: list, starts: list, chains: list) -> list:
            steps = [
                learner.steps(mass, width, start)
                for mass, start in zip(masses, starts, strict=True)
            ]
            return self._solve(chains, asked, steps)

        def of_all(run: Run, mass: np.ndarray) -> Any:
            asked = [Asked(0, None, None, np.flatnonzero(mass))]
            (solution,) = solve(asked, [mass], [None], [run.state])
            return learner.region(mass, solution, width, classes)

        stages = [
            (i, k, n, mass)
            for i, run in enumerate(runs)
            for k, (n, mass) in enumerate(self._totals[run].sums)
        ]
        apart = [stage for stage in stages if np.count_nonzero(stage[3]) > 1]
        solutions = solve(
            [Asked(i, k, None, np.flatnonzero(mass)) for i, k, _, mass in apart],
            [mass for *_, mass in apart],
            [_known_start(runs[i].models[k], mass) for i, k, _, mass in apart],
            [run.state for run in runs],
        )
        solved = {(i, k): found for (i, k, *_), found in zip(apart, solutions, strict=True)}
        problems: list[list[RegionProblem]] = [[] for _ in runs]
        for i, k, n, mass in stages:
            everything = sum(own for _, own in self._totals[runs[i]].sums)
            make = partial(learner.region, mass, solved.get((i, k)), width, classes)
            problems[i].append(_BlockRegion(n, make, partial(of_all, runs[i], everything)))
        return problems

    def _solve(self, chains: list, asked: list[Asked], steps: list) -> list:
        """Answer all that is asked, one pass for all at a time, until every stage is solved."""
        solutions: list[Any] = [None] * len(asked)
        answers: list[Any] = [None] * len(asked)
        open_stages = list(range(len(asked)))
        while open_stages:
            questions = []
            for j in open_stages:
                try:
                    question = steps[j].send(answers[j])
                    questions.append((j, asked[j]._replace(question=question)))
                except StopIteration as end:
                    solutions[j] = end.value
            open_stages = [j for j, _ in questions]
            if questions:
                shared = self.table, chains, [one for _, one in questions]
                found = self.blocks.total(_answer, *shared, combine=add_starts)
                for j, answer in zip(open_stages, found, strict=True):
                    answers[j] = answer
        return solutions

    def set_regions(self, run: Run, models: list) -> None:
        run.models = run.state.models = models

    def gate_problems(self, runs: list[Run], k: int) -> list[GateProblem]:
        chains, learner = [run.state for run in runs], self.table.gate_learner
        found = self.blocks.total(_sum_gate, self.table, chains, k, combine=add_starts)
        if not isinstance(learner, BlockLogistic):
            return [
                _BlockGate(n, n_passed, partial(learner.gate, tuple(sums)))
                for n, n_passed, _, _, *sums in found
            ]
        # Costs are scaled so that the rows weigh together what their samples weigh.
        scales = [weight / cost if cost > 0 else 1.0 for _, _, weight, cost, _ in found]
        two_sided = [i for i, (n, n_passed, *_) in enumerate(found) if 0 < n_passed < n]
        solutions = self._solve(
            chains,
            [Asked(i, k, scales[i], np.arange(2)) for i in two_sided],
            [
                learner.steps(
                    scales[i] * found[i][4], self.blocks.n_features, gate_start(runs[i].gates[k])
                )
                for i in two_sided
            ],
        )
        solved = dict(zip(two_sided, solutions, strict=True))
        return [
            _BlockGate(n, n_passed, partial(learner.gate, solved.get(i)))
            for i, (n, n_passed, *_) in enumerate(found)
        ]

    def set_gate(self, run: Run, k: int, gate: Any, problem: Any) -> None:
        run.gates[k] = run.state.gates[k] = gate

    def reroute(self, runs: list[Run]) -> list[Outcome]:
        for run in runs:
            run.state.routes = stacked_gates(run.gates, self.blocks.n_features)
            run.state.n_sweeps += 1
        before = dict(self._totals)
        self._visit(runs, with_sums=runs[0].n_sweeps + 1 < self.max_iter)
        return [self._outcome(run, before[run].digest) for run in runs]

    def _outcome(self, run: Run, digest: bytes) -> Outcome:
        found, learner = self._totals[run], self.table.learner
        is_settled = found.digest == digest or (run.n_regions == 1 and learner.is_exact)
        recorded = {}
        if isinstance(learner, MixedPerceptron):
            recorded["objective"] = found.objective / self.table.weight
        return Outcome(found.loss / self.table.weight, found.sizes, is_settled, recorded)

    def _visit(self, runs: list[Run], *, with_sums: bool) -> None:
        chains = [run.state for run in runs]
        shared = self.table, chains, with_sums
        totals = self.blocks.total(_sum_regions, *shared, combine=_add_regions)
        self._totals = dict(zip(runs, totals, strict=True))

    def finish(self, runs: list[Run]) -> None:
        """Scale the probabilities of perceptron regions by the spread of their training margins."""
        if not isinstance(self.table.learner, MixedPerceptron):
            return
        cascades = [run.best for run in runs]
        sums = self.blocks.total(_sum_margins, self.table, cascades, combine=add_starts)
        for cascade, (mass, first, second) in zip(cascades, sums, strict=True):
            for k, model in enumerate(cascade.regions):
                if mass[k] > 0:
                    spread = np.sqrt(max(second[k] / mass[k] - (first[k] / mass[k]) ** 2, 0.0))
                    model.temperature_ = float(spread) or 1.0


# --- passes over the rows -------------------------------------------------------------------------


class RegionSums(NamedTuple):
    """What the rows tell about a cascade and, for the next sweep, about its regions."""

    sizes: np.ndarray
    loss: float
    objective: float
    digest: bytes  # of routes and losses, block after block
    sums: Any  # of every region, or None


def _sum_regions(block: Block, table: BlockTable, chains: list[Chain], with_sums: bool) -> list:
    X, target, weight = table.rows(block)
    return [_sum_one(block.start, X, target, weight, table, chain, with_sums) for chain in chains]


def _sum_one(start, X, target, weight, table, chain, with_sums) -> RegionSums:
    region = chain.region(X, target, start)
    rows_of = [np.flatnonzero(region == k) for k in range(chain.n_regions)]
    loss, objective, digest = 0.0, 0.0, b""
    if chain.models:
        own = chain_loss(table.losses(X, target, chain.models), region)
        loss = float(weight @ own)
        digest = blake2b(region.tobytes() + own.tobytes(), digest_size=16).digest()
        if isinstance(table.learner, MixedPerceptron):
            for rows, model in zip(rows_of, chain.models, strict=True):
                objective += _criterion(table.learner, model, X[rows], target[rows], weight[rows])
    sums = None
    if with_sums:
        sums = []
        for k, rows in enumerate(rows_of):
            learned = table.learner.sums(
                X[rows],
                target[rows],
                weight[rows],
                0 if table.classes is None else len(table.classes),
                _region_start(chain, k),
                chain.block_seed(start, k),
            )
            sums.append((len(rows), *learned))
    return RegionSums(np.array([len(rows) for rows in rows_of]), loss, objective, digest, sums)


def _criterion(learner: MixedPerceptron, model, X, codes, weight) -> float:
    """Return the learner's own loss over rows whose class the model knows."""
    known = np.isfinite(model.intercept_[codes])
    scores = model.decision_function(X[known])
    return float(weight[known] @ learner.criterion(scores, codes[known]))


def _region_start(chain: Chain, k: int) -> Start:
    if not chain.models or not hasattr(chain.models[k], "classes_"):
        return None
    model = chain.models[k]
    return model.coef_, np.where(np.isfinite(model.intercept_), model.intercept_, 0.0)


def _known_start(model: Any, mass: np.ndarray) -> Start:
    """Return the last model of a region, if it knows all classes that have rows now."""
    if model is None or not np.isfinite(model.intercept_[mass > 0]).all():
        return None
    return model.coef_, model.intercept_


def _add_regions(left: list, right: list) -> list:
    return [_add_region(a, b) for a, b in zip(left, right, strict=True)]


def _add_region(a: RegionSums, b: RegionSums) -> RegionSums:
    sums = None
    if a.sums is not None and b.sums is not None:
        sums = [add_tuples(x, y) for x, y in zip(a.sums, b.sums, strict=True)]
    return RegionSums(
        a.sizes + b.sizes, a.loss + b.loss, a.objective + b.objective, a.digest + b.digest, sums
    )


def _gate_rows(chain: Chain, table: BlockTable, k: Any, X, target, weight, start: int) -> tuple:
    """Return rows, labels and costs of gate ``k``, given the gates after it."""
    region = chain.region(X, target, start)
    losses = table.losses(X, target, chain.models[k:])
    passed = _decisions(X, stacked_gates(chain.gates[k + 1 :], X.shape[1]))
    later = losses[-1]
    for own, decided in zip(losses[-2:0:-1], passed[::-1], strict=True):
        later = np.where(decided, later, own)
    return gate_costs(losses[0], later, region >= k, weight)


def _sum_gate(block: Block, table: BlockTable, chains: list[Chain], k: int) -> list:
    """Return, for every start: rows, those to pass on, their weight and costs, what is learned."""
    X, target, weight = table.rows(block)
    learner = table.gate_learner
    found = []
    for chain in chains:
        rows, labels, costs = _gate_rows(chain, table, k, X, target, weight, block.start)
        known = len(rows), int(labels.sum()), float(weight[rows].sum()), float(costs.sum())
        if isinstance(learner, MixedPerceptron) and len(rows):
            costs *= weight[rows].sum() / costs.sum()
        seed = chain.block_seed(block.start, chain.n_regions + k)
        learned = learner.sums(X[rows], labels, costs, 2, gate_start(chain.gates[k]), seed)
        found.append((*known, *learned))
    return found


def _answer(block: Block, table: BlockTable, chains: list[Chain], asked: list[Asked]) -> list:
    """Return what the rows of a block add to every answer."""
    data = table.rows(block)
    X, target, weight = data
    regions: dict[int, np.ndarray] = {}
    found = []
    for one in asked:
        chain = chains[one.chain]
        if one.scale is not None:
            rows, codes, own = _gate_rows(chain, table, one.stage, *data, block.start)
            own = one.scale * own
        else:
            if one.chain not in regions:
                regions[one.chain] = chain.region(X, target, block.start)
            rows = np.arange(len(X))
            if one.stage is not None:
                rows = np.flatnonzero(regions[one.chain] == one.stage)
            codes, own = target[rows], weight[rows]
        codes = np.searchsorted(one.present, codes)
        found.append(logistic_sums(X[rows], codes, own, len(one.present), one.question))
    return found


def add_starts(left: list, right: list) -> list:
    """Add what two sets of rows tell about every start."""
    return [add_tuples(a, b) for a, b in zip(left, right, strict=True)]


def _sum_margins(block: Block, table: BlockTable, cascades: list) -> list:
    X, codes, weight = table.rows(block)
    found = []
    for cascade in cascades:
        region = cascade.apply(X)
        sums = np.zeros((3, cascade.n_regions))
        for k, model in enumerate(cascade.regions):
            rows = np.flatnonzero(region == k)
            if len(rows):
                margins = training_margins(model, X[rows], codes[rows])
                known = np.isfinite(margins)
                powers = np.vander(margins[known], 3, increasing=True)
                sums[:, k] = weight[rows][known] @ powers
        found.append(tuple(sums))
    return found
