"""What the conformal wrappers share: a model, and answers to rows it had not seen."""

from numbers import Integral

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import KFold, StratifiedKFold, check_cv
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal._base import (
    aligned_answers,
    check_groups,
    check_magnitude,
    check_weights,
    documented,
    finite_answers,
    fit_weighted,
    group_folds,
    takes_weights,
)
from vicinal._base._compat import HasMethods, check_y, num_samples, rows_of
from vicinal._base._explanation import ExplainRowMixin
from vicinal._rows import HeldOutRows, coarse_answers, fold_answers, fold_numbers
from vicinal.table import TableEncoder

SHARED_CONSTRAINTS: dict = {
    "estimator": [HasMethods(["fit", "predict"])],
    "cv": ["cv_object"],
    "n_jobs": [Integral, None],
    "random_state": ["random_state"],
}


# Models of folds have seen fewer rows than the model. On small tables that shows in the coverage,
# and more folds are cheap: together they are fitted to as many rows as five folds of this many.
_FEW_ROWS, _FOLDS, _MOST_FOLDS = 600, 5, 20


@documented
class BaseConformal(ExplainRowMixin, MetaEstimatorMixin, BaseEstimator):
    """Fit, and answers of held-out rows.

    Parameters
    ----------
    n_jobs : int, default=None
        Folds fitted at once, in threads. ``None`` means 1.
    random_state : int, RandomState instance or None, default=None
        Seed of the folds.

    Attributes
    ----------
    estimator_ : estimator object
        The model, fitted to all rows.
    """

    def _check_rows(self, X, y, sample_weight, groups, **options):
        """Return (X, y, weights, groups) with numbers checked."""
        X = self._validated(X, reset=True, ensure_min_samples=2)
        if y is None:
            raise ValueError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        y = check_y(y, estimator=self, **options)
        check_consistent_length(X, y)
        groups = check_groups(groups, num_samples(X))
        if sample_weight is not None and not takes_weights(self.estimator):
            raise ValueError(
                f"sample_weight was given, but fit of {self.estimator!r} takes none; leave it "
                "out, or wrap a model that takes weights."
            )
        weights = None if sample_weight is None else check_weights(sample_weight, X)
        return X, y, weights, groups

    def _check_queries(self, X):
        check_is_fitted(self)
        check_magnitude("X", X)
        return self._validated(X, reset=False)

    def _validated(self, X, **options):
        """Return numbers checked; a data frame goes to the model as it is, with its names."""
        if hasattr(X, "columns"):
            options.pop("ensure_min_samples", None)
            validate_data(self, X, skip_check_array=True, **options)
            return X
        has_gaps = self.__sklearn_tags__().input_tags.allow_nan
        finite = "allow-nan" if has_gaps else True
        return validate_data(self, X, accept_sparse="csr", ensure_all_finite=finite, **options)

    def _fit_model(self, X, y, weights, groups, *, method, classes=None):
        """Fit the model and hold rows out; ``y`` are labels where there are ``classes``.

        Rows of weight zero are left out of all but the drawing of folds.
        """
        kept = np.arange(len(y)) if weights is None else np.flatnonzero(weights)
        folds = self._folds(X, y, groups, classes)
        folds = [np.searchsorted(kept, fold[np.isin(fold, kept)]) for fold in folds]
        folds = [fold for fold in folds if len(fold)]
        if len(kept) < len(y):
            X, y, weights = rows_of(X, kept), y[kept], weights[kept]
            groups = None if groups is None else groups[kept]
        asked: dict = {}
        if isinstance(self.estimator, FrozenEstimator):
            # A model that is fitted already has not seen these rows: they only calibrate.
            self.estimator_ = self.estimator
            answers = aligned_answers(self.estimator_, X, method, classes)
        else:
            data = self.estimator, X, y, weights, folds
            answers = fold_answers(*data, classes=classes, n_jobs=self.n_jobs)
            if classes is None:
                coarse = coarse_answers(*data, n_jobs=self.n_jobs)
                asked = {"folds": fold_numbers(folds), "coarse": coarse}
            self.estimator_ = fit_weighted(clone(self.estimator), X, y, weights)
        finite_answers(self.estimator, answers)
        self._table = TableEncoder().fit(X) if hasattr(X, "columns") else None
        targets = y.reshape(len(y), -1) if classes is None else np.searchsorted(classes, y)
        self._answered = HeldOutRows(
            self._as_numbers(X), answers, targets, weights, self.n_jobs, **asked, groups=groups
        )

    def _folds(self, X, y, groups, classes) -> list[np.ndarray]:
        n = num_samples(X)
        cv = _default_folds(y, classes) if self.cv is None else self.cv
        if isinstance(cv, Integral) and groups is not None:
            return group_folds(groups, int(cv))
        if isinstance(cv, Integral):
            seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
            if classes is not None and np.unique(y, return_counts=True)[1].min() >= cv:
                cv = StratifiedKFold(cv, shuffle=True, random_state=seed)
            else:
                cv = KFold(min(cv, n), shuffle=True, random_state=seed)
        splitter = check_cv(cv, y, classifier=classes is not None)
        folds = [test for _, test in splitter.split(np.zeros(n), y, groups)]
        if len(np.unique(np.concatenate(folds))) != n or sum(map(len, folds)) != n:
            raise ValueError(
                f"cv={self.cv!r} must hold every row out exactly once, so that each has an answer "
                "by a model that had not seen it; use a number of folds, or KFold."
            )
        return folds

    def predict(self, X):
        """Predict as the wrapped model does.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Queries.

        Returns
        -------
        ndarray
            Its predictions.
        """
        return self._answers(self._check_queries(X), "predict")

    def _answers(self, X, method):
        said = getattr(self.estimator_, method)(X)
        return finite_answers(self.estimator_, said) if said.dtype.kind == "f" else said

    def _sections(self, X, columns):
        """Return what is promised, and the reasons of the model if it gives any."""
        offers = hasattr(self.estimator_, "explain_row")
        reasons = self.estimator_.explain_row(X, columns) if offers else []
        return [self._promise(X), *reasons]

    def _held_out_rows(self) -> HeldOutRows:
        return self._answered

    def _row_numbers(self, X):
        return self._as_numbers(self._check_queries(X))

    def _as_numbers(self, X):
        """Return X as numbers in which rows can be compared."""
        if self._table is not None:
            return self._table.transform(X)
        return X.tocsr() if sparse.issparse(X) else np.asarray(X, dtype=np.float64)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        inner = self.estimator.__sklearn_tags__()
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        return tags


def _default_folds(y: np.ndarray, classes: np.ndarray | None) -> int:
    most = _MOST_FOLDS
    if classes is not None:  # every fold shall hold every class
        most = min(most, max(_FOLDS, int(np.unique(y, return_counts=True)[1].min())))
    return int(np.clip(_FOLDS * _FEW_ROWS // len(y), _FOLDS, most))
