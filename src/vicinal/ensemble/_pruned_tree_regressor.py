"""Regression tree pruned by cross-validation."""

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.validation import validate_data

from vicinal._base import atomic_fit, documented, draw_seeds, positive_rows
from vicinal._base._compat import StrOptions
from vicinal.ensemble._base_pruned_tree import BasePrunedTree


def _node_means(tree):
    return tree.tree_.value[:, 0, 0]


@documented
class PrunedTreeRegressor(RegressorMixin, BasePrunedTree):
    """Regression tree, grown large and pruned to the size that cross-validation chooses.

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
    PrunedTreeClassifier : The same for classes.
    sklearn.tree.DecisionTreeRegressor : Trees with a penalty ``ccp_alpha`` set by hand.
    vicinal.inspection.PruningPathDisplay : Picture of the choice.

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
        **BasePrunedTree._parameter_constraints,
        "criterion": [StrOptions({"squared_error", "absolute_error"})],
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
        self.criterion = criterion
        self.cv = cv
        self.rule = rule
        self.min_samples_leaf = min_samples_leaf
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
        X, y = validate_data(
            self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32], y_numeric=True
        )
        weight, X, y = positive_rows(sample_weight, X, y.astype(np.float64))
        tree = DecisionTreeRegressor(
            criterion=self.criterion,
            min_samples_leaf=self.min_samples_leaf,
            random_state=draw_seeds(self.random_state, 1)[0],
        )
        power = 2 if self.criterion == "squared_error" else 1
        self._choose(tree, X, y, weight, _node_means, power, classifier=False)
        self.tree_ = tree.set_params(ccp_alpha=self.ccp_alpha_).fit(X, y, sample_weight=weight)
        self.feature_importances_ = self.tree_.feature_importances_
        return self

    def predict(self, X):
        """Predict the mean (or median) of the leaf."""
        X = self._checked(X)
        return self.tree_.predict(X).astype(X.dtype, copy=False)
