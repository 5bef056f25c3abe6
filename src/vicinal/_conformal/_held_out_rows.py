"""Training rows with held-out predictions, and the mixins that use them."""

import warnings
from dataclasses import dataclass, fields
from functools import cached_property
from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from scipy.special import betainc
from sklearn.base import clone
from sklearn.model_selection import KFold, StratifiedKFold
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal import _base
from vicinal._base._compat import rows_of
from vicinal._base._tables import column_names, column_values, spread_rows
from vicinal._base._unseen import as_novel
from vicinal._conformal import _intervals
from vicinal._conformal._typicality import StandardizedRows, Typicality

_N_FOLDS = 5
# Models fitted to this share of the rows need no learning curve.
_NEARLY_ALL = 0.95
# Small groups that a warning names.
_SHOWN_GROUPS = 5


@_base.saved(
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
    def intervals(self) -> _intervals.ResidualIntervals:
        """Intervals of values."""
        return _intervals.ResidualIntervals(
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


def held_out_by(
    estimator: Any, data: _base.TrainingData, folds: list[np.ndarray], *, rows=None, n_jobs=None
) -> dict[str, Any]:
    """Return held-out predictions by folds, as arguments of ``HeldOutRows``.

    ``predictions`` are probabilities of the classes, or values, in the order of the rows; ``rows``
    are those to predict, ascending, all by default. For regression there are also the number of the
    fold of each row and ``coarse``: predictions of models fitted to about half of the rows (folds
    of even and of odd number are held out together), which show how errors fall with the number of
    rows. ``coarse`` is ``None`` if folds are few or small.
    """
    options = {
        "sample_weight": data.sample_weight,
        "method": "predict" if data.classes is None else "predict_proba",
        "classes": data.classes,
        "rows": rows,
        "n_jobs": n_jobs,
    }

    def predicted(folds):
        found = _base.held_out_by_folds(estimator, data.X, data.labels, folds, **options)
        return found.predictions[0][np.argsort(found.rows)]

    if data.classes is not None:
        return {"predictions": predicted(folds)}
    numbers = np.empty(sum(map(len, folds)), dtype=np.int64)
    for number, fold in enumerate(folds):
        numbers[fold] = number
    coarse = None
    if len(folds) >= 3 and _intervals.log_share(numbers) <= np.log(_NEARLY_ALL):
        coarse = predicted([np.concatenate(folds[part::2]) for part in (0, 1)])
    own = numbers if rows is None else numbers[rows]
    return {"predictions": predicted(folds), "folds": own, "coarse": coarse}


# --- methods of models ----------------------------------------------------------------------------


class TypicalityMixin:
    """Mixin of models that report how typical a row is of their training rows.

    A model defines ``_held_out_rows()``, and ``_row_numbers(X)``, which validates queries and
    returns them in the columns of those rows.
    """

    n_features_in_: int

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
            p-value: uniform for rows like the training rows, near 0 for novel rows. A row with an
            unseen category, or another value that no training row has, is novel.
        """
        check_is_fitted(self)
        found = self._known_rows().typicality(self._row_numbers(X))
        return _base.as_given(as_novel(found, self.unseen_values(X)), X)

    def unseen_values(self, X):
        """Return the values of query rows that no training row has.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_queries, n_features)
            Queries.

        Returns
        -------
        list of UnseenValues
            An entry for each column and problem, see
            :meth:`vicinal.table.TableEncoder.unseen_values`; empty for a model of arrays.
        """
        encoder = self._encoder()
        return [] if encoder is None else encoder.unseen_values(X)

    def _known_rows(self):
        """Return the training rows, with or without their predictions."""
        return self._held_out_rows()

    def _near_rows(self, numbers, coverage, by, local):
        """Return the rows over which quantiles are taken for each query, ``None`` for all."""
        held_out = self._held_out_rows()
        if local:
            return _intervals.NearRows(held_out.standardized, numbers, held_out.weights, coverage)
        if by is None:
            return None
        is_reduced = self._encoder() is None and held_out.X.shape[1] < self.n_features_in_
        if held_out.are_coordinates or is_reduced:
            raise ValueError(
                f"by={by!r} needs rows in the columns of the table, which {type(self).__name__} "
                "does not store; wrap it in ConformalRegressor or ConformalClassifier."
            )
        columns = [j for name in _columns(by) for j in self._encoded_columns(name)]
        parts = (rows[:, columns] for rows in (held_out.X, numbers))
        parts = (part.toarray() if sparse.issparse(part) else part for part in parts)
        return _intervals.GroupRows(*parts, held_out.weights)

    def _encoder(self):
        """Return the encoder of the rows of a frame, ``None`` if they are the columns as given."""
        return getattr(self, "_table", None)

    def _encoded_columns(self, name) -> list[int]:
        """Return the columns of the row numbers that hold a column of the table."""
        table = self._encoder()
        names = column_names(np.empty((0, self.n_features_in_)), self)
        if name not in (names if isinstance(name, str) else range(len(names))):
            raise ValueError(f"by={name!r} is not a column; choose from {', '.join(names)}.")
        name = name if isinstance(name, str) else names[name]
        if table is None:
            return [names.index(name)]
        found = np.flatnonzero(table.sources_ == name).tolist()
        if not found or table.column_encoders_[name].is_statistic:
            why = "has too many categories" if found else "is not used by the model"
            raise ValueError(f"by={name!r} {why}; merge its values into groups in another column.")
        return found

    def _warn_of_groups(self, X, near, by, coverage) -> None:
        """Name groups of queries that have too few held-out rows for a quantile of their own."""
        rows = np.flatnonzero(getattr(near, "is_pooled", ()))
        if not len(rows):
            return
        X = X if hasattr(X, "shape") else np.asarray(X)
        names = column_names(X, self)
        at = [names.index(name) if isinstance(name, str) else name for name in _columns(by)]
        cells = zip(*(column_values(rows_of(X, rows), j) for j in at), strict=True)
        groups = [
            ", ".join(f"{names[j]}={value!r}" for j, value in zip(at, row, strict=True))
            for row in dict.fromkeys(cells)
        ]
        shown = "; ".join(groups[:_SHOWN_GROUPS]) + ("; ..." if groups[_SHOWN_GROUPS:] else "")
        warnings.warn(
            f"{len(rows)} of {len(near.is_pooled)} rows are of groups with too few held-out rows "
            f"for a coverage of {coverage:g}: {shown}. They get the quantile of all rows; merge "
            "small groups.",
            UserWarning,
            stacklevel=3,
        )


class IntervalMixin(TypicalityMixin):
    """Mixin of regressors with intervals from held-out errors."""

    def predict_interval(self, X, coverage=0.9, *, by=None, local=False):
        """Return intervals that hold the target with a given probability.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_queries, n_features)
            Queries.
        coverage : float, default=0.9
            Probability, between 0 and 1.
        by : str, int or list of them, default=None
            Columns whose values make groups, by name or index: the coverage holds within each
            group. A column of more than 20 different numbers is split at its quintiles. Groups with
            too few rows for the coverage get the interval of all rows, with a warning.
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
        _check_one_of(by=by, local=local)
        values = np.asarray(_base.as_numpy(self.predict(X)), dtype=np.float64)
        numbers = self._row_numbers(X)
        near = self._near_rows(numbers, coverage, by, local)
        intervals = self._held_out_rows().intervals
        ends = intervals.around(values.reshape(len(values), -1), numbers, coverage, near)
        self._warn_of_groups(X, near, by, coverage)
        return _base.as_given(ends if values.ndim == 2 else ends[:, 0], X)


