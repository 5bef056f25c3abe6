import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import multivariate_normal, norm

from vicinal.datasets import LabeledMixture

MEANS = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 2.0]])


def test_posterior_is_that_of_bayes_rule(rng):
    covariances = np.array([[[1.0, 0.3], [0.3, 2.0]], np.eye(2), 0.5 * np.eye(2)])
    weights = np.array([0.5, 0.2, 0.3])
    mixture = LabeledMixture(MEANS, ["b", "a", "b"], covariances=covariances, weights=weights)
    X = rng.normal(size=(20, 2)) * 2
    joint = np.column_stack(
        [
            w * multivariate_normal(m, S).pdf(X)
            for w, m, S in zip(weights, MEANS, covariances, strict=True)
        ]
    )
    expected = np.column_stack([joint[:, 1], joint[:, 0] + joint[:, 2]])
    assert_array_equal(mixture.classes, ["a", "b"])
    assert_allclose(
        mixture.posterior(X), expected / expected.sum(axis=1, keepdims=True), rtol=1e-12
    )


def test_posterior_far_from_all_centres_is_still_a_distribution():
    P = LabeledMixture([[-1.0], [1.0]]).posterior([[1e6], [-1e6]])
    assert_allclose(P, [[0.0, 1.0], [1.0, 0.0]], atol=1e-12)


def test_bayes_error_of_two_gaussians():
    error = LabeledMixture([[-1.0], [1.0]]).bayes_error()
    assert error == pytest.approx(norm.cdf(-1.0), abs=2e-3)


def test_samples_have_the_moments_of_their_component():
    S = np.array([[2.0, -0.5], [-0.5, 1.0]])
    X, y = LabeledMixture(MEANS, covariances=S).sample(60_000, random_state=0)
    for k in range(3):
        assert_allclose(X[y == k].mean(axis=0), MEANS[k], atol=0.03)
        assert_allclose(np.cov(X[y == k].T), S, atol=0.05)


@pytest.mark.parametrize(
    ("n_samples", "weights", "counts"),
    [
        (10, [0.3, 0.7], [3, 7]),
        (10, [3, 7], [3, 7]),
        (7, [1, 1, 1], [3, 2, 2]),
        (5, [0, 1, 0], [0, 5, 0]),
        (1, [0.2, 0.8], [0, 1]),
    ],
)
def test_components_get_their_share(n_samples, weights, counts):
    mixture = LabeledMixture(np.zeros((len(weights), 2)), weights=weights)
    _, y = mixture.sample(n_samples, random_state=0)
    assert_array_equal(np.bincount(y, minlength=len(weights)), counts)


def test_component_of_no_weight_has_no_posterior():
    mixture = LabeledMixture([[0.0], [1.0]], weights=[1, 0])
    assert_array_equal(mixture.posterior([[1.0]]), [[1.0, 0.0]])


def test_covariance_forms_mean_the_same():
    forms = [2.0, [2.0, 2.0], 2 * np.eye(2), np.broadcast_to(2 * np.eye(2), (3, 2, 2))]
    drawn = [LabeledMixture(MEANS, covariances=S).sample(9, random_state=1)[0] for S in forms]
    for X in drawn[1:]:
        assert_array_equal(X, drawn[0])


def test_unshuffled_rows_are_sorted_by_component():
    _, y = LabeledMixture(MEANS, ["b", "a", "b"]).sample(6, shuffle=False, random_state=0)
    assert_array_equal(y, ["b", "b", "a", "a", "b", "b"])


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"means": [1.0, 2.0]}, r"means has shape \(2,\)"),
        ({"means": [[np.nan]]}, "finite array"),
        ({"means": MEANS, "labels": [0, 1]}, "one label for each of the 3 components"),
        ({"means": MEANS, "weights": [1, -1, 1]}, "non-negative"),
        ({"means": MEANS, "weights": [0, 0, 0]}, "not all zero"),
        ({"means": MEANS, "covariances": np.eye(3)}, r"covariances has shape \(3, 3\)"),
        ({"means": MEANS, "covariances": -1.0}, "positive definite"),
        ({"means": MEANS, "covariances": [[1.0, 2.0], [0.0, 1.0]]}, "symmetric"),
    ],
)
def test_bad_descriptions_are_refused(arguments, match):
    with pytest.raises(ValueError, match=match):
        LabeledMixture(**arguments)


def test_bad_requests_are_refused():
    mixture = LabeledMixture(MEANS)
    with pytest.raises(ValueError, match="n_samples=0"):
        mixture.sample(0)
    with pytest.raises(ValueError, match="2 features"):
        mixture.posterior([[1.0, 2.0, 3.0]])
    assert repr(mixture) == "LabeledMixture(n_components=3, n_features=2, n_classes=3)"
