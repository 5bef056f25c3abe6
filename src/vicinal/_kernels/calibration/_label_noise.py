r"""Share of wrong labels, estimated in the presence of class overlap.

Rows of the same predicted class are ranked by the confidence of the prediction: :math:`u \to 0` for
the most confident. The share :math:`r_c(u)` of rows predicted as :math:`c` with another given label
decreases with confidence if labels are right: slowly where a class overlaps with others everywhere,
steeply where it hardly overlaps:

.. math:: r_c(u) = b_c\, u^{k_c}, \qquad k_c \ge 3\,(1 - 2b_c).

Labels that are wrong at random leave one floor :math:`w` in all classes, also for confident
predictions, :math:`r_c(u) = w + (1 - w)\, b_c\, u^{k_c}`.

Confident counting measures something else: how many labels are contradicted by a prediction that
is at least as confident as the average of its class. It also counts class overlap, and overlooks
wrong labels where predictions are rarely confident.
"""

import numpy as np
from scipy import stats

_FLOORS = np.concatenate([[0.0], np.geomspace(1e-3, 0.5, 40)])
_POWERS = np.concatenate([[0.0], np.geomspace(0.1, 16.0, 28)])
_LEVELS = np.geomspace(0.01, 0.5, 24)
# Number of bins of equal size for the rows of one predicted class.
_N_BINS = 30


def confidence_ranks(confidence: np.ndarray, predictions: np.ndarray) -> np.ndarray:
    """Return the rank of each row within its predicted class, in (0, 1), small for confident ones.

    Parameters
    ----------
    confidence : ndarray of shape (n_rows,)
        Probability of the predicted class.
    predictions : ndarray of int of shape (n_rows,)
        Most probable class of each row.

    Returns
    -------
    ndarray of shape (n_rows,)
        Rows of equal confidence have their mean rank.
    """
    ranks = np.empty(len(predictions))
    for label in np.unique(predictions):
        rows = np.flatnonzero(predictions == label)
        ranks[rows] = (stats.rankdata(-confidence[rows]) - 0.5) / len(rows)
    return ranks


def wrong_share(
    contradicted: np.ndarray, ranks: np.ndarray, predictions: np.ndarray, tolerance: float = 0.0
) -> tuple[float, float]:
    """Return the share of wrong labels, and the p-value against shares up to ``tolerance``.

    Parameters
    ----------
    contradicted : ndarray of bool of shape (n_rows,)
        Whether the prediction differs from the given label.
    ranks : ndarray of shape (n_rows,)
        Result of :func:`confidence_ranks`.
    predictions : ndarray of int of shape (n_rows,)
        Most probable class of each row; there are at least two.
    tolerance : float
        Largest floor that is no evidence, because overconfident models leave one too.

    Returns
    -------
    share : float
        Most likely floor.
    p_value : float
        Of the likelihood ratio test, one-sided.
    """
    classes = np.unique(predictions)
    likelihood = np.zeros(len(_FLOORS))
    for label in classes:
        rows = predictions == label
        likelihood += _floor_likelihood(contradicted[rows], ranks[rows], len(classes))
    best = int(likelihood.argmax())
    share = _between(likelihood, best)
    is_tolerable = _FLOORS <= tolerance
    if is_tolerable[best]:
        return share, 1.0
    ratio = 2.0 * (likelihood[best] - likelihood[is_tolerable].max())
    return share, float(0.5 * stats.chi2.sf(ratio, 1))


def _between(likelihood: np.ndarray, best: int) -> float:
    """Return the floor at the vertex of the parabola through the best one and its neighbours."""
    if not 1 < best < len(_FLOORS) - 1:
        return float(_FLOORS[best])
    before, at, after = likelihood[best - 1 : best + 2]
    curvature = 2.0 * at - before - after
    shift = 0.5 * (after - before) / curvature if curvature > 0.0 else 0.0
    return float(_FLOORS[best] * (_FLOORS[best + 1] / _FLOORS[best]) ** shift)


def _floor_likelihood(contradicted: np.ndarray, ranks: np.ndarray, n_classes: int) -> np.ndarray:
    """Return for each floor the log likelihood of one predicted class, with the best overlap."""
    parts = np.array_split(np.argsort(ranks, kind="stable"), min(_N_BINS, len(ranks)))
    sizes = np.array([len(part) for part in parts])
    hits = np.array([np.sum(contradicted[part]) for part in parts])
    mean_ranks = np.array([np.mean(ranks[part]) for part in parts])
    floors = _FLOORS[:, None, None]
    rates = floors + (1.0 - floors) * _overlap_curves(mean_ranks, n_classes)
    rates = np.clip(rates, 1e-9, 1.0 - 1e-9)
    return (np.log(rates) @ hits + np.log1p(-rates) @ (sizes - hits)).max(axis=1)


def _overlap_curves(mean_ranks: np.ndarray, n_classes: int) -> np.ndarray:
    """Return shares of contradicted rows where every label is right, (n_curves, n_ranks)."""
    most = 1.0 - 1.0 / n_classes
    levels = np.unique(np.concatenate([_LEVELS, np.linspace(0.5, most, 4)]))
    b, k = (grid.ravel() for grid in np.meshgrid(levels, _POWERS, indexing="ij"))
    steep = k >= 3.0 * (1.0 - 2.0 * b) - 1e-9
    return b[steep, None] * mean_ranks ** k[steep, None]


def confident_count(proba: np.ndarray, codes: np.ndarray) -> int:
    """Return how many labels are contradicted with the average confidence of the other class.

    The off-diagonal sum of the confident joint of Northcutt, Jiang and Chuang (2021): a class is
    confident where its probability is at least its mean over the rows with that label.

    Parameters
    ----------
    proba : ndarray of shape (n_rows, n_classes)
        Held-out probabilities.
    codes : ndarray of int of shape (n_rows,)
        Given labels.

    Returns
    -------
    int
        Rows whose most probable confident class differs from the label.
    """
    given = np.bincount(codes, minlength=proba.shape[1])
    own = proba[np.arange(len(codes)), codes]
    usual = np.bincount(codes, weights=own, minlength=proba.shape[1]) / np.maximum(given, 1)
    confident = (proba >= usual - 1e-9) & (given > 0)
    best = np.where(confident, proba, -1.0).argmax(axis=1)
    return int(np.sum(confident.any(axis=1) & (best != codes)))
