"""Held-out answers of models that have none of their own, by folds, when they are asked for."""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils.validation import validate_data

from vicinal._base import positive_rows, saved
from vicinal._rows._folds import coarse_answers, fold_answers, fold_numbers
from vicinal._rows._held_out_rows import HeldOutRows, some_rows
from vicinal._rows._mixins import SupportMixin

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
        self.found: HeldOutRows | None = None

    def known(self) -> HeldOutRows:
        """Return some of the rows, answered or not."""
        if self.found is None:
            _, X, y, weights, classes = self._table()
            rows = some_rows(len(y))
            targets = y[rows].reshape(len(rows), -1)
            if classes is not None:
                targets = np.searchsorted(classes, y[rows])
            mass = None if weights is None else weights[rows]
            self.found = HeldOutRows(X[rows], None, targets, mass)
        return self.found

    def held_out(self) -> HeldOutRows:
        """Return the same rows with their held-out answers."""
        found = self.known()
        if found.answers is None:
            estimator, X, y, weights, classes = self._table()
            folds, rows = _folds(y, classes), some_rows(len(y))
            data = estimator, X, y, weights, folds
            answers = fold_answers(*data, classes=classes, rows=rows)
            if classes is None:
                found.folds = fold_numbers(folds)[rows]
                found.coarse = coarse_answers(*data, rows=rows)
            found.answers = answers
        return found

    def _table(self) -> tuple:
        if self.table is None:
            raise ValueError(
                "this model was loaded, and files keep held-out answers only once they were asked "
                "for; call predict_interval, predict_set or support before saving it."
            )
        return self.table

    def __getstate__(self) -> dict:
        return {"found": self.found, "table": None}


def _folds(y: np.ndarray, classes) -> list[np.ndarray]:
    n = len(y)
    if n < 2:
        raise ValueError(
            f"n_samples={n} cannot be both learned from and held out, so errors are unknown; fit "
            "to 2 rows or more."
        )
    if classes is None or np.unique(y, return_counts=True)[1].min() < _N_FOLDS:
        splitter: Any = KFold(min(_N_FOLDS, n), shuffle=True, random_state=0)
    else:
        splitter = StratifiedKFold(_N_FOLDS, shuffle=True, random_state=0)
    return [test for _, test in splitter.split(np.zeros(n), y)]


class FoldedRowsMixin(SupportMixin):
    """Models that answer held-out rows by folds; ``fit`` ends with ``_keep_rows``."""

    _folded: FoldedRows | None = None

    def _keep_rows(self, X, y, sample_weight) -> None:
        """Keep checked rows, with targets and weights as they were given."""
        weights = None
        if sample_weight is not None:
            weights, X, y = positive_rows(sample_weight, X, y)
        classes = getattr(self, "classes_", None)
        self._folded = FoldedRows(self._fold_model(), X, y, weights, classes)

    def _fold_model(self) -> Any:
        """Return the unfitted model of a fold."""
        return clone(self)

    def _known_rows(self) -> HeldOutRows:
        return self._kept().known()

    def _held_out_rows(self) -> HeldOutRows:
        return self._kept().held_out()

    def _kept(self) -> FoldedRows:
        if self._folded is None:
            raise ValueError(
                f"this {type(self).__name__} was fitted to blocks or on a device, whose rows are "
                "not kept; calibrate it by ConformalRegressor or ConformalClassifier around "
                "FrozenEstimator(model), on rows that it has not seen."
            )
        return self._folded

    def _row_numbers(self, X):
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=np.float64)
        return X.tocsr() if sparse.issparse(X) else X
