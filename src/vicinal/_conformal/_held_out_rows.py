"""Training rows with predictions by models that had not seen them, and what follows from these."""

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal._base import (
    TrainingData,
    as_given,
    as_numpy,
    check_is_table,
    held_out_by_folds,
    positive_rows,
    saved,
)
from vicinal._conformal._intervals import ResidualIntervals, label_sets, log_share
from vicinal._conformal._typicality import StandardizedRows, Typicality

# More rows would not make quantiles better, only models larger.
_MAX_ROWS = 5000
_N_FOLDS = 5
# Folds that leave so much of the rows need no learning curve.
_NEARLY_ALL = 0.95


@saved(
    X="n p missing",
    answers="n *",
    targets="n | n *",
    weights="n",
    folds="n",
    coarse="n *",
    groups="n <n",
)
@dataclass(eq=False)
class HeldOutRows:
    """Training rows, their targets, and predictions by models that had not seen them.

    Intervals, label sets and typicality are computed when first needed; model files hold the rows.

    Parameters
    ----------
    X : {ndarray, sparse matrix} of shape (n_samples, n_columns)
        Rows as numbers.
    answers : ndarray of shape (n_samples, n_outputs) or (n_samples, n_classes), or None
        Values or probabilities; ``None`` where only typicality is needed.
    targets : ndarray of shape (n_samples, n_outputs) or ndarray of int of shape (n_samples,)
        True values or classes.
    weights : ndarray of shape (n_samples,), optional
        How often each row counts.
    n_jobs : int, optional
        Threads of the search.
    folds : ndarray of int of shape (n_samples,), optional
        Rows of one number were held out together.
    coarse : ndarray of shape (n_samples, n_outputs), optional
        Values by models of about half of the rows, see :func:`held_out_by`.
    are_coordinates : bool, default=False
        Rows are in the coordinates of the model's own metric, to be compared as they are.
    groups : ndarray of int of shape (n_samples,), optional
        Rows of one number belong together, and new rows to none of them.
    """

    X: Any
    answers: Any
    targets: np.ndarray
    weights: np.ndarray | None = None
    n_jobs: int | None = None
    folds: np.ndarray | None = None
    coarse: np.ndarray | None = None
    are_coordinates: bool = False
    groups: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.groups is not None:
            self.groups = np.unique(self.groups, return_inverse=True)[1]

    @cached_property
    def standardized(self) -> StandardizedRows:
        """Coordinates of the rows."""
        return StandardizedRows(self.X, self.n_jobs, are_coordinates=self.are_coordinates)

    @cached_property
    def typicality(self) -> Typicality:
        """How typical rows are."""
        return Typicality(self.standardized)

    @cached_property
    def intervals(self) -> ResidualIntervals:
        """Intervals of values."""
        return ResidualIntervals(
            self.standardized,
            self.targets - self.answers,
            self.weights,
            folds=self.folds,
            coarse=None if self.coarse is None else self.targets - self.coarse,
            groups=self.groups,
        )

    def __saved_state__(self) -> dict[str, Any]:
        """Return what a model file holds."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __restore__(self, state: dict) -> None:
        """Take the state of a model file."""
        vars(self).update({"groups": None} | state)  # files of earlier versions have none


def some_rows(n: int) -> np.ndarray:
    """Return rows of a table that represent all of them, ascending."""
    return np.arange(n) if n <= _MAX_ROWS else np.linspace(0, n - 1, _MAX_ROWS).astype(np.int64)


def held_out_by(
    estimator: Any, data: TrainingData, folds: list[np.ndarray], *, rows=None, n_jobs=None
) -> dict[str, Any]:
    """Return predictions of rows by copies fitted to the other folds: parts of ``HeldOutRows``.

    ``answers`` are probabilities of the classes, or values, in the order of the rows; ``rows`` are
    those to predict, ascending, all by default. For values there are also the number of the fold of
    each row and ``coarse``: predictions of models fitted to about half of the rows (folds of even
    and of odd number are held out together), which show how errors fall. These are ``None`` where
    folds leave nearly all rows, or are too few.
    """
    method = "predict" if data.classes is None else "predict_proba"

    def predicted(folds):
        found = held_out_by_folds(
            estimator,
            data.X,
            data.labels,
            folds,
            sample_weight=data.sample_weight,
            method=method,
            classes=data.classes,
            rows=rows,
            n_jobs=n_jobs,
        )
        return found.predictions[0][np.argsort(found.rows)]

    if data.classes is not None:
        return {"answers": predicted(folds)}
    numbers = np.empty(sum(map(len, folds)), dtype=np.int64)
    for number, fold in enumerate(folds):
        numbers[fold] = number
    coarse = None
    if len(folds) >= 3 and log_share(numbers) <= np.log(_NEARLY_ALL):
        coarse = predicted([np.concatenate(folds[part::2]) for part in (0, 1)])
    own = numbers if rows is None else numbers[rows]
    return {"answers": predicted(folds), "folds": own, "coarse": coarse}


# --- methods of models ----------------------------------------------------------------------------


class TypicalityMixin:
    """Models that report how typical a row is of their training rows.

    A model defines ``_held_out_rows()``, and ``_row_numbers(X)``, which checks queries and returns
    them in the columns of those rows.
    """

    def support(self, X):
        """Return how typical each query is of the training rows.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_queries, n_features)
            Queries.

        Returns
        -------
        ndarray of shape (n_queries,)
            The share of training rows that are at least as far from the rows around them: a
            p-value, uniform on rows like those of ``fit``, near 0 far away from all of them.
        """
        check_is_fitted(self)
        return as_given(self._known_rows().typicality(self._row_numbers(X)), X)

    def _known_rows(self):
        """Return the training rows, with or without their predictions."""
        return self._held_out_rows()


class IntervalMixin(TypicalityMixin):
    """Regressors with intervals from the errors of held-out predictions."""

    def predict_interval(self, X, coverage=0.9, *, local=False):
        """Return intervals that hold the target with the given chance.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_queries, n_features)
            Queries.
        coverage : float, default=0.9
            Chance, between 0 and 1.
        local : bool, default=False
            Take the quantile over the rows around each query too, not only the scale: for tables
            whose errors are distributed differently in different regions. Intervals are wider, and
            infinite, with a warning, where too few rows are near.

        Returns
        -------
        ndarray of shape (n_queries, 2) or (n_queries, n_outputs, 2)
            Lower and upper ends.
        """
        check_is_fitted(self)
        values = np.asarray(as_numpy(self.predict(X)), dtype=np.float64)
        numbers = self._row_numbers(X)
        intervals = self._held_out_rows().intervals
        ends = intervals.around(values.reshape(len(values), -1), numbers, coverage, local=local)
        return as_given(ends if values.ndim == 2 else ends[:, 0], X)


class LabelSetMixin(TypicalityMixin):
    """Classifiers with label sets from held-out probabilities."""

    def predict_set(self, X, coverage=0.9, *, method="adaptive", by_class=False, local=False):
        """Return sets of labels that hold the true one with the given chance.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_queries, n_features)
            Queries.
        coverage : float, default=0.9
            Chance, between 0 and 1.
        method : {"adaptive", "threshold"}, default="adaptive"
            "adaptive" takes the most probable labels until their chances add up: at least one, so
            that coverage is exceeded where the model is right more often than the coverage.
            "threshold" takes all labels above one probability, with a coverage close to the given
            one and the smallest sets on average, of which some are empty.
        by_class : bool, default=False
            Reach the coverage within every class, for rare ones.
        local : bool, default=False
            Take the quantile over the rows around each query.

        Returns
        -------
        ndarray of bool of shape (n_queries, n_classes)
            Which labels are in the set; columns follow ``classes_``.
        """
        check_is_fitted(self)
        proba = np.asarray(as_numpy(self.predict_proba(X)), dtype=np.float64)
        numbers = self._row_numbers(X)
        options = {"method": method, "by_class": by_class, "local": local}
        return label_sets(self._held_out_rows(), proba, numbers, coverage, **options)


# --- models without held-out predictions of their own ---------------------------------------------


@saved()
class FoldedRows:
    """Training rows, of which folds are predicted when that is first needed.

    Pickles and model files hold the predictions of the folds, but not the rows: a model should not
    grow by its table because somebody may need an interval.

    Parameters
    ----------
    estimator : object
        Unfitted copy of the model.
    data : TrainingData
        Training rows.
    """

    def __init__(self, estimator, data):
        self.table = estimator, data
        self.found: HeldOutRows | None = None

    def known(self) -> HeldOutRows:
        """Return some of the rows, with or without predictions."""
        if self.found is None:
            data = self._table()[1]
            some = data.take(some_rows(len(data)))
            targets = some.y.reshape(len(some), -1) if data.classes is None else some.y
            self.found = HeldOutRows(some.X, None, targets, some.sample_weight)
        return self.found

    def held_out(self) -> HeldOutRows:
        """Return the same rows with their held-out predictions."""
        found = self.known()
        if found.answers is None:
            estimator, data = self._table()
            rows = some_rows(len(data))
            vars(found).update(held_out_by(estimator, data, _folds(data), rows=rows))
        return found

    def _table(self) -> tuple:
        if self.table is None:
            raise ValueError(
                "this model was loaded, and files hold held-out predictions only once they were "
                "needed; call predict_interval, predict_set or support before saving it."
            )
        return self.table

    def __getstate__(self) -> dict:
        return {"found": self.found, "table": None}


def _folds(data: TrainingData) -> list[np.ndarray]:
    n = len(data)
    if n < 2:
        raise ValueError(
            f"n_samples={n} cannot be both learned from and held out, so errors are unknown; fit "
            "to 2 rows or more."
        )
    if data.classes is None or np.unique(data.y, return_counts=True)[1].min() < _N_FOLDS:
        splitter: Any = KFold(min(_N_FOLDS, n), shuffle=True, random_state=0)
    else:
        splitter = StratifiedKFold(_N_FOLDS, shuffle=True, random_state=0)
    return [test for _, test in splitter.split(np.zeros(n), data.y)]


class FoldedRowsMixin(TypicalityMixin):
    """Models whose held-out predictions are those of folds; ``fit`` ends with ``_keep_rows``."""

    _folded: FoldedRows | None = None

    def _keep_rows(self, X, y, sample_weight) -> None:
        """Store checked rows, with targets and weights as they were given."""
        weights, classes = None, getattr(self, "classes_", None)
        if sample_weight is not None:
            weights, X, y = positive_rows(sample_weight, X, y)
        codes = y if classes is None else np.searchsorted(classes, y)
        data = TrainingData(X, codes, classes, weights)
        self._folded = FoldedRows(self._fold_model(), data)

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
                "not stored; calibrate it by ConformalRegressor or ConformalClassifier around "
                "FrozenEstimator(model), on rows that it has not seen."
            )
        return self._folded

    def _row_numbers(self, X):
        check_is_table(X)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=np.float64)
        return X.tocsr() if sparse.issparse(X) else X
