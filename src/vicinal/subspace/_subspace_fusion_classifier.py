"""Classifiers of many subspaces, fused by a classifier of their scores."""

from numbers import Integral

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.svm import LinearSVC
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if

from vicinal._base import (
    atomic_fit,
    atomic_fit_blocks,
    check_fold_count,
    documented,
    encode_labels,
    saved,
)
from vicinal._base._compat import StrOptions
from vicinal._kernels.subspace._truncated_rbf import n_monomials
from vicinal.subspace._divide_conquer_svc import DivideConquerSVC
from vicinal.subspace._fusion_base import BaseSubspaceFusion, features_of
from vicinal.subspace._fusion_blocks import fit_fusion
from vicinal.subspace._truncated_rbf import TruncatedRBFClassifier

_MAX_FUSION_MONOMIALS = 2000
# Least squares neglects a class whose share is below this part of an even share.
_RARE = 0.4


def _fusion_can(method):
    """Tell whether the fusion estimator, given or default, has a method."""

    def check(self):
        model = getattr(self, "fusion_estimator_", None) or self.fusion_estimator
        return model is None or hasattr(model, method)

    return check


@saved(classes_="c labels", score_mean_="k", score_scale_="k")
@documented
class SubspaceFusionClassifier(ClassifierMixin, BaseSubspaceFusion):
    """Divide the features into subspaces, classify in each, and fuse the scores.

    Each decomposition of the feature space gives several subspaces; a local classifier is fitted
    on every one, and a fusion classifier learns from their scores [1]_. The scores it learns from
    are out of fold: local classifiers are too sure of the rows they were fitted on, and a fusion
    of in-sample scores, the published recipe, trusts the ones that overfit most.

    Read more in the :doc:`user guide </guide/subspace>`.

    Parameters
    ----------
    decompositions : list, default=("random", "principal", "discriminant", "cholesky")
        Methods of :class:`FeatureSpaceDecomposition`, or instances for full control.
    estimator : classifier, default=None
        The local classifier. ``None`` takes a linear SVM for sparse input or more than 500
        columns, else :class:`DivideConquerSVC`.
    fusion_estimator : classifier, default=None
        Learns from the standardised scores. ``None`` takes :class:`TruncatedRBFClassifier` of
        order 2 (order 1 when that would make more than 2000 monomials), with squared loss, or with
        logistic loss if the rarest class has less than 0.4 of an even share (20 % of two
        classes).
    cv : int, splitter or "in-sample", default=5
        Folds for the scores that the fusion learns from. Few folds misstate the scores of the
        refitted models. ``"in-sample"`` is the published recipe, without folds.
    stack_method : {"auto", "decision_function", "predict_proba", "predict"}, default="auto"
        What a local classifier says; ``"auto"`` takes the first it has. ``"predict"`` gives
        labels, one column per class.
    include_full : bool, default=True
        Whether to add one local classifier on all features as they are.
    refit : bool, default=True
        Whether to fit the local classifiers again on all rows; otherwise the models of the folds
        are kept and their scores averaged.
    random_state : int, RandomState instance or None, default=None
        Draws the subspaces, the folds, and seeds for the local classifiers.

    Attributes
    ----------
    subspace_names_ : list of str
        A name for every local classifier.
    estimators_ : list
        The local classifiers in the same order; a list of lists without ``refit``.
    stack_method_ : str
        The method of the local classifiers whose answers are fused.
    fusion_estimator_ : classifier
        The fitted fusion. Its classes are codes, positions in ``classes_``.
    score_mean_, score_scale_ : ndarray of shape (n_scores,)
        Mean and deviation of the training scores.

    See Also
    --------
    SubspaceFusionRegressor : The same for numbers.
    FeatureSpaceDecomposition : How the features are divided.
    sklearn.ensemble.StackingClassifier : Fuses different classifiers of the same features.

    Notes
    -----
    With :math:`f_i` the local classifier of subspace :math:`i` and :math:`W_i` its rows of the
    transform, the fusion sees :math:`R_{ni} = f_i(W_i x_n)`, computed for row :math:`n` by a model
    that did not see it, each column less its mean and over its deviation. Decompositions that
    look at :math:`y` (``"discriminant"``) are learned anew inside each fold; the others are
    learned once. With more than two classes there are :math:`L` columns per local classifier; a
    class that a fold lacks gets the lowest score there.

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

    _parameter_constraints: dict = {
        **BaseSubspaceFusion._parameter_constraints,
        "stack_method": [StrOptions({"auto", "decision_function", "predict_proba", "predict"})],
    }

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
        stack_method="auto",
        include_full=True,
        refit=True,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.decompositions = decompositions
        self.estimator = estimator
        self.fusion_estimator = fusion_estimator
        self.n_subspaces = n_subspaces
        self.subspace_size = subspace_size
        self.n_blocks = n_blocks
        self.cv = cv
        self.stack_method = stack_method
        self.include_full = include_full
        self.refit = refit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Fit the local classifiers and their fusion.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows; features should have comparable scales.
        sample_weight : array-like of shape (n_samples,), default=None
            How often each row counts, for local classifiers and fusion.
        """
        X, y, weights = self._validate(X, y, sample_weight)
        self.classes_, codes = encode_labels(y)
        if isinstance(self.cv, Integral):
            check_fold_count(int(self.cv), np.bincount(codes))
        rng = check_random_state(self.random_state)
        scores = self._fit_locals(X, codes, weights, rng)
        self._fit_fusion(scores, codes, weights, X.dtype, rng)
        return self

    @atomic_fit_blocks
    def fit_blocks(self, blocks):
        """Fit to a table in blocks of rows.

        Parts that can are fitted by blocks; any other local model is one task, which gathers the
        columns of its subspace. ``cv`` must be a number of folds, which rows draw themselves.
        """
        fit_fusion(self, blocks)

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
        X = self._validate_queries(X)
        scores = self._all_scores(X)
        width = scores.shape[1] // len(self.views_)
        if width == 1:
            middle = 0.5 if self.stack_method_ == "predict_proba" else 0.0
            return self.classes_[(scores > middle).astype(np.intp)]
        return self.classes_[scores.reshape(len(scores), -1, width).argmax(axis=2)]

    # --- parts ------------------------------------------------------------------------------------

    def _local_template(self, X):
        template = self.estimator
        if template is None:
            template = LinearSVC() if self._wants_linear(X) else DivideConquerSVC()
        self.stack_method_ = self.stack_method
        if self.stack_method == "auto":
            for name in ("decision_function", "predict_proba", "predict"):
                if hasattr(template, name):
                    self.stack_method_ = name
                    break
        elif not hasattr(template, self.stack_method):
            raise ValueError(
                f"stack_method={self.stack_method!r}, but {template!r} has no such method; use "
                "stack_method='auto'."
            )
        return template

    def _fusion_template(self, R, codes, weights):
        if self.fusion_estimator is not None:
            return self.fusion_estimator
        order = 2 if n_monomials(R.shape[1], 2) <= _MAX_FUSION_MONOMIALS else 1
        shares = np.bincount(codes, weights=weights) / weights.sum()
        is_rare = shares.min() < _RARE / len(shares)
        return TruncatedRBFClassifier(order, loss="log_loss" if is_rare else "squared_error")

    def _local_scores(self, view, X):
        """Scores of one local classifier: one column for two classes, else one per class.

        A class that it has not seen has probability 0, or the least score of the row.
        """
        decomposition, index, model = view
        features = features_of(decomposition, index, X)
        n_classes, present = len(self.classes_), model.classes_
        if self.stack_method_ == "predict":
            scores = 2.0 * (model.predict(features)[:, None] == np.arange(n_classes)) - 1.0
            return scores[:, 1:] if n_classes == 2 else scores
        scores = np.asarray(getattr(model, self.stack_method_)(features), dtype=np.float64)
        if n_classes == 2:
            if len(present) == 2:
                return scores[:, 1:] if scores.ndim == 2 else scores[:, None]
            least = 0.0 if self.stack_method_ == "predict_proba" else -1.0
            return np.full((len(scores), 1), 1.0 if present[0] == 1 else least)
        if scores.ndim == 1:
            scores = np.column_stack([-scores, scores])
        if scores.shape[1] != len(present):
            raise ValueError(
                f"{model!r} gives {scores.shape[1]} scores for {len(present)} classes; one per "
                "class is needed (decision_function_shape='ovr')."
            )
        aligned = np.zeros((len(scores), n_classes))
        if self.stack_method_ != "predict_proba":
            aligned += scores.min(axis=1, keepdims=True)
        aligned[:, present] = scores
        return aligned
