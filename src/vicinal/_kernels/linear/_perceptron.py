"""Multi-class averaged perceptron, compiled, for dense and CSR rows.

Weights lie in memory as (n_features + 1, width): the last row is the bias, and ``width`` is the
number of classes rounded up to a whole vector register, so that the loop over classes, the
innermost one, runs without a remainder. Dense and CSR rows add their products in the same order,
hence give the same bits. Two classes need one vector only, the difference of the two. The loops of
these four cases are written out: one loop that calls for each what differs takes 1.4 to 3 times as
long.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from vicinal._kernels._jit import jit

# Fused multiply-add without reassociation: the order of additions, and with it the path that the
# perceptron takes, must not depend on whether zeros are stored.
_ordered_jit = jit(fastmath={"contract"})

_LANES = 16


class PerceptronFit(NamedTuple):
    """Averaged coefficients, and how many mistakes each epoch made."""

    coef: np.ndarray  # (n_classes, n_features), float32
    intercept: np.ndarray  # (n_classes,), float32
    mistakes: np.ndarray  # (n_epochs,)


def fit_perceptron(
    X: np.ndarray | sparse.csr_array,
    codes: np.ndarray,
    sample_weight: np.ndarray | None,
    n_classes: int,
    *,
    seed: int,
    n_epochs: int = 10,
) -> PerceptronFit:
    r"""Train from zero weights and return the averaged ones.

    For each row of an epoch, in a random order from ``seed``: with scores :math:`s = Wx + b`
    and rival :math:`q = \arg\max_{c \ne y} s_c`, a row with :math:`s_q \ge s_y` adds
    :math:`w_i (x, 1)` to the weights of :math:`y` and takes it from those of :math:`q`. The result
    is the mean of the weights over all steps, the start included, kept lazily as
    :math:`W - A/(t+1)` with :math:`A = \sum t\,\Delta W_t`.

    Rows of weight 0 are removed before the rows are shuffled. ``X`` is converted to float32 if it
    is not.
    """
    n_features = X.shape[1]
    rows = np.arange(X.shape[0]) if sample_weight is None else np.flatnonzero(sample_weight)
    codes = np.ascontiguousarray(codes, dtype=np.int32)
    step = np.ones(1) if sample_weight is None else sample_weight
    steps = np.ascontiguousarray(step, dtype=np.float32)
    width = 1 if n_classes == 2 else -(-n_classes // _LANES) * _LANES
    weights = np.zeros((n_features + 1, width), dtype=np.float32)
    lag = np.zeros_like(weights)
    mistakes = np.zeros(n_epochs, dtype=np.int64)
    state = np.array([seed], dtype=np.uint64)
    stored: Any
    if sparse.issparse(X):
        X = as_float32_csr(X)
        stored = X.data, X.indices, X.indptr
        run_epoch = _binary_csr if n_classes == 2 else _multiclass_csr
    else:
        stored = np.ascontiguousarray(X, dtype=np.float32)
        run_epoch = _binary_dense if n_classes == 2 else _multiclass_dense
    for epoch in range(n_epochs):
        _shuffle(rows, state)
        t = epoch * len(rows)
        mistakes[epoch] = run_epoch(stored, codes, steps, rows, t, n_classes, weights, lag)
        # Without a mistake nothing will ever change: the other epochs would repeat this one.
        if mistakes[epoch] == 0:
            break

    average = weights - lag / np.float32(len(rows) * n_epochs + 1)
    if n_classes == 2:
        average = np.hstack([-average, average]) / np.float32(2.0)
    average = average[:, :n_classes].T
    return PerceptronFit(np.ascontiguousarray(average[:, :-1]), average[:, -1].copy(), mistakes)


def as_float32_csr(X: sparse.csr_array) -> sparse.csr_array:
    """Return ``X`` as the kernels read it: CSR, float32, 32-bit sorted indices without repeats."""
    X = sparse.csr_array(X, dtype=np.float32)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    if X.indices.dtype != np.int32 or X.indptr.dtype != np.int32:
        X = sparse.csr_array(
            (X.data, X.indices.astype(np.int32), X.indptr.astype(np.int32)), shape=X.shape
        )
    return X


def margins_of(scores: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return the score of the true class less the next best, infinite without another.

    The scores of the true classes are overwritten.
    """
    rows = np.arange(len(codes))
    own = scores[rows, codes].copy()
    scores[rows, codes] = -np.inf
    rival = scores.max(axis=1)
    return np.where(np.isfinite(rival), own - rival, np.inf)


def margin_scale(margins: np.ndarray, sample_weight: np.ndarray | None) -> float:
    """Return the weighted standard deviation of training margins, 1 where they do not vary."""
    mean = np.average(margins, weights=sample_weight)
    deviation = float(np.sqrt(np.average((margins - mean) ** 2, weights=sample_weight)))
    return deviation if deviation > 0 else 1.0


@jit
def _shuffle(rows, state):
    """Fisher-Yates with SplitMix64, the same on every platform; ``state`` is advanced."""
    for i in range(len(rows) - 1, 0, -1):
        state[0] += np.uint64(0x9E3779B97F4A7C15)
        z = state[0]
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
        # The top 32 bits times the range: unbiased enough below 2^32 rows, and no division.
        j = np.int64(((z >> np.uint64(32)) * np.uint64(i + 1)) >> np.uint64(32))
        rows[i], rows[j] = rows[j], rows[i]


