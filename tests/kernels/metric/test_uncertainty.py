"""Uncertainty of neighbour votes: values by hand, definition written plainly, blocks."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from vicinal._base import host_jobs
from vicinal._kernels.metric._uncertainty import (
    block_map,
    class_bounds,
    hide_unweighted,
    mean_neighbor_distance,
    neighbor_uncertainty,
    squared_distance_block,
)

# Two classes on a line, 0 1 2 | 4 8.
LINE, BOUNDS = np.array([[0.0], [1.0], [2.0], [4.0], [8.0]]), np.array([0, 3, 5])


def plain_uncertainty(X, codes, n_neighbors, bandwidth2, weights):
    """The definition, a row at a time."""
    out = []
    for i in range(len(X)):
        d2 = ((X - X[i]) ** 2).sum(axis=1)
        d2[i] = np.inf
        d2[weights == 0] = np.inf
        reach = np.sort(d2)[n_neighbors[codes[i]] - 1]
        near = (d2 <= reach * (1 + 1e-12)) * weights * np.exp(-(d2 - d2.min()) / bandwidth2)
        out.append(near[codes != codes[i]].sum() / near.sum())
    return np.array(out)


def test_bounds_of_classes():
    codes = np.array([0, 0, 0, 2, 2])
    assert_array_equal(class_bounds(codes, 4), [0, 3, 3, 5, 5])


def test_distances_hide_the_row_itself_and_rows_without_weight():
    X = LINE
    norms = (X**2).sum(axis=1)
    hidden = hide_unweighted(np.array([1.0, 0.0, 1.0, 1.0, 2.0]), np)
    block = squared_distance_block(X, norms, hidden, slice(2, 4), np)
    assert_allclose(block, [[4, np.inf, np.inf, 4, 36], [16, np.inf, 4, np.inf, 16]])


def test_mean_distance_to_the_kth_neighbour():
    # Squared distances to the nearest: 1, 1, 1, 4, 16.
    assert_allclose(mean_neighbor_distance(LINE, 1, np.ones(5)), 23 / 5)
    weights = np.array([1.0, 1.0, 1.0, 1.0, 3.0])
    assert_allclose(mean_neighbor_distance(LINE, 1, weights), (7 + 3 * 16) / 7)
    # Without the row at 4 the nearest of 8 is at 2.
    weights = np.array([1.0, 1.0, 1.0, 0.0, 1.0])
    assert_allclose(mean_neighbor_distance(LINE, 1, weights), (3 + 36) / 4)


def test_some_rows_are_queried_in_runs(rng):
    X = rng.normal(size=(400, 2))
    some = mean_neighbor_distance(X, 3, np.ones(400), max_queries=64)
    asked = np.concatenate(
        [np.arange(start, start + 16) for start in np.linspace(0, 384, 4).astype(int)]
    )
    d2 = ((X[asked, None] - X[None]) ** 2).sum(axis=2)
    d2[np.arange(64), asked] = np.inf
    assert_allclose(some, np.sort(d2, axis=1)[:, 2].mean())


def test_uncertainty_by_hand():
    # One neighbour: 4 sees 2, of the other class; 8 sees 4, of its own.
    n_neighbors = np.array([1, 1])
    found = neighbor_uncertainty(LINE, BOUNDS, n_neighbors, 1.0, np.ones(5))
    assert_allclose(found, [0.0, 0.0, 0.0, 1.0, 0.0])
    # Two neighbours of 2 are 1 and, tied for the second place, 0 and 4.
    found = neighbor_uncertainty(LINE, BOUNDS, np.array([2, 2]), 3.0, np.ones(5))
    near, far = 1.0, np.exp(-1.0)
    assert_allclose(found[2], far / (near + 2 * far))


@pytest.mark.parametrize("weighted", [False, True])
def test_uncertainty_is_its_definition(rng, weighted):
    X = rng.normal(size=(60, 3))
    X -= X.mean(axis=0)
    codes = np.sort(rng.randint(0, 3, 60))
    weights = rng.randint(0, 3, 60).astype(float) if weighted else np.ones(60)
    n_neighbors = np.array([4, 7, 10])
    found = neighbor_uncertainty(X, class_bounds(codes, 3), n_neighbors, 0.8, weights)
    assert_allclose(found, plain_uncertainty(X, codes, n_neighbors, 0.8, weights), atol=1e-10)


def test_a_tiny_bandwidth_leaves_the_nearest_neighbour(rng):
    X = rng.normal(size=(40, 2))
    codes = np.repeat([0, 1], 20)
    found = neighbor_uncertainty(X, class_bounds(codes, 2), np.array([39, 39]), 1e-9, np.ones(40))
    d2 = ((X[:, None] - X[None]) ** 2).sum(axis=2) + np.diag(np.full(40, np.inf))
    assert_allclose(found, codes[d2.argmin(axis=1)] != codes)


def test_blocks_come_back_in_order_whatever_the_threads():
    blocks = [slice(i, i + 1) for i in range(7)]
    for n_jobs in (1, 3):
        assert block_map(lambda block: block.start**2, blocks, n_jobs) == [i**2 for i in range(7)]
    assert host_jobs(np.zeros((2, 2)), 3) == 3


def test_an_error_in_a_block_is_raised():
    def fail(block):
        raise RuntimeError(f"block {block.start}")

    with pytest.raises(RuntimeError, match="block 0"):
        block_map(fail, [slice(0, 1)], 1)
