"""Trees and forests: one node finds the leaf of every row in every tree, a table its value."""

from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn import ensemble, tree

import vicinal
from vicinal.io._errors import OnnxExportError
from vicinal.io._onnx._graph import Node, writes

TREE_CLASSIFIERS = (tree.DecisionTreeClassifier, tree.ExtraTreeClassifier)
TREE_REGRESSORS = (tree.DecisionTreeRegressor, tree.ExtraTreeRegressor)

# The node returns leaf numbers in single precision, which is exact up to here.
_MOST_LEAVES = 2**24


def tree_node(
    x: Node, trees: list[Any], targets: tuple[Any, ...], n_targets: int, *, single: bool = True
) -> Node:
    """Write the sum over trees of the weights that each leaf gives to each target.

    ``targets`` are the tree, node, target and weight of every entry. The sums come in single
    precision. With ``single``, rows are rounded as scikit-learn rounds them before it compares.
    """
    parts = []
    for number, one in enumerate(trees):
        is_leaf = one.children_left == -1
        own = one.feature, one.threshold, one.children_left, one.children_right
        inner = [np.where(is_leaf, 0, values) for values in own]
        missing = np.where(is_leaf, 0, one.missing_go_to_left)
        modes = np.where(is_leaf, "LEAF", "BRANCH_LEQ")
        count = len(is_leaf)
        parts.append((np.full(count, number), np.arange(count), *inner, missing, modes))
    tree_ids, node_ids, features, thresholds, yes, no, missing, modes = (
        np.concatenate(column) for column in zip(*parts, strict=True)
    )
    tensor = x.graph.onnx.numpy_helper.from_array
    return (x.cast("FLOAT").cast("DOUBLE") if single else x).op(
        "TreeEnsembleRegressor",
        domain="ai.onnx.ml",
        n_targets=n_targets,
        nodes_treeids=tree_ids.tolist(),
        nodes_nodeids=node_ids.tolist(),
        nodes_featureids=features.astype(int).tolist(),
        nodes_values_as_tensor=tensor(thresholds.astype(np.float64)),
        nodes_modes=modes.tolist(),
        nodes_truenodeids=yes.astype(int).tolist(),
        nodes_falsenodeids=no.astype(int).tolist(),
        nodes_missing_value_tracks_true=missing.astype(int).tolist(),
        target_treeids=np.asarray(targets[0]).tolist(),
        target_nodeids=np.asarray(targets[1]).tolist(),
        target_ids=np.asarray(targets[2]).tolist(),
        target_weights_as_tensor=tensor(np.asarray(targets[3], dtype=np.float64)),
    )


def leaf_values(
    x: Node, trees: list[Any], tables: list[np.ndarray], *, single: bool = True
) -> Node:
    """Write the leaf value of each tree: (n, n_trees, width) from tables (n_nodes, width)."""
    leaves = [np.flatnonzero(one.children_left == -1) for one in trees]
    owner = np.repeat(np.arange(len(trees)), [len(own) for own in leaves])
    values = np.concatenate([table[own] for table, own in zip(tables, leaves, strict=True)])
    if len(values) > _MOST_LEAVES:
        raise OnnxExportError(
            f"the trees have {len(values)} leaves, but at most {_MOST_LEAVES} can be exported; use "
            "fewer trees."
        )
    targets = owner, np.concatenate(leaves), owner, np.arange(len(values))
    found = tree_node(x, trees, targets, len(trees), single=single)
    return found.cast("INT64").of(values.astype(np.float64))


def forest_proba(models: list[Any], x: Node, n_classes: int | None = None) -> Node:
    """Write the probabilities of every tree, (n, n_trees, n_classes).

    With ``n_classes``, classes are codes of which a tree may have seen some.
    """
    trees, tables = _arrays(models), []
    for model in models:
        shares = model.tree_.value[:, 0, :]
        if n_classes is not None:
            shares = shares @ (np.asarray(model.classes_)[:, None] == np.arange(n_classes))
        tables.append(shares)
    return leaf_values(x, trees, tables)


def forest_values(models: list[Any], x: Node) -> Node:
    """Write the predictions of every tree, (n, n_trees)."""
    tables = [model.tree_.value[:, 0, :1] for model in models]
    return leaf_values(x, _arrays(models), tables).reshape(0, -1)


def _arrays(models: list[Any]) -> list[Any]:
    trees = [model.tree_ for model in models]
    if any(one.n_outputs > 1 for one in trees):
        raise OnnxExportError(
            "a tree with several targets cannot be exported; fit one for each target."
        )
    return trees


# --- boosting ---


def _histogram_scores(model: Any, x: Node) -> Node:
    """Write the scores of histogram boosting; a split of categories reads a column of its own."""
    stages, width = model._predictors, model.n_features_in_
    is_categorical = np.zeros(width, dtype=bool)
    if model.is_categorical_ is not None:
        is_categorical = np.asarray(model.is_categorical_, dtype=bool)
    # Categorical columns come first.
    sources = np.r_[np.flatnonzero(is_categorical), np.flatnonzero(~is_categorical)]
    trees, tables, splits = [], [], []
    for one in (one for stage in stages for one in stage):
        nodes, is_leaf = one.nodes, one.nodes["is_leaf"].astype(bool)
        feature = sources[nodes["feature_idx"]]
        for at in np.flatnonzero(nodes["is_categorical"].astype(bool) & ~is_leaf):
            bits = np.unpackbits(
                one.raw_left_cat_bitsets[nodes["bitset_idx"][at]].view(np.uint8), bitorder="little"
            )
            splits.append((nodes["feature_idx"][at], bits, nodes["missing_go_to_left"][at]))
            feature[at] = width + len(splits) - 1
        largest = np.finfo(np.float64).max  # a threshold of infinity parts missing values
        trees.append(
            SimpleNamespace(
                feature=feature,
                threshold=np.where(
                    nodes["is_categorical"], 0.5, np.minimum(nodes["num_threshold"], largest)
                ),
                children_left=np.where(is_leaf, -1, nodes["left"].astype(int)),
                children_right=np.where(is_leaf, -1, nodes["right"].astype(int)),
                missing_go_to_left=nodes["missing_go_to_left"],
            )
        )
        tables.append(nodes["value"][:, None])
    if splits:
        x = _with_category_splits(model, x, sources, splits)
    found = leaf_values(x, trees, tables, single=False).reshape(0, len(stages), len(stages[0]))
    return found.total(1) + np.ravel(model._baseline_prediction)


