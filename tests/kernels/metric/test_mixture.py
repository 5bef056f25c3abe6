"""Gaussian mixtures against SciPy's densities, fixed points of EM, and Fisher's criterion."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal

from vicinal._kernels.metric._mixture import (
    COVARIANCE_TYPES,
    Components,
    add_moments,
    class_scatters,
    expectation_maximisation,
    fisher_directions,
    gated_features,
    label_moments,
    log_densities,
    moments,
    penalty,
    precision_roots,
    responsibilities,
    scatter,
    update,
)

RIDGE = 0.3


@pytest.fixture
def data(rng):
    X = np.concatenate([rng.normal(size=(30, 2)), rng.normal(size=(20, 2)) * [0.5, 2.0] + [4, 1]])
    return X, rng.uniform(0.5, 2.0, 50), np.repeat([0, 1], [30, 20])


def start(data, kind):
    X, weights, labels = data
    found = label_moments(X, weights, labels, 2, kind)
    return update(found, np.zeros((2, 2)), scatter(X, weights), RIDGE, kind)


def full_covariances(components, kind):
    """The covariance of each component as a matrix, whatever the kind."""
    m, given = components.means.shape[1], components.covariances
    if kind == "full":
        return given
    if kind == "tied":
        return [given, given]
    return [np.eye(m) * (given[k] if kind == "spherical" else given[k][None]) for k in range(2)]


@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
def test_densities_are_those_of_scipy(data, kind):
    X = data[0]
    components = start(data, kind)
    expected = [
        np.log(components.weights[k]) + multivariate_normal(components.means[k], S).logpdf(X)
        for k, S in enumerate(full_covariances(components, kind))
    ]
    assert_allclose(log_densities(X, components, kind), np.transpose(expected), rtol=1e-10)


@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
def test_roots_square_to_the_inverse(data, kind):
    components = start(data, kind)
    for k, S in enumerate(full_covariances(components, kind)):
        root = components.precision_roots
        root = root if kind == "tied" else root[k]
        root = np.eye(2) * root if kind in ("diag", "spherical") else root
        assert_allclose(root @ root.T, np.linalg.inv(S), rtol=1e-10)


def test_one_row_between_two_equal_components_is_shared_evenly():
    means = np.array([[-1.0], [1.0]])
    one = np.ones(2)
    components = Components(np.array([0.5, 0.5]), means, one, one)
    shares, total = responsibilities(np.array([[0.0], [1.0]]), components, "spherical")
    assert_allclose(shares[0], [0.5, 0.5])
    assert_allclose(shares[1], [1 / (1 + np.exp(2.0)), 1 / (1 + np.exp(-2.0))])
    assert_allclose(total[0], np.log(np.exp(-0.5) / np.sqrt(2 * np.pi)))


def test_far_rows_have_finite_logarithms():
    ones = np.ones((2, 1))
    components = Components(np.array([0.3, 0.7]), np.array([[0.0], [1.0]]), ones, ones)
    shares, total = responsibilities(np.array([[1e6], [-1e6]]), components, "diag")
    assert np.isfinite(total).all()
    assert_allclose(shares, [[0.0, 1.0], [1.0, 0.0]])


@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
def test_moments_of_parts_add_up(data, kind):
    X, weights, _ = data
    components = start(data, kind)
    whole = moments(X, weights, components, kind)
    parts = [
        moments(X[part], weights[part], components, kind) for part in (slice(13), slice(13, 50))
    ]
    joined = add_moments(*parts)
    for one, other in zip(whole, joined, strict=True):
        if one is not None:
            assert_allclose(one, other, rtol=1e-10, atol=1e-10)
    nothing = moments(X[:0], weights[:0], components, kind)
    assert nothing.objective == 0.0
    assert_allclose(nothing.counts, 0.0)


def test_weight_two_is_the_row_twice(data):
    X, _, _ = data
    components = start(data, "full")
    twice = np.concatenate([X, X[:5]])
    weights = np.ones(50)
    weights[:5] = 2.0
    heavy = moments(X, weights, components, "full")
    repeated = moments(twice, np.ones(55), components, "full")
    for one, other in zip(heavy, repeated, strict=True):
        assert_allclose(one, other, rtol=1e-10, atol=1e-10)


def test_a_hard_assignment_starts_from_class_means_and_scatters(data):
    X, weights, labels = data
    components = start(data, "full")
    for k in range(2):
        w, rows = weights[labels == k], X[labels == k]
        mean = w @ rows / w.sum()
        assert_allclose(components.means[k], mean)
        S = (w[:, None] * (rows - mean)).T @ (rows - mean)
        assert_allclose(components.covariances[k], (S + RIDGE * np.eye(2)) / w.sum())
        assert_allclose(components.weights[k], w.sum() / weights.sum())
    found = label_moments(X, weights, labels, 2, "tied")
    assert found.second is None


def test_kinds_of_covariance_are_averages_of_the_full_one(data):
    full, tied, diag, ball = (start(data, kind) for kind in COVARIANCE_TYPES)
    share = full.weights
    assert_allclose(tied.covariances, np.einsum("k,kab->ab", share, full.covariances))
    assert_allclose(diag.covariances, np.diagonal(full.covariances, axis1=1, axis2=2))
    assert_allclose(ball.covariances, diag.covariances.mean(axis=1))


def objective(data, components, kind):
    found = moments(data[0], data[1], components, kind)
    return found.objective - penalty(components, RIDGE, kind)


@pytest.mark.parametrize("kind", COVARIANCE_TYPES)
def test_em_rises_and_rests_where_the_objective_is_flat(data, kind):
    X, weights, _ = data
    total = scatter(X, weights)
    ends = expectation_maximisation(
        lambda queried: [moments(X, weights, components, kind) for components in queried],
        [start(data, kind)],
        total,
        RIDGE,
        kind,
        tol=1e-13,
        max_iter=2000,
    )
    components, path, converged = ends[0]
    assert converged
    assert np.diff(path).min() > -1e-12
    assert_allclose(path[-1], objective(data, components, kind) / weights.sum())
    gradient = approx_fprime(
        components.means.ravel(),
        lambda flat: objective(data, components._replace(means=flat.reshape(2, 2)), kind),
        1e-6,
    )
    assert np.abs(gradient).max() < 1e-3


def test_all_starts_go_together_and_stop_apart(data):
    X, weights, labels = data
    queried_at_once = []

    def e_step(queried):
        queried_at_once.append(len(queried))
        return [moments(X, weights, components, "diag") for components in queried]

    near, far = start(data, "diag"), start((X, weights, labels[::-1]), "diag")
    ends = expectation_maximisation(
        e_step, [near, far], scatter(X, weights), RIDGE, "diag", tol=1e-9, max_iter=500
    )
    alone = expectation_maximisation(
        e_step, [far], scatter(X, weights), RIDGE, "diag", tol=1e-9, max_iter=500
    )
    assert max(queried_at_once) == 2
    assert min(queried_at_once) == 1
    assert_allclose(ends[1][0].means, alone[0][0].means)


def test_few_steps_say_that_they_did_not_converge(data):
    X, weights, _ = data
    ends = expectation_maximisation(
        lambda queried: [moments(X, weights, components, "full") for components in queried],
        [start(data, "full")],
        scatter(X, weights),
        RIDGE,
        "full",
        tol=0.0,
        max_iter=3,
    )
    components, path, converged = ends[0]
    assert not converged
    assert len(path) == 4
    assert_allclose(path[-1], objective(data, components, "full") / weights.sum())


def test_an_empty_component_keeps_its_mean_and_a_tiny_weight():
    means = np.array([[0.0, 0.0], [9.0, 9.0]])
    X = np.array([[1.0, 0.0], [-1.0, 0.0]])
    found = label_moments(X, np.ones(2), np.zeros(2, dtype=int), 2, "spherical")
    after = update(found, means, None, RIDGE, "spherical")
    assert_allclose(after.means[1], means[1])
    assert 0.0 < after.weights[1] < 1e-14
    assert_allclose(after.covariances[0], (1.0 + RIDGE) / 2.0)


@pytest.mark.parametrize("kind", ["full", "diag"])
def test_a_collapsed_component_is_refused(kind):
    flat = np.zeros((1, 2, 2)) if kind == "full" else np.zeros((1, 2))
    with pytest.raises(ValueError, match="Raise reg_covar"):
        precision_roots(flat, kind, np)


def test_features_by_hand():
    found = gated_features(
        np.array([[3.0, 5.0]]),
        np.array([[0.25, 0.75]]),
        np.array([[1.0, 1.0], [3.0, 9.0]]),
        offset=True,
    )
    assert_allclose(found, [[0.5, 1.0, 0.0, -3.0, 0.25, 0.75]])


@pytest.mark.parametrize("offset", [False, True])
def test_scatters_equal_dense_ones(rng, offset):
    X, centers, codes = rng.normal(size=(30, 2)), rng.normal(size=(3, 2)), np.arange(30) % 3
    shares, weights = rng.dirichlet(np.ones(3), 30), rng.uniform(0.5, 2.0, 30)
    Z = gated_features(X, shares, centers, offset=offset)
    within, between = class_scatters(Z, codes, weights, 3)
    means = np.stack(
        [np.average(Z[codes == c], axis=0, weights=weights[codes == c]) for c in range(3)]
    )
    rest, total = Z - means[codes], weights.sum()
    assert_allclose(within, (rest * weights[:, None]).T @ rest / total, atol=1e-12)
    centred = Z - weights @ Z / total
    assert_allclose(within + between, (centred * weights[:, None]).T @ centred / total, atol=1e-12)


def test_directions_have_unit_variance_within_and_falling_ratios(rng):
    A, B = rng.normal(size=(5, 5)), rng.normal(size=(5, 2))
    within, between = A @ A.T, B @ B.T
    directions, ratios = fisher_directions(within, between, 3, 0.0)
    scale = within + 1e-10 * np.trace(within) / 5 * np.eye(5)
    assert_allclose(directions @ scale @ directions.T, np.eye(3), atol=1e-8)
    assert_allclose(np.diag(directions @ between @ directions.T), ratios, atol=1e-8)
    assert (np.diff(ratios) <= 0).all()
    assert ratios[2] < 1e-8 * ratios[0]
