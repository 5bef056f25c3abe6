"""Training rows with held-out predictions, and the mixins that use them."""

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

# Quantiles of more rows are hardly better, and models larger.
_MAX_ROWS = 5000
_N_FOLDS = 5
# Models fitted to this share of the rows need no learning curve.
_NEARLY_ALL = 0.95


@saved(
    X="n p missing",
    predictions="n *",
    targets="n | n *",
    weights="n",
    folds="n",
    coarse="n *",
    groups="n <n",
)
@dataclass(eq=False)
class HeldOutRows:
    """Training rows with targets and held-out predictions.

    Intervals, label sets and typicality are computed when first needed; model files hold the rows.

    Parameters
    ----------
    X : {ndarray, sparse matrix} of shape (n_samples, n_columns)
        Rows as numbers.
    predictions : ndarray of shape (n_samples, n_outputs) or (n_samples, n_classes), or None
        Held-out predictions: values or probabilities; ``None`` if only typicality is needed.
    targets : ndarray of shape (n_samples, n_outputs) or ndarray of int of shape (n_samples,)
        True values or classes.
    weights : ndarray of shape (n_samples,), optional
        Weights of the rows.
    n_jobs : int, optional
        Threads of the search.
    folds : ndarray of int of shape (n_samples,), optional
        Number of the fold of each row.
    coarse : ndarray of shape (n_samples, n_outputs), optional
        Predictions of models fitted to about half of the rows, see :func:`held_out_by`.
    are_coordinates : bool, default=False
        Whether rows are in the coordinates of the model's own metric and need no scaling.
    groups : ndarray of int of shape (n_samples,), optional
        Number of the group of each row; new rows belong to none.
    """

    X: Any
    predictions: Any
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
        """Typicality of rows."""
        return Typicality(self.standardized)

    @cached_property
    def intervals(self) -> ResidualIntervals:
        """Intervals of values."""
        return ResidualIntervals(
            self.standardized,
            self.targets - self.predictions,
            self.weights,
            folds=self.folds,
            coarse=None if self.coarse is None else self.targets - self.coarse,
            groups=self.groups,
        )

    def __saved_state__(self) -> dict[str, Any]:
        """Return the content of a model file."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __restore__(self, state: dict) -> None:
        """Restore the content of a model file."""
        vars(self).update({"groups": None} | state)  # files of earlier versions have none


def some_rows(n: int) -> np.ndarray:
    """Return rows of a table that represent all of them, ascending."""
    return np.arange(n) if n <= _MAX_ROWS else np.linspace(0, n - 1, _MAX_ROWS).astype(np.int64)


def held_out_by(
    estimator: Any, data: TrainingData, folds: list[np.ndarray], *, rows=None, n_jobs=None
) -> dict[str, Any]:
    """Return held-out predictions by folds, as arguments of ``HeldOutRows``.

    ``predictions`` are probabilities of the classes, or values, in the order of the rows; ``rows``
    are those to predict, ascending, all by default. For regression there are also the number of the
    fold of each row and ``coarse``: predictions of models fitted to about half of the rows (folds
    of even and of odd number are held out together), which show how errors fall with the number of
    rows. ``coarse`` is ``None`` if folds are few or small.
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
        return {"predictions": predicted(folds)}
    numbers = np.empty(sum(map(len, folds)), dtype=np.int64)
    for number, fold in enumerate(folds):
        numbers[fold] = number
    coarse = None
    if len(folds) >= 3 and log_share(numbers) <= np.log(_NEARLY_ALL):
        coarse = predicted([np.concatenate(folds[part::2]) for part in (0, 1)])
    own = numbers if rows is None else numbers[rows]
    return {"predictions": predicted(folds), "folds": own, "coarse": coarse}


# --- methods of models ----------------------------------------------------------------------------


