"""Sums over device rows are those of the host, and of the formulas written out."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn import config_context

from vicinal._kernels.linear._scatter import (
    block_gram,
    class_sums,
    column_means,
    map_rows,
    scatter_matrix,
)

torch = pytest.importorskip("torch")


@pytest.fixture
def rows(rng):
    X, codes, weights = rng.normal(size=(40, 5)), np.arange(40) % 3, rng.uniform(0.5, 2, 40)
    return X, codes, weights


def on_device(*arrays):
    return [torch.from_numpy(array) for array in arrays]


def test_means_by_hand():
    X = torch.tensor([[1.0, 10.0], [3.0, 30.0], [5.0, 50.0]], dtype=torch.float32)
    weights = torch.tensor([1.0, 1.0, 2.0], dtype=torch.float64)
    assert_allclose(column_means(X, weights), [3.5, 35.0])
    codes = torch.tensor([0, 1, 1])
    counts, sums = class_sums(X, codes, weights, 2)
    assert_allclose(counts, [1.0, 3.0])
    assert_allclose(sums, [[1.0, 10.0], [13.0, 130.0]])


def test_scatter_about_the_mean_and_about_class_sums(rows):
    X, codes, weights = rows
    device_X, device_codes, device_weights = on_device(X, codes, weights)
    mean = weights @ X / weights.sum()
    total = scatter_matrix(device_X, device_weights, mean)
    assert_allclose(total, (weights[:, None] * (X - mean)).T @ (X - mean))
    counts, sums = class_sums(device_X, device_codes, device_weights, 3)
    means = sums / counts[:, None]
    within = scatter_matrix(device_X, device_weights, means, device_codes)
    residual = X - means[codes]
    assert_allclose(within, (weights[:, None] * residual).T @ residual)
    assert np.linalg.eigvalsh(total - within).min() > -1e-10


def test_sums_do_not_depend_on_the_blocks(rows):
    X, _, weights = on_device(*rows)
    whole = scatter_matrix(X, weights, np.zeros(5)), column_means(X, weights)
    with config_context(working_memory=0.001):
        parts = scatter_matrix(X, weights, np.zeros(5)), column_means(X, weights)
    for one, other in zip(whole, parts, strict=True):
        assert_allclose(one, other, rtol=1e-12)


def test_blocks_of_columns_of_unequal_width(rows):
    X, _, weights = rows
    blocks = [np.array([0, 3]), np.array([4]), np.array([1, 2])]
    mean = weights @ X / weights.sum()
    found = block_gram(*on_device(X, weights), mean, blocks)
    assert_allclose(found, block_gram(X, weights, mean, blocks), rtol=1e-10)
    Z = (X - mean) * np.sqrt(weights)[:, None]
    # Columns of blocks meet in their order: the second has none beside its first.
    assert_allclose(found[0, 1], Z[:, 0] @ Z[:, 4])
    assert_allclose(found[0, 2], Z[:, 0] @ Z[:, 1] + Z[:, 3] @ Z[:, 2])


def test_single_precision_is_summed_in_double():
    X = torch.full((1000, 1), 16777216.0, dtype=torch.float32)
    X[0, 0] = 16777218.0
    mean = column_means(X, torch.ones(1000, dtype=torch.float64))
    assert mean.dtype == np.float64
    assert_allclose(mean - 16777216.0, [0.002], rtol=1e-6)


def test_a_matrix_of_the_host_maps_rows_in_their_precision(rows):
    X = rows[0]
    (device_X,) = on_device(X)
    matrix = np.asfortranarray(np.arange(10.0).reshape(5, 2))
    assert_allclose(map_rows(device_X, matrix).numpy(), X @ matrix)
    assert map_rows(device_X.float(), matrix).dtype == torch.float32
