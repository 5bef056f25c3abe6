"""The first pass over the rows: what is there, and whether a model can be fitted to it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils.multiclass import check_classification_targets

from vicinal.distributed._blocks import Block, Blocks
from vicinal.distributed._moments import Moments, block_moments, merge_moments


@dataclass(frozen=True)
class Survey:
    """What one pass over a table tells."""

    lengths: tuple[int, ...]
    weight: float
    classes: Any  # sorted labels, or None where y is not a class
    class_rows: Any  # number of rows of each class
    class_weights: Any  # weight of each class
    moments: Moments | None  # of the columns, where blocks are dense

    @property
    def n_rows(self) -> int:
        return sum(self.lengths)


def survey(blocks: Blocks, *, has_classes: bool, verbose: int = 0) -> tuple[Blocks, Survey]:
    """Count rows, weights and classes, and return blocks that know where they start."""
    found = blocks.total(_look, has_classes, combine=_join, verbose=verbose)
    if found.n_rows == 0:
        raise ValueError("X has no rows of positive weight; at least one is needed.")
    if has_classes:
        check_classification_targets(found.classes)
    if has_classes and len(found.classes) < 2:
        raise ValueError(
            f"y holds one class only ({found.classes[0]!r}); a classifier needs samples of at "
            "least two classes. Check how y was selected."
        )
    return blocks.located(list(found.lengths)), found


def _look(block: Block, has_classes: bool) -> Survey:
    classes = rows = weights = None
    if has_classes:
        classes, codes = np.unique(np.asarray(block.y), return_inverse=True)
        rows = np.bincount(codes, minlength=len(classes))
        weights = np.bincount(codes, weights=block.sample_weight, minlength=len(classes))
    moments = None if sp.issparse(block.X) else block_moments(block)
    total = float(block.sample_weight.sum())
    return Survey((len(block),), total, classes, rows, weights, moments)


def _join(left: Survey, right: Survey) -> Survey:
    classes, rows, weights = left.classes, None, None
    if classes is not None:
        classes = np.union1d(left.classes, right.classes)
        rows, weights = np.zeros(len(classes), dtype=np.int64), np.zeros(len(classes))
        for part in (left, right):
            places = np.searchsorted(classes, part.classes)
            rows[places] += part.class_rows
            weights[places] += part.class_weights
    moments = None
    if left.moments is not None and right.moments is not None:
        moments = merge_moments(left.moments, right.moments)
    lengths = left.lengths + right.lengths
    return Survey(lengths, left.weight + right.weight, classes, rows, weights, moments)
