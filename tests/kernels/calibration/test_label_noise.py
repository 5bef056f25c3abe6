"""The share of wrong labels, from how often the surest answers are contradicted."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vicinal._kernels.calibration._label_noise import confidence_ranks, confident_count, wrong_share


def test_ranks_by_hand():
    sureness = np.array([0.9, 0.6, 0.9, 0.7, 0.8])
    answers = np.array([0, 0, 0, 1, 1])
    # Three rows of answer 0, two of them equally sure; two of answer 1.
    assert_allclose(confidence_ranks(sureness, answers), [1 / 3, 5 / 6, 1 / 3, 0.75, 0.25])


def test_confident_count_by_hand():
    first = np.array([0.9, 0.8, 0.7, 0.9, 0.3, 0.2, 0.4])
    proba, codes = np.column_stack([first, 1.0 - first]), np.array([0, 0, 0, 1, 1, 1, 0])
    # Usual: (0.9 + 0.8 + 0.7 + 0.4) / 4 = 0.7 and (0.1 + 0.7 + 0.8) / 3 = 0.533. The fourth and the
    # last row are contradicted with as much.
    assert confident_count(proba, codes) == 2
    assert confident_count(proba[:3], codes[:3]) == 0


@pytest.mark.parametrize("floor", [0.0, 0.05, 0.2])
@pytest.mark.parametrize(("level", "power"), [(0.5, 1.0), (0.3, 4.0), (0.02, 10.0)])
def test_the_floor_of_a_curve_is_found(floor, level, power):
    ranks = np.tile((np.arange(20000) + 0.5) / 20000, 2)
    answers = np.repeat([0, 1], 20000)
    rates = floor + (1.0 - floor) * level * ranks**power
    hits = np.random.RandomState(0).uniform(size=40000) < rates
    share, p_value = wrong_share(hits, ranks, answers)
    assert_allclose(share, floor, atol=0.01 + 0.15 * floor)
    assert (p_value < 1e-3) == (floor > 0.0)


def test_every_class_overlaps_in_its_own_way():
    """One class that overlaps everywhere and one that never does have no floor in common."""
    ranks = np.tile((np.arange(500) + 0.5) / 500, 2)
    answers = np.repeat([0, 1], 500)
    hits = np.arange(1000) % 2 == 0
    hits[500:] = False
    assert wrong_share(hits, ranks, answers) == (0.0, 1.0)


def test_a_flat_half_is_overlap_and_a_flat_tenth_is_not():
    ranks = np.tile((np.arange(500) + 0.5) / 500, 2)
    answers = np.repeat([0, 1], 500)
    every = np.arange(1000)
    assert wrong_share(every % 2 == 0, ranks, answers)[1] > 0.1
    share, p_value = wrong_share(every % 10 == 0, ranks, answers)
    assert_allclose(share, 0.1, atol=0.01)
    assert p_value < 1e-6


def test_what_is_tolerated_is_no_evidence():
    rng = np.random.RandomState(0)
    ranks, answers = np.tile((np.arange(1000) + 0.5) / 1000, 2), np.repeat([0, 1], 1000)
    found = [
        wrong_share(rng.uniform(size=2000) < 0.01, ranks, answers, tolerance)[1]
        for tolerance in [0.0] * 5 + [0.01] * 60
    ]
    assert max(found[:5]) < 0.005
    # At the limit of what is tolerated the level is what it says, or below.
    assert np.mean(np.array(found[5:]) < 0.05) < 0.05 + 3 * np.sqrt(0.05 * 0.95 / 60)
