"""Kernel ridge: the primal optimum, leave-one-out by refitting, slopes by differences."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.spatial.distance import cdist

from vicinal._kernels.metric._kernel_ridge import (
    gradient_directions,
    gradient_map,
    kernel_ridge,
    kernel_values,
    map_rows,
    map_slopes,
    ridge_slopes,
    squared_distances,
)

KERNELS = ["gaussian", "laplace"]


def problem(n=25, d=3, seed=0):
    rng = np.random.RandomState(seed)
    Z = rng.normal(size=(n, d))
    Y = np.stack([np.sin(Z[:, 0]), Z[:, 1] * Z[:, 2]], axis=1) + 5.0
    return Z, Y


def solve(Z, Y, weights, alpha, kernel, scale=1.5):
    """The ridge system with its intercept, written out."""
    n = len(Z)
    A = np.zeros((n + 1, n + 1))
    A[:n, :n] = kernel_values(cdist(Z, Z, "sqeuclidean"), scale, kernel) + np.diag(alpha / weights)
    A[:n, n] = A[n, :n] = 1.0
    both = np.linalg.solve(A, np.vstack([Y, np.zeros((1, Y.shape[1]))]))
    return both[:n], both[n]


@pytest.mark.parametrize("kernel", KERNELS)
def test_it_solves_the_system_and_leaves_rows_out_exactly(kernel):
    Z, Y = problem()
    weights = np.linspace(0.3, 1.0, len(Z))
    K = kernel_values(cdist(Z, Z, "sqeuclidean"), 1.5, kernel)
    ridge = kernel_ridge(K, Y, weights, np.ones(len(Z)), 0.1)
    coef, intercept = solve(Z, Y, weights, 0.1, kernel)
    assert_allclose(ridge.dual_coef, coef, atol=1e-9)
    assert_allclose(ridge.intercept, intercept, atol=1e-9)
    for i in range(len(Z)):
        kept = np.arange(len(Z)) != i
        coef, intercept = solve(Z[kept], Y[kept], weights[kept], 0.1, kernel)
        said = (
            kernel_values(cdist(Z[i : i + 1], Z[kept], "sqeuclidean"), 1.5, kernel) @ coef
            + intercept
        )
        assert_allclose(ridge.left_out[i], said[0], atol=1e-8)
    some = kernel_ridge(K, Y, weights, np.ones(len(Z)), 0.1, n_left_out=7)
    assert_allclose(some.left_out, ridge.left_out[-7:], atol=1e-12)
    assert_allclose(some.dual_coef, ridge.dual_coef)


@pytest.mark.parametrize("alpha", [1e-3, 0.1, 10.0])
def test_a_row_of_three_copies_is_the_row_three_times(alpha):
    Z, Y = problem()
    times = np.where(np.arange(len(Z)) % 4 == 0, 3, 1)
    K = kernel_values(cdist(Z, Z, "sqeuclidean"), 1.5, "gaussian")
    weighted = kernel_ridge(K, Y, times * 1.0, times * 1.0, alpha)
    R, S = np.repeat(Z, times, axis=0), np.repeat(Y, times, axis=0)
    ones = np.ones(len(R))
    repeated = kernel_ridge(
        kernel_values(cdist(R, R, "sqeuclidean"), 1.5, "gaussian"), S, ones, ones, alpha
    )
    assert_allclose(weighted.error, repeated.error, rtol=1e-8)
    assert_allclose(np.repeat(weighted.left_out, times, axis=0), repeated.left_out, atol=1e-8)


def test_a_penalty_below_rounding_interpolates():
    Z, Y = problem()
    Z, Y = np.vstack([Z, Z[:3]]), np.vstack([Y, Y[:3]])  # the kernel matrix is singular
    K = kernel_values(cdist(Z, Z, "sqeuclidean"), 1.5, "gaussian")
    ones = np.ones(len(Z))
    ridge = kernel_ridge(K, Y, ones, ones, 1e-300)
    assert_allclose(K @ ridge.dual_coef + ridge.intercept, Y, atol=1e-6)
    assert_allclose(ridge.left_out[:3], Y[:3], atol=1e-4)  # their copies stay


@pytest.mark.parametrize("kernel", KERNELS)
def test_slopes_are_differences(kernel):
    Z, Y = problem()
    Q = np.random.RandomState(1).normal(size=(4, 3))
    slopes = ridge_slopes(Q, Z, Y, 1.5, kernel)
    for k in range(3):
        step = np.zeros(3)
        step[k] = 1e-6
        up, down = (
            kernel_values(cdist(Q + s, Z, "sqeuclidean"), 1.5, kernel) @ Y for s in (step, -step)
        )
        assert_allclose(slopes[:, :, k], (up - down) / 2e-6, atol=1e-7)


def test_the_kink_of_the_laplace_kernel_has_slope_zero():
    Z, Y = problem(n=1)
    assert_allclose(ridge_slopes(Z, Z, Y, 1.0, "laplace"), 0.0)


@pytest.mark.parametrize("shape", [(5, 3), (3, 5)])
def test_the_map_is_a_root_of_the_product(shape):
    A = np.random.RandomState(0).normal(size=shape)
    product = A.T @ A
    root = gradient_map(A, diagonal=False)
    assert root.shape == (shape[1], 3)
    assert_allclose(root @ root.T, product / np.linalg.eigvalsh(product)[-1], atol=1e-12)
    factors = gradient_map(A, diagonal=True)
    assert_allclose(factors, np.sqrt(np.diag(product) / np.diag(product).max()))
    assert_allclose(gradient_map(np.zeros(shape), diagonal=False), np.ones(shape[1]))


def test_directions_of_few_gradients_are_those_of_the_product():
    A = np.random.RandomState(0).normal(size=(3, 5))
    values, vectors = gradient_directions(A)
    full_values, full_vectors = np.linalg.eigh(A.T @ A)
    assert_allclose(values, full_values[2:])
    assert_allclose(np.abs(np.sum(vectors * full_vectors[:, 2:], axis=0)), 1.0)


def test_a_diagonal_map_is_its_matrix():
    rng = np.random.RandomState(0)
    Z, slopes, factors = rng.normal(size=(4, 3)), rng.normal(size=(4, 2, 3)), rng.uniform(size=3)
    assert_allclose(map_rows(Z, factors), map_rows(Z, np.diag(factors)))
    assert_allclose(map_slopes(slopes, factors), map_slopes(slopes, np.diag(factors)))


def test_a_matrix_that_is_no_kernel_is_refused():
    K = np.array([[1.0, 3.0], [3.0, 1.0]])
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite with alpha=0.1"):
        kernel_ridge(K, np.ones((2, 1)), np.ones(2), np.ones(2), 0.1)


@pytest.mark.parametrize("kernel", ["gaussian", "laplace"])
def test_squared_distances_are_those_of_scipy(kernel):
    rng = np.random.RandomState(0)
    Q, Z = rng.normal(size=(30, 5)), rng.normal(size=(40, 5))
    Z[0] *= 1e4
    lengths = (Q**2).sum(axis=1)[:, None] + (Z**2).sum(axis=1)
    difference = squared_distances(Q, Z, kernel) - cdist(Q, Z) ** 2
    assert (abs(difference) <= 1e-14 * lengths).all()
    assert squared_distances(Z, Z, kernel).min() >= 0.0


@pytest.mark.parametrize(("kernel", "expected"), [("gaussian", -2.0), ("laplace", -2.0)])
def test_kernel_values_of_squared_distances(kernel, expected):
    # Two scales apart: exp(-4 / 2) and exp(-2).
    assert_allclose(np.log(kernel_values(np.array([[4.0]]), 1.0, kernel)), expected)
