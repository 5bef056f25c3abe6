"""Truncated RBF: its exact finite feature map, and ridge models of it."""

import warnings
from dataclasses import dataclass, replace
from functools import partial
from numbers import Integral, Real
from typing import Any

import array_api_compat as compat
import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    MultiOutputMixin,
    RegressorMixin,
    TransformerMixin,
)

from vicinal import _base
from vicinal._base._compat import Interval, StrOptions
from vicinal._base._explanation import ExplainRowMixin
from vicinal._kernels.calibration._probabilities import (
    fit_slope,
    score_spread,
    slope_derivatives,
    solve_slope,
)
from vicinal._kernels.linear._scatter import column_means
from vicinal._kernels.subspace import _truncated_rbf as kernels
from vicinal.subspace._explain import slope_section
from vicinal.subspace._feature_space_decomposition import encoded_block

_CONSTRAINTS: dict = {
    # Terms of a higher degree are zero in double precision.
    "order": [Interval(Integral, 1, 1000, closed="both")],
    "gamma": [Interval(Real, 0, None, closed="neither"), StrOptions({"scale"})],
    "center": ["boolean"],
    "max_features": [Interval(Integral, 1, None, closed="left")],
}
# Rows sampled to check whether a width is too large for the order.
_SAMPLE_ROWS = 20_000


@dataclass(frozen=True)
class TruncatedSettings:
    """Settings of a fit, with "auto" and "scale" resolved."""

    mean: Any
    gamma: float
    order: int
    alpha: float
    solver: str
    max_features: int

    @property
    def plan(self) -> kernels.MonomialPlan:
        """Plan of the monomials; raise if there are too many."""
        n_features, remedy = self.mean.shape[0], "reduce the columns, use solver='dual'"
        check_expansion(n_features, self.order, self.max_features, remedy)
        return kernels.monomial_plan(n_features, self.order)


@dataclass(frozen=True)
class TruncatedFit:
    """Coefficients of the monomials, or of the kernel with training rows; one column per target."""

    coef: Any
    intercept: Any
    rows: Any = None  # of the dual
    left_out: Any = None  # leave-one-out scores of the training rows


def _plan(X, order, n_monomials):
    """Return the monomials of a fitted model; raise if a model file holds fewer coefficients."""
    check_expansion(X.shape[1], order, n_monomials, "fit the model again")
    return kernels.plan_on_device_of(kernels.monomial_plan(X.shape[1], order), X)


def check_expansion(n_features, order, max_features, remedy):
    """Return J, or raise when there would be more than ``max_features`` monomials."""
    J = kernels.n_monomials(n_features, order)
    if J > max_features:
        raise ValueError(
            f"order={order} on {n_features} features makes J = C({n_features + order}, {order}) = "
            f"{J:,} monomials, more than max_features={max_features:,}; lower order, {remedy}, "
            "or raise max_features."
        )
    return J


def resolve(model: Any, data: _base.TrainingData) -> TruncatedSettings:
    """Return centre and width, and the smaller of both systems for ``solver="auto"``."""
    mean, gamma = center_and_width(data, model.order, model.gamma, center=model.center)
    solver = model.solver
    if solver == "auto":
        is_smaller = kernels.n_monomials(data.n_features, model.order) <= len(data)
        solver = "primal" if is_smaller else "dual"
    return TruncatedSettings(mean, gamma, model.order, model.alpha, solver, model.max_features)


def center_and_width(data: _base.TrainingData, order: int, gamma: Any, *, center: bool) -> tuple:
    """Mean (or zero) and width; warns when the series is cut before it has converged."""
    xp, X, weights = data.xp, data.X, data.weights
    mean = data.array(column_means(X, weights) if center else np.zeros(data.n_features))
    blocks = _base.row_blocks(len(data), 16 * data.n_features, **_base.block_limits(X))
    squares = xp.concat([xp.sum((X[rows, :] - mean) ** 2, axis=1) for rows in blocks])
    if isinstance(gamma, str):
        typical = float(weights @ squares / xp.sum(weights))
        return mean, 0.1 / typical if typical > 0 else 1.0
    _warn_if_cut_short(squares, weights, gamma, order)
    return mean, float(gamma)


