"""Cascades of regions and gates from sums over blocks of rows.

A sweep costs one pass over the rows for all regions and one for every gate, since a gate depends on
the gates after it. Every pass finds the route of its rows anew from the cascade as it is, so that
nothing as long as the table is ever kept; all starts are served by the same passes.
"""

import warnings
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight

from vicinal._base import (
    Block,
    Blocks,
    Moments,
    Survey,
    add_tuples,
    block_moments,
    dense,
    draw_seeds,
    merge_moments,
    refuse,
    row_uniforms,
    sample_rows,
    survey,
)
from vicinal._kernels.cascade._hard import (
    LLOYD_STEPS,
    assign_classes,
    chain_loss,
    first_centers,
    gate_costs,
    hyperplane_gates,
    linear_errors,
    nearest_center,
    route,
)
from vicinal.partition._block_learners import (
    Mixed,
    MixedPerceptron,
    Start,
    ridge_learner,
    stage_learner,
)
from vicinal.partition._cascade import Cascade
from vicinal.partition._device_sweeps import stacked_gates, stacked_regions
from vicinal.partition._linear_learners import training_margins
from vicinal.partition._on_device import host_scaler
from vicinal.partition._stages import ConstantGate, LinearGate

# Rows on the client from which first centres and first slices are drawn.
SAMPLE_ROWS = 20_000


def fit_classifier_blocks(model: Any, blocks: Blocks) -> None:
    """Fit the classifier in place."""
    refuse(model, gating="hard", selection="train", monotone=False, why="by blocks of rows")
    learner = stage_learner(model._region_estimator(), "region_estimator")
    gate_learner = stage_learner(model._reject_estimator(), "reject_estimator")
    blocks, found = survey(blocks, has_classes=True)
    model.classes_ = found.classes
    moments = found.moments
    if model.class_weight is not None:
        factors = _class_factors(model.class_weight, found)
        blocks = blocks.then(_weigh_classes, found.classes, factors)
        moments = blocks.total(block_moments, combine=merge_moments)
    scale = _scale(model, moments)
    table = Table(moments.mean, scale, learner, gate_learner, moments.weight, found.classes)
    _fit_cascades(model, blocks, found, table)


def fit_regressor_blocks(model: Any, blocks: Blocks) -> None:
    """Fit the regressor in place."""
    refuse(model, selection="train", monotone=False, why="by blocks of rows")
    gate_learner = stage_learner(model._reject_estimator(), "reject_estimator")
    blocks, found = survey(blocks, has_classes=False)
    moments = found.moments
    scale = _scale(model, moments)
    target_sum = blocks.total(_target_sum)
    # About the mean of the table, sums of squares lose nothing to cancellation.
    shift = np.zeros(blocks.n_features) if model.scale else moments.mean
    learner = ridge_learner(model._region_estimator(), shift, target_sum / moments.weight)
    table = Table(moments.mean, scale, learner, gate_learner, moments.weight)
    _fit_cascades(model, blocks, found, table)


# --- what tasks know of the table -----------------------------------------------------------------


@dataclass(frozen=True)
class Table:
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
    """A cascade on its way: the routes of the last sweep, region models, and new gates."""

    first: FirstRegions
    n_regions: int
    seed: int
    models: list = field(default_factory=list)
    gates: list = field(default_factory=list)  # the newest gate of every stage, or None
    routes: tuple[np.ndarray, np.ndarray] | None = None  # the gates before they were refitted
    n_sweeps: int = 0

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


# --- the two passes of a sweep --------------------------------------------------------------------


class RegionSums(NamedTuple):
    """What the rows tell about a cascade and, for the next sweep, about its regions."""

    sizes: np.ndarray
    loss: float
    objective: float
    digest: bytes  # of routes and losses, block after block
    sums: Any  # of every region, or None


def _sum_regions(block: Block, table: Table, chains: list[Chain], with_sums: bool) -> list:
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
        if isinstance(table.learner, Mixed):
            for rows, model in zip(rows_of, chain.models, strict=True):
                objective += _criterion(table.learner, model, X[rows], target[rows], weight[rows])
    sums = None
    if with_sums:
        sums = []
        share = float(weight.sum()) / table.weight
        for k, rows in enumerate(rows_of):
            learned = table.learner.sums(
                X[rows],
                target[rows],
                weight[rows],
                0 if table.classes is None else len(table.classes),
                _region_start(chain, k),
                share,
                chain.block_seed(start, k),
            )
            sums.append((len(rows), *learned))
    return RegionSums(np.array([len(rows) for rows in rows_of]), loss, objective, digest, sums)


def _criterion(learner: Mixed, model, X, codes, weight) -> float:
    """Return the learner's own loss over rows whose class the model knows."""
    known = np.isfinite(model.intercept_[codes])
    scores = model.decision_function(X[known])
    return float(weight[known] @ learner.criterion(scores, codes[known]))


def _region_start(chain: Chain, k: int) -> Start:
    if not chain.models or not hasattr(chain.models[k], "classes_"):
        return None
    model = chain.models[k]
    return model.coef_, np.where(np.isfinite(model.intercept_), model.intercept_, 0.0)


def _add_regions(left: list, right: list) -> list:
    return [_add_region(a, b) for a, b in zip(left, right, strict=True)]


def _add_region(a: RegionSums, b: RegionSums) -> RegionSums:
    sums = None
    if a.sums is not None and b.sums is not None:
        sums = [add_tuples(x, y) for x, y in zip(a.sums, b.sums, strict=True)]
    return RegionSums(
        a.sizes + b.sizes, a.loss + b.loss, a.objective + b.objective, a.digest + b.digest, sums
    )


def _sum_gate(block: Block, table: Table, chains: list[Chain], k: int) -> list:
    """Return, for every cascade, what the rows tell about gate ``k``, given the gates after it."""
    X, target, weight = table.rows(block)
    found = []
    for chain in chains:
        region = chain.region(X, target, block.start)
        losses = table.losses(X, target, chain.models[k:])
        passed = _decisions(X, stacked_gates(chain.gates[k + 1 :], X.shape[1]))
        later = losses[-1]
        for own, decided in zip(losses[-2:0:-1], passed[::-1], strict=True):
            later = np.where(decided, later, own)
        rows, labels, costs = gate_costs(losses[0], later, region >= k, weight)
        learner = table.gate_learner
        if isinstance(learner, Mixed) and len(rows):
            costs *= weight[rows].sum() / costs.sum()
        share = float(weight.sum()) / table.weight
        start = _gate_start(chain.gates[k])
        seed = chain.block_seed(block.start, chain.n_regions + k)
        learned = learner.sums(X[rows], labels, costs, 2, start, share, seed)
        found.append((len(rows), int(labels.sum()), *learned))
    return found


def _gate_start(gate) -> Start:
    if not isinstance(gate, LinearGate):
        return None
    halves = np.array([[-0.5], [0.5]])
    return halves * gate.coef_, halves[:, 0] * gate.intercept_


def _add_gates(left: list, right: list) -> list:
    return [add_tuples(a, b) for a, b in zip(left, right, strict=True)]


# --- sweeps ---------------------------------------------------------------------------------------


class BlockSweeps:
    """One start of the alternation, fed with sums; the passes are shared with other starts."""

    def __init__(self, chain: Chain, table: Table, n_rows: int, keep: str) -> None:
        self.chain, self.table, self.n_rows, self.keep = chain, table, n_rows, keep
        self.chain.gates = [None] * (chain.n_regions - 1)
        self.disagreement = np.zeros(chain.n_regions - 1)
        self.history: dict[str, list] = {"error": [], "region_sizes": [], "disagreement": []}
        if isinstance(table.learner, Mixed):
            self.history["objective"] = []
        self.best: Any = None
        self.digest = b""
        self.converged = False

    def update_models(self, found: RegionSums) -> None:
        """Refit all regions; an empty one keeps its model, or learns from all samples."""
        sums = found.sums
        models = self.chain.models or [None] * self.chain.n_regions
        everything = sums[0]
        for more in sums[1:]:
            everything = add_tuples(everything, more)
        for k, (n_rows, *learned) in enumerate(sums):
            if n_rows or models[k] is None:
                chosen = learned if n_rows else everything[1:]
                models[k] = self.table.learner.region(tuple(chosen), self.table.classes)
        self.chain.models = models

    def update_gate(self, k: int, n_rows: int, n_passed: int, *sums) -> None:
        """Refit gate ``k``; without rows it stays, with rows of one kind it is constant."""
        self.disagreement[k] = n_rows / self.n_rows
        if n_rows == 0:
            self.chain.gates[k] = self.chain.gates[k] or ConstantGate(False)
        elif n_passed in (0, n_rows):
            self.chain.gates[k] = ConstantGate(n_passed > 0)
        else:
            self.chain.gates[k] = self.table.gate_learner.gate(sums)

    def reroute(self, n_features: int) -> None:
        """Let the new gates decide from now on."""
        self.chain.routes = stacked_gates(self.chain.gates, n_features)
        self.chain.n_sweeps += 1

    def record(self, found: RegionSums) -> None:
        """Note what the sweep came to, and whether it changed anything."""
        error = found.loss / self.table.weight
        self.history["error"].append(error)
        self.history["region_sizes"].append(found.sizes)
        self.history["disagreement"].append(self.disagreement.copy())
        if "objective" in self.history:
            self.history["objective"].append(found.objective / self.table.weight)
        if self.keep == "last" or self.best is None or error < self.best.train_error:
            self.best = Cascade(list(self.chain.models), list(self.chain.gates))
            self.best.train_error = self.best.selection_error = error
            self.best.region_sizes = found.sizes
        single = self.chain.n_regions == 1 and self.table.learner.is_exact
        self.converged = found.digest == self.digest or single
        self.digest = found.digest

    def result(self) -> Cascade:
        """Return the cascade of the kept sweep."""
        self.best.history = {name: np.array(values) for name, values in self.history.items()}
        self.best.n_iter, self.best.converged = len(self.history["error"]), self.converged
        return self.best


def _fit_cascades(model, blocks: Blocks, found: Survey, table: Table) -> None:
    """Run all starts side by side and store what is kept, as a fit in memory does."""
    rng = check_random_state(model.random_state)
    n_regions = _n_regions(model, found.n_rows)
    seeds = draw_seeds(rng, model.n_init if n_regions > 1 else 1)
    firsts = _first_regions(model.init, blocks, found, table, n_regions, seeds, rng)
    starts = [
        BlockSweeps(Chain(first, n_regions, seed), table, found.n_rows, model.keep)
        for first, seed in zip(firsts, seeds, strict=True)
    ]
    _sweep(starts, blocks, table, model._sweep_limit(None))
    cascades = [start.result() for start in starts]
    if isinstance(table.learner, MixedPerceptron):
        _set_temperatures(cascades, blocks, table)
    if model.prune:
        for cascade in cascades:
            cascade.prune()
    model._reference = None
    model._store(sorted(cascades, key=lambda cascade: cascade.selection_error))


def _sweep(starts, blocks: Blocks, table: Table, max_iter: int) -> None:
    sum_regions = partial(_region_pass, blocks, table)
    open_starts = starts
    totals = sum_regions(open_starts, True)
    for sweep in range(max_iter):
        for start, total in zip(open_starts, totals, strict=True):
            start.update_models(total)
        chains = [start.chain for start in open_starts]
        for k in range(len(open_starts[0].chain.gates) - 1, -1, -1):
            sums = blocks.total(_sum_gate, table, chains, k, combine=_add_gates)
            for start, gate in zip(open_starts, sums, strict=True):
                start.update_gate(k, *gate)
        for start in open_starts:
            start.reroute(blocks.n_features)
        totals = sum_regions(open_starts, sweep + 1 < max_iter)
        for start, total in zip(open_starts, totals, strict=True):
            start.record(total)
        still = [not start.converged for start in open_starts]
        totals = [total for total, goes_on in zip(totals, still, strict=True) if goes_on]
        open_starts = [start for start in open_starts if not start.converged]
        if not open_starts:
            break


def _region_pass(blocks, table, starts, with_sums):
    chains = [start.chain for start in starts]
    return blocks.total(_sum_regions, table, chains, with_sums, combine=_add_regions)


# --- before the first sweep -----------------------------------------------------------------------


def _n_regions(model, n_rows: int) -> int:
    if not isinstance(model.n_regions, int | np.integer):
        raise ValueError(
            f"n_regions={model.n_regions!r} compares candidates on rows held out, which is not "
            "done by blocks of rows; give an integer, for instance the n_regions_ of a fit to a "
            "sample in memory."
        )
    if model.n_regions > n_rows:
        warnings.warn(
            f"n_regions={model.n_regions} exceeds the {n_rows} samples given; {n_rows} regions "
            "are used. Lower n_regions.",
            UserWarning,
            stacklevel=5,
        )
    return min(int(model.n_regions), n_rows)


