"""Normal scores: mid-rank quantiles, weights, slopes by differences."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import ndtri

from vicinal._kernels.linear._maps import MAX_KNOTS, normal_score_knots, score_slopes


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
