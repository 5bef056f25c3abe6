"""Fit of cascades to a table in blocks of rows, from sums over the blocks.

A sweep costs one pass over the rows for all regions and one for every gate, since a gate depends on
the gates after it. Every pass routes its rows through the current cascade, so that no array of the
length of the table is stored; all starts share the same passes. Discriminant analysis and ridge
regression are functions of sums; logistic regression takes one pass per Newton step.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial, reduce
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier
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
    sample_rows,
    scaler_of,
    survey,
)
from vicinal._kernels.cascade import _hard as kernels
from vicinal._kernels.linear._covariance import LDAStatistics, lda_statistics
from vicinal._kernels.linear._regression import Steps, logistic_steps, logistic_sums
from vicinal.partition import _fit, _learners, stages

# Rows sampled for first centres, and for n_regions="auto".
SAMPLE_ROWS = 20_000


# --- learners -------------------------------------------------------------------------------------
#
# A learner sums over the rows of a stage; classifiers sum the weight of each class first. Its
# ``steps`` take the total, request further sums if it needs any, and return what makes a model.


class BlockLDA:
    """Discriminant analysis from counts, sums and Gram matrices."""

    def __init__(self, estimator: Any) -> None:
        self.shrinkage = float(estimator.shrinkage or 0.0)

    def sums(self, X, codes, weight, n_classes: int) -> tuple:
        return tuple(lda_statistics(X, codes, weight, n_classes)[:3])

    def steps(self, sums: tuple, previous: Any) -> Steps:
        yield from ()
        weights, totals, gram = sums
        statistics = LDAStatistics(weights, totals, gram, np.zeros_like(totals))
        return stages.discriminant_scores(statistics, self.shrinkage)


class BlockLogistic:
    """Logistic regression, by passes that sum gradients and curvatures of all problems."""

    def __init__(self, estimator: Any, n_features: int) -> None:
        self.options, self.n_features = _learners.logistic_options(estimator), n_features

    def sums(self, X, codes, weight, n_classes: int) -> tuple:
        return (np.bincount(codes, weights=weight, minlength=n_classes),)

    def steps(self, sums: tuple, previous: Any) -> Steps:
        (mass,) = sums
        present = np.flatnonzero(mass)
        if len(present) == 1:
            return present, None
        start, is_binary = _learners.known_start(previous, present), len(present) == 2
        if start is not None and is_binary:
            start = _learners.difference_of_classes(*start)
        shape = float(mass.sum()), self.n_features, len(present)
        fit = yield from logistic_steps(*shape, start=start, **self.options)
        return present, stages.rows_by_class(*fit[:2]) if is_binary else fit[:2]


class BlockRidge:
    """Ridge regression of a region from sums about the mean of the table."""

    def __init__(self, estimator: Any, shift: np.ndarray, target_shift: float) -> None:
        self.alpha, self.shifts = float(estimator.alpha), (shift, target_shift)

    def sums(self, X, y, weight, n_classes: int) -> tuple:
        return kernels.ridge_sums(X, y, weight, *self.shifts)

    def steps(self, sums: tuple, previous: Any) -> Steps:
        yield from ()
        return kernels.ridge_of_sums(sums, *self.shifts, self.alpha)


def class_learner(estimator: Any, parameter: str, n_features: int) -> Any:
    """Return the learner of an estimator of classes, or raise if there is none."""
    if _learners.is_plain_lda(estimator):
        return BlockLDA(estimator)
    if _learners.is_plain_logistic(estimator):
        return BlockLogistic(estimator, n_features)
    raise ValueError(
        f"{parameter}={estimator!r} cannot be fitted to blocks of rows; use 'lda' or 'logistic', "
        "or fit to a sample in memory."
    )


# --- the table and a start in tasks on blocks -----------------------------------------------------


@dataclass(frozen=True)
class BlockTable:
    """Scaling of the rows of a block, and the learners."""

    mean: np.ndarray
    scale: np.ndarray | None
    learner: Any
    gate_learner: Any
    weight: float
    classes: np.ndarray | None

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
        coefs, intercepts = stages.stacked_regions(models)
        if self.classes is not None:
            return kernels.linear_errors(X, coefs, intercepts, target)
        return (target - (coefs @ X.T + intercepts[:, None])) ** 2

    def region(self, found: Any) -> Any:
        """Return the model of a region from the result of its learner's steps."""
        if self.classes is None:
            return stages.LinearRegionRegressor(*found)
        return stages.region_of_scores(self.classes, len(self.mean), *found)


