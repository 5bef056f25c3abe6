"""Merging of many sorted lists."""

import numpy as np
from numpy.testing import assert_array_equal

from vicinal._kernels.neighbors._nearest import merge_order


def test_two_lists_by_hand():
    first, second = np.array([1.0, 3.0, 2.0]), np.array([0.5, 3.0, 4.0])
    order, starts = merge_order(np.array([0, 2, 3]), first, np.array([0, 2, 3]), second)
    assert_array_equal(order, [3, 0, 1, 4, 2, 5])
    assert_array_equal(starts, [0, 4, 6])


def test_order_is_that_of_a_stable_sort(rng):
    sizes = rng.randint(0, 6, size=(2, 40))
    owners = [np.repeat(np.arange(40), n) for n in sizes]
    values = [rng.randint(0, 4, size=n.sum()).astype(float) for n in sizes]
    values = [v[np.lexsort((v, o))] for v, o in zip(values, owners, strict=True)]
    starts = [np.concatenate([[0], np.cumsum(n)]) for n in sizes]
    order, joined = merge_order(starts[0], values[0], starts[1], values[1])
    assert_array_equal(order, np.lexsort((np.concatenate(values), np.concatenate(owners))))
    assert_array_equal(joined, starts[0] + starts[1])
