"""Boosted symmetric trees: bins, ordered target statistics, splits, leaf values, Shapley values.

All nodes of a level of a symmetric (oblivious) tree have the same split: whether the code of one
column is above a threshold. In a tree of depth ``D`` the results are the bits of a number, bit
``d`` for level ``d``, which is the index of the leaf in a table of ``2^D`` values.

Codes are whole numbers from 0 to 254, one row of the array per column; code 0 is a missing value.
A level without a useful split has the threshold ``NO_SPLIT``, which no code exceeds.
"""

import numpy as np

from vicinal._kernels._jit import fast_jit, jit

SQUARED, LOGISTIC, MULTINOMIAL, QUANTILE = range(4)
NO_SPLIT = 255


# --- codes of columns ---


def quantile_edges(values: np.ndarray, weights: np.ndarray, max_bins: int) -> np.ndarray:
    """Return rising edges that split the values into at most ``max_bins`` bins of equal weight.

    Edges are half-way between neighbouring distinct values; missing values are skipped.
    """
    known = ~np.isnan(values)
    distinct, index = np.unique(values[known], return_inverse=True)
    if len(distinct) < 2:
        return np.empty(0)
    below = np.arange(len(distinct) - 1)
    if len(distinct) > max_bins:
        mass = np.bincount(index, weights=weights[known])
        # A value that fills more than a bin counts as one bin, and leaves the others to the rest.
        for _ in range(max_bins):
            mass = np.minimum(mass, mass.sum() / max_bins)
        share = np.cumsum(mass)
        targets = np.arange(1, max_bins) / max_bins * share[-1]
        # Sums of weights carry rounding; a target this close to a step sits on the step.
        found = np.searchsorted(share, targets - 1e-9 * share[-1])
        below = np.unique(found[found < len(distinct) - 1])
    low, high = distinct[below].astype(np.float64), distinct[below + 1].astype(np.float64)
    middle = low + 0.5 * (high - low)
    return np.where(middle < high, middle, low)


@jit
def bin_columns(X, edges, starts, codes):
    """Write one more than the number of edges below each value to ``codes``, 0 where it is missing.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_columns)
        Values.
    edges, starts : ndarray
        Edges of all columns in a row; those of column j are ``edges[starts[j]:starts[j + 1]]``.
    codes : ndarray of uint8 of shape (n_columns, n_samples)
        Output.
    """
    n_samples, n_columns = X.shape
    for j in range(n_columns):
        first, last = starts[j], starts[j + 1]
        for i in range(n_samples):
            value = X[i, j]
            if np.isnan(value):
                codes[j, i] = 0
                continue
            low, high = first, last
            while low < high:
                middle = (low + high) >> 1
                if edges[middle] < value:
                    low = middle + 1
                else:
                    high = middle
            codes[j, i] = low - first + 1


@jit
def ordered_statistics(categories, targets, weights, order, n_categories, prior, strength):
    """Return target means of each row's category over the rows before it in ``order``.

    The statistic of a row is ``(strength * prior + sum_w target) / (strength + sum_w)`` over the
    earlier rows of its category, so that no row sees its own target.

    Parameters
    ----------
    categories : ndarray of int of shape (n_samples,)
        Category of each row.
    targets : ndarray of shape (n_samples, n_targets)
        Targets.
    weights : ndarray of shape (n_samples,)
        Weights.
    order : ndarray of int of shape (n_samples,)
        The order.
    n_categories : int
        Number of categories.
    prior : ndarray of shape (n_targets,)
        Statistic of a category without rows.
    strength : float
        How many rows the prior counts for.
    """
    n_targets = targets.shape[1]
    sums = np.zeros((n_categories, n_targets + 1))
    out = np.empty(targets.shape)
    for i in order:
        own = sums[categories[i]]
        for t in range(n_targets):
            out[i, t] = (own[t] + strength * prior[t]) / (own[n_targets] + strength)
            own[t] += weights[i] * targets[i, t]
        own[n_targets] += weights[i]
    return out


# --- losses ---