@_ordered_jit
def _rival(scores, y, n_classes):
    """Return the class other than ``y`` that scores highest."""
    best = 0 if y != 0 else 1
    top = scores[best]
    for c in range(best + 1, n_classes):
        if c != y and scores[c] > top:
            best, top = c, scores[c]
    return best


@_ordered_jit
def _move(weights, lag, j, y, q, x, step, late):
    """Add column ``j`` of a row, of value ``x``, to class ``y`` and take it from its rival."""
    weights[j, y] += step * x
    weights[j, q] -= step * x
    lag[j, y] += late * x
    lag[j, q] -= late * x


@_ordered_jit
def _multiclass_dense(X, codes, steps, rows, t, n_classes, weights, lag):
    """Run one epoch, of which ``t`` steps came before, and return its number of mistakes."""
    n_features, width = X.shape[1], weights.shape[1]
    whole = n_features - n_features % 4
    scores = np.empty(width, dtype=np.float32)
    wrong = 0
    for i in rows:
        t += 1
        for c in range(width):
            scores[c] = weights[n_features, c]
        for j in range(0, whole, 4):
            w0, w1, w2, w3 = weights[j], weights[j + 1], weights[j + 2], weights[j + 3]
            x0, x1, x2, x3 = X[i, j], X[i, j + 1], X[i, j + 2], X[i, j + 3]
            for c in range(width):
                scores[c] = scores[c] + x0 * w0[c] + x1 * w1[c] + x2 * w2[c] + x3 * w3[c]
        for j in range(whole, n_features):
            for c in range(width):
                scores[c] += X[i, j] * weights[j, c]
        y = codes[i]
        q = _rival(scores, y, n_classes)
        if scores[q] >= scores[y]:
            wrong += 1
            step = steps[i] if len(steps) > 1 else steps[0]
            late = np.float32(t) * step
            for j in range(n_features):
                _move(weights, lag, j, y, q, X[i, j], step, late)
            _move(weights, lag, n_features, y, q, np.float32(1.0), step, late)
    return wrong


@_ordered_jit
def _multiclass_csr(X, codes, steps, rows, t, n_classes, weights, lag):
    data, indices, indptr = X
    n_features = weights.shape[0] - 1
    width = weights.shape[1]
    scores = np.empty(width, dtype=np.float32)
    wrong = 0
    for i in rows:
        t += 1
        for c in range(width):
            scores[c] = weights[n_features, c]
        for k in range(indptr[i], indptr[i + 1]):
            x = data[k]
            j = indices[k]
            for c in range(width):
                scores[c] += x * weights[j, c]
        y = codes[i]
        q = _rival(scores, y, n_classes)
        if scores[q] >= scores[y]:
            wrong += 1
            step = steps[i] if len(steps) > 1 else steps[0]
            late = np.float32(t) * step
            for k in range(indptr[i], indptr[i + 1]):
                _move(weights, lag, indices[k], y, q, data[k], step, late)
            _move(weights, lag, n_features, y, q, np.float32(1.0), step, late)
    return wrong


@_ordered_jit
def _binary_dense(X, codes, steps, rows, t, n_classes, weights, lag):
    n_features = X.shape[1]
    w, a = weights[:, 0], lag[:, 0]
    lanes = np.zeros(_LANES, dtype=np.float32)
    wrong = 0
    for i in rows:
        t += 1
        for c in range(_LANES):
            lanes[c] = 0.0
        j = 0
        while j + _LANES <= n_features:
            for c in range(_LANES):
                lanes[c] += X[i, j + c] * w[j + c]
            j += _LANES
        for c in range(n_features - j):
            lanes[c] += X[i, j + c] * w[j + c]
        score = w[n_features]
        for c in range(_LANES):
            score += lanes[c]
        sign = np.float32(1.0) if codes[i] == 1 else np.float32(-1.0)
        if score * sign <= 0.0:
            wrong += 1
            step = sign * np.float32(2.0) * (steps[i] if len(steps) > 1 else steps[0])
            late = np.float32(t) * step
            for j in range(n_features):
                w[j] += step * X[i, j]
                a[j] += late * X[i, j]
            w[n_features] += step
            a[n_features] += late
    return wrong


@_ordered_jit
def _binary_csr(X, codes, steps, rows, t, n_classes, weights, lag):
    data, indices, indptr = X
    n_features = weights.shape[0] - 1
    w, a = weights[:, 0], lag[:, 0]
    lanes = np.zeros(_LANES, dtype=np.float32)
    wrong = 0
    for i in rows:
        t += 1
        for c in range(_LANES):
            lanes[c] = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            j = indices[k]
            lanes[j % _LANES] += data[k] * w[j]
        score = w[n_features]
        for c in range(_LANES):
            score += lanes[c]
        sign = np.float32(1.0) if codes[i] == 1 else np.float32(-1.0)
        if score * sign <= 0.0:
            wrong += 1
            step = sign * np.float32(2.0) * (steps[i] if len(steps) > 1 else steps[0])
            late = np.float32(t) * step
            for k in range(indptr[i], indptr[i + 1]):
                w[indices[k]] += step * data[k]
                a[indices[k]] += late * data[k]
            w[n_features] += step
            a[n_features] += late
    return wrong
