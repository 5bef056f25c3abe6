"""The share of wrong labels, from how often the surest answers are contradicted."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vicinal._kernels.calibration._label_noise import sure_ranks, wrong_share


def test_ranks_by_hand():
    sureness = np.array([0.9, 0.6, 0.9, 0.7, 0.8])
    answers = np.array([0, 0, 0, 1, 1])
    # Three rows of answer 0, two of them equally sure; two of answer 1.
    assert_allclose(sure_ranks(sureness, answers), [1 / 3, 5 / 6, 1 / 3, 0.75, 0.25])


@pytest.mark.parametrize("floor", [0.0, 0.05, 0.2])
@pytest.mark.parametrize(("level", "power"), [(0.5, 1.0), (0.3, 4.0), (0.02, 10.0)])
def test_the_floor_of_a_curve_is_found(floor, level, power):
    ranks = (np.arange(40000) + 0.5) / 40000
    rates = floor + (1.0 - floor) * level * ranks**power
    share, p_value = wrong_share(np.random.RandomState(0).uniform(size=40000) < rates, ranks, 2)
    assert_allclose(share, floor, atol=0.01 + 0.15 * floor)
    assert (p_value < 1e-3) == (floor > 0.0)


def test_a_flat_half_is_overlap_and_a_flat_tenth_is_not():
    ranks = (np.arange(1000) + 0.5) / 1000
    every = np.arange(1000)
    assert wrong_share(every % 2 == 0, ranks, 2)[1] > 0.1
    share, p_value = wrong_share(every % 10 == 0, ranks, 2)
    assert_allclose(share, 0.1, atol=0.01)
    assert p_value < 1e-6
