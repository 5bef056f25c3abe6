"""Kernel ridge regression and classification with a metric learned from its gradients."""

from numbers import Integral

import numpy as np
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from vicinal import _base
from vicinal._base._compat import Interval, StrOptions
from vicinal._base._explanation import ExplainRowMixin
from vicinal._base._tables import spread_rows
from vicinal._conformal import MAX_HELD_OUT, HeldOutRows, IntervalMixin, LabelSetMixin
from vicinal._kernels.calibration._probabilities import fit_slope, temperature_proba
from vicinal._kernels.linear._covariance import standard_scale
from vicinal.metric._explain import slope_sections
from vicinal.metric._gradient_fit import GradientRows, Tree, fit_tree, learn_start, predict_fold

# Of more rows than this share of a block, scale, penalty and metric are selected on few of them.
_FOLD_SHARE = 0.4
_IN_ENSEMBLE = (
    "This %(name)s is part of an ensemble, which has the held-out rows; call the method of the "
    "ensemble, or fit the model alone."
)


class _GradientKernel(ExplainRowMixin, BaseEstimator):
    r"""Kernel ridge with a metric learned from its gradients, in blocks of a tree.

    Parameters
    ----------
    kernel : {"gaussian", "laplace"}, default="gaussian"
        :math:`e^{-d^2/2h^2}` or :math:`e^{-d/h}` of the Euclidean distance in the metric.
    metric : {"auto", "diagonal", "full"}, default="auto"
        A scale for each of the d columns, or a full matrix. ``"auto"`` tries both, and uses the
        full one if it lowers the leave-one-out error of n rows by more than the factor
        :math:`e^{d(d-1)/n}` (Akaike's criterion for the additional parameters).
    n_rounds : int, default=5
        Number of times the metric is learned from the gradients; 0 is kernel ridge regression.
    max_block_size : int, default=5000
        Largest number of rows of one model. More rows are split at medians along the direction in
        which the prediction changes most. A tenth of the rows on each side of a split belong to
        both blocks, whose predictions are averaged there. Scale and penalty are learned from a
        share of as many rows: a fifth (a tenth with classes), and at least 350.
    random_state : int, RandomState instance or None, default=None
        Seed of the rows of a larger block from which the metric (500 rows; from 350 if diagonal)
        and scale and penalty are learned.

    Attributes
    ----------
    mean_, scale_ : ndarray of shape (n_features,)
        Mean and scale of the columns; the scale of constant columns is 1.
    outer_product_ : ndarray of shape (n_features, n_features)
        Mean outer product of the gradients in the scaled columns, over blocks.
    feature_importances_ : ndarray of shape (n_features,)
        Its diagonal, scaled to sum one.
    blocks_ : list of dict
        Per block its ``rows``, map ``components`` (of shape (n_features,) if diagonal),
        ``bandwidth``, ``alpha``, ``dual_coef``, ``intercept`` and ``gradients`` G, where
        :math:`G^\top G` is the mean outer product.
    splits_ : list of dict
        Splits of the tree above the blocks: ``direction``, ``threshold``, ``width``, ``children``.
    """

    _parameter_constraints: dict = {
        "kernel": [StrOptions({"gaussian", "laplace"})],
        "metric": [StrOptions({"auto", "diagonal", "full"})],
        "n_rounds": [Interval(Integral, 0, None, closed="left")],
        "max_block_size": [Interval(Integral, 10, None, closed="left")],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        kernel="gaussian",
        *,
        metric="auto",
        n_rounds=5,
        max_block_size=5000,
        random_state=None,
        verbose=0,
    ):
        _base.store_parameters(self, locals())

    _fits_each_fold = True
    _last_share = 0.2  # of a block, by which scale and penalty are chosen

    @property
    def _last_rows(self) -> int:
        return max(350, round(self._last_share * self.max_block_size))

    def _standardised(self, X, Y, weights, factors=1.0) -> GradientRows:
        """Store mean and scale of the columns; Y has one column per output."""
        X = np.asarray(X, dtype=np.float64)
        self.mean_, self.scale_ = standard_scale(X, weights)
        Z = (X - self.mean_) / self.scale_
        return GradientRows(Z, Y, weights * factors, np.maximum(weights, 1.0))

    def _fit_tree(self, rows: GradientRows, start: dict | None = None) -> np.ndarray:
        """Store the tree of blocks; return the outputs of every row left out."""
        tree = fit_tree(rows, self, check_random_state(self.random_state), start)
        _, self._root, self.splits_, self.blocks_ = tree
        importances = sum(len(b["rows"]) * (b["gradients"] ** 2).sum(axis=0) for b in tree.blocks)
        self.feature_importances_ = importances / max(importances.sum(), np.finfo(float).tiny)
        return tree.left_out(rows.Z)

    def held_out(self, X, y, *, folds, rows=None, sample_weight=None, groups=None) -> _base.HeldOut:
        """Return predictions of rows that the ridge was not fitted to.

        Scale and penalty, and the metric from which every fold starts, are learned once, outside
        the first fold; so rows of the other folds take part in these. The metric then follows the
        rows that a fold learns from, and those of the final model. Of more rows than 40 % of
        ``max_block_size``, all are selected once and every row is left out of the ridge of all
        others. Groups, weights of zero
        and more rows than a block holds are predicted by independent models of folds.

        Parameters
        ----------
        X, y
            As in ``fit``.
        folds : sequence of ndarray of int
            Rows of each fold.
        rows : ndarray of int, default=None
            Rows to predict; all by default.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights.
        groups : array-like of shape (n_samples,), default=None
            Rows that are left out together.

        Returns
        -------
        HeldOut
            One candidate and its predictions, or probabilities.
        """
        weights = np.ones(len(X)) if sample_weight is None else np.asarray(sample_weight)
        if groups is not None or len(X) > self.max_block_size or not np.all(weights > 0.0):
            method = "predict_proba" if hasattr(self, "predict_proba") else "predict"
            options = {"sample_weight": sample_weight, "rows": rows, "method": method}
            return _base.held_out_by_folds(self, X, y, folds, **options)
        table = X, y, sample_weight
        if len(X) > _FOLD_SHARE * self.max_block_size:
            return self._left_out(table, np.concatenate(_base.fold_entries(folds, rows)))
        model = clone(self)
        data, targets = model._standardised_rows(X, y, weights)
        rng = check_random_state(model.random_state)
        start = learn_start(data[_base.rows_outside(folds[0], len(X))], model, rng)

        def predict(folds) -> _base.HeldOut:
            entries = _base.fold_entries(folds, rows)
            parts = [
                predict_fold(data[_base.rows_outside(fold, len(X))], data.Z[own], model, rng, start)
                for fold, own in zip(folds, entries, strict=True)
            ]
            outputs, known = np.concatenate(parts), np.concatenate(entries)
            predictions = model._from_outputs(outputs, targets[known], data.weights[known])
            return _base.HeldOut([{}], known, predictions[None], fitted, predict)

        def fitted(c: int, *other):
            return clone(self)._with_fit(start, *(other or table))

        return predict(folds)

    def _left_out(self, table: tuple, rows: np.ndarray) -> _base.HeldOut:
        """Return the leave-one-out predictions of some rows, and the model they come from."""
        model = clone(self)._with_fit(None, *table)
        found = model.loo_proba_ if hasattr(self, "predict_proba") else model.loo_prediction_
        predictions = found.reshape(len(found), -1)[rows]

        def fitted(c: int, *other):
            return clone(self)._with_fit(None, *other) if other else model

        return _base.HeldOut([{}], rows, predictions[None], fitted)

    def _with_fit(self, start: dict | None, X, y, sample_weight):
        """Return the model fitted from a start; an ensemble has held-out rows of its own."""
        self._fit_from(start, X, y, sample_weight)
        return self

    def _store_held_out(self, data: _base.TrainingData, predictions, targets) -> None:
        """Store some rows with their leave-one-out predictions."""
        rows = spread_rows(len(data), MAX_HELD_OUT)
        Z = (data.X[rows] - self.mean_) / self.scale_
        self._held_out_cache = HeldOutRows(Z, predictions[rows], targets[rows], data.weights[rows])

    @property
    def outer_product_(self):
        """Mean outer product of the gradients in the scaled columns, over blocks."""
        check_is_fitted(self)
        product = sum(len(b["rows"]) * b["gradients"].T @ b["gradients"] for b in self.blocks_)
        return product / sum(len(b["rows"]) for b in self.blocks_)

    @property
    def _tree(self) -> Tree:
        return Tree(self.kernel, self._root, self.splits_, self.blocks_)

    def _queries(self, X) -> tuple[np.ndarray, np.dtype]:
        X = _base.query_rows(self, X)
        return (np.asarray(X, dtype=np.float64) - self.mean_) / self.scale_, X.dtype

    def _held_out_rows(self) -> HeldOutRows:
        check_is_fitted(self, "_held_out_cache", msg=_IN_ENSEMBLE)
        return self._held_out_cache

    def _row_numbers(self, X):
        return self._queries(X)[0]

    _sections = slope_sections


