"""Fits of small tables in NumPy against the compiled ones."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vicinal._kernels.local import _small_ridge
from vicinal._kernels.local._polynomials import ridge_equivalent_kernels, ridge_slopes
from vicinal._kernels.local._small_ridge import is_small, small_equivalent_kernels, small_slopes
from vicinal._kernels.local._workspace import Queries

ALPHAS = np.array([0.01, 0.5, 20.0])


@pytest.fixture(params=[1, 2], ids=["degree 1", "degree 2"])
def problem(rng, request):
    """Neighbourhoods of many lengths, one empty, one flat, wide and tall."""
    X, Q = rng.normal(size=(60, 4)), rng.normal(size=(9, 4))
    X[:3] = X[0]
    sizes = [0, 3, 1, 2, 30, 17, 60, 4, 9]
    indices = [np.arange(size) if size == 3 else rng.permutation(60)[:size] for size in sizes]
    indptr = np.concatenate([[0], np.cumsum(sizes)])
    weights = rng.uniform(0.1, 2.0, indptr[-1])
    return Queries(X, Q, indptr, np.concatenate(indices).astype(np.int64), weights, request.param)


@pytest.mark.parametrize("batch", [1, 1 << 16])
def test_kernels_equal_the_compiled_ones(problem, monkeypatch, batch):
    monkeypatch.setattr(_small_ridge, "_BATCH", batch)
    shape, skip = (len(ALPHAS), len(problem.indices)), np.arange(9) == 5
    small, compiled = np.full(shape, np.nan), np.full(shape, np.nan)
    small_equivalent_kernels(problem, ALPHAS, skip, small)
    ridge_equivalent_kernels(problem, ALPHAS, True, skip, compiled, np.ones(9, dtype=bool))
    assert_allclose(small, compiled, rtol=1e-10, atol=1e-12)


def test_slopes_equal_the_compiled_ones(problem, rng):
    Y = rng.normal(size=(60, 2))
    small, compiled = np.zeros((9, 2, 4)), np.zeros((9, 2, 4))
    small_slopes(problem, Y, 0.1, small)
    ridge_slopes(problem, Y, 0.1, True, compiled, np.ones(9, dtype=bool))
    assert_allclose(small, compiled, rtol=1e-9, atol=1e-12)


def test_what_needs_care_is_not_small(problem):
    assert is_small(problem, ALPHAS, relative=True)
    assert not is_small(problem, ALPHAS, relative=False)
    assert not is_small(problem, 1e-9, relative=True)
    assert not is_small(problem, np.inf, relative=True)
    assert not is_small(problem._replace(X=1e90 * problem.X), ALPHAS, relative=True)
    many = np.arange(0, 2_000_001, 20)
    assert not is_small(problem._replace(indptr=many), ALPHAS, relative=True)
    assert not is_small(problem._replace(X=np.ones((1000, 4))), ALPHAS, relative=True)
