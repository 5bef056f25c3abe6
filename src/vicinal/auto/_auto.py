"""Classification and regression on any table by a weighted average of models of all families."""

import warnings
from html import escape
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.metrics import get_scorer_names
from sklearn.pipeline import Pipeline
from sklearn.utils import estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from vicinal._base import (
    as_given,
    as_numpy,
    atomic_fit,
    atomic_fit_blocks,
    counted,
    device_classes,
    documented,
    import_optional,
    store_parameters,
    survey,
)
from vicinal._base._compat import (
    RUN_CONSTRAINTS,
    HasMethods,
    Interval,
    StrOptions,
    num_samples,
    threadpool_controller,
)
from vicinal._base._explanation import ExplainRowMixin, ExplanationSection, base_model_section
from vicinal._base._tables import column_names
from vicinal._base._unseen import report_unseen
from vicinal._conformal import HeldOutRows, IntervalMixin, LabelSetMixin
from vicinal._kernels.ensemble._weights import log_proba
from vicinal.auto._fit import fit_ensemble, fit_to_blocks, sample_blocks
from vicinal.auto._predict import FEW_ROWS
from vicinal.auto._settings import resolve
from vicinal.auto._tables import read_queries, read_table

# Training rows that a row is compared with.
_MOST_COMPARED = 200
_SPLITS = HasMethods(["split", "get_n_splits"])
# Neighbours that an explanation lists; its summary counts all.
_MOST_NEIGHBORS = 200
# Rare classes that a warning names.
_SHOWN_CLASSES = 5


