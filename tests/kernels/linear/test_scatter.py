from itertools import pairwise

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from numpy.testing import assert_allclose
from sklearn import config_context

from vicinal._kernels.linear import _scatter
from vicinal._kernels.linear._scatter import (
    block_gram,
    class_sums,
    column_means,
    map_rows,
    scatter_matrix,
)


@pytest.fixture
def data(rng):
    X = rng.normal(size=(120, 13)) @ rng.normal(size=(13, 13)) + rng.normal(size=13)
    return X, rng.uniform(0.5, 2.0, size=120)


def _scatter_of(X, weights):
    return _scatter.scatter_matrix(X, weights, _scatter.column_means(X, weights))


def _off_block_mass(A, blocks):
    inside = np.zeros_like(A, dtype=bool)
    for block in blocks:
        inside[np.ix_(block, block)] = True
    return np.abs(A[~inside]).max() / np.abs(A).max()


def test_scatter_is_numpys_weighted_covariance(data):
    X, weights = data
    expected = np.cov(X.T, aweights=weights, ddof=0) * weights.sum()
    assert_allclose(_scatter_of(X, weights), expected, rtol=1e-12)


def test_implicit_centring_of_sparse_rows_equals_dense(rng):
    X = sp.csr_array(np.maximum(rng.normal(size=(60, 9)), 0.0))
    weights, codes = rng.uniform(0.5, 2.0, 60), rng.randint(3, size=60)
    dense = X.toarray()
    assert_allclose(_scatter_of(X, weights), _scatter_of(dense, weights), atol=1e-12)
    for A in (X, dense):
        counts, sums = _scatter.class_sums(A, codes, weights, 3)
        means = sums / counts[:, None]
        assert_allclose(means[1], np.average(dense[codes == 1], 0, weights[codes == 1]))
        within = _scatter.scatter_matrix(A, weights, means, codes)
        offsets = means - _scatter.column_means(A, weights)
        total = within + (offsets.T * counts) @ offsets
        assert_allclose(total, _scatter_of(dense, weights), atol=1e-12)


def test_principal_directions_diagonalise_and_drop_noise(data):
    X, weights = data
    X = np.column_stack([X, X[:, 0] + X[:, 1]])
    S = _scatter_of(X, weights)
    values, W = _scatter.principal_directions(S)
    assert W.shape == (13, 14)
    assert_allclose(W @ S @ W.T, np.diag(values), atol=1e-10 * values[0])
    assert (W[np.arange(13), np.abs(W).argmax(axis=1)] > 0).all()


@pytest.mark.parametrize("as_sparse", [False, True])
def test_lanczos_finds_the_leading_directions(data, as_sparse):
    X, weights = data
    mean = _scatter.column_means(X, weights)
    values, W = _scatter.principal_directions(_scatter.scatter_matrix(X, weights, mean))
    given = sp.csr_array(X) if as_sparse else X
    some, V = _scatter.leading_principal_directions(given, weights, mean, 4, np.ones(13))
    assert_allclose(some, values[:4], rtol=1e-10)
    assert_allclose(V, W[:4], atol=1e-8)


def test_discriminant_directions_solve_the_generalised_problem(rng):
    A, B = rng.normal(size=(20, 6)), rng.normal(size=(2, 6))
    within, between = A.T @ A, B.T @ B
    values, W = _scatter.discriminant_directions(between, within, ridge=0.01)
    rho = 0.01 * np.trace(within) / 6
    metric = within + rho * np.eye(6)
    assert_allclose((within + between) @ W.T, metric @ W.T * values, atol=1e-10)
    assert_allclose(np.linalg.norm(W, axis=1), 1.0)
    crossed = W @ metric @ W.T
    assert_allclose(crossed - np.diag(np.diag(crossed)), 0.0, atol=1e-10)
    # Two directions separate; the ridge keeps the others below one and in order.
    assert (values > 1).sum() == 2
    assert (np.diff(values) < 0).all()


def test_block_elimination_is_the_block_cholesky_map(data):
    X, weights = data
    S = _scatter_of(X, weights)
    order = np.random.RandomState(1).permutation(13)
    blocks = np.array_split(order, 4)
    W, kept = _scatter.block_elimination(S, blocks)
    L = np.linalg.cholesky(S[np.ix_(order, order)])
    starts = np.cumsum([0, *map(len, blocks)])
    diagonal = scipy.linalg.block_diag(*(L[a:b, a:b] for a, b in pairwise(starts)))
    assert kept.all()
    assert_allclose(W[np.ix_(order, order)], diagonal @ np.linalg.inv(L), atol=1e-10)


