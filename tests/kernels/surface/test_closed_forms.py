"""Boxes of a decision tree: they tile the space, and the nearest point is a clip."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.tree import DecisionTreeClassifier

from vicinal._kernels.surface._closed_forms import leaf_boxes, nearest_in_boxes


def boxes(tree, n_features):
    inner = tree.tree_
    return leaf_boxes(
        inner.children_left, inner.children_right, inner.feature, inner.threshold, n_features
    )


def test_every_row_lies_in_the_box_of_its_leaf(rng):
    X, y = rng.normal(size=(60, 3)), rng.randint(0, 3, 60)
    tree = DecisionTreeClassifier(max_depth=5, random_state=0).fit(X, y)
    leaves, low, high = boxes(tree, 3)
    inside = ((low < X[:, None]) & (X[:, None] <= high)).all(axis=2)
    assert_array_equal(inside.sum(axis=1), 1)
    assert_array_equal(leaves[inside.argmax(axis=1)], tree.apply(X))


def test_a_stump_without_splits_is_the_whole_space():
    leaves, low, high = boxes(DecisionTreeClassifier().fit([[0.0], [1.0]], [1, 1]), 1)
    assert leaves.tolist() == [0]
    assert low[0, 0] == -np.inf
    assert high[0, 0] == np.inf


def test_nearest_point_by_hand():
    low, high = np.array([[0.0, 0.0], [5.0, 0.0]]), np.array([[1.0, 1.0], [6.0, 1.0]])
    Q = np.array([[3.0, 0.5], [3.0, 0.5], [0.5, 0.5]])
    allowed = np.array([[True, True], [False, True], [False, False]])
    points, distances, choice = nearest_in_boxes(Q, allowed, low, high, np.array([2.0, 1.0]))
    # Equally far: the first box is taken.
    assert_allclose(points[:2], [[1.0, 0.5], [5.0, 0.5]])
    assert_allclose(distances, [4.0, 4.0, np.inf])
    assert choice[0] == 0
