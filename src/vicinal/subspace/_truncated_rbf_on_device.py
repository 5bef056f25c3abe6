"""What the truncated RBF models do when X belongs to another array library."""

import warnings
from typing import Any

import array_api_compat as compat

from vicinal._base import (
    check_same_library,
    namespace,
    validate_array_api,
    weighted_device_rows,
)
from vicinal._kernels.subspace._truncated_rbf import monomial_plan, truncated_rbf_kernel
from vicinal._kernels.subspace._truncated_rbf_device import (
    device_dual_scores,
    device_feature_blocks,
    device_primal_leverage,
    device_ridge_dual,
    device_ridge_primal,
    device_scores,
)


def device_training(estimator: Any, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Return the rows that weigh something, their targets, and weights in double precision."""
    X = validate_array_api(estimator, X, reset=True)
    xp = namespace(X)
    X, y, weights = weighted_device_rows(X, y, sample_weight, dtype=xp.float64)
    if weights is None:
        weights = xp.ones(X.shape[0], dtype=xp.float64, device=compat.device(X))
    return X, y, weights


def device_targets(y: Any, X: Any) -> Any:
    """Return numeric targets beside ``X`` in double precision, as given in shape."""
    xp = namespace(X)
    Y = xp.asarray(y, dtype=xp.float64, device=compat.device(X))
    if Y.ndim not in (1, 2):
        raise ValueError(f"y should be a 1d or 2d array, got one of shape {tuple(Y.shape)}.")
    if not bool(xp.all(xp.isfinite(Y))):
        raise ValueError("y contains NaN or infinity; impute or drop those rows first.")
    return Y


def device_center_and_gamma(X, weights, gamma, center, order) -> tuple[Any, float]:
    """Mean (or zero) and width, as on the host; one or two numbers reach it."""
    xp = namespace(X)
    X = xp.astype(X, xp.float64)
    total = xp.sum(weights)
    mean = weights @ X / total if center else xp.zeros_like(X[0, :])
    squares = xp.sum((X - mean) ** 2, axis=1)
    if isinstance(gamma, str):
        typical = float(weights @ squares / total)
        return mean, 0.1 / typical if typical > 0 else 1.0
    order_of = xp.argsort(squares)
    mass = xp.cumulative_sum(xp.take(weights, order_of))
    middle = int(xp.sum(xp.astype(mass < 0.5 * total, xp.int64)))
    reach = 2.0 * gamma * float(squares[order_of[min(middle, X.shape[0] - 1)]])
    if reach > order / 2.0:
        warnings.warn(
            f"gamma={gamma:.4g} puts the median of 2*gamma*|x|^2 at {reach:.3g}, above order/2 = "
            f"{order / 2.0}: the truncated series is far from the RBF kernel there. Lower gamma "
            "(gamma='scale' suits most data) or raise order.",
            UserWarning,
            stacklevel=4,
        )
    return mean, float(gamma)


def learn_device_map(model: Any, X: Any, weights: Any) -> Any:
    """Set the centre and the width; return the centred rows in double precision."""
    model._on_device = True
    model.mean_, model.gamma_ = device_center_and_gamma(
        X, weights, model.gamma, model.center, model.order
    )
    return namespace(X).astype(X, model.mean_.dtype) - model.mean_


def fit_device_ridge(model: Any, Z: Any, Y: Any, weights: Any, *, unit: Any = None) -> Any:
    """Fit the ridge on centred rows; with ``unit`` return the leave-one-out scores too."""
    xp = namespace(Z)
    model.solver_ = model._choose_solver(*Z.shape)
    if model.solver_ == "primal":
        plan = model._plan(Z.shape[1])
        blocks = device_feature_blocks(Z, model.gamma_, plan)
        model.primal_coef_, model.intercept_, state = device_ridge_primal(
            blocks, Y, weights, model.alpha, plan.n_outputs
        )
        if unit is None:
            return None
        fitted = xp.concat([P @ model.primal_coef_ for _, P in blocks()], axis=0) + model.intercept_
        leverage = device_primal_leverage(blocks, xp.sum(weights), state)
    else:
        K = truncated_rbf_kernel(Z, Z, model.gamma_, model.order)
        model.dual_coef_, model.intercept_, leverage = device_ridge_dual(K, Y, weights, model.alpha)
        model.rows_ = Z
        if unit is None:
            return None
        fitted = K @ model.dual_coef_ + model.intercept_
    rest = 1.0 - unit * leverage
    return Y - (Y - fitted) / xp.where(rest > 1e-12, rest, xp.full_like(rest, 1e-12))[:, None]


def device_model_scores(model: Any, X: Any) -> Any:
    """Return the linear predictor in the precision of the queries, (n_samples, n_targets)."""
    check_same_library(model.mean_, X)
    X = validate_array_api(model, X, reset=False)
    xp = namespace(X)
    wide = xp.astype(X, model.mean_.dtype)
    if model.solver_ == "primal":
        plan = monomial_plan(X.shape[1], model.order)
        scores = device_scores(
            wide, model.mean_, model.gamma_, plan, model.primal_coef_, model.intercept_
        )
    else:
        scores = device_dual_scores(
            wide, model.mean_, model.gamma_, model.order, model.rows_, model.dual_coef_,
            model.intercept_,
        )  # fmt: skip
    return xp.astype(scores, X.dtype)
