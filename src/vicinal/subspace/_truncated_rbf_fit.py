"""Fits of the truncated RBF models: to rows in memory or on a device, and to rows in blocks."""

import warnings
from dataclasses import dataclass, replace
from typing import Any

import array_api_compat as compat
import numpy as np

from vicinal._base import (
    Blocks,
    Survey,
    TrainingData,
    add_tuples,
    block_limits,
    class_factors,
    dense,
    namespace,
    row_blocks,
    sample_rows,
    survey,
)
from vicinal._kernels.calibration._probabilities import score_spread, slope_derivatives, solve_slope
from vicinal._kernels.linear._scatter import column_means
from vicinal._kernels.subspace import _truncated_rbf as kernels

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


def resolve(model: Any, data: TrainingData, solver: str) -> TruncatedSettings:
    """Return centre and width, and the smaller of both systems for ``solver="auto"``."""
    mean, gamma = center_and_width(data, model.order, model.gamma, center=model.center)
    if solver == "auto":
        is_smaller = kernels.n_monomials(data.n_features, model.order) <= len(data)
        solver = "primal" if is_smaller else "dual"
    return TruncatedSettings(mean, gamma, model.order, model.alpha, solver, model.max_features)


def center_and_width(data: TrainingData, order: int, gamma: Any, *, center: bool) -> tuple:
    """Mean (or zero) and width; warns when the series is cut before it has converged."""
    xp, X, weights = data.xp, data.X, data.weights
    mean = data.array(column_means(X, weights) if center else np.zeros(data.n_features))
    blocks = row_blocks(len(data), 16 * data.n_features, **block_limits(X))
    squares = xp.concat([xp.sum((X[rows, :] - mean) ** 2, axis=1) for rows in blocks])
    if isinstance(gamma, str):
        typical = float(weights @ squares / xp.sum(weights))
        return mean, 0.1 / typical if typical > 0 else 1.0
    _warn_if_cut_short(squares, weights, gamma, order)
    return mean, float(gamma)


def _warn_if_cut_short(squares, weights, gamma, order):
    """Warn when the series is cut before it has converged; ``squares`` are lengths of rows."""
    xp = namespace(squares)
    order_of = xp.argsort(squares)
    mass = xp.cumulative_sum(xp.take(weights, order_of))
    middle = int(xp.sum(xp.astype(mass < 0.5 * xp.sum(weights), xp.int64)))
    reach = 2.0 * gamma * float(squares[int(order_of[min(middle, squares.shape[0] - 1)])])
    if reach > order / 2.0:
        warnings.warn(
            f"With gamma={gamma:.4g} the median of 2*gamma*|x|^2 is {reach:.3g}, above order/2 = "
            f"{order / 2.0}, so the truncated series is far from the RBF kernel. Lower gamma "
            "(gamma='scale' suits most data) or raise order.",
            UserWarning,
            stacklevel=5,
        )


def fit_ridge(
    data: TrainingData, Y: Any, weights: Any, settings: TruncatedSettings, unit: Any
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
    xp = namespace(codes)
    kinds = xp.arange(n_classes, device=compat.device(codes))
    targets = 2.0 * xp.astype(codes[:, None] == kinds[None, :], dtype) - 1.0
    return targets[:, 1:] if n_classes == 2 else targets


def both_scores(scores: Any) -> Any:
    """Return one column of scores per class from those of :func:`class_targets`."""
    if scores.shape[1] > 1:
        return scores
    return 0.5 * namespace(scores).concat([-scores, scores], axis=1)


# --- rows in blocks -------------------------------------------------------------------------------


def fit_regressor_blocks(model: Any, blocks: Blocks) -> tuple[TruncatedSettings, TruncatedFit]:
    """Fit the ridge regressor: two passes."""
    blocks, found = survey(blocks, has_classes=False)
    settings = _resolve_blocks(model, blocks, found)
    sums = blocks.then(_encode, None).total(_sum_ridge, settings, None, combine=add_tuples)
    coef, intercept, _ = kernels.ridge_from_sums(kernels.RidgeSums(*sums), settings.alpha)
    return settings, TruncatedFit(coef, intercept)


def fit_classifier_blocks(model: Any, blocks: Blocks) -> tuple:
    """Fit the ridge classifier: two passes, one for leave-one-out scores, and those of the slope.

    The leave-one-out scores, a number per row and class, stay with the workers. Returns settings,
    fit, classes and slope.
    """
    blocks, found = survey(blocks, has_classes=True)
    settings = _resolve_blocks(model, blocks, found)
    codes = np.arange(len(found.classes))
    unit = class_factors(model.class_weight, found.classes, codes, found.class_weights)
    rows = blocks.then(_encode, found.classes)
    sums = rows.total(_sum_ridge, settings, unit, combine=add_tuples)
    coef, intercept, state = kernels.ridge_from_sums(kernels.RidgeSums(*sums), settings.alpha)
    fit = TruncatedFit(coef, intercept)
    scores = rows.then(_held_out_scores, settings, unit, fit, sums[0], state)
    return settings, fit, found.classes, _slope_of(scores, found)


def _resolve_blocks(model: Any, blocks: Blocks, found: Survey) -> TruncatedSettings:
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
        sample = sample_rows(blocks, found, _SAMPLE_ROWS, 0)
        squares = ((sample.X - mean) ** 2).sum(axis=1)
        _warn_if_cut_short(squares, sample.sample_weight, gamma, model.order)
    return TruncatedSettings(mean, gamma, model.order, model.alpha, "primal", model.max_features)


def _encode(block: Any, classes: Any) -> TrainingData:
    y = block.y if classes is None else np.searchsorted(classes, block.y)
    return TrainingData(dense(block), y, classes, block.sample_weight, start=block.start)


def _features_and_targets(block: TrainingData, settings: TruncatedSettings) -> tuple:
    Z = block.X - settings.mean
    features = kernels.feature_blocks(Z, settings.gamma, settings.plan, hold=False)
    if block.classes is None:
        return features, np.asarray(block.y, dtype=np.float64)[:, None]
    return features, class_targets(block.y, len(block.classes), np.float64)


def _sum_ridge(block: TrainingData, settings: TruncatedSettings, unit: Any) -> tuple:
    weights = block.weights if unit is None else block.weights * unit[block.y]
    features, Y = _features_and_targets(block, settings)
    return tuple(kernels.ridge_sums(features, Y, weights))


def _held_out_scores(block: TrainingData, settings, unit, fit: TruncatedFit, total, state):
    """Return the block with leave-one-out scores in place of rows."""
    features, Y = _features_and_targets(block, settings)
    fitted, leverage = kernels.fitted_and_leverage(features, fit.coef, fit.intercept, total, state)
    scores = both_scores(kernels.leave_one_out_scores(Y, fitted, leverage, unit[block.y]))
    return TrainingData(scores, block.y, block.classes, block.weights)


def _slope_of(scores: Blocks, found: Survey) -> float:
    """Return the slope of ``fit_slope`` for blocks of scores."""
    scores = scores.held()
    spread = scores.total(_spread, combine=max)
    if spread == 0.0:
        return 1.0

    def derivatives(slope):
        return scores.total(_slope_sums, spread, found.class_weights, slope)

    return solve_slope(derivatives) / spread


def _spread(block: TrainingData) -> float:
    return score_spread(block.X)


def _slope_sums(block: TrainingData, spread: float, counts: np.ndarray, slope: float) -> np.ndarray:
    return slope_derivatives(block.X / spread, block.y, block.weights, counts, slope)