@fast_jit
def derivatives(loss, level, y, score, gradient, curvature):
    r"""Write the first and the second derivative of each row's loss to two arrays.

    With a score ``F``: ``(y - F)^2 / 2``; ``log(1 + e^F) - y F``; ``log sum_k e^{F_k} - F_y``; or
    the pinball loss of the quantile ``level``, whose curvature is set to one. Of the multinomial
    loss, the diagonal of the second derivative.

    Parameters
    ----------
    loss : int
        Which loss.
    level : float
        Level of the quantile.
    y : ndarray of shape (n_samples,)
        Targets; codes of classes for the logistic and the multinomial loss.
    score, gradient, curvature : ndarray of shape (n_samples, n_scores)
        Scores, and the output.
    """
    n_samples, n_scores = score.shape
    for i in range(n_samples):
        if loss == SQUARED:
            gradient[i, 0] = score[i, 0] - y[i]
            curvature[i, 0] = 1.0
        elif loss == LOGISTIC:
            p = 1.0 / (1.0 + np.exp(-score[i, 0]))
            gradient[i, 0] = p - y[i]
            curvature[i, 0] = p * (1.0 - p)
        elif loss == QUANTILE:
            residual = y[i] - score[i, 0]
            gradient[i, 0] = -level if residual > 0 else 1.0 - level if residual < 0 else 0.0
            curvature[i, 0] = 1.0
        else:
            top = score[i, 0]
            for k in range(1, n_scores):
                top = max(top, score[i, k])
            total = 0.0
            for k in range(n_scores):
                gradient[i, k] = np.exp(score[i, k] - top)
                total += gradient[i, k]
            for k in range(n_scores):
                p = gradient[i, k] / total
                gradient[i, k] = p
                curvature[i, k] = p * (1.0 - p)
            gradient[i, int(y[i])] -= 1.0


# --- trees ---


@fast_jit
def _add_histogram(codes, leaf, stats, n_codes, hist):
    """Add the statistics of the rows to the cell of their leaf and code."""
    n_samples, n_stats = stats.shape
    if n_stats == 2:
        for i in range(n_samples):
            cell = leaf[i] * n_codes + codes[i]
            hist[cell, 0] += stats[i, 0]
            hist[cell, 1] += stats[i, 1]
        return
    for i in range(n_samples):
        cell = leaf[i] * n_codes + codes[i]
        for s in range(n_stats):
            hist[cell, s] += stats[i, s]


@fast_jit
def _split_scores(hist, total, n_codes, l2, left, scores):
    """Write the score of the tree after a split at each code, by running sums over the codes."""
    n_leaves, n_stats = total.shape
    last = n_stats - 1
    scores[:] = 0.0
    for node in range(n_leaves):
        if total[node, last] <= 0.0:
            continue
        if n_stats == 2:
            G, H = 0.0, l2
            for b in range(n_codes - 1):
                G += hist[node * n_codes + b, 0]
                H += hist[node * n_codes + b, 1]
                G_right, H_right = total[node, 0] - G, total[node, 1] + l2 + l2 - H
                scores[b] += (G * G * H_right + G_right * G_right * H) / (H * H_right)
            continue
        left[:] = 0.0
        for b in range(n_codes - 1):
            lower, upper = 0.0, 0.0
            for s in range(last):
                left[s] += hist[node * n_codes + b, s]
                lower += left[s] ** 2
                upper += (total[node, s] - left[s]) ** 2
            left[last] += hist[node * n_codes + b, last]
            scores[b] += lower / (left[last] + l2) + upper / (total[node, last] - left[last] + l2)


