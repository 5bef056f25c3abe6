"""Platt's sigmoid and the coupling of pairs: stationary by differences, exact where consistent."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vicinal._kernels.calibration._platt import (
    couple_pairs,
    fit_platt,
    fit_saturated_platt,
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


def test_consistent_pairs_are_coupled_exactly():
    p = np.array([[0.5, 0.3, 0.2], [0.05, 0.05, 0.9]])
    pairwise = p[:, :, None] / (p[:, :, None] + p[:, None, :])
    assert_allclose(couple_pairs(pairwise, np.ones((3, 3))), p, atol=1e-8)


def test_a_certain_pair_stays_finite():
    pairwise = np.array([[[0.0, 1.0], [0.0, 0.0]]])
    found = couple_pairs(pairwise, np.ones((2, 2)))
    assert np.isfinite(found).all()
    assert_allclose(found[0], [1.0, 0.0], atol=1e-6)