@_base.saved(target_mean_="o", target_scale_="o", mean_="p", scale_="p", blocks_="* | * *")
@_base.documented
class GradientKernelRegressor(MultiOutputMixin, RegressorMixin, IntervalMixin, _GradientKernel):
    r"""Kernel ridge regression with a metric learned from its own gradients.

    A kernel model treats all columns alike, also irrelevant ones. The mean outer product of its
    gradients shows along which directions the prediction changes. The rows are mapped by its root,
    the ridge is fitted again, and so on for ``n_rounds`` rounds. The scale of the kernel, the
    penalty, the metric (diagonal or full) and the round are those of least leave-one-out error,
    which is exact and costs no more than the ridge itself. Use it for smooth targets of a few
    hundred to a few thousand rows.

    Read more in the :doc:`user guide </guide/embedding>`.

    Attributes
    ----------
    target_mean_, target_scale_ : ndarray of shape (n_outputs,)
        Mean and scale of the targets.
    loo_prediction_ : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Leave-one-out prediction for every training row of positive weight. Scale, penalty and
        metric were learned with the row, so its errors are too small: by a few per cent with a
        diagonal metric, by up to a third with a full one.

    See Also
    --------
    GradientKernelClassifier : The same for classification.
    NeuralNeighborsRegressor : A nonlinear map in which neighbours vote.
    vicinal.local.GradientMetric : The metric of local models' gradients, as a transformer.

    Notes
    -----
    With :math:`z = M^{1/2} x` and rows of weight :math:`w_i`, the model minimises

    .. math:: \sum_i w_i \bigl(y_i - b - f(z_i)\bigr)^2 + \alpha \|f\|^2,

    and the next :math:`M` is the weighted mean of :math:`\nabla f \nabla f^\top` over the rows and
    outputs [1]_, or its diagonal. The leave-one-out residuals are
    :math:`(Py)_i / P_{ii}` with the inverse :math:`P` of the ridge system less its intercept.

    With two rounds or more, the rounds start both at a narrow scale and at the scale of least
    error, and the better start continues: a wide kernel is close to a polynomial of low degree and
    cannot see columns of higher-order effect. The rounds use 500 rows of a larger block (350 if the
    metric is diagonal, with at most 17 columns). Then scale and penalty are selected again on more
    rows, and the metric is learned again from these gradients.

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

    @_base.atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Learn the metric and the ridge.

        Parameters
        ----------
        y : array-like of shape (n_samples,) or (n_samples, n_outputs)
            Targets.
        """
        data, targets = self._fit_from(None, X, y, sample_weight)
        self._store_held_out(data, self.loo_prediction_.reshape(targets.shape), targets)
        return self

    def _fit_from(self, start: dict | None, X, y, sample_weight) -> tuple:
        """Fit from a metric, scale and penalty learned before; return the rows and targets."""
        data = _base.training_data(self, X, y, sample_weight, task="regression", multi_output=True)
        self._is_flat = data.y.ndim == 1
        rows, Y = self._standardised_rows(data.X, data.y, data.weights)
        left_out = self._fit_tree(rows, start)
        self.loo_prediction_ = self._in_units(left_out, data.X.dtype)
        return data, Y

    def _standardised_rows(self, X, y, weights) -> tuple[GradientRows, np.ndarray]:
        """Store scales; return standardised rows, and the targets as columns."""
        Y = np.require(np.reshape(y, (len(X), -1)), np.float64, ["C", "W"])
        self.target_mean_, self.target_scale_ = standard_scale(Y, weights)
        return self._standardised(X, (Y - self.target_mean_) / self.target_scale_, weights), Y

    def _from_outputs(self, outputs, Y, weights):
        return outputs * self.target_scale_ + self.target_mean_

    def predict(self, X):
        """Predict the target."""
        Z, dtype = self._queries(X)
        return self._in_units(self._tree.predict(Z), dtype)

    def local_coef(self, X):
        """Return the slopes of the prediction at each query, for fixed weights of the blocks.

        Returns
        -------
        ndarray of shape (n_queries, n_features) or (n_queries, n_outputs, n_features)
            Change of the prediction per unit of each column.
        """
        Z, dtype = self._queries(X)
        slopes = self._tree.slopes(Z) / self.scale_ * self.target_scale_[:, None]
        return (slopes[:, 0] if self._is_flat else slopes).astype(dtype, copy=False)

    def _in_units(self, standardized, dtype):
        out = (standardized * self.target_scale_ + self.target_mean_).astype(dtype, copy=False)
        return out[:, 0] if self._is_flat else out


