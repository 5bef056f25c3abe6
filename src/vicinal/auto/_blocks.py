"""Mixtures of a table larger than memory: chosen on a sample, fitted by blocks where that goes."""

from copy import deepcopy
from dataclasses import replace

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state

from vicinal._base import Block, Blocks, Survey, draw_seeds, join_blocks, row_uniforms
from vicinal.auto._forms import Forms
from vicinal.auto._member import Member

# Rows of the sample; a table of no more is fitted as in memory.
SAMPLE_ROWS = 100_000
# Of a class so rare that the sample would lose it, about so many are drawn.
_OF_A_CLASS = 20


def draw_sample(blocks: Blocks, found: Survey, random_state) -> tuple[Block, np.ndarray]:
    """Return rows of located blocks, some of every class, and their places in the table."""
    random_state = 0 if random_state is None else deepcopy(random_state)
    seed = draw_seeds(check_random_state(random_state), 1)[0]
    parts = blocks.gather(_drawn, _shares(found), found.classes, seed)
    return join_blocks([part for part, _ in parts]), np.concatenate([part[1] for part in parts])


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


def fit_to_blocks(member: Member, blocks: Blocks, found: Survey, forms: Forms, factors) -> None:
    """Fit the last step of a member to all rows if it can; steps before it know the sample.

    ``factors`` of the classes multiply the weights of the rows, ``None`` for ones.
    """
    model, steps, classes = member.estimator, None, found.classes
    name, last = model.steps[-1] if isinstance(model, Pipeline) else ("", model)
    if not hasattr(last, "fit_blocks"):
        return
    if last is not model:
        steps = model[:-1]
    width = _encoded(np.zeros((1, blocks.n_features)), forms, member.form, steps).shape[1]
    encoded = blocks.then(
        _encoded_block, forms, member.form, steps, width, classes, factors, n_features=width
    )
    last = clone(last).fit_blocks(encoded)
    member.estimator = last if steps is None else Pipeline([*steps.steps, (name, last)])
    member.n_rows = found.n_rows


def _encoded(X, forms, form: str, steps) -> np.ndarray:
    X = forms.transform(X, form)
    return X if steps is None else steps.transform(X)


def _encoded_block(block: Block, forms, form, steps, width: int, classes, factors) -> Block:
    X = _encoded(block.X, forms, form, steps) if len(block) else np.zeros((0, width))
    weight = block.sample_weight
    if factors is not None:
        weight = weight * factors[np.searchsorted(classes, block.y)]
    return replace(block, X=X, sample_weight=weight)
