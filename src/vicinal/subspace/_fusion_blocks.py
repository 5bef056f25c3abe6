"""Local models on subspaces and their fusion, for rows in blocks.

Whatever has a fit by blocks is fitted so: decompositions, divide-and-conquer machines, truncated
RBF ridges. Any other local model is one task, which gathers the columns of its subspace.
"""

from collections.abc import Sequence
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state

from vicinal._base import (
    Block,
    Blocks,
    Survey,
    check_fold_count,
    dense,
    draw_seeds,
    fit_weighted,
    join_blocks,
    row_uniforms,
    seeded_clone,
    survey,
)
from vicinal.subspace._fusion_base import features_of


def fit_fusion(model: Any, blocks: Blocks) -> None:
    """Fit the classifier in place."""
    blocks, found = survey(blocks, has_classes=True)
    model.classes_ = found.classes
    _check_folds(model, found)
    blocks = blocks.then(_encode, found.classes)
    rng = check_random_state(model.random_state)
    specs = model._decomposition_specs(rng)
    model.decompositions_ = [spec.fit_blocks(blocks) for spec in specs]
    model._set_places()
    template = model._local_template(np.empty((0, blocks.n_features)))
    seeds = draw_seeds(rng, len(model._places))
    locals_ = [seeded_clone(template, seed) for seed in seeds]
    folds = Folds(draw_seeds(rng, 1)[0], int(model.cv))
    fold_views = _fit_folds(model, locals_, blocks, folds)
    scores = blocks.then(_score, model, fold_views, folds, n_features=0).held()
    if model.refit:
        model.views_ = [[view] for view in _fit_views(model, locals_, blocks)]
    else:
        model.views_ = [list(views) for views in zip(*fold_views, strict=True)]
    _fit_top(model, scores, found, rng)


def _check_folds(model: Any, found: Survey) -> None:
    if not isinstance(model.cv, Integral):
        raise ValueError(
            f"cv={model.cv!r} splits rows in memory, and here every row draws its own fold; give "
            "cv the number of folds."
        )
    check_fold_count(int(model.cv), found.class_rows)


class Folds:
    """The fold of every row, drawn by its place in the table."""

    def __init__(self, seed: int, n_folds: int) -> None:
        self.seed, self.n_folds = seed, n_folds

    def of(self, block: Block) -> np.ndarray:
        drawn = row_uniforms(self.seed, block.start, len(block))
        return (self.n_folds * drawn).astype(np.int64)


def _encode(block: Block, classes) -> Block:
    return replace(block, X=dense(block), y=np.searchsorted(classes, block.y))


def _outside(block: Block, folds: Folds, fold: int) -> Block:
    return block.take(np.flatnonzero(folds.of(block) != fold))


# --- local models ---------------------------------------------------------------------------------


def _fit_folds(model, locals_: list, blocks: Blocks, folds: Folds) -> list:
    """Return, for every fold, the local models of the rows outside it."""
    found = []
    for fold in range(folds.n_folds):
        train = blocks.then(_outside, folds, fold)
        # A decomposition that saw y is learned anew, or the held-out scores would know it.
        relearned = [
            clone(own).fit_blocks(train) if model._decomposition_at(number)[1] else own
            for number, own in enumerate(model.decompositions_)
        ]
        fresh = [clone(local) for local in locals_]
        found.append(_fit_views(model, fresh, train, relearned))
    return found


def _fit_views(model, locals_: list, blocks: Blocks, decompositions=None) -> list:
    """Fit every local model on its subspace; those without a fit by blocks are tasks."""
    decompositions = model.decompositions_ if decompositions is None else decompositions
    views = [
        (None if number < 0 else decompositions[number], index, local)
        for (number, index), local in zip(model._places, locals_, strict=True)
    ]
    whole = iter(_fit_whole([view for view in views if not _by_blocks(view[2])], blocks))
    return [
        _fit_view(view, blocks) if _by_blocks(view[2]) else (*view[:2], next(whole))
        for view in views
    ]


def _fit_view(view: tuple, blocks: Blocks) -> tuple:
    """Fit a local model by blocks of its subspace."""
    own, index, local = view
    width = blocks.n_features if own is None else len(own.groups_[index])
    part = blocks.then(_take_subspace, own, index, n_features=width)
    return own, index, local.fit_blocks(part)


def _by_blocks(estimator: Any) -> bool:
    """Tell whether an estimator is fitted by blocks with the parameters that it has."""
    return (
        hasattr(estimator, "fit_blocks")
        and getattr(estimator, "loss", "squared_error") == "squared_error"
    )


def _fit_whole(views: Sequence[tuple], blocks: Blocks) -> list:
    """Fit other models to all rows at once, each in one task."""
    if not views:
        return []
    subspaces = [view[:2] for view in views]
    groups = [(local,) for _, _, local in views]
    return blocks.regrouped(_take_subspaces, _fit_gathered, groups, subspaces).values()


def _take_subspaces(block: Block, subspaces: list[tuple]) -> list[Block]:
    return [_take_subspace(block, *place) for place in subspaces]


def _take_subspace(block: Block, decomposition: Any, index: int) -> Block:
    return replace(block, X=np.ascontiguousarray(features_of(decomposition, index, block.X)))


def _fit_gathered(blocks: list[Block], estimator: Any) -> Any:
    rows = join_blocks(blocks)
    weight = None if (rows.sample_weight == 1).all() else rows.sample_weight
    return fit_weighted(clone(estimator), rows.X, rows.y, weight)


# --- the model on top -----------------------------------------------------------------------------


def _score(block: Block, model, fold_views: list, folds: Folds) -> Block:
    """Return scores of models that did not see the row in place of its features."""
    fold = folds.of(block)
    parts = []
    for views in zip(*fold_views, strict=True):
        width = 1 if len(model.classes_) == 2 else len(model.classes_)
        scores = np.empty((len(block), width))
        for number, view in enumerate(views):
            rows = np.flatnonzero(fold == number)
            if len(rows):
                scores[rows] = model._local_scores(view, block.X[rows])
        parts.append(scores)
    return replace(block, X=np.hstack(parts))


def _fit_top(model, scores: Blocks, found: Survey, rng) -> None:
    """Standardise the scores and fit the model on top of them."""
    _, seen = survey(scores, has_classes=True)
    model._set_score_scale(seen.moments.mean, np.sqrt(seen.moments.variance))
    n_kept = int(model.score_mask_.sum())
    R = scores.then(
        _standardise, model.score_mask_, model.score_mean_, model.score_scale_, n_features=n_kept
    )
    codes = np.arange(len(found.classes))
    template = model._fusion_template(np.empty((0, n_kept)), codes, found.class_weights)
    top = seeded_clone(template, draw_seeds(rng, 1)[0])
    if _by_blocks(top):
        model.fusion_estimator_ = top.fit_blocks(R)
    else:
        model.fusion_estimator_ = _fit_whole([(None, 0, top)], R)[0]


def _standardise(block: Block, kept, mean, scale) -> Block:
    return replace(block, X=np.ascontiguousarray((block.X[:, kept] - mean) / scale))
