"""Small dense linear algebra and gathered neighbourhoods."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vicinal._kernels._jit import fast_jit
from vicinal._kernels.local._workspace import (
    Queries,
    cholesky_lower,
    cholesky_solve,
    gather,
    gram_lower,
    longest_neighborhood,
    moments,
    n_design_columns,
    workspace,
)


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


@fast_jit
def spread(R, weights, m):
    return moments(R, weights, R.shape[1], m)


@fast_jit
def gathered(queries, R):
    gather(queries, 0, queries.indices, queries.weights, R)


@pytest.mark.parametrize(("degree", "columns"), [(0, 0), (1, 4), (2, 14)])
def test_number_of_design_columns(degree, columns):
    assert n_design_columns(4, degree) == columns


def test_longest_neighbourhood_is_at_least_one():
    assert longest_neighborhood(np.array([0, 2, 2, 7])) == 5
    assert longest_neighborhood(np.array([3, 3])) == 1


@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_moments_keep_their_digits_far_from_the_origin(rng, shift):
    R, w, m = rng.normal(size=(9, 3)), rng.uniform(0.5, 2.0, 9), np.empty(3)
    trace = spread(R + shift, w, m)
    centred = R - w @ R / w.sum()
    assert_allclose(m, w @ R / w.sum() + shift)
    assert_allclose(trace, w @ (centred**2).sum(axis=1), rtol=1e-7)


def test_equal_rows_have_no_spread():
    assert spread(np.full((4, 2), 0.1), np.array([1e12, 1.0, 3.0, 0.7]), np.empty(2)) == 0.0


def test_products_are_divided_by_the_root_mean_square():
    """Offsets (3, 4) and (0, 0), equal weights: the root mean square of a column is 2.5."""
    X = np.array([[4.0, 5.0], [1.0, 1.0]])
    queries = Queries(X, np.ones((1, 2)), np.array([0, 2]), np.arange(2), np.ones(2), 2)
    R = np.empty((2, 5))
    gathered(queries, R)
    assert_allclose(R[0], [3.0, 4.0, 9.0 / 2.5, 12.0 / 2.5, 16.0 / 2.5])
    assert_allclose(R[1], 0.0)


def test_workspace_fits_the_largest_neighbourhood():
    queries = Queries(np.ones((9, 3)), np.ones((2, 3)), np.array([0, 2, 7]), None, None, 2)
    work = workspace(queries, 4)
    assert work.R.shape == (5, 9)
    assert work.A.shape == (5, 5)
    assert work.counts.shape == (4,)
