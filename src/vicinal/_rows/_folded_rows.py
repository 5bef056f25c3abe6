"""Held-out answers of models that have none of their own, by folds, when they are asked for."""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils.validation import validate_data

from vicinal._base import positive_rows, saved
from vicinal._rows._folds import fold_answers, learning_factor
from vicinal._rows._held_out_rows import HeldOutRows, some_rows

_N_FOLDS = 5


@saved()
class FoldedRows:
    """Training rows, from which folds are answered when that is first asked for.

    Pickles and model files keep what the folds answered, but not the rows: a model should not grow
    by its table because somebody may ask.

    Parameters
    ----------
    estimator : object
        Unfitted copy of the model.
    X, y
        Training rows, and their targets or labels.
    weights : ndarray of shape (n_samples,) or None
        Weights of the rows.
    classes : ndarray or None
        Labels; ``None`` for numbers.
    """

    def __init__(self, estimator, X, y, weights, classes):
        self.table = estimator, X, y, weights, classes
        self.found = None

    def held_out(self) -> HeldOutRows:
        """Return the rows with their held-out answers."""
        if self.found is None:
            if self.table is None:
                raise ValueError(
                    "this model was loaded, and files keep held-out answers only once they were "
                    "asked for; call predict_interval, predict_set or support before saving it."
                )
            self.found = _answered(*self.table)
        return self.found

    def __getstate__(self) -> dict:
        return {"found": self.found, "table": None}


def _answered(estimator, X, y, weights, classes) -> HeldOutRows:
    n = len(y)
    if classes is None or np.unique(y, return_counts=True)[1].min() < _N_FOLDS:
        splitter: Any = KFold(min(_N_FOLDS, n), shuffle=True, random_state=0)
    else:
        splitter = StratifiedKFold(_N_FOLDS, shuffle=True, random_state=0)
    folds = [test for _, test in splitter.split(np.zeros(n), y)]
    rows = some_rows(n)
    data = estimator, X, y, weights, folds
    answers = fold_answers(*data, classes=classes, rows=rows)
    factor, targets = 1.0, y[rows]
    if classes is None:
        factor = learning_factor(*data, answers, rows=rows)
        targets = targets.reshape(len(rows), -1)
    else:
        targets = np.searchsorted(classes, targets)
    mass = None if weights is None else weights[rows]
    return HeldOutRows(X[rows], answers, targets, mass, factor=factor)


class FoldedRowsMixin:
    """Models that answer held-out rows by folds; ``fit`` ends with ``_keep_rows``."""

    _folded: FoldedRows | None = None

    def _keep_rows(self, X, y, sample_weight) -> None:
        """Keep checked rows, with targets and weights as they were given."""
        weights = None
        if sample_weight is not None:
            weights, X, y = positive_rows(sample_weight, X, y)
        self._folded = FoldedRows(clone(self), X, y, weights, getattr(self, "classes_", None))

    def _held_out_rows(self) -> HeldOutRows:
        if self._folded is None:
            raise ValueError(
                f"this {type(self).__name__} was fitted to blocks or on a device, whose rows are "
                "not kept; calibrate it by ConformalRegressor or ConformalClassifier around "
                "FrozenEstimator(model), on rows that it has not seen."
            )
        return self._folded.held_out()

    def _row_numbers(self, X):
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=np.float64)
        return X.tocsr() if sparse.issparse(X) else X