class Chain(NamedTuple):
    """A start in tasks: models and gates, and how its rows were routed in the last sweep."""

    models: list  # None before the first sweep
    gates: list  # the newest gate of every stage, or None
    route: Callable  # region of rows, from rows, targets and the number of the first row

    def gate_rows(self, table: BlockTable, k: Any, X, target, weight, start: int) -> tuple:
        """Return rows, labels and costs of gate ``k``, given the gates after it."""
        losses = table.losses(X, target, self.models[k:])
        passed = kernels.decisions(X, *stages.stacked_gates(self.gates[k + 1 :], X.shape[1]))
        later = losses[-1]
        for own, decided in zip(losses[-2:0:-1], passed[::-1], strict=True):
            later = np.where(decided, later, own)
        return kernels.gate_costs(losses[0], later, self.route(X, target, start) >= k, weight)


def _by_gates(gates: tuple[np.ndarray, np.ndarray], X, target, start: int) -> np.ndarray:
    return kernels.route(kernels.decisions(X, *gates), len(X))


def _by_center(centers: np.ndarray, X, target, start: int) -> np.ndarray:
    return kernels.nearest_center(X, centers)


# --- the engine -----------------------------------------------------------------------------------


class StageQuery(NamedTuple):
    """Request of sums over the rows of a stage."""

    chain: int
    stage: int | None  # a region, or all rows; with a scale of the costs, a gate
    scale: float | None
    present: np.ndarray  # the classes that have rows
    step: Any = None  # of the Newton iteration


def _problem(n_rows: int, make: Callable, *given: Any, **options: Any) -> _fit.Problem:
    """Return the problem of a stage whose solution is known, whatever its last model was."""
    return _fit.Problem(n_rows, lambda previous: make(*given), **options)


class BlockEngine:
    """Engine of blocks of rows, see ``run_sweeps``."""

    def __init__(self, blocks: Blocks, table: BlockTable, n_rows: int) -> None:
        self.blocks, self.table, self.n_rows = blocks, table, n_rows
        self._totals: dict[_fit.Run, RegionSums] = {}  # of the last pass

    def region_problems(self, runs: list[_fit.Run]) -> list[list[_fit.Problem]]:
        if not self._totals:
            self._visit(runs)
        sums = {
            (i, k): own
            for i, run in enumerate(runs)
            for k, (n_rows, *own) in enumerate(self._totals[run].sums)
            if n_rows
        }
        found = self._solve(
            _chains(runs),
            [StageQuery(*stage, None, np.flatnonzero(own[0])) for stage, own in sums.items()],
            [
                self.table.learner.steps(own, stages.region_start(runs[i].models[k]))
                for (i, k), own in sums.items()
            ],
        )
        solved = dict(zip(sums, found, strict=True))
        return [
            [
                _problem(
                    n_rows, self.table.region, solved.get((i, k)), fit_all=partial(self._all, run)
                )
                for k, (n_rows, *_) in enumerate(self._totals[run].sums)
            ]
            for i, run in enumerate(runs)
        ]

    def _all(self, run: _fit.Run) -> Any:
        """Return the model of all rows."""
        _, *own = reduce(add_tuples, self._totals[run].sums)
        query = StageQuery(0, None, None, np.flatnonzero(own[0]))
        (found,) = self._solve(_chains([run]), [query], [self.table.learner.steps(own, None)])
        return self.table.region(found)

    def gate_problems(self, runs: list[_fit.Run], k: int) -> list[_fit.Problem]:
        chains = _chains(runs)
        found = self.blocks.total(_sum_gate, self.table, chains, k, combine=_add_starts)
        two_sided = [i for i, (n, n_passed, *_) in enumerate(found) if 0 < n_passed < n]
        queries, steps = [], []
        for i in two_sided:
            _, _, weight, cost, *sums = found[i]
            scale = weight / cost  # costs are scaled to the total weight of the rows
            queries.append(StageQuery(i, k, scale, np.arange(2)))
            scaled = tuple(scale * part for part in sums)
            steps.append(self.table.gate_learner.steps(scaled, stages.gate_start(runs[i].gates[k])))
        solved = dict(zip(two_sided, self._solve(chains, queries, steps), strict=True))
        return [
            _problem(n, lambda own: stages.gate_of_scores(own[1]), solved.get(i), n_passed=n_passed)
            for i, (n, n_passed, *_) in enumerate(found)
        ]

    def set_regions(self, run: _fit.Run, models: list) -> None:
        run.models = models

    def set_gate(self, run: _fit.Run, k: int, gate: Any) -> None:
        run.gates[k] = gate

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
                found = self.blocks.total(_sum_queries, *shared, combine=_add_starts)
                for j, values in zip(open_stages, found, strict=True):
                    sums[j] = values
        return solutions

    def reroute(self, runs: list[_fit.Run]) -> list[_fit.Outcome]:
        for run in runs:
            gates = stages.stacked_gates(run.gates, self.blocks.n_features)
            run.state = partial(_by_gates, gates)
        before = dict(self._totals)
        self._visit(runs)
        outcomes = []
        for run in runs:
            found = self._totals[run]
            has_converged = found.digest == before[run].digest or run.n_regions == 1
            sizes = np.array([n_rows for n_rows, *_ in found.sums])
            outcomes.append(_fit.Outcome(found.loss / self.table.weight, sizes, has_converged))
        return outcomes

    def _visit(self, runs: list[_fit.Run]) -> None:
        totals = self.blocks.total(_sum_regions, self.table, _chains(runs), combine=_add_regions)
        self._totals = dict(zip(runs, totals, strict=True))


