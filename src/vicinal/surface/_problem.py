"""A batch of queries, their classifier, and the score seen from each query's own side."""

import numpy as np
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier

from vicinal._base import forest_proba, row_blocks, saved
from vicinal._base._stopping import check_stopped
from vicinal.surface._metric import Chart
from vicinal.surface._oracles import Differences


@saved()
class Model:
    """A fitted classifier as the searches see it: codes of labels, scores, gradients."""

    def __init__(self, estimator, wrap, kind: str, oracle):
        self.estimator = estimator
        self.wrap = wrap
        self.kind = kind
        self.oracle = oracle
        self.classes = estimator.classes_

    def codes(self, X) -> np.ndarray:
        """Return predicted labels as positions in ``classes``."""
        check_stopped()
        if not len(X):
            return np.empty(0, dtype=np.int64)
        # A subclass may predict as it likes.
        if type(self.estimator) in (ExtraTreesClassifier, RandomForestClassifier):
            return forest_proba(self.estimator, X, self.wrap).argmax(axis=1)
        return np.searchsorted(self.classes, self.estimator.predict(self.wrap(X)))

    def scores(self, X, gradient: bool):
        """Return scores and gradients, in blocks of rows."""
        d, n_classes = X.shape[1], len(self.classes)
        copies = 4 * d if isinstance(self.oracle, Differences) and gradient else 4
        parts = [
            self.oracle.scores(X[block], gradient)
            for block in row_blocks(len(X), 8 * d * (copies + n_classes))
        ]
        values = np.concatenate([part[0] for part in parts])
        return values, np.concatenate([part[1] for part in parts]) if gradient else None


class Problem:
    """What is asked for a batch of queries.

    Parameters
    ----------
    model : Model
        The classifier.
    chart : Chart
        Coordinates of the search.
    own : ndarray of shape (n_queries,)
        Codes predicted at the queries.
    target : ndarray of shape (n_queries,)
        Codes to reach, -1 for any other than the own one.
    """

    def __init__(self, model: Model, chart: Chart, own, target):
        self.model = model
        self.chart = chart
        self.own = own
        self.target = target
        self.Z = chart.coordinates(chart.base)
        self.n_evaluations = np.zeros(len(own), dtype=np.int64)

    @property
    def is_binary(self) -> bool:
        """Two classes: one score tells all."""
        return len(self.model.classes) == 2

    def reached(self, codes, rows) -> np.ndarray:
        """Tell whether codes are those asked for."""
        target = self.target[rows]
        return np.where(target < 0, codes != self.own[rows], codes == target)

    def flipped(self, Z, rows) -> np.ndarray:
        """Tell whether points have a label asked for."""
        np.add.at(self.n_evaluations, rows, 1)
        return self.reached(self.model.codes(self.chart.columns(Z, rows)), rows)

    def evaluate(self, Z, rows, gradient: bool, rivals=None):
        """Return the score oriented to be positive on the query's side, and its gradient.

        ``rivals`` names one other class per point to compare with; by default it is the best one.
        """
        np.add.at(self.n_evaluations, rows, 1)
        values, slopes = self.model.scores(self.chart.columns(Z, rows), gradient)
        if gradient:
            slopes = self.chart.gradients(slopes)
        if self.is_binary:
            side = np.where(self.own[rows] == 1, 1.0, -1.0)
            return side * values, None if slopes is None else side[:, None] * slopes
        plus, minus = self._compared(values, rows, rivals)
        at = np.arange(len(values))
        return (
            values[at, plus] - values[at, minus],
            None if slopes is None else slopes[at, plus] - slopes[at, minus],
        )

    def _compared(self, values, rows, rivals):
        """Return the two classes whose scores are compared at each point."""
        own, target = self.own[rows], self.target[rows]
        if rivals is not None:
            return own, rivals
        fixed = np.where(target < 0, own, target)
        others = values.copy()
        others[np.arange(len(values)), fixed] = -np.inf
        best = others.argmax(axis=1)
        return np.where(target < 0, own, best), np.where(target < 0, best, target)

    def rivals_at(self, Z, rows) -> np.ndarray:
        """Return the runner-up class at points."""
        values, _ = self.model.scores(self.chart.columns(Z, rows), False)
        values[np.arange(len(values)), self.own[rows]] = -np.inf
        return values.argmax(axis=1)

    def local(self, Z, rows):
        """Return the oriented score and the slopes of the local model at points."""
        oracle = self.model.oracle
        X = self.chart.columns(Z, rows)
        np.add.at(self.n_evaluations, rows, 1)
        method = getattr(oracle, "local", None)
        values, slopes = method(X) if method else oracle.scores(X, True)
        slopes = self.chart.gradients(slopes)
        if self.is_binary:
            side = np.where(self.own[rows] == 1, 1.0, -1.0)
            return side * values, side[:, None] * slopes
        plus, minus = self._compared(values, rows, None)
        at = np.arange(len(values))
        return values[at, plus] - values[at, minus], slopes[at, plus] - slopes[at, minus]

    def take(self, rows) -> "Problem":
        """Return the problem of some queries."""
        return Problem(self.model, self.chart.take(rows), self.own[rows], self.target[rows])