def _warn_if_cut_short(squares, weights, gamma, order):
    """Warn when the series is cut before it has converged; ``squares`` are lengths of rows."""
    lengths, weights = _base.as_numpy(squares), _base.as_numpy(weights)
    median = np.quantile(lengths, 0.5, weights=weights, method="inverted_cdf")
    reach = 2.0 * gamma * float(median)
    if reach > order / 2.0:
        warnings.warn(
            f"With gamma={gamma:.4g} the median of 2*gamma*|x|^2 is {reach:.3g}, above order/2 = "
            f"{order / 2.0}, so the truncated series is far from the RBF kernel. Lower gamma "
            "(gamma='scale' suits most data) or raise order.",
            UserWarning,
            stacklevel=5,
        )


def fit_ridge(
    data: _base.TrainingData, Y: Any, weights: Any, settings: TruncatedSettings, unit: Any
) -> TruncatedFit:
    """Fit the ridge to targets (n, n_targets); with ``unit`` return leave-one-out scores too."""
    Z = data.X - settings.mean
    if settings.solver == "dual":
        K = kernels.truncated_rbf_kernel(Z, Z, settings.gamma, settings.order)
        coef, intercept, leverage = kernels.ridge_dual(K, Y, weights, settings.alpha)
        fit, fitted = TruncatedFit(coef, intercept, Z), K @ coef + intercept
    else:
        blocks = kernels.feature_blocks(Z, settings.gamma, settings.plan)
        coef, intercept, state = kernels.ridge_primal(blocks, Y, weights, settings.alpha)
        fit = TruncatedFit(coef, intercept)
        if unit is not None:
            total = data.xp.sum(weights)
            fitted, leverage = kernels.fitted_and_leverage(blocks, coef, intercept, total, state)
    if unit is None:
        return fit
    return replace(fit, left_out=kernels.leave_one_out_scores(Y, fitted, leverage, unit))


def class_targets(codes: Any, n_classes: int, dtype: Any) -> Any:
    """Return -1 and 1, a column per class; one column for two classes."""
    xp = _base.namespace(codes)
    kinds = xp.arange(n_classes, device=compat.device(codes))
    targets = 2.0 * xp.astype(codes[:, None] == kinds[None, :], dtype) - 1.0
    return targets[:, 1:] if n_classes == 2 else targets


def both_scores(scores: Any) -> Any:
    """Return one column of scores per class from those of :func:`class_targets`."""
    if scores.shape[1] > 1:
        return scores
    return 0.5 * _base.namespace(scores).concat([-scores, scores], axis=1)


# --- rows in blocks -------------------------------------------------------------------------------


def fit_ridge_blocks(
    model: Any, blocks: _base.Blocks, found: _base.Survey, unit: Any
) -> tuple[TruncatedSettings, TruncatedFit, _base.Blocks]:
    """Fit the ridge in two passes, and return blocks of leave-one-out scores too.

    The scores, a number per row and class, are computed by the workers where they are needed.
    """
    settings = _resolve_blocks(model, blocks, found)
    rows = blocks.then(encoded_block, found.classes)
    sums = rows.total(_sum_ridge, settings, unit, combine=_base.add_tuples)
    coef, intercept, state = kernels.ridge_from_sums(kernels.RidgeSums(*sums), settings.alpha)
    fit = TruncatedFit(coef, intercept)
    return settings, fit, rows.then(_held_out_scores, settings, unit, fit, sums[0], state)


