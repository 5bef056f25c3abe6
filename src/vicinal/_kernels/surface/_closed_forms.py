"""Closed forms: gradients of support vector machines and networks, leaves of decision trees."""

import numpy as np


def kernel_classifier(X, vectors, dual, intercept, kernel, gamma, coef0, degree, gradient):
    r"""Return f(x) = sum_i dual_i K(v_i, x) + intercept, and its gradient or None.

    K is rbf exp(-gamma |v - x|^2), poly (gamma v'x + coef0)^degree, sigmoid tanh(gamma v'x + coef0)
    or linear v'x.
    """
    inner = X @ vectors.T
    if kernel == "rbf":
        square = (X * X).sum(axis=1)[:, None] + (vectors * vectors).sum(axis=1) - 2.0 * inner
        K = np.exp(-gamma * np.maximum(square, 0.0))
        pull = 2.0 * gamma * K * dual
        value = K @ dual + intercept
        if not gradient:
            return value, None
        return value, pull @ vectors - pull.sum(axis=1)[:, None] * X
    if kernel == "linear":
        slope = np.broadcast_to(dual @ vectors, X.shape)
        return inner @ dual + intercept, slope.copy() if gradient else None
    base = gamma * inner + coef0
    if kernel == "poly":
        K, slope = base**degree, degree * gamma * base ** (degree - 1)
    else:
        K = np.tanh(base)
        slope = gamma * (1.0 - K * K)
    return K @ dual + intercept, (slope * dual) @ vectors if gradient else None


_ACTIVATIONS = {
    "identity": (lambda a: a, np.ones_like),
    "logistic": (lambda a: 1.0 / (1.0 + np.exp(-a)), lambda z: z * (1.0 - z)),
    "tanh": (np.tanh, lambda z: 1.0 - z * z),
    "relu": (lambda a: np.maximum(a, 0.0), lambda z: (z > 0.0).astype(float)),
}


def perceptron_layers(X, weights, offsets, activation, gradient):
    """Return the outputs before the last activation (m, K) and their gradients (m, K, d) or None.

    ``weights`` and ``offsets`` are those of the layers in turn.
    """
    act, slope_of = _ACTIVATIONS[activation]
    layers = [X]
    with np.errstate(over="ignore"):
        for W, b in zip(weights[:-1], offsets[:-1], strict=True):
            layers.append(act(layers[-1] @ W + b))
    value = layers[-1] @ weights[-1] + offsets[-1]
    if not gradient:
        return value, None
    back = np.broadcast_to(weights[-1].T, (len(X), *weights[-1].T.shape))
    for W, z in zip(weights[-2::-1], layers[:0:-1], strict=True):
        back = (back * slope_of(z)[:, None, :]) @ W.T
    return value, np.array(back)


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
        stack += [(right[node], above, high), (left[node], low, below)]
    return np.array(leaves), np.array(lows), np.array(highs)


def nearest_in_boxes(Q, allowed, low, high, scale):
    """Return, for each query, the nearest point of the allowed boxes and its distance.

    ``allowed`` (m, n_boxes) marks the boxes to use; ``scale`` (d,) multiplies the columns. Ties go
    to the first box. The point lies on the closed box; distance inf where no box is allowed.
    """
    best = np.full(len(Q), np.inf)
    choice = np.zeros(len(Q), dtype=np.int64)
    for b in range(len(low)):
        offset = (np.clip(Q, low[b], high[b]) - Q) * scale
        square = np.einsum("ij,ij->i", offset, offset)
        better = allowed[:, b] & (square < best)
        best[better] = square[better]
        choice[better] = b
    points = np.clip(Q, low[choice], high[choice])
    return points, np.sqrt(best), choice
