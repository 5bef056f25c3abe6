"""Maps of columns: scales, whitening, normal scores."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtri

from vicinal._kernels.linear._maps import (
    MAX_KNOTS,
    normal_score_knots,
    score_slopes,
    standard_scale,
    within_class_whitening,
)


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


def test_normal_scores_are_standardised_mid_rank_quantiles():
    values, scores = normal_score_knots(np.array([5.0, -1.0, 5.0, 2.0]), None)
    assert_array_equal(values, [-1.0, 2.0, 5.0])
    mass = np.array([0.25, 0.25, 0.5])
    raw = ndtri([0.125, 0.375, 0.75])
    raw -= mass @ raw
    assert_allclose(scores, raw / np.sqrt(mass @ raw**2))


def test_normal_scores_ignore_units_and_count_weights(rng):
    x = rng.exponential(size=30)
    plain = normal_score_knots(x, None)[1]
    assert_allclose(normal_score_knots(1e200 * x, None)[1], plain)
    assert_allclose(normal_score_knots(x, np.full(30, 1e12))[1], plain)
    times = rng.randint(1, 4, 30)
    repeated = normal_score_knots(np.repeat(x, times), None)[1]
    assert_allclose(normal_score_knots(x, times.astype(float))[1], repeated)


def test_constant_and_long_columns():
    values, scores = normal_score_knots(np.full(5, 3.0), None)
    assert_array_equal(scores, [0.0])
    assert_array_equal(score_slopes(np.array([1.0, 3.0]), values, scores), 0.0)
    values, scores = normal_score_knots(np.arange(1000.0), None)
    assert len(values) <= MAX_KNOTS
    assert values[[0, -1]].tolist() == [0.0, 999.0]
    assert (np.diff(scores) > 0).all()


def test_score_slopes_are_differences(rng):
    values, scores = normal_score_knots(rng.normal(size=20), None)
    x = 0.5 * (values[1:] + values[:-1])
    step = 1e-7
    expected = (np.interp(x + step, values, scores) - np.interp(x - step, values, scores)) / (
        2 * step
    )
    assert_allclose(score_slopes(x, values, scores), expected, rtol=1e-5)
    assert_array_equal(score_slopes(np.array([-99.0, 99.0]), values, scores), 0.0)
