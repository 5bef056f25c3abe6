"""Regressors of many subspaces, fused by a regressor of their predictions."""

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.linear_model import Ridge
from sklearn.utils import check_random_state

from vicinal._base import atomic_fit, documented, saved
from vicinal._kernels.subspace._truncated_rbf import n_monomials
from vicinal.subspace._fusion_base import BaseSubspaceFusion, features_of
from vicinal.subspace._truncated_rbf import TruncatedRBFRegressor

_MAX_MONOMIALS = 2000


@saved(score_mean_="k", score_scale_="k")
@documented
class SubspaceFusionRegressor(RegressorMixin, BaseSubspaceFusion):
    """Divide the features into subspaces, predict in each, and fuse the predictions.

    The counterpart of :class:`SubspaceFusionClassifier` for numbers: the fusion learns from
    out-of-fold predictions of one local regressor per subspace.

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
        Learns from the standardised predictions; ``None`` takes :class:`TruncatedRBFRegressor`.
    cv : int, splitter or "in-sample", default=5
        Folds for the predictions that the fusion learns from; ``"in-sample"`` uses none.
    include_full : bool, default=True
        Whether to add one local regressor on all features as they are.
    refit : bool, default=True
        Whether to fit the local regressors again on all rows; otherwise the models of the folds
        are kept and their predictions averaged.
    random_state : int, RandomState instance or None, default=None
        Draws the subspaces, the folds, and seeds for the local regressors.

    Attributes
    ----------
    subspace_names_ : list of str
        A name for every local regressor.
    estimators_ : list
        The local regressors in the same order; a list of lists without ``refit``.
    fusion_estimator_ : regressor
        The fitted fusion.
    score_mean_, score_scale_ : ndarray of shape (n_scores,)
        Mean and deviation of the training predictions.

    See Also
    --------
    SubspaceFusionClassifier : The same for classes, with the mathematics.
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

    _parameter_constraints: dict = {**BaseSubspaceFusion._parameter_constraints}

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
        self.include_full = include_full
        self.refit = refit
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Fit the local regressors and their fusion.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows; features should have comparable scales.
        sample_weight : array-like of shape (n_samples,), default=None
            How often each row counts, for local regressors and fusion.
        """
        X, y, weights = self._validate(X, y, sample_weight, y_numeric=True)
        rng = check_random_state(self.random_state)
        scores = self._fit_locals(X, y, weights, rng)
        self._fit_fusion(scores, y, weights, X.dtype, rng)
        return self

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
        X = self._validate_queries(X)
        return self._all_scores(X)

    def _check_method(self, name):
        super()._check_method(name)
        if name == "discriminant":
            raise ValueError(
                "decomposition 'discriminant' separates classes, and the target is a number; use "
                "'principal' or 'cholesky'."
            )

    def _local_template(self, X):
        if self.estimator is not None:
            return self.estimator
        return Ridge() if self._wants_linear(X) else _truncated(X.shape[1])

    def _fusion_template(self, R, y, weights):
        if self.fusion_estimator is not None:
            return self.fusion_estimator
        return _truncated(R.shape[1])

    def _local_scores(self, view, X):
        decomposition, index, model = view
        predicted = model.predict(features_of(decomposition, index, X))
        return np.asarray(predicted, dtype=np.float64).reshape(X.shape[0], 1)


def _truncated(n_columns):
    return TruncatedRBFRegressor(2 if n_monomials(n_columns, 2) <= _MAX_MONOMIALS else 1)
