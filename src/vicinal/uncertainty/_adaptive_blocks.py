"""Local metrics of a table larger than memory: some rows vote, all others teach the metrics."""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from vicinal._base import (
    Block,
    Blocks,
    add_tuples,
    draw_seeds,
    join_blocks,
    row_uniforms,
    sample_rows,
    survey,
)
from vicinal._kernels.metric._soft_votes import Anchors, References, expected_accuracy
from vicinal._kernels.metric._solvers import BestIterate, adam_ascent
from vicinal._kernels.metric._uncertainty import class_bounds

# Rows that vote; that teach in one step; and that tell when to stop.
VOTERS = 20_000
_STEP_ROWS = 20_000
_SCORED = 5_000
_MAX_STEPS = 30
_PATIENCE = 5
# A step as a part of the start's entries: smaller than from scratch, for the start is learned.
_LEARNING_RATE = 0.02


def fit_adaptive(model: Any, blocks: Blocks) -> None:
    """Fit to a sample, then let the other rows correct the metrics.

    A table of no more than ``VOTERS`` rows is gathered and fitted as in memory. Of a larger one a
    sample of that size is, and stays as the voters of the model: placement, number of metrics and
    coordinates are those of the sample. Then the metrics follow their objective uphill on the
    rest of the table, by Adam: every step draws fresh rows in all blocks, which send back nothing
    but a gradient. Rows of a third draw score the steps by the same objective; if no step is better
    than the start, the model of the sample stays as it is.
    """
    random_state = 0 if model.random_state is None else deepcopy(model.random_state)
    seed, *step_seeds = draw_seeds(random_state, 1 + _MAX_STEPS)
    blocks, found = survey(blocks, has_classes=True)
    voters = sample_rows(blocks, found, VOTERS, seed)
    missing = np.setdiff1d(found.classes, voters.y)
    if len(missing):
        raise ValueError(
            f"the {len(voters)} rows that were drawn to vote hold no row of {missing.tolist()!r}; "
            "merge classes as rare as that, or fit to rows in memory that hold some."
        )
    model.fit(voters.X, voters.y, sample_weight=voters.sample_weight)
    if found.n_rows > VOTERS:
        share = VOTERS / found.n_rows
        scored = min(1.0 - share, _SCORED / found.n_rows)
        taught = min(1.0, _STEP_ROWS / found.n_rows)
        _correct(model, blocks, _Draw(seed, share, share + scored), taught, step_seeds)


@dataclass(frozen=True)
class _Draw:
    """Which rows vote, score and teach, by one number that belongs to the row."""

    seed: int
    voting: float
    scoring: float

    def scored(self, block: Block) -> np.ndarray:
        u = row_uniforms(self.seed, block.start, len(block))
        return np.flatnonzero((u >= self.voting) & (u < self.scoring))

    def teachers(self, block: Block, step_seed: int, share: float) -> np.ndarray:
        """Return the rows of one step: never one that votes or scores."""
        u = row_uniforms(self.seed, block.start, len(block))
        drawn = row_uniforms(step_seed, block.start, len(block)) < share
        return np.flatnonzero((u >= self.scoring) & drawn)


@dataclass(frozen=True)
class _Voters:
    """All that a task needs to know of the model."""

    mean: np.ndarray
    whitening: np.ndarray
    mixture: Any
    n_splits: int
    floor: float | None
    references: References
    classes: np.ndarray
    numbers: np.ndarray

    @classmethod
    def of(cls, model: Any) -> "_Voters":
        X, bounds, log_weights = model._voters
        single = References(X.astype(np.float32), bounds, log_weights.astype(np.float32))
        return cls(
            model.mean_,
            model.whitening_,
            model.mixture_,
            model.n_splits_,
            model._floor(),
            single,
            model.classes_,
            model._numbers,
        )

    def anchors(self, block: Block) -> list[Anchors]:
        """Return the rows as they are scored in each metric."""
        codes = self.numbers[np.searchsorted(self.classes, block.y)]
        order = np.argsort(codes, kind="stable")
        rows = (block.X[order] - self.mean) @ self.whitening.T
        shares = self.mixture.predict_proba(rows) * block.sample_weight[order][:, None]
        bounds = class_bounds(codes[order], len(self.classes))
        single = rows.astype(np.float32)
        parts = (shares / self.n_splits).astype(np.float32).T
        return [Anchors(single, bounds, w, None) for w in (*parts,) * self.n_splits]


def _gradients(block: Block, voters: _Voters, A, draw: _Draw, step_seed: int, share: float):
    """Return what some rows of the block gain, its gradients and their weight."""
    rows = block.take(draw.teachers(block, step_seed, share))
    if len(rows) == 0:
        return 0.0, np.zeros_like(A), 0.0
    value, gradients = 0.0, np.zeros_like(A)
    for k, some in enumerate(voters.anchors(rows)):
        own, gradients[k] = expected_accuracy(
            A[k], some, voters.references, floor=voters.floor, n_jobs=1
        )
        value += own
    return value, gradients, float(rows.sample_weight.sum())


def _scored_rows(block: Block, draw: _Draw) -> Block:
    return block.take(draw.scored(block))


def _correct(model, blocks: Blocks, draw: _Draw, share: float, seeds) -> None:
    voters = _Voters.of(model)
    held = join_blocks(blocks.gather(_scored_rows, draw))
    scored = voters.anchors(held)
    start = model._matrices
    shape = start.shape
    steps = iter(seeds)

    def objective(flat, _):
        shared = voters, flat.reshape(shape), draw, next(steps), share
        value, gradient, total = blocks.total(_gradients, *shared, combine=add_tuples)
        scale = 1.0 / max(total, 1.0)
        return value * scale, (gradient * scale).reshape(flat.shape)

    def score(flat):
        values = [
            expected_accuracy(A, some, voters.references, floor=voters.floor, gradient=False)[0]
            for A, some in zip(flat.reshape(shape), scored, strict=True)
        ]
        return sum(values) / float(held.sample_weight.sum())

    watch = BestIterate(score, _PATIENCE)
    adam_ascent(
        objective,
        1,
        start.reshape(-1, shape[2]),
        watch,
        max_iter=min(model.max_iter, len(seeds)),
        batch_size=1,
        learning_rate=_LEARNING_RATE,
        random_state=np.random.RandomState(0),
    )
    model._matrices = watch.matrix.reshape(shape)
    model.metrics_ = (model._matrices @ model.whitening_).astype(model.metrics_.dtype)
    model.validation_score_ = watch.scores[watch.best]
    model.objective_paths_ = [np.asarray(watch.scores)]
    model.n_iter_ = len(watch.scores) - 1