def _resolve_blocks(model: Any, blocks: _base.Blocks, found: _base.Survey) -> TruncatedSettings:
    """Return what :func:`resolve` does in memory; the dual needs all pairs of rows."""
    if model.solver == "dual":
        raise ValueError("solver='dual' cannot be fitted to blocks of rows; use solver='primal'.")
    moments = found.moments
    squares, mean = moments.squares, moments.mean
    if not model.center:
        squares, mean = squares + moments.weight * mean**2, np.zeros(blocks.n_features)
    typical = squares.sum() / moments.weight
    gamma = 0.1 / typical if typical > 0 else 1.0
    if not isinstance(model.gamma, str):
        gamma = float(model.gamma)
        sample = _base.sample_rows(blocks, found, _SAMPLE_ROWS, 0)
        squares = ((sample.X - mean) ** 2).sum(axis=1)
        _warn_if_cut_short(squares, sample.sample_weight, gamma, model.order)
    return TruncatedSettings(mean, gamma, model.order, model.alpha, "primal", model.max_features)


def _features_and_targets(block: _base.TrainingData, settings: TruncatedSettings) -> tuple:
    Z = block.X - settings.mean
    features = kernels.feature_blocks(Z, settings.gamma, settings.plan, hold=False)
    if block.classes is None:
        return features, np.asarray(block.y, dtype=np.float64)[:, None]
    return features, class_targets(block.y, len(block.classes), np.float64)


def _sum_ridge(block: _base.TrainingData, settings: TruncatedSettings, unit: Any) -> tuple:
    weights = block.weights if unit is None else block.weights * unit[block.y]
    features, Y = _features_and_targets(block, settings)
    return tuple(kernels.ridge_sums(features, Y, weights))


def _held_out_scores(block: _base.TrainingData, settings, unit, fit: TruncatedFit, total, state):
    """Return the block with leave-one-out scores in place of rows."""
    features, Y = _features_and_targets(block, settings)
    fitted, leverage = kernels.fitted_and_leverage(features, fit.coef, fit.intercept, total, state)
    scores = both_scores(kernels.leave_one_out_scores(Y, fitted, leverage, unit[block.y]))
    return _base.TrainingData(scores, block.y, block.classes, block.weights)


def slope_of_blocks(scores: _base.Blocks, class_weights: np.ndarray) -> float:
    """Return the slope of ``fit_slope`` for blocks of scores."""
    scores = scores.held()
    spread = scores.total(_spread, combine=max) or 1.0
    return solve_slope(partial(scores.total, _slope_sums, spread, class_weights)) / spread


def _spread(block: _base.TrainingData) -> float:
    return score_spread(block.X)


def _slope_sums(
    block: _base.TrainingData, spread: float, counts: np.ndarray, slope: float
) -> np.ndarray:
    return slope_derivatives(block.X / spread, block.y, block.weights, counts, slope)


# --- estimators -----------------------------------------------------------------------------------


