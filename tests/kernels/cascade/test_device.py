"""The chain of rejects on another array library: the host's answers, and values by hand."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context

from vicinal._kernels.cascade._hard import (
    any_linear_errors,
    assign_kmeans,
    chain_loss,
    gate_problem,
    linear_errors,
    region_sizes,
    route,
    rows_by_region,
)
from vicinal._kernels.linear._covariance import lda_statistics

torch = pytest.importorskip("torch")


@pytest.fixture
def data(rng):
    return rng.normal(size=(50, 3)), np.arange(50) % 4, rng.uniform(0.5, 2.0, 50)


def on_device(*arrays):
    return [torch.from_numpy(np.ascontiguousarray(array)) for array in arrays]


@pytest.mark.parametrize("some", [None, np.array([3, 3, 10, 49])])
def test_sums_of_classes_written_out(data, some):
    X, codes, weights = data
    rows = np.arange(50) if some is None else some
    given = on_device(X)[0], *on_device(codes[rows], weights[rows])
    found = lda_statistics(*given, 4, rows=None if some is None else torch.from_numpy(some))
    for c in range(4):
        w, block = weights[rows][codes[rows] == c], X[rows][codes[rows] == c]
        assert_allclose(found.weights[c], w.sum())
        assert_allclose(found.sums[c], w @ block, atol=1e-12)
    assert_allclose(found.gram, (weights[rows, None] * X[rows]).T @ X[rows])
    assert_array_equal(found.shifts, 0.0)


def test_sums_without_weights_count_rows_and_do_not_depend_on_blocks(data):
    X, codes = on_device(*data[:2])
    whole = lda_statistics(X, codes, None, 4)
    assert_allclose(whole.weights, [13, 13, 12, 12])
    with config_context(working_memory=0.001):
        parts = lda_statistics(X, codes, None, 4)
    for one, other in zip(whole, parts, strict=True):
        assert_allclose(one, other, atol=1e-12)


def test_rows_of_regions_by_hand():
    region = torch.tensor([2, 0, 2, 0, 0])
    assert_array_equal(region_sizes(region, 4), [3, 0, 2, 0])
    rows = [part.tolist() for part in rows_by_region(region, 4)]
    assert rows == [[1, 3, 4], [], [0, 2], []]


def test_errors_are_those_of_the_host(data, rng):
    X, codes, _ = data
    stages = rng.normal(size=(2, 4, 3)), rng.normal(size=(2, 4))
    device_X, device_codes = on_device(X, codes)
    errors = any_linear_errors(device_X, *stages, device_codes)
    assert_array_equal(errors, linear_errors(X, *stages, codes))
    with config_context(working_memory=0.001):
        blocks = any_linear_errors(device_X, *stages, device_codes)
    assert_array_equal(blocks, errors)


def test_a_row_stops_at_the_first_gate_that_keeps_it():
    passed_on = torch.tensor([[True, True, False], [True, False, True]])
    assert route(passed_on, 3).tolist() == [2, 1, 0]
    assert route(passed_on[:0], 3).tolist() == [0, 0, 0]


def test_a_gate_learns_where_staying_and_passing_differ(to_array):
    own, later = np.array([1.0, 0.0, 4.0, 2.0]), np.array([0.0, 0.0, 1.0, 5.0])
    reached, weight = np.array([True, True, True, False]), np.array([1.0, 1.0, 2.0, 1.0])
    for convert in (np.asarray, to_array):
        found = gate_problem(*map(convert, (own, later, reached, weight)))
        rows, labels, costs = map(np.asarray, found)
        assert rows.tolist() == [0, 2]
        assert labels.tolist() == [1, 1]
        # Differences 1 and 3, times the weights, scaled to the weight of the rows.
        assert_allclose(costs, np.array([1.0, 6.0]) * 3.0 / 7.0)
        losses = convert(np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
        own_losses = chain_loss(losses, convert(np.array([1, 0, 1])))
        assert np.asarray(own_losses).tolist() == [4, 2, 6]


def test_starts_are_those_of_the_host(data):
    X, _, weights = data
    found = assign_kmeans(*on_device(X, weights), 3, np.random.RandomState(5))
    assert_array_equal(found, assign_kmeans(X, weights, 3, np.random.RandomState(5)))


def test_kmeans_parts_what_is_apart():
    X = np.concatenate([np.zeros((6, 2)), np.full((4, 2), 50.0)]) + np.arange(10)[:, None] * 1e-3
    found = [
        assign_kmeans(torch.from_numpy(X), torch.ones(10), 2, np.random.RandomState(seed))
        for seed in range(6)
    ]
    parted = [np.unique(region[:6]).size + np.unique(region[6:]).size == 2 for region in found]
    assert any(parted)
    assert all(set(region.tolist()) <= {0, 1} for region in found)