@fast_jit
def grow_tree(codes, n_codes, columns, stats, l2, split_columns, split_codes, gains, leaf):
    r"""Choose the split of every level that raises the score of the tree most.

    The score is :math:`\sum_l \sum_k G_{lk}^2 / (H_l + \lambda)` over leaves :math:`l`, where
    :math:`G_{lk}` sums the gradients of score :math:`k` in the leaf and :math:`H_l` the last column
    of ``stats``: twice the fall of a quadratic loss with the penalty :math:`\lambda / 2` on squared
    leaf values.

    Parameters
    ----------
    codes : ndarray of uint8 of shape (n_columns, n_samples)
        Codes.
    n_codes : ndarray of int of shape (n_columns,)
        One more than the largest code of each column.
    columns : ndarray of int of shape (depth, n_considered)
        Columns that each level may split.
    stats : ndarray of shape (n_samples, n_scores + 1)
        Weighted gradients, and the weighted mean of the second derivatives of the scores.
    l2 : float
        Penalty.
    split_columns, split_codes, gains : ndarray of shape (depth,)
        Output: the splits, and how much each raised the score.
    leaf : ndarray of int of shape (n_samples,)
        Output: the leaf of each row.
    """
    n_samples, n_stats = stats.shape
    most = 2
    for j in columns.ravel():
        most = max(most, n_codes[j])
    hist = np.empty(((1 << len(split_columns)) * most, n_stats))
    scores, left = np.empty(most), np.empty(n_stats)
    leaf[:] = 0
    for level in range(len(split_columns)):
        n_leaves = 1 << level
        total = np.zeros((n_leaves, n_stats))
        _add_histogram(leaf, leaf, stats, 0, total)  # cells are leaves
        start = 0.0
        for node in range(n_leaves):
            if total[node, n_stats - 1] > 0.0:
                squares = (total[node, : n_stats - 1] ** 2).sum()
                start += squares / (total[node, n_stats - 1] + l2)
        best, best_column, best_code = start * (1.0 + 1e-10), 0, NO_SPLIT
        for j in columns[level]:
            n = n_codes[j]
            hist[: n_leaves * n] = 0.0
            _add_histogram(codes[j], leaf, stats, n, hist)
            _split_scores(hist, total, n, l2, left, scores[: n - 1])
            for b in range(n - 1):
                if scores[b] > best:
                    best, best_column, best_code = scores[b], j, b
        split_columns[level], split_codes[level] = best_column, best_code
        gains[level] = 0.0 if best_code == NO_SPLIT else best - start
        for i in range(n_samples):
            if codes[best_column, i] > best_code:
                leaf[i] |= n_leaves


@fast_jit
def leaf_values(loss, level, y, score, weights, leaf, n_leaves, l2, n_steps):
    r"""Return the values that minimise the penalised loss in each leaf, (n_leaves, n_scores).

    The objective of a leaf is :math:`\sum_{i \in l} w_i L(y_i, F_i + v) + \lambda \|v\|^2 / 2`.
    Newton steps go towards its minimum, with the diagonal of the second derivative; one step is
    exact for the squared error. Several steps are at most one long, over which the curvature of the
    logistic loss changes by a factor of e at most: longer ones may overshoot without end. For the
    quantile loss the value is the weighted quantile of the residuals, shrunk by
    :math:`W_l / (W_l + \lambda)`.
    """
    n_samples, n_scores = score.shape
    values = np.zeros((n_leaves, n_scores))
    if loss == QUANTILE:
        residual = y - score[:, 0]
        order = np.argsort(residual)
        total = np.zeros(n_leaves)
        reached = np.zeros(n_leaves)
        for i in range(n_samples):
            total[leaf[i]] += weights[i]
        for i in order:
            own = leaf[i]
            before = reached[own]
            reached[own] += weights[i]
            if before < level * total[own] <= reached[own]:
                values[own, 0] = residual[i] * total[own] / (total[own] + l2)
        return values
    gradient, curvature = np.empty(score.shape), np.empty(score.shape)
    trial = score.copy()
    for step in range(n_steps):
        if step > 0:
            for i in range(n_samples):
                for k in range(n_scores):
                    trial[i, k] = score[i, k] + values[leaf[i], k]
        derivatives(loss, level, y, trial, gradient, curvature)
        first, second = l2 * values, np.full((n_leaves, n_scores), l2)
        for i in range(n_samples):
            for k in range(n_scores):
                first[leaf[i], k] += weights[i] * gradient[i, k]
                second[leaf[i], k] += weights[i] * curvature[i, k]
        for own in range(n_leaves):
            for k in range(n_scores):
                if second[own, k] > 0.0:
                    change = first[own, k] / second[own, k]
                    if n_steps > 1:
                        change = min(max(change, -1.0), 1.0)
                    values[own, k] -= change
    return values


@fast_jit
def leaf_codes(codes, split_columns, split_codes, leaf):
    """Write the leaf of every row of ``codes``, (n_columns, n_samples), in one tree."""
    leaf[:] = 0
    for d in range(len(split_columns)):
        if split_codes[d] == NO_SPLIT:
            continue
        row = codes[split_columns[d]]
        for i in range(len(leaf)):
            leaf[i] |= (row[i] > split_codes[d]) << d


