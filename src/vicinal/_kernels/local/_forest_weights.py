"""Neighbours by forest: rows that share leaves with a query, and how much.

A forest predicts a weighted mean of training targets. With c_it the number of times row i was drawn
for tree t and L_t(q) the leaf of q,

    w_i(q) = mean_t  c_it 1{i in L_t(q)} / sum_j c_jt 1{j in L_t(q)},

the adaptive nearest neighbours of Lin and Jeon (2006). A training row that is left out sees only
the trees that were grown without it.
"""

import numpy as np
from scipy import sparse


def leaf_shares(
    start, members, counts, totals, n_samples: int, leaves: np.ndarray | None = None
) -> sparse.csr_matrix:
    """Return the share of every row in every leaf, shape (n_leaves, n_samples).

    Parameters
    ----------
    start, members, counts : ndarray
        Rows of each leaf as compressed rows, with the number of times each was drawn.
    totals : ndarray of shape (n_leaves,)
        Sum of the counts of each leaf.
    n_samples : int
        Number of training rows.
    leaves : ndarray of int, default=None
        Leaves that are asked about, ``None`` for all.
    """
    if leaves is not None:
        first, sizes = start[leaves], start[leaves + 1] - start[leaves]
        start = np.concatenate([[0], np.cumsum(sizes)])
        entries = np.repeat(first - start[:-1], sizes) + np.arange(start[-1])
        members, counts, totals = members[entries], counts[entries], totals[leaves]
    shares = counts / np.repeat(totals, np.diff(start))
    return sparse.csr_matrix((shares, members, start), shape=(len(totals), n_samples))


def shared_leaves(leaves, out_of_bag, shares: sparse.csr_matrix, max_size: int):
    """Return the neighbourhoods of queries as compressed rows (indptr, indices, weights).

    Parameters
    ----------
    leaves : ndarray of int64 of shape (n_queries, n_trees)
        Leaf of each query in each tree, as numbered in ``shares``.
    out_of_bag : ndarray of bool of shape (n_queries, n_trees) or None
        Trees that a left-out row may ask; ``None`` where all are asked.
    shares : CSR matrix of shape (n_leaves, n_samples)
        What :func:`leaf_shares` returns.
    max_size : int
        Only so many rows of largest weight are kept, the first ones of equal weight.
    """
    n_queries, n_trees = leaves.shape
    asked = np.full(n_queries, n_trees) if out_of_bag is None else out_of_bag.sum(axis=1)
    visited = leaves.ravel() if out_of_bag is None else leaves[out_of_bag]
    starts = np.concatenate([[0], np.cumsum(asked)])
    shape = (n_queries, shares.shape[0])
    found = sparse.csr_matrix((np.ones(len(visited)), visited, starts), shape=shape) @ shares
    sizes = np.diff(found.indptr)
    kept = np.ones(len(found.data), dtype=bool)
    for q in np.flatnonzero(sizes > max_size):
        own = slice(found.indptr[q], found.indptr[q + 1])
        kept[own] = _heaviest(found.data[own], found.indices[own], max_size)
    indptr = np.concatenate([[0], np.cumsum(np.minimum(sizes, max_size))])
    weights = (found.data / np.repeat(asked, sizes))[kept]
    nearest = sparse.csr_matrix((weights, found.indices[kept], indptr), shape=found.shape)
    # In the order of the rows, so that sums do not depend on the order of the trees.
    nearest.sort_indices()
    return indptr, nearest.indices.astype(np.int64), nearest.data


def _heaviest(values, rows, count: int) -> np.ndarray:
    """Mark the ``count`` largest values, of equal ones those of the first rows."""
    least = np.partition(values, len(values) - count)[len(values) - count]
    marked = values > least
    equal = np.flatnonzero(values == least)
    missing = count - np.count_nonzero(marked)
    marked[equal[np.argsort(rows[equal])[:missing]]] = True
    return marked
