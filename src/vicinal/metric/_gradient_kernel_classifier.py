"""Kernel ridge classification in the metric of its own gradients."""

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import validate_data

from vicinal._base import atomic_fit, class_factors, documented, encode_labels, positive_rows, saved
from vicinal._base._compat import StrOptions
from vicinal._conformal import LabelSetMixin
from vicinal._kernels.calibration._probabilities import fit_slope, temperature_proba
from vicinal.metric._gradient_kernel import BaseGradientKernel


@saved(classes_="c labels", mean_="p", scale_="p", blocks_="* | * *")
@documented
class GradientKernelClassifier(ClassifierMixin, LabelSetMixin, BaseGradientKernel):
    r"""Kernel ridge on class indicators in coordinates stretched along its own slopes.

    The ridge of :class:`GradientKernelRegressor` on one target per class, 1 in the class and 0
    elsewhere; probabilities are the softmax of its scores, with the one temperature that is most
    likely on the leave-one-out scores.

    Read more in the :doc:`user guide </guide/embedding>`.

    Parameters
    ----------
    class_weight : dict, "balanced" or None, default=None
        Factors on the weights of the classes.

    Attributes
    ----------
    temperature_ : float
        What scores are divided by before the softmax.
    loo_proba_ : ndarray of shape (n_samples, n_classes)
        Probabilities of every training row of positive weight without that row, scale, penalty and
        metric held; they have seen the row, so errors of it are somewhat too small.

    See Also
    --------
    GradientKernelRegressor : The same for numbers, with the mathematics.
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

    _parameter_constraints: dict = {
        **BaseGradientKernel._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    def __init__(
        self,
        kernel="gaussian",
        *,
        metric="auto",
        n_rounds=5,
        alphas=None,
        max_block_size=5000,
        class_weight=None,
        random_state=None,
        verbose=0,
    ):
        self.kernel = kernel
        self.metric = metric
        self.n_rounds = n_rounds
        self.alphas = alphas
        self.max_block_size = max_block_size
        self.class_weight = class_weight
        self.random_state = random_state
        self.verbose = verbose

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Learn the metric and the ridge."""
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        weights, X, y = positive_rows(sample_weight, X, y)
        self.classes_, codes = encode_labels(y)
        factors = class_factors(self.class_weight, self.classes_, codes, weights)[codes]
        data = self._place(X, np.eye(len(self.classes_))[codes], weights, factors)
        scores = self._fit_rows(data)
        self.temperature_ = 1.0 / fit_slope(scores, codes, weights * factors)
        self.loo_proba_ = temperature_proba(scores, self.temperature_).astype(X.dtype)
        self._keep_answers(X, self.loo_proba_, codes, weights)
        return self

    def predict_proba(self, X):
        """Return the probability of every class."""
        Z, dtype = self._validated(X)
        proba = temperature_proba(self._answers(Z), self.temperature_)
        return proba.astype(dtype, copy=False)

    def predict(self, X):
        """Return the most probable class."""
        codes = self.predict_proba(X).argmax(axis=1)
        return self.classes_[codes]

    def local_coef(self, X):
        """Return the slopes of the log-probabilities, blend of blocks held.

        Returns
        -------
        ndarray of shape (n_queries, n_classes, n_features)
            Change of each class's log-probability per unit of each column.
        """
        Z, dtype = self._validated(X)
        slopes = self._slopes(Z) / (self.scale_ * self.temperature_)
        proba = temperature_proba(self._answers(Z), self.temperature_)
        mean = np.einsum("qc,qcd->qd", proba, slopes)
        return (slopes - mean[:, None]).astype(dtype, copy=False)
