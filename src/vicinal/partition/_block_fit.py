"""Cascades fitted to a table in blocks of rows."""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from vicinal._base import (
    Block,
    Blocks,
    ColumnMoments,
    Survey,
    block_moments,
    class_factors,
    draw_seeds,
    merge_moments,
    refuse,
    sample_rows,
    survey,
)
from vicinal._kernels.cascade._hard import (
    LLOYD_STEPS,
    assign_classes,
    first_centers,
    hyperplane_gates,
    nearest_center,
)
from vicinal.partition._block_engine import BlockEngine, BlockTable, Chain, FirstRegions, add_starts
from vicinal.partition._block_learners import ridge_learner, stage_learner
from vicinal.partition._scaling import scaler_of
from vicinal.partition._sweeps import Run, run_sweeps
from vicinal.partition._training_set import TrainingSet

# Rows on the client from which first centres and slices are drawn, and "auto" chooses.
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
        codes = np.arange(len(found.classes))
        shares = found.class_weights
        factors = class_factors(model.class_weight, found.classes, codes, shares)
        blocks = blocks.then(_weigh_classes, found.classes, factors)
        moments = blocks.total(block_moments, combine=merge_moments)
    scale = _scale(model, moments)
    table = BlockTable(moments.mean, scale, learner, gate_learner, moments.weight, found.classes)
    _fit_table(model, blocks, found, table)


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
    table = BlockTable(moments.mean, scale, learner, gate_learner, moments.weight)
    _fit_table(model, blocks, found, table)


def _fit_table(model: Any, blocks: Blocks, found: Survey, table: BlockTable) -> None:
    """Run all starts side by side and store what is kept, as a fit in memory does."""
    rng = check_random_state(model.random_state)
    n_regions = _n_regions(model, blocks, found, table, rng)
    seeds = draw_seeds(rng, model.n_init if n_regions > 1 else 1)
    firsts = _first_regions(model.init, blocks, found, table, n_regions, seeds, rng)
    runs = [
        Run(n_regions, Chain(first, n_regions, seed))
        for first, seed in zip(firsts, seeds, strict=True)
    ]
    max_iter = model._sweep_limit(None)
    engine = BlockEngine(blocks, table, found.n_rows, max_iter)
    cascades = run_sweeps(engine, runs, max_iter=max_iter, keep=model.keep)
    if model.prune:
        for cascade in cascades:
            cascade.prune()
    model._store(sorted(cascades, key=lambda cascade: cascade.selection_error))


# --- before the first sweep -----------------------------------------------------------------------


def _n_regions(model: Any, blocks: Blocks, found: Survey, table: BlockTable, rng) -> int:
    """Return the number of regions; "auto" compares candidates on a sample, as in memory."""
    n_rows = found.n_rows
    if model.n_regions == "auto":
        X, target, weight = table.rows(sample_rows(blocks, found, SAMPLE_ROWS, 0))
        data = TrainingSet(X, target, weight, bool((weight != 1.0).any()))
        if table.classes is not None:
            data = replace(data, y=table.classes[target], codes=target, classes=table.classes)
        return model._choose_n_regions(data, rng)
    if model.n_regions > n_rows:
        warnings.warn(
            f"n_regions={model.n_regions} exceeds the {n_rows} samples given; {n_rows} regions "
            "are used. Lower n_regions.",
            UserWarning,
            stacklevel=5,
        )
    return min(int(model.n_regions), n_rows)


def _scale(model, moments: ColumnMoments) -> np.ndarray | None:
    """Store the scaler of the model; return deviations where rows are scaled."""
    model.scaler_ = None
    if not model.scale:
        return None
    model.scaler_ = scaler_of(moments.mean, moments.variance, moments.weight)
    return model.scaler_.scale_


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


def _lloyd(centers: list, blocks: Blocks, table: BlockTable) -> list:
    """Move the centres of all starts together; an emptied centre stays where it was."""
    for _ in range(LLOYD_STEPS):
        sums = blocks.total(_sum_centers, table, centers, combine=add_starts)
        moved = [
            np.where(mass[:, None] > 0, total / np.where(mass > 0, mass, 1.0)[:, None], old)
            for (mass, total), old in zip(sums, centers, strict=True)
        ]
        settled = all(np.array_equal(a, b) for a, b in zip(moved, centers, strict=True))
        centers = moved
        if settled:
            break
    return centers


def _sum_centers(block: Block, table: BlockTable, centers: list) -> list:
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