@documented
class _Auto(ExplainRowMixin, BaseEstimator):
    """What both estimators store and report of their base models.

    Parameters
    ----------
    preset : {"fast", "default", "best"}, default="default"
        Price of processor time. A model is tried beyond its first fold only if the expected
        reduction of the held-out loss pays for its time: 0.05 % for each second per 1,000 rows, 2 %
        for ``"fast"`` and 0.01 % for ``"best"``; four times as much in regression. ``"fast"`` tries
        fewer and quicker models with at most three folds, judged on at most 2,000 rows: linear
        models, boosted trees and kernel ridge, and with classes a forest; of classes and columns of
        categories only the first two. ``"best"`` adds ``"neural"``.
    max_fit_time : float, default=None
        Seconds for the whole fit: a model whose projected time does not fit is skipped, except a
        constant and a linear model. ``None`` sets no limit.
    max_predict_time : float, default=None
        Seconds for the prediction of one row of many: base models are dropped until the rest takes
        no longer, first the one whose gain for its time is the least. The time of each is measured
        on 100 training rows. ``None`` sets no limit.
    cv : int, "time", splitter or list of pairs, default=5
        An int is the number of random folds, with ``preset="fast"`` at most three; tables of fewer
        than 1,000 rows are split twice.
        ``"time"`` splits in the order of the rows, or of ``time_column``, into six blocks: each
        but the first is predicted by models that have seen only the blocks before it. A splitter
        of scikit-learn and pairs of training and test rows are followed exactly. Rows that are
        never held out do not count in the choice of models.
    time_column : str or int, default=None
        Column of dates or numbers by which ``cv="time"`` orders the rows. Models use it too.
    scoring : str or callable, default=None
        Score to optimise, by name or as a scorer of scikit-learn that uses predictions only. Log
        loss, squared and absolute error and the quantile loss (a scorer of
        :func:`~sklearn.metrics.mean_pinball_loss`) are minimised by the weights. Any other score
        selects between ensembles. ``score_`` is this score; losses are negative.
    monotonic_cst : dict or array-like of int, default=None
        Direction of each column, as in scikit-learn: 1 for predictions (the probability of the
        second of two classes) that must not decrease, -1 for not increase, 0 for free; or such
        numbers by column name. Models that cannot obey are skipped.
    device : {"auto", "cpu"} or str, default="auto"
        Where NumPy arrays and frames are on the host, the device of torch that computes the
        networks of ``"neural"`` and ``"pretrained"``; trees and local models use the processor.
        ``"auto"`` is a GPU if there is one. With ``"cpu"``, and without a GPU, ``"neural"`` is part
        of ``preset="best"`` only. The fitted model predicts without a GPU.
    unseen : {"warn", "error", "ignore"}, default="warn"
        What predictions do with values that no training row has: unseen categories, strings among
        numbers, infinities, other types, and missing values in columns that had none. One warning
        counts them by column, ``"error"`` refuses the rows.
    n_jobs : int, default=None
        Number of threads. ``None`` is 1 unless in a :func:`joblib.parallel_config` context, ``-1``
        is every core. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Folds, rows on which models are tried (at most 30,000) and compared (at most 5,000),
        forests.

    Attributes
    ----------
    estimators_ : list of BaseModel
        Fitted base models, largest weight first: ``name``, ``estimator``, ``weight``, ``loss``,
        ``params``, ``trial_time``, ``fit_time``, ``predict_time``, ``n_rows``, ``encoding``.
    weights_ : ndarray of shape (n_estimators,)
        Their weights, of sum one.
    skipped_ : list of BaseModel
        Models that were tried or considered and are not part of the ensemble; ``reason`` states
        why.
    cv_results_ : dict of ndarray
        Every setting that was tried: ``name``, ``params``, ``loss``.
    """

    _parameter_constraints: dict = {
        "families": [StrOptions({"default"}), list],
        "preset": [StrOptions({"fast", "default", "best"})],
        "max_fit_time": [Interval(Real, 0, None, closed="neither"), None],
        "max_predict_time": [Interval(Real, 0, None, closed="neither"), None],
        "cv": [Interval(Integral, 2, None, closed="left"), StrOptions({"time"}), _SPLITS, list],
        "time_column": [str, Integral, None],
        "scoring": [StrOptions(set(get_scorer_names())), callable, None],
        "monotonic_cst": [dict, "array-like", None],
        "device": [str],
        "unseen": [StrOptions({"warn", "error", "ignore"})],
        **RUN_CONSTRAINTS,
    }

    _reference: Any = None  # an empty array of the device of the training rows, None for NumPy

    @atomic_fit_blocks
    def fit_blocks(self, blocks):
        """Fit the ensemble to a table in blocks of rows.

        Up to 100,000 rows are fitted as in memory. Of more, a sample of that size selects and
        weights the base models; those that learn from sums over blocks (linear ones, and those
        given that have a method ``fit_blocks``) are then fitted to all rows, the others to the
        sample (see ``n_rows`` of each base model). ``held_out_`` has a row for each of the sample,
        in the order of the table.

        Parameters
        ----------
        blocks : Blocks
            The table, as :func:`vicinal.distributed.fit` hands it over.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        if not isinstance(self.cv, Integral | str) or self.time_column is not None:
            raise ValueError("A table in blocks needs cv='time', in its order, or a number.")
        blocks, found = survey(blocks, has_classes=isinstance(self, ClassifierMixin))
        rows, positions = sample_blocks(blocks, found, self.random_state)
        self.fit(rows.X, rows.y, sample_weight=rows.sample_weight)
        self._positions = positions[self._positions]
        if len(rows) < found.n_rows:
            class_weight = getattr(self, "class_weight", None)
            for model in self.estimators_:
                fit_to_blocks(model, blocks, found, self._encodings, class_weight)

    def _store(self, fit, data) -> None:
        self._encodings = fit.encodings
        self.estimators_ = fit.base_models
        self.weights_ = np.array([model.weight for model in fit.base_models])
        self.skipped_ = fit.skipped
        self.cv_results_ = fit.cv_results
        self.score_, self.score_error_ = fit.score, fit.score_error
        if fit.order:
            warnings.warn(
                f"{fit.order} (p < 1e-4); if rows are in the order of time, score_ and intervals "
                'are too optimistic, so use cv="time". If neighbouring rows belong together, pass '
                "groups; if the order means nothing, shuffle the rows.",
                UserWarning,
                stacklevel=4,
            )
        self.held_out_ = fit.held_out
        self._held_out = fit.held_out_rows
        self._positions, self._targets = data.positions, data.labels
        # Neighbours are shown with their values; without any, some rows to compare with do.
        has_neighbors = any(_is_local(model.estimator) for model in self.estimators_)
        at_most = None if has_neighbors else _MOST_COMPARED
        self._stored_rows = data.stored_rows(at_most, column_names(data.X, self))

    # --- predictions ---

    def contributions(self, X):
        """Return what each base model adds to the predictions.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Queries.

        Returns
        -------
        ndarray of shape (n_queries, n_estimators, n_outputs)
            Weight times prediction of every base model, in the order of ``estimators_``; they add
            up to the prediction.
        """
        if not hasattr(self, "_encodings"):  # many times as fast as the check
            check_is_fitted(self)
        rows = self._encoded(X)
        classes = getattr(self, "classes_", None)
        n_threads = 1 if num_samples(X) <= FEW_ROWS else None
        models = self.estimators_
        with threadpool_controller().limit(limits=n_threads, user_api="openmp"):
            parts = [model.predict(rows[model.encoding], classes) for model in models]
        predicted = np.stack(parts, axis=1)
        if classes is not None:
            slopes = np.array([[model.slope] for model in models])
            predicted = softmax(slopes * log_proba(predicted, self.n_samples_fit_), axis=2)
        offsets = np.reshape([model.offset for model in models], (len(models), -1))
        return self.weights_[:, None] * (predicted + offsets)

    @property
    def encoders_(self) -> dict[str, Any]:
        """Fitted encoder of each encoding that base models are given, None for none."""
        return self._encodings.encoders

    def _encoded(self, X) -> dict[str, Any]:
        """Return query rows in the encodings that base models need, and report unseen values."""
        X = self._encodings.read(self._queries(X))
        report_unseen(lambda: self._unseen_in(X), self.unseen)
        names = dict.fromkeys(model.encoding for model in self.estimators_)
        return {name: self._encodings.transform(X, name) for name in names}

    def unseen_values(self, X):
        """Return the values of query rows that no training row has.

        Parameters
        ----------
        X : {array-like, frame} of shape (n_queries, n_features)
            Queries.

        Returns
        -------
        list of UnseenValues
            An entry for each column and problem, see
            :meth:`vicinal.table.TableEncoder.unseen_values`. Of arrays, missing values in columns
            that had none.
        """
        check_is_fitted(self)
        return self._unseen_in(self._queries(X))

    def _unseen_in(self, X):
        return self._encodings.unseen_values(X, column_names(X, self))

    def _queries(self, X):
        return read_queries(self, X, self._encodings.reads_frames)

    def _held_out_rows(self) -> HeldOutRows:
        return self._held_out

    @property
    def _table(self):
        """Encoder of the row numbers, if the table is a frame of mixed columns."""
        return self.encoders_["distance"] if self._encodings.reads_frames else None

    def _row_numbers(self, X) -> np.ndarray:
        return as_numpy(self._encodings.transform(self._queries(X), "distance"))

    # --- explanation and display ---

    def _sections(self, X, columns):
        models, weights = self.estimators_, self.weights_
        predictions = self.contributions(X)[0] / weights[:, None]
        summary = "One base model predicts alone."
        if len(models) > 1:
            summary = f"{len(models)} base models, weighted by their held-out predictions."
        score = {"score": self.score_, "score_error": self.score_error_}
        names, classes = [model.name for model in models], getattr(self, "classes_", None)
        found = names, weights, predictions, classes, summary, columns.label
        return [base_model_section(*found, **score), self._neighbor_section(self._encoded(X))]

    def _neighbor_section(self, rows: dict[str, Any]) -> ExplanationSection:
        """Return the training rows that local models use, by their share of the prediction."""
        positions, targets, stored = self._positions, self._targets, self._stored_rows
        share, local_weight, n_rows = np.zeros(len(positions)), 0.0, len(positions)
        for model in self.estimators_:
            weights = _neighbor_weights(model.estimator, rows[model.encoding])
            if weights is not None:
                local_weight += model.weight
                share += model.weight * weights / max(weights.sum(), np.finfo(float).tiny)
        used = np.flatnonzero(share)
        if not len(used):
            summary = "No neighbourhood: all base models are global."
            values = {"n_neighbors": 0, "local_weight": local_weight}
            return ExplanationSection("neighbors", "Neighbours", summary, values=values)
        size = float(share.sum() ** 2 / (share**2).sum())
        summary = (
            f"Local models, with {local_weight:.0%} of the weight, use {len(used)} of {n_rows} "
            f"training rows; their weights are equivalent to {size:.0f} rows of equal weight."
        )
        if size > 0.5 * n_rows:
            summary += " This is most of the table, hardly a neighbourhood."
        if local_weight < 1.0 - 1e-9:
            summary += " The others are global models."
        if len(used) > _MOST_NEIGHBORS:
            summary += f" The {_MOST_NEIGHBORS} of largest weight are listed."
        order = used[np.argsort(-share[used], kind="stable")][:_MOST_NEIGHBORS]
        shown = targets[order] if targets.ndim == 1 else map(tuple, targets[order])
        table = list(zip(positions[order].tolist(), shown, share[order].tolist(), strict=True))
        values = {
            "n_neighbors": len(used),
            "effective_sample_size": size,
            "local_weight": local_weight,
        }
        head = ("training row", "target", "weight")
        cells = None if stored is None else lambda name: stored.cells(name, order)
        return ExplanationSection(
            "neighbors", "Neighbours", summary, head, table, "weight", values, cells
        )

    def background(self, X, at_most=_MOST_COMPARED):
        """Return training rows to compare rows with, as `vicinal.inspection.explain` does.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_queries, n_features)
            Rows, of which only the type matters.
        at_most : int, default=200
            Number of training rows, spread over the table.

        Returns
        -------
        rows : array, sparse matrix or frame, or None
            A table like X; ``None`` for a fit on a device, or where rows cannot be written as X is.
        """
        check_is_fitted(self)
        return None if self._stored_rows is None else self._stored_rows.like(X, at_most)

    def leaderboard(self):
        """Return the base models with their weights, losses and times.

        Returns
        -------
        DataFrame
            One row per model, largest weight first; ``reason`` states why a model was skipped.
        """
        check_is_fitted(self)
        pandas = import_optional("pandas", needed_by="leaderboard", extra="frame")
        return pandas.DataFrame(self._columns())

    def _columns(self) -> dict[str, list]:
        names = ("name", "weight", "loss", "trial_time", "fit_time", "predict_time", "reason")
        models = [*self.estimators_, *self.skipped_]
        return {name: [getattr(model, name) for model in models] for name in names}

    def _repr_html_(self):
        """Return the estimator as scikit-learn shows it, and once fitted its base models."""
        page = estimator_html_repr(self)
        if not hasattr(self, "estimators_"):
            return page
        columns = self._columns()
        head = "".join(f"<th>{name}</th>" for name in columns)
        body = "".join(
            "<tr>" + "".join(f"<td>{_shown(value)}</td>" for value in row) + "</tr>"
            for row in zip(*columns.values(), strict=True)
        )
        score = f"held-out score {self.score_:.4g} ± {self.score_error_:.2g}"
        return (
            f"{page}<table><caption>{score}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{body}</tbody></table>"
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        return tags


@documented
class AutoClassifier(ClassifierMixin, _Auto, LabelSetMixin):
    r"""Classifier for any table: a weighted average of models of several families.

    Local models, forests, linear and discriminant models, boosted trees and kernel ridge predict
    training rows that they were not fitted to. Their probabilities are calibrated on these held-out
    predictions and averaged with the weights that minimise the held-out log loss. At most six
    models remain, and their contributions add up to the prediction. ``score_`` estimates the
    accuracy on new rows: no choice was made on the rows it is computed from.

    Read more in the :doc:`user guide </guide/auto>`.

    Parameters
    ----------
    families : "default" or list, default="default"
        Model families to try (``"constant"``, ``"local"``, ``"forest"``, ``"boosting"``,
        ``"linear"``, ``"kernel"``, ``"gradient"``, ``"pretrained"``, ``"neural"``),
        pairs (name, classifier), or both. ``"default"`` tries every family where it is likely to
        improve the ensemble, but not the last one, which takes longer, nor ``"gradient"`` where
        ``"kernel"`` is tried.
    class_weight : dict, "balanced" or None, default=None
        Factors on the weights of the rows of each class. They apply to the base models, to their
        selection and to the weights of the ensemble.

    Attributes
    ----------
    score_, score_error_ : float
        Estimated accuracy, or ``scoring``, on new rows and its standard error. For each fold,
        settings, models, calibration and weights were selected on the other folds, with
        ``cv="time"`` on earlier ones. The standard error includes the variance due to the training
        rows; where every row was predicted correctly, it is that of one mistake.
    held_out_ : ndarray of shape (n_samples, n_classes)
        Held-out probabilities of each training row, by models and weights that were fitted without
        it; NaN for rows that were not sampled or never held out.
    n_samples_fit_ : int
        Number of training rows of positive weight; probabilities are smoothed by a prior of one
        sample.

    See Also
    --------
    AutoRegressor : The same for regression.
    vicinal.local.LocalClassifier : One local model.
    sklearn.ensemble.StackingClassifier : Any final model on top of given estimators.

    Notes
    -----
    Let :math:`p_m` be the probabilities of base model m, :math:`q_m = \operatorname{softmax}(b\,
    a_m \log p_m)` the calibrated ones and :math:`q_m^{-i}` the held-out prediction of row i. The
    weights maximise

    .. math:: \sum_i s_i \log \sum_m w_m\, q_m^{-i}(y_i | x_i), \qquad w \ge 0, \sum_m w_m = 1,

    which is concave, minus a small penalty on unequal weights. The slope :math:`a_m` calibrates
    each model alone. An average of calibrated probabilities is underconfident [1]_; the common
    factor b, from 1 to 4, corrects this and is selected with a prior of two samples spread over the
    classes. Models with a weight below 2 % are dropped and at most six remain. If no model beats
    the class frequencies by two standard errors, these are predicted. Local models leave the row
    out of its neighbourhood, forests use the trees that were not fitted to it, and all other models
    are fitted to the other folds.

    References
    ----------
    .. [1] T. Gneiting and R. Ranjan, "Combining predictive distributions", Electronic Journal of
       Statistics 7 (2013), 1747-1782. :doi:`10.1214/13-EJS823`

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from vicinal.auto import AutoClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> model = AutoClassifier(["local", "linear"], random_state=0).fit(X, y)
    >>> print(f"{model.score_:.1f}", model.predict(X[[0, 70, 170]]))
    1.0 [0 1 2]
    """

    _parameter_constraints: dict = {
        **_Auto._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        families="default",
        *,
        preset="default",
        max_fit_time=None,
        max_predict_time=None,
        cv=5,
        time_column=None,
        scoring=None,
        monotonic_cst=None,
        class_weight=None,
        device="auto",
        unseen="warn",
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        store_parameters(self, locals())

    @atomic_fit
    def fit(self, X, y, sample_weight=None, groups=None):
        """Try base models, weight them, and fit those that carry weight.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_samples, n_features)
            Training rows; NaN is a missing value. Strings, dates and the like are encoded by
            :class:`~vicinal.table.TableEncoder`. Rows on a GPU (torch, CuPy) stay there, and the
            models that run there are tried.
        """
        data = read_table(self, X, y, sample_weight, groups, "classification")
        self.classes_, self.n_samples_fit_ = data.classes, len(data)
        settings = resolve(self, X, y, groups, data)
        nearly_all_differ = 2 * len(self.classes_) > len(data)
        if not nearly_all_differ:
            _warn_of_rare_classes(data.classes, np.bincount(data.y), min(settings.cv, len(data)))
        with warnings.catch_warnings():
            if nearly_all_differ:  # scikit-learn has warned of them already
                warnings.filterwarnings("ignore", "The number of unique classes is greater")
            fit = fit_ensemble(data, self.class_weight, num_samples(X), settings)
        self._store(fit, data)
        return self

    def predict_proba(self, X):
        """Return the weighted average of the probabilities of the base models.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features)
            Queries; NaN is a missing value.
        """
        return as_given(self.contributions(X).sum(axis=1), X)

    def predict(self, X, *, abstain=None, cost_matrix=None):
        """Predict the class of largest probability, or of least expected cost.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features)
            Queries; NaN is a missing value.
        abstain : float, default=None
            Largest share of wrong labels among the rows that are predicted, with probability 90 %;
            the label of a less confident row is ``None``. ``None`` predicts every row.
        cost_matrix : array-like of shape (n_classes, n_classes), default=None
            Cost of predicting the class of each column where that of the row is true.
        """
        proba = as_given(self.contributions(X).sum(axis=1), X)
        if abstain is not None or cost_matrix is not None:
            return self._decided(as_numpy(proba), abstain, cost_matrix)
        return device_classes(self.classes_, proba, on_device=self._labels_on_device)


@documented
class AutoRegressor(MultiOutputMixin, RegressorMixin, _Auto, IntervalMixin):
    r"""Regressor for any table: a weighted average of models of several families.

    Local models, extra trees, linear and quadratic models, boosted trees and kernel ridge predict
    training rows that they were not fitted to. Their predictions are averaged with the weights that
    minimise the held-out squared error. At most six models remain, and their contributions add up
    to the prediction. ``score_`` estimates R2 on new rows: no choice was made on the rows it is
    computed from.

    Read more in the :doc:`user guide </guide/auto>`.

    Parameters
    ----------
    families : "default" or list, default="default"
        Model families to try (``"constant"``, ``"local"``, ``"forest"``, ``"boosting"``,
        ``"linear"``, ``"kernel"``, ``"gradient"``, ``"pretrained"``, ``"neural"``),
        pairs (name, regressor), or both. ``"default"`` tries every family where it is likely to
        improve the ensemble, but not the last one, which takes longer, nor ``"gradient"`` where
        ``"kernel"`` is tried.

    Attributes
    ----------
    score_, score_error_ : float
        Estimated R2, or ``scoring``, on new rows and its standard error. For each fold, settings,
        models and weights were selected on the other folds, with ``cv="time"`` on earlier ones.
        The standard error includes the variance due to the training rows.
    held_out_ : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Held-out predictions of each training row, by models and weights that were fitted without
        it; NaN for rows that were not sampled or never held out.

    See Also
    --------
    AutoClassifier : The same for classification.
    vicinal.local.LocalRegressor : One local model.
    sklearn.ensemble.StackingRegressor : Any final model on top of given estimators.

    Notes
    -----
    With :math:`f_m^{-i}` the held-out prediction of row i by base model m, the weights minimise

    .. math:: \sum_i s_i \Big(y_i - \sum_m w_m f_m^{-i}(x_i)\Big)^2, \qquad w \ge 0, \sum_m w_m = 1,

    which is convex; outputs are compared in units of their variance. Models with a weight below 2 %
    are dropped and at most six remain. If no model beats the mean by two standard errors, nor
    ranks the rows better than by chance, the mean is predicted. Local models leave the row out of
    its neighbourhood, forests use the trees that were not fitted to it, and all other models are
    fitted to the other folds. Predictions of base models leave the range of the targets by a
    quarter of it at most, or by more where this has the least held-out loss.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_diabetes
    >>> from vicinal.auto import AutoRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = AutoRegressor(["local", "linear"], random_state=0).fit(X, y)
    >>> parts = model.contributions(X[:2])
    >>> bool(abs(parts.sum(axis=1)[:, 0] - model.predict(X[:2])).max() < 1e-9)
    True
    >>> model.predict_interval(X[:2], coverage=0.9).shape
    (2, 2)

    Rows in the order of time, absolute errors, and predictions that rise with the third column:

    >>> model = AutoRegressor(
    ...     ["linear"],
    ...     cv="time",
    ...     scoring="neg_mean_absolute_error",
    ...     monotonic_cst=[0, 0, 1] + [0] * 7,
    ...     random_state=0,
    ... )
    >>> print(f"absolute error of later rows {-model.fit(X, y).score_:.0f}")
    absolute error of later rows 45
    >>> bool((model.predict(X + np.eye(10)[2]) >= model.predict(X)).all())
    True
    """

    def __init__(
        self,
        families="default",
        *,
        preset="default",
        max_fit_time=None,
        max_predict_time=None,
        cv=5,
        time_column=None,
        scoring=None,
        monotonic_cst=None,
        device="auto",
        unseen="warn",
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        store_parameters(self, locals())

    @atomic_fit
    def fit(self, X, y, sample_weight=None, groups=None):
        """Try base models, weight them, and fit those that carry weight.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_samples, n_features)
            Training rows; NaN is a missing value. Strings, dates and the like are encoded by
            :class:`~vicinal.table.TableEncoder`. Rows on a GPU (torch, CuPy) stay there, and the
            models that run there are tried.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        """
        data = read_table(self, X, y, sample_weight, groups, "regression")
        self._is_flat = data.y.ndim == 1
        settings = resolve(self, X, y, groups, data)
        self._store(fit_ensemble(data, None, num_samples(X), settings), data)
        self.held_out_ = self._flat(self.held_out_)
        return self

    def _flat(self, values: np.ndarray) -> np.ndarray:
        return values[:, 0] if self._is_flat else values

    def predict(self, X):
        """Return the weighted average of the predictions of the base models.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features)
            Queries; NaN is a missing value.
        """
        return as_given(self._flat(self.contributions(X).sum(axis=1)), X)

    def held_out_scale(self):
        """Return how large errors are around each training row, its own left out.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Local mean of the absolute errors of held-out predictions; NaN where there is none.
        """
        check_is_fitted(self)
        out = np.full(self.held_out_.shape, np.nan)
        is_known = np.isfinite(self.held_out_.reshape(len(out), -1)).all(axis=1)
        out[is_known] = self._flat(self._held_out.intervals.scale.held_out)
        return out


def _shown(value) -> str:
    if isinstance(value, str):
        return escape(value)
    return "" if np.isnan(value) else f"{value:.3g}"


def _warn_of_rare_classes(classes: np.ndarray, counts: np.ndarray, n_folds: int) -> None:
    """Name classes with fewer rows than folds: some folds hold none of them out."""
    rare = np.flatnonzero(counts < n_folds)
    if len(rare):
        labels = classes.tolist()
        shown = [f"{labels[k]!r} has {counts[k]}" for k in rare[:_SHOWN_CLASSES]]
        n_more = len(rare) - len(shown)
        more = f" and {counted(n_more, 'more class')}" if n_more else ""
        warnings.warn(
            f"too few rows of a class for {n_folds} folds: {', '.join(shown)}{more}; score_ and "
            "probabilities are unreliable for it; give more rows or merge it with another class.",
            UserWarning,
            stacklevel=4,
        )


def _is_local(model: Any) -> bool:
    """Return whether a model, or the last step behind its transformers, has neighbours."""
    return hasattr(model[-1] if isinstance(model, Pipeline) else model, "neighbors")


def _neighbor_weights(model: Any, row: Any) -> np.ndarray | None:
    """Return the weights that a local model gives training rows, ``None`` for a global one."""
    if not _is_local(model):
        return None
    if isinstance(model, Pipeline):
        row, model = model[:-1].transform(row), model[-1]
    return model.neighbors(row).toarray()[0]
