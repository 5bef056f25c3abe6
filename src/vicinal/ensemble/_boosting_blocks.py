"""Gradient boosting of a table larger than memory: every round sees a fresh draw of its rows."""

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from vicinal._base import (
    Block,
    Blocks,
    Survey,
    draw_seeds,
    join_blocks,
    row_uniforms,
    sample_rows,
    survey,
)

# Rows that a round is fitted to, and bytes of rows that are drawn in one pass.
ROUND_ROWS = 100_000
_BATCH_BYTES = 2**29


def fit_boosting(model: Any, blocks: Blocks, *, has_classes: bool) -> None:
    """Boost over fresh draws of rows.

    A table of no more than ``ROUND_ROWS`` rows is gathered and fitted as in memory. Of a larger one
    every round gets a draw of its own of about ``ROUND_ROWS`` rows, scored by the rounds so far:
    stochastic gradient boosting (Friedman, 2002) whose training loss is measured on rows that the
    earlier rounds have mostly not seen. Which rows are drawn does not hang on the scores, so that
    one pass over the table serves many rounds. Rows held out for early stopping are never drawn.
    """
    blocks, found = survey(blocks, has_classes=has_classes)
    if found.n_rows <= ROUND_ROWS:
        rows = sample_rows(blocks, found, ROUND_ROWS, 0)
        model.fit(rows.X, rows.y, rows.sample_weight)
        return
    if model.coefficients == "corrective" or model.post_fit is not None:
        raise ValueError(
            f"coefficients={model.coefficients!r} with post_fit={model.post_fit!r} weighs all "
            f"members on the same rows, and {found.n_rows} rows are more than the {ROUND_ROWS} "
            "that are held at once; use coefficients='auto' and post_fit=None."
        )
    rng = check_random_state(0 if model.random_state is None else deepcopy(model.random_state))
    held_seed, *seeds = draw_seeds(rng, 1 + model.n_estimators)
    held_share = 0.0
    share = ROUND_ROWS / found.n_rows
    if model.n_iter_no_change is not None:
        held_share = share * model.validation_fraction
    draws = _Draws(blocks, found, share, (held_seed, held_share))
    supply = draws.rounds(seeds)
    first = next(supply)
    if has_classes:
        model.classes_ = found.classes
    held_out = draws.held_out() if held_share else None
    model._run_rounds(chain([first], supply), model._make_loss(first[1]), held_out, rng)


class _Draws:
    """Rows for rounds, drawn by numbers that belong to round and row."""

    def __init__(self, blocks: Blocks, found: Survey, share: float, reserved: tuple):
        self.blocks, self.found, self.share, self.reserved = blocks, found, share, reserved

    def rounds(self, seeds: list[int]) -> Iterator[tuple]:
        """Yield rows, targets and weights for one round after the other."""
        size = max(1, _BATCH_BYTES // (8 * ROUND_ROWS * self.blocks.n_features))
        for start in range(0, len(seeds), size):
            batch = seeds[start : start + size]
            shared = self.found.classes, batch, self.share, self.reserved
            parts = self.blocks.gather(_drawn, *shared)
            for m in range(len(batch)):
                yield _joined([part[m] for part in parts])

    def held_out(self) -> tuple:
        """Return the rows that no round may see."""
        shared = self.found.classes, self.reserved
        return _joined(self.blocks.gather(_reserved, *shared))


def _drawn(block: Block, classes, seeds: list[int], share: float, reserved) -> list[Block]:
    seed, held_share = reserved
    is_free = row_uniforms(seed, block.start, len(block)) >= held_share
    return [
        _some(block, classes, is_free & (row_uniforms(each, block.start, len(block)) < share))
        for each in seeds
    ]


def _reserved(block: Block, classes, reserved) -> Block:
    seed, held_share = reserved
    return _some(block, classes, row_uniforms(seed, block.start, len(block)) < held_share)


def _some(block: Block, classes, chosen: np.ndarray) -> Block:
    rows = block.take(np.flatnonzero(chosen))
    y = rows.y.astype(np.float64) if classes is None else np.searchsorted(classes, rows.y)
    return replace(rows, y=y)


def _joined(parts: list[Block]) -> tuple:
    rows = join_blocks(parts)
    return rows.X, rows.y, rows.sample_weight
