"""Fits of the fusions: local models on subspaces, their held-out scores, the fusion estimator.

A local model is stored as a tuple (decomposition, index of its subspace, fitted estimator), a view;
the decomposition is None for all features. Of rows in blocks, whatever has a fit by blocks is
fitted so (decompositions, truncated RBF ridges); any other local model is one task, which gathers
the columns of its subspace.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.model_selection import check_cv
from sklearn.utils import get_tags

from vicinal import _base
from vicinal.subspace._feature_space_decomposition import FeatureSpaceDecomposition, encoded_block

METHODS = ("random", "principal", "discriminant", "cholesky", "approximate")


@dataclass(frozen=True)
class FusionSettings:
    """Settings of a fusion, with seeds and the local model resolved."""

    model: Any
    decompositions: list  # unfitted, with seeds
    local: Any  # unfitted local model
    stack_method: str
    classes: Any  # None for regression

    def scores(self, view: tuple, X: Any) -> np.ndarray:
        """Return the scores of a local model."""
        return local_scores(view, X, self.stack_method, self.classes)


# Fitted decompositions, the name and the model of every subspace, and held-out scores.
LocalModels = tuple[list, list[str], list[tuple], Any]


class ScoreScale(NamedTuple):
    """Standardisation of the scores that vary."""

    mask: np.ndarray
    mean: np.ndarray
    scale: np.ndarray

    def apply(self, scores: np.ndarray) -> np.ndarray:
        """Return the standardised scores."""
        return (scores[:, self.mask] - self.mean) / self.scale


def resolve(model: Any, local: Any, classes: Any, rng: np.random.RandomState) -> FusionSettings:
    """Return the settings of a fusion."""
    known = () if classes is None else ("decision_function", "predict_proba")
    stack_method = next((name for name in known if hasattr(local, name)), "predict")
    return FusionSettings(model, _decompositions(model, classes, rng), local, stack_method, classes)


def _decompositions(model: Any, classes: Any, rng: np.random.RandomState) -> list:
    """Return unfitted decompositions with seeds, from names and instances."""
    found = []
    for spec in model.decompositions:
        if isinstance(spec, str):
            if spec not in METHODS:
                raise ValueError(f"decomposition {spec!r} is unknown; choose among {METHODS}.")
            if spec == "discriminant" and classes is None:
                raise ValueError(
                    "decomposition 'discriminant' needs classes, and the target is numeric; use "
                    "'principal' or 'cholesky'."
                )
            spec = FeatureSpaceDecomposition(
                spec,
                n_subspaces=model.n_subspaces,
                subspace_size=model.subspace_size,
                n_blocks=model.n_blocks,
                n_repeats=-(-model.n_subspaces // model.n_blocks),
            )
        elif not (hasattr(spec, "fit") and hasattr(spec, "transform_subspace")):
            raise ValueError(
                f"decompositions holds {spec!r}; give names among {METHODS} or objects with "
                "fit and transform_subspace."
            )
        found.append(_base.seeded_clone(spec, _base.random_seeds(rng, 1)[0]))
    if not found and not model.include_full:
        raise ValueError(
            "decompositions is empty and include_full=False, so there is no local model; name a "
            "decomposition."
        )
    return found


def check_weights_are_taken(model: Any, data: _base.TrainingData) -> None:
    """Raise if rows have weights and a given estimator does not accept them."""
    for name in ("estimator", "fusion_estimator") if data.is_weighted else ():
        part = getattr(model, name)
        if part is not None:
            _base.check_takes_weights(part, name)


# --- views ----------------------------------------------------------------------------------------


def features_of(decomposition: Any, index: int, X: Any) -> Any:
    """Return the subspace of valid rows; all columns without a decomposition."""
    if decomposition is None:
        return X
    if type(decomposition) is FeatureSpaceDecomposition:
        return decomposition._transform_valid(X, index)
    return decomposition.transform_subspace(X, index)


def local_scores(view: tuple, X: Any, stack_method: str, classes: Any) -> np.ndarray:
    """Return scores of one local model: one column per class, one for two classes or regression.

    A class that it was not fitted to has probability 0, or the smallest score of the row.
    """
    decomposition, index, model = view
    features = features_of(decomposition, index, X)
    if classes is None:
        return np.asarray(model.predict(features), dtype=np.float64).reshape(-1, 1)
    n_classes, present = len(classes), model.classes_
    if stack_method == "predict":
        scores = 2.0 * (model.predict(features)[:, None] == np.arange(n_classes)) - 1.0
        return scores[:, 1:] if n_classes == 2 else scores
    scores = np.asarray(getattr(model, stack_method)(features), dtype=np.float64)
    if n_classes == 2:
        if len(present) == 2:
            return scores[:, 1:] if scores.ndim == 2 else scores[:, None]
        least = 0.0 if stack_method == "predict_proba" else -1.0
        return np.full((len(scores), 1), 1.0 if present[0] == 1 else least)
    if scores.ndim == 1:
        scores = np.column_stack([-scores, scores])
    if scores.shape[1] != len(present):
        raise ValueError(
            f"{model!r} gives {scores.shape[1]} scores for {len(present)} classes; one per "
            "class is needed (decision_function_shape='ovr')."
        )
    aligned = np.zeros((len(scores), n_classes))
    if stack_method != "predict_proba":
        aligned += scores.min(axis=1, keepdims=True)
    aligned[:, present] = scores
    return aligned


def _unfitted_views(
    decompositions: list, settings: FusionSettings, rng
) -> tuple[list[str], list[tuple]]:
    """Return the names and the unfitted views of all subspaces."""
    subspaces = [
        (f"{getattr(own, 'method', f'part {number}')} {index}", own, index)
        for number, own in enumerate(decompositions)
        for index in range(own.n_subspaces_)
    ]
    if settings.model.include_full:
        subspaces.append(("all features", None, 0))
    seeds = _base.random_seeds(rng, len(subspaces))
    views = [
        (own, index, _base.seeded_clone(settings.local, seed))
        for (_, own, index), seed in zip(subspaces, seeds, strict=True)
    ]
    return [name for name, _, _ in subspaces], views


def _uses_targets(decomposition: Any) -> bool:
    """Return whether a decomposition uses the targets and must be learned in each fold."""
    return decomposition is not None and bool(get_tags(decomposition).target_tags.required)


# --- rows in memory -------------------------------------------------------------------------------


def fit_locals(data: _base.TrainingData, settings: FusionSettings, rng) -> LocalModels:
    """Learn decompositions and local models, and score the training rows."""
    weights = data.sample_weight
    decompositions = [own.fit(data.X, data.y, weights) for own in settings.decompositions]
    names, views = _unfitted_views(decompositions, settings, rng)
    if isinstance(settings.model.cv, str):
        fitted = _fit_views(views, data, settings)
        scores = np.hstack([settings.scores(view, data.X) for view in fitted])
    else:
        scores = _held_out_scores(views, data, settings, _base.random_seeds(rng, 1)[0])
        fitted = _fit_views(views, data, settings)
    return decompositions, names, fitted, scores


def _held_out_scores(
    views: list, data: _base.TrainingData, settings: FusionSettings, seed: int
) -> np.ndarray:
    """Return the scores of every row by models of other folds."""
    model = settings.model
    splitter = check_cv(model.cv, data.y, classifier=settings.classes is not None)
    if isinstance(model.cv, Integral) or model.cv is None:
        splitter = type(splitter)(splitter.n_splits, shuffle=True, random_state=seed)
    tests = [test for _, test in splitter.split(data.X, data.y)]
    rows = np.concatenate(tests)
    if len(np.unique(rows)) < len(data):
        raise ValueError(
            f"cv={model.cv!r} must hold out every row; use a partition of the rows, such as KFold."
        )
    blocks = []
    with _base.Progress(
        len(views), f"{type(model).__name__} folds", verbose=model.verbose
    ) as progress:
        for view in views:
            scores = _base.cross_fit(
                functools.partial(_fit_fold, view),
                settings.scores,
                data.X,
                data.y,
                tests,
                sample_weight=data.sample_weight,
                n_jobs=model.n_jobs,
                prefer="threads",
            )
            blocks.append(np.empty((len(data), scores.shape[1])))
            blocks[-1][rows] = scores
            progress.advance()
    return np.hstack(blocks)


def _fit_fold(view: tuple, X, y, weights) -> tuple:
    """Fit outside a fold, and learn a decomposition that uses y."""
    decomposition, index, local = view
    if _uses_targets(decomposition):
        decomposition = clone(decomposition).fit(X, y, weights)
    return _fit_view((decomposition, index, clone(local)), X, y, weights)


def _fit_view(view: tuple, X, y, weights) -> tuple:
    decomposition, index, local = view
    features = features_of(decomposition, index, X)
    return decomposition, index, _base.fit_weighted(local, features, y, weights)


def _fit_views(views: list, data: _base.TrainingData, settings: FusionSettings) -> list:
    """Fit every local model on all rows."""
    return _base.parallel_map(
        _fit_view,
        [(view, data.X, data.y, data.sample_weight) for view in views],
        n_jobs=settings.model.n_jobs,
        prefer="threads",
        label=f"{type(settings.model).__name__} subspaces",
        verbose=settings.model.verbose,
    )


def score_scale(scores: np.ndarray, weights: np.ndarray) -> ScoreScale:
    """Return the standardisation of the training scores."""
    mean = np.average(scores, axis=0, weights=weights)
    return _varying(mean, np.sqrt(np.average((scores - mean) ** 2, axis=0, weights=weights)))


def _varying(mean: np.ndarray, scale: np.ndarray) -> ScoreScale:
    mask = scale > 1e-12 * np.maximum(1.0, np.abs(mean))
    if not mask.any():
        raise ValueError(
            "Every local model has the same score for all rows; check the local estimator and the "
            "scale of X."
        )
    return ScoreScale(mask, mean[mask], scale[mask])


# --- rows in blocks -------------------------------------------------------------------------------


def encoded_blocks(cv: Any, blocks: _base.Blocks) -> tuple[_base.Blocks, _base.Survey]:
    """Return dense blocks with codes for targets; ``cv`` must be a number of folds."""
    blocks, found = _base.survey(blocks, has_classes=True)
    if not isinstance(cv, Integral):
        raise ValueError(
            f"cv={cv!r} needs rows in memory; for blocks of rows, use a number of folds."
        )
    _base.check_fold_count(int(cv), found.class_rows)
    return blocks.then(encoded_block, found.classes), found


def fit_locals_blocks(blocks: _base.Blocks, settings: FusionSettings, rng) -> LocalModels:
    """Learn decompositions and local models, and score the training rows where they are."""
    decompositions = [own.fit_blocks(blocks) for own in settings.decompositions]
    names, views = _unfitted_views(decompositions, settings, rng)
    folds = Folds(_base.random_seeds(rng, 1)[0], int(settings.model.cv))
    fold_views = [_fit_fold_blocks(views, blocks, folds, fold) for fold in range(folds.n_folds)]
    by_subspace = [list(own) for own in zip(*fold_views, strict=True)]
    scores = blocks.then(_score, settings, by_subspace, folds, n_features=0).held()
    return decompositions, names, _fit_views_blocks(views, blocks), scores


class Folds(NamedTuple):
    """Random fold of every row, from the seed and its position in the table."""

    seed: int
    n_folds: int

    def of(self, block: _base.TrainingData) -> np.ndarray:
        """Return the folds of the rows of a block."""
        uniforms = _base.row_uniforms(self.seed, block.start, len(block))
        return (self.n_folds * uniforms).astype(np.int64)


def _outside(block: _base.TrainingData, folds: Folds, fold: int) -> _base.TrainingData:
    return block.take(np.flatnonzero(folds.of(block) != fold))


def _fit_fold_blocks(views: list, blocks: _base.Blocks, folds: Folds, fold: int) -> list:
    """Return the local models of the rows outside a fold."""
    train = blocks.then(_outside, folds, fold)
    # A decomposition that uses y is learned again, or held-out scores would depend on it.
    relearned = {
        id(own): clone(own).fit_blocks(train)
        for own in {id(own): own for own, _, _ in views if _uses_targets(own)}.values()
    }
    fresh = [(relearned.get(id(own), own), index, clone(local)) for own, index, local in views]
    return _fit_views_blocks(fresh, train)


def _fit_views_blocks(views: list, blocks: _base.Blocks) -> list:
    """Fit every local model on its subspace; those without a fit by blocks are tasks."""
    whole = iter(_fit_whole([view for view in views if not hasattr(view[2], "fit_blocks")], blocks))
    fitted = []
    for own, index, local in views:
        if hasattr(local, "fit_blocks"):
            width = blocks.n_features if own is None else len(own.groups_[index])
            part = blocks.then(_take_subspace, own, index, n_features=width)
            fitted.append((own, index, local.fit_blocks(part)))
        else:
            fitted.append((own, index, next(whole)))
    return fitted


def _fit_whole(views: Sequence[tuple], blocks: _base.Blocks) -> list:
    """Fit other models to all rows at once, each in one task."""
    if not views:
        return []
    subspaces = [view[:2] for view in views]
    groups = [(local,) for _, _, local in views]
    return blocks.regrouped(_take_subspaces, _fit_gathered, groups, subspaces).values()


def _take_subspaces(block: _base.TrainingData, subspaces: list[tuple]) -> list[_base.TrainingData]:
    return [_take_subspace(block, *own) for own in subspaces]


def _take_subspace(block: _base.TrainingData, decomposition: Any, index: int) -> _base.TrainingData:
    return replace(block, X=np.ascontiguousarray(features_of(decomposition, index, block.X)))


def _fit_gathered(blocks: list[_base.TrainingData], estimator: Any) -> Any:
    rows = _base.join_blocks(blocks)
    weight = None if (rows.sample_weight == 1).all() else rows.sample_weight
    return _base.fit_weighted(clone(estimator), rows.X, rows.y, weight)


def _score(
    block: _base.TrainingData, settings: FusionSettings, views: list[list[tuple]], folds: Folds
) -> _base.TrainingData:
    """Return a block with held-out scores instead of features."""
    fold = folds.of(block)
    width = 1 if len(settings.classes) == 2 else len(settings.classes)
    scores = np.empty((len(block), len(views), width))
    for number, own in enumerate(views):
        for k, view in enumerate(own):
            rows = np.flatnonzero(fold == k)
            if len(rows):
                scores[rows, number] = settings.scores(view, block.X[rows])
    return replace(block, X=scores.reshape(len(block), -1))


def standardised_blocks(scores: _base.Blocks) -> tuple[ScoreScale, _base.Blocks]:
    """Return the standardisation of blocks of scores, and the standardised blocks."""
    _, seen = _base.survey(scores, has_classes=True)
    scale = _varying(seen.moments.mean, np.sqrt(seen.moments.variance))
    return scale, scores.then(_standardise, scale, n_features=len(scale.mean))


def fit_fusion_blocks(fusion: Any, R: _base.Blocks) -> Any:
    """Fit the fusion estimator, by blocks if possible."""
    if hasattr(fusion, "fit_blocks"):
        return fusion.fit_blocks(R)
    return _fit_whole([(None, 0, fusion)], R)[0]


def _standardise(block: _base.TrainingData, scale: ScoreScale) -> _base.TrainingData:
    return replace(block, X=np.ascontiguousarray(scale.apply(block.X)))
