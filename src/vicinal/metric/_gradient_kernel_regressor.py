"""Kernel ridge regression in the metric of its own gradients."""

import numpy as np
from sklearn.base import RegressorMixin, clone
from sklearn.utils.validation import validate_data

from vicinal._base import (
    HeldOut,
    atomic_fit,
    documented,
    fold_entries,
    held_out_by_folds,
    positive_rows,
    saved,
)
from vicinal._conformal import IntervalMixin
from vicinal._kernels.linear._covariance import standard_scale
from vicinal.metric._gradient_kernel import BaseGradientKernel


@saved(target_mean_="o", target_scale_="o", mean_="p", scale_="p", blocks_="* | * *")
@documented
class GradientKernelRegressor(RegressorMixin, IntervalMixin, BaseGradientKernel):
    r"""Kernel ridge regression in coordinates stretched along its own slopes.

    A kernel model spends its flexibility on every column alike, also on those that say nothing.
    Its own gradients know better: their mean outer product tells along which directions the answer
    changes. The rows are mapped by its root, the ridge is fitted again, and so on for a few
    rounds; the scale of the kernel, the penalty, the kind of metric (scaled columns or a full
    matrix) and the round are those of least leave-one-out error, which is exact and costs no more
    than the ridge itself. Strong on smooth targets of a few hundred to a few thousand rows.

    Read more in the :doc:`user guide </guide/embedding>`.

    Attributes
    ----------
    target_mean_, target_scale_ : ndarray of shape (n_outputs,)
        What the targets were standardised by.
    loo_prediction_ : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Answer to every training row of positive weight without that row, scale, penalty and metric
        held. They have seen the row, so errors of it are somewhat too small: a few per cent with a
        diagonal metric, up to a third with a full one.

    See Also
    --------
    GradientKernelClassifier : The same for classes.
    NeuralNeighborsRegressor : A nonlinear map in which neighbours vote.
    vicinal.local.GradientMetric : The metric of the slopes of local models, as a transformer.

    Notes
    -----
    With :math:`z = M^{1/2} x` and rows of weight :math:`w_i`, the model minimises

    .. math:: \sum_i w_i \bigl(y_i - b - f(z_i)\bigr)^2 + \alpha \|f\|^2,

    and the next :math:`M` is the weighted mean of :math:`\nabla f \nabla f^\top` over the rows and
    outputs [1]_, or its diagonal. The leave-one-out residuals are
    :math:`(Py)_i / P_{ii}` with the inverse :math:`P` of the ridge system less its intercept.

    With two rounds or more, some begin at a narrow scale and others at that of least error: a
    wide kernel is close to a polynomial of low degree, and where it does best at first it hides
    columns that act through higher orders alone. The better ones go on. Rounds look at 1,000 rows
    of a larger block; 2,000 then choose scale and penalty anew, from there and from far below, and
    let the metric follow once.

    References
    ----------
    .. [1] A. Radhakrishnan, D. Beaglehole, P. Pandit and M. Belkin, "Mechanism for feature learning
       in neural networks and backpropagation-free machine learning models", Science 383, 2024;
       D. Beaglehole, D. Holzmüller, A. Radhakrishnan and M. Belkin, "xRFM", arXiv:2508.10053, 2025.

    Examples
    --------
    >>> import numpy as np
    >>> from vicinal.metric import GradientKernelRegressor
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(-1, 1, (400, 8))
    >>> y = np.sin(3 * X[:, 0]) + X[:, 1] ** 2
    >>> model = GradientKernelRegressor().fit(X[:200], y[:200])
    >>> print(model.feature_importances_.round(2))
    [0.73 0.27 0.   0.   0.   0.   0.   0.  ]
    >>> round(model.score(X[200:], y[200:]), 2)
    1.0
    """

    def __init__(
        self,
        kernel="gaussian",
        *,
        metric="auto",
        n_rounds=5,
        alphas=None,
        max_block_size=5000,
        random_state=None,
        verbose=0,
    ):
        self.kernel = kernel
        self.metric = metric
        self.n_rounds = n_rounds
        self.alphas = alphas
        self.max_block_size = max_block_size
        self.random_state = random_state
        self.verbose = verbose

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Learn the metric and the ridge.

        Parameters
        ----------
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        """
        X, y = validate_data(
            self, X, y, dtype=[np.float64, np.float32], multi_output=True, y_numeric=True
        )
        weights, X, y = positive_rows(sample_weight, X, y)
        Y = np.require(np.reshape(y, (len(y), -1)), np.float64, ["C", "W"])
        self._is_flat = y.ndim == 1
        left_out = self._fit_rows(self._place_targets(X, Y, weights))
        self.loo_prediction_ = self._in_units(left_out, X.dtype)
        self._keep_answers(X, self.loo_prediction_.reshape(Y.shape), Y, weights)
        return self

    def held_out(self, X, y, *, folds, rows=None, sample_weight=None, groups=None) -> HeldOut:
        """Return answers to rows that neither metric nor ridge had seen.

        The rows are cut into two halves at random; metric, scale and penalty of each half answer
        the other, every row left out of the ridge of all others. That is the work of two fits.
        Groups, weights of zero and more rows than a block holds are answered by models of folds.

        Parameters
        ----------
        X, y
            As in ``fit``.
        folds : sequence of ndarray of int
            Rows of each fold: they tell which rows are answered in which order.
        rows : ndarray of int, default=None
            Rows to answer; all by default.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights.
        groups : array-like of shape (n_samples,), default=None
            Rows that are left out together.

        Returns
        -------
        HeldOut
            One candidate and its answers.
        """
        weights = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight)
        if groups is not None or len(X) > self.max_block_size or not np.all(weights > 0.0):
            return held_out_by_folds(self, X, y, folds, sample_weight=sample_weight, rows=rows)
        model = clone(self)
        Y = np.reshape(np.asarray(y, dtype=np.float64), (len(X), -1))
        answers = model._answer_halves(model._place_targets(X, Y, weights))
        entries = np.concatenate(fold_entries(folds, rows))
        said = answers[entries] * model.target_scale_ + model.target_mean_
        return HeldOut([{}], entries, said[None])

    def _place_targets(self, X, Y, weights):
        """Standardise columns and targets."""
        self.target_mean_, self.target_scale_ = standard_scale(Y, weights)
        return self._place(X, (Y - self.target_mean_) / self.target_scale_, weights)

    def predict(self, X):
        """Predict the target."""
        Z, dtype = self._validated(X)
        return self._in_units(self._answers(Z), dtype)

    def local_coef(self, X):
        """Return the slopes of the answer at each query, blend of blocks held.

        Returns
        -------
        ndarray of shape (n_queries, n_features) or (n_queries, n_outputs, n_features)
            Change of the answer per unit of each column.
        """
        Z, dtype = self._validated(X)
        slopes = self._slopes(Z) / self.scale_ * self.target_scale_[:, None]
        return (slopes[:, 0] if self._is_flat else slopes).astype(dtype, copy=False)

    def _in_units(self, standardized, dtype):
        out = (standardized * self.target_scale_ + self.target_mean_).astype(dtype, copy=False)
        return out[:, 0] if self._is_flat else out

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