@_base.saved(mean_="p")
@_base.documented
class TruncatedRBFFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Features whose inner product is the truncated RBF kernel.

    The Taylor series of the RBF kernel up to degree ``order`` is the inner product of
    ``J = C(n_features + order, order)`` monomials. Unlike random Fourier or Nystroem features the
    map is exact, and a kernel model becomes a linear model with a cost linear in the number of
    rows [1]_. Use it for few columns, many rows and smooth targets.

    Read more in the :doc:`user guide </guide/subspace>`.

    Parameters
    ----------
    order : int, default=2
        Highest degree.
    gamma : float or "scale", default="scale"
        Width, as in ``exp(-gamma |x - z|^2)``. ``"scale"`` is 0.1 over the mean squared length of
        the (centred) rows, which keeps the truncated series close to the kernel.
    center : bool, default=True
        Whether to subtract the mean first: the truncated kernel, unlike the RBF kernel, depends
        on the origin.
    max_features : int, default=20000
        Largest number of features; more raise an error.

    Attributes
    ----------
    mean_ : ndarray of shape (`n_features_in_`,)
        Mean that is subtracted; zeros without centring.
    gamma_ : float
        The width used.
    n_output_features_ : int
        ``J``.

    See Also
    --------
    TruncatedRBFClassifier : Ridge or logistic classifier on these features, without storing them.
    sklearn.kernel_approximation.RBFSampler : Random features of the RBF kernel.

    Notes
    -----
    .. math::

        \phi_a(x) = e^{-\gamma|x|^2} \prod_i \frac{(\sqrt{2\gamma}\, x_i)^{a_i}}{\sqrt{a_i!}},
        \quad |a| \le p, \qquad
        \langle \phi(x), \phi(z)\rangle
        = e^{-\gamma|x|^2} e^{-\gamma|z|^2} \sum_{k=0}^{p} \frac{(2\gamma\, x\cdot z)^k}{k!}.

    The largest error against :math:`e^{-\gamma|x-z|^2}` over a set of rows is
    :math:`P(\mathrm{Poisson}(z) > p)` with :math:`z = 2\gamma \max|x|^2`, reached on the diagonal
    at the longest row.

    References
    ----------
    .. [1] P.-Y. Wu, C.-C. Fang, J. M. Chang and S.-Y. Kung, "Cost-effective kernel ridge regression
       implementation for keystroke-based active authentication system", IEEE Transactions on
       Cybernetics, 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics.pairwise import rbf_kernel
    >>> from vicinal.subspace import TruncatedRBFFeatures
    >>> X = np.random.RandomState(0).uniform(-0.5, 0.5, size=(20, 3))
    >>> for order in (1, 3, 5):
    ...     P = TruncatedRBFFeatures(order, gamma=0.5, center=False).fit_transform(X)
    ...     print(P.shape[1], float(np.abs(P @ P.T - rbf_kernel(X, gamma=0.5)).max().round(6)))
    4 0.093647
    20 0.001898
    56 1.6e-05
    """

    _parameter_constraints: dict = _CONSTRAINTS

    def __init__(self, order=2, *, gamma="scale", center=True, max_features=20_000):
        _base.store_parameters(self, locals())

    @_base.atomic_fit
    def fit(self, X, y=None, sample_weight=None):
        """Learn the centre and the width.

        Parameters
        ----------
        y : None
            Ignored.
        """
        data = _base.training_data(self, X, None, sample_weight, arrays=True)
        self.n_output_features_ = self._n_features_out = check_expansion(
            data.n_features, self.order, self.max_features, "reduce the columns"
        )
        mean, self.gamma_ = center_and_width(data, self.order, self.gamma, center=self.center)
        self.mean_ = data.xp.astype(mean, data.X.dtype)
        return self

    def transform(self, X):
        """Return the features.

        Returns
        -------
        P : ndarray of shape (n_samples, `n_output_features_`)
            One column per monomial, by degree, then in lexicographic order.
        """
        X = _base.query_rows(self, X)
        plan = _plan(X, self.order, self.n_output_features_)
        shape = X.shape[0], plan.n_outputs
        P = _base.namespace(X).empty(shape, dtype=X.dtype, device=compat.device(X))
        for rows in kernels.feature_rows(X, plan.n_outputs):
            P[rows, :] = kernels.truncated_rbf_features(X[rows, :] - self.mean_, self.gamma_, plan)
        return P

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class _TruncatedRBF(ExplainRowMixin, BaseEstimator):
    """Linear model of truncated RBF features, fitted in the primal or in the dual.

    Parameters
    ----------
    order : int, default=2
        Highest degree of the truncated series.
    gamma : float or "scale", default="scale"
        Width of the kernel; see :class:`TruncatedRBFFeatures`.
    alpha : float, default=0.01
        Strength of the penalty on squared coefficients. It is smaller than that of ``Ridge``
        because the features are small. The intercept is not penalised.
    center : bool, default=True
        Whether to subtract the mean of the rows first.
    max_features : int, default=20000
        Largest number of monomials in the primal; more raise an error.

    Attributes
    ----------
    mean_ : ndarray of shape (`n_features_in_`,)
        Mean that is subtracted; zeros without centring.
    gamma_ : float
        The width used.
    solver_ : {"primal", "dual"}
        The problem that was solved.
    intercept_ : ndarray of shape (n_outputs,)
        Intercept.
    primal_coef_ : ndarray of shape (n_monomials, n_outputs)
        Coefficients of the monomials, after ``solver="primal"``.
    dual_coef_ : ndarray of shape (n_samples, n_outputs)
        Coefficients of the kernel with the training rows, after ``solver="dual"``.
    rows_ : ndarray of shape (n_samples, `n_features_in_`)
        These rows, less their mean, after ``solver="dual"``.

    References
    ----------
    .. [1] Q. Guo, B.-W. Chen, F. Jiang, X. Ji and S.-Y. Kung, "Efficient divide-and-conquer
       classification based on feature-space decomposition", arXiv:1501.07584, 2015, section 3.2.
    """

    _parameter_constraints: dict = {
        **_CONSTRAINTS,
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "solver": [StrOptions({"auto", "primal", "dual"})],
    }

    _reference: Any = None  # an empty array of the library of the training rows, None for NumPy

    def __init__(
        self, order=2, *, gamma="scale", alpha=0.01, center=True, solver="auto", max_features=20_000
    ):
        _base.store_parameters(self, locals())

    def _store(self, settings: TruncatedSettings, fit: TruncatedFit) -> None:
        self.mean_, self.gamma_, self.solver_ = settings.mean, settings.gamma, settings.solver
        self.intercept_ = fit.intercept
        if settings.solver == "primal":
            self.primal_coef_ = fit.coef
        else:
            self.dual_coef_, self.rows_ = fit.coef, fit.rows

    def _scores(self, X):
        """Return the linear predictor in the precision of the queries, (n_samples, n_targets)."""
        X = _base.query_rows(self, X)
        xp, shape = _base.namespace(X), (X.shape[0], self.intercept_.shape[0])
        scores = xp.empty(shape, dtype=X.dtype, device=compat.device(X))
        is_primal = self.solver_ == "primal"
        coef = self.primal_coef_ if is_primal else self.dual_coef_
        plan = _plan(X, self.order, coef.shape[0]) if is_primal else None
        for rows in kernels.feature_rows(X, coef.shape[0]):
            Z = X[rows, :] - self.mean_
            if is_primal:
                P = kernels.truncated_rbf_features(Z, self.gamma_, plan)
            else:
                P = kernels.truncated_rbf_kernel(Z, self.rows_, self.gamma_, self.order)
            scores[rows, :] = xp.astype(P @ coef + self.intercept_, X.dtype)
        return scores

    def _sections(self, X, columns):
        return [slope_section(self, X, columns, self.mean_, "the mean of the training rows")]


_SAVED = {
    "mean_": "p",
    "primal_coef_": "j t",
    "dual_coef_": "n t",
    "rows_": "n p",
    "intercept_": "t",
}


@_base.saved(classes_="c labels", **_SAVED)
@_base.documented
class TruncatedRBFClassifier(_base.ArgmaxClassifierMixin, _TruncatedRBF):
    r"""Kernel classifier with the truncated RBF kernel, in time linear in the number of rows.

    It is a ridge regression on targets of -1 and 1 on the monomials of
    :class:`TruncatedRBFFeatures`, which are computed block by block. It is the default fusion of
    :class:`SubspaceFusionClassifier`, where columns are few and rows many.

    Read more in the :doc:`user guide </guide/subspace>`.

    Parameters
    ----------
    class_weight : dict, "balanced" or None, default=None
        Factors on the weights of the classes.
    threshold : {"zero", "tuned"}, default="zero"
        Threshold between two classes. ``"tuned"`` takes the threshold with the fewest errors
        (weighted by ``sample_weight`` alone) of the leave-one-out scores, which least squares gives
        without refitting; for two classes.
    solver : {"auto", "primal", "dual"}, default="auto"
        ``"primal"`` solves ``J`` equations, ``"dual"`` one per row, and stores the rows for
        prediction; ``"auto"`` takes the smaller system.

    Attributes
    ----------
    threshold_ : float
        Threshold that is subtracted from the scores of two classes.
    slope_ : float
        Slope from scores to log-probabilities.

    See Also
    --------
    TruncatedRBFRegressor : The same for regression.
    TruncatedRBFFeatures : The monomials alone, for example for a logistic regression.
    SubspaceFusionClassifier : Fusion of models on subspaces, by default with this class.

    Notes
    -----
    The fit is the ridge of :class:`TruncatedRBFRegressor` on one target of -1 and 1 per
    class (one target for two classes), the kernel ridge classifier of [1]_. Probabilities are
    ``softmax(slope_ * scores)``. The slope is fitted by maximum likelihood on the leave-one-out
    scores. The class of the largest score is the most probable one, and a tuned threshold has
    probability 0.5. Least squares shrinks the scores of a rare class towards -1; a logistic
    regression of :class:`TruncatedRBFFeatures` does not.

    Torch tensors and other array-API arrays stay on their device.

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
        **_TruncatedRBF._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "threshold": [StrOptions({"zero", "tuned"})],
    }

    def __init__(
        self,
        order=2,
        *,
        gamma="scale",
        alpha=0.01,
        class_weight=None,
        threshold="zero",
        center=True,
        solver="auto",
        max_features=20_000,
    ):
        _base.store_parameters(self, locals())

    @_base.atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Fit the classifier."""
        data = _base.training_data(self, X, y, sample_weight, task="classification", arrays=True)
        self.classes_, n_classes = data.classes, len(data.classes)
        if self.threshold == "tuned" and n_classes > 2:
            raise ValueError(
                f"threshold='tuned' needs two classes, and y holds {n_classes}; use "
                "threshold='zero', with class_weight='balanced' if classes are rare."
            )
        host = data.host(data.y), data.host(data.weights)
        factors = _base.class_factors(self.class_weight, self.classes_, *host)
        unit = data.array(factors[host[0]])
        settings = resolve(self, data)
        Y = class_targets(data.y, n_classes, data.xp.float64)
        fit = fit_ridge(data, Y, data.weights * unit, settings, unit)
        self.threshold_ = 0.0
        if self.threshold == "tuned":
            self.threshold_ = best_threshold(data.host(fit.left_out)[:, 0], *host)
        scores = both_scores(fit.left_out - self.threshold_)
        self.slope_ = fit_slope(scores, data.y, data.weights)
        self._store(settings, fit)
        return self

    @_base.atomic_fit_blocks
    def fit_blocks(self, blocks):
        """Fit to a table in blocks of rows, from sums over them: equal to a fit in memory."""
        _base.refuse(self, threshold="zero", why="by blocks of rows")
        blocks, found = _base.survey(blocks, has_classes=True)
        self.classes_, codes = found.classes, np.arange(len(found.classes))
        unit = _base.class_factors(self.class_weight, found.classes, codes, found.class_weights)
        settings, fit, scores = fit_ridge_blocks(self, blocks, found, unit)
        self.slope_ = slope_of_blocks(scores, found.class_weights)
        self.threshold_ = 0.0
        self._store(settings, fit)

    def decision_function(self, X):
        """Return the scores, relative to the threshold."""
        scores = self._scores(X)
        return scores if scores.shape[1] > 1 else scores[:, 0] - self.threshold_

    def predict_proba(self, X):
        """Return the probabilities of the classes."""
        scores = self.decision_function(X)
        xp = _base.namespace(scores)
        if scores.ndim == 1:
            scores = xp.stack([xp.zeros_like(scores), scores], axis=1)
        powers = xp.exp(self.slope_ * (scores - xp.max(scores, axis=1, keepdims=True)))
        return powers / xp.sum(powers, axis=1, keepdims=True)


def best_threshold(scores, codes, weights):
    """Return the threshold with the fewest errors, midway between two of them.

    Among equally good ones the nearest to zero is taken.
    """
    order = np.argsort(scores, kind="stable")
    s = scores[order]
    signed = np.where(codes[order] == 1, weights[order], -weights[order])
    # Raising the threshold past a row of class 1 adds an error, past one of class 0 removes one.
    errors = np.r_[0.0, np.cumsum(signed)]
    cuts = np.r_[s[0] - 1.0, 0.5 * (s[1:] + s[:-1]), s[-1] + 1.0]
    usable = np.r_[True, s[1:] > s[:-1], True]
    errors, cuts = errors[usable], cuts[usable]
    best = errors <= errors.min() + 1e-9 * weights.sum()
    return float(cuts[best][np.abs(cuts[best]).argmin()])


@_base.saved(**_SAVED)
@_base.documented
class TruncatedRBFRegressor(MultiOutputMixin, RegressorMixin, _TruncatedRBF):
    r"""Kernel ridge regression with the truncated RBF kernel, in time linear in the number of rows.

    The model is linear in the ``J = C(n_features + order, order)`` monomials of
    :class:`TruncatedRBFFeatures`, which are computed block by block. If there are more monomials
    than rows, the equivalent dual problem is solved.

    Read more in the :doc:`user guide </guide/subspace>`.

    Parameters
    ----------
    solver : {"auto", "primal", "dual"}, default="auto"
        ``"primal"`` solves ``J`` equations, ``"dual"`` one per row, and stores the rows for
        prediction; ``"auto"`` takes the smaller system.

    See Also
    --------
    TruncatedRBFClassifier : The same for classification.
    sklearn.kernel_ridge.KernelRidge : Ridge regression with any kernel, in the dual only.

    Notes
    -----
    With :math:`P` the features less their weighted mean, :math:`y` the target less its own, and
    :math:`D` the weights [1]_:

    .. math::

        u = (P^\top D P + \alpha I)^{-1} P^\top D y
        \quad\text{or}\quad
        u = P^\top D^{1/2} (D^{1/2} P P^\top D^{1/2} + \alpha I)^{-1} D^{1/2} y .

    Torch tensors and other array-API arrays stay on their device.

    Examples
    --------
    >>> import numpy as np
    >>> from vicinal.subspace import TruncatedRBFRegressor
    >>> X = np.random.RandomState(0).uniform(-1, 1, size=(500, 2))
    >>> y = np.sin(2 * X[:, 0]) * X[:, 1]
    >>> for order in (1, 3, 5):
    ...     model = TruncatedRBFRegressor(order, gamma=0.3, alpha=1e-3).fit(X, y)
    ...     print(order, round(model.score(X, y), 3))
    1 0.005
    3 0.976
    5 1.0
    """

    @_base.atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Fit the ridge.

        Parameters
        ----------
        y : array-like of shape (n_samples,) or (n_samples, n_targets)
            Targets.
        """
        data = _base.training_data(
            self, X, y, sample_weight, task="regression", arrays=True, multi_output=True
        )
        self._is_flat = data.y.ndim == 1
        Y = data.xp.astype(data.xp.reshape(data.y, (len(data), -1)), data.xp.float64)
        settings = resolve(self, data)
        self._store(settings, fit_ridge(data, Y, data.weights, settings, None))
        return self

    @_base.atomic_fit_blocks
    def fit_blocks(self, blocks):
        """Fit to a table in blocks of rows, from sums over them: two passes, equal to memory."""
        settings, fit, _ = fit_ridge_blocks(self, *_base.survey(blocks, has_classes=False), None)
        self._store(settings, fit)
        self._is_flat = True

    def predict(self, X):
        """Predict the target."""
        scores = self._scores(X)
        return scores[:, 0] if self._is_flat else scores
