"""Parts of the search for surface points, by hand."""

from types import SimpleNamespace

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_iris
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from vicinal.surface import DecisionSurface
from vicinal.surface._problem import Chart, Problem, ReferenceRows, SurfacePool
from vicinal.surface._search import (
    SurfaceSearch,
    SurfaceStatus,
    TreeBoxes,
    _different_directions,
    _just_inside,
    nearest_by_labels,
    random_proposals,
    segment_ends,
)


def test_points_on_a_threshold_move_into_their_leaf_as_trees_compare():
    """A leaf holds low < x <= high; 0.1 and 0.7 are not numbers of single precision."""
    low = np.array([[0.5, -np.inf, 0.1, -np.inf, 0.7, -np.inf, -np.inf]])
    high = np.array([[np.inf, 0.5, np.inf, 0.1, np.inf, 0.7, np.inf]])
    points = np.array([[0.5, 0.5, 0.1, 0.1, 0.7, 0.7, 0.1]])
    rows = np.array([[0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.1]])
    found = _just_inside(points, rows, low, high)
    single = found[:, :-1].astype(np.float32)
    assert_array_equal(single, found[:, :-1])
    assert (single > low[:, :-1]).all()
    assert (single <= high[:, :-1]).all()
    assert_allclose(found, points, rtol=2e-7)
    assert found[0, 1] == 0.5
    assert found[0, -1] == 0.1  # not changed, so not rounded


def test_candidates_in_other_directions_are_selected_too():
    Z, owner = np.zeros((2, 2)), np.array([0, 0, 0, 1, 0])
    outer = np.array([[1.0, 0.0], [2.0, 0.1], [0.0, 3.0], [1.0, 1.0], [-4.0, 0.0]])
    found = _different_directions(Z, owner, outer, np.linalg.norm(outer, axis=1))
    # The second candidate has almost the direction of the first.
    assert sorted(found) == [0, 2, 3, 4]


def test_nearest_leaf_has_the_values_of_fixed_columns(rng):
    X = rng.uniform(size=(300, 2))
    tree = DecisionTreeClassifier(max_depth=4, random_state=0)
    tree.fit(X, np.sin(9 * X[:, 0]) + np.sin(7 * X[:, 1]) > 0)
    Q, grid = X[:20], np.linspace(-0.5, 1.5, 4001)
    own = tree.predict(Q).astype(int)
    chart = Chart(Q, np.array([2.0, 1.0]), np.array([True, False]))
    found = TreeBoxes(tree.tree_).nearest(Problem(None, chart, own))
    for i, row in enumerate(Q):
        line = np.column_stack([grid, np.full(len(grid), row[1])])
        other = grid[tree.predict(line) != own[i]]
        expected = np.abs(other - row[0]).min(initial=np.inf)
        distance = abs(found.points[i, 0] / 2.0 - row[0])
        assert abs(distance - (expected if np.isfinite(expected) else 0.0)) <= 1e-3


def test_rows_that_lose_their_label_at_fixed_columns_are_replaced():
    """The nearest row has label 1 by its second column, which is fixed at zero."""
    rows, free = np.array([[0.2, 5.0], [2.0, 0.0]]), np.array([True, False])
    model = SimpleNamespace(codes=lambda X: (X.sum(axis=1) > 1.0).astype(int))
    chart = Chart(np.zeros((1, 2)), np.ones(2), free)
    problem = Problem(model, chart, np.zeros(1, dtype=np.int64))
    references = ReferenceRows(rows[:, free], np.ones(2, dtype=np.int64), np.array([True]))
    search = SurfaceSearch(references, None, None, None, 1.0, 1e-6, 1)
    owner, points = segment_ends(problem, search, 1, check=True)
    assert owner.tolist() == [0]
    assert_allclose(points, [[2.0]])


def test_known_surface_points_start_a_search_by_labels():
    """A small disc of label 1 near the query holds no row; a point of its border is known."""

    def codes(X):
        return ((np.hypot(X[:, 0] + 1.0, X[:, 1]) < 0.02) | (X[:, 0] > 5.0)).astype(int)

    chart = Chart(np.zeros((1, 2)), np.ones(2))
    problem = Problem(SimpleNamespace(codes=codes), chart, np.zeros(1, dtype=np.int64))
    rows = np.array([[0.0, 0.0], [10.0, 0.0]])
    references = ReferenceRows(rows, codes(rows), np.array([True, True]))
    pool = SurfacePool(
        np.array([[-1.0, 0.0]]),
        np.array([[-1.0, 0.5]]),
        np.array([[-1.0, 0.02]]),
        np.array([[1, 0]]),
    )
    proposals = random_proposals(np.random.RandomState(0), 2)
    distances = [
        np.linalg.norm(
            nearest_by_labels(
                problem, SurfaceSearch(references, known, proposals, None, 1.0, 1e-6, 1)
            ).points[0]
        )
        for known in (pool, None)
    ]
    assert_allclose(distances, [0.98, 5.0], rtol=1e-2)


def test_queries_of_a_class_without_rows_start_on_a_segment():
    X, y = load_iris(return_X_y=True)
    model = GaussianNB().fit(X, y)
    codes = model.predict(X)
    queries = X[codes == 2][:8]
    known, unseen = (
        DecisionSurface(model, random_state=0).fit(rows).orthogonal_projection(queries)
        for rows in (X, X[codes < 2])
    )
    assert_array_equal(unseen.status, SurfaceStatus.CONVERGED)
    assert_allclose(unseen.points, known.points, atol=1e-2)
