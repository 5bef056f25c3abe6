"""Random draws of rows."""

import numpy as np
from numpy.testing import assert_allclose

from vicinal._base import hold_out


def test_held_out_rows_follow_the_classes(rng):
    codes = np.repeat([0, 1, 2, 3], [500, 100, 30, 1])
    mask = hold_out(codes, 0.1, rng)
    assert_allclose(np.bincount(codes[mask], minlength=4), [50, 10, 3, 0], atol=1)
    assert not mask[-1]


def test_no_class_is_held_out_whole(rng):
    codes = np.repeat(np.arange(5), 2)
    for _ in range(20):
        assert len(np.unique(codes[~hold_out(codes, 0.9, rng)])) == 5
