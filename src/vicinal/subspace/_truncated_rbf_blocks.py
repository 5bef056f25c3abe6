"""Truncated RBF models from sums over blocks of rows: all exact."""

from typing import Any

import numpy as np

from vicinal._base import (
    Block,
    Blocks,
    Survey,
    add_tuples,
    class_factors,
    dense,
    refuse,
    sample_rows,
    survey,
)
from vicinal._kernels.subspace._truncated_rbf import (
    RidgeSums,
    fitted_and_leverage,
    leave_one_out_scores,
    ridge_from_sums,
    ridge_sums,
    some_features,
)
from vicinal.subspace._base import warn_if_cut_short
from vicinal.subspace._slope_blocks import slope_of

# Rows whose lengths tell whether a width is too large for the order.
_SAMPLE_ROWS = 20_000


def fit_regressor_blocks(model: Any, blocks: Blocks) -> None:
    """Fit the ridge regressor in place: two passes."""
    _refuse_dual(model)
    blocks, found = survey(blocks, has_classes=False)
    _learn_map(model, blocks, found)
    _fit_ridge(model, blocks, None, None)
    model._is_flat = True


def fit_classifier_blocks(model: Any, blocks: Blocks) -> None:
    """Fit the ridge classifier in place: two passes, one for leave-one-out scores, and the slope's.

    The leave-one-out scores, a number per row and class, stay with the workers.
    """
    _refuse_dual(model)
    refuse(model, loss="squared_error", threshold="zero", why="by blocks of rows")
    blocks, found = survey(blocks, has_classes=True)
    model.classes_ = found.classes
    _learn_map(model, blocks, found)
    codes = np.arange(len(found.classes))
    unit = class_factors(model.class_weight, found.classes, codes, found.class_weights)
    state, total = _fit_ridge(model, blocks, found.classes, unit)
    model.threshold_, model.n_iter_ = 0.0, 1
    arguments = (
        _map_of(model),
        found.classes,
        unit,
        model.primal_coef_,
        model.intercept_,
        total,
        state,
    )
    model.slope_ = slope_of(blocks.then(_held_out_scores, *arguments), found)


def _refuse_dual(model) -> None:
    if model.solver == "dual":
        raise ValueError(
            "solver='dual' needs all pairs of rows, and the rows come in blocks; use 'primal'."
        )


def _learn_map(model, blocks: Blocks, found: Survey) -> None:
    """Set the centre and the width, as a fit in memory does."""
    moments = found.moments
    squares = moments.squares
    if not model.center:
        squares = squares + moments.weight * moments.mean**2
    model.mean_ = moments.mean if model.center else np.zeros(blocks.n_features)
    typical = squares.sum() / moments.weight
    model.solver_ = "primal"
    if isinstance(model.gamma, str):
        model.gamma_ = 0.1 / typical if typical > 0 else 1.0
        return
    model.gamma_ = float(model.gamma)
    sample = sample_rows(blocks, found, _SAMPLE_ROWS, 0)
    squares = ((sample.X - model.mean_) ** 2).sum(axis=1)
    warn_if_cut_short(squares, sample.sample_weight, model.gamma_, model.order)


def _map_of(model) -> tuple:
    return model.mean_, model.gamma_, model._plan(len(model.mean_))


def _fit_ridge(model, blocks: Blocks, classes, unit) -> tuple:
    """Solve the normal equations; return the state of the solution and the total weight."""
    sums = blocks.total(_sum_ridge, _map_of(model), classes, unit, combine=add_tuples)
    model.primal_coef_, model.intercept_, state = ridge_from_sums(RidgeSums(*sums), model.alpha)
    return state, sums[0]


def _targets(block: Block, classes) -> tuple[np.ndarray, Any]:
    """Return targets (n_rows, n_targets) and, for classes, their codes."""
    if classes is None:
        return np.asarray(block.y, dtype=np.float64)[:, None], None
    codes = np.searchsorted(classes, block.y)
    targets = 2.0 * (codes[:, None] == np.arange(len(classes))) - 1.0
    return (targets[:, 1:] if len(classes) == 2 else targets), codes


def _sum_ridge(block: Block, feature_map, classes, unit) -> tuple:
    mean, gamma, plan = feature_map
    Y, codes = _targets(block, classes)
    weight = block.sample_weight if codes is None else block.sample_weight * unit[codes]
    return tuple(ridge_sums(some_features(dense(block) - mean, gamma, plan), Y, weight))


def _held_out_scores(block: Block, feature_map, classes, unit, coef, intercept, total, state):
    """Return the block with leave-one-out scores in place of rows, and codes for targets."""
    mean, gamma, plan = feature_map
    Y, codes = _targets(block, classes)
    features = some_features(dense(block) - mean, gamma, plan)
    fitted, leverage = fitted_and_leverage(features, coef, intercept, total, state)
    scores = leave_one_out_scores(Y, fitted, leverage, unit[codes])
    if len(classes) == 2:
        scores = 0.5 * np.hstack([-scores, scores])
    return Block(scores, codes, block.sample_weight, block.start)
