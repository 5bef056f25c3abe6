import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

from vicinal._kernels.calibration import _probabilities
from vicinal._kernels.calibration._probabilities import (
    fit_platt,
    fit_saturated_platt,
    fit_slope,
    fit_slopes,
    score_spread,
    slope_derivatives,
    smoothed_targets,
)


def loss(A, B, scores, positive, weights, c):
    f = A * scores + B
    targets = smoothed_targets(positive, weights)
    return weights @ (np.logaddexp(0.0, f) - targets * f) + 0.5 * A * A / c


def test_targets_by_hand():
    found = smoothed_targets(np.array([True, False, False]), np.array([2.0, 1.0, 1.0]))
    assert_allclose(found, [3 / 4, 1 / 4, 1 / 4])


@pytest.mark.parametrize("c", [0.1, 10.0])
def test_sigmoid_is_stationary(rng, c):
    scores, weights = rng.normal(size=40), rng.uniform(0.5, 2.0, 40)
    positive = scores + rng.normal(size=40) > 0
    A, B = fit_platt(scores, positive, weights, c=c)
    for a, b in ((1e-5, 0.0), (0.0, 1e-5)):
        rise = loss(A + a, B + b, scores, positive, weights, c) - loss(
            A - a, B - b, scores, positive, weights, c
        )
        assert abs(rise) / 2e-5 < 1e-6


def test_useless_scores_give_the_share_of_targets():
    A, B = fit_platt(np.zeros(6), np.array([1, 1, 0, 0, 0, 0], bool))
    assert A == 0.0
    expected = (2 * 3 / 4 + 4 / 6) / 6
    assert_allclose(1 / (1 + np.exp(-B)), expected, rtol=1e-6)


def test_weights_are_repetitions(rng):
    scores, times = rng.normal(size=15), rng.randint(1, 4, 15)
    positive = scores > 0.3
    weighted = fit_platt(scores, positive, times.astype(float))
    repeated = fit_platt(np.repeat(scores, times), np.repeat(positive, times))
    assert_allclose(weighted, repeated, rtol=1e-6)


def test_saturation_cuts_scores_that_say_no_more(rng):
    """Beyond one the class is a coin's: cutting there costs nothing and steepens the middle."""
    scores = rng.uniform(-1, 1, 400)
    positive = rng.uniform(size=400) < 1 / (1 + np.exp(-4 * scores))
    far = np.sign(scores) * 30.0
    scores = np.where(rng.uniform(size=400) < 0.2, far, scores)
    limit, A, _ = fit_saturated_platt(scores, positive, c=100.0)
    assert limit < 2.0
    assert A > fit_platt(scores, positive, c=100.0)[0]


def test_saturation_selects_the_limit_of_least_loss():
    """The classes are unequal, so the loss depends on the intercept."""
    rng = np.random.RandomState(4)
    scores, weights = rng.standard_t(2, size=300) - 1.0, rng.uniform(0.5, 2.0, 300)
    positive = rng.uniform(size=300) < 1 / (1 + np.exp(2.0 - 3.0 * np.clip(scores, -1, 1)))
    found = {}
    for reach in (1.0, 0.95, 0.9, 0.8, 0.7, 0.6, 0.5):
        size = np.abs(scores)
        limit = float(np.quantile(size, reach, weights=weights, method="inverted_cdf"))
        cut = np.clip(scores, -limit, limit)
        A, B = fit_platt(cut, positive, weights, c=1e6)
        found[loss(A, B, cut, positive, weights, 1e6)] = limit, A, B
    expected = found[min(found)]
    assert expected[0] < np.abs(scores).max()
    assert_allclose(fit_saturated_platt(scores, positive, weights, c=1e6), expected, rtol=1e-6)


def _loss(slope, scores, codes, weights):
    n_classes = scores.shape[1]
    counts = np.bincount(codes, weights=weights, minlength=n_classes)
    targets = np.full(scores.shape, 2.0 / n_classes)
    targets[np.arange(len(codes)), codes] += counts[codes]
    targets /= (counts[codes] + 2.0)[:, None]
    return -weights @ (targets * log_softmax(slope * scores, axis=1)).sum(axis=1)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 50.0])
def test_slope_is_the_most_likely_one(rng, n_classes, scale):
    scores, weights = scale * rng.normal(size=(200, n_classes)), rng.uniform(0.5, 2, 200)
    codes = (scores / scale + 0.8 * rng.normal(size=scores.shape)).argmax(axis=1)
    slope = fit_slope(scores, codes, weights)
    found = minimize_scalar(
        lambda t: _loss(np.exp(t), scores, codes, weights),
        bracket=(np.log(0.5 / scale), np.log(2.0 / scale)),
        tol=1e-10,
    )
    assert slope == pytest.approx(np.exp(found.x), rel=1e-5)


