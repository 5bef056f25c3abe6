import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.ensemble import RandomForestRegressor

from vicinal._kernels.ensemble._trees import TREE_FIELDS, joined_nodes, tree_leaves


@pytest.mark.parametrize("depth", [None, 1])
def test_leaves_are_those_of_scikit_learn(rng, depth):
    X = rng.normal(size=(120, 4)).astype(np.float32)
    X[rng.uniform(size=X.shape) < 0.2] = np.nan
    forest = RandomForestRegressor(9, max_depth=depth, random_state=0).fit(X, rng.normal(size=120))
    trees = [tree.tree_ for tree in forest.estimators_]
    nodes = joined_nodes([tree.__getstate__()["nodes"] for tree in trees], TREE_FIELDS)
    leaves = np.empty((120, 9), dtype=np.int64)
    tree_leaves(X, nodes, leaves)
    assert_array_equal(leaves - nodes.roots, forest.apply(X))


def test_a_tree_of_one_node_has_one_leaf(rng):
    tree = RandomForestRegressor(1, random_state=0).fit(np.zeros((5, 1)), rng.normal(size=5))
    nodes = joined_nodes([tree.estimators_[0].tree_.__getstate__()["nodes"]], TREE_FIELDS)
    leaves = np.full((3, 1), -1)
    tree_leaves(np.zeros((3, 1), dtype=np.float32), nodes, leaves)
    assert_array_equal(leaves, 0)
