"""Cubic interpolation reproduces cubics."""

import numpy as np
from numpy.testing import assert_allclose

from vicinal._kernels.local._polynomials import (
    grid_twists,
    hermite_grid,
    hermite_line,
    quantile_nodes,
)


def test_hermite_reproduces_cubics(rng):
    nodes = np.array([-1.0, 0.5, 2.0])
    q = np.append(rng.uniform(-1, 2, 20), nodes)
    cubic = np.polynomial.Polynomial([1.0, -2.0, 0.5, 3.0])
    slope = cubic.deriv()
    found = hermite_line(nodes, cubic(nodes)[:, None], slope(nodes)[:, None], q)
    assert_allclose(found[:, 0], cubic(q), rtol=1e-12)


def test_hermite_grid_reproduces_products_of_cubics(rng):
    nodes = np.array([0.0, 1.0, 3.0]), np.array([-1.0, 1.0])
    x, y = np.meshgrid(*nodes, indexing="ij")
    values = x**3 * (1 + y**2)
    slopes = np.stack([3 * x**2 * (1 + y**2), 2 * x**3 * y], axis=-1)
    Q = np.column_stack([rng.uniform(0, 3, 15), rng.uniform(-1, 1, 15)])
    found = hermite_grid(nodes, values[..., None], slopes[:, :, None], (6 * x**2 * y)[..., None], Q)
    assert_allclose(found[:, 0], Q[:, 0] ** 3 * (1 + Q[:, 1] ** 2), rtol=1e-12)


def test_twists_of_a_product_are_exact():
    nodes = np.array([0.0, 1.0, 3.0]), np.array([-1.0, 0.0, 2.0])
    x, y = np.meshgrid(*nodes, indexing="ij")
    slopes = np.stack([y, x], axis=-1)[:, :, None]
    assert_allclose(grid_twists(nodes, slopes), 1.0)


def test_quantile_nodes_span_the_data_once():
    nodes = quantile_nodes(np.array([1.0, 1.0, 1.0, 1.0, 2.0, 7.0]), 4)
    assert nodes[0] == 1.0
    assert nodes[-1] == 7.0
    assert (np.diff(nodes) > 0).all()
