"""Weakest-link pruning of a grown tree, and the losses of all its pruned trees at once.

A tree is arrays over its nodes: ``left`` and ``right`` children (-1 at leaves, node 0 the root,
children numbered after their parents) and ``risk``, the loss a node would have as a leaf.
"""

import heapq
from typing import Any, NamedTuple

import numpy as np

from vicinal._kernels._jit import jit


@jit
def collapse_alphas(left, right, risk):
    """Return the penalty per leaf at which each inner node turns into a leaf (equation 15).

    Nodes that disappear inside a collapsed ancestor, and the leaves of the grown tree, have
    infinity and 0. Ties collapse in order of node number, which gives the same trees. The cost is
    O(n_nodes depth log n_nodes).
    """
    n_nodes = len(left)
    parent = np.full(n_nodes, -1)
    leaves = np.ones(n_nodes, dtype=np.int64)
    below = risk.copy()  # risk of the subtree's leaves
    for node in range(n_nodes - 1, -1, -1):
        if left[node] >= 0:
            parent[left[node]] = node
            parent[right[node]] = node
            leaves[node] = leaves[left[node]] + leaves[right[node]]
            below[node] = below[left[node]] + below[right[node]]
    alphas = np.zeros(n_nodes)
    link = np.zeros(n_nodes)
    is_open = np.zeros(n_nodes, dtype=np.bool_)
    heap = [(0.0, 0) for _ in range(0)]
    for node in range(n_nodes):
        if left[node] >= 0:
            link[node] = (risk[node] - below[node]) / (leaves[node] - 1)
            is_open[node] = True
            alphas[node] = np.inf
            heapq.heappush(heap, (link[node], node))
    reached = 0.0
    stack = np.empty(n_nodes, dtype=np.int64)
    while len(heap) > 0:
        weakest, node = heapq.heappop(heap)
        if not is_open[node] or weakest != link[node]:
            continue  # gone with an ancestor, or an outdated entry
        reached = max(reached, weakest)  # rounding must not make the path go back
        alphas[node] = reached
        n_stack = 1
        stack[0] = node
        while n_stack > 0:
            n_stack -= 1
            inner = stack[n_stack]
            is_open[inner] = False
            for child in (left[inner], right[inner]):
                if left[child] >= 0 and is_open[child]:
                    stack[n_stack] = child
                    n_stack += 1
        lost, gained = leaves[node] - 1, risk[node] - below[node]
        above = parent[node]
        while above >= 0:
            leaves[above] -= lost
            below[above] += gained
            if leaves[above] > 1:
                link[above] = (risk[above] - below[above]) / (leaves[above] - 1)
                heapq.heappush(heap, (link[above], above))
            above = parent[above]
    return alphas


@jit
def terminal_ranges(left, right, alphas):
    """Return each node's parent and the penalty up to which it exists in the pruned trees.

    A node is a leaf of the pruned tree for penalties from ``alphas[node]`` (included) up to the
    returned limit (excluded), the least penalty at which one of its ancestors collapses.
    """
    n_nodes = len(left)
    parent = np.full(n_nodes, -1)
    limit = np.full(n_nodes, np.inf)
    for node in range(n_nodes):
        if left[node] >= 0:
            for child in (left[node], right[node]):
                parent[child] = node
                limit[child] = min(limit[node], alphas[node])
    return parent, limit


class PruningPath(NamedTuple):
    """Of each node: the penalty at which it becomes a leaf, its parent, and when it is gone."""

    alphas: np.ndarray
    parent: np.ndarray
    limit: np.ndarray


def pruning_path(nodes: Any) -> PruningPath:
    """Return the path of a fitted scikit-learn tree, given its ``tree_``."""
    left, right = nodes.children_left, nodes.children_right
    share = nodes.weighted_n_node_samples / nodes.weighted_n_node_samples[0]
    alphas = collapse_alphas(left, right, nodes.impurity * share)
    return PruningPath(alphas, *terminal_ranges(left, right, alphas))


def leaf_counts(path: PruningPath, grid: np.ndarray) -> np.ndarray:
    """Return the number of leaves of the pruned tree at each penalty of ``grid``."""
    exists = path.alphas < path.limit
    begun = np.searchsorted(np.sort(path.alphas[exists]), grid, side="right")
    ended = np.searchsorted(np.sort(path.limit[exists]), grid, side="right")
    return begun - ended


@jit
def _path_losses(leaf, parent, first, stop, value, y, weight, power, n_grid):
    """Sum of losses at each grid point, over the path of each row from its leaf to the root."""
    change = np.zeros(n_grid + 1)
    for i in range(len(leaf)):
        node = leaf[i]
        while node >= 0:
            if first[node] < stop[node]:
                residual = abs(value[node] - y[i])
                if power == 2:
                    loss = residual * residual
                elif power == 1:
                    loss = residual
                else:
                    loss = 1.0 if residual > 0.0 else 0.0
                change[first[node]] += weight[i] * loss
                change[stop[node]] -= weight[i] * loss
            node = parent[node]
    return np.cumsum(change)[:n_grid]


def path_losses(
    path: PruningPath,
    value: np.ndarray,
    grid: np.ndarray,
    rows: tuple[np.ndarray, np.ndarray, np.ndarray],
    *,
    power: int,
) -> np.ndarray:
    """Return the weighted loss of rows under every pruned tree of ``grid``, without refits.

    Parameters
    ----------
    path : PruningPath
        The grown tree.
    value : ndarray of shape (n_nodes,)
        What each node predicts as a leaf (a class code for ``power=0``).
    grid : ndarray of shape (n_grid,)
        Rising penalties.
    rows : tuple of ndarray of shape (n_rows,)
        Leaf of the grown tree that each row falls in, targets (class codes for ``power=0``) and
        weights.
    power : {0, 1, 2}
        Misclassification, absolute or squared error.
    """
    leaf, y, weight = rows
    first, stop = (np.searchsorted(grid, part, side="left") for part in (path.alphas, path.limit))
    value, y, weight = (np.ascontiguousarray(part, np.float64) for part in (value, y, weight))
    nodes = leaf.astype(np.int64), path.parent, first, stop, value
    return _path_losses(*nodes, y, weight, power, len(grid))


def penalty_grid(alphas: np.ndarray) -> np.ndarray:
    """Return the geometric means of successive penalties of the path (equation 16).

    The first is 0, the last lies just above the root's.
    """
    path = np.unique(np.append(alphas[np.isfinite(alphas)], 0.0))
    return np.append(np.sqrt(path[:-1] * path[1:]), path[-1] * (1.0 + 1e-9))


def choose_penalty(error: np.ndarray, error_se: np.ndarray, rule: str) -> int:
    """Return the index of the chosen penalty; ties go to the larger one.

    ``"min"`` takes the least error, ``"1se"`` the largest penalty whose error is within one
    standard error of it.
    """
    best = len(error) - 1 - int(np.argmin(error[::-1]))
    if rule == "min":
        return best
    return int(np.flatnonzero(error <= error[best] + error_se[best])[-1])
