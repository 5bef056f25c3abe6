"""Single decision trees: the nearest point of a leaf is a clip, so distances are exact."""

import numpy as np


def leaf_boxes(left, right, feature, threshold, n_features):
    """Return (leaf numbers, lower bounds, upper bounds): a leaf holds low < x <= high."""
    leaves, lows, highs = [], [], []
    stack = [(0, np.full(n_features, -np.inf), np.full(n_features, np.inf))]
    while stack:
        node, low, high = stack.pop()
        if left[node] == right[node]:
            leaves.append(node)
            lows.append(low)
            highs.append(high)
            continue
        column = feature[node]
        below, above = high.copy(), low.copy()
        below[column] = min(high[column], threshold[node])
        above[column] = max(low[column], threshold[node])
        stack.append((right[node], above, high))
        stack.append((left[node], low, below))
    return np.array(leaves), np.array(lows), np.array(highs)


def nearest_in_boxes(Q, allowed, low, high, scale):
    """Return, for each query, the nearest point of the allowed boxes and its distance.

    ``allowed`` (m, n_boxes) says which boxes count; ``scale`` (d,) multiplies the columns. Ties go
    to the first box. The point lies on the closed box; distance inf where no box is allowed.
    """
    best = np.full(len(Q), np.inf)
    choice = np.zeros(len(Q), dtype=np.int64)
    for b in range(len(low)):
        gap = (np.clip(Q, low[b], high[b]) - Q) * scale
        square = np.einsum("ij,ij->i", gap, gap)
        better = allowed[:, b] & (square < best)
        best[better] = square[better]
        choice[better] = b
    points = np.clip(Q, low[choice], high[choice])
    return points, np.sqrt(best), choice
