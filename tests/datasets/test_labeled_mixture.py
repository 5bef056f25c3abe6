import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal, norm

from vicinal.datasets._generators import LabeledMixture

MEANS = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 2.0]])


def test_posterior_is_that_of_bayes_rule(rng):
    mixture = LabeledMixture(MEANS, ["b", "a", "b"], [0.5, 2.0])
    X = rng.normal(size=(20, 2)) * 2
    joint = np.column_stack([multivariate_normal(m, np.diag([0.5, 2.0])).pdf(X) for m in MEANS])
    expected = np.column_stack([joint[:, 1], joint[:, 0] + joint[:, 2]])
    assert_array_equal(mixture.classes, ["a", "b"])
    assert_allclose(
        mixture.posterior(X), expected / expected.sum(axis=1, keepdims=True), rtol=1e-12
    )


def test_posterior_far_from_all_centres_is_still_a_distribution():
    P = LabeledMixture([[-1.0], [1.0]], [0, 1], [1.0]).posterior([[1e6], [-1e6]])
    assert_allclose(P, [[0.0, 1.0], [1.0, 0.0]], atol=1e-12)


def test_bayes_error_of_two_gaussians():
    error = LabeledMixture([[-1.0], [1.0]], [0, 1], [1.0]).bayes_error()
    assert error == pytest.approx(norm.cdf(-1.0), abs=2e-3)


def test_samples_have_the_moments_of_their_component():
    X, y = LabeledMixture(MEANS, [0, 1, 2], [0.5, 2.0]).sample(60_000, random_state=0)
    for k in range(3):
        assert_allclose(X[y == k].mean(axis=0), MEANS[k], atol=0.03)
        assert_allclose(np.cov(X[y == k].T), np.diag([0.5, 2.0]), atol=0.05)


def test_components_share_the_samples_and_keep_their_order():
    _, y = LabeledMixture(MEANS, ["b", "a", "b"], [1.0, 1.0]).sample(7, shuffle=False)
    assert_array_equal(y, ["b", "b", "b", "a", "a", "b", "b"])
