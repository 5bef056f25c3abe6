"""Covariances within classes and the maps that make them round."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from vicinal._kernels.linear._covariance import class_covariances, whitening_map


@pytest.fixture
def rows(rng):
    X = rng.normal(size=(200, 4)) @ rng.normal(size=(4, 4)) + 50.0
    codes = rng.randint(0, 3, 200)
    X[:, 1] += 5 * codes
    return X, codes, rng.uniform(0.5, 2.0, 200)


def test_covariances_equal_numpys(rows):
    X, codes, weights = rows
    found = class_covariances(X, codes, weights, 3)
    total = np.cov(X.T, aweights=weights, bias=True)
    assert_allclose(found.mean, np.average(X, axis=0, weights=weights))
    assert_allclose(found.scale, np.sqrt(np.diag(total)))
    assert_allclose(found.total, total / np.outer(found.scale, found.scale), atol=1e-12)
    within = (
        sum(
            weights[codes == c].sum()
            * np.cov(X[codes == c].T, aweights=weights[codes == c], bias=True)
            for c in range(3)
        )
        / weights.sum()
    )
    assert_allclose(found.within, within / np.outer(found.scale, found.scale), atol=1e-12)


@pytest.mark.parametrize("within", [False, True])
def test_whitening_makes_the_covariance_round(rows, within):
    X, codes, weights = rows
    found = class_covariances(X, codes, weights, 3)
    M = whitening_map(found, within=within) * found.scale
    covariance = M @ (found.within if within else found.total) @ M.T
    assert_allclose(covariance, np.eye(4), atol=1e-4 if within else 1e-10)
    assert (np.diff(np.diag(M @ found.total @ M.T)) < 1e-9).all()


def test_great_shrinkage_is_standardisation(rows):
    X, codes, weights = rows
    found = class_covariances(X, codes, weights, 3)
    M = whitening_map(found, shrinkage=1e8) * found.scale
    assert_allclose(M.T @ M * 1e8, np.eye(4), atol=1e-6)


def test_directions_without_variance_are_dropped(rows):
    X, codes, weights = rows
    wide = np.column_stack([X, X[:, 0] - X[:, 1], np.full(200, 7.0)])
    M = whitening_map(class_covariances(wide, codes, weights, 3))
    assert M.shape == (4, 6)
    assert_array_equal(M[:, 5], 0.0)
