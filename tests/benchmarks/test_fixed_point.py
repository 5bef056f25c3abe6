"""Brown and Benton's iterations on surfaces whose projections are known."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from _fixed_point import fixed_point, fixed_point_nearest

NORMAL, OFFSET = np.array([3.0, 4.0]), 5.0


def plane(Y, rows):
    """Score 3 x + 4 y - 5 everywhere."""
    return Y @ NORMAL - OFFSET, np.repeat(NORMAL[None], len(Y), axis=0)


def ball(Y, rows):
    """Score |y|^2 - 1, with its gradient."""
    return (Y**2).sum(axis=1) - 1.0, 2.0 * Y


def test_a_plane_is_reached_by_one_orthogonal_step(rng):
    Q = rng.normal(size=(6, 2)) * 4
    Y, converged = fixed_point(plane, Q, np.arange(6), tol=1e-9)
    assert converged.all()
    expected = Q - ((Q @ NORMAL - OFFSET) / 25.0)[:, None] * NORMAL
    assert_allclose(Y, expected, atol=1e-9)


def test_queries_are_not_written_to(rng):
    Q = rng.normal(size=(3, 2))
    before = Q.copy()
    fixed_point_nearest(plane, Q, np.arange(3), tol=1e-9)
    assert_array_equal(Q, before)


def test_a_ray_meets_the_plane_where_it_must():
    Q, V = np.array([[0.0, 0.0], [1.0, 1.0]]), np.array([[1.0, 0.0], [0.0, -2.0]])
    Y, converged = fixed_point(plane, Q, np.arange(2), V, tol=1e-9)
    assert converged.all()
    assert_allclose(Y, [[5.0 / 3.0, 0.0], [1.0, 0.5]], atol=1e-9)


def test_rays_that_take_longer_keep_their_own_direction():
    Q, V = np.array([[1.0, 0.0], [3.0, 0.0]]), np.array([[1.0, 1.0], [1.0, 0.0]])
    Y, converged = fixed_point(ball, Q, np.arange(2), V, tol=1e-10)
    assert converged.all()
    assert_allclose(Y, [[1.0, 0.0], [1.0, 0.0]], atol=1e-8)


def test_a_ray_along_the_plane_is_lost_and_stays():
    Q, V = np.array([[0.0, 0.0]]), np.array([[4.0, -3.0]])
    Y, converged = fixed_point(plane, Q, np.arange(1), V, tol=1e-9)
    assert not converged[0]
    assert_array_equal(Y, Q)


def test_rows_are_handed_on_to_the_local_model():
    """Each query has a line of its own: x = row number."""

    def lines(Y, rows):
        return Y[:, 0] - rows, np.repeat([[1.0, 0.0]], len(Y), axis=0)

    rows = np.array([7, 3])
    Y, converged = fixed_point(lines, np.array([[0.0, 5.0], [0.0, 6.0]]), rows, tol=1e-9)
    assert converged.all()
    assert_allclose(Y, [[7.0, 5.0], [3.0, 6.0]])


def test_a_sphere_is_reached_along_its_radius():
    Q = np.array([[3.0, 0.0], [0.3, 0.4], [-1.0, 2.0]])
    Y, converged = fixed_point(ball, Q, np.arange(3), tol=1e-10)
    assert converged.all()
    assert_allclose(Y, Q / np.linalg.norm(Q, axis=1)[:, None], atol=1e-8)


def test_the_nearest_point_of_an_ellipse_is_found():
    def ellipse(Y, rows):
        scaled = Y / [2.0, 1.0]
        return (scaled**2).sum(axis=1) - 1.0, 2.0 * scaled / [2.0, 1.0]

    q = np.array([[2.5, 1.5]])
    y, converged = fixed_point_nearest(ellipse, q, np.arange(1), tol=1e-9)
    assert converged[0]
    angles = np.linspace(0, np.pi / 2, 200_001)
    curve = np.column_stack([2.0 * np.cos(angles), np.sin(angles)])
    best = curve[np.linalg.norm(curve - q, axis=1).argmin()]
    assert_allclose(y[0], best, atol=1e-4)


def test_no_normal_means_no_answer():
    def flat(Y, rows):
        return np.ones(len(Y)), np.zeros_like(Y)

    Q = np.array([[1.0, 2.0]])
    for search in (fixed_point, fixed_point_nearest):
        Y, converged = search(flat, Q, np.arange(1), tol=1e-9)
        assert not converged[0]
        assert_array_equal(Y, Q)


def test_a_step_beyond_all_measure_is_not_taken():
    def steep(Y, rows):
        return np.full(len(Y), 1e12), np.repeat([[1.0, 0.0]], len(Y), axis=0)

    Y, converged = fixed_point(steep, np.zeros((1, 2)), np.arange(1), tol=1e-9)
    assert not converged[0]
    assert_array_equal(Y, np.zeros((1, 2)))


@pytest.mark.parametrize("max_iter", [1, 3])
def test_the_number_of_steps_is_kept(max_iter):
    asked = []

    def drifting(Y, rows):
        asked.append(len(Y))
        return np.ones(len(Y)), np.repeat([[1.0, 0.0]], len(Y), axis=0)

    Y, converged = fixed_point(
        drifting, np.zeros((2, 2)), np.arange(2), tol=1e-9, max_iter=max_iter
    )
    assert asked == [2] * max_iter
    assert not converged.any()
    assert_allclose(Y[:, 0], -float(max_iter))
