"""Conformal prediction intervals and label sets for any model."""

from numbers import Integral
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, RegressorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import KFold, StratifiedKFold, check_cv
from sklearn.utils import check_consistent_length, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal import _base
from vicinal._base._compat import HasMethods, check_y
from vicinal._base._explanation import ExplainRowMixin, ExplanationSection, show
from vicinal._conformal import HeldOutRows, IntervalMixin, LabelSetMixin, held_out_by
from vicinal.table import TableEncoder

# Models of folds are fitted to fewer rows, which on small tables changes the coverage. Below this
# number of rows there are more folds, in proportion.
_FEW_ROWS, _FOLDS, _MAX_FOLDS = 600, 5, 20
_EXPLAINED_COVERAGE = 0.9


@_base.documented
class _Conformal(ExplainRowMixin, MetaEstimatorMixin, BaseEstimator):
    """Model with held-out predictions of its training rows.

    Parameters
    ----------
    n_jobs : int, default=None
        Number of folds fitted in parallel, in threads; ``None`` means 1.
    random_state : int, RandomState instance or None, default=None
        Seed of the folds.

    Attributes
    ----------
    estimator_ : estimator object
        The model, fitted to all rows.
    """

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "predict"])],
        "cv": ["cv_object"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def __init__(self, estimator, *, cv=None, n_jobs=None, random_state=None):
        _base.store_parameters(self, locals())

    def _fit(self, X, y, sample_weight, groups, task) -> _base.TrainingData:
        """Fit the model, and predict held-out rows."""
        data, folds = _data_and_folds(self, X, y, sample_weight, groups, task)
        found: dict = {}
        if isinstance(self.estimator, FrozenEstimator):
            # These rows only calibrate a model that was fitted to others.
            self.estimator_ = self.estimator
            method = "predict" if data.classes is None else "predict_proba"
            predicted = _base.aligned_predictions(self.estimator_, data.X, method, data.classes)
            found["predictions"] = predicted
        else:
            found = held_out_by(self.estimator, data, folds, n_jobs=self.n_jobs)
            model = clone(self.estimator)
            self.estimator_ = _base.fit_weighted(model, data.X, data.labels, data.sample_weight)
        _base.finite_predictions(self.estimator, found["predictions"])
        encoder = TableEncoder(unseen="ignore")
        self._table = encoder.fit(data.X) if hasattr(data.X, "columns") else None
        self._held_out_predictions = HeldOutRows(
            self._as_numbers(data.X),
            targets=data.y if data.classes is not None else data.y.reshape(len(data), -1),
            weights=data.sample_weight,
            n_jobs=self.n_jobs,
            groups=data.groups,
            **found,
        )
        return data

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
        return self._predicted(X, "predict")

    def _predicted(self, X, method):
        X = self._check_queries(X)
        found = getattr(self.estimator_, method)(X)
        return (
            _base.finite_predictions(self.estimator_, found) if found.dtype.kind == "f" else found
        )

    def _check_queries(self, X):
        check_is_fitted(self)
        _base.check_is_table(X)
        _base.check_magnitude("X", X)
        found = validate_data(self, X, reset=False, **_checks(self, X))
        return X if hasattr(X, "columns") else found

    def _model_sections(self, X, columns) -> list[ExplanationSection]:
        """Return the explanation of the model if it has one."""
        offers = hasattr(self.estimator_, "explain_row")
        return self.estimator_.explain_row(X, columns) if offers else []

    def _held_out_rows(self) -> HeldOutRows:
        return self._held_out_predictions

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


def _checks(model, X) -> dict[str, Any]:
    """Return options of ``validate_data``; the model gets a data frame as it is."""
    if hasattr(X, "columns"):
        return {"skip_check_array": True}
    finite = "allow-nan" if model.__sklearn_tags__().input_tags.allow_nan else True
    return {"accept_sparse": "csr", "dtype": "numeric", "ensure_all_finite": finite}


def _data_and_folds(model, X, y, sample_weight, groups, task):
    """Return validated rows of positive weight, and the folds that hold them out."""
    is_numeric = task == "regression"
    if y is None:
        raise ValueError(
            f"{type(model).__name__} requires y to be passed, but the target y is None."
        )
    if sample_weight is not None:
        _base.check_takes_weights(model.estimator)
    checks = _checks(model, X)
    if "skip_check_array" not in checks:
        checks |= {"ensure_min_samples": 2, "multi_output": is_numeric}
    y = check_y(y, estimator=model, multi_output=is_numeric, y_numeric=is_numeric)
    check_consistent_length(X, y)
    # StratifiedKFold does not accept numbers of dtype object.
    y = y if is_numeric else _base.narrowed(y)
    data = _base.training_data(model, X, y, sample_weight, groups, task=task, **checks)
    # Folds are made before rows of weight zero are removed, since cv may name rows by index.
    folds = _folds(model, y, _base.check_groups(groups, len(y)), data.classes)
    kept = data.positions
    folds = [np.searchsorted(kept, fold[np.isin(fold, kept)]) for fold in folds]
    return data, [fold for fold in folds if len(fold)]


def _folds(model, y, groups, classes) -> list[np.ndarray]:
    n, cv = len(y), model.cv
    fewest = None if classes is None else int(np.unique(y, return_counts=True)[1].min())
    if cv is None:  # every class should be in every fold
        most = _MAX_FOLDS if fewest is None else min(_MAX_FOLDS, max(_FOLDS, fewest))
        cv = int(np.clip(_FOLDS * _FEW_ROWS // n, _FOLDS, most))
    if isinstance(cv, Integral) and groups is not None:
        return _base.group_folds(groups, int(cv))
    if isinstance(cv, Integral):
        seed = check_random_state(model.random_state).randint(np.iinfo(np.int32).max)
        if fewest is not None and fewest >= cv:
            cv = StratifiedKFold(cv, shuffle=True, random_state=seed)
        else:
            cv = KFold(min(cv, n), shuffle=True, random_state=seed)
    splitter = check_cv(cv, y, classifier=classes is not None)
    folds = [test for _, test in splitter.split(np.zeros(n), y, groups)]
    if len(np.unique(np.concatenate(folds))) != n or sum(map(len, folds)) != n:
        raise ValueError(
            f"cv={model.cv!r} must hold every row out exactly once; use a number of folds, or "
            "KFold."
        )
    return folds


@_base.documented
class ConformalClassifier(ClassifierMixin, LabelSetMixin, _Conformal):
    r"""Conformal label sets for any classifier, from held-out probabilities.

    A label set holds the true label with a given probability: it has one label where the prediction
    is clear, and several where classes overlap. Cross-validation gives a held-out prediction of
    every training row. A label is in the set of a new row if its score is no worse than that of
    the true labels of most training rows. The model itself is fitted to all rows.

    Read more in the :doc:`user guide </guide/conformal>`.

    Parameters
    ----------
    estimator : estimator object
        Any classifier or pipeline with ``predict_proba``. A fitted one inside
        :class:`~sklearn.frozen.FrozenEstimator` is used as it is. The rows of ``fit`` then only
        calibrate it, and must not be its training rows.
    cv : int, cross-validation generator or iterable, default=None
        Cross-validation; ``None`` means 5 stratified folds, and up to 20 for fewer than 600 rows.
        Each row must be held out once.

    Attributes
    ----------
    held_out_ : ndarray of shape (n_samples, n_classes)
        Held-out probabilities of the training rows of positive weight.

    See Also
    --------
    ConformalRegressor : Prediction intervals.

    Notes
    -----
    With the score :math:`e_c(x) = 1 - p_c(x)` ("threshold", LAC [1]_) or
    :math:`e_c(x) = \sum_{k: p_k(x) > p_c(x)} p_k(x)` ("adaptive", APS [2]_ without randomisation)
    the set is :math:`\{c : e_c(x) \le q\}`, where q is the :math:`\lceil c (n + 1) \rceil`-th
    smallest score of a true label. ``by_class`` takes a quantile for each label [3]_.

    References
    ----------
    .. [1] M. Sadinle, J. Lei and L. Wasserman, "Least ambiguous set-valued classifiers with bounded
       error levels", Journal of the American Statistical Association 114 (2019), 223-234.
       :doi:`10.1080/01621459.2017.1395341`
    .. [2] Y. Romano, M. Sesia and E. Candes, "Classification with valid and adaptive coverage",
       Advances in Neural Information Processing Systems 33 (2020).
    .. [3] V. Vovk, "Conditional validity of inductive conformal predictors", Machine Learning 92
       (2013), 349-376. :doi:`10.1007/s10994-013-5355-6`

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from vicinal.uncertainty import ConformalClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ConformalClassifier(LogisticRegression(max_iter=500), random_state=0).fit(X, y)
    >>> model.predict_set(X[[0, 51, 77]], coverage=0.98)
    array([[ True, False, False],
           [False,  True, False],
           [False,  True,  True]])
    """

    _parameter_constraints: dict = {
        **_Conformal._parameter_constraints,
        "estimator": [HasMethods(["fit", "predict", "predict_proba"])],
    }

    @_base.atomic_fit
    def fit(self, X, y, sample_weight=None, groups=None):
        """Fit the model, and compute held-out probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Training rows, in the format of the model.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, in the model and in the quantiles.
        """
        self.classes_ = self._fit(X, y, sample_weight, groups, "classification").classes
        self.held_out_ = self._held_out_predictions.predictions
        return self

    def predict(self, X, *, abstain=None, cost_matrix=None):
        """Predict as the wrapped model does, or the label of least expected cost.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Queries.
        abstain : float, default=None
            Largest share of wrong labels among the rows that are predicted, with probability 90 %;
            the label of a less confident row is ``None``. ``None`` predicts every row.
        cost_matrix : array-like of shape (n_classes, n_classes), default=None
            Cost of predicting the class of each column where that of the row is true.
        """
        if abstain is None and cost_matrix is None:
            return super().predict(X)
        return self._decided(self.predict_proba(X), abstain, cost_matrix)

    def predict_proba(self, X):
        """Return the probabilities of the wrapped model."""
        return _base.as_given(self._predicted(X, "predict_proba"), X)

    def _sections(self, X, columns):
        proba = np.asarray(self.predict_proba(X), dtype=np.float64)[0]
        inside = self.predict_set(X, _EXPLAINED_COVERAGE)[0]
        order = np.argsort(-proba, kind="stable")
        labels = [self.classes_[k] for k in order if inside[k]]
        section = ExplanationSection(
            "set",
            "Label set",
            f"With probability {_EXPLAINED_COVERAGE:.0%}, the label is one of: "
            f"{', '.join(map(show, labels))}.",
            ("label", "probability", "in the set"),
            [(self.classes_[k], float(proba[k]), "yes" if inside[k] else "no") for k in order],
            values={"coverage": _EXPLAINED_COVERAGE, "labels": labels},
        )
        return [section, *self._model_sections(X, columns)]


@_base.documented
class ConformalRegressor(RegressorMixin, IntervalMixin, _Conformal):
    r"""Conformal prediction intervals for any regressor, from held-out errors.

    An interval holds the target with a given probability, and is wide where the noise is strong.
    Cross-validation gives a held-out error of every training row. Each error is divided by the
    mean error of the rows around it, and q is a quantile of these ratios. The interval of a new row
    is its prediction plus and minus q local mean errors. The model itself is fitted to all rows.

    Read more in the :doc:`user guide </guide/conformal>`.

    Parameters
    ----------
    estimator : estimator object
        Any regressor or pipeline. A fitted one inside
        :class:`~sklearn.frozen.FrozenEstimator` is used as it is. The rows of ``fit`` then only
        calibrate it, and must not be its training rows.
    cv : int, cross-validation generator or iterable, default=None
        Cross-validation; ``None`` means 5 folds, and up to 20 for fewer than 600 rows. Each row
        must be held out once.

    Attributes
    ----------
    held_out_ : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Held-out predictions of the training rows of positive weight.

    See Also
    --------
    ConformalClassifier : Label sets.

    Notes
    -----
    With residuals :math:`r_i = y_i - f_{-i}(x_i)` and the local scale
    :math:`s(x) = \sum_i w_i(x) |r_i| / \sum_i w_i(x)` (tricube weights in standardised columns;
    number of neighbours, or a constant scale, by the leave-one-out likelihood; raised to the
    smallest power that the likelihood does not reject), the interval is
    :math:`f(x) \mp q\, s(x)`, where q is the :math:`\lceil c (n + 1) \rceil`-th smallest
    :math:`|r_i| / s_{-i}(x_i)` [1]_. Skewed residuals get a quantile for each end. With
    ``local=True`` the quantile is taken over the rows around the query, weighted by distance and
    including the query's own weight [2]_ [3]_.

    A model fitted to 80 % of the rows has larger errors than one fitted to all. Two further fits,
    to about half of the rows each, estimate how errors fall with the number of rows,
    :math:`|r| / s \propto n^{-a}`, and residuals are shrunk accordingly. Most errors around a
    held-out row are of models that were fitted to it, which is not so for a new row: therefore
    :math:`s_{-i}` is multiplied by the ratio of the errors of its own fold to those of all
    neighbours.

    References
    ----------
    .. [1] J. Lei, M. G'Sell, A. Rinaldo, R. J. Tibshirani and L. Wasserman, "Distribution-free
       predictive inference for regression", Journal of the American Statistical Association 113
       (2018), section 5.2. :doi:`10.1080/01621459.2017.1307116`
    .. [2] L. Guan, "Localized conformal prediction", Biometrika 110 (2023), 33-50.
       :doi:`10.1093/biomet/asac040`
    .. [3] R. Hore and R. F. Barber, "Conformal prediction with local weights: randomization enables
       robust guarantees", Journal of the Royal Statistical Society B 87 (2025), 549-578.
       :doi:`10.1093/jrsssb/qkae103`

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.linear_model import LinearRegression
    >>> from vicinal.uncertainty import ConformalRegressor
    >>> rng = np.random.RandomState(0)
    >>> x = rng.uniform(0, 1, size=(1000, 1))
    >>> y = 2 * x[:, 0] + rng.normal(size=1000) * (0.1 + x[:, 0])
    >>> model = ConformalRegressor(LinearRegression(), random_state=0).fit(x, y)
    >>> np.diff(model.predict_interval([[0.05], [0.95]], coverage=0.9)).ravel().round(1)
    array([0.5, 3.5])
    """

    @_base.atomic_fit
    def fit(self, X, y, sample_weight=None, groups=None):
        """Fit the model, and compute held-out errors.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Training rows, in the format of the model.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, in the model and in the quantiles.
        """
        data = self._fit(X, y, sample_weight, groups, "regression")
        self.held_out_ = self._held_out_predictions.predictions.reshape(-1, *data.y.shape[1:])
        return self

    def held_out_scale(self):
        """Return the local mean error around each training row, without its own.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Local mean of the absolute errors of held-out predictions.
        """
        check_is_fitted(self)
        return self._held_out_predictions.intervals.scale.held_out.reshape(self.held_out_.shape)

    def _sections(self, X, columns):
        low, high = self.predict_interval(X, _EXPLAINED_COVERAGE)[0].reshape(-1, 2)[0].tolist()
        section = ExplanationSection(
            "interval",
            "Interval",
            f"With probability {_EXPLAINED_COVERAGE:.0%}, the target lies between {show(low)} and "
            f"{show(high)}.",
            values={"coverage": _EXPLAINED_COVERAGE, "interval": [low, high]},
        )
        return [section, *self._model_sections(X, columns)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self.estimator.__sklearn_tags__().target_tags.multi_output
        return tags
