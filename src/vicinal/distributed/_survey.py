"""The first pass over the rows: what is there, and whether a model can be fitted to it."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from vicinal.distributed._blocks import Block, Blocks


@dataclass(frozen=True)
class Survey:
    """What one pass over a table tells."""

    lengths: tuple[int, ...]
    weight: float
    classes: Any  # sorted labels, or None where y is not a class

    @property
    def n_rows(self) -> int:
        return sum(self.lengths)


def survey(blocks: Blocks, *, has_classes: bool, verbose: int = 0) -> tuple[Blocks, Survey]:
    """Count rows, weights and classes, and return blocks that know where they start."""
    found = blocks.total(_look, has_classes, combine=_join, verbose=verbose)
    if found.n_rows == 0:
        raise ValueError("X has no rows of positive weight; at least one is needed.")
    if has_classes and len(found.classes) < 2:
        raise ValueError(
            f"y holds one class only ({found.classes[0]!r}); a classifier needs samples of at "
            "least two classes. Check how y was selected."
        )
    return blocks.located(list(found.lengths)), found


def _look(block: Block, has_classes: bool) -> Survey:
    classes = np.unique(np.asarray(block.y)) if has_classes else None
    return Survey((len(block),), float(block.sample_weight.sum()), classes)


def _join(left: Survey, right: Survey) -> Survey:
    classes = None
    if left.classes is not None:
        classes = np.union1d(left.classes, right.classes)
    return Survey(left.lengths + right.lengths, left.weight + right.weight, classes)
