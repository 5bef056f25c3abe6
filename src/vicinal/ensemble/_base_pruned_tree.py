"""Growing, pruning and choosing a tree, shared by the classifier and the regressor."""

from numbers import Integral

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import check_cv
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal._base import documented, draw_seeds, parallel_map
from vicinal._base._compat import Interval, StrOptions
from vicinal._base._explanation import ExplainRowMixin, path_section
from vicinal._kernels.ensemble._pruning import (
    choose_penalty,
    collapse_alphas,
    leaf_counts,
    path_losses,
    penalty_grid,
    terminal_ranges,
)
from vicinal.ensemble._learners import fold_count


def pruning_path(tree):
    """Collapse penalty, parent and limit of each node of a fitted scikit-learn tree."""
    nodes = tree.tree_
    left, right = nodes.children_left, nodes.children_right
    share = nodes.weighted_n_node_samples / nodes.weighted_n_node_samples[0]
    alphas = collapse_alphas(left, right, nodes.impurity * share)
    return alphas, *terminal_ranges(left, right, alphas)


def _fold_losses(tree, X, y, weight, train, test, node_values, power, grid):
    """Losses of one fold's held-out rows under each pruned tree: one fit, one walk."""
    tree = clone(tree).fit(X[train], y[train], sample_weight=weight[train])
    alphas, parent, limit = pruning_path(tree)
    return path_losses(
        tree.apply(X[test]),
        parent,
        alphas,
        limit,
        node_values(tree),
        y[test],
        weight[test],
        grid,
        power=power,
    )


@documented
class BasePrunedTree(ExplainRowMixin, BaseEstimator):
    r"""A tree grown large and pruned back to the size that cross-validation chooses.

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
        Folds at once, through joblib; ``None`` is one, unless ``joblib.parallel_config`` says
        otherwise. Results do not depend on it.
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
    \lambda_{k+1}}`. Each fold grows one tree, and its held-out rows climb from their leaves to the
    root: every pruned tree of the fold is judged in one pass, without fitting again. Ties go to the
    smaller tree.

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

    def _choose(self, tree, X, y, weight, node_values, power, *, classifier):
        """Cross-validate the whole path and set the attributes that describe the choice."""
        grown = clone(tree).fit(X, y, sample_weight=weight)
        alphas, _, limit = pruning_path(grown)
        self.alphas_ = penalty_grid(alphas)
        self.n_leaves_ = leaf_counts(alphas, limit, self.alphas_)
        splitter = check_cv(self._folds(y, classifier), y, classifier=classifier)
        if hasattr(splitter, "shuffle") and not splitter.shuffle and isinstance(self.cv, Integral):
            # Files are often sorted by target; whole numbers of folds are drawn, not cut.
            splitter = type(splitter)(
                splitter.n_splits, shuffle=True, random_state=draw_seeds(self.random_state, 1)[0]
            )
        folds = list(splitter.split(X, y))
        if len(folds) < 2 and self.rule == "1se":
            raise ValueError(
                f"cv={self.cv!r} has one fold, and rule='1se' needs the standard error over two or "
                "more; use rule='min', or more folds."
            )
        losses = np.array(
            parallel_map(
                _fold_losses,
                [
                    (tree, X, y, weight, train, test, node_values, power, self.alphas_)
                    for train, test in folds
                ],
                n_jobs=self.n_jobs,
            )
        )  # (n_folds, n_alphas)
        size = np.array([weight[test].sum() for _, test in folds])
        self.cv_error_ = losses.sum(axis=0) / size.sum()
        self.cv_error_se_ = np.full(len(self.alphas_), np.nan)
        if len(folds) > 1:
            mean_losses = losses / size[:, None]
            self.cv_error_se_ = mean_losses.std(axis=0, ddof=1) / np.sqrt(len(folds))
        chosen = choose_penalty(self.cv_error_, self.cv_error_se_, self.rule)
        self.ccp_alpha_ = float(self.alphas_[chosen])

    def _folds(self, y, classifier):
        """Fewer folds for data too small for the number asked for."""
        return fold_count(self.cv, y, classifier) if isinstance(self.cv, Integral) else self.cv

    def _checked(self, X):
        check_is_fitted(self)
        return validate_data(
            self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False
        )

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
        return self.tree_.apply(self._checked(X))

    def _sections(self, X, columns):
        return [path_section(self.tree_, X, columns)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags
