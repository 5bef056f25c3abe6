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
    all_similarities,
    expected_accuracy,
    near_similarities,
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


# Truncated neighbourhoods: what is left out is less than rounding.

PATH = "vicinal._kernels.metric._soft_votes._SPARSE"


def as_dense(near, n):
    dense = np.zeros((len(near.starts) - 1, n), near.values.dtype)
    rows = np.repeat(np.arange(len(dense)), np.diff(near.starts))
    dense[rows, near.columns] = near.values
    return dense


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 5, 64, 150])
@pytest.mark.parametrize("spread", [1.0, 30.0, 1e4])
def test_what_is_left_out_is_less_than_rounding(rng, dtype, n, spread):
    logits = (spread * rng.normal(size=(7, n))).astype(dtype)
    near = near_similarities(logits)
    exact = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    lost = exact.sum(axis=1) - as_dense(near, n).astype(np.float64).sum(axis=1)
    bound = {np.float32: 1e-6, np.float64: 1e-14}[dtype]
    assert np.all(np.abs(lost) <= (bound + 4 * np.finfo(dtype).eps) * exact.sum(axis=1))
    assert_allclose(all_similarities(logits.copy()), exact, rtol=2e-5, atol=1e-25)


def test_the_greatest_is_kept_wherever_it_stands():
    for n in (63, 64, 65, 130):
        logits = np.full((n, n), -1e5, np.float32)
        np.fill_diagonal(logits, 3.0)
        near = near_similarities(logits)
        assert_array_equal(near.columns, np.arange(n))
        assert_array_equal(near.values, 1.0)


def test_too_many_are_refused(rng):
    assert near_similarities(rng.normal(size=(50, 40)), 0.5) is None


@pytest.mark.parametrize("sharpness", [0.5, 2.0, 6.0])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 2e-5), (np.float64, 1e-11)])
def test_truncated_neighbourhoods_equal_whole_ones(rng, sharpness, dtype, tolerance, monkeypatch):
    y = np.sort(rng.randint(0, 5, 700))
    X = (rng.normal(size=(700, 6)) + rng.normal(size=(5, 6))[y]).astype(dtype)
    bounds = class_bounds(y, 5)
    references = References(X, bounds, np.log(rng.uniform(0.5, 2.0, 700)).astype(dtype))
    anchors = Anchors(X, bounds, rng.uniform(size=700).astype(dtype), np.arange(700))
    A = sharpness * (np.eye(6) + 0.1 * rng.normal(size=(6, 6)))
    found = {}
    for most in (0.0, 1.0):
        monkeypatch.setattr(PATH, most)
        value, gradient = expected_accuracy(A, anchors, references)
        alone, _ = expected_accuracy(A, anchors, references, gradient=False)
        assert_allclose(alone, value, rtol=tolerance)
        found[most] = value, gradient, own_class_probabilities(A, anchors, references)
    assert_allclose(found[1.0][0], found[0.0][0], rtol=tolerance)
    size = np.abs(found[0.0][1]).max()
    assert_allclose(found[1.0][1], found[0.0][1], atol=20 * tolerance * size)
    assert_allclose(found[1.0][2], found[0.0][2], atol=tolerance)


def test_votes_do_not_depend_on_the_queries_beside_them(rng):
    X = rng.normal(size=(400, 3))
    references = References(X, np.array([0, 100, 250, 400]), np.zeros(400))
    Q = np.vstack([rng.normal(size=(40, 3)), 50 * rng.normal(size=(40, 3))])
    order = rng.permutation(80)
    votes = soft_votes(2 * np.eye(3), Q, references)
    assert_array_equal(soft_votes(2 * np.eye(3), Q[order], references), votes[order])
    assert_allclose(votes.sum(axis=1), 1.0, rtol=1e-12)
