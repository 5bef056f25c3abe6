"""Gated features by hand, their scatters against dense ones, and Fisher's criterion."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vicinal._kernels.metric._gated_fisher import class_scatters, fisher_directions, gated_features


def test_features_by_hand():
    found = gated_features(
        np.array([[3.0, 5.0]]),
        np.array([[0.25, 0.75]]),
        np.array([[1.0, 1.0], [3.0, 9.0]]),
        offset=True,
    )
    assert_allclose(found, [[0.5, 1.0, 0.0, -3.0, 0.25, 0.75]])


@pytest.mark.parametrize("offset", [False, True])
def test_scatters_equal_dense_ones(rng, offset):
    X, centers, codes = rng.normal(size=(30, 2)), rng.normal(size=(3, 2)), np.arange(30) % 3
    shares, weights = rng.dirichlet(np.ones(3), 30), rng.uniform(0.5, 2.0, 30)
    members = np.zeros((30, 3))
    members[np.arange(30), codes] = weights
    within, between = class_scatters(X, shares, centers, members, offset=offset)
    Z = gated_features(X, shares, centers, offset=offset)
    means = np.stack(
        [np.average(Z[codes == c], axis=0, weights=weights[codes == c]) for c in range(3)]
    )
    rest, total = Z - means[codes], weights.sum()
    assert_allclose(within, (rest * weights[:, None]).T @ rest / total, atol=1e-12)
    centred = Z - weights @ Z / total
    assert_allclose(within + between, (centred * weights[:, None]).T @ centred / total, atol=1e-12)


def test_directions_have_unit_variance_within_and_falling_ratios(rng):
    A, B = rng.normal(size=(5, 5)), rng.normal(size=(5, 2))
    within, between = A @ A.T, B @ B.T
    directions, ratios = fisher_directions(within, between, 3, 0.0)
    scale = within + 1e-10 * np.trace(within) / 5 * np.eye(5)
    assert_allclose(directions @ scale @ directions.T, np.eye(3), atol=1e-8)
    assert_allclose(np.diag(directions @ between @ directions.T), ratios, atol=1e-8)
    assert (np.diff(ratios) <= 0).all()
    assert ratios[2] < 1e-8 * ratios[0]
