# ruff: noqa: F401
"""Private names of scikit-learn, all imported here, and optional packages."""

from importlib import import_module
from numbers import Integral
from types import ModuleType
from typing import Any

import numpy as np
from sklearn.base import _fit_context as fit_context
from sklearn.model_selection import KFold
from sklearn.preprocessing import TargetEncoder
from sklearn.utils import _safe_indexing as rows_of
from sklearn.utils._openmp_helpers import _openmp_effective_n_threads as openmp_threads
from sklearn.utils._param_validation import HasMethods as _HasMethods
from sklearn.utils._param_validation import Interval, Options, StrOptions, validate_params
from sklearn.utils.metaestimators import _BaseComposition as NamedParts
from sklearn.utils.parallel import _get_threadpool_controller as threadpool_controller
from sklearn.utils.validation import _check_feature_names_in as check_feature_names_in
from sklearn.utils.validation import _check_monotonic_cst as check_monotonic_cst
from sklearn.utils.validation import _check_sample_weight
from sklearn.utils.validation import _check_y as check_y
from sklearn.utils.validation import _num_samples as num_samples

# Of the parameters by which most estimators are run.
RUN_CONSTRAINTS: dict = {
    "n_jobs": [Integral, None],
    "random_state": ["random_state"],
    "verbose": ["verbose"],
}


def import_optional(name: str, *, needed_by: str, extra: str) -> ModuleType:
    """Import an optional package, or raise an error that names the extra to install."""
    try:
        return import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise ImportError(
            f"{needed_by} needs the package {package!r}, which is not installed; "
            f"install it with: pip install 'vicinal[{extra}]'"
        ) from error


class HasMethods(_HasMethods):
    """Constraint on an instance; a class with these methods does not satisfy it."""

    def is_satisfied_by(self, val: Any) -> bool:
        return not isinstance(val, type) and super().is_satisfied_by(val)

    def __str__(self) -> str:
        return super().__str__().replace("an object", "an instance, not a class,", 1)


def check_sample_weight(sample_weight: Any, X: Any, *, dtype: Any = None) -> np.ndarray:
    """Return weights as a vector; all of them zero is an error in every version."""
    weights = _check_sample_weight(sample_weight, X, dtype=dtype)
    if not weights.any():
        raise ValueError("Sample weights must contain at least one non-zero number.")
    return weights


def bootstrap_weights(
    forest: Any, sample_weight: np.ndarray | None, rng: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray]:
    """Sample the rows of a tree of a fitted forest; return them and the weights of all rows."""
    from sklearn.ensemble._forest import _generate_sample_indices

    arguments = [rng, forest._n_samples, forest._n_samples_bootstrap]
    by_weight = hasattr(forest, "_sample_weight")  # scikit-learn 1.9 samples by weight
    rows = _generate_sample_indices(*arguments, *([forest._sample_weight] if by_weight else []))
    weights = np.bincount(rows, minlength=forest._n_samples).astype(np.float64)
    if not by_weight and sample_weight is not None:
        weights *= sample_weight
    return rows, weights


def grow_tree(tree: Any, X: np.ndarray, y: np.ndarray, weights: np.ndarray, rng) -> Any:
    """Return the ``tree_`` of a copy of a fitted tree, fitted with other weights and seed.

    ``X`` is float32 without missing values, ``y`` float64 with a column per output, codes for
    classification. Depth, number of leaves and weight of a leaf are not bounded.
    """
    from sklearn.tree._classes import CRITERIA_CLF, CRITERIA_REG, DENSE_SPLITTERS
    from sklearn.tree._tree import DepthFirstTreeBuilder, Tree

    if hasattr(tree, "classes_"):
        n_classes = np.atleast_1d(np.asarray(tree.n_classes_, dtype=np.intp))
        criterion = CRITERIA_CLF[tree.criterion](tree.n_outputs_, n_classes)
    else:
        n_classes = np.ones(tree.n_outputs_, dtype=np.intp)
        criterion = CRITERIA_REG[tree.criterion](tree.n_outputs_, len(X))
    leaf = tree.min_samples_leaf
    split = max(tree.min_samples_split, 2 * leaf)
    unbounded = np.iinfo(np.int32).max
    splitter = DENSE_SPLITTERS[tree.splitter](criterion, tree.max_features_, leaf, 0.0, rng, None)
    grown = Tree(tree.n_features_in_, n_classes, tree.n_outputs_)
    builder = DepthFirstTreeBuilder(splitter, split, leaf, 0.0, unbounded, 0.0)
    builder.build(grown, X, y, weights, None)
    return grown


def boosted_parts(model: Any) -> tuple[list, np.ndarray]:
    """Return all trees of histogram boosting in the order of the rounds, and where they start."""
    return [tree for trees in model._predictors for tree in trees], model._baseline_prediction


def boosted_outputs(model: Any, scores: np.ndarray) -> np.ndarray:
    """Return probabilities or values for raw scores of histogram boosting."""
    if hasattr(model, "classes_"):
        return model._loss.predict_proba(scores)
    return model._loss.link.inverse(scores.ravel())


def neighbor_targets(model: Any) -> np.ndarray:
    """Return the targets of the training rows of a nearest-neighbour model of scikit-learn."""
    targets = np.asarray(model._y)
    is_coded = hasattr(model, "classes_") and targets.ndim == 1
    return model.classes_[targets] if is_coded else targets


def scorer_parts(scorer: Any) -> tuple[Any, int, dict]:
    """Return function, sign and options of a scorer; ``None``, 1 and nothing of any callable."""
    function = getattr(scorer, "_score_func", None)
    return function, getattr(scorer, "_sign", 1), getattr(scorer, "_kwargs", {})


def svc_has_probability(svc: Any) -> bool:
    """Return whether a fitted SVC has the sigmoids of probabilities."""
    return bool(getattr(svc, "_effective_probability", svc.probability))


def svc_gamma(svc: Any) -> float:
    """Return the width of the kernel that a fitted SVC uses."""
    return float(svc._gamma)


def target_encoder(target_type: str, n_folds: int) -> TargetEncoder:
    """Return an encoder whose training rows get statistics of other folds, sampled with seed 0."""
    if TargetEncoder().shuffle == "deprecated":  # scikit-learn 1.9 takes splitters
        folds = KFold(n_folds, shuffle=True, random_state=0)
        return TargetEncoder(target_type=target_type, cv=folds)
    return TargetEncoder(target_type=target_type, cv=n_folds, shuffle=True, random_state=0)


def tuned_label(model: Any) -> Any:
    """Return the label whose probability a tuned threshold is about, ``None`` for the second."""
    return model._curve_scorer._get_pos_label()
