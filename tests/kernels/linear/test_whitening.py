import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from vicinal._kernels.linear._whitening import WHITENINGS, independent_cholesky


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
