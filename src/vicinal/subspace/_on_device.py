"""What the truncated RBF models do when X belongs to another array library."""

import warnings
from collections.abc import Callable
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


class TruncatedRBFOnDevice:
    """Fit and query on the device of the data; learned arrays stay there."""

    # Whether the model was fitted on arrays of another library.
    _on_device = False

    # Parameters and methods of the estimators that mix this in.
    order: int
    gamma: Any
    gamma_: float
    alpha: float
    center: bool
    solver_: str
    mean_: Any
    _choose_solver: Callable
    _plan: Callable

    def _learn_device_map(self, X, weights) -> Any:
        """Set the centre and the width; return the centred rows in double precision."""
        self._on_device = True
        self.mean_, self.gamma_ = device_center_and_gamma(
            X, weights, self.gamma, self.center, self.order
        )
        return namespace(X).astype(X, self.mean_.dtype) - self.mean_

    def _fit_device_ridge(self, Z, Y, weights, *, unit=None) -> Any:
        """Fit the ridge on centred rows; with ``unit`` return the leave-one-out scores too."""
        xp = namespace(Z)
        self.solver_ = self._choose_solver(*Z.shape)
        if self.solver_ == "primal":
            plan = self._plan(Z.shape[1])
            blocks = device_feature_blocks(Z, self.gamma_, plan)
            self._coef, self._intercept, state = device_ridge_primal(
                blocks, Y, weights, self.alpha, plan.n_outputs
            )
            if unit is None:
                return None
            fitted = xp.concat([P @ self._coef for _, P in blocks()], axis=0) + self._intercept
            leverage = device_primal_leverage(blocks, xp.sum(weights), state)
        else:
            K = truncated_rbf_kernel(Z, Z, self.gamma_, self.order)
            self._dual_coef, self._intercept, leverage = device_ridge_dual(
                K, Y, weights, self.alpha
            )
            self._rows = Z
            if unit is None:
                return None
            fitted = K @ self._dual_coef + self._intercept
        rest = 1.0 - unit * leverage
        return Y - (Y - fitted) / xp.where(rest > 1e-12, rest, xp.full_like(rest, 1e-12))[:, None]

    def _device_scores(self, X) -> Any:
        """Return the linear predictor in the precision of the queries, (n_samples, n_targets)."""
        check_same_library(self.mean_, X)
        X = validate_array_api(self, X, reset=False)
        xp = namespace(X)
        wide = xp.astype(X, self.mean_.dtype)
        if self.solver_ == "primal":
            plan = monomial_plan(X.shape[1], self.order)
            scores = device_scores(wide, self.mean_, self.gamma_, plan, self._coef, self._intercept)
        else:
            scores = device_dual_scores(
                wide, self.mean_, self.gamma_, self.order, self._rows, self._dual_coef,
                self._intercept,
            )  # fmt: skip
        return xp.astype(scores, X.dtype)
