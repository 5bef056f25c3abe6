"""Models of many subspaces, fused by a model of their scores."""

from numbers import Integral
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, TransformerMixin
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from vicinal._base import (
    TrainingData,
    atomic_fit,
    atomic_fit_blocks,
    check_fold_count,
    documented,
    fit_weighted,
    parallel_map,
    query_rows,
    random_seeds,
    saved,
    seeded_clone,
    store_parameters,
    training_data,
)
from vicinal._base._compat import RUN_CONSTRAINTS, HasMethods, StrOptions
from vicinal._base._explanation import ExplainRowMixin
from vicinal._kernels.subspace._truncated_rbf import n_monomials
from vicinal.subspace import _fusion_fit
from vicinal.subspace._divide_conquer_svc import DivideConquerSVC
from vicinal.subspace._explain import fusion_sections
from vicinal.subspace._feature_space_decomposition import SUBSPACE_CONSTRAINTS
from vicinal.subspace._truncated_rbf import (
    TruncatedRBFClassifier,
    TruncatedRBFFeatures,
    TruncatedRBFRegressor,
)

_MAX_MONOMIALS = 2000
# A logistic regression is used for a class whose share is below this part of an even share.
_RARE = 0.4


@documented
class _SubspaceFusion(ExplainRowMixin, TransformerMixin, BaseEstimator):
    """Fusion of the scores of local models on subspaces.

    Parameters
    ----------
    n_subspaces : int, default=4
        Subspaces per named decomposition.
    subspace_size : int, float or None, default=0.75
        Columns per subspace, for the methods with random subsets; ``None`` partitions instead.
    n_blocks : int, default=2
        Blocks per partition, for the methods that partition; ``n_subspaces / n_blocks``
        partitions are made.
    n_jobs : int, default=None
        Number of subspaces and folds run in parallel, through joblib; ``None`` means 1 unless in a
        ``joblib.parallel_config`` context. Results do not depend on it.
    verbose : int, default=0
        Whether to show progress.

    Attributes
    ----------
    decompositions_ : list of FeatureSpaceDecomposition
        Fitted on all rows.
    views_ : list of tuple
        For every subspace its decomposition (or ``None``), the number of the subspace in it, and
        the local model.
    score_mask_ : ndarray of bool
        Columns of scores that varied in training; the others are not used by the fusion.

    References
    ----------
    .. [1] Q. Guo, B.-W. Chen, F. Jiang, X. Ji and S.-Y. Kung, "Efficient divide-and-conquer
       classification based on feature-space decomposition", arXiv:1501.07584, 2015.
    """

    _parameter_constraints: dict = {
        "decompositions": ["array-like"],
        "estimator": [HasMethods(["fit", "predict"]), None],
        "fusion_estimator": [HasMethods(["fit", "predict"]), None],
        **SUBSPACE_CONSTRAINTS,
        "cv": ["cv_object", StrOptions({"in-sample"})],
        "include_full": ["boolean"],
        **RUN_CONSTRAINTS,
    }

    def _fit_rows(self, data: TrainingData) -> str:
        """Fit local models and fusion to rows in memory; return the method whose scores it uses."""
        _fusion_fit.check_weights_are_taken(self, data)
        rng = check_random_state(self.random_state)
        settings = _fusion_fit.resolve(self, self._local(data.X), data.classes, rng)
        *models, scores = _fusion_fit.fit_locals(data, settings, rng)
        scale = _fusion_fit.score_scale(scores, data.weights)
        R = scale.apply(scores).astype(data.X.dtype)
        codes = None if data.classes is None else np.bincount(data.y, weights=data.weights)
        fusion = self._fusion(R.shape[1], codes, rng)
        self._store(models, scale, fit_weighted(fusion, R, data.y, data.sample_weight))
        return settings.stack_method

    def _fusion(self, n_scores, class_weights, rng):
        """Return the unfitted fusion of ``n_scores`` scores."""
        fusion = self.fusion_estimator
        if fusion is None:
            fusion = self._default_fusion(_truncated_order(n_scores), class_weights)
        return seeded_clone(fusion, random_seeds(rng, 1)[0])

    def _store(self, models: list, scale: _fusion_fit.ScoreScale, fusion: Any) -> None:
        self.decompositions_, self.subspace_names_, self.views_ = models
        self.score_mask_, self.score_mean_, self.score_scale_ = scale
        self.fusion_estimator_ = fusion

    def transform(self, X):
        """Return the standardised scores of the local models, the input of the fusion.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Queries.

        Returns
        -------
        R : ndarray of shape (n_samples, n_scores)
            One column per local model, or one per local model and class, without columns that
            were constant in training.
        """
        return self._fusion_input(X)

    def get_feature_names_out(self, input_features=None):
        """Return the names of the columns of ``transform``.

        Parameters
        ----------
        input_features : None
            Ignored; the columns are scores, not features.

        Returns
        -------
        names : ndarray of str
            The subspace, with the class where there is a column for each.
        """
        check_is_fitted(self)
        width = len(self.score_mask_) // len(self.views_)
        names = [
            name if width == 1 else f"{name}, {label}"
            for name in self.subspace_names_
            for label in (self.classes_ if width > 1 else [None])
        ]
        return np.array(names, dtype=object)[self.score_mask_]

    def _fusion_input(self, X):
        """``transform``, always as an array."""
        X = query_rows(self, X, accept_sparse="csr")
        scale = _fusion_fit.ScoreScale(self.score_mask_, self.score_mean_, self.score_scale_)
        return scale.apply(self._all_scores(X)).astype(X.dtype, copy=False)

    def _all_scores(self, X):
        """Raw scores of all local models, side by side."""
        stacking = getattr(self, "stack_method_", "predict"), getattr(self, "classes_", None)
        tasks = [(view, X, *stacking) for view in self.views_]
        return np.hstack(
            parallel_map(_fusion_fit.local_scores, tasks, n_jobs=self.n_jobs, prefer="threads")
        )

    @property
    def estimators_(self):
        """The fitted local models, one per subspace."""
        return [estimator for _, _, estimator in self.views_]

    def _sections(self, X, columns):
        return fusion_sections(self, X)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = (
            self.estimator is None or get_tags(self.estimator).input_tags.sparse
        )
        return tags


