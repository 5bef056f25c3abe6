"""The clusters of a divided table and the machine of each."""

from itertools import combinations

import numpy as np
from sklearn.model_selection import StratifiedKFold

_CLUSTERING_ROWS = 20_000
_CALIBRATION_FOLDS = 3


def clustering_rows(n_clusters):
    """Return how many rows centres are learned from; the others are only assigned."""
    return max(_CLUSTERING_ROWS, 100 * n_clusters)


class ClusteredRows:
    """Rows in memory that clusters are learned from; a table in blocks has the same methods."""

    def __init__(self, X, weights):
        self.X, self.weights = X, weights
        self.labels = None

    def count(self, clusters):
        """Assign every row; return the number of rows in each cluster."""
        self.labels = clusters.assign(self.X)
        return np.bincount(self.labels, minlength=len(clusters))

    def members(self, c):
        """Return rows of a cluster, and their weights."""
        chosen = np.flatnonzero(self.labels == c)
        return self.X[chosen], self.weights[chosen]


def scale_gamma(mean, square):
    """``gamma="scale"`` from the mean of every column and of its squares."""
    variance = square.mean() - mean.mean() ** 2
    return float(1.0 / (len(mean) * variance)) if variance > 0 else 1.0


def groups_of(labels, n_clusters):
    """Rows of every cluster, from one sort."""
    order = np.argsort(labels, kind="stable")
    return np.split(order, np.cumsum(np.bincount(labels, minlength=n_clusters))[:-1])


def fit_machine(machine, X, codes, bounds):
    """Fit one cluster; a single class needs no machine."""
    if (codes == codes[0]).all():
        return int(codes[0])
    return machine.set_params(decision_function_shape="ovo").fit(X, codes, sample_weight=bounds)


def score_machine(machine, X, n_classes):
    """Scores of one cluster's rows, (n,) for two classes, else (n, n_classes)."""
    if isinstance(machine, int):
        return scores_from_pairs(np.empty((len(X), 0)), np.array([machine]), n_classes)
    margins = machine.decision_function(X)
    # libsvm's margins are positive for the first class of a pair, except when there is one pair.
    margins = margins[:, None] if margins.ndim == 1 else -margins
    return scores_from_pairs(margins, machine.classes_, n_classes)


def score_out_of_fold(machine, X, codes, bounds, n_classes, seed):
    """Out-of-fold scores within one cluster."""
    smallest = np.bincount(codes)[np.unique(codes)].min()
    if (codes == codes[0]).all() or smallest < 2:
        return score_machine(fit_machine(machine, X, codes, bounds), X, n_classes)
    folds = StratifiedKFold(min(_CALIBRATION_FOLDS, int(smallest)), shuffle=True, random_state=seed)
    scores = np.empty((len(X), n_classes) if n_classes > 2 else len(X))
    for train, test in folds.split(X, codes):
        fitted = fit_machine(machine, X[train], codes[train], bounds[train])
        scores[test] = score_machine(fitted, X[test], n_classes)
    return scores


def scores_from_pairs(margins, present, n_classes):
    """Class scores from margins of pairs (a, b), a < b, positive for b.

    A class that is not ``present`` loses every pair.
    """
    if n_classes == 2:
        if len(present) == 2:
            return margins[:, 0]
        return np.full(len(margins), 1.0 if present[0] == 1 else -1.0)
    scores = np.zeros((len(margins), n_classes))
    absent = np.setdiff1d(np.arange(n_classes), present)
    scores[:, present] += len(absent)
    scores[:, absent] -= len(present)
    for (a, b), margin in zip(combinations(present, 2), np.tanh(margins).T, strict=True):
        scores[:, a] -= margin
        scores[:, b] += margin
    return scores / (n_classes - 1)
