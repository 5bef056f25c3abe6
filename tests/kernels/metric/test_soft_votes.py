"""Expected accuracy, its gradient and the votes, as functions on arrays."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_wine
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.preprocessing import StandardScaler

from vicinal._base import as_numpy
from vicinal._kernels.metric._soft_votes import (
    Anchors,
    References,
    expected_accuracy,
    own_class_probabilities,
    soft_votes,
)
from vicinal._kernels.metric._uncertainty import class_bounds
from vicinal.uncertainty import uncertainty_map


@pytest.fixture(scope="module")
def wine():
    X, y = load_wine(return_X_y=True)
    return StandardScaler().fit_transform(X), y  # sorted by class already


@pytest.fixture
def problem(wine, rng):
    """Weighted voters, and anchors with responsibilities that are some of them."""
    X, y = wine
    references = References(X, class_bounds(y, 3), np.log(rng.uniform(0.5, 2.0, len(X))))
    chosen = np.flatnonzero(rng.uniform(size=len(X)) < 0.7)
    shares = rng.uniform(size=len(chosen))
    return Anchors(X[chosen], class_bounds(y[chosen], 3), shares, chosen), references


def all_rows(X, y):
    bounds = class_bounds(y, int(y.max()) + 1)
    return (
        Anchors(X, bounds, np.ones(len(X)), np.arange(len(X))),
        References(X, bounds, np.zeros(len(X))),
    )


def direct_value(A, anchors, references):
    """The definition, row by row."""
    codes = np.repeat(np.arange(len(references.bounds) - 1), np.diff(references.bounds))
    own = np.repeat(np.arange(len(anchors.bounds) - 1), np.diff(anchors.bounds))
    total = 0.0
    for x, c, share, place in zip(anchors.X, own, anchors.weights, anchors.positions, strict=True):
        e = np.exp(references.log_weights - np.sum(((references.X - x) @ A.T) ** 2, axis=1))
        e[place] = 0.0
        total += share * e[codes == c].sum() / e.sum()
    return total


def test_value_on_wine_is_the_published_one(wine):
    value, _ = expected_accuracy(np.eye(13), *all_rows(*wine))
    assert_allclose(value, 168.25976, atol=5e-6)


def test_one_component_equals_nca_of_scikit_learn(wine, rng):
    X, y = wine
    A = np.eye(13) + 0.1 * rng.normal(size=(13, 13))
    nca = NeighborhoodComponentsAnalysis()
    nca.n_iter_ = 0
    loss, gradient = nca._loss_grad_lbfgs(A.ravel(), X, y[:, None] == y[None, :], -1.0)
    ours, our_gradient = expected_accuracy(A, *all_rows(X, y))
    assert_allclose(-ours, loss, rtol=1e-10)
    assert_allclose(-our_gradient.ravel(), gradient, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("n_out", [2, 13])
def test_gradient_equals_central_differences(problem, n_out, rng):
    A = 0.5 * rng.normal(size=(n_out, 13))
    _, gradient = expected_accuracy(A, *problem)
    for _ in range(5):
        D = rng.normal(size=A.shape)
        h = 1e-5
        ahead, _ = expected_accuracy(A + h * D, *problem, gradient=False)
        behind, _ = expected_accuracy(A - h * D, *problem, gradient=False)
        assert_allclose(np.sum(gradient * D), (ahead - behind) / (2 * h), rtol=1e-6)


def test_value_equals_the_definition(problem, rng):
    A = 0.3 * rng.normal(size=(4, 13))
    value, _ = expected_accuracy(A, *problem)
    assert_allclose(value, direct_value(A, *problem), rtol=1e-11)
    anchors, references = problem
    p = own_class_probabilities(A, anchors, references)
    assert_allclose(p @ anchors.weights, value, rtol=1e-11)


def test_uncertainty_and_expected_accuracy_sum_to_the_number_of_rows(wine):
    X, y = wine
    sigma = 1.7
    value, _ = expected_accuracy(np.eye(13) / sigma, *all_rows(X, y))
    u = uncertainty_map(X, y, n_neighbors=None, bandwidth=sigma)
    assert_allclose(u.sum() + value, len(X), atol=1e-8)


def test_threads_change_nothing(rng):
    X = rng.normal(size=(1200, 5)).astype(np.float32)
    y = np.sort(rng.randint(0, 4, 1200))
    bounds = class_bounds(y, 4)
    ones = np.ones(1200, np.float32)
    anchors = Anchors(X, bounds, ones, np.arange(1200))
    references = References(X, bounds, 0 * ones)
    one = expected_accuracy(np.eye(5), anchors, references, n_jobs=1)
    two = expected_accuracy(np.eye(5), anchors, references, n_jobs=2)
    assert one[0] == two[0]
    assert np.array_equal(one[1], two[1])
    exact, _ = expected_accuracy(
        np.eye(5), *(part._replace(X=X.astype(float)) for part in (anchors, references))
    )
    assert_allclose(one[0], exact, rtol=1e-5)


def test_isolated_rows_do_not_underflow(wine):
    X, y = wine
    value, gradient = expected_accuracy(1e4 * np.eye(13), *all_rows(X, y))
    nearest = KNeighborsClassifier(2).fit(X, y).kneighbors(X, return_distance=False)[:, 1]
    assert_allclose(value, np.sum(y[nearest] == y), rtol=1e-9)
    assert np.isfinite(gradient).all()


def test_soft_votes_equal_the_definition(problem, rng):
    _, references = problem
    A, Q = 0.4 * rng.normal(size=(5, 13)), rng.normal(size=(7, 13))
    d2 = np.sum(((Q[:, None] - references.X[None]) @ A.T) ** 2, axis=2)
    e = np.exp(references.log_weights - d2)
    bounds = references.bounds
    votes = np.stack([e[:, bounds[c] : bounds[c + 1]].sum(axis=1) for c in range(3)], axis=1)
    assert_allclose(
        soft_votes(A, Q, references),
        votes / votes.sum(axis=1, keepdims=True),
        rtol=1e-9,
        atol=1e-13,
    )


def test_other_array_libraries_give_the_same(problem, to_array, rng):
    anchors, references = problem
    A = 0.4 * rng.normal(size=(5, 13))
    other_anchors = Anchors(
        to_array(anchors.X), anchors.bounds, to_array(anchors.weights), to_array(anchors.positions)
    )
    other = References(to_array(references.X), references.bounds, to_array(references.log_weights))
    value, gradient = expected_accuracy(A, anchors, references)
    other_value, other_gradient = expected_accuracy(A, other_anchors, other)
    assert_allclose(other_value, value, rtol=1e-10)
    assert_allclose(other_gradient, gradient, rtol=1e-8, atol=1e-10)
    Q = rng.normal(size=(9, 13))
    votes = soft_votes(A, to_array(Q), other)
    assert type(votes) is type(other.X)
    assert_allclose(as_numpy(votes), soft_votes(A, Q, references), rtol=1e-9, atol=1e-12)


def test_votes_do_not_depend_on_the_queries_beside_them(rng):
    X = rng.normal(size=(400, 3))
    references = References(X, np.array([0, 100, 250, 400]), np.zeros(400))
    Q = np.vstack([rng.normal(size=(40, 3)), 50 * rng.normal(size=(40, 3))])
    order = rng.permutation(80)
    votes = soft_votes(2 * np.eye(3), Q, references)
    assert_array_equal(soft_votes(2 * np.eye(3), Q[order], references), votes[order])
    assert_allclose(votes.sum(axis=1), 1.0, rtol=1e-12)