def _chains(runs: list[_fit.Run]) -> list[Chain]:
    return [Chain(run.models, run.gates, run.state) for run in runs]


# --- passes over the rows -------------------------------------------------------------------------


class RegionSums(NamedTuple):
    """Sums over rows of a cascade and of its regions."""

    loss: float
    digest: bytes  # of routes and losses, block after block
    sums: list[tuple]  # of every region: number of rows, and sums of the learner


def _sum_regions(block: TrainingData, table: BlockTable, chains: list[Chain]) -> list[RegionSums]:
    X, target, weight = table.rows(block)
    n_classes = 0 if table.classes is None else len(table.classes)
    found = []
    for chain in chains:
        region = chain.route(X, target, block.start)
        loss, digest = 0.0, b""
        if chain.models[0] is not None:
            own = kernels.chain_loss(table.losses(X, target, chain.models), region)
            loss = float(weight @ own)
            digest = blake2b(region.tobytes() + own.tobytes(), digest_size=16).digest()
        sums = []
        for k in range(len(chain.models)):
            rows = np.flatnonzero(region == k)
            own = table.learner.sums(X[rows], target[rows], weight[rows], n_classes)
            sums.append((len(rows), *own))
        found.append(RegionSums(loss, digest, sums))
    return found


def _add_regions(left: list[RegionSums], right: list[RegionSums]) -> list[RegionSums]:
    return [
        RegionSums(a.loss + b.loss, a.digest + b.digest, _add_starts(a.sums, b.sums))
        for a, b in zip(left, right, strict=True)
    ]


def _sum_gate(block: TrainingData, table: BlockTable, chains: list[Chain], k: int) -> list[tuple]:
    """Return, for every start: rows, rows to pass on, weight, costs, and sums of the learner."""
    X, target, weight = table.rows(block)
    found = []
    for chain in chains:
        rows, labels, costs = chain.gate_rows(table, k, X, target, weight, block.start)
        known = len(rows), int(labels.sum()), float(weight[rows].sum()), float(costs.sum())
        found.append((*known, *table.gate_learner.sums(X[rows], labels, costs, 2)))
    return found


def _sum_queries(
    block: TrainingData, table: BlockTable, chains: list[Chain], queries: list[StageQuery]
) -> list[tuple]:
    """Return the sums over the rows of a block for every query."""
    X, target, weight = data = table.rows(block)
    regions: dict[int, np.ndarray] = {}
    found = []
    for query in queries:
        chain = chains[query.chain]
        if query.scale is not None:
            rows, codes, own = chain.gate_rows(table, query.stage, *data, block.start)
            own = query.scale * own
        else:
            if query.chain not in regions:
                regions[query.chain] = chain.route(X, target, block.start)
            rows = np.arange(len(X))
            if query.stage is not None:
                rows = np.flatnonzero(regions[query.chain] == query.stage)
            codes, own = target[rows], weight[rows]
        codes = np.searchsorted(query.present, codes)
        found.append(logistic_sums(X[rows], codes, own, len(query.present), query.step))
    return found


