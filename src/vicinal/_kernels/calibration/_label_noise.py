r"""What share of labels is wrong, beside classes that overlap.

Rows that are answered alike are ranked by how sure the answer is: :math:`u \to 0` for the surest.
The share :math:`r_c(u)` of the rows answered :math:`c` that were given another label falls towards
the surest where labels are right, slowly if at all where a class overlaps with others everywhere,
steeply where it hardly meets them:

.. math:: r_c(u) = b_c\, u^{k_c}, \qquad k_c \ge 3\,(1 - 2b_c).

Labels that were mistaken wherever they stand leave one floor :math:`w` in all classes that no
sureness undercuts, :math:`r_c(u) = w + (1 - w)\, b_c\, u^{k_c}`.

Confident counting asks another question: how many labels are contradicted by an answer that is at
least as sure as answers of its class are on average. It counts overlap where classes meet often,
and misses labels where answers are rarely sure.
"""

import numpy as np
from scipy import stats

_FLOORS = np.concatenate([[0.0], np.geomspace(1e-3, 0.5, 40)])
_POWERS = np.concatenate([[0.0], np.geomspace(0.1, 16.0, 28)])
_LEVELS = np.geomspace(0.01, 0.5, 24)
# Rows of one answer are counted in so many bins of equal size.
_N_BINS = 30


def sure_ranks(sureness: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """Return the rank of each row among those of the same answer, in (0, 1), small for sure ones.

    Parameters
    ----------
    sureness : ndarray of shape (n_rows,)
        Probability of the answer.
    answers : ndarray of int of shape (n_rows,)
        Most probable class of each row.

    Returns
    -------
    ndarray of shape (n_rows,)
        Rows that are equally sure share their mean rank.
    """
    ranks = np.empty(len(answers))
    for answer in np.unique(answers):
        rows = np.flatnonzero(answers == answer)
        ranks[rows] = (stats.rankdata(-sureness[rows]) - 0.5) / len(rows)
    return ranks


def wrong_share(
    contradicted: np.ndarray, ranks: np.ndarray, answers: np.ndarray, tolerance: float = 0.0
) -> tuple[float, float]:
    """Return the share of wrong labels, and the chance of such evidence where hardly one is wrong.

    Parameters
    ----------
    contradicted : ndarray of bool of shape (n_rows,)
        Whether the answer differs from the label that was given.
    ranks : ndarray of shape (n_rows,)
        What :func:`sure_ranks` returns.
    answers : ndarray of int of shape (n_rows,)
        Most probable class of each row; there are at least two.
    tolerance : float
        Largest floor that is no evidence: a model that is sure and wrong leaves one, too.

    Returns
    -------
    share : float
        Most likely floor.
    p_value : float
        Of the likelihood ratio against floors up to ``tolerance``; at that floor, the most likely
        one is above it in half of all tables.
    """
    classes = np.unique(answers)
    likelihood = np.zeros(len(_FLOORS))
    for answer in classes:
        rows = answers == answer
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
    bend = 2.0 * at - before - after
    shift = 0.5 * (after - before) / bend if bend > 0.0 else 0.0
    return float(_FLOORS[best] * (_FLOORS[best + 1] / _FLOORS[best]) ** shift)


def _floor_likelihood(contradicted: np.ndarray, ranks: np.ndarray, n_classes: int) -> np.ndarray:
    """Return for each floor the log likelihood of rows of one answer, with the best overlap."""
    parts = np.array_split(np.argsort(ranks, kind="stable"), min(_N_BINS, len(ranks)))
    sizes = np.array([len(part) for part in parts])
    hits = np.array([np.sum(contradicted[part]) for part in parts])
    places = np.array([np.mean(ranks[part]) for part in parts])
    floors = _FLOORS[:, None, None]
    rates = floors + (1.0 - floors) * _overlap_curves(places, n_classes)
    rates = np.clip(rates, 1e-9, 1.0 - 1e-9)
    return (np.log(rates) @ hits + np.log1p(-rates) @ (sizes - hits)).max(axis=1)


def _overlap_curves(places: np.ndarray, n_classes: int) -> np.ndarray:
    """Return shares of contradicted rows where every label is right, (n_curves, n_places)."""
    most = 1.0 - 1.0 / n_classes
    levels = np.unique(np.concatenate([_LEVELS, np.linspace(0.5, most, 4)]))
    b, k = (grid.ravel() for grid in np.meshgrid(levels, _POWERS, indexing="ij"))
    steep = k >= 3.0 * (1.0 - 2.0 * b) - 1e-9
    return b[steep, None] * places ** k[steep, None]


def confident_count(proba: np.ndarray, codes: np.ndarray) -> int:
    """Return how many labels are contradicted with the usual confidence of the other class.

    The off-diagonal sum of the confident joint of Northcutt, Jiang and Chuang (2021): a class is
    confident where its probability is no less than its mean over the rows that were given it.

    Parameters
    ----------
    proba : ndarray of shape (n_rows, n_classes)
        Held-out probabilities.
    codes : ndarray of int of shape (n_rows,)
        Classes that were given.

    Returns
    -------
    int
        Rows whose most probable confident class is another than the given one.
    """
    given = np.bincount(codes, minlength=proba.shape[1])
    own = proba[np.arange(len(codes)), codes]
    usual = np.bincount(codes, weights=own, minlength=proba.shape[1]) / np.maximum(given, 1)
    confident = (proba >= usual - 1e-9) & (given > 0)
    best = np.where(confident, proba, -1.0).argmax(axis=1)
    return int(np.sum(confident.any(axis=1) & (best != codes)))
