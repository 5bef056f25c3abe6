"""Mixtures of a table larger than memory: chosen on a sample, fitted by blocks where that goes."""

from copy import deepcopy
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state

from vicinal._base import Block, Blocks, Survey, draw_seeds, join_blocks, row_uniforms, survey

# Rows of the sample; a table of no more is fitted as in memory.
SAMPLE_ROWS = 100_000
# Of a class so rare that the sample would lose it, about so many are drawn.
_OF_A_CLASS = 20


def fit_auto_blocks(model: Any, blocks: Blocks) -> None:
    """Fit the mixture to a sample, then the members that learn from blocks to all rows.

    Choice, weights, score and the other members are those of the sample; ``n_rows`` of each member
    says which.
    """
    blocks, found = survey(blocks, has_classes=is_classifier(model))
    random_state = 0 if model.random_state is None else deepcopy(model.random_state)
    seed = draw_seeds(check_random_state(random_state), 1)[0]
    parts = blocks.gather(_drawn, _shares(found), found.classes, seed)
    rows = join_blocks([part for part, _ in parts])
    model.fit(rows.X, rows.y, sample_weight=rows.sample_weight)
    model._places = np.concatenate([places for _, places in parts])[model._places]
    if len(rows) == found.n_rows:
        return
    factors = model._class_factors(found)
    for member in model.members_:
        if member.weight > 0.0 and hasattr(_last(member.estimator), "fit_blocks"):
            member.estimator = _fitted(member, blocks, model._forms, found.classes, factors)
            member.n_rows = found.n_rows


def _shares(found: Survey) -> np.ndarray:
    """Return the share of the rows of every class (of all rows, of numbers) that is drawn."""
    share = min(1.0, SAMPLE_ROWS / found.n_rows)
    if found.classes is None:
        return np.array([share])
    return np.clip(_OF_A_CLASS / found.class_rows, share, 1.0)


def _drawn(block: Block, shares: np.ndarray, classes, seed: int) -> tuple[Block, np.ndarray]:
    """Return rows by numbers that belong to them, whatever the blocks, and their places."""
    codes = 0 if classes is None else np.searchsorted(classes, block.y)
    rows = np.flatnonzero(row_uniforms(seed, block.start, len(block)) < shares[codes])
    return block.take(rows), block.start + rows


def _last(estimator: Any) -> Any:
    return estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator


def _fitted(member, blocks: Blocks, forms, classes, factors) -> Any:
    """Return the member with its last step fitted to all rows; the steps before know the sample."""
    model, steps = member.estimator, None
    if isinstance(model, Pipeline):
        steps = model[:-1]
    width = _encoded(np.zeros((1, blocks.n_features)), forms, member.form, steps).shape[1]
    encoded = blocks.then(
        _encoded_block, forms, member.form, steps, width, classes, factors, n_features=width
    )
    last = clone(_last(model)).fit_blocks(encoded)
    if steps is None:
        return last
    return Pipeline([*steps.steps, (model.steps[-1][0], last)])


def _encoded(X, forms, form: str, steps) -> np.ndarray:
    X = forms.transform(X, form)
    return X if steps is None else steps.transform(X)


def _encoded_block(block: Block, forms, form, steps, width: int, classes, factors) -> Block:
    X = _encoded(block.X, forms, form, steps) if len(block) else np.zeros((0, width))
    weight = block.sample_weight
    if factors is not None:
        weight = weight * factors[np.searchsorted(classes, block.y)]
    return replace(block, X=X, sample_weight=weight)
