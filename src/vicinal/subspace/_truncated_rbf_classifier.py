"""Ridge or logistic classification with the truncated RBF kernel."""

import warnings
from numbers import Integral, Real

import array_api_compat as compat
import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning

from vicinal._base import (
    atomic_fit,
    atomic_fit_blocks,
    class_factors,
    device_classes,
    documented,
    encode_device_labels,
    encode_labels,
    is_array_api,
    namespace,
    saved,
)
from vicinal._base._compat import Interval, StrOptions
from vicinal._kernels.calibration._probabilities import device_slope, fit_slope
from vicinal._kernels.subspace._truncated_rbf import feature_blocks, fit_logistic_features
from vicinal.subspace._base import BaseTruncatedRBF
from vicinal.subspace._truncated_rbf_blocks import fit_classifier_blocks


def _best_threshold(scores, codes, weights):
    """Return the threshold with the fewest errors, midway between two of them.

    Among equally good ones the nearest to zero is taken.
    """
    order = np.argsort(scores, kind="stable")
    s = scores[order]
    signed = np.where(codes[order] == 1, weights[order], -weights[order])
    # Raising the threshold past a row of class 1 loses it, past one of class 0 gains it.
    errors = np.r_[0.0, np.cumsum(signed)]
    cuts = np.r_[s[0] - 1.0, 0.5 * (s[1:] + s[:-1]), s[-1] + 1.0]
    usable = np.r_[True, s[1:] > s[:-1], True]
    errors, cuts = errors[usable], cuts[usable]
    best = errors <= errors.min() + 1e-9 * weights.sum()
    return cuts[best][np.abs(cuts[best]).argmin()]


def _probabilities(scores, slope):
    """Return probabilities of scores; one column means two classes."""
    xp = namespace(scores)
    if scores.shape[1] == 1:
        scores = xp.concat([xp.zeros_like(scores), scores], axis=1)
    powers = xp.exp(slope * (scores - xp.max(scores, axis=1, keepdims=True)))
    return powers / xp.sum(powers, axis=1, keepdims=True)


