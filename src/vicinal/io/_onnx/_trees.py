"""Trees and forests: one node finds the leaf of every row in every tree, a table its value."""

from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.ensemble import (
    ExtraTreesClassifier,
    ExtraTreesRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)

from vicinal.ensemble import (
    ObliviousBoostingClassifier,
    ObliviousBoostingRegressor,
    PrunedTreeClassifier,
    PrunedTreeRegressor,
)
from vicinal.io._errors import OnnxExportError
from vicinal.io._onnx._graph import Graph, Writer

TREE_CLASSIFIERS = (DecisionTreeClassifier, ExtraTreeClassifier)
TREE_REGRESSORS = (DecisionTreeRegressor, ExtraTreeRegressor)

# The node returns leaf numbers in single precision, which is exact up to here.
_MOST_LEAVES = 2**24


def leaf_values(
    graph: Graph, trees: list[Any], tables: list[np.ndarray], x: str, *, single: bool = True
) -> str:
    """Write the leaf value of each tree: (n, n_trees, width) from tables (n_nodes, width)."""
    nodes: dict[str, list] = {
        key: [] for key in ("tree", "node", "feature", "value", "mode", "yes", "no", "missing")
    }
    leaf_tree, leaf_node, parts = [], [], []
    for number, (tree, table) in enumerate(zip(trees, tables, strict=True)):
        if tree.n_outputs > 1:
            raise OnnxExportError(
                "a tree with several targets cannot be exported; fit one for each target."
            )
        count = tree.node_count
        is_leaf = tree.children_left == -1
        nodes["tree"] += [number] * count
        nodes["node"] += range(count)
        nodes["feature"] += np.where(is_leaf, 0, tree.feature).tolist()
        nodes["value"] += np.where(is_leaf, 0.0, tree.threshold).tolist()
        nodes["mode"] += np.where(is_leaf, "LEAF", "BRANCH_LEQ").tolist()
        nodes["yes"] += np.where(is_leaf, 0, tree.children_left).tolist()
        nodes["no"] += np.where(is_leaf, 0, tree.children_right).tolist()
        nodes["missing"] += np.where(is_leaf, 0, tree.missing_go_to_left).tolist()
        leaves = np.flatnonzero(is_leaf)
        leaf_tree += [number] * len(leaves)
        leaf_node += leaves.tolist()
        parts.append(table[leaves])
    values = np.concatenate(parts)
    if len(values) > _MOST_LEAVES:
        raise OnnxExportError(
            f"the trees have {len(values)} leaves, but at most {_MOST_LEAVES} can be exported; use "
            "fewer trees."
        )
    tensor = graph.onnx.numpy_helper.from_array
    # scikit-learn compares in single precision with thresholds in double.
    rounded = graph.cast(graph.cast(x, "FLOAT"), "DOUBLE") if single else x
    found = graph.add(
        "TreeEnsembleRegressor",
        rounded,
        domain="ai.onnx.ml",
        n_targets=len(trees),
        nodes_treeids=nodes["tree"],
        nodes_nodeids=nodes["node"],
        nodes_featureids=nodes["feature"],
        nodes_values_as_tensor=tensor(np.array(nodes["value"])),
        nodes_modes=nodes["mode"],
        nodes_truenodeids=nodes["yes"],
        nodes_falsenodeids=nodes["no"],
        nodes_missing_value_tracks_true=nodes["missing"],
        target_treeids=leaf_tree,
        target_nodeids=leaf_node,
        target_ids=leaf_tree,
        target_weights_as_tensor=tensor(np.arange(len(values), dtype=np.float64)),
    )
    return graph.add("Gather", graph.constant(values), graph.cast(found, "INT64"), axis=0)


def class_table(model: Any, n_classes: int | None = None) -> np.ndarray:
    """Return the class shares of every node; with ``n_classes``, for classes that are codes."""
    shares = model.tree_.value[:, 0, :]
    if n_classes is None or len(model.classes_) == n_classes:
        return shares
    full = np.zeros((len(shares), n_classes))
    full[:, model.classes_] = shares
    return full


