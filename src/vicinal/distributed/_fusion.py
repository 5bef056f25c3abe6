"""Local models on subspaces and their fusion, for rows in blocks.

Whatever has a fit by blocks is fitted so: decompositions, divide-and-conquer machines, truncated
RBF ridges. Any other local model is one task, which gathers the columns of its subspace.
"""

from numbers import Integral
from typing import Any

import numpy as np
from dask import delayed
from sklearn.base import clone
from sklearn.utils import check_random_state

from vicinal._base import draw_seeds, fit_weighted, seeded_clone
from vicinal.distributed._blocks import Block, Blocks
from vicinal.distributed._compute import compute
from vicinal.distributed._draws import row_uniforms
from vicinal.distributed._fit import fit_blocks, fits, has_way
from vicinal.distributed._moments import dense, table_moments
from vicinal.distributed._survey import Survey, survey
from vicinal.subspace import SubspaceFusionClassifier
from vicinal.subspace._fusion_base import features_of


@fits(SubspaceFusionClassifier)
def fit_fusion(model: SubspaceFusionClassifier, blocks: Blocks, verbose: int) -> None:
    """Fit the classifier in place."""
    blocks, found = survey(blocks, has_classes=True, verbose=verbose)
    model.classes_ = found.classes
    _check_folds(model, found)
    blocks = blocks.then(_encode, found.classes)
    rng = check_random_state(model.random_state)
    specs = model._decomposition_specs(rng)
    model.decompositions_ = [fit_blocks(spec, blocks, verbose) for spec in specs]
    model._set_places()
    template = model._local_template(np.empty((0, blocks.n_features)))
    seeds = draw_seeds(rng, len(model._places))
    locals_ = [seeded_clone(template, seed) for seed in seeds]
    folds = Folds(draw_seeds(rng, 1)[0], int(model.cv))
    fold_views = _fit_folds(model, locals_, blocks, folds, verbose)
    scores = blocks.then(_score, model, fold_views, folds, n_features=0).held()
    if model.refit:
        model._views = [[view] for view in _fit_views(model, locals_, blocks, verbose)]
    else:
        model._views = [list(views) for views in zip(*fold_views, strict=True)]
    _fit_top(model, scores, found, rng, verbose)


def _check_folds(model: SubspaceFusionClassifier, found: Survey) -> None:
    if not isinstance(model.cv, Integral):
        raise ValueError(
            f"cv={model.cv!r} splits rows in memory, and here every row draws its own fold; give "
            "cv the number of folds."
        )
    if found.class_rows.min() < model.cv:
        rarest = found.classes[found.class_rows.argmin()]
        raise ValueError(
            f"cv={model.cv} folds need as many rows of every class, but class {rarest!r} has "
            f"{found.class_rows.min()} (n_samples={found.n_rows}); lower cv or merge rare classes."
        )


class Folds:
    """The fold of every row, drawn by its place in the table."""

    def __init__(self, seed: int, n_folds: int) -> None:
        self.seed, self.n_folds = seed, n_folds

    def of(self, block: Block) -> np.ndarray:
        drawn = row_uniforms(self.seed, block.start, len(block))
        return (self.n_folds * drawn).astype(np.int64)


def _encode(block: Block, classes) -> Block:
    codes = np.searchsorted(classes, block.y)
    return Block(dense(block), codes, block.sample_weight, block.start)


def _outside(block: Block, folds: Folds, fold: int) -> Block:
    rows = np.flatnonzero(folds.of(block) != fold)
    return Block(block.X[rows], block.y[rows], block.sample_weight[rows], None)


# --- local models ---------------------------------------------------------------------------------


def _fit_folds(model, locals_: list, blocks: Blocks, folds: Folds, verbose: int) -> list:
    """Return, for every fold, the local models of the rows outside it."""
    found = []
    for fold in range(folds.n_folds):
        train = blocks.then(_outside, folds, fold)
        # A decomposition that saw y is learned anew, or the held-out scores would know it.
        relearned = [
            fit_blocks(clone(own), train, verbose) if model._decomposition_at(number)[1] else own
            for number, own in enumerate(model.decompositions_)
        ]
        fresh = [clone(local) for local in locals_]
        found.append(_fit_views(model, fresh, train, verbose, relearned))
    return found


def _fit_views(model, locals_: list, blocks: Blocks, verbose: int, decompositions=None) -> list:
    """Fit every local model on its subspace; those without a fit by blocks are tasks."""
    decompositions = model.decompositions_ if decompositions is None else decompositions
    views: list[tuple] = []
    lazy = []
    for (number, index), local in zip(model._places, locals_, strict=True):
        own = None if number < 0 else decompositions[number]
        width = blocks.n_features if own is None else len(own.groups_[index])
        part = blocks.then(_take_subspace, own, index, n_features=width)
        if _by_blocks(local):
            local = fit_blocks(local, part, verbose)
        else:
            lazy.append((len(views), _fit_whole(local, part)))
        views.append((own, index, local))
    for (place, _), fitted in zip(
        lazy, compute([task for _, task in lazy], verbose=verbose), strict=True
    ):
        views[place] = (*views[place][:2], fitted)
    return views


def _by_blocks(estimator: Any) -> bool:
    """Tell whether an estimator is fitted by blocks with the parameters that it has."""
    return has_way(estimator) and getattr(estimator, "loss", "squared") == "squared"


def _fit_whole(estimator: Any, blocks: Blocks):
    fit = delayed(_fit_gathered, pure=True)
    return fit(delayed(estimator, traverse=False), blocks.parts)


def _fit_gathered(estimator: Any, blocks: list[Block]) -> Any:
    """Fit an estimator to all rows at once."""
    X, y, weight = (
        np.concatenate([getattr(block, name) for block in blocks])
        for name in ("X", "y", "sample_weight")
    )
    return fit_weighted(clone(estimator), X, y, None if (weight == 1).all() else weight)


def _take_subspace(block: Block, decomposition, index: int) -> Block:
    features = np.ascontiguousarray(features_of(decomposition, index, block.X))
    return Block(features, block.y, block.sample_weight, block.start)


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
    return Block(np.hstack(parts), block.y, block.sample_weight, block.start)


def _fit_top(model, scores: Blocks, found: Survey, rng, verbose: int) -> None:
    """Standardise the scores and fit the model on top of them."""
    _, seen = survey(scores, has_classes=True, verbose=verbose)
    moments = table_moments(seen)
    model._set_score_scale(moments.mean, np.sqrt(moments.variance))
    n_kept = int(model._kept.sum())
    R = scores.then(
        _standardise, model._kept, model.score_mean_, model.score_scale_, n_features=n_kept
    )
    codes = np.arange(len(found.classes))
    template = model._fusion_template(np.empty((0, n_kept)), codes, found.class_weights)
    top = seeded_clone(template, draw_seeds(rng, 1)[0])
    if _by_blocks(top):
        model.fusion_estimator_ = fit_blocks(top, R, verbose)
    else:
        model.fusion_estimator_ = compute([_fit_whole(top, R)], verbose=verbose)[0]


def _standardise(block: Block, kept, mean, scale) -> Block:
    R = np.ascontiguousarray((block.X[:, kept] - mean) / scale)
    return Block(R, block.y, block.sample_weight, block.start)
