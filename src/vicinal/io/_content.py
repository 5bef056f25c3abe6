"""What types alone cannot promise: indices within bounds, and search trees built afresh.

Compiled code follows the indices of a tree or of a sparse matrix without looking, so a file with a
wrong one would crash the process at the first prediction.
"""

import copy
import itertools
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.neighbors import BallTree, KDTree

from vicinal._base import is_array_api
from vicinal.io._errors import ModelFileError
from vicinal.io._walk import parts_of
from vicinal.neighbors import NeighborSearch

_TREES = {"kd_tree": KDTree, "ball_tree": BallTree}


def without_search_trees(model: Any) -> Any:
    """Return a copy of ``model`` that shares its arrays but holds rows in place of search trees."""
    shared: dict[int, Any] = {}
    holds_trees = False
    for part in parts_of(model):
        if is_array_api(part):
            raise TypeError(
                f"the model holds a {type(part).__module__}.{type(part).__name__}; only models "
                "fitted on NumPy arrays (or sparse matrices and frames) can be saved: fit it on "
                "numpy.asarray of the data."
            )
        if (isinstance(part, np.ndarray) and not part.dtype.hasobject) or sparse.issparse(part):
            shared[id(part)] = part
        elif type(part).__name__ == "Tree" and type(part).__module__ == "sklearn.tree._tree":
            shared[id(part)] = part
        elif isinstance(part, NeighborSearch) and hasattr(part, "_engine"):
            shared[id(part._engine)] = part._engine.X
            holds_trees = True
        elif isinstance(getattr(part, "_tree", None), KDTree | BallTree):
            shared[id(part._tree)] = None
            holds_trees = True
    return copy.deepcopy(model, shared) if holds_trees else model


def restore(model: Any) -> None:
    """Check the indices that compiled code will follow, and build the search trees again."""
    for part in list(parts_of(model)):
        if sparse.issparse(part):
            _check_sparse(part)
        elif hasattr(part, "tree_") and hasattr(part.tree_, "children_left"):
            _check_tree(part.tree_, part.n_features_in_)
        elif hasattr(part, "_predictors"):
            for predictor in itertools.chain.from_iterable(part._predictors):
                _check_predictor(predictor, part.n_features_in_)
        elif isinstance(part, NeighborSearch) and hasattr(part, "_engine"):
            part._rebuild_engine(part._engine)
        elif getattr(part, "_fit_method", None) in _TREES and part._tree is None:
            part._tree = _TREES[part._fit_method](
                part._fit_X,
                part.leaf_size,
                metric=part.effective_metric_,
                **part.effective_metric_params_,
            )


def _check_sparse(matrix: Any) -> None:
    if hasattr(matrix, "check_format"):
        matrix.check_format(full_check=True)


def _check_tree(tree: Any, n_features: int) -> None:
    """Raise unless every inner node leads to two later nodes and asks about a known feature."""
    inner = tree.children_left != -1
    _check_nodes(inner, tree.children_left, tree.children_right, tree.feature, n_features)
    if tree.n_features != n_features or np.any(tree.children_right[~inner] != -1):
        raise ModelFileError("a decision tree has nodes that lead nowhere.")


def _check_predictor(predictor: Any, n_features: int) -> None:
    """Do the same for a tree of histogram boosting."""
    nodes = predictor.nodes
    inner = nodes["is_leaf"] == 0
    _check_nodes(inner, nodes["left"], nodes["right"], nodes["feature_idx"], n_features)
    asked = inner & (nodes["is_categorical"] != 0)
    sets = min(len(predictor.binned_left_cat_bitsets), len(predictor.raw_left_cat_bitsets))
    if np.any(nodes["bitset_idx"][asked] >= sets):
        raise ModelFileError("a decision tree asks for a set of categories that it lacks.")


def _check_nodes(inner, left, right, feature, n_features) -> None:
    rows = np.flatnonzero(inner)
    for child in (left[rows].astype(np.int64), right[rows].astype(np.int64)):
        if np.any(child <= rows) or np.any(child >= len(inner)):
            raise ModelFileError("a decision tree has a node with a child out of range.")
    if np.any(feature[rows] < 0) or np.any(feature[rows] >= n_features):
        raise ModelFileError("a decision tree asks about a feature that it was not given.")