class TypicalityMixin:
    """Mixin of models that report how typical a row is of their training rows.

    A model defines ``_held_out_rows()``, and ``_row_numbers(X)``, which validates queries and
    returns them in the columns of those rows.
    """

    def typicality(self, X):
        """Return how typical each query is of the training rows.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_queries, n_features)
            Queries.

        Returns
        -------
        ndarray of shape (n_queries,)
            Share of training rows that are at least as far from the rows around them. It is a
            p-value: uniform for rows like the training rows, near 0 for novel rows.
        """
        check_is_fitted(self)
        return as_given(self._known_rows().typicality(self._row_numbers(X)), X)

    def _known_rows(self):
        """Return the training rows, with or without their predictions."""
        return self._held_out_rows()


class IntervalMixin(TypicalityMixin):
    """Mixin of regressors with intervals from held-out errors."""

    def predict_interval(self, X, coverage=0.9, *, local=False):
        """Return intervals that hold the target with a given probability.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_queries, n_features)
            Queries.
        coverage : float, default=0.9
            Probability, between 0 and 1.
        local : bool, default=False
            Whether the quantile is local too, not only the scale: for tables whose errors have
            different distributions in different regions. Intervals are wider, and infinite, with a
            warning, where too few rows are near.

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
    """Mixin of classifiers with label sets from held-out probabilities."""

    def predict_set(self, X, coverage=0.9, *, method="adaptive", by_class=False, local=False):
        """Return label sets that hold the true label with a given probability.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_queries, n_features)
            Queries.
        coverage : float, default=0.9
            Probability, between 0 and 1.
        method : {"adaptive", "threshold"}, default="adaptive"
            "adaptive" takes the most probable labels until their probabilities add up. Sets have at
            least one label, so coverage is exceeded if the accuracy is higher than ``coverage``.
            "threshold" takes all labels above one probability. Its coverage is close to
            ``coverage`` and its sets are the smallest on average; some are empty.
        by_class : bool, default=False
            Whether the coverage holds within every class, also rare ones.
        local : bool, default=False
            Whether the quantile is taken over the rows around each query.

        Returns
        -------
        ndarray of bool of shape (n_queries, n_classes)
            Which labels are in the set, in the order of ``classes_``.
        """
        check_is_fitted(self)
        proba = np.asarray(as_numpy(self.predict_proba(X)), dtype=np.float64)
        numbers = self._row_numbers(X)
        options = {"method": method, "by_class": by_class, "local": local}
        return label_sets(self._held_out_rows(), proba, numbers, coverage, **options)


# --- models without held-out predictions of their own ---------------------------------------------


@saved()
class FoldedRows:
    """Training rows whose held-out predictions are computed when they are first needed.

    Pickles and model files hold the predictions, but not the training rows.

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
        if found.predictions is None:
            estimator, data = self._table()
            rows = some_rows(len(data))
            vars(found).update(held_out_by(estimator, data, _folds(data), rows=rows))
        return found

    def _table(self) -> tuple:
        if self.table is None:
            raise ValueError(
                "This model was loaded from a file without held-out predictions; call "
                "predict_interval, predict_set or typicality before saving it."
            )
        return self.table

    def __getstate__(self) -> dict:
        return {"found": self.found, "table": None}


def _folds(data: TrainingData) -> list[np.ndarray]:
    n = len(data)
    if n < 2:
        raise ValueError(f"n_samples={n} is too small for cross-validation; fit to 2 rows or more.")
    if data.classes is None or np.unique(data.y, return_counts=True)[1].min() < _N_FOLDS:
        splitter: Any = KFold(min(_N_FOLDS, n), shuffle=True, random_state=0)
    else:
        splitter = StratifiedKFold(_N_FOLDS, shuffle=True, random_state=0)
    return [test for _, test in splitter.split(np.zeros(n), data.y)]


class FoldedRowsMixin(TypicalityMixin):
    """Mixin of models whose held-out predictions come from folds; ``fit`` calls ``_keep_rows``."""

    _folded: FoldedRows | None = None

    def _keep_rows(self, X, y, sample_weight) -> None:
        """Store validated rows, targets and weights."""
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
                f"This {type(self).__name__} was fitted to blocks or on a device, and does not "
                "store its rows; use ConformalRegressor or ConformalClassifier with "
                "FrozenEstimator(model), on other rows."
            )
        return self._folded

    def _row_numbers(self, X):
        check_is_table(X)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=np.float64)
        return X.tocsr() if sparse.issparse(X) else X
