"""Classification tree pruned by cross-validation."""

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.validation import validate_data

from vicinal._base import (
    atomic_fit,
    class_factors,
    documented,
    draw_seeds,
    encode_labels,
    positive_rows,
)
from vicinal._base._compat import StrOptions
from vicinal.ensemble._base_pruned_tree import BasePrunedTree


def _node_classes(tree):
    """Class code that each node predicts; a fold may lack classes."""
    return tree.classes_[tree.tree_.value[:, 0, :].argmax(axis=1)]


@documented
class PrunedTreeClassifier(ClassifierMixin, BasePrunedTree):
    """Classification tree, grown large and pruned to the size that cross-validation chooses.

    scikit-learn prunes a tree to a penalty that the user must find; this class finds it, with one
    fit per fold.

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
    PrunedTreeRegressor : The same for numbers.
    sklearn.tree.DecisionTreeClassifier : Trees with a penalty ``ccp_alpha`` set by hand.
    vicinal.inspection.PruningPathDisplay : Picture of the choice.

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
        **BasePrunedTree._parameter_constraints,
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
        self.criterion = criterion
        self.cv = cv
        self.rule = rule
        self.min_samples_leaf = min_samples_leaf
        self.class_weight = class_weight
        self.n_jobs = n_jobs
        self.random_state = random_state

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Grow, cross-validate and prune.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights, of growth and of errors.
        """
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32])
        weight, X, y = positive_rows(sample_weight, X, y)
        self.classes_, codes = encode_labels(y)
        weight = weight * class_factors(self.class_weight, self.classes_, codes, weight)[codes]
        tree = DecisionTreeClassifier(
            criterion=self.criterion,
            min_samples_leaf=self.min_samples_leaf,
            random_state=draw_seeds(self.random_state, 1)[0],
        )
        self._choose(tree, X, codes, weight, _node_classes, power=0, classifier=True)
        self.tree_ = tree.set_params(ccp_alpha=self.ccp_alpha_).fit(X, y, sample_weight=weight)
        self.feature_importances_ = self.tree_.feature_importances_
        return self

    def predict_proba(self, X):
        """Class frequencies in the leaf of each query."""
        X = self._checked(X)
        return self.tree_.predict_proba(X).astype(X.dtype, copy=False)

    def predict(self, X):
        """Predict the most frequent class of the leaf."""
        probability = self.predict_proba(X)
        return self.classes_.take(probability.argmax(axis=1))
