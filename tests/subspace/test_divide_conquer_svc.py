import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_blobs, make_moons
from sklearn.svm import SVC

from vicinal._kernels.subspace import _divide_conquer
from vicinal.subspace import DivideConquerSVC
from vicinal.subspace._divide_conquer_svc import learn_centers


@pytest.fixture(scope="module")
def moons():
    return make_moons(600, noise=0.2, random_state=0)


def test_one_cluster_is_scikit_learns_machine(moons, three_classes):
    X, y = moons
    ours = DivideConquerSVC(5.0, 1.5, n_clusters=1).fit(X, y)
    theirs = SVC(C=5.0, gamma=1.5).fit(X, y)
    assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-6)
    X, y = three_classes
    ours = DivideConquerSVC(n_clusters=1).fit(X, y)
    assert np.mean(ours.predict(X) == SVC().fit(X, y).predict(X)) > 0.95


def test_a_query_is_predicted_by_its_own_cluster(moons):
    X, y = moons
    model = DivideConquerSVC(5.0, 1.5, n_clusters=5, random_state=0)
    model.fit(X, y)
    clusters = model.predict_cluster(X)
    assert_array_equal(np.bincount(clusters), model.cluster_sizes_)
    assert model.cluster_centers_.shape == (model.n_clusters_, 2)
    for c in range(model.n_clusters_):
        rows = clusters == c
        if isinstance(model.estimators_[c], int):
            continue
        own = SVC(C=5.0, gamma=1.5).fit(X[rows], y[rows])
        assert_allclose(model.decision_function(X[rows]), own.decision_function(X[rows]), atol=1e-6)


def test_large_clusters_are_divided(moons):
    model = DivideConquerSVC(n_clusters=2, max_cluster_size=60, random_state=0).fit(*moons)
    assert model.cluster_sizes_.max() <= 60
    assert model.cluster_sizes_.sum() == 600
    assert model.cluster_sizes_.min() > 0


def test_coinciding_rows_cannot_be_divided(rng):
    X, y = np.zeros((50, 2)), np.repeat([0, 1], 25)
    X[:5] = rng.normal(size=(5, 2))
    model = DivideConquerSVC(n_clusters=2, max_cluster_size=10, random_state=0).fit(X, y)
    assert model.cluster_sizes_.max() == 45


def test_a_cluster_of_one_class_predicts_it():
    X, group = make_blobs(90, centers=[[-9, 0], [0, 9], [9, 0]], cluster_std=0.5, random_state=0)
    y = np.array(["left", "right"])[(group == 2).astype(int)]
    model = DivideConquerSVC(n_clusters=3, random_state=0).fit(X, y)
    assert all(isinstance(machine, int) for machine in model.estimators_)
    assert model.score(X, y) == 1.0
    assert set(model.decision_function(X)) == {-1.0, 1.0}
    three = DivideConquerSVC(n_clusters=3, random_state=0).fit(X, group)
    assert_array_equal(three.decision_function(X).max(axis=1), 1.0)
    assert three.score(X, group) == 1.0


def test_exact_solution_is_the_cold_one_in_fewer_steps():
    X, _ = make_blobs(600, centers=9, cluster_std=0.5, center_box=(-12, 12), random_state=0)
    signs = np.where(np.sin(3 * X[:, 0]) + np.cos(2 * X[:, 1]) > 0, 1.0, -1.0)
    model = DivideConquerSVC(10.0, 3.0, n_clusters=9, prediction="exact", random_state=0).fit(
        X, signs
    )
    alpha, gradient = np.zeros(600), -np.ones(600)
    steps, _ = _divide_conquer.descend_dual(
        X, signs, np.full(600, 10.0), 3.0, alpha, gradient, 1e-3, 10**7, 600
    )
    cold = _divide_conquer.dual_objective(alpha, gradient)
    assert_allclose(model.dual_objective_, cold, rtol=1e-5)
    assert model.n_steps_[0] < 0.3 * steps
    margins = _divide_conquer.rbf_product(X, X, 3.0, alpha * signs)
    assert_allclose(model.decision_function(X), margins, atol=0.02)


def test_exact_machine_of_three_classes(three_classes):
    X, y = three_classes
    model = DivideConquerSVC(n_clusters=3, prediction="exact", random_state=0).fit(X, y)
    assert model.dual_coef_.shape == (len(model.support_vectors_), 3)
    assert np.mean(model.predict(X) == SVC().fit(X, y).predict(X)) > 0.9


def test_stopped_exact_solver_warns(moons, monkeypatch):
    from sklearn.exceptions import ConvergenceWarning

    monkeypatch.setattr("vicinal.subspace._divide_conquer_svc._MAX_STEPS", 3)
    with pytest.warns(ConvergenceWarning, match="stopped after 3 steps"):
        DivideConquerSVC(10.0, 2.0, n_clusters=2, prediction="exact").fit(*moons)


def test_class_weight_is_a_factor_on_the_weights(moons):
    X, y = moons
    by_class = DivideConquerSVC(n_clusters=2, class_weight={0: 1.0, 1: 3.0}, random_state=0)
    by_class.fit(X, y)
    by_row = SVC(gamma=by_class.gamma_, class_weight={0: 1.0, 1: 3.0})
    rows = by_class.predict_cluster(X) == 0
    by_row.fit(X[rows], y[rows])
    assert_allclose(
        by_class.decision_function(X[rows]), by_row.decision_function(X[rows]), atol=1e-6
    )
    balanced = DivideConquerSVC(n_clusters=2, class_weight="balanced", random_state=0).fit(X, y)
    even = DivideConquerSVC(n_clusters=2, random_state=0).fit(X, y)
    assert_allclose(balanced.decision_function(X), even.decision_function(X), atol=1e-6)


def test_number_of_clusters_follows_the_rows(rng):
    X = rng.normal(size=(4100, 2))
    y = (X[:, 0] > 0).astype(int)
    assert DivideConquerSVC(random_state=0).fit(X, y).n_clusters_ == 3
    with pytest.raises(ValueError, match="n_clusters=20 exceeds the n_samples=10"):
        DivideConquerSVC(n_clusters=20).fit(X[:10], np.arange(10) % 2)


def test_equal_rows_are_one_cluster(rng):
    X = np.repeat([[1.0, 2.0]], 6, axis=0)
    assert_allclose(learn_centers(X, np.ones(6), 3, rng), [[1.0, 2.0]])