def test_derivatives_of_the_loss_by_differences(rng, to_array):
    scores, codes, weights = rng.normal(size=(30, 3)), rng.randint(3, size=30), rng.uniform(size=30)
    counts = np.bincount(codes, weights=weights, minlength=3)
    arrays = [to_array(part) for part in (scores, codes, weights, counts)]
    first, second = slope_derivatives(*arrays, 0.8)
    h = 1e-5
    values = [_loss(0.8 + step, scores, codes, weights) for step in (h, -h)]
    slopes = [slope_derivatives(*arrays, 0.8 + step)[0] for step in (h, -h)]
    assert first == pytest.approx((values[0] - values[1]) / (2 * h), rel=1e-6)
    assert second == pytest.approx((slopes[0] - slopes[1]) / (2 * h), rel=1e-6)


def test_separated_classes_have_a_finite_slope():
    scores = np.repeat([[1.0, -1.0], [-1.0, 1.0]], 50, axis=0)
    slope = fit_slope(scores, np.repeat([0, 1], 50), np.ones(100))
    # 51/52 is the smoothed target of both classes.
    assert slope == pytest.approx(0.5 * np.log(51.0), rel=1e-6)


def test_many_classes_do_not_make_the_slope_timid():
    codes = np.repeat(np.arange(26), 20)
    scores = np.eye(26)[codes]
    p = softmax(fit_slope(scores, codes, np.ones(len(codes))) * scores, axis=1)
    # Two rows more among 20 of a class, a 26th of them its own.
    assert p.max(axis=1) == pytest.approx((20 + 2 / 26) / 22, rel=1e-6)


@pytest.mark.parametrize("scores", [np.zeros((6, 2)), -np.eye(2)[[0, 0, 0, 1, 1, 1]]])
def test_useless_or_inverted_scores_keep_a_positive_slope(scores):
    assert fit_slope(scores, np.array([0, 0, 0, 1, 1, 1]), np.ones(6)) > 0


def test_a_stack_is_fitted_as_one_by_one(rng):
    scores, codes = rng.normal(size=(5, 40, 3)), rng.randint(3, size=40)
    scores[1] *= 1e-3
    scores[2] = 0.5  # says nothing
    scores[3] += 10.0 * np.eye(3)[codes]  # separated
    weights = rng.uniform(0.5, 2.0, 40)
    for smooth in (True, False):
        slopes = fit_slopes(scores, codes, weights, smooth=smooth)
        single = [fit_slopes(some[None], codes, weights, smooth=smooth)[0] for some in scores]
        np.testing.assert_allclose(slopes, single, rtol=1e-10)


@pytest.mark.parametrize("size", [1, 250])
def test_batches_do_not_change_slopes(rng, monkeypatch, size):
    scores, codes = rng.normal(size=(5, 40, 3)), rng.randint(3, size=40)
    whole = fit_slopes(scores, codes)
    monkeypatch.setattr(_probabilities, "_BATCH", size)
    assert_allclose(fit_slopes(scores, codes), whole, rtol=1e-10)
    assert_allclose(whole, fit_slopes(scores, codes, np.ones(40)), rtol=1e-12)


def test_slopes_without_rows_are_one():
    assert_allclose(fit_slopes(np.empty((2, 0, 3)), np.empty(0, dtype=int)), 1.0)


def test_spread_ignores_what_a_row_adds_to_all_its_scores():
    scores = np.array([[1.0, -1.0, 0.0], [0.5, 0.0, -0.5]])
    assert score_spread(scores + np.array([[1e3], [-1e6]])) == pytest.approx(1.0)


def test_another_array_library_gives_the_same_slope(rng, to_array):
    scores, codes = rng.normal(size=(60, 3)), rng.randint(0, 3, 60)
    scores[np.arange(60), codes] += 0.7
    weights = rng.uniform(0.5, 2.0, 60)
    found = fit_slope(to_array(scores), to_array(codes), to_array(weights))
    assert found == pytest.approx(fit_slope(scores, codes, weights), rel=1e-9)
    flat = to_array(np.zeros((4, 2)))
    assert fit_slope(flat, to_array(np.array([0, 1, 0, 1])), to_array(np.ones(4))) == 1.0
