"""Bootstrap ensembles of a table larger than memory: members are tasks with rows of their own."""

from copy import deepcopy
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from vicinal._base import Block, Blocks, Survey, draw_seeds, row_uniforms, sample_rows, survey
from vicinal.ensemble._learners import fresh_learner

# Rows that a member is fitted to, at most; and those whose out-of-bag predictions are kept.
MEMBER_ROWS = 100_000
# Rows of members that are drawn in one pass, in bytes.
_BATCH_BYTES = 2**29


def fit_bootstrap(model: Any, blocks: Blocks, *, has_classes: bool) -> None:
    """Draw every member's rows and fit it in one task.

    A table of no more than ``MEMBER_ROWS`` rows is gathered, and members are fitted as in memory,
    on the workers: the ensemble is the same. Of a larger one each member sees about
    ``MEMBER_ROWS`` rows: row i is drawn Poisson(``MEMBER_ROWS`` w_i / sum of w) times, by a number
    that belongs to member and row, so that the blocks do not matter. This is a bootstrap of fewer
    rows than there are, whose members differ more than those of a full one; a member may miss a
    rare class, whose probability it then puts at zero. Out-of-bag values are those of a sample of
    ``MEMBER_ROWS`` rows.
    """
    blocks, found = survey(blocks, has_classes=has_classes)
    if found.n_rows <= MEMBER_ROWS:
        rows = sample_rows(blocks, found, MEMBER_ROWS, 0)
        with blocks.workers():
            model.fit(rows.X, rows.y, sample_weight=rows.sample_weight)
        return
    if has_classes:
        model.classes_ = found.classes
    random_state = 0 if model.random_state is None else deepcopy(model.random_state)
    seeds = draw_seeds(random_state, model.n_estimators)
    rate = MEMBER_ROWS / found.weight
    size = max(1, _BATCH_BYTES // (8 * MEMBER_ROWS * blocks.n_features))
    model.estimators_ = []
    for start in range(0, len(seeds), size):
        batch = seeds[start : start + size]
        tasks = [(model._learner(), seed) for seed in batch]
        members = blocks.regrouped(_draw, _fit_member, tasks, found.classes, batch, rate)
        model.estimators_ += members.values()
    _predict_out_of_bag(model, blocks, found, seeds, rate)


def _draw(block: Block, classes, seeds: list[int], rate: float) -> list[tuple]:
    """Return the rows and targets of each member in one block."""
    y = block.y if classes is None else np.searchsorted(classes, block.y)
    answers = []
    for seed in seeds:
        rows = np.repeat(np.arange(len(block)), _copies(block, seed, rate))
        answers.append((block.X[rows], y[rows]))
    return answers


def _copies(block: Block, seed: int, rate: float) -> np.ndarray:
    uniforms = row_uniforms(seed, block.start, len(block))
    return poisson_counts(uniforms, rate * block.sample_weight)


def poisson_counts(uniforms: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Return Poisson counts by inversion: the number of k with P(count <= k) <= u."""
    counts = np.zeros(len(uniforms), dtype=np.int64)
    share = np.exp(-rates)
    below = share.copy()
    pending = np.flatnonzero(uniforms >= below)
    while pending.size:
        counts[pending] += 1
        share[pending] *= rates[pending] / counts[pending]
        below[pending] += share[pending]
        # Shares too small to change the sum end the search in the far tail.
        more = (uniforms[pending] >= below[pending]) & (share[pending] > 0.0)
        pending = pending[more]
    return counts


def _fit_member(parts: list[tuple], learner: Any, seed: int) -> Any:
    """Fit one member to the rows drawn for it in all blocks."""
    X, y = (np.concatenate(column) for column in zip(*parts, strict=True))
    return fresh_learner(learner, check_random_state(seed)).fit(X, y)


# --- out of bag ---


def _predict_out_of_bag(model: Any, blocks: Blocks, found: Survey, seeds, rate: float) -> None:
    """Predict sampled rows by the members that did not see them."""
    share = MEMBER_ROWS / found.n_rows
    # The sample is drawn by a seed that no member has.
    shared = model.estimators_, model._output(), seeds, rate, share, max(seeds) + 1
    parts = [part for part in blocks.gather(_out_of_bag, *shared) if part]
    X, mean, y, weight = (np.concatenate(column) for column in zip(*parts, strict=True))
    target = y if found.classes is None else np.searchsorted(found.classes, y)
    model._keep_out_of_bag(X, mean, target, weight)


def _out_of_bag(block: Block, members, output, seeds, rate, share, sample_seed) -> tuple | None:
    """Return mean out-of-bag outputs of the sampled rows, NaN where all members saw a row."""
    rows = np.flatnonzero(row_uniforms(sample_seed, block.start, len(block)) < share)
    if len(rows) == 0:
        return None
    values = np.stack([output(member, block.X[rows]) for member in members])
    unseen = np.stack([_copies(block, seed, rate)[rows] == 0 for seed in seeds])
    unseen = unseen.reshape(unseen.shape + (1,) * (values.ndim - 2)).astype(np.float64)
    with np.errstate(invalid="ignore"):
        mean = (unseen * values).sum(axis=0) / unseen.sum(axis=0)
    return block.X[rows], mean, block.y[rows], block.sample_weight[rows]
