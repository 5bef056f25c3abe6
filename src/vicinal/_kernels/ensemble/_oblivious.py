"""Boosted symmetric trees: bins, ordered target statistics, splits, leaf values, Shapley values.

All nodes of a level of a symmetric (oblivious) tree have the same split: whether the code of one
column is above a threshold. In a tree of depth ``D`` the results are the bits of a number, bit
``d`` for level ``d``, which is the index of the leaf in a table of ``2^D`` values.

Codes are whole numbers from 0 to 254, one row of the array per column; code 0 is a missing value.
A level without a useful split has the threshold ``NO_SPLIT``, which no code exceeds.
"""

import numpy as np

from vicinal._kernels._jit import fast_jit, inline_jit, jit, vector_jit

SQUARED, LOGISTIC, MULTINOMIAL, QUANTILE = range(4)
NO_SPLIT = 255
# Units in the sum of the absolute gradients of all rows, and in that of their curvatures.
_UNITS = 2.0**30
# Bounds of numbers that are divided or multiplied.
_SMALLEST, _LARGEST = 1e-250, 1e250
# Newton steps end with one shorter than this.
_SHORT_STEP = 3e-4


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
    X : ndarray of shape (n_columns, n_samples)
        Values.
    edges, starts : ndarray
        Edges of all columns in a row; those of column j are ``edges[starts[j]:starts[j + 1]]``.
    codes : ndarray of uint8 of shape (n_columns, n_samples)
        Output.
    """
    for j in range(len(X)):
        first, last = starts[j], starts[j + 1]
        for i in range(X.shape[1]):
            value = X[j, i]
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


@vector_jit
def derivatives(problem, state, gradient, curvature):
    r"""Write the first and the second derivative of each row's loss to two arrays.

    With a score ``F``: ``(y - F)^2 / 2``; ``log(1 + e^F) - y F``; ``log sum_k e^{F_k} - F_y``; or
    the pinball loss of the quantile ``level``, whose curvature is set to one. Of the multinomial
    loss, the diagonal of the second derivative.

    Parameters
    ----------
    problem : tuple
        Which loss, level of the quantile, targets (codes of classes for the logistic and the
        multinomial loss) and weights of the rows.
    state : tuple of ndarray of shape (n_samples, n_scores)
        Scores, and their odds: ``e^-F`` for the logistic loss, probabilities for the multinomial.
    gradient, curvature : ndarray of shape (n_samples, n_scores)
        Output.
    """
    loss, level, y, _ = problem
    score, odds = state
    n_samples, n_scores = score.shape
    curvature[:] = 1.0
    if loss == SQUARED:
        for i in range(n_samples):
            gradient[i, 0] = score[i, 0] - y[i]
    elif loss == QUANTILE:
        for i in range(n_samples):
            residual = y[i] - score[i, 0]
            gradient[i, 0] = -level if residual > 0 else 1.0 - level if residual < 0 else 0.0
    elif loss == LOGISTIC:
        for i in range(n_samples):
            p = 1.0 / (1.0 + odds[i, 0])
            gradient[i, 0], curvature[i, 0] = p - y[i], p * (1.0 - p)
    else:
        for i in range(n_samples):
            for k in range(n_scores):
                p = odds[i, k]
                gradient[i, k], curvature[i, k] = p, p * (1.0 - p)
            gradient[i, int(y[i])] -= 1.0


@fast_jit
def total_loss(problem, state):
    """Return the weighted sum of the losses of all rows."""
    loss, level, y, weights = problem
    score, odds = state
    total = 0.0
    for i in range(len(y)):
        residual = y[i] - score[i, 0]
        if loss == SQUARED:
            value = 0.5 * residual * residual
        elif loss == LOGISTIC:
            value = np.log1p(odds[i, 0] if y[i] == 1.0 else 1.0 / odds[i, 0])
        elif loss == QUANTILE:
            value = max(level * residual, (level - 1.0) * residual)
        else:
            value = -np.log(odds[i, int(y[i])])
        total += weights[i] * value
    return total


# --- trees ---


@vector_jit
def _pack(stats, packed):
    """Write both statistics of each row as one number of 64 bits, and return their units.

    One addition then adds both, and sums and their differences are exact. Sums over any rows are at
    most ``2^30`` units, up to rounding.
    """
    size, mass = max(np.abs(stats[:, 0]).sum(), _SMALLEST), max(stats[:, 1].sum(), _SMALLEST)
    scale, last = _UNITS / size, _UNITS / mass
    for i in range(len(packed)):
        high, low = np.rint(stats[i, 0] * scale), np.rint(stats[i, 1] * last)
        packed[i] = (np.int64(high) << 32) + np.int64(low)
    return size / _UNITS, mass / _UNITS


@fast_jit
def _add_packed(first, second, rows, leaf, packed, level, hist):
    """Add packed statistics of rows to the cells of their leaves and codes of two columns."""
    bits, one, other = np.uint64(level), hist[0], hist[1]
    for i in range(len(rows)):
        row, own = rows[i], np.uint64(leaf[i])
        one[np.uint64(first[row]) << bits | own] += packed[i]
        other[np.uint64(second[row]) << bits | own] += packed[i]


@inline_jit
def _halves(both):
    """Return the two whole numbers of 32 bits."""
    return np.int32(both >> 32), np.int32(both)


@vector_jit
def _tree_scores(hist, total, n_codes, l2, scores):
    """Write the score of the tree after a split at each code, by running sums over the codes.

    Parameters
    ----------
    hist : ndarray of int64 of shape (n_cells,)
        Sums for each code and leaf; the leaves of a code are neighbours. Replaced by the
        running sums.
    total : ndarray of int64 of shape (n_leaves,)
        Sums for each leaf.
    n_codes : int
        Number of codes.
    l2 : float
        Penalty, in units of the second statistic.
    scores : ndarray of shape (n_codes,)
        Output.
    """
    n_leaves = len(total)
    for b in range(n_codes):
        cells, previous = hist[b * n_leaves :], hist[max(b - 1, 0) * n_leaves :]
        is_running = np.int64(b > 0)
        value = 0.0
        for node in range(n_leaves):
            both = cells[node] + is_running * previous[node]
            cells[node] = both
            g, h = _halves(both)
            G, H = _halves(total[node])
            left, right = np.float64(h) + l2, np.float64(np.int32(H - h)) + l2
            lower, upper = np.float64(g), np.float64(np.int32(G - g))
            value += (lower * lower * right + upper * upper * left) / (left * right)
        scores[b] = value


@fast_jit
def grow_tree(table, columns, rows, stats, l2, tree, leaf):
    r"""Choose the split of every level that raises the score of the tree most.

    The score is :math:`\sum_l G_l^2 / (H_l + \lambda)` over leaves :math:`l`, where :math:`G_l` and
    :math:`H_l` sum the columns of ``stats`` in the leaf: twice the fall of a quadratic loss with
    the penalty :math:`\lambda / 2` on squared leaf values.

    Parameters
    ----------
    table : tuple of ndarray
        Codes, (n_columns, n_samples), and one more than the largest code of each column.
    columns : ndarray of int of shape (depth, n_considered)
        Columns that each level may split.
    rows : ndarray of uint32 of shape (n_rows,)
        Rows that the splits are chosen by.
    stats : ndarray of shape (n_rows, 2)
        Weighted gradients and second derivatives.
    l2 : float
        Penalty.
    tree : tuple of three ndarray of shape (depth,)
        Output: columns and codes of the splits, and how much each raised the score.
    leaf : ndarray of uint8 of shape (n_samples,)
        Output: the leaf of each row.
    """
    codes, n_codes = table
    split_columns, split_codes, gains = tree
    depth, packed = len(split_columns), np.empty(len(rows), dtype=np.int64)
    unit, last_unit = _pack(stats, packed)
    l2 /= last_unit
    most = 2
    for j in columns.ravel():
        most = max(most, n_codes[j])
    hist = np.empty((2, most << (depth - 1)), dtype=np.int64)
    scores = np.empty(most)
    own = np.zeros(len(rows), dtype=np.uint8)
    leaf[:] = 0
    for level in range(depth):
        total = np.zeros(1 << level, dtype=np.int64)
        for i in range(len(rows)):
            total[own[i]] += packed[i]
        # A split of no rows from all others has the score of the tree without it.
        hist[0, : 1 << level] = 0
        _tree_scores(hist[0], total, 1, l2, scores)
        start = scores[0]
        best, best_column, best_code = start * (1.0 + 1e-10), 0, NO_SPLIT
        for at in range(0, columns.shape[1], 2):
            two = columns[level, at : at + 2]
            hist[:, : max(n_codes[two[0]], n_codes[two[-1]]) << level] = 0
            _add_packed(codes[two[0]], codes[two[-1]], rows, own, packed, level, hist)
            for k, j in enumerate(two):
                _tree_scores(hist[k], total, n_codes[j], l2, scores)
                for b in range(n_codes[j] - 1):
                    if scores[b] > best:
                        best, best_column, best_code = scores[b], j, b
        split_columns[level], split_codes[level] = best_column, best_code
        gains[level] = 0.0
        if best_code != NO_SPLIT:
            gains[level] = (best - start) * unit * unit / last_unit
            _mark(codes[best_column], best_code, level, leaf)
            for i in range(len(rows)):
                own[i] = leaf[rows[i]]


@vector_jit
def _mark(column, code, level, leaf):
    """Set the bit of a level in the leaves of the rows whose code is above the threshold."""
    bit, threshold = np.uint8(1 << level), np.uint8(code)
    for i in range(len(leaf)):
        leaf[i] |= bit if column[i] > threshold else np.uint8(0)


@vector_jit
def leaf_values(problem, state, slopes, leaf, n_leaves, l2, n_steps):
    r"""Return the values that minimise the penalised loss in each leaf, (n_leaves, n_scores).

    The objective of a leaf is :math:`\sum_{i \in l} w_i L(y_i, F_i + v) + \lambda \|v\|^2 / 2`.
    Newton steps go towards its minimum, with the diagonal of the second derivative; one step is
    exact for the squared error. Several steps are at most one long, over which the curvature of the
    logistic loss changes by a factor of e at most: longer ones may overshoot without end. They stop
    when all are short. For the quantile loss the value is the weighted quantile of the residuals,
    shrunk by :math:`W_l / (W_l + \lambda)`. ``slopes`` are the derivatives at the scores.
    """
    loss, level, y, weights = problem
    score, odds = state
    if loss == QUANTILE:
        return _shrunk_quantiles(level, y - score[:, 0], weights, leaf, n_leaves, l2)
    gradient, curvature = slopes
    n_samples, n_scores = score.shape
    values = np.zeros((n_leaves, n_scores))
    changes = values
    for step in range(n_steps):
        if step == 1:
            score, odds = score.copy(), odds.copy()
            gradient, curvature = np.empty(score.shape), np.empty(score.shape)
        if step > 0:
            add_to_state(loss, changes, leaf, (score, odds))
            derivatives(problem, (score, odds), gradient, curvature)
        first, second = l2 * values, np.full((n_leaves, n_scores), l2)
        for i in range(n_samples):
            own, weight = leaf[i], weights[i]
            for k in range(n_scores):
                first[own, k] += weight * gradient[i, k]
                second[own, k] += weight * curvature[i, k]
        changes = -first / second
        if n_steps > 1:
            changes = np.minimum(np.maximum(changes, -1.0), 1.0)
        values += changes
        # The next step would have about the square of this length.
        if np.abs(changes).max() < _SHORT_STEP:
            break
    return values


@fast_jit
def _shrunk_quantiles(level, residual, weights, leaf, n_leaves, l2):
    values = np.zeros((n_leaves, 1))
    order = np.argsort(residual)
    for own in range(n_leaves):
        rows = order[leaf[order] == own]
        share = np.cumsum(weights[rows])
        if len(rows):
            at = np.searchsorted(share, level * share[-1])
            values[own, 0] = residual[rows[at]] * share[-1] / (share[-1] + l2)
    return values


@vector_jit
def add_to_state(loss, values, leaf, state):
    """Add the values of the leaf of every row to its scores, and multiply its odds.

    Odds need an exponential per leaf instead of one per row, and stay between two bounds.
    """
    score, odds = state
    add_values(values, leaf, score)
    if loss == LOGISTIC:
        factors = np.exp(-values)
        for i in range(len(leaf)):
            odds[i, 0] = min(max(odds[i, 0] * factors[leaf[i], 0], _SMALLEST), _LARGEST)
    elif loss == MULTINOMIAL:
        factors = np.empty(values.shape)
        for own in range(len(values)):
            factors[own] = np.exp(values[own] - values[own].max())
        for i in range(len(leaf)):
            own, total = leaf[i], 0.0
            for k in range(score.shape[1]):
                odds[i, k] = max(odds[i, k] * factors[own, k], _SMALLEST)
                total += odds[i, k]
            for k in range(score.shape[1]):
                odds[i, k] /= total


@fast_jit
def boost(problem, state, table, chance, penalty, tree):
    """Fit a tree to the scores, add its values to them, and return the values.

    Parameters
    ----------
    problem, state, table : tuple
        As in ``derivatives`` and ``grow_tree``.
    chance : tuple of ndarray
        What is random in the choice of splits: the columns that each level considers, (depth,
        n_considered); bits of the rows, (n_samples / 8,), of which those that are set choose, with
        twice their weight, or none, (0,), where all rows choose; the direction that the gradients
        are projected on, (n_scores,).
    penalty : tuple
        Penalty, largest number of Newton steps, and factor of the leaf values.
    tree : tuple of three ndarray of shape (depth,)
        Output, as in ``grow_tree``.
    """
    weights, (columns, bits, direction) = problem[3], chance
    n_samples, n_scores = state[0].shape
    l2, n_steps, rate = penalty
    gradient, curvature = np.empty((n_samples, n_scores)), np.empty((n_samples, n_scores))
    derivatives(problem, state, gradient, curvature)
    rows, stats = np.empty(n_samples, dtype=np.uint32), np.zeros((n_samples, 2))
    n_rows, every = 0, len(bits) == 0
    for i in range(n_samples):
        if every or bits[i >> 3] >> (i & 7) & 1:
            rows[n_rows] = i
            weight = weights[i] if every else 2.0 * weights[i]
            for k in range(n_scores):
                stats[n_rows, 0] += weight * gradient[i, k] * direction[k]
                stats[n_rows, 1] += weight * curvature[i, k] / n_scores
            n_rows += 1
    leaf = np.empty(n_samples, dtype=np.uint8)
    grow_tree(table, columns, rows[:n_rows], stats[:n_rows], l2, tree, leaf)
    slopes = gradient, curvature
    values = leaf_values(problem, state, slopes, leaf, 1 << len(columns), l2, n_steps) * rate
    add_to_state(problem[0], values, leaf, state)
    return values


@fast_jit
def follow(problem, state, codes, tree, values):
    """Add the values of a tree to the scores of held-out rows, and return their total loss."""
    leaf = np.empty(codes.shape[1], dtype=np.uint8)
    leaf_codes(codes, tree[0], tree[1], leaf)
    add_to_state(problem[0], values, leaf, state)
    return total_loss(problem, state)


@fast_jit
def leaf_codes(codes, split_columns, split_codes, leaf):
    """Write the leaf of every row of ``codes``, (n_columns, n_samples), in one tree."""
    leaf[:] = 0
    for d in range(len(split_columns)):
        if split_codes[d] != NO_SPLIT:
            _mark(codes[split_columns[d]], split_codes[d], d, leaf)


@fast_jit
def add_values(values, leaf, score):
    """Add the values of the leaf of every row to its scores, (n_samples, n_scores)."""
    if score.shape[1] == 1:
        for i in range(len(leaf)):
            score[i, 0] += values[leaf[i], 0]
        return
    for i in range(len(leaf)):
        own = leaf[i]
        for k in range(score.shape[1]):
            score[i, k] += values[own, k]


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
