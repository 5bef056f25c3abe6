"""Fit of cascades to a table in blocks of rows, from sums over the blocks.

A sweep costs one pass over the rows for all regions and one for every gate, since a gate depends on
the gates after it. Every pass routes its rows through the current cascade, so that no array of the
length of the table is stored; all starts share the same passes. Discriminant analysis and ridge
regression are functions of sums; logistic regression takes one pass per Newton step.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve
from sklearn.base import is_classifier
from sklearn.linear_model import Ridge
from sklearn.utils import check_random_state

from vicinal._base import (
    Blocks,
    Survey,
    TrainingData,
    add_tuples,
    block_moments,
    class_factors,
    dense,
    merge_moments,
    random_seeds,
    refuse,
    row_uniforms,
    sample_rows,
    scaler_of,
    survey,
)
from vicinal._kernels.cascade import _hard as kernels
from vicinal._kernels.linear._covariance import LDAStatistics, lda_statistics
from vicinal._kernels.linear._regression import Steps, logistic_steps, logistic_sums
from vicinal.linear import WeightedLDA
from vicinal.partition._fit import CascadeFit, Settings, choose_n_regions, limit_regions, resolve
from vicinal.partition._learners import is_plain_lda, is_plain_logistic, is_plain_ridge
from vicinal.partition._sweeps import Engine, Outcome, Problem, Run, run_sweeps
from vicinal.partition.stages import (
    LinearGate,
    LinearRegionClassifier,
    LinearRegionRegressor,
    discriminant_gate,
    discriminant_region,
    gate_start,
    rows_by_class,
    stacked_gates,
    stacked_regions,
)

# Rows sampled for first centres and hyperplanes, and for n_regions="auto".
SAMPLE_ROWS = 20_000

# Coefficients and intercepts of the model of the last sweep, one row and entry per class.
Start = tuple[np.ndarray, np.ndarray] | None


# --- learners -------------------------------------------------------------------------------------


class Discriminant:
    """Discriminant analysis from counts, sums and Gram matrices."""

    def __init__(self, estimator: WeightedLDA) -> None:
        self.shrinkage = float(estimator.shrinkage or 0.0)

    def sums(self, X, codes, weight, n_classes: int) -> tuple:
        return tuple(lda_statistics(X, codes, weight, n_classes)[:3])

    def region(self, sums, classes: np.ndarray) -> LinearRegionClassifier:
        return discriminant_region(_statistics(sums), classes, self.shrinkage)

    def gate(self, sums) -> LinearGate:
        return discriminant_gate(_statistics(sums), self.shrinkage)


class BlockLogistic:
    """Logistic regression, by passes that sum gradients and curvatures of all problems."""

    def __init__(self, estimator: Any) -> None:
        self.options = {
            "alpha": 1.0 / estimator.C,
            "fit_intercept": estimator.fit_intercept,
            "tol": estimator.tol,
            "max_iter": estimator.max_iter,
        }

    def sums(self, X, codes, weight, n_classes: int) -> tuple:
        return (np.bincount(codes, weights=weight, minlength=n_classes),)

    def steps(self, mass: np.ndarray, n_features: int, start: Start) -> Steps:
        """Yield the sums needed over the rows of the classes present; return their solution."""
        present = np.flatnonzero(mass)
        if start is not None:
            start = start[0][present], start[1][present]
            if len(present) == 2:
                start = start[0][1:] - start[0][:1], start[1][1:] - start[1][:1]
        fit = yield from logistic_steps(
            float(mass.sum()), n_features, len(present), start=start, **self.options
        )
        return fit[:2]

    def region(self, mass, solution, n_features: int, classes) -> LinearRegionClassifier:
        """Return the model of a region from the solution of its steps, ``None`` for one class."""
        present = np.flatnonzero(mass)
        coef, intercept = np.zeros((len(mass), n_features)), np.full(len(mass), -np.inf)
        intercept[present] = 0.0
        if solution is not None:
            rows = solution if len(present) > 2 else rows_by_class(*solution)
            coef[present], intercept[present] = rows
        return LinearRegionClassifier(classes, coef, intercept)

    def gate(self, solution) -> LinearGate:
        """Return the half-space of a solution of two classes."""
        return LinearGate(solution[0][0], solution[1][0])


class RidgeRegion:
    """Ridge regression of a region from sums about the mean of the table."""

    def __init__(self, estimator: Ridge, shift: np.ndarray, target_shift: float) -> None:
        self.alpha, self.shift, self.target_shift = float(estimator.alpha), shift, target_shift

    def sums(self, X, y, weight, n_classes: int) -> tuple:
        Z = X - self.shift
        weighted = Z * weight[:, None]
        y = y - self.target_shift
        return weight.sum(), weighted.sum(axis=0), weight @ y, weighted.T @ Z, weighted.T @ y

    def region(self, sums, classes) -> LinearRegionRegressor:
        total, row_sum, target_sum, gram, moments = sums
        gram = gram - np.outer(row_sum, row_sum) / total
        gram[np.diag_indices_from(gram)] += self.alpha
        coef = solve(gram, moments - row_sum * (target_sum / total), assume_a="pos")
        mean = self.shift + row_sum / total
        return LinearRegionRegressor(coef, self.target_shift + target_sum / total - mean @ coef)


def _statistics(sums) -> LDAStatistics:
    weights, sums, gram = sums
    return LDAStatistics(weights, sums, gram, np.zeros_like(sums))


def stage_learner(estimator: Any, parameter: str) -> Any:
    """Return the learner of an estimator of classes, or raise if there is none."""
    if is_plain_lda(estimator):
        return Discriminant(estimator)
    if is_plain_logistic(estimator):
        return BlockLogistic(estimator)
    raise ValueError(
        f"{parameter}={estimator!r} cannot be fitted to blocks of rows; use 'lda' or 'logistic', "
        "or fit to a sample in memory."
    )


def ridge_learner(estimator: Any, shift: np.ndarray, target_shift: float) -> RidgeRegion:
    """Return the learner of a ridge regression, or raise if there is none."""
    if not is_plain_ridge(estimator):
        raise ValueError(
            f"region_estimator={estimator!r} cannot be fitted to blocks of rows; use 'ridge' or "
            "sklearn.linear_model.Ridge with its default solver."
        )
    return RidgeRegion(estimator, shift, target_shift)


# --- the table and a start in tasks on blocks -----------------------------------------------------


@dataclass(frozen=True)
class BlockTable:
    """Scaling of the rows of a block, and the learners."""

    mean: np.ndarray
    scale: np.ndarray | None
    learner: Any
    gate_learner: Any
    weight: float
    classes: np.ndarray | None = None

    def rows(self, block: TrainingData) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return scaled rows, targets (codes for classification) and weights."""
        X = dense(block)
        if self.scale is not None:
            X = (X - self.mean) / self.scale
        if self.classes is None:
            return X, np.asarray(block.y, dtype=np.float64), block.sample_weight
        return X, np.searchsorted(self.classes, block.y), block.sample_weight

    def losses(self, X, target, models: list) -> np.ndarray:
        """Return the loss of every model on every row, (n_models, n_rows)."""
        if self.classes is not None:
            return kernels.linear_errors(X, *stacked_regions(models), target)
        coefs, intercepts = stacked_regions(models)
        return (target - (coefs @ X.T + intercepts[:, None])) ** 2