def forest_proba(graph: Graph, models: list[Any], x: str, n_classes: int | None = None) -> str:
    """Write the probabilities of every tree, (n, n_trees, n_classes)."""
    tables = [class_table(model, n_classes) for model in models]
    return leaf_values(graph, [model.tree_ for model in models], tables, x)


def forest_values(graph: Graph, models: list[Any], x: str) -> str:
    """Write the predictions of every tree, (n, n_trees)."""
    tables = [model.tree_.value[:, 0, :1] for model in models]
    found = leaf_values(graph, [model.tree_ for model in models], tables, x)
    return graph.reshape(found, 0, -1)


def _tree_proba(graph: Graph, model: Any, x: str) -> str:
    return graph.total(forest_proba(graph, [model], x), 1)


def _forest_proba(graph: Graph, model: Any, x: str) -> str:
    return graph.average(forest_proba(graph, model.estimators_, x), 1)


def _forest_value(graph: Graph, model: Any, x: str) -> str:
    return graph.average(forest_values(graph, model.estimators_, x), 1, keep=True)


def _symmetric_scores(graph: Graph, model: Any, x: str) -> str:
    """Write the scores of boosted symmetric trees, each expanded to a tree of single nodes."""
    if model.is_categorical_.any():
        raise OnnxExportError(
            "target statistics of categorical columns cannot be exported; put TableEncoder before "
            "the model and set categorical_features=None."
        )
    # A code is above 0 where the value is not missing, above b where it exceeds edge b - 1, and
    # never above the last edge, which stands for no split.
    largest = np.finfo(np.float64).max
    own_edges, sources, *arrays = model._tree_arrays()
    edges = [np.concatenate([[-largest], own]) for own in own_edges]
    depth = model.depth_
    n_inner, position = 2**depth - 1, np.arange(2**depth)
    node = np.arange(2 * n_inner + 1)
    level = np.minimum(np.log2(node + 1).astype(int), depth - 1)
    is_leaf = node >= n_inner
    # Leaves in the order of their nodes: the first level is the last bit of a leaf's index.
    leaf = sum(((position >> (depth - 1 - d)) & 1) << d for d in range(depth))
    trees, tables = [], []
    for columns, codes, values in zip(*arrays, strict=True):
        at = [
            edges[j][b] if b < len(edges[j]) else largest
            for j, b in zip(columns, codes, strict=True)
        ]
        trees.append(
            SimpleNamespace(
                n_outputs=1,
                node_count=len(node),
                children_left=np.where(is_leaf, -1, 2 * node + 1),
                children_right=np.where(is_leaf, -1, 2 * node + 2),
                feature=sources[columns][level],
                threshold=np.array(at)[level],
                missing_go_to_left=np.ones(len(node), dtype=int),
            )
        )
        tables.append(np.concatenate([np.zeros((n_inner, values.shape[1])), values[leaf]]))
    scores = graph.total(leaf_values(graph, trees, tables, x, single=False), 1)
    return graph.plus(scores, model.intercept_)


def _symmetric_proba(graph: Graph, model: Any, x: str) -> str:
    return graph.probabilities(_symmetric_scores(graph, model, x), len(model.classes_))


PROBA: dict[type, Writer] = {
    ObliviousBoostingClassifier: _symmetric_proba,
    **dict.fromkeys(TREE_CLASSIFIERS, _tree_proba),
    PrunedTreeClassifier: lambda graph, model, x: _tree_proba(graph, model.tree_, x),
    RandomForestClassifier: _forest_proba,
    ExtraTreesClassifier: _forest_proba,
}
VALUES: dict[type, Writer] = {
    ObliviousBoostingRegressor: _symmetric_scores,
    **dict.fromkeys(TREE_REGRESSORS, lambda graph, model, x: forest_values(graph, [model], x)),
    PrunedTreeRegressor: lambda graph, model, x: forest_values(graph, [model.tree_], x),
    RandomForestRegressor: _forest_value,
    ExtraTreesRegressor: _forest_value,
}
