"""Windows of sorted points against weighted polynomials fitted by NumPy."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from vicinal._kernels.local._polynomials import LineFits, LinePoints, LineWindow, smooth_line


def smooth(x, y, Q, k, degree, *, beyond=False, guarded=False, f=None):
    m = len(Q)
    out = LineFits(
        np.full((m, 1), np.nan), np.full((m, 1), np.nan), np.full(m, np.nan), np.ones(m, bool)
    )
    points = LinePoints(x, y[None], np.ones(len(x)) if f is None else f)
    smooth_line(points, Q, LineWindow(k, beyond, 1.0, guarded, degree), True, out)
    return out


def tricube(x, q, k, beyond):
    r = np.abs(x - q)
    h = np.sort(r)[min(k if beyond else k - 1, len(x) - 1)]
    return np.maximum(1 - (r / h) ** 3, 0) ** 3


@pytest.mark.parametrize("degree", [0, 1, 2])
@pytest.mark.parametrize("beyond", [False, True])
def test_equals_a_weighted_polynomial(rng, degree, beyond):
    x, f = np.sort(rng.normal(size=40)), rng.uniform(0.5, 1.0, 40)
    y, Q = rng.normal(size=40), np.array([-3.0, -0.2, 0.0, 0.31, 2.5])
    out = smooth(x, y, Q, 15, degree, beyond=beyond, f=f)
    for t, q in enumerate(Q):
        w = f * tricube(x, q, 15, beyond)
        D = np.vander(x - q, degree + 1, increasing=True)
        inverse = np.linalg.solve((D * w[:, None]).T @ D, (D * w[:, None]).T)
        assert_allclose(out.values[t, 0], inverse[0] @ y, rtol=1e-7)
        assert_allclose(out.norms[t], inverse[0] @ inverse[0], rtol=1e-7)
        if degree:
            assert_allclose(out.slopes[t, 0], inverse[1] @ y, rtol=1e-6, atol=1e-9)


def test_guards_lift_the_centre(rng):
    """LOESS gives weight one below 0.001 of the bandwidth."""
    x = np.array([0.0, 0.0005, 0.4, 1.0])
    y = np.array([1.0, 5.0, 2.0, 9.0])
    out = smooth(x, y, np.zeros(1), 4, 0, guarded=True)
    w = np.array([1.0, 1.0, (1 - 0.4**3) ** 3, 0.0])
    assert_allclose(out.values[0, 0], w @ y / w.sum(), rtol=1e-12)


@pytest.mark.parametrize("degree", [0, 1, 2])
def test_equal_points_cannot_be_smoothed(degree):
    out = smooth(np.ones(6), np.arange(6.0), np.ones(1), 4, degree)
    assert not out.solved[0]
    assert np.isnan(out.values).all()


def test_too_few_distinct_points_for_the_degree():
    x = np.array([0.0, 0.0, 1.0, 1.0, 5.0])
    assert smooth(x, x, np.array([0.5]), 5, 1).solved[0]
    assert not smooth(x, x, np.array([0.5]), 5, 2, beyond=False).solved[0]
