from functools import partial

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import norm
from sklearn.svm import SVC

from _datasets import load_dataset
from vicinal.datasets import make_banana, make_overlapping_blobs, make_xor

MAKERS = [make_xor, make_banana, partial(make_overlapping_blobs, pattern="square")]


@pytest.mark.parametrize("make", MAKERS)
def test_seed_decides_the_sample(make):
    X, y = make(50, random_state=3)
    again, labels = make(50, random_state=3)
    other, _ = make(50, random_state=4)
    assert X.shape == (50, 2)
    assert X.dtype == np.float64
    assert y.dtype == np.int64
    assert_array_equal(X, again)
    assert_array_equal(y, labels)
    assert not np.array_equal(X, other)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("n_samples", [1, 2, 7, 101])
def test_any_number_of_samples(make, n_samples):
    X, y = make(n_samples, random_state=0)
    assert X.shape == (n_samples, 2)
    assert y.shape == (n_samples,)


@pytest.mark.parametrize("make", MAKERS)
def test_unshuffled_labels_are_sorted(make):
    _, y = make(40, shuffle=False, random_state=0)
    assert (np.diff(y) >= 0).all()
    assert len(np.unique(y)) == 2


@pytest.mark.parametrize("make", MAKERS)
def test_bad_sizes_are_refused(make):
    with pytest.raises(ValueError, match="n_samples"):
        make(0)


def test_xor_without_noise_is_on_four_equal_corners():
    X, y = make_xor(400, noise=0, random_state=0)
    corners, counts = np.unique(X, axis=0, return_counts=True)
    assert_array_equal(corners, [[-1, -1], [-1, 1], [1, -1], [1, 1]])
    assert_array_equal(counts, [100] * 4)
    assert_array_equal(y, X[:, 0] * X[:, 1] < 0)


def test_xor_noise_is_the_spread_of_a_cluster():
    X, y = make_xor(40_000, noise=0.3, random_state=0)
    cluster = X[(y == 0) & (X[:, 0] > 0)]
    assert_allclose(cluster.std(axis=0), 0.3, atol=0.01)
    with pytest.raises(ValueError, match="noise"):
        make_xor(noise=-0.1)


def test_blobs_are_those_of_the_two_toys():
    X, y = make_overlapping_blobs(40_000, pattern="square", random_state=0)
    upper_right = X[(y == 0) & (X.sum(axis=1) > 0)]
    assert_allclose(upper_right.mean(axis=0), [2, 2], atol=0.1)
    X, y, row = make_overlapping_blobs(pattern="row", random_state=0, return_mixture=True)
    assert_array_equal(row.labels, [0, 1, 0, 1])
    assert_allclose(row.scale, [0.7, 1.2])
    for one, other in zip((X, y), row.sample(1200, random_state=0), strict=True):
        assert_array_equal(one, other)
    with pytest.raises(ValueError, match="pattern"):
        make_overlapping_blobs(pattern="ring")


def test_bayes_error_of_the_square_has_a_closed_form():
    """The best rule is the sign of the product, wrong when one of two coordinates crosses 0."""
    crossing = norm.cdf(-2 / 1.2)
    expected = 2 * crossing * (1 - crossing)
    mixture = make_overlapping_blobs(return_mixture=True)[2]
    assert mixture.bayes_error() == pytest.approx(expected, abs=1e-3)


def test_bayes_error_of_the_row_by_integration():
    mixture = make_overlapping_blobs(pattern="row", return_mixture=True)[2]
    axis = np.linspace(-10, 10, 401)
    grid = np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
    scale = np.sqrt([0.49, 1.44])
    density = sum(norm.pdf((grid - m) / scale).prod(axis=1) / scale.prod() for m in mixture.means)
    wrong = 1 - mixture.posterior(grid).max(axis=1)
    integral = (wrong * density / 4).sum() * (axis[1] - axis[0]) ** 2
    assert integral == pytest.approx(0.0199, abs=1e-4)
    assert mixture.bayes_error() == pytest.approx(integral, abs=1e-3)


def test_banana_stand_in_resembles_the_benchmark(data_folder):
    """Same class shares, same scale, and an error of the same size for the same classifier."""
    real = load_dataset("banana", data_home=data_folder)
    X, y = make_banana(5300, random_state=0)
    assert y.mean() == pytest.approx(np.mean(real.y == 1), abs=2e-3)
    assert_allclose(X.mean(axis=0), 0, atol=0.1)
    assert_allclose(X.std(axis=0), 1, atol=0.1)
    errors = []
    for points, labels in ((real.X, real.y), (X, y)):
        model = SVC(C=316, gamma=1).fit(points[:400], labels[:400])
        errors.append(1 - model.score(points[400:], labels[400:]))
    assert errors[1] == pytest.approx(errors[0], abs=0.02)