@fast_jit
def add_values(values, leaf, score):
    """Add the values of the leaf of every row to its scores, (n_samples, n_scores)."""
    for i in range(len(leaf)):
        for k in range(score.shape[1]):
            score[i, k] += values[leaf[i], k]


@fast_jit
def add_trees(codes, split_columns, split_codes, values, score):
    """Add the values of all trees, (n_trees, n_leaves, n_scores), to the scores of all rows."""
    leaf = np.empty(len(score), dtype=np.uint8)
    for t in range(len(values)):
        leaf_codes(codes, split_columns[t], split_codes[t], leaf)
        add_values(values[t], leaf, score)


@fast_jit
def count_leaves(codes, split_columns, split_codes, weights, cover):
    """Add the weights of all rows to their leaf of every tree, (n_trees, n_leaves)."""
    leaf = np.empty(len(weights), dtype=np.uint8)
    for t in range(len(cover)):
        leaf_codes(codes, split_columns[t], split_codes[t], leaf)
        for i in range(len(weights)):
            cover[t, leaf[i]] += weights[i]


# --- explanation ---


@jit
def shapley_values(codes, split_columns, split_codes, sources, values, shares, out):
    r"""Write the exact Shapley values of one row's columns to ``out``, and return the mean score.

    The value of a set :math:`S` of columns is the mean score over the training rows when their
    columns in :math:`S` are replaced by those of the row. In one tree only the bits of the leaf
    count, so that the mean is a sum over leaves: with the bits :math:`b` of the row, a mask
    :math:`m_S` of the levels that split a column of :math:`S`, and the share :math:`c_l` of the
    training rows in leaf :math:`l`,

    .. math:: f(S) = \sum_l c_l \, v[(b \wedge m_S) \vee (l \wedge \neg m_S)].

    All subsets of the columns of the tree, at most as many as it has levels, are enumerated.

    Parameters
    ----------
    codes : ndarray of uint8 of shape (n_columns, 1)
        Codes of the row.
    split_columns, split_codes : ndarray of shape (n_trees, depth)
        The splits.
    sources : ndarray of int of shape (n_columns,)
        Column of the table that each column of codes was made from.
    values : ndarray of shape (n_trees, n_leaves, n_scores)
        Leaf values.
    shares : ndarray of shape (n_trees, n_leaves)
        Share of the training rows in each leaf.
    out : ndarray of shape (n_features, n_scores)
        Output, zeros before.
    """
    n_trees, n_leaves, n_scores = values.shape
    depth = split_columns.shape[1]
    base = np.zeros(n_scores)
    players, masks = np.empty(depth, dtype=np.int64), np.empty(depth, dtype=np.int64)
    mean = np.empty((1 << depth, n_scores))
    for t in range(n_trees):
        n_players, bits = 0, 0
        for d in range(depth):
            if split_codes[t, d] == NO_SPLIT:
                continue
            column = split_columns[t, d]
            bits |= int(codes[column, 0] > split_codes[t, d]) << d
            at = 0
            while at < n_players and players[at] != sources[column]:
                at += 1
            if at == n_players:
                players[at], masks[at] = sources[column], 0
                n_players += 1
            masks[at] |= 1 << d
        for subset in range(1 << n_players):
            mask = 0
            for j in range(n_players):
                if subset >> j & 1:
                    mask |= masks[j]
            mean[subset] = 0.0
            for leaf in range(n_leaves):
                if shares[t, leaf] > 0.0:
                    mean[subset] += shares[t, leaf] * values[t, (bits & mask) | (leaf & ~mask)]
        base += mean[0]
        for subset in range((1 << n_players) - 1):
            size = 0
            for j in range(n_players):
                size += subset >> j & 1
            weight = 1.0 / n_players  # becomes size! (n_players - size - 1)! / n_players!
            for s in range(size):
                weight *= (s + 1) / (n_players - 1 - s)
            for j in range(n_players):
                if not subset >> j & 1:
                    out[players[j]] += weight * (mean[subset | 1 << j] - mean[subset])
    return base
