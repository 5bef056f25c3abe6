"""Neighbours by forest: rows that share leaves with a query, and how much.

A forest predicts a weighted mean of training targets. With c_it the number of times row i was drawn
for tree t and L_t(q) the leaf of q,

    w_i(q) = mean_t  c_it 1{i in L_t(q)} / sum_j c_jt 1{j in L_t(q)},

the adaptive nearest neighbours of Lin and Jeon (2006). A training row that is left out sees only
the trees that were grown without it.
"""

import numpy as np

from vicinal._kernels._jit import jit


@jit
def shared_leaves(
    leaves, out_of_bag, leave_out, start, members, counts, totals, n_samples, max_size
):
    """Return the neighbourhoods of queries as compressed rows (indptr, indices, weights).

    Parameters
    ----------
    leaves : ndarray of int64 of shape (n_queries, n_trees)
        Leaf of each query in each tree, numbered through the forest.
    out_of_bag : ndarray of bool of shape (n_queries, n_trees)
        Trees that a left-out row may ask; read only with ``leave_out``.
    leave_out : bool
        Whether the queries are training rows to be left out.
    start, members, counts : ndarray
        Rows of each leaf as compressed rows, with the number of times each was drawn.
    totals : ndarray of shape (n_leaves,)
        Sum of the counts of each leaf.
    n_samples : int
        Number of training rows.
    max_size : int
        Only so many rows of largest weight are kept.
    """
    n_queries, n_trees = leaves.shape
    share = np.zeros(n_samples)
    touched = np.empty(n_samples, dtype=np.int64)
    indptr = np.zeros(n_queries + 1, dtype=np.int64)
    room = 64 * n_queries + 1
    indices = np.empty(room, dtype=np.int64)
    weights = np.empty(room)
    end = 0
    for q in range(n_queries):
        n_touched = 0
        n_asked = 0
        for t in range(n_trees):
            if leave_out and not out_of_bag[q, t]:
                continue
            n_asked += 1
            leaf = leaves[q, t]
            for e in range(start[leaf], start[leaf + 1]):
                row = members[e]
                if share[row] == 0.0:
                    touched[n_touched] = row
                    n_touched += 1
                share[row] += counts[e] / totals[leaf]
        # In the order of the rows, so that sums do not depend on the order of the trees.
        found = np.sort(touched[:n_touched])
        kept = found
        if n_touched > max_size:
            order = np.argsort(-share[found], kind="mergesort")[:max_size]
            kept = found[np.sort(order)]
        if end + len(kept) > room:
            room = 2 * (end + len(kept))
            indices = _enlarged(indices, end, room)
            weights = _enlarged(weights, end, room)
        for j in range(len(kept)):
            indices[end + j] = kept[j]
            weights[end + j] = share[kept[j]] / n_asked
        for j in range(n_touched):
            share[found[j]] = 0.0
        end += len(kept)
        indptr[q + 1] = end
    return indptr, indices[:end].copy(), weights[:end].copy()


@jit
def _enlarged(values, end, room):
    larger = np.empty(room, dtype=values.dtype)
    larger[:end] = values[:end]
    return larger
