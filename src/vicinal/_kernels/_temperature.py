"""One slope that turns scores into probabilities without moving any decision."""

import numpy as np
from scipy.special import log_softmax


def fit_slope(scores: np.ndarray, codes: np.ndarray, weights: np.ndarray) -> float:
    r"""Return the slope ``a > 0`` for which ``softmax(a * scores)`` is most likely.

    The targets are smoothed as in Platt's method, class ``l`` of weight :math:`W_l` having
    :math:`(W_l + 1)/(W_l + L)`, so that the slope stays finite for separated classes. Since
    only a slope is fitted, the order of the scores of a row never changes.
    """
    n_classes = scores.shape[1]
    counts = np.bincount(codes, weights=weights, minlength=n_classes)
    targets = np.repeat((1.0 / (counts + n_classes))[codes][:, None], n_classes, axis=1)
    targets[np.arange(len(codes)), codes] *= counts[codes] + 1.0
    spread = np.abs(scores - scores.mean(axis=1, keepdims=True)).max()
    if spread == 0.0:
        return 1.0
    # In units of the spread, the slope of any useful set of scores lies well inside these bounds.
    z, lowest, highest = scores / spread, 1e-3, 1e4
    slope = 1.0
    for _ in range(100):
        log_p = log_softmax(slope * z, axis=1)
        p = np.exp(log_p)
        center = (p * z).sum(axis=1)
        grad = weights @ (center - (targets * z).sum(axis=1))
        curve = weights @ ((p * z**2).sum(axis=1) - center**2)
        if curve <= 0.0:
            break
        # The loss is convex in the slope, but far from the optimum it is nearly straight.
        new = np.clip(slope - grad / curve, slope / 4.0, 4.0 * slope)
        new = float(np.clip(new, lowest, highest))
        done = abs(new - slope) <= 1e-12 * slope
        slope = new
        if done:
            break
    return slope / float(spread)