def _with_category_splits(model: Any, x: Node, sources: np.ndarray, splits: list) -> Node:
    """Write further columns: for each split of categories, 0 for those that go left and else 1."""
    numbers = np.array([number for number, _, _ in splits])
    total = x.repeat(np.zeros(len(splits)))
    for number, known in enumerate(model._preprocessor.named_transformers_["encoder"].categories_):
        own = np.flatnonzero(numbers == number)
        if not len(own):
            continue
        known = known.astype(np.float64)
        known = known[~np.isnan(known)]
        # Missing and unknown values, which equal none of the categories, go their own way.
        missing = np.array([1.0 - splits[k][2] for k in own])
        table = np.stack([1.0 - splits[k][1][: len(known)] for k in own], axis=1) - missing
        full = np.zeros((len(known) + 1, len(splits)))
        full[:, own] = np.vstack([table, missing])
        column = x.columns([sources[number]])
        total = total + (column.one_hot(known) @ full[:-1] + full[-1])
    return x.graph.concat([x, total])


@writes("values", vicinal.ObliviousBoostingRegressor)
def _symmetric_scores(model: Any, x: Node) -> Node:
    """Write the scores of boosted symmetric trees, each expanded to a tree of single nodes."""
    # A code is above 0 where the value is not missing, above b where it exceeds edge b - 1, and
    # never above the last edge, which stands for no split.
    largest = np.finfo(np.float64).max
    own_edges, own_sources, *arrays = model._tree_arrays()
    edges = [np.concatenate([[-largest], own]) for own in own_edges]
    columns, sources, width = model._columns, own_sources.copy(), model.n_features_in_
    # Categories are replaced by their codes, in further columns.
    parts = [x]
    for j, known, table in zip(columns.categorical, model.categories_, columns.tables, strict=True):
        table = table.T.astype(np.float64)
        own = x.columns([j]).one_hot(np.asarray(known, dtype=np.float64))
        parts.append(own @ (table[:-1] - table[-1]) + table[-1])
    sources[len(edges) :] = width + np.arange(len(sources) - len(edges))
    x = x.graph.concat(parts)
    depth = model.depth_
    n_inner, position = 2**depth - 1, np.arange(2**depth)
    node = np.arange(2 * n_inner + 1)
    level = np.minimum(np.log2(node + 1).astype(int), depth - 1)
    is_leaf = node >= n_inner
    # Leaves in the order of their nodes: the first level is the last bit of a leaf's index.
    leaf = sum(((position >> (depth - 1 - d)) & 1) << d for d in range(depth))
    trees, tables = [], []
    for split_columns, codes, values in zip(*arrays, strict=True):
        at = [
            b if j >= len(edges) else edges[j][b] if b < len(edges[j]) else largest
            for j, b in zip(split_columns, codes, strict=True)
        ]
        trees.append(
            SimpleNamespace(
                children_left=np.where(is_leaf, -1, 2 * node + 1),
                children_right=np.where(is_leaf, -1, 2 * node + 2),
                feature=sources[split_columns][level],
                threshold=np.array(at, dtype=np.float64)[level],
                missing_go_to_left=np.ones(len(node), dtype=int),
            )
        )
        tables.append(np.concatenate([np.zeros((n_inner, values.shape[1])), values[leaf]]))
    return leaf_values(x, trees, tables, single=False).total(1) + model.intercept_


@writes("proba", vicinal.ObliviousBoostingClassifier, ensemble.HistGradientBoostingClassifier)
def _boosted_proba(model: Any, x: Node) -> Node:
    is_symmetric = isinstance(model, vicinal.ObliviousBoostingClassifier)
    scores = (_symmetric_scores if is_symmetric else _histogram_scores)(model, x)
    return scores.probabilities(len(model.classes_))


@writes("values", ensemble.HistGradientBoostingRegressor)
def _histogram_value(model: Any, x: Node) -> Node:
    scores = _histogram_scores(model, x)
    return scores.op("Exp") if model.loss in ("gamma", "poisson") else scores


# --- single trees and forests ---


@writes("proba", *TREE_CLASSIFIERS, vicinal.PrunedTreeClassifier)
def _tree_proba(model: Any, x: Node) -> Node:
    tree = model.tree_ if isinstance(model, vicinal.PrunedTreeClassifier) else model
    return forest_proba([tree], x).total(1)


@writes("values", *TREE_REGRESSORS, vicinal.PrunedTreeRegressor)
def _tree_value(model: Any, x: Node) -> Node:
    return forest_values(
        [model.tree_ if isinstance(model, vicinal.PrunedTreeRegressor) else model], x
    )


@writes("proba", ensemble.RandomForestClassifier, ensemble.ExtraTreesClassifier)
def _forest_proba(model: Any, x: Node) -> Node:
    return forest_proba(model.estimators_, x).average(1)


@writes("values", ensemble.RandomForestRegressor, ensemble.ExtraTreesRegressor)
def _forest_value(model: Any, x: Node) -> Node:
    return forest_values(model.estimators_, x).average(1, keep=True)