class LabelSetMixin(TypicalityMixin):
    """Mixin of classifiers with label sets from held-out probabilities."""

    def predict_set(
        self, X, coverage=0.9, *, method="adaptive", by=None, by_class=False, local=False
    ):
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
        by : str, int or list of them, default=None
            Columns whose values make groups, by name or index: the coverage holds within each
            group. A column of more than 20 different numbers is split at its quintiles. Groups with
            too few rows for the coverage get the sets of all rows, with a warning.
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
        _check_one_of(by=by, by_class=by_class, local=local)
        proba = np.asarray(_base.as_numpy(self.predict_proba(X)), dtype=np.float64)
        near = self._near_rows(self._row_numbers(X), coverage, by, local)
        options = {"method": method, "by_class": by_class, "near": near}
        sets = _intervals.label_sets(self._held_out_rows(), proba, coverage, **options)
        self._warn_of_groups(X, near, by, coverage)
        return sets

    def _decided(self, proba, abstain, cost_matrix):
        """Return labels of least expected cost, ``None`` where the model abstains."""
        held_out = None if abstain is None else self._held_out_rows()
        return decide(proba, self.classes_, cost_matrix, abstain, held_out)


def _columns(by) -> list:
    return [by] if isinstance(by, str | Integral) else list(by)


def _check_one_of(**options) -> None:
    given = [name for name, value in options.items() if value is not None and value is not False]
    if len(given) > 1:
        raise ValueError(f"{' and '.join(given)} cannot be combined; use one of them.")


# --- labels of least expected cost, and predictions only where they are reliable -----------------

# The error rate is bounded with this probability, for these shares of predicted rows.
_CONFIDENCE = 0.9
_SHARES = np.linspace(1.0, 0.05, 20)