@saved(classes_="c labels", mean_="p", primal_coef_="j t", intercept_="t")
@documented
class TruncatedRBFClassifier(ClassifierMixin, BaseTruncatedRBF):
    r"""Kernel classifier with the truncated RBF kernel, at a cost linear in the rows.

    A ridge on targets of -1 and 1, or a logistic regression, on the monomials of
    :class:`TruncatedRBFFeatures`, which are made block by block and never stored. It is the
    default fusion of :class:`SubspaceFusionClassifier`, where columns are few and rows many.

    Read more in the :doc:`user guide </guide/subspace>`.

    Parameters
    ----------
    loss : {"squared_error", "log_loss"}, default="squared_error"
        ``"squared_error"`` solves one linear system, but pulls the scores of a rare class towards
        -1; ``"log_loss"`` does not, and takes some tens of passes over the rows.
    class_weight : dict, "balanced" or None, default=None
        Factors on the weights of the classes.
    threshold : {"zero", "tuned"}, default="zero"
        Where two classes are told apart. ``"tuned"`` takes the threshold with the fewest errors
        (by ``sample_weight`` alone) over the leave-one-out scores, which least squares gives
        without refitting; for two classes and ``loss="squared_error"``.
    solver : {"auto", "primal", "dual"}, default="auto"
        ``"primal"`` solves ``J`` equations, ``"dual"`` one per row and keeps the rows for
        prediction; ``"auto"`` takes the smaller system. The logistic loss has the primal only.
    max_iter : int, default=500
        Steps for the logistic loss.
    tol : float, default=1e-8
        The logistic fit stops when no entry of the gradient of the mean loss exceeds it.

    Attributes
    ----------
    threshold_ : float
        What was subtracted from the scores of two classes.
    slope_ : float
        Slope from scores to log-probabilities; 1 for the logistic loss.
    n_iter_ : int
        Steps made; 1 for the squared loss.

    See Also
    --------
    TruncatedRBFRegressor : The same for numbers.
    SubspaceFusionClassifier : Joins models of many subspaces with this one.

    Notes
    -----
    The squared loss is the ridge of :class:`TruncatedRBFRegressor` on one target of -1 and 1 per
    class (one target for two classes), the kernel ridge classifier of [1]_. Probabilities are
    ``softmax(slope_ * scores)``; the one slope is fitted by maximum likelihood on the
    leave-one-out scores, so that the class of the largest score is the most probable one and a
    tuned threshold lies at 0.5. The logistic loss minimises
    :math:`\sum_n w_n \ell(s_n) + \frac{\alpha}{2}\|u\|^2` by Newton or quasi-Newton steps and
    needs no slope.

    Torch tensors and other array-API arrays are fitted where they are, by the squared loss, and
    the answers stay there.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from vicinal.subspace import TruncatedRBFClassifier
    >>> X, y = make_moons(400, noise=0.2, random_state=0)
    >>> for order in (1, 4):
    ...     model = TruncatedRBFClassifier(order, gamma=0.2, alpha=1e-3).fit(X[:200], y[:200])
    ...     print(order, model.score(X[200:], y[200:]))
    1 0.8...
    4 0.9...
    """

    _parameter_constraints: dict = {
        **BaseTruncatedRBF._parameter_constraints,
        "loss": [StrOptions({"squared_error", "log_loss"})],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "threshold": [StrOptions({"zero", "tuned"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
    }

    _labels_on_device = False

    def __init__(
        self,
        order=2,
        *,
        gamma="scale",
        alpha=0.01,
        loss="squared_error",
        class_weight=None,
        threshold="zero",
        center=True,
        solver="auto",
        max_features=20_000,
        max_iter=500,
        tol=1e-8,
    ):
        self.order = order
        self.gamma = gamma
        self.alpha = alpha
        self.loss = loss
        self.class_weight = class_weight
        self.threshold = threshold
        self.center = center
        self.solver = solver
        self.max_features = max_features
        self.max_iter = max_iter
        self.tol = tol

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Fit the classifier."""
        if is_array_api(X):
            self._check_device()
        self._labels_on_device = is_array_api(X) and is_array_api(y)
        X, y, weights = self._training(X, y, sample_weight)
        if is_array_api(X):
            self.classes_, codes = encode_device_labels(y, X)
            unit = namespace(X).ones_like(weights)
        else:
            self.classes_, codes = encode_labels(y)
            self._check_combination()
            unit = class_factors(self.class_weight, self.classes_, codes, weights)[codes]
        Z = self._learn_map(X, weights)
        self.threshold_, self.slope_, self.n_iter_ = 0.0, 1.0, 1
        dtype = Z.dtype if is_array_api(X) else X.dtype
        if self.loss == "squared_error":
            self._fit_squared(Z, codes, weights, unit, dtype)
        else:
            self._fit_logistic(Z, codes, weights * unit, dtype)
        return self

    @atomic_fit_blocks
    def fit_blocks(self, blocks):
        """Fit to a table in blocks of rows, from sums over them: equal to a fit in memory."""
        fit_classifier_blocks(self, blocks)

    def decision_function(self, X):
        """Return the scores, relative to the threshold."""
        scores = self._scores(X)
        return scores if scores.shape[1] > 1 else scores[:, 0] - self.threshold_

    def predict_proba(self, X):
        """Return the probabilities of the classes."""
        scores = self.decision_function(X)
        return _probabilities(scores[:, None] if scores.ndim == 1 else scores, self.slope_)

    def predict(self, X):
        """Return the most probable class."""
        proba = self.predict_proba(X)
        return device_classes(self.classes_, proba, on_device=self._labels_on_device)

    def _check_combination(self):
        if self.threshold == "tuned" and len(self.classes_) > 2:
            raise ValueError(
                f"threshold='tuned' tells two classes apart, and y holds {len(self.classes_)}; "
                "use threshold='zero', with class_weight='balanced' if classes are rare."
            )
        if self.threshold == "tuned" and self.loss == "log_loss":
            raise ValueError(
                "threshold='tuned' rests on the leave-one-out formula of least squares, and "
                "loss='log_loss' was given; use loss='squared_error', or wrap the classifier in "
                "sklearn.model_selection.TunedThresholdClassifierCV."
            )
        if self.solver == "dual" and self.loss == "log_loss":
            raise ValueError(
                "solver='dual' is for loss='squared_error', and loss='log_loss' was given; use "
                "solver='auto' or 'primal'."
            )

    def _check_device(self):
        given = {
            "loss": self.loss != "squared_error",
            "class_weight": self.class_weight is not None,
            "threshold": self.threshold != "zero",
        }
        named = [name for name, is_set in given.items() if is_set]
        if named:
            raise ValueError(
                f"{', '.join(named)} as given cannot be used with a device array; change that, or "
                "convert X with numpy.asarray."
            )

    def _fit_squared(self, Z, codes, weights, unit, dtype):
        """Fit the squared loss; the leave-one-out scores give threshold and slope."""
        xp, n_classes = namespace(Z), len(self.classes_)
        kinds = xp.arange(n_classes, device=compat.device(Z))
        targets = 2.0 * xp.astype(codes[:, None] == kinds[None, :], Z.dtype) - 1.0
        targets = targets[:, 1:] if n_classes == 2 else targets
        scores = self._fit_ridge(Z, targets, weights * unit, dtype, unit=unit)
        if self.threshold == "tuned":
            self.threshold_ = float(_best_threshold(scores[:, 0], codes, weights))
            scores = scores - self.threshold_
        if n_classes == 2:
            scores = 0.5 * xp.concat([-scores, scores], axis=1)
        slope = device_slope if is_array_api(Z) else fit_slope
        self.slope_ = slope(scores, codes, weights)

    def _fit_logistic(self, Z, codes, weights, dtype):
        self.solver_ = "primal"
        plan = self._plan(Z.shape[1])
        fit = fit_logistic_features(
            feature_blocks(Z, self.gamma_, plan),
            codes,
            weights,
            len(self.classes_),
            plan.n_outputs,
            alpha=self.alpha,
            tol=self.tol,
            max_iter=self.max_iter,
        )
        self.primal_coef_, self.intercept_ = fit.coef.T.astype(dtype), fit.intercept.astype(dtype)
        self.n_iter_ = fit.n_iter
        if not fit.converged:
            warnings.warn(
                f"the logistic fit did not reach tol={self.tol} in max_iter={self.max_iter} steps; "
                "raise max_iter, alpha or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )
