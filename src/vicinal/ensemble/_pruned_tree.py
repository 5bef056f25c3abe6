"""Trees pruned by cross-validation."""

from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone, is_classifier
from sklearn.model_selection import check_cv
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor
from sklearn.utils.validation import check_is_fitted

from vicinal._base import (
    ArgmaxClassifierMixin,
    SparseInputMixin,
    TrainingData,
    atomic_fit,
    class_factors,
    documented,
    parallel_map,
    query_rows,
    random_seeds,
    store_parameters,
    training_data,
)
from vicinal._base._compat import Interval, StrOptions
from vicinal._base._explanation import ExplainRowMixin, path_section
from vicinal._kernels.ensemble import _pruning as kernels
from vicinal.ensemble._learners import shuffled_folds

# Power of the residual in the loss of each criterion; classifiers count errors.
_POWERS = {"squared_error": 2, "absolute_error": 1}


def _fold_losses(tree: Any, data: TrainingData, train, test, grid: np.ndarray) -> np.ndarray:
    """Return the losses of the held-out rows of a fold under each pruned tree."""
    inside, outside = data.take(train), data.take(test)
    tree = clone(tree).fit(inside.X, inside.y, sample_weight=inside.weights)
    values = tree.tree_.value[:, 0]
    # A fold may lack classes.
    node_values = tree.classes_[values.argmax(axis=1)] if is_classifier(tree) else values[:, 0]
    rows = tree.apply(outside.X), outside.y, outside.weights
    power = _POWERS.get(tree.criterion, 0)
    return kernels.path_losses(
        kernels.pruning_path(tree.tree_), node_values, grid, rows, power=power
    )


def _folds(model: Any, data: TrainingData) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return training and held-out rows of each fold."""
    if isinstance(model.cv, Integral):
        return shuffled_folds(model.cv, data, model.random_state)
    splitter = check_cv(model.cv, data.y, classifier=data.classes is not None)
    folds = list(splitter.split(data.X, data.y))
    if len(folds) < 2 and model.rule == "1se":
        raise ValueError(
            f"cv={model.cv!r} has one fold, and rule='1se' needs the standard error over two or "
            "more; use rule='min', or more folds."
        )
    return folds


@documented
class _PrunedTree(SparseInputMixin, ExplainRowMixin, BaseEstimator):
    r"""Decision tree pruned to the size of least cross-validated error.

    Parameters
    ----------
    cv : int, cross-validation generator or iterable, default=10
        Folds; a whole number means that many shuffled (and stratified) folds, fewer where there
        are not enough rows.
    rule : {"1se", "min"}, default="1se"
        The smallest tree within one standard error of the least cross-validated error, or the tree
        of least error.
    min_samples_leaf : int, default=1
        Smallest leaf of the grown tree.
    n_jobs : int, default=None
        Number of folds run in parallel, through joblib; ``None`` means 1 unless in a
        ``joblib.parallel_config`` context. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Folds, and the order in which the tree tries features.

    Attributes
    ----------
    ccp_alpha_ : float
        Chosen penalty per leaf.
    alphas_ : ndarray of shape (n_alphas,)
        Penalties tried, rising.
    n_leaves_ : ndarray of int of shape (n_alphas,)
        Number of leaves of the tree of all rows at each of them.
    cv_error_se_ : ndarray of shape (n_alphas,)
        Its standard error over folds, NaN for one fold.
    feature_importances_ : ndarray of shape (`n_features_in_`,)
        Impurity-based importances of the pruned tree.

    Notes
    -----
    Pruning minimises the penalised loss :math:`R(T) + \lambda |T|` by collapsing, again and again,
    the inner node :math:`t` of least :math:`(R(t) - R(T_t)) / (|T_t| - 1)` [1]_. The path on all
    rows gives penalties :math:`\lambda_k`; the ones tried are :math:`\sqrt{\lambda_k
    \lambda_{k+1}}`. Each fold grows one tree, and its held-out rows are passed from their leaves to
    the root, which evaluates every pruned tree of the fold in one pass. Ties go to the smaller
    tree.

    References
    ----------
    .. [1] Breiman, Friedman, Olshen, Stone, "Classification and Regression Trees", Wadsworth 1984,
       chapters 3 and 11.
    .. [2] Hastie, Tibshirani, Friedman, "The Elements of Statistical Learning", 2nd edition,
       Springer 2009, section 9.2.2. :doi:`10.1007/978-0-387-84858-7`
    """

    _parameter_constraints: dict = {
        "cv": ["cv_object"],
        "rule": [StrOptions({"1se", "min"})],
        "min_samples_leaf": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def _fit_pruned(self, kind: type, data: TrainingData):
        """Grow the tree, cross-validate its pruning path, and fit it at the chosen penalty."""
        tree = kind(
            criterion=self.criterion,
            min_samples_leaf=self.min_samples_leaf,
            random_state=random_seeds(self.random_state, 1)[0],
        )
        grown = clone(tree).fit(data.X, data.y, sample_weight=data.weights)
        path = kernels.pruning_path(grown.tree_)
        grid = kernels.penalty_grid(path.alphas)
        folds = _folds(self, data)
        tasks = [(tree, data, train, test, grid) for train, test in folds]
        losses = np.array(parallel_map(_fold_losses, tasks, n_jobs=self.n_jobs))
        size = np.array([data.weights[test].sum() for _, test in folds])
        self.alphas_ = grid
        self.n_leaves_ = kernels.leaf_counts(path, grid)
        self.cv_error_ = losses.sum(axis=0) / size.sum()
        self.cv_error_se_ = np.full(len(grid), np.nan)
        if len(folds) > 1:
            deviation = (losses / size[:, None]).std(axis=0, ddof=1)
            self.cv_error_se_ = deviation / np.sqrt(len(folds))
        self.ccp_alpha_ = float(
            grid[kernels.choose_penalty(self.cv_error_, self.cv_error_se_, self.rule)]
        )
        tree.set_params(ccp_alpha=self.ccp_alpha_)
        self.tree_ = tree.fit(data.X, data.labels, sample_weight=data.weights)
        self.feature_importances_ = tree.feature_importances_
        return self

    def get_n_leaves(self):
        """Return the number of leaves of the pruned tree.

        Returns
        -------
        n_leaves : int
            Number of leaves.
        """
        check_is_fitted(self)
        return self.tree_.get_n_leaves()

    def apply(self, X):
        """Return the leaf that each query falls in.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Queries.

        Returns
        -------
        leaf : ndarray of shape (n_samples,)
            Node numbers of the pruned tree.
        """
        return self.tree_.apply(query_rows(self, X, accept_sparse="csr"))

    def _sections(self, X, columns):
        return [path_section(self.tree_, X, columns)]


@documented
class PrunedTreeClassifier(ArgmaxClassifierMixin, _PrunedTree):
    """Classification tree pruned to the size of least cross-validated error.

    scikit-learn prunes a tree to a penalty ``ccp_alpha`` that the user must find. This class finds
    it, with one fit per fold.

    Read more in the :doc:`user guide </guide/ensemble>`.

    Parameters
    ----------
    criterion : {"gini", "entropy", "log_loss"}, default="gini"
        Impurity, for growing and for pruning.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes, multiplied into ``sample_weight``.

    Attributes
    ----------
    tree_ : DecisionTreeClassifier
        The pruned tree.
    cv_error_ : ndarray of shape (n_alphas,)
        Cross-validated misclassification rate at each penalty.

    See Also
    --------
    PrunedTreeRegressor : The same for regression.
    sklearn.tree.DecisionTreeClassifier : Trees with a given penalty ``ccp_alpha``.
    vicinal.inspection.SelectionCurveDisplay : Plot of the cross-validated errors.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from vicinal.ensemble import PrunedTreeClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = PrunedTreeClassifier(random_state=0).fit(X, y)
    >>> bool(model.get_n_leaves() < model.n_leaves_[0])
    True
    """

    _parameter_constraints: dict = {
        **_PrunedTree._parameter_constraints,
        "criterion": [StrOptions({"gini", "entropy", "log_loss"})],
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        criterion="gini",
        *,
        cv=10,
        rule="1se",
        min_samples_leaf=1,
        class_weight=None,
        n_jobs=None,
        random_state=None,
    ):
        store_parameters(self, locals())

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Grow, cross-validate and prune.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, also in the errors.
        """
        data = training_data(self, X, y, sample_weight, task="classification", accept_sparse="csr")
        self.classes_ = data.classes
        factors = class_factors(self.class_weight, data.classes, data.y, data.weights)
        data = replace(data, sample_weight=data.weights * factors[data.y])
        return self._fit_pruned(DecisionTreeClassifier, data)

    def predict_proba(self, X):
        """Class frequencies in the leaf of each query."""
        X = query_rows(self, X, accept_sparse="csr")
        return self.tree_.predict_proba(X).astype(X.dtype, copy=False)


@documented
class PrunedTreeRegressor(RegressorMixin, _PrunedTree):
    """Regression tree pruned to the size of least cross-validated error.

    Read more in the :doc:`user guide </guide/ensemble>`.

    Parameters
    ----------
    criterion : {"squared_error", "absolute_error"}, default="squared_error"
        Loss, for growing, for pruning and for choosing.

    Attributes
    ----------
    tree_ : DecisionTreeRegressor
        The pruned tree.
    cv_error_ : ndarray of shape (n_alphas,)
        Cross-validated mean squared (or absolute) error at each penalty.

    See Also
    --------
    PrunedTreeClassifier : The same for classification.
    sklearn.tree.DecisionTreeRegressor : Trees with a given penalty ``ccp_alpha``.
    vicinal.inspection.SelectionCurveDisplay : Plot of the cross-validated errors.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from vicinal.ensemble import PrunedTreeRegressor
    >>> X, y = make_friedman1(n_samples=300, noise=1.0, random_state=0)
    >>> model = PrunedTreeRegressor(random_state=0).fit(X, y)
    >>> bool(model.get_n_leaves() < model.n_leaves_[0])
    True
    """

    _parameter_constraints: dict = {
        **_PrunedTree._parameter_constraints,
        "criterion": [StrOptions(set(_POWERS))],
    }

    def __init__(
        self,
        criterion="squared_error",
        *,
        cv=10,
        rule="1se",
        min_samples_leaf=1,
        n_jobs=None,
        random_state=None,
    ):
        store_parameters(self, locals())

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Grow, cross-validate and prune.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows, also in the errors.
        """
        data = training_data(self, X, y, sample_weight, task="regression", accept_sparse="csr")
        return self._fit_pruned(DecisionTreeRegressor, data)

    def predict(self, X):
        """Predict the mean (or median) of the leaf."""
        X = query_rows(self, X, accept_sparse="csr")
        return self.tree_.predict(X).astype(X.dtype, copy=False)