def decide(
    proba: np.ndarray, classes: np.ndarray, cost_matrix: Any, abstain: float | None, held_out: Any
) -> np.ndarray:
    """Return the label of least expected cost for each row, ``None`` where the model abstains.

    Parameters
    ----------
    proba : ndarray of shape (n_queries, n_classes)
        Probabilities of the queries.
    classes : ndarray of shape (n_classes,)
        Labels.
    cost_matrix : array-like of shape (n_classes, n_classes), or None
        ``cost_matrix[i, j]`` is the cost of label j where label i is true; ``None`` for equal
        costs of all errors.
    abstain : float or None
        Largest error rate of the rows that are predicted; ``None`` predicts every row.
    held_out : HeldOutRows or None
        Rows on which the error rate is controlled.
    """
    costs = 1.0 - np.eye(len(classes)) if cost_matrix is None else _checked(cost_matrix, classes)
    codes = (proba @ costs).argmin(axis=1)
    if abstain is None:
        return np.asarray(classes)[codes]
    if not 0.0 < abstain < 1.0:
        raise ValueError(
            f"abstain={abstain!r} must be an error rate between 0 and 1, for example 0.05."
        )
    known = (held_out.predictions @ costs).argmin(axis=1)
    limit = confidence_limit(
        held_out.predictions[np.arange(len(known)), known],
        known != held_out.targets,
        abstain,
        held_out.weights,
        held_out.groups,
    )
    if limit == np.inf:
        warnings.warn(
            f"No row is predicted: an error rate of {abstain:g} cannot be shown on "
            f"{len(known)} held-out rows, however confident the predictions are. Raise abstain or "
            "add rows.",
            UserWarning,
            stacklevel=4,
        )
    labels = np.asarray(classes, dtype=object)[codes]
    labels[proba[np.arange(len(codes)), codes] <= limit] = None
    return labels


def confidence_limit(
    confidence: np.ndarray,
    is_wrong: np.ndarray,
    max_error: float,
    weights: np.ndarray | None = None,
    groups: np.ndarray | None = None,
) -> float:
    """Return the confidence above which at most ``max_error`` of the predictions are wrong.

    For each of 20 shares of the rows, the most confident rows are tested: the binomial tail of
    their errors, at a twentieth of 10 %. The largest share that passes is used, so that the error
    rate of new rows is at most ``max_error`` with probability 90 %, whatever the distribution
    (selective risk control with a Bonferroni bound; Geifman and El-Yaniv, 2017). Rows of one group
    count as one; weights count by their effective number. Infinite if no share passes.
    """
    weights = np.ones(len(confidence)) if weights is None else weights
    order = np.argsort(-confidence, kind="stable")
    for share in _SHARES:
        size = int(share * len(order))
        # Strictly above the next row, so that the rows above it are independent of the limit.
        limit = confidence[order[size]] if size < len(order) else -np.inf
        rows = confidence > limit
        if not rows.any():
            break
        n_rows = weights[rows].sum() ** 2 / (weights[rows] ** 2).sum()
        if groups is not None:
            n_rows = min(n_rows, len(np.unique(groups[rows])))
        n_wrong = n_rows * np.average(is_wrong[rows], weights=weights[rows])
        tail = betainc(n_rows - n_wrong, n_wrong + 1.0, 1.0 - max_error) if n_wrong < n_rows else 1
        if tail <= (1.0 - _CONFIDENCE) / len(_SHARES):
            return float(limit)
    return np.inf


def _checked(cost_matrix: Any, classes: np.ndarray) -> np.ndarray:
    costs = np.asarray(cost_matrix, dtype=np.float64)
    n = len(classes)
    if costs.shape != (n, n) or not np.isfinite(costs).all():
        raise ValueError(
            f"cost_matrix of shape {costs.shape} must hold finite numbers, {n} rows of true labels "
            f"and {n} columns of predicted labels, in the order of classes_."
        )
    return costs


# --- models without held-out predictions of their own ---------------------------------------------


@_base.saved()
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
            some = data.take(spread_rows(len(data), _intervals.MAX_HELD_OUT))
            targets = some.y.reshape(len(some), -1) if data.classes is None else some.y
            self.found = HeldOutRows(some.X, None, targets, some.sample_weight)
        return self.found

    def held_out(self) -> HeldOutRows:
        """Return the same rows with their held-out predictions."""
        found = self.known()
        if found.predictions is None:
            estimator, data = self._table()
            rows = spread_rows(len(data), _intervals.MAX_HELD_OUT)
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


def _folds(data: _base.TrainingData) -> list[np.ndarray]:
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
            weights, X, y = _base.positive_rows(sample_weight, X, y)
        codes = y if classes is None else np.searchsorted(classes, y)
        data = _base.TrainingData(X, codes, classes, weights)
        self._folded = FoldedRows(clone(self), data)

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
        _base.check_is_table(X)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=np.float64)
        return X.tocsr() if sparse.issparse(X) else X
