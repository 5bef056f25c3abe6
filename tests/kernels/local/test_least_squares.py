"""Local polynomials without penalty against NumPy's least squares and the pseudo-inverse."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vicinal._kernels.local._polynomials import (
    design_matrix,
    polynomial_equivalent_kernels,
    polynomial_slopes,
    pseudo_inverse_fit,
)
from vicinal._kernels.local._workspace import Queries


def fit(X, q, w, Y, degree):
    k = len(X)
    problem = Queries(X, q[None], np.array([0, k]), np.arange(k), w, degree)
    smoother, solved = np.full(k, np.nan), np.ones(1, dtype=bool)
    polynomial_equivalent_kernels(problem, smoother, solved)
    slopes, also = np.zeros((1, Y.shape[1], X.shape[1])), np.ones(1, dtype=bool)
    polynomial_slopes(problem, Y, slopes, also)
    return smoother, slopes[0], bool(solved[0]), bool(also[0])


@pytest.mark.parametrize("degree", [0, 1, 2])
def test_fit_equals_weighted_least_squares(rng, degree):
    X, q, w = rng.normal(size=(30, 3)), rng.normal(size=3), rng.uniform(0.1, 2.0, 30)
    Y = rng.normal(size=(30, 2))
    smoother, slopes, solved, _ = fit(X, q, w, Y, degree)
    D = design_matrix(X - q, w, degree)
    root = np.sqrt(w)[:, None]
    expected = np.linalg.lstsq(root * D, root * Y, rcond=None)[0]
    assert solved
    assert_allclose(smoother @ Y, expected[0], rtol=1e-10)
    if degree:
        assert_allclose(slopes, expected[1:4].T, rtol=1e-9)


@pytest.mark.parametrize("degree", [1, 2])
def test_polynomials_of_the_degree_are_reproduced(rng, degree):
    X, q, w = rng.normal(size=(20, 2)), rng.normal(size=2), rng.uniform(0.5, 1.0, 20)
    y = 1.0 + 2.0 * X[:, 0] - X[:, 1] + (degree - 1) * X[:, 0] * X[:, 1]
    at = 1.0 + 2.0 * q[0] - q[1] + (degree - 1) * q[0] * q[1]
    smoother, slopes, _, _ = fit(X, q, w, y[:, None], degree)
    assert_allclose(smoother @ y, at)
    assert_allclose(slopes[0], [2.0 + (degree - 1) * q[1], -1.0 + (degree - 1) * q[0]])


@pytest.mark.parametrize("unit", [1e-300, 1e300])
@pytest.mark.parametrize("weight", [1e-100, 1e12])
def test_units_of_columns_and_weights_cancel(rng, unit, weight):
    X, q, w = rng.normal(size=(12, 2)), rng.normal(size=2), rng.uniform(0.5, 1.0, 12)
    plain = fit(X, q, w, X[:, :1], 1)[0]
    smoother, _, solved, _ = fit(unit * X, unit * q, weight * w, X[:, :1], 1)
    assert solved
    assert_allclose(smoother, plain, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", ["too few rows", "constant column", "equal columns"])
def test_missing_rank_is_reported(rng, case):
    X = rng.normal(size=(3 if case == "too few rows" else 9, 3))
    if case == "constant column":
        X[:, 1] = 4.0
    if case == "equal columns":
        X[:, 1] = X[:, 0]
    _, slopes, solved, also = fit(X, np.zeros(3), np.ones(len(X)), X[:, :1], 1)
    assert not solved
    assert not also
    assert not slopes.any()


def test_pseudo_inverse_keeps_the_mean_and_ignores_flat_columns(rng):
    offsets = np.column_stack([rng.normal(size=8), np.full(8, 3.0)])
    w, y = rng.uniform(0.5, 1.0, 8), rng.normal(size=8)
    rows = pseudo_inverse_fit(offsets, w, 1)
    assert_allclose(rows[0].sum(), 1.0)
    assert_allclose(rows[2], 0.0, atol=1e-12)
    line = np.polyfit(offsets[:, 0], y, 1, w=np.sqrt(w))
    assert_allclose(rows[:2] @ y, line[::-1], rtol=1e-10)


def test_pseudo_inverse_of_one_row_is_that_row():
    rows = pseudo_inverse_fit(np.array([[2.0, 3.0]]), np.array([5.0]), 1)
    assert_allclose(rows, [[1.0], [0.0], [0.0]])
