"""Weights of rows that share leaves, by hand."""

import numpy as np
from numpy.testing import assert_allclose, assert_array_equal

from vicinal._kernels.local._smoothing import leaf_shares, shared_leaves


def forest(max_size=9, out_of_bag=None):
    """Two trees, three rows; tree 0 drew row 0 twice and keeps rows 0, 1 in one leaf."""
    leaves = np.array([[0, 2]])
    start = np.array([0, 2, 3, 6])
    members = np.array([0, 1, 2, 0, 1, 2])
    counts = np.array([2.0, 1.0, 3.0, 1.0, 1.0, 1.0])
    totals = np.array([3.0, 3.0, 3.0])
    asked = None if out_of_bag is None else np.array([out_of_bag])
    return shared_leaves(leaves, asked, leaf_shares(start, members, counts, totals, 3), max_size)


def test_forest_weights_by_hand():
    indptr, rows, weights = forest()
    assert_array_equal(indptr, [0, 3])
    assert_array_equal(rows, [0, 1, 2])
    assert_allclose(weights, [(2 / 3 + 1 / 3) / 2, (1 / 3 + 1 / 3) / 2, 1 / 6])


def test_forest_keeps_the_heaviest_rows_in_order():
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
    shares = leaf_shares(np.array([0, 5]), np.arange(5), np.ones(5), np.array([5.0]), 5)
    _, rows, _ = shared_leaves(np.zeros((1, 1), dtype=int), None, shares, 3)
    assert_array_equal(rows, [0, 1, 2])


def test_shares_of_some_leaves_are_rows_of_all(rng):
    sizes = rng.randint(0, 5, 30)
    start = np.concatenate([[0], np.cumsum(sizes)])
    members, counts = rng.randint(0, 9, start[-1]), rng.randint(1, 4, start[-1]).astype(float)
    totals = np.maximum(np.bincount(np.repeat(np.arange(30), sizes), counts, minlength=30), 1.0)
    some = np.array([0, 3, 4, 17, 29])
    whole = leaf_shares(start, members, counts, totals, 9)
    part = leaf_shares(start, members, counts, totals, 9, some)
    assert_array_equal(part.toarray(), whole[some].toarray())
