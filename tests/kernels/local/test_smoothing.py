"""Smoothing kernels, sums over neighbourhoods, blends and forest weights."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from vicinal._kernels.local._smoothing import (
    KERNELS,
    blend_values,
    is_pure,
    kernel_values,
    loess_values,
    nearest_bandwidth,
    robustness_weights,
    shared_leaves,
    smooth_classes,
    smooth_targets,
    vanishes_at_one,
)

U = np.array([0.0, 0.5, 1.0, 1.5])


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ("uniform", [1, 1, 1, 0]),
        ("epanechnikov", [0.75, 0.5625, 0, 0]),
        ("tricube", [1, (1 - 0.125) ** 3, 0, 0]),
        ("gaussian", np.exp(-0.5 * U**2)),
        ("bisquare", [1, 0.5625, 0, 0]),
        ("triangular", [1, 0.5, 0, 0]),
        ("cosine", [1, np.sqrt(0.5), 0, 0]),
    ],
)
def test_kernel_values_by_hand(kernel, expected):
    assert_allclose(kernel_values(U, kernel), expected, atol=1e-15)


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_decrease(kernel):
    values = kernel_values(np.linspace(0, 2, 50), kernel)
    assert np.all(np.diff(values) <= 1e-15)


def test_only_uniform_and_gaussian_speak_at_the_edge():
    assert [k for k in KERNELS if not vanishes_at_one(k)] == ["uniform", "gaussian"]
    assert vanishes_at_one(lambda u: np.maximum(1 - u, 0))


def test_callable_kernels_are_checked():
    with pytest.raises(ValueError, match="shape"):
        kernel_values(U, lambda u: u[:1])
    with pytest.raises(ValueError, match="negative or non-finite"):
        kernel_values(U, lambda u: -u)


def test_bandwidth_is_the_next_neighbour_or_the_last():
    distances = np.array([[0.0, 1.0, 2.0, 5.0]])
    assert nearest_bandwidth(distances, None, 2, exceed=True) == 2.0
    assert nearest_bandwidth(distances, None, 2, exceed=False) == 1.0
    assert np.isnan(nearest_bandwidth(distances, None, 4, exceed=True))


def test_weighted_bandwidth_counts_weight_not_rows():
    distances = np.array([[0.0, 1.0, 2.0, 5.0]])
    weights = np.array([[2.0, 0.0, 1.0, 1.0]])
    assert nearest_bandwidth(distances, weights, 2, exceed=True) == 2.0
    assert nearest_bandwidth(distances, weights, 2, exceed=False) == 0.0
    ones = np.ones((1, 4))
    for k in (1, 2, 3):
        for exceed in (True, False):
            assert nearest_bandwidth(distances, ones, k, exceed=exceed) == nearest_bandwidth(
                distances, None, k, exceed=exceed
            )


def test_loess_guards():
    assert_allclose(loess_values(np.array([0.0005, 0.5, 0.9995])), [1.0, 0.875**3, 0.0])


def test_robustness_weights_by_hand():
    # Median size 2, scale 12: bisquare of 0, 1/6 and 1.
    expected = [1.0, (1 - 1 / 36) ** 2, 0.0]
    assert_allclose(robustness_weights(np.array([0.0, -2.0, 12.0]), None), expected)


def test_robustness_weights_count_repetition():
    residuals, weights = np.array([1.0, 3.0, 10.0]), np.array([2.0, 1.0, 1.0])
    repeated = robustness_weights(np.array([1.0, 1.0, 3.0, 10.0]), None)
    assert_allclose(robustness_weights(residuals, weights), repeated[1:])


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


def test_blend_is_the_weighted_mean_of_planes():
    """Planes 1 + 2 (q - 0) and 10 - (q - 4) at q = 1, weights 3 and 1."""
    indptr, indices, weights = np.array([0, 2]), np.array([0, 1]), np.array([3.0, 1.0])
    origins, values = np.array([[0.0], [4.0]]), np.array([[1.0], [10.0]])
    slopes = np.array([[[2.0]], [[-1.0]]])
    out = np.full((1, 1), np.nan)
    blend_values(indptr, indices, weights, np.array([[1.0]]), origins, values, slopes, out)
    assert_allclose(out, (3.0 * 3.0 + 13.0) / 4.0)


def test_one_query_is_smoothed_as_one_of_many(rng):
    indptr, indices, Y = np.array([0, 3, 5]), np.array([4, 0, 2, 1, 3]), rng.normal(size=(5, 2))
    for smoother in (rng.normal(size=5), rng.normal(size=(3, 5))):
        both = smooth_targets(indptr, indices, smoother, Y)
        first = smooth_targets(indptr[:2], indices[:3], smoother[..., :3], Y)
        assert_allclose(first, both[..., :1, :], rtol=1e-12)


def shared(leaves, asked, start, members, shares, n_rows, max_size):
    """Return the neighbourhoods as compressed rows; queries are visited in reverse."""
    n = len(leaves)
    found = np.zeros((n, max_size), int), np.zeros((n, max_size)), np.zeros(n, int)
    filed = start, members, shares, n_rows
    shared_leaves(leaves, asked, np.arange(n)[::-1].copy(), *filed, found)
    rows, weights, sizes = found
    is_found = np.arange(max_size) < sizes[:, None]
    return np.concatenate([[0], np.cumsum(sizes)]), rows[is_found], weights[is_found]


def forest(max_size=9, out_of_bag=None):
    """Two trees, three rows; tree 0 drew row 0 twice and keeps rows 0, 1 in one leaf."""
    leaves = np.array([[0, 2]])
    start = np.array([0, 2, 3, 6])
    members = np.array([0, 1, 2, 0, 1, 2])
    counts = np.array([2.0, 1.0, 3.0, 1.0, 1.0, 1.0])
    totals = np.array([3.0, 3.0, 3.0])
    asked = np.array([[True]] if out_of_bag is None else [out_of_bag])
    return shared(
        leaves, asked, start, members, counts / np.repeat(totals, np.diff(start)), 3, max_size
    )


def test_forest_weights_by_hand():
    indptr, rows, weights = forest()
    assert_array_equal(indptr, [0, 3])
    assert_array_equal(rows, [0, 1, 2])
    assert_allclose(weights, [(2 / 3 + 1 / 3) / 2, (1 / 3 + 1 / 3) / 2, 1 / 6])


def test_forest_keeps_the_heaviest_rows():
    _, rows, weights = forest(max_size=2)
    assert_array_equal(rows, [0, 1])
    assert_allclose(weights, [1 / 2, 1 / 3])


def test_left_out_rows_ask_the_trees_grown_without_them():
    _, rows, weights = forest(out_of_bag=[True, False])
    assert_array_equal(rows, [0, 1])
    assert_allclose(weights, [2 / 3, 1 / 3])
    indptr, rows, _ = forest(out_of_bag=[False, False])
    assert_array_equal(indptr, [0, 0])
    assert rows.size == 0


def test_of_equally_heavy_rows_the_first_are_kept():
    leaf = np.array([0, 5]), np.array([3, 1, 4, 0, 2]), np.full(5, 0.2)
    _, rows, _ = shared(np.zeros((1, 1), dtype=int), np.array([[True]]), *leaf, 5, 3)
    assert_array_equal(np.sort(rows), [0, 1, 2])


def test_forest_weights_are_a_product_of_sparse_matrices(rng):
    n_queries, n_trees, n_leaves, n_rows = 20, 6, 30, 40
    start = np.concatenate([[0], np.cumsum(rng.randint(1, 9, n_leaves))])
    members = np.concatenate([rng.permutation(n_rows)[:size] for size in np.diff(start)])
    counts = rng.randint(1, 4, start[-1]).astype(float)
    totals = np.add.reduceat(counts, start[:-1])
    leaves = rng.randint(0, n_leaves, (n_queries, n_trees))
    used = rng.uniform(size=leaves.shape) < 0.7
    shares = sparse.csr_matrix((counts / np.repeat(totals, np.diff(start)), members, start))
    for max_size in (40, 7):
        found = shared(leaves, used, start, members, shares.data, n_rows, max_size)
        dense = sparse.csr_matrix((found[2], found[1], found[0]), (n_queries, n_rows)).toarray()
        for q in range(n_queries):
            wanted = shares[leaves[q][used[q]]].toarray().sum(axis=0) / max(1, used[q].sum())
            kept = np.lexsort((np.arange(wanted.size), -wanted))[:max_size]
            expected = np.zeros(n_rows)
            expected[kept] = wanted[kept]
            assert_allclose(dense[q], expected, rtol=1e-14)