def _scale(model, moments: Moments) -> np.ndarray | None:
    """Store the scaler of the model; return deviations where rows are scaled."""
    model.scaler_ = None
    if not model.scale:
        return None
    model.scaler_ = host_scaler(moments.mean, moments.variance, moments.weight)
    return model.scaler_.scale_


def _class_factors(class_weight, found: Survey) -> np.ndarray:
    """Return the factor of every class; "balanced" counts rows, as scikit-learn does."""
    if class_weight != "balanced":
        return compute_class_weight(class_weight, classes=found.classes, y=found.classes)
    return found.n_rows / (len(found.classes) * found.class_rows)


def _weigh_classes(block: Block, classes, factors) -> Block:
    weight = block.sample_weight * factors[np.searchsorted(classes, block.y)]
    return replace(block, sample_weight=weight)


def _target_sum(block: Block) -> float:
    return float(block.sample_weight @ np.asarray(block.y, dtype=np.float64))


def _first_regions(init, blocks, found, table, n_regions, seeds, rng) -> list:
    """Return a first assignment for every start, from the draws that a fit in memory makes."""
    if not isinstance(init, str):
        raise ValueError(
            "init is an array of regions, one for every row, which is not kept here; use 'kmeans', "
            "'hyperplane', 'random' or 'classes'."
        )
    states = [np.random.RandomState(seed) for seed in seeds]
    if n_regions == 1:
        empty = np.zeros((0, blocks.n_features)), np.zeros(0)
        return [FirstRegions(gates=empty)]
    if init == "random":
        return [FirstRegions(seed=seed) for seed in seeds]
    if init == "classes":
        codes = np.arange(len(table.classes))
        return [FirstRegions(by_class=assign_classes(codes, n_regions, state)) for state in states]
    drawn = sample_rows(blocks, found, SAMPLE_ROWS, draw_seeds(rng, 1)[0])
    X, _, weight = table.rows(drawn)
    if init == "hyperplane":
        return [
            FirstRegions(gates=hyperplane_gates(X, weight, n_regions, state)) for state in states
        ]
    centers = [first_centers(X, weight, n_regions, state) for state in states]
    return [FirstRegions(centers=c) for c in _lloyd(centers, blocks, table)]


def _lloyd(centers: list, blocks: Blocks, table: Table) -> list:
    """Move the centres of all starts together; an emptied centre stays where it was."""
    for _ in range(LLOYD_STEPS):
        sums = blocks.total(_sum_centers, table, centers, combine=_add_gates)
        moved = [
            np.where(mass[:, None] > 0, total / np.where(mass > 0, mass, 1.0)[:, None], old)
            for (mass, total), old in zip(sums, centers, strict=True)
        ]
        settled = all(np.array_equal(a, b) for a, b in zip(moved, centers, strict=True))
        centers = moved
        if settled:
            break
    return centers


def _sum_centers(block: Block, table: Table, centers: list) -> list:
    X, _, weight = table.rows(block)
    found = []
    for own in centers:
        region = nearest_center(X, own)
        mass, total = np.zeros(len(own)), np.zeros(own.shape)
        for k in range(len(own)):
            rows = np.flatnonzero(region == k)
            mass[k], total[k] = weight[rows].sum(), weight[rows] @ X[rows]
        found.append((mass, total))
    return found


# --- after the last -------------------------------------------------------------------------------


def _set_temperatures(cascades: list[Cascade], blocks: Blocks, table: Table) -> None:
    """Scale the probabilities of every region by the spread of its training margins."""
    sums = blocks.total(_sum_margins, table, cascades, combine=_add_gates)
    for cascade, (mass, first, second) in zip(cascades, sums, strict=True):
        for k, model in enumerate(cascade.regions):
            if mass[k] > 0:
                spread = np.sqrt(max(second[k] / mass[k] - (first[k] / mass[k]) ** 2, 0.0))
                model.temperature_ = float(spread) or 1.0


def _sum_margins(block: Block, table: Table, cascades: list[Cascade]) -> list:
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
