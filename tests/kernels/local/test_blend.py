"""Blends of stored planes, by hand."""

import numpy as np
from numpy.testing import assert_allclose

from vicinal._kernels.local._smoothing import blend_slopes, blend_values


def test_blend_is_the_weighted_mean_of_planes():
    """Planes 1 + 2 (q - 0) and 10 - (q - 4) at q = 1, weights 3 and 1."""
    indptr, indices, weights = np.array([0, 2]), np.array([0, 1]), np.array([3.0, 1.0])
    origins, values = np.array([[0.0], [4.0]]), np.array([[1.0], [10.0]])
    slopes = np.array([[[2.0]], [[-1.0]]])
    out = np.full((1, 1), np.nan)
    blend_values(indptr, indices, weights, np.array([[1.0]]), origins, values, slopes, out)
    assert_allclose(out, (3.0 * 3.0 + 13.0) / 4.0)
    gradient = np.full((1, 1, 1), np.nan)
    blend_slopes(indptr, indices, weights, slopes, gradient)
    assert_allclose(gradient, (3.0 * 2.0 - 1.0) / 4.0)
