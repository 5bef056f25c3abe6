"""Linear maps under which Euclidean distance becomes another metric."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vicinal._kernels.linear._maps import standard_scale, within_class_whitening


def test_scale_is_the_weighted_deviation():
    X = np.array([[0.0, 7.0], [2.0, 7.0], [2.0, 7.0]])
    mean, scale = standard_scale(X, np.array([2.0, 1.0, 1.0]))
    assert_allclose(mean, [1.0, 7.0])
    # The second column is constant and keeps its unit.
    assert_allclose(scale, [1.0, 1.0])


def test_a_constant_that_rounds_is_still_constant():
    column = np.full((10, 1), 0.1) * np.ones((10, 1))
    assert standard_scale(1e8 * column, None)[1] == 1.0


@pytest.mark.parametrize("shrinkage", [0.0, 0.1])
def test_whitened_classes_have_unit_covariance(rng, shrinkage):
    codes = np.arange(200) % 2
    X = rng.normal(size=(200, 3)) @ rng.normal(size=(3, 3)) + 5.0 * codes[:, None]
    mean, A = within_class_whitening(X, codes, None, shrinkage)
    assert_allclose(mean, X.mean(axis=0))
    centred = X - np.stack([X[codes == c].mean(axis=0) for c in (0, 1)])[codes]
    covariance = centred.T @ centred / 200
    level = np.trace(covariance) / 3
    shrunk = (1 - shrinkage) * covariance + shrinkage * level * np.eye(3)
    assert_allclose(A.T @ shrunk @ A, np.eye(3), atol=1e-9)


def test_weights_are_repetitions(rng):
    X, codes, times = rng.normal(size=(20, 2)), np.arange(20) % 2, rng.randint(1, 4, 20)
    weighted = within_class_whitening(X, codes, times.astype(float))
    repeated = within_class_whitening(np.repeat(X, times, axis=0), np.repeat(codes, times), None)
    assert_allclose(weighted[1] @ weighted[1].T, repeated[1] @ repeated[1].T)


def test_classes_without_spread_are_left_as_they_are():
    _, A = within_class_whitening(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([0, 1]), None)
    assert_allclose(A, np.eye(2))
