"""Weighted EM over a table in blocks of rows."""

from copy import deepcopy
from typing import Any

import numpy as np

from vicinal._base import Block, Blocks, Survey, draw_seeds, sample_rows, survey
from vicinal._kernels.metric._mixture import (
    Components,
    Moments,
    add_moments,
    expectation_maximisation,
    label_moments,
    moments,
    scatter,
    update,
)
from vicinal.uncertainty._base import best_mixture, nearest_center, weighted_centers

# Rows on which the starts of EM are found by k-means.
SAMPLE_ROWS = 100_000


def fit_mixture_blocks(model: Any, blocks: Blocks) -> None:
    """Weighted EM: one pass over the rows is an E-step of all starts.

    The starts are found on a sample; a table of no more than ``SAMPLE_ROWS`` rows is its own
    sample, and the fit then that in memory.
    """
    blocks, found = survey(blocks, has_classes=False)
    if found.n_rows < model.n_components:
        raise ValueError(
            f"n_components={model.n_components} exceeds the {found.n_rows} rows that count; lower "
            "n_components or give more rows."
        )
    spread = found.moments
    center, variance = spread.mean, float(spread.variance.mean())
    ridge = model.reg_covar * (variance or 1.0) * found.weight / model.n_components
    total_scatter = blocks.total(_scatter, center)
    settings = total_scatter, ridge, model.covariance_type

    def e_step(asked: list[Components]) -> list[Moments]:
        shared = center, asked, model.covariance_type
        return blocks.total(_moments, *shared, combine=_add_all)

    ends = expectation_maximisation(
        e_step,
        _starts(model, blocks, found, center, settings),
        *settings,
        tol=model.tol,
        max_iter=model.max_iter,
    )
    model._keep(best_mixture(ends, center))


def _starts(model, blocks, found: Survey, center, settings) -> list[Components]:
    """Return the M-step of every assignment to nearest centres."""
    means_init = model._check_means_init(blocks.n_features)
    if means_init is not None:
        centers = [means_init - center]
    elif model.n_components == 1:
        centers = [np.zeros((1, blocks.n_features))]
    else:
        random_state = 0 if model.random_state is None else deepcopy(model.random_state)
        seeds = draw_seeds(random_state, model.n_init)
        sample = sample_rows(blocks, found, SAMPLE_ROWS, seeds[0])
        centers = [
            weighted_centers(sample.X - center, sample.sample_weight, model.n_components, seed)
            for seed in seeds
        ]
    total_scatter, ridge, covariance_type = settings
    shared = center, centers, covariance_type
    hard = blocks.total(_label_moments, *shared, combine=_add_all)
    origin = np.zeros((model.n_components, blocks.n_features))
    return [update(each, origin, total_scatter, ridge, covariance_type) for each in hard]


def _scatter(block: Block, center: Any) -> np.ndarray:
    if block.y is not None:
        raise ValueError(
            "labels weigh rows by their uncertainty, which costs a search of its own: pass "
            "sample_weight=vicinal.distributed.uncertainty_map(X, y, n_neighbors) instead of y."
        )
    return scatter(block.X - center, block.sample_weight)


def _moments(block: Block, center, asked: list[Components], covariance_type: str) -> list[Moments]:
    rows = block.X - center
    return [moments(rows, block.sample_weight, each, covariance_type) for each in asked]


def _label_moments(block: Block, center, centers, covariance_type: str) -> list[Moments]:
    rows = block.X - center
    return [
        label_moments(
            rows, block.sample_weight, nearest_center(rows, each), len(each), covariance_type
        )
        for each in centers
    ]


def _add_all(left: list[Moments], right: list[Moments]) -> list[Moments]:
    return [add_moments(a, b) for a, b in zip(left, right, strict=True)]
