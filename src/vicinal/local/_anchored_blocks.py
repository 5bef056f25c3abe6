"""Models at anchors of a table in blocks: placed and chosen on a sample, fitted to all rows."""

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier

from vicinal._base import Block, Blocks, Survey, draw_seeds, sample_rows, survey
from vicinal.local._anchors import Plan, plan_neighborhoods, planned
from vicinal.local._coordinates import search_metric
from vicinal.local._data import Labels, Table, TrainingRows, number_targets
from vicinal.local._neighborhoods import NearestRule
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
    if model.bandwidth is not None or isinstance(model.n_neighbors, float):
        raise ValueError(
            f"n_neighbors={model.n_neighbors!r} and bandwidth={model.bandwidth!r}: models at "
            'anchors of a distributed table need n_neighbors, a whole number or "auto".'
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
    extra = {} if classes is None else {"classes": classes}
    model.fit(sample.X, sample.y, sample.sample_weight, **extra)


def _fit_to_all(model, blocks: Blocks, survey: Survey, n_sampled: int) -> None:
    """Fit the models at the anchors again, to their neighbours among all rows."""
    sampled, data = model.anchors_, model._model.data
    count = min(
        float(np.floor(model.n_neighbors_ * survey.n_rows / n_sampled)),
        max(_MOST_NEIGHBORS, model.n_neighbors_),
    )
    search = BlockSearch(
        place=_AnchorPlace(data.placement),
        carry=("X", "y", "sample_weight"),
        count_weights=True,
        metric=search_metric(model.metric),
        metric_params=model.metric_params,
    )
    # Groups of anchors, so that no task holds the neighbours of all.
    size = max(1, int(_ENTRIES // (count * blocks.n_features)))
    starts = range(0, len(sampled.centers), size)
    groups = [sampled.centers[start : start + size] for start in starts]
    table = _table(model, _union(search.search(blocks, groups, Ball(count))))
    rows = TrainingRows.place(table, data.placement, data.search)
    plan = Plan(NearestRule(count, model.kernel), model.alpha_, sampled.n_blended, model.n_refits_)
    factor = _class_factors(model, rows, survey)
    near = plan_neighborhoods(rows, sampled.centers, plan.rule, factor)
    solver = model._solver(model.degree_)
    model._keep_anchors(planned(solver, rows, sampled.centers, near, plan), plan)


def _class_factors(model, rows: TrainingRows, survey: Survey):
    """Return factors on the weights of rows; those of classes come from the whole table."""
    if is_classifier(model) and model.class_weight == "balanced":
        return balanced_weights(survey)[rows.targets.codes]
    return model._factor(rows)


@dataclass(frozen=True)
class _AnchorPlace:
    placement: Any

    def __call__(self, X):
        return self.placement(X)[0]


def _union(found: list[Found]) -> Block:
    """Return the rows of several answers, each once, in the order of the table."""
    positions = np.concatenate([part.positions for part in found])
    _, first = np.unique(positions, return_index=True)
    X, y, sample_weight = (
        np.concatenate(column)[first]
        for column in zip(*(part.columns for part in found), strict=True)
    )
    return Block(X, y, sample_weight)


def _table(model, rows: Block) -> Table:
    """Return the rows found as training data."""
    weights = None if np.all(rows.sample_weight == 1.0) else rows.sample_weight
    if is_classifier(model):
        targets: Any = Labels(model._encode(rows.y), len(model.classes_))
    else:
        targets = number_targets(np.asarray(rows.y, dtype=np.float64))
    return Table(rows.X, targets, weights, None)
