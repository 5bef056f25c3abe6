import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from vicinal._kernels.linear._whitening import (
    WHITENINGS,
    independent_cholesky,
    standard_scale,
    within_class_whitening,
)


def test_factor_by_hand():
    """The third column is the sum of the first two; the fourth stands alone."""
    B = np.array([[2.0, 0.0, 0.0], [1.0, 3.0, 0.0], [3.0, 3.0, 0.0], [0.0, 1.0, 5.0]])
    lower, kept = independent_cholesky(B @ B.T, 1e-10)
    assert_array_equal(kept, [0, 1, 3])
    assert_allclose(lower, B, atol=1e-12)


def test_factor_equals_lapack_at_full_rank(rng):
    A = np.cov(rng.normal(size=(6, 40)))
    lower, kept = independent_cholesky(A, 1e-10)
    assert_array_equal(kept, np.arange(6))
    assert_allclose(lower, np.linalg.cholesky(A), rtol=1e-12, atol=1e-14)


def test_noise_pivot_is_not_a_pivot(rng):
    """A rank that LAPACK's own factorisation does not see."""
    B = rng.normal(size=(8, 3))
    A = B @ B.T
    A[np.diag_indices(8)] *= 1 + 1e-15
    lower, kept = independent_cholesky(A, 1e-10)
    assert len(kept) == 3
    assert_allclose(lower @ lower.T, A, atol=1e-12)


@pytest.mark.parametrize("method", sorted(WHITENINGS))
def test_maps_are_inverse_and_whiten(rng, method):
    A = np.cov(rng.normal(size=(5, 40)))
    whitening = WHITENINGS[method](A, 1e-10)
    assert_allclose(whitening.forward.T @ A @ whitening.forward, np.eye(5), atol=1e-10)
    assert_allclose(whitening.forward @ whitening.backward, np.eye(5), atol=1e-10)


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
