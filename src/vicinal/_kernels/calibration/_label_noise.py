r"""What share of labels is wrong, beside classes that overlap.

Rows that are answered alike are ranked by how sure the answer is: :math:`u \to 0` for the surest.
The share :math:`r(u)` of them that were given another label falls towards the surest where labels
are right, slowly if at all where classes overlap everywhere, steeply where they hardly meet:

.. math:: r(u) = b\, u^k, \qquad k \ge 3\,(1 - 2b).

Labels that were mistaken wherever they stand leave a floor :math:`w` that no sureness undercuts,
:math:`r(u) = w + (1 - w)\, b\, u^k`.
"""

import numpy as np
from scipy import stats

_FLOORS = np.concatenate([[0.0], np.geomspace(1e-3, 0.5, 56)])
_POWERS = np.concatenate([[0.0], np.geomspace(0.1, 16.0, 28)])
_LEVELS = np.geomspace(0.01, 0.5, 24)
# Rows are counted in so many bins of equal size.
_N_BINS = 60


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


def wrong_share(contradicted: np.ndarray, ranks: np.ndarray, n_classes: int) -> tuple[float, float]:
    """Return the share of wrong labels, and the chance of such evidence where none is wrong.

    Parameters
    ----------
    contradicted : ndarray of bool of shape (n_rows,)
        Whether the answer differs from the label that was given.
    ranks : ndarray of shape (n_rows,)
        What :func:`sure_ranks` returns.
    n_classes : int
        Number of classes; the least sure rows of many classes are contradicted more often.

    Returns
    -------
    share : float
        Most likely floor, on a grid.
    p_value : float
        Of the likelihood ratio against no floor; under it, half of all tables have none.
    """
    parts = np.array_split(np.argsort(ranks, kind="stable"), min(_N_BINS, len(ranks)))
    sizes = np.array([len(part) for part in parts])
    hits = np.array([np.sum(contradicted[part]) for part in parts])
    places = np.array([np.mean(ranks[part]) for part in parts])
    overlap = _overlap_curves(places, n_classes)
    floors = _FLOORS[:, None, None]
    rates = np.clip(floors + (1.0 - floors) * overlap, 1e-9, 1.0 - 1e-9)
    likelihood = (np.log(rates) @ hits + np.log1p(-rates) @ (sizes - hits)).max(axis=1)
    best = int(likelihood.argmax())
    ratio = 2.0 * (likelihood[best] - likelihood[0])
    return float(_FLOORS[best]), float(0.5 * stats.chi2.sf(ratio, 1)) if best else 1.0


def _overlap_curves(places: np.ndarray, n_classes: int) -> np.ndarray:
    """Return shares of contradicted rows where every label is right, (n_curves, n_places)."""
    most = 1.0 - 1.0 / n_classes
    levels = np.unique(np.concatenate([_LEVELS, np.linspace(0.5, most, 4)]))
    b, k = (grid.ravel() for grid in np.meshgrid(levels, _POWERS, indexing="ij"))
    steep = k >= 3.0 * (1.0 - 2.0 * b) - 1e-9
    return b[steep, None] * places ** k[steep, None]
