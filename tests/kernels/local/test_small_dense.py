"""Small dense systems against NumPy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vicinal._kernels.local._workspace import cholesky_lower, cholesky_solve, gram_lower


@pytest.mark.parametrize("p", [1, 3, 4, 7, 16])
def test_gram_equals_the_product(rng, p):
    Z = rng.normal(size=(p, 23))
    G = np.full((p, p), np.nan)
    gram_lower(Z, p, 19, G)
    assert_allclose(np.tril(G), np.tril(Z[:, :19] @ Z[:, :19].T), rtol=1e-12, atol=1e-12)


def test_solve_with_shift(rng):
    Z = rng.normal(size=(6, 4))
    G, L = Z @ Z.T, np.empty((6, 6))
    b = rng.normal(size=6)
    assert cholesky_lower(G, 6, 0.5, L)
    x = b.copy()
    cholesky_solve(L, 6, x)
    assert_allclose((G + 0.5 * np.eye(6)) @ x, b, rtol=1e-10)


def test_singular_systems_are_reported():
    assert not cholesky_lower(np.ones((3, 3)), 3, 0.0, np.empty((3, 3)))
