import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_classification, make_friedman1
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from vicinal._kernels.ensemble._pruning import (
    PruningPath,
    choose_penalty,
    collapse_alphas,
    leaf_counts,
    path_losses,
    penalty_grid,
    pruning_path,
    terminal_ranges,
)


@pytest.fixture(scope="module")
def regression():
    X, y = make_friedman1(n_samples=200, noise=1.0, random_state=0)
    return X, y, DecisionTreeRegressor(random_state=0).fit(X, y)


def test_path_by_hand():
    """Root 0 with children 1 (inner: leaves 2, 3) and 4 (leaf)."""
    left, right = np.array([1, 2, -1, -1, -1]), np.array([4, 3, -1, -1, -1])
    risk = np.array([1.0, 0.4, 0.1, 0.1, 0.1])
    alphas = collapse_alphas(left, right, risk)
    # Node 1: (0.4 - 0.2) / 1 = 0.2; root before: (1 - 0.3) / 2 = 0.35, after: (1 - 0.5) / 1 = 0.5.
    assert_allclose(alphas, [0.5, 0.2, 0.0, 0.0, 0.0])
    parent, limit = terminal_ranges(left, right, alphas)
    assert_array_equal(parent, [-1, 0, 1, 1, 0])
    assert_allclose(limit, [np.inf, 0.5, 0.2, 0.2, 0.5])
    assert_array_equal(
        leaf_counts(PruningPath(alphas, parent, limit), np.array([0.0, 0.2, 0.3, 0.5])),
        [3, 2, 2, 1],
    )


def test_a_node_that_goes_with_its_ancestor_never_is_a_leaf():
    left, right = np.array([1, 2, -1, -1, -1]), np.array([4, 3, -1, -1, -1])
    # Node 1 alone would need 1.0; the root with all below it (2.0 - 0.3) / 2 = 0.85.
    risk = np.array([2.0, 1.2, 0.1, 0.1, 0.1])
    alphas = collapse_alphas(left, right, risk)
    assert_allclose(alphas, [0.85, np.inf, 0.0, 0.0, 0.0])


def test_path_equals_scikit_learns(regression):
    X, y, tree = regression
    path = pruning_path(tree.tree_)
    alphas = path.alphas
    reference = tree.cost_complexity_pruning_path(X, y).ccp_alphas
    ours = np.unique(np.append(alphas[np.isfinite(alphas)], 0.0))
    for alpha in reference:
        assert np.abs(ours - alpha).min() < 1e-12
    for alpha in penalty_grid(alphas)[1::20]:
        pruned = DecisionTreeRegressor(random_state=0, ccp_alpha=alpha).fit(X, y)
        assert leaf_counts(path, np.array([alpha]))[0] == pruned.get_n_leaves()


def test_losses_equal_those_of_refitted_trees(regression):
    X, y, tree = regression
    X_new, y_new = make_friedman1(n_samples=150, noise=1.0, random_state=1)
    weight = np.random.RandomState(0).uniform(size=150)
    path = pruning_path(tree.tree_)
    grid = penalty_grid(path.alphas)[1::15]
    rows = tree.apply(X_new), y_new, weight
    for power in (1, 2):
        found = path_losses(path, tree.tree_.value[:, 0, 0], grid, rows, power=power)
        for alpha, loss in zip(grid, found, strict=True):
            pruned = DecisionTreeRegressor(random_state=0, ccp_alpha=alpha).fit(X, y)
            expected = weight @ np.abs(y_new - pruned.predict(X_new)) ** power
            assert_allclose(loss, expected, rtol=1e-10)


def test_misclassification_equals_that_of_refitted_trees():
    X, y = make_classification(300, n_informative=5, n_classes=3, flip_y=0.2, random_state=0)
    tree = DecisionTreeClassifier(random_state=0).fit(X[:200], y[:200])
    path = pruning_path(tree.tree_)
    grid = penalty_grid(path.alphas)[1:]
    classes = tree.tree_.value[:, 0, :].argmax(axis=1)
    rows = tree.apply(X[200:]), y[200:], np.ones(100)
    found = path_losses(path, classes, grid, rows, power=0)
    for alpha, loss in zip(grid, found, strict=True):
        pruned = DecisionTreeClassifier(random_state=0, ccp_alpha=alpha).fit(X[:200], y[:200])
        assert loss == np.sum(pruned.predict(X[200:]) != y[200:])


def test_a_tree_of_one_leaf_has_one_penalty():
    left = right = np.array([-1])
    alphas = collapse_alphas(left, right, np.array([0.3]))
    assert_allclose(alphas, [0.0])
    assert_allclose(penalty_grid(alphas), [0.0])


def test_grid_has_zero_geometric_means_and_an_end():
    assert_allclose(penalty_grid(np.array([0.4, 0.1, 0.0])), [0.0, 0.2, 0.4], rtol=1e-8)
    assert penalty_grid(np.array([0.4, 0.1, 0.0]))[-1] > 0.4


def test_choice_takes_the_larger_penalty():
    error, se = np.array([0.30, 0.20, 0.20, 0.24, 0.5]), np.full(5, 0.05)
    assert choose_penalty(error, se, "min") == 2
    assert choose_penalty(error, se, "1se") == 3