def _add_starts(left: list[tuple], right: list[tuple]) -> list[tuple]:
    """Add the sums of two sets of rows, for every start or stage."""
    return [add_tuples(a, b) for a, b in zip(left, right, strict=True)]


# --- the fit --------------------------------------------------------------------------------------


def fit_blocks(model: Any, blocks: Blocks) -> tuple[tuple[list[stages.Cascade], Any], Any]:
    """Return what ``fit_cascades`` does, and the scaler; set ``classes_`` of a classifier."""
    only = {"gating": "hard"} if is_classifier(model) else {}
    refuse(model, why="by blocks of rows", init="kmeans", **only)
    blocks, found = survey(blocks, has_classes=is_classifier(model))
    settings, moments = _fit.resolve(model, None), found.moments
    width = blocks.n_features
    gate_learner = class_learner(settings.reject_estimator, "reject_estimator", width)
    if found.classes is None:
        estimator = settings.region_estimator
        if not _learners.is_plain_ridge(estimator):
            raise ValueError(
                f"region_estimator={estimator!r} cannot be fitted to blocks of rows; use 'ridge' "
                "or sklearn.linear_model.Ridge with its default solver."
            )
        # About the mean of the table, sums of squares lose nothing to cancellation.
        shift = np.zeros(width) if model.scale else moments.mean
        target_shift = blocks.total(_target_sum) / moments.weight
        learner: Any = BlockRidge(estimator, shift, target_shift)
    else:
        model.classes_ = found.classes
        learner = class_learner(settings.region_estimator, "region_estimator", width)
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
    settings: _fit.Settings, blocks: Blocks, found: Survey, table: BlockTable
) -> tuple[list[stages.Cascade], Any]:
    """Run all starts together and return their cascades, the best first."""
    model, errors = settings.model, None
    rng = check_random_state(model.random_state)
    if model.n_regions == "auto":
        X, target, weight = table.rows(sample_rows(blocks, found, SAMPLE_ROWS, 0))
        data = TrainingData(X, target, table.classes, weight if (weight != 1.0).any() else None)
        n_regions, errors = _fit.choose_n_regions(data, settings, rng)
    else:
        n_regions = _fit.limit_regions(model.n_regions, found.n_rows)
    seeds = random_seeds(rng, settings.n_init if n_regions > 1 else 1)
    routes = _first_routes(blocks, found, table, n_regions, seeds, rng)
    runs = [_fit.Run(n_regions, route) for route in routes]
    engine = BlockEngine(blocks, table, found.n_rows)
    cascades = _fit.run_sweeps(engine, runs, max_iter=settings.max_iter, keep=model.keep)
    for cascade in cascades:
        cascade.prune()
    return sorted(cascades, key=lambda cascade: cascade.train_error), errors


def _weigh_classes(block: TrainingData, classes, factors) -> TrainingData:
    weight = block.sample_weight * factors[np.searchsorted(classes, block.y)]
    return replace(block, sample_weight=weight)


def _target_sum(block: TrainingData) -> float:
    return float(block.sample_weight @ np.asarray(block.y, dtype=np.float64))


def _first_routes(blocks, found, table, n_regions, seeds, rng) -> list[Callable]:
    """Return the first assignment of rows for every start, to centres of k-means."""
    if n_regions == 1:
        return [partial(_by_gates, (np.zeros((0, blocks.n_features)), np.zeros(0)))]
    sampled = sample_rows(blocks, found, SAMPLE_ROWS, random_seeds(rng, 1)[0])
    X, _, weight = table.rows(sampled)
    states = [np.random.RandomState(seed) for seed in seeds]
    centers = [kernels.first_centers(X, weight, n_regions, state) for state in states]
    for _ in range(kernels.LLOYD_STEPS):
        sums = blocks.total(_sum_centers, table, centers, combine=_add_starts)
        previous = centers
        centers = [kernels.moved_centers(*pair) for pair in zip(previous, sums, strict=True)]
        if np.array_equal(centers, previous):
            break
    return [partial(_by_center, own) for own in centers]


def _sum_centers(block: TrainingData, table: BlockTable, centers: list) -> list[tuple]:
    X, _, weight = table.rows(block)
    return [kernels.center_sums(X, weight, own) for own in centers]
