r"""Conformal quantiles with finite-sample coverage, and scores of labels.

With n scores of held-out rows and the score of a new row exchangeable with them,
:math:`P(e_{n+1} \le q) \ge c` for the :math:`\lceil c (n + 1) \rceil`-th smallest score q; q is
infinite where n is too small.
"""

import numpy as np


def conformal_quantile(
    scores: np.ndarray, coverage: float, weights: np.ndarray | None = None
) -> float:
    """Return the score that a new row does not exceed with probability ``coverage``.

    Parameters
    ----------
    scores : ndarray of shape (n_rows,)
        Scores of held-out rows.
    coverage : float
        Probability, between 0 and 1.
    weights : ndarray of shape (n_rows,), optional
        Weights of the rows; that of the new row is :func:`own_weight`.

    Returns
    -------
    float
        Infinite where the rows are too few.
    """
    own = np.array([own_weight(weights)])
    given = np.ones((1, len(scores))) if weights is None else weights[None]
    return float(local_quantiles(scores[None], given, own, coverage)[0])


def own_weight(weights: np.ndarray | None) -> float:
    """Return the weight of a new row: one, where weights are counts, or else their mean.

    With weights below one, a new row of weight one would count more than the others.
    """
    return 1.0 if weights is None or not len(weights) else min(1.0, float(weights.mean()))


def local_quantiles(
    scores: np.ndarray, weights: np.ndarray, own: np.ndarray, coverage: float
) -> np.ndarray:
    """Return a conformal quantile per query from the scores and weights of its neighbours.

    Parameters
    ----------
    scores, weights : ndarray of shape (n_queries, n_neighbors)
        Scores of the rows around each query, and their weights.
    own : ndarray of shape (n_queries,)
        Weight of the query itself, whose score is infinite.
    coverage : float
        Probability, between 0 and 1.

    Returns
    -------
    ndarray of shape (n_queries,)
        Infinite where the neighbours have less than ``coverage`` of the weight.
    """
    order = np.argsort(scores, axis=1, kind="stable")
    reached = np.cumsum(np.take_along_axis(weights, order, axis=1), axis=1)
    total = (reached[:, -1] if reached.shape[1] else 0.0) + own
    # Tolerance for the rounding of summed weights.
    enough = reached >= (coverage * (1.0 - 1e-12) * total)[:, None]
    everywhere = np.ones((len(scores), 1), dtype=bool)
    first = np.column_stack([enough, everywhere]).argmax(axis=1)
    ordered = np.take_along_axis(scores, order, axis=1)
    return np.column_stack([ordered, np.full(len(scores), np.inf)])[np.arange(len(scores)), first]


def is_skewed(values: np.ndarray) -> bool:
    """Return whether the tails of a sample differ by more than its size explains.

    Kelly's coefficient, (Q90 + Q10 - 2 Q50) / (Q90 - Q10), has a standard deviation of about
    1.2 / sqrt(n) under a normal law.
    """
    low, middle, high = np.quantile(values, [0.1, 0.5, 0.9])
    if high <= low:
        return False
    return abs(high + low - 2.0 * middle) / (high - low) > 0.1 + 2.4 / np.sqrt(len(values))


def threshold_scores(proba: np.ndarray) -> np.ndarray:
    """Return 1 - p for every label: least ambiguous sets (LAC)."""
    return 1.0 - proba


def adaptive_scores(proba: np.ndarray) -> np.ndarray:
    """Return for every label the probability of all more probable labels: adaptive sets (APS).

    The most probable label has score 0, so no set is empty.
    """
    order = np.argsort(-proba, axis=1, kind="stable")
    ordered = np.take_along_axis(proba, order, axis=1)
    above = np.zeros_like(ordered)
    above[:, 1:] = np.cumsum(ordered, axis=1)[:, :-1]
    # Labels of equal probability have the same score.
    for column in range(1, proba.shape[1]):
        tied = ordered[:, column] == ordered[:, column - 1]
        above[tied, column] = above[tied, column - 1]
    scores = np.empty_like(above)
    np.put_along_axis(scores, order, above, axis=1)
    return scores
