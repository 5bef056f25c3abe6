"""Exact neighbours on any array library: brute force, ties, rows left out, rounding."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context

from vicinal._kernels.neighbors._nearest import (
    DeviceRows,
    nearest_on_device,
    within_on_device,
)

torch = pytest.importorskip("torch")
NOBODY = -1


def brute(X, Q):
    return np.sqrt(((Q[:, None].astype(float) - X[None].astype(float)) ** 2).sum(axis=2))


def search(X, Q, k, row_codes=None, query_codes=None, n_spare=0):
    row_codes = np.arange(len(X)) if row_codes is None else row_codes
    query_codes = np.full(len(Q), NOBODY) if query_codes is None else query_codes
    given = (torch.from_numpy(a) for a in (Q, row_codes, query_codes))
    Q, row_codes, query_codes = given
    return nearest_on_device(DeviceRows(torch.from_numpy(X)), Q, k, row_codes, query_codes, n_spare)


def within(X, Q, radii, query_codes=None):
    query_codes = np.full(len(Q), NOBODY) if query_codes is None else query_codes
    fitted = DeviceRows(torch.from_numpy(X))
    codes = torch.arange(len(X)), torch.from_numpy(query_codes)
    return within_on_device(fitted, torch.from_numpy(Q), torch.from_numpy(radii), *codes)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_neighbours_are_those_of_brute_force(rng, dtype):
    X, Q = rng.normal(size=(200, 4)).astype(dtype), rng.normal(size=(30, 4)).astype(dtype)
    distances, rows = search(X, Q, 7)
    expected = brute(X, Q)
    order = np.argsort(expected, axis=1, kind="stable")[:, :7]
    assert_array_equal(rows, order)
    assert_allclose(distances, np.take_along_axis(expected, order, axis=1), rtol=1e-6)
    assert distances.numpy().dtype == dtype


def test_far_from_the_origin_single_precision_is_still_exact(rng):
    """Rows a thousand spreads from the origin, where products of float32 cancel."""
    X = (rng.normal(size=(300, 3)) + 1e3).astype(np.float32)
    X[0] = 5e3
    _, rows = search(X, X[50:60], 5)
    assert_array_equal(rows, np.argsort(brute(X, X[50:60]), axis=1, kind="stable")[:, :5])


def test_ties_go_to_the_smaller_row():
    X = np.array([[1.0], [-1.0], [1.0], [3.0], [-1.0]])
    distances, rows = search(X, np.zeros((1, 1)), 4)
    assert rows.tolist() == [[0, 1, 2, 4]]
    assert_allclose(distances, [[1.0, 1.0, 1.0, 1.0]])


def test_equal_rows_beyond_the_candidates_are_found():
    """More ties than candidates: the search must widen until all are seen."""
    X = np.zeros((100, 2))
    X[:90] = 1.0
    _, rows = search(X, np.ones((1, 2)), 3)
    assert rows.tolist() == [[0, 1, 2]]


def test_rows_of_the_same_code_are_left_out(rng):
    X = rng.normal(size=(60, 2))
    groups = np.arange(60) // 3
    _, rows = search(X, X[:12], 4, groups, groups[:12], n_spare=3)
    expected = brute(X, X[:12])
    expected[groups[:12, None] == groups[None]] = np.inf
    assert_array_equal(rows, np.argsort(expected, axis=1, kind="stable")[:, :4])


def test_all_rows_can_be_asked_for(rng):
    X = rng.normal(size=(5, 2))
    distances, rows = search(X, X[:1], 5)
    assert sorted(rows[0].tolist()) == [0, 1, 2, 3, 4]
    assert float(distances[0, 0]) == 0.0


def test_blocks_of_queries_change_nothing(rng):
    X, Q = rng.normal(size=(150, 3)), rng.normal(size=(40, 3))
    whole = search(X, Q, 6)
    with config_context(working_memory=0.02):
        parts = search(X, Q, 6)
    for one, other in zip(whole, parts, strict=True):
        assert_array_equal(one, other)


def test_constant_rows_have_a_scale():
    fitted = DeviceRows(torch.ones((4, 2)))
    assert fitted.scale == 1.0
    distances, _ = search(np.ones((4, 2)), np.array([[1.0, 4.0]]), 2)
    assert_allclose(distances, [[3.0, 3.0]])


def test_lower_bounds_are_below_the_distances_and_close(rng):
    X, Q = rng.normal(size=(80, 5)), rng.normal(size=(9, 5))
    bounds, norms, unit = DeviceRows(torch.from_numpy(X)).lower_bounds(torch.from_numpy(Q))
    squares = brute(X, Q) ** 2
    found = (bounds + norms[:, None]).numpy() / unit
    assert (found <= squares).all()
    assert_allclose(found, squares, rtol=1e-9, atol=1e-9)


def test_everything_within_a_radius_by_hand():
    X = np.array([[0.0], [1.0], [2.0], [4.0]])
    queries, rows, distances = within(X, np.array([[1.0], [9.0], [3.5]]), np.array([1.0, 2.0, 2.5]))
    assert queries.tolist() == [0, 0, 0, 2, 2, 2]
    assert rows.tolist() == [1, 0, 2, 3, 2, 1]
    assert_allclose(distances, [0.0, 1.0, 1.0, 0.5, 1.5, 2.5])
    # The row itself is left out by its code.
    _, rows, _ = within(X, X[1:2], np.array([1.0]), np.array([1]))
    assert rows.tolist() == [0, 2]


def test_radii_are_those_of_brute_force(rng):
    X, Q = rng.normal(size=(120, 3)), rng.normal(size=(20, 3))
    radii = rng.uniform(0.3, 1.5, 20)
    with config_context(working_memory=0.02):
        queries, rows, distances = within(X, Q, radii)
    expected = brute(X, Q)
    inside = expected <= radii[:, None]
    assert len(rows) == inside.sum()
    assert inside[queries, rows].all()
    assert_allclose(distances, expected[queries, rows])
    order = np.lexsort([rows, distances, queries])
    assert_array_equal(order, np.arange(len(rows)))