@dataclass(frozen=True)
class FirstRegions:
    """First assignment of rows to regions: by centres, gates, classes or at random."""

    centers: np.ndarray | None = None
    gates: tuple[np.ndarray, np.ndarray] | None = None
    by_class: np.ndarray | None = None
    seed: int = 0

    def assign(self, X, codes, start: int, n_regions: int) -> np.ndarray:
        if self.centers is not None:
            return kernels.nearest_center(X, self.centers)
        if self.gates is not None:
            return kernels.route(_decisions(X, self.gates), len(X))
        if self.by_class is not None:
            return self.by_class[codes]
        return (row_uniforms(self.seed, start, len(X)) * n_regions).astype(np.int64)


@dataclass
class Chain:
    """State of a start in tasks: gates of the last sweep, region models, and new gates."""

    first: FirstRegions
    n_regions: int
    models: list = field(default_factory=list)
    gates: list = field(init=False)  # the newest gate of every stage, or None
    routes: tuple[np.ndarray, np.ndarray] | None = None  # the gates before they were refitted

    def __post_init__(self) -> None:
        self.gates = [None] * (self.n_regions - 1)

    def region(self, X, target, start: int) -> np.ndarray:
        if self.routes is None:
            return self.first.assign(X, target, start, self.n_regions)
        return kernels.route(_decisions(X, self.routes), len(X))


def _decisions(X: np.ndarray, gates: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return the decision of each gate for each row, (n_gates, n_rows)."""
    coefs, intercepts = gates
    return coefs @ X.T + intercepts[:, None] > 0


# --- the engine -----------------------------------------------------------------------------------


def _summed(n_rows: int, make: Callable, *sums: Any, **options: Any) -> Problem:
    """Return the problem of a stage from its sums, whatever its last model was."""

    def fit(previous: Any) -> Any:
        return make(*sums)

    return Problem(n_rows, fit, **options)


class StageQuery(NamedTuple):
    """Request of sums over the rows of a stage."""

    chain: int
    stage: int | None  # a region, or all rows; with a scale of the costs, a gate
    scale: float | None
    present: np.ndarray  # the classes that have rows
    step: Any = None  # of the Newton iteration


class BlockEngine(Engine):
    """Engine of blocks of rows; the last pass, by ``max_iter``, computes no sums."""

    def __init__(self, blocks: Blocks, table: BlockTable, n_rows: int, max_iter: int) -> None:
        self.blocks, self.table, self.n_rows, self.max_iter = blocks, table, n_rows, max_iter
        self._totals: dict[Run, RegionSums] = {}  # of the last pass

    def region_problems(self, runs: list[Run]) -> list[list[Problem]]:
        if not self._totals:
            self._visit(runs, with_sums=True)
        is_logistic = isinstance(self.table.learner, BlockLogistic)
        return self._logistic_regions(runs) if is_logistic else self._regions(runs)

    def _regions(self, runs: list[Run]) -> list[list[Problem]]:
        region, classes = self.table.learner.region, self.table.classes
        problems: list[list[Problem]] = []
        for run in runs:
            sums = self._totals[run].sums
            of_all = partial(region, reduce(add_tuples, sums)[1:], classes)
            problems.append([_summed(n, region, own, classes, fit_all=of_all) for n, *own in sums])
        return problems

    def _logistic_regions(self, runs: list[Run]) -> list[list[Problem]]:
        """Solve the regions of all starts together."""
        learner, classes, width = self.table.learner, self.table.classes, self.blocks.n_features

        def solve(queries: list[StageQuery], masses: list, starts: list, chains: list) -> list:
            steps = [
                learner.steps(mass, width, start)
                for mass, start in zip(masses, starts, strict=True)
            ]
            return self._solve(chains, queries, steps)

        def of_all(run: Run, mass: np.ndarray) -> Any:
            queries = [StageQuery(0, None, None, np.flatnonzero(mass))]
            (solution,) = solve(queries, [mass], [None], [run.state])
            return learner.region(mass, solution, width, classes)

        stages = [
            (i, k, n, mass)
            for i, run in enumerate(runs)
            for k, (n, mass) in enumerate(self._totals[run].sums)
        ]
        apart = [stage for stage in stages if np.count_nonzero(stage[3]) > 1]
        solutions = solve(
            [StageQuery(i, k, None, np.flatnonzero(mass)) for i, k, _, mass in apart],
            [mass for *_, mass in apart],
            [_known_start(runs[i].models[k], mass) for i, k, _, mass in apart],
            [run.state for run in runs],
        )
        solved = {(i, k): found for (i, k, *_), found in zip(apart, solutions, strict=True)}
        problems: list[list[Problem]] = [[] for _ in runs]
        for i, k, n, mass in stages:
            everything = sum(own for _, own in self._totals[runs[i]].sums)
            given = mass, solved.get((i, k)), width, classes
            fit_all = partial(of_all, runs[i], everything)
            problems[i].append(_summed(n, learner.region, *given, fit_all=fit_all))
        return problems

    def _solve(self, chains: list, queries: list[StageQuery], steps: list) -> list:
        """Take one pass per Newton step of all stages together, until every stage is solved."""
        solutions: list[Any] = [None] * len(queries)
        sums: list[Any] = [None] * len(queries)
        open_stages = list(range(len(queries)))
        while open_stages:
            pending = []
            for j in open_stages:
                try:
                    pending.append((j, queries[j]._replace(step=steps[j].send(sums[j]))))
                except StopIteration as end:
                    solutions[j] = end.value
            open_stages = [j for j, _ in pending]
            if pending:
                shared = self.table, chains, [query for _, query in pending]
                found = self.blocks.total(_sum_queries, *shared, combine=add_starts)
                for j, values in zip(open_stages, found, strict=True):
                    sums[j] = values
        return solutions

    def set_regions(self, run: Run, models: list) -> None:
        run.models = run.state.models = models

    def gate_problems(self, runs: list[Run], k: int) -> list[Problem]:
        chains, learner = [run.state for run in runs], self.table.gate_learner
        found = self.blocks.total(_sum_gate, self.table, chains, k, combine=add_starts)
        if not isinstance(learner, BlockLogistic):
            return [
                _summed(n, learner.gate, sums, n_passed=n_passed)
                for n, n_passed, _, _, *sums in found
            ]
        # Costs are scaled to the total weight of the rows.
        scales = [weight / cost if cost > 0 else 1.0 for _, _, weight, cost, _ in found]
        two_sided = [i for i, (n, n_passed, *_) in enumerate(found) if 0 < n_passed < n]
        solutions = self._solve(
            chains,
            [StageQuery(i, k, scales[i], np.arange(2)) for i in two_sided],
            [
                learner.steps(
                    scales[i] * found[i][4], self.blocks.n_features, gate_start(runs[i].gates[k])
                )
                for i in two_sided
            ],
        )
        solved = dict(zip(two_sided, solutions, strict=True))
        return [
            _summed(n, learner.gate, solved.get(i), n_passed=n_passed)
            for i, (n, n_passed, *_) in enumerate(found)
        ]

    def set_gate(self, run: Run, k: int, gate: Any) -> None:
        run.gates[k] = run.state.gates[k] = gate

    def reroute(self, runs: list[Run]) -> list[Outcome]:
        for run in runs:
            run.state.routes = stacked_gates(run.gates, self.blocks.n_features)
        before = dict(self._totals)
        self._visit(runs, with_sums=runs[0].n_sweeps + 1 < self.max_iter)
        return [self._outcome(run, before[run].digest) for run in runs]

    def _outcome(self, run: Run, digest: bytes) -> Outcome:
        found = self._totals[run]
        has_converged = found.digest == digest or run.n_regions == 1
        return Outcome(found.loss / self.table.weight, found.sizes, has_converged, {})

    def _visit(self, runs: list[Run], *, with_sums: bool) -> None:
        chains = [run.state for run in runs]
        shared = self.table, chains, with_sums
        totals = self.blocks.total(_sum_regions, *shared, combine=_add_regions)
        self._totals = dict(zip(runs, totals, strict=True))


# --- passes over the rows -------------------------------------------------------------------------


class RegionSums(NamedTuple):
    """Sums over rows of a cascade and, for the next sweep, of its regions."""

    sizes: np.ndarray
    loss: float
    digest: bytes  # of routes and losses, block after block
    sums: Any  # of every region, or None


def _sum_regions(
    block: TrainingData, table: BlockTable, chains: list[Chain], with_sums: bool
) -> list:
    X, target, weight = table.rows(block)
    return [_sum_one(block.start, X, target, weight, table, chain, with_sums) for chain in chains]


def _sum_one(start, X, target, weight, table, chain, with_sums) -> RegionSums:
    region = chain.region(X, target, start)
    rows_of = [np.flatnonzero(region == k) for k in range(chain.n_regions)]
    loss, digest = 0.0, b""
    if chain.models:
        own = kernels.chain_loss(table.losses(X, target, chain.models), region)
        loss = float(weight @ own)
        digest = blake2b(region.tobytes() + own.tobytes(), digest_size=16).digest()
    sums = None
    if with_sums:
        n_classes = 0 if table.classes is None else len(table.classes)
        sums = [
            (len(rows), *table.learner.sums(X[rows], target[rows], weight[rows], n_classes))
            for rows in rows_of
        ]
    return RegionSums(np.array([len(rows) for rows in rows_of]), loss, digest, sums)


def _known_start(model: Any, mass: np.ndarray) -> Start:
    """Return the last model of a region, if it was fitted to all classes that have rows now."""
    if model is None or not np.isfinite(model.intercept_[mass > 0]).all():
        return None
    return model.coef_, model.intercept_


def _add_regions(left: list, right: list) -> list:
    return [_add_region(a, b) for a, b in zip(left, right, strict=True)]


def _add_region(a: RegionSums, b: RegionSums) -> RegionSums:
    sums = None
    if a.sums is not None and b.sums is not None:
        sums = [add_tuples(x, y) for x, y in zip(a.sums, b.sums, strict=True)]
    return RegionSums(a.sizes + b.sizes, a.loss + b.loss, a.digest + b.digest, sums)


def _gate_rows(chain: Chain, table: BlockTable, k: Any, X, target, weight, start: int) -> tuple:
    """Return rows, labels and costs of gate ``k``, given the gates after it."""
    region = chain.region(X, target, start)
    losses = table.losses(X, target, chain.models[k:])
    passed = _decisions(X, stacked_gates(chain.gates[k + 1 :], X.shape[1]))
    later = losses[-1]
    for own, decided in zip(losses[-2:0:-1], passed[::-1], strict=True):
        later = np.where(decided, later, own)
    return kernels.gate_costs(losses[0], later, region >= k, weight)


def _sum_gate(block: TrainingData, table: BlockTable, chains: list[Chain], k: int) -> list:
    """Return, for every start: rows, rows to pass on, weight, costs, and sums of the learner."""
    X, target, weight = table.rows(block)
    learner = table.gate_learner
    found = []
    for chain in chains:
        rows, labels, costs = _gate_rows(chain, table, k, X, target, weight, block.start)
        known = len(rows), int(labels.sum()), float(weight[rows].sum()), float(costs.sum())
        found.append((*known, *learner.sums(X[rows], labels, costs, 2)))
    return found


def _sum_queries(
    block: TrainingData, table: BlockTable, chains: list[Chain], queries: list[StageQuery]
) -> list:
    """Return the sums over the rows of a block for every query."""
    X, target, weight = data = table.rows(block)
    regions: dict[int, np.ndarray] = {}
    found = []
    for query in queries:
        chain = chains[query.chain]
        if query.scale is not None:
            rows, codes, own = _gate_rows(chain, table, query.stage, *data, block.start)
            own = query.scale * own
        else:
            if query.chain not in regions:
                regions[query.chain] = chain.region(X, target, block.start)
            rows = np.arange(len(X))
            if query.stage is not None:
                rows = np.flatnonzero(regions[query.chain] == query.stage)
            codes, own = target[rows], weight[rows]
        codes = np.searchsorted(query.present, codes)
        found.append(logistic_sums(X[rows], codes, own, len(query.present), query.step))
    return found


def add_starts(left: list, right: list) -> list:
    """Add the sums of two sets of rows, for every start."""
    return [add_tuples(a, b) for a, b in zip(left, right, strict=True)]


# --- the fit --------------------------------------------------------------------------------------


def fit_blocks(model: Any, blocks: Blocks) -> tuple[CascadeFit, Any]:
    """Return the fit and the scaler of a classifier, whose ``classes_`` are set, or regressor."""
    only: dict = {"selection": "train", "monotone": False}
    if is_classifier(model):
        only["gating"] = "hard"
    refuse(model, why="by blocks of rows", **only)
    blocks, found = survey(blocks, has_classes=is_classifier(model))
    if not isinstance(model.init, str):
        raise ValueError(
            "init is an array, which cannot be used with blocks of rows; use 'kmeans', "
            "'hyperplane', 'random' or 'classes'."
        )
    settings, moments = resolve(model, None, found.n_rows), found.moments
    gate_learner = stage_learner(settings.reject_estimator, "reject_estimator")
    if found.classes is None:
        target_sum = blocks.total(_target_sum)
        # About the mean of the table, sums of squares lose nothing to cancellation.
        shift = np.zeros(blocks.n_features) if model.scale else moments.mean
        learner: Any = ridge_learner(settings.region_estimator, shift, target_sum / moments.weight)
    else:
        model.classes_ = found.classes
        learner = stage_learner(settings.region_estimator, "region_estimator")
        if model.class_weight is not None:
            codes = np.arange(len(found.classes))
            factors = class_factors(model.class_weight, found.classes, codes, found.class_weights)
            blocks = blocks.then(_weigh_classes, found.classes, factors)
            moments = blocks.total(block_moments, combine=merge_moments)
    scaler = scaler_of(moments.mean, moments.variance, moments.weight) if model.scale else None
    scale = None if scaler is None else scaler.scale_
    table = BlockTable(moments.mean, scale, learner, gate_learner, moments.weight, found.classes)
    return _fit_table(settings, blocks, found, table), scaler


def _fit_table(
    settings: Settings, blocks: Blocks, found: Survey, table: "BlockTable"
) -> CascadeFit:
    """Run all starts together and return their cascades, the best first."""
    rng = check_random_state(settings.random_state)
    errors = None
    if settings.n_regions == "auto":
        X, target, weight = table.rows(sample_rows(blocks, found, SAMPLE_ROWS, 0))
        data = TrainingData(X, target, table.classes, weight if (weight != 1.0).any() else None)
        n_regions, errors = choose_n_regions(data, settings, rng)
    else:
        n_regions = limit_regions(settings.n_regions, found.n_rows)
    seeds = random_seeds(rng, settings.n_init if n_regions > 1 else 1)
    firsts = _first_regions(settings.init, blocks, found, table, n_regions, seeds, rng)
    runs = [Run(n_regions, Chain(first, n_regions)) for first in firsts]
    engine = BlockEngine(blocks, table, found.n_rows, settings.max_iter)
    cascades = run_sweeps(engine, runs, max_iter=settings.max_iter, keep=settings.keep)
    for cascade in cascades:
        cascade.prune()
    cascades = sorted(cascades, key=lambda cascade: cascade.selection_error)
    return CascadeFit(cascades, errors)


def _weigh_classes(block: TrainingData, classes, factors) -> TrainingData:
    weight = block.sample_weight * factors[np.searchsorted(classes, block.y)]
    return replace(block, sample_weight=weight)


def _target_sum(block: TrainingData) -> float:
    return float(block.sample_weight @ np.asarray(block.y, dtype=np.float64))


def _first_regions(init, blocks, found, table, n_regions, seeds, rng) -> list:
    """Return a first assignment for every start."""
    states = [np.random.RandomState(seed) for seed in seeds]
    if n_regions == 1:
        empty = np.zeros((0, blocks.n_features)), np.zeros(0)
        return [FirstRegions(gates=empty)]
    if init == "random":
        return [FirstRegions(seed=seed) for seed in seeds]
    if init == "classes":
        codes = np.arange(len(table.classes))
        return [
            FirstRegions(by_class=kernels.assign_classes(codes, n_regions, state))
            for state in states
        ]
    sampled = sample_rows(blocks, found, SAMPLE_ROWS, random_seeds(rng, 1)[0])
    X, _, weight = table.rows(sampled)
    if init == "hyperplane":
        return [
            FirstRegions(gates=kernels.hyperplane_gates(X, weight, n_regions, state))
            for state in states
        ]
    centers = [kernels.first_centers(X, weight, n_regions, state) for state in states]
    return [FirstRegions(centers=c) for c in _lloyd(centers, blocks, table)]


def _lloyd(centers: list, blocks: Blocks, table: BlockTable) -> list:
    """Run k-means for all starts together; the centre of an empty cluster does not move."""
    for _ in range(kernels.LLOYD_STEPS):
        sums = blocks.total(_sum_centers, table, centers, combine=add_starts)
        moved = [
            np.where(mass[:, None] > 0, total / np.where(mass > 0, mass, 1.0)[:, None], old)
            for (mass, total), old in zip(sums, centers, strict=True)
        ]
        has_converged = all(np.array_equal(a, b) for a, b in zip(moved, centers, strict=True))
        centers = moved
        if has_converged:
            break
    return centers


def _sum_centers(block: TrainingData, table: BlockTable, centers: list) -> list:
    X, _, weight = table.rows(block)
    found = []
    for own in centers:
        region = kernels.nearest_center(X, own)
        mass, total = np.zeros(len(own)), np.zeros(own.shape)
        for k in range(len(own)):
            rows = np.flatnonzero(region == k)
            mass[k], total[k] = weight[rows].sum(), weight[rows] @ X[rows]
        found.append((mass, total))
    return found