@_base.saved(classes_="c labels", mean_="p", scale_="p", blocks_="* | * *")
@_base.documented
class GradientKernelClassifier(_base.ArgmaxClassifierMixin, LabelSetMixin, _GradientKernel):
    r"""Kernel ridge classification with a metric learned from its own gradients.

    The ridge of :class:`GradientKernelRegressor` on class indicators. Probabilities are the softmax
    of its scores, with the temperature of least log loss on the leave-one-out scores.

    Read more in the :doc:`user guide </guide/embedding>`.

    Parameters
    ----------
    class_weight : dict, "balanced" or None, default=None
        Factors on the weights of the classes.

    Attributes
    ----------
    temperature_ : float
        Divisor of the scores in the softmax.
    loo_proba_ : ndarray of shape (n_samples, n_classes)
        Leave-one-out probabilities of every training row of positive weight. Scale, penalty and
        metric were learned with the row, so its errors are somewhat too small.

    See Also
    --------
    GradientKernelRegressor : The same for regression, with the mathematics.
    NeuralNeighborsClassifier : A nonlinear map in which neighbours vote.

    Examples
    --------
    >>> import numpy as np
    >>> from vicinal.metric import GradientKernelClassifier
    >>> rng = np.random.RandomState(0)
    >>> X = rng.uniform(-1, 1, (600, 6))
    >>> y = np.where(X[:, 0] * X[:, 1] > 0, "same", "other")
    >>> model = GradientKernelClassifier().fit(X[:300], y[:300])
    >>> print(model.feature_importances_.round(1))
    [0.5 0.5 0.  0.  0.  0. ]
    >>> model.score(X[300:], y[300:]) > 0.95
    True
    """

    _last_share = 0.1

    _parameter_constraints: dict = {
        **_GradientKernel._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        kernel="gaussian",
        *,
        metric="auto",
        n_rounds=5,
        max_block_size=5000,
        class_weight=None,
        random_state=None,
        verbose=0,
    ):
        _base.store_parameters(self, locals())

    @_base.atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Learn the metric and the ridge."""
        data, targets = self._fit_from(None, X, y, sample_weight)
        self._store_held_out(data, self.loo_proba_, targets)
        return self

    def _fit_from(self, start: dict | None, X, y, sample_weight) -> tuple:
        """Fit from a metric, scale and penalty learned before; return the rows and class codes."""
        data = _base.training_data(self, X, y, sample_weight, task="classification")
        rows, codes = self._standardised_rows(data.X, data.labels, data.weights)
        proba = self._from_outputs(self._fit_tree(rows, start), codes, rows.weights)
        self.loo_proba_ = proba.astype(data.X.dtype)
        return data, codes

    def _standardised_rows(self, X, y, weights) -> tuple[GradientRows, np.ndarray]:
        """Store classes and scales; return standardised rows, and the codes of the classes."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        factors = _base.class_factors(self.class_weight, self.classes_, codes, weights)[codes]
        return self._standardised(X, np.eye(len(self.classes_))[codes], weights, factors), codes

    def _from_outputs(self, outputs, codes, weights):
        """Store the temperature of least log loss; return the probabilities."""
        self.temperature_ = 1.0 / fit_slope(outputs, codes, weights)
        return temperature_proba(outputs, self.temperature_)

    def predict_proba(self, X):
        """Return the probability of every class."""
        Z, dtype = self._queries(X)
        proba = temperature_proba(self._tree.predict(Z), self.temperature_)
        return proba.astype(dtype, copy=False)

    def local_coef(self, X):
        """Return the slopes of the log-probabilities, for fixed weights of the blocks.

        Returns
        -------
        ndarray of shape (n_queries, n_classes, n_features)
            Change of each class's log-probability per unit of each column.
        """
        Z, dtype = self._queries(X)
        slopes = self._tree.slopes(Z) / (self.scale_ * self.temperature_)
        proba = temperature_proba(self._tree.predict(Z), self.temperature_)
        mean = np.einsum("qc,qcd->qd", proba, slopes)
        return (slopes - mean[:, None]).astype(dtype, copy=False)
