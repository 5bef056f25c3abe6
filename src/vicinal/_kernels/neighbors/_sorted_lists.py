"""Sorted lists of neighbours, many side by side."""

import numpy as np

from vicinal._kernels._jit import jit


@jit
def merge_order(first_starts, first, second_starts, second):
    """Return how to order two sets of sorted lists, list by list, and where each list starts.

    List i of a set is ``values[starts[i] : starts[i + 1]]``; positions beyond ``len(first)`` mean
    the second set. Of equal values those of the first set come first.
    """
    n_lists = first_starts.shape[0] - 1
    order = np.empty(first.shape[0] + second.shape[0], np.int64)
    starts = np.zeros(n_lists + 1, np.int64)
    place = 0
    for i in range(n_lists):
        a, a_end = first_starts[i], first_starts[i + 1]
        b, b_end = second_starts[i], second_starts[i + 1]
        while a < a_end or b < b_end:
            if b == b_end or (a < a_end and first[a] <= second[b]):
                order[place] = a
                a += 1
            else:
                order[place] = first.shape[0] + b
                b += 1
            place += 1
        starts[i + 1] = place
    return order, starts
