"""Sums over neighbourhoods, counted by hand."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from vicinal._kernels.local._smoothing import is_pure, smooth_classes, smooth_targets

INDPTR, INDICES = np.array([0, 2, 2, 5, 5]), np.array([0, 2, 1, 1, 0])
SMOOTHER = np.array([0.25, 0.75, 1.0, 2.0, -1.0])


def test_targets_are_summed():
    Y = np.array([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]])
    out = smooth_targets(INDPTR, INDICES, SMOOTHER, Y)
    assert_allclose(out, [[2.5, 25.0], [0.0, 0.0], [5.0, 50.0], [0.0, 0.0]])
    both = smooth_targets(INDPTR, INDICES, np.stack([SMOOTHER, 2.0 * SMOOTHER]), Y)
    assert_allclose(both, [out, 2.0 * out])


def test_classes_are_summed():
    out = smooth_classes(INDPTR, INDICES, SMOOTHER, np.array([0, 1, 1]), 2)
    assert_allclose(out, [[0.25, 0.75], [0.0, 0.0], [-1.0, 3.0], [0.0, 0.0]])


def test_neighbourhoods_of_one_class_are_marked():
    pure = is_pure(INDPTR, INDICES, np.array([0, 1, 0]))
    assert_array_equal(pure, [True, True, False, True])
    assert_array_equal(is_pure(np.array([0, 0]), np.empty(0, int), np.array([0])), [True])