def _wants_linear(X):
    return sp.issparse(X) or X.shape[1] > 500


def _truncated_order(n_columns):
    return 2 if n_monomials(n_columns, 2) <= _MAX_MONOMIALS else 1


def _fusion_can(method):
    """Return a function that checks whether the fusion estimator has a method."""

    def check(self):
        model = getattr(self, "fusion_estimator_", None) or self.fusion_estimator
        return model is None or hasattr(model, method)

    return check


@saved(classes_="c labels", score_mean_="k", score_scale_="k")
@documented
class SubspaceFusionClassifier(ClassifierMixin, _SubspaceFusion):
    """Fusion of classifiers on subspaces of the features.

    Each decomposition of the feature space gives several subspaces. A local classifier is fitted on
    every subspace, and a fusion classifier is fitted to their scores [1]_. These scores are
    held-out scores: local classifiers are overconfident on their training rows, and a fusion of
    in-sample scores, as published, prefers the classifiers that overfit most.

    Read more in the :doc:`user guide </guide/subspace>`.

    Parameters
    ----------
    decompositions : list, default=("random", "principal", "discriminant", "cholesky")
        Methods of :class:`FeatureSpaceDecomposition`, or instances for full control.
    estimator : classifier, default=None
        The local classifier. ``None`` takes a linear SVM for sparse input or more than 500
        columns, else :class:`DivideConquerSVC`.
    fusion_estimator : classifier, default=None
        Classifier of the standardised scores. ``None`` takes :class:`TruncatedRBFClassifier` of
        order 2 (order 1 if that gives more than 2000 monomials), or a logistic regression of
        :class:`TruncatedRBFFeatures` if the rarest class has less than 0.4 of an even share (20 %
        of two classes).
    cv : int, splitter or "in-sample", default=5
        Cross-validation of the scores that the fusion is fitted to. With few folds these differ
        from the scores of the refitted models. ``"in-sample"`` is the published version, without
        folds.
    include_full : bool, default=True
        Whether to add one local classifier on all features as they are.
    random_state : int, RandomState instance or None, default=None
        Seed of the subspaces, the folds, and the local classifiers.

    Attributes
    ----------
    subspace_names_ : list of str
        A name for every local classifier.
    estimators_ : list
        The local classifiers in the same order.
    stack_method_ : str
        The method of the local classifiers that is used: ``decision_function``, else
        ``predict_proba``, else ``predict`` with one column per class.
    fusion_estimator_ : classifier
        The fitted fusion. Its classes are codes, indices into ``classes_``.
    score_mean_, score_scale_ : ndarray of shape (n_scores,)
        Mean and deviation of the training scores.

    See Also
    --------
    SubspaceFusionRegressor : The same for regression.
    FeatureSpaceDecomposition : How the features are divided.
    sklearn.ensemble.StackingClassifier : Fuses different classifiers of the same features.

    Notes
    -----
    With :math:`f_i` the local classifier of subspace :math:`i` and :math:`W_i` its rows of the
    transform, the fusion is fitted to the held-out scores :math:`R_{ni} = f_i(W_i x_n)`, each
    column standardised. Decompositions that use :math:`y` (``"discriminant"``) are learned in each
    fold; the others are learned once. With more than two classes there are :math:`L` columns per
    local classifier; a class that is not in a fold gets the lowest score there.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import train_test_split
    >>> from vicinal.subspace import SubspaceFusionClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X / 16.0, y % 2, random_state=0)
    >>> model = SubspaceFusionClassifier(["cholesky"], include_full=False, random_state=0)
    >>> model.fit(X_train, y_train).score(X_test, y_test)
    0.98...
    >>> model.subspace_names_
    ['cholesky 0', 'cholesky 1', 'cholesky 2', 'cholesky 3']
    """

    def __init__(
        self,
        decompositions=("random", "principal", "discriminant", "cholesky"),
        estimator=None,
        fusion_estimator=None,
        *,
        n_subspaces=4,
        subspace_size=0.75,
        n_blocks=2,
        cv=5,
        include_full=True,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        store_parameters(self, locals())

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Fit the local classifiers and their fusion.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows; features should have comparable scales.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, in local classifiers and fusion.
        """
        data = training_data(self, X, y, sample_weight, task="classification", accept_sparse="csr")
        if isinstance(self.cv, Integral):
            check_fold_count(int(self.cv), np.bincount(data.y))
        self.classes_, self.stack_method_ = data.classes, self._fit_rows(data)
        return self

    @atomic_fit_blocks
    def fit_blocks(self, blocks):
        """Fit to a table in blocks of rows.

        Estimators with ``fit_blocks`` are fitted by blocks; any other local model is one task,
        which gathers the columns of its subspace. ``cv`` must be a number of folds.
        """
        self._reference = None
        blocks, found = _fusion_fit.encoded_blocks(self.cv, blocks)
        rng = check_random_state(self.random_state)
        local = self._local(np.empty((0, blocks.n_features)))
        settings = _fusion_fit.resolve(self, local, found.classes, rng)
        self.classes_, self.stack_method_ = found.classes, settings.stack_method
        *models, scores = _fusion_fit.fit_locals_blocks(blocks, settings, rng)
        scale, R = _fusion_fit.standardised_blocks(scores)
        fusion = self._fusion(R.n_features, found.class_weights, rng)
        self._store(models, scale, _fusion_fit.fit_fusion_blocks(fusion, R))

    def _local(self, X):
        """Return the unfitted local classifier."""
        if self.estimator is not None:
            return self.estimator
        return LinearSVC() if _wants_linear(X) else DivideConquerSVC()

    def _default_fusion(self, order, class_weights):
        if class_weights.min() >= _RARE * class_weights.mean():
            return TruncatedRBFClassifier(order)
        # With the penalty of the classifier.
        logistic = LogisticRegression(C=100.0, solver="newton-cholesky")
        return make_pipeline(TruncatedRBFFeatures(order), logistic)

    @available_if(_fusion_can("decision_function"))
    def decision_function(self, X):
        """Return the scores of the fusion."""
        R = self._fusion_input(X)
        return self.fusion_estimator_.decision_function(R)

    @available_if(_fusion_can("predict_proba"))
    def predict_proba(self, X):
        """Return the probabilities of the classes."""
        R = self._fusion_input(X)
        return self.fusion_estimator_.predict_proba(R)

    def predict(self, X):
        """Return the class that the fusion chooses."""
        R = self._fusion_input(X)
        if hasattr(self.fusion_estimator_, "predict_proba"):
            return self.classes_[self.fusion_estimator_.predict_proba(R).argmax(axis=1)]
        return self.classes_[self.fusion_estimator_.predict(R)]

    def predict_subspaces(self, X):
        """Return the vote of every local classifier.

        Returns
        -------
        votes : ndarray of shape (n_samples, n_local_models)
            The class each local classifier would choose by itself, in the order of
            ``subspace_names_``.
        """
        X = query_rows(self, X, accept_sparse="csr")
        scores = self._all_scores(X)
        width = scores.shape[1] // len(self.views_)
        if width == 1:
            middle = 0.5 if self.stack_method_ == "predict_proba" else 0.0
            return self.classes_[(scores > middle).astype(np.intp)]
        return self.classes_[scores.reshape(len(scores), -1, width).argmax(axis=2)]


@saved(score_mean_="k", score_scale_="k")
@documented
class SubspaceFusionRegressor(RegressorMixin, _SubspaceFusion):
    """Fusion of regressors on subspaces of the features.

    The counterpart of :class:`SubspaceFusionClassifier`: the fusion is fitted to held-out
    predictions of one local regressor per subspace.

    Read more in the :doc:`user guide </guide/subspace>`.

    Parameters
    ----------
    decompositions : list, default=("random", "principal", "cholesky")
        Methods of :class:`FeatureSpaceDecomposition` other than ``"discriminant"``, or instances
        for full control.
    estimator : regressor, default=None
        The local regressor. ``None`` takes a ridge for sparse input or more than 500 columns, else
        :class:`TruncatedRBFRegressor` of order 2 (1 above 60 columns).
    fusion_estimator : regressor, default=None
        Regressor of the standardised predictions; ``None`` takes :class:`TruncatedRBFRegressor`.
    cv : int, splitter or "in-sample", default=5
        Cross-validation of the predictions that the fusion is fitted to; ``"in-sample"`` uses none.
    include_full : bool, default=True
        Whether to add one local regressor on all features as they are.
    random_state : int, RandomState instance or None, default=None
        Seed of the subspaces, the folds, and the local regressors.

    Attributes
    ----------
    subspace_names_ : list of str
        A name for every local regressor.
    estimators_ : list
        The local regressors in the same order.
    fusion_estimator_ : regressor
        The fitted fusion.
    score_mean_, score_scale_ : ndarray of shape (n_scores,)
        Mean and deviation of the training predictions.

    See Also
    --------
    SubspaceFusionClassifier : The same for classification, with formulas.
    sklearn.ensemble.StackingRegressor : Fuses different regressors of the same features.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from sklearn.linear_model import Ridge
    >>> from vicinal.subspace import SubspaceFusionRegressor
    >>> X, y = make_friedman1(600, noise=0.5, random_state=0)
    >>> round(Ridge().fit(X[:400], y[:400]).score(X[400:], y[400:]), 2)
    0.75
    >>> model = SubspaceFusionRegressor(random_state=0).fit(X[:400], y[:400])
    >>> round(model.score(X[400:], y[400:]), 2)
    0.94
    """

    def __init__(
        self,
        decompositions=("random", "principal", "cholesky"),
        estimator=None,
        fusion_estimator=None,
        *,
        n_subspaces=4,
        subspace_size=0.75,
        n_blocks=2,
        cv=5,
        include_full=True,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        store_parameters(self, locals())

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Fit the local regressors and their fusion.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows; features should have comparable scales.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, in local regressors and fusion.
        """
        data = training_data(self, X, y, sample_weight, task="regression", accept_sparse="csr")
        self._fit_rows(data)
        return self

    def _local(self, X):
        """Return the unfitted local regressor."""
        if self.estimator is not None:
            return self.estimator
        return Ridge() if _wants_linear(X) else TruncatedRBFRegressor(_truncated_order(X.shape[1]))

    def _default_fusion(self, order, class_weights):
        return TruncatedRBFRegressor(order)

    def predict(self, X):
        """Predict the target."""
        R = self._fusion_input(X)
        return self.fusion_estimator_.predict(R)

    def predict_subspaces(self, X):
        """Return the prediction of every local regressor.

        Returns
        -------
        predictions : ndarray of shape (n_samples, n_local_models)
            In the order of ``subspace_names_``.
        """
        return self._all_scores(query_rows(self, X, accept_sparse="csr"))
