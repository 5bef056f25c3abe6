"""Models at anchors of a table in blocks: placed and chosen on a sample, fitted to all rows."""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from vicinal._base import Block, Blocks, Survey, draw_seeds, sample_rows, survey
from vicinal.local._anchored import Plan, _Search
from vicinal.local._metrics import search_metric
from vicinal.local._neighborhood import NearestRule
from vicinal.local.blocks import balanced_weights, location_mask
from vicinal.neighbors.blocks import Ball, BlockSearch, Found

# Rows on which centres are placed and all that is open is chosen, in memory.
SAMPLE_ROWS = 100_000
# A model at an anchor sees as large a share of the table as it did of the sample, up to this.
_MOST_NEIGHBORS = 1280
# Numbers of the neighbours' rows that meet in one task.
_ENTRIES = 2**22


def fit_anchored_blocks(model: Any, blocks: Blocks) -> None:
    """Place and choose on a sample in memory; fit the models at the anchors to all rows.

    A table of no more than ``SAMPLE_ROWS`` rows is its own sample: the fit is that in memory.
    """
    name = type(model).__name__
    if model.anchors is None:
        raise ValueError(
            f"{name} keeps every row unless it has anchors; give anchors=, a number of centres, or "
            "use vicinal.distributed.local_predict."
        )
    if model.bandwidth is not None or isinstance(model.n_neighbors, float):
        raise ValueError(
            f"n_neighbors={model.n_neighbors!r} and bandwidth={model.bandwidth!r}: models at "
            'anchors of a distributed table need n_neighbors, a whole number or "auto".'
        )
    if getattr(model, "robust_iterations", 0):
        raise ValueError(
            "robust_iterations weigh rows by the residuals of all of them; use 0 for a table that "
            "memory does not hold."
        )
    blocks, found = survey(blocks, has_classes=is_classifier(model))
    named = model.location_columns
    model.location_columns = location_mask(model, blocks)
    seed = draw_seeds(0 if model.random_state is None else deepcopy(model.random_state), 1)[0]
    sample = sample_rows(blocks, found, SAMPLE_ROWS, seed)
    _fit_in_memory(model, sample, found.classes)
    if found.n_rows > SAMPLE_ROWS:
        _fit_to_all(model, blocks, found, len(sample))
    model.location_columns = named


def _fit_in_memory(model: Any, sample: Block, classes: np.ndarray | None) -> None:
    """Fit the sample; its classes are those of the table."""
    if classes is None:
        model.fit(sample.X, sample.y, sample.sample_weight)
    else:
        model._fit_rows(sample.X, sample.y, sample.sample_weight, None, classes)


def _fit_to_all(model, blocks: Blocks, survey: Survey, n_sampled: int) -> None:
    """Fit the models at the anchors again, to their neighbours among all rows."""
    sampled, coordinates = model.anchors_, model._data.coordinates
    count = min(
        float(np.floor(model.n_neighbors_ * survey.n_rows / n_sampled)),
        max(_MOST_NEIGHBORS, model.n_neighbors_),
    )
    rule = NearestRule(count, model.kernel)
    search = BlockSearch(
        place=_AnchorPlace(model._split_columns, coordinates),
        carry=("X", "y", "sample_weight"),
        count_weights=True,
        metric=search_metric(model.metric_),
        metric_params=model.metric_params,
    )
    # Groups of anchors, so that no task holds the neighbours of all.
    size = max(1, int(_ENTRIES // (count * blocks.n_features)))
    starts = range(0, len(sampled.centers), size)
    groups = [sampled.centers[start : start + size] for start in starts]
    found = search.search(blocks, groups, Ball(count))
    rows = _union(found)
    data = _take_rows(model, rows, coordinates)
    if is_classifier(model) and model.class_weight == "balanced":
        model._factor = balanced_weights(survey)[model._codes]
    plan = Plan(rule, model.alpha_, sampled.n_blended, model.n_refits_)
    near = _Search(data, sampled.centers, [rule], model._factor).found(rule, None)
    model._keep_anchors(model._fit_plan(data, sampled.centers, near, plan), plan)
    model._factor = None
    if survey.classes is None:
        model._targets = model.anchors_.values
    else:
        model._codes = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class _AnchorPlace:
    split: Any
    coordinates: Any

    def __call__(self, X):
        return self.coordinates(self.split(X)[0])


def _union(found: list[Found]) -> Block:
    """Return the rows of several answers, each once, in the order of the table."""
    positions = np.concatenate([part.positions for part in found])
    _, first = np.unique(positions, return_index=True)
    X, y, sample_weight = (
        np.concatenate(column)[first]
        for column in zip(*(part.columns for part in found), strict=True)
    )
    return Block(X, y, sample_weight)


def _take_rows(model, rows: Block, coordinates):
    """Give the model the rows found, in place of those of the sample."""
    weights = None if np.all(rows.sample_weight == 1.0) else rows.sample_weight
    if is_classifier(model):
        model._codes = model._encode(rows.y)
        model._factor = model._class_factors(weights)
    else:
        model._targets = np.ascontiguousarray(rows.y, dtype=np.float64).reshape(len(rows), -1)
    return model._place_data(rows.X, weights, None, model.metric_, coordinates)