@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_block_elimination_survives_dependent_columns(data, scale):
    X, weights = data
    X = X.copy()
    X[:, 5] = X[:, 2] - 2.0 * X[:, 9]
    X[:, 7] *= scale
    S = _scatter_of(X, weights)
    blocks = np.array_split(np.random.RandomState(0).permutation(13), 4)
    W, kept = _scatter.block_elimination(S, blocks)
    assert _off_block_mass(W @ S @ W.T, blocks) <= 1e-10
    # Either the dependent column is told by earlier blocks, or it shares a block with its causes.
    place = {c: i for i, block in enumerate(blocks) for c in block}
    is_told = max(place[2], place[5], place[9]) != min(place[2], place[5], place[9])
    assert kept.sum() == 13 - (
        is_told and sum(place[c] == max(place[2], place[5], place[9]) for c in (2, 5, 9)) == 1
    )


@pytest.mark.parametrize("n_samples", [4, 8, 12])
@pytest.mark.parametrize("n_blocks", [1, 2, 4, 13])
def test_elimination_of_few_rows_is_that_of_their_scatter(rng, n_samples, n_blocks):
    Z = rng.normal(size=(n_samples, 13)) * np.exp(rng.normal(size=13))
    Z[:, 5] = Z[:, 2] - 2.0 * Z[:, 9]
    blocks = np.array_split(rng.permutation(13), n_blocks)
    W, kept = _scatter.row_block_elimination(Z, blocks)
    expected, expected_kept = _scatter.block_elimination(Z.T @ Z, blocks)
    np.testing.assert_array_equal(kept, expected_kept)
    assert_allclose(W.toarray(), expected, atol=1e-8 * np.abs(expected).max())


def test_block_residuals_are_least_squares_residuals(data):
    X, weights = data
    Z = X - _scatter.column_means(X, weights)
    blocks = np.array_split(np.arange(13), 3)
    W, _ = _scatter.block_elimination(_scatter_of(X, weights), blocks)
    root = np.sqrt(weights)[:, None]
    before, last = Z[:, :9], Z[:, 9:]
    coef = np.linalg.lstsq(root * before, root * last, rcond=None)[0]
    assert_allclose((Z @ W.T)[:, 9:], last - before @ coef, atol=1e-9)


def test_block_gram_is_the_trace_of_products(data):
    X, weights = data
    X = np.where(np.abs(X) < 1.0, 0.0, X)
    mean = _scatter.column_means(X, weights)
    blocks = np.array_split(np.random.RandomState(0).permutation(13), 5)
    G = _scatter.block_gram(X, weights, mean, blocks)
    padded = np.zeros((5, 120, 3))
    for i, block in enumerate(blocks):
        padded[i, :, : len(block)] = (X - mean)[:, block]
    expected = np.einsum("n,inq,jnq->ij", weights, padded, padded)
    assert_allclose(G, expected, rtol=1e-10)
    sparse = _scatter.block_gram(sp.csr_array(X), weights, mean, blocks)
    assert_allclose(sparse, expected, rtol=1e-10)


def test_mixed_blocks_are_orthogonal_on_average_and_keep_the_energy(data):
    X, weights = data
    X = X - _scatter.column_means(X, weights)
    mean = np.zeros(13)
    blocks = np.array_split(np.random.RandomState(0).permutation(13), 5)
    values, V = np.linalg.eigh(_scatter.block_gram(X, weights, mean, blocks))
    mixed = [_scatter.mix_blocks(X, blocks, v) for v in V.T]
    G = np.array([[(weights[:, None] * A * B).sum() for B in mixed] for A in mixed])
    assert_allclose(G, np.diag(values), atol=1e-10 * values[-1])
    assert_allclose(values.sum(), (weights[:, None] * X**2).sum(), rtol=1e-12)
    for A, v in zip(mixed, V.T, strict=True):
        assert_allclose(_scatter.mix_blocks(sp.csr_array(X), blocks, v).toarray(), A, atol=1e-12)
        assert_allclose(X @ _scatter.mixing_matrix(13, blocks, v).toarray(), A, atol=1e-12)


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
    means = sums / counts[:, None]
    assert_allclose(counts, [1.0, 3.0])
    assert_allclose(means, [[1.0, 10.0], [13 / 3, 130 / 3]])


def test_scatter_about_the_mean_and_about_class_means(rows):
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
