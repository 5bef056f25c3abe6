"""What the truncated RBF models share: centre, width, the choice between primal and dual."""

import warnings
from numbers import Integral, Real

import array_api_compat as compat
import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal._base import (
    check_magnitude,
    check_same_library,
    free_memory,
    is_array_api,
    namespace,
    positive_rows,
    row_blocks,
    validate_array_api,
    weighted_device_rows,
)
from vicinal._base._compat import Interval, StrOptions
from vicinal._base._explanation import ExplainRowMixin
from vicinal._kernels.linear._scatter import column_means
from vicinal._kernels.subspace._truncated_rbf import (
    feature_blocks,
    feature_rows,
    fitted_and_leverage,
    leave_one_out_scores,
    monomial_plan,
    n_monomials,
    plan_beside,
    ridge_dual,
    ridge_primal,
    truncated_rbf_features,
    truncated_rbf_kernel,
)
from vicinal.subspace._explain import slope_section


def check_expansion(n_features, order, max_features, remedy):
    """Return J, or raise when there would be more than ``max_features`` monomials."""
    J = n_monomials(n_features, order)
    if J > max_features:
        raise ValueError(
            f"order={order} on {n_features} features makes J = C({n_features + order}, {order}) = "
            f"{J:,} monomials, more than max_features={max_features:,}; lower order, {remedy}, "
            "or raise max_features."
        )
    return J


def device_training(estimator, X, y, sample_weight):
    """Return the rows that weigh something, their targets, and weights in double precision."""
    X = validate_array_api(estimator, X, reset=True)
    xp = namespace(X)
    X, y, weights = weighted_device_rows(X, y, sample_weight, dtype=xp.float64)
    if weights is None:
        weights = xp.ones(X.shape[0], dtype=xp.float64, device=compat.device(X))
    return X, y, weights


def learn_center_and_gamma(X, weights, gamma, center, order):
    """Mean (or zero) and width; warns when the series is cut before it has converged."""
    xp = namespace(X)
    if is_array_api(X):
        mean = weights @ xp.astype(X, weights.dtype) / xp.sum(weights)
    else:
        mean = column_means(X, weights)
    mean = mean if center else xp.zeros_like(mean)
    blocks = row_blocks(X.shape[0], 16 * X.shape[1], working_memory=free_memory(X))
    squares = xp.concat([xp.sum((X[rows, :] - mean) ** 2, axis=1) for rows in blocks])
    if isinstance(gamma, str):
        typical = float(weights @ squares / xp.sum(weights))
        return mean, 0.1 / typical if typical > 0 else 1.0
    warn_if_cut_short(squares, weights, gamma, order)
    return mean, float(gamma)


def warn_if_cut_short(squares, weights, gamma, order):
    """Warn when the series is cut before it has converged; ``squares`` are lengths of rows."""
    xp = namespace(squares)
    order_of = xp.argsort(squares)
    mass = xp.cumulative_sum(xp.take(weights, order_of))
    middle = int(xp.sum(xp.astype(mass < 0.5 * xp.sum(weights), xp.int64)))
    reach = 2.0 * gamma * float(squares[int(order_of[min(middle, squares.shape[0] - 1)])])
    if reach > order / 2.0:
        warnings.warn(
            f"gamma={gamma:.4g} puts the median of 2*gamma*|x|^2 at {reach:.3g}, above order/2 = "
            f"{order / 2.0}: the truncated series is far from the RBF kernel there. Lower gamma "
            "(gamma='scale' suits most data) or raise order.",
            UserWarning,
            stacklevel=5,
        )


class BaseTruncatedRBF(ExplainRowMixin, BaseEstimator):
    """A linear model of truncated RBF features, fitted in the primal or in the dual.

    Parameters
    ----------
    order : int, default=2
        Highest degree of the truncated series.
    gamma : float or "scale", default="scale"
        Width of the kernel; see :class:`TruncatedRBFFeatures`.
    alpha : float, default=0.01
        Strength of the penalty; small, because so are the features. The intercept is free.
    center : bool, default=True
        Whether to subtract the mean of the rows first.
    max_features : int, default=20000
        The primal refuses more monomials than this.

    Attributes
    ----------
    mean_ : ndarray of shape (`n_features_in_`,)
        What is subtracted; zeros without centring.
    gamma_ : float
        The width used.
    solver_ : {"primal", "dual"}
        The problem that was solved.
    intercept_ : ndarray of shape (n_outputs,)
        Free term.
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
        "order": [Interval(Integral, 1, None, closed="left")],
        "gamma": [Interval(Real, 0, None, closed="neither"), StrOptions({"scale"})],
        "alpha": [Interval(Real, 0, None, closed="neither")],
        "center": ["boolean"],
        "solver": [StrOptions({"auto", "primal", "dual"})],
        "max_features": [Interval(Integral, 1, None, closed="left")],
    }

    def _training(self, X, y, sample_weight, **options):
        """Return checked rows, targets and weights, where they are."""
        if is_array_api(X):
            return device_training(self, X, y, sample_weight)
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], **options)
        weights, X, y = positive_rows(sample_weight, X, y)
        return X, y, weights

    def _learn_map(self, X, weights):
        """Set the centre and the width; return the centred rows."""
        self.mean_, self.gamma_ = learn_center_and_gamma(
            X, weights, self.gamma, self.center, self.order
        )
        return X - self.mean_

    def _choose_solver(self, n_samples, n_features):
        """Take the smaller system: J equations in the primal, n_samples in the dual."""
        if self.solver != "auto":
            return self.solver
        return "primal" if n_monomials(n_features, self.order) <= n_samples else "dual"

    def _plan(self, n_features):
        check_expansion(
            n_features, self.order, self.max_features, "reduce the columns, use solver='dual'"
        )
        return monomial_plan(n_features, self.order)

    def _fit_ridge(self, Z, Y, weights, dtype, *, unit=None):
        """Fit the ridge on centred rows; with ``unit`` return the leave-one-out scores too."""
        xp = namespace(Z)
        self.solver_ = self._choose_solver(*Z.shape)
        if self.solver_ == "primal":
            plan = self._plan(Z.shape[1])
            blocks = feature_blocks(Z, self.gamma_, plan)
            coef, intercept, state = ridge_primal(blocks, Y, weights, self.alpha)
            self.primal_coef_ = xp.astype(coef, dtype)
        else:
            K = truncated_rbf_kernel(Z, Z, self.gamma_, self.order)
            dual, intercept, leverage = ridge_dual(K, Y, weights, self.alpha)
            self.dual_coef_, self.rows_ = xp.astype(dual, dtype), xp.astype(Z, dtype)
        self.intercept_ = xp.astype(intercept, dtype)
        if unit is None:
            return None
        if self.solver_ == "primal":
            total = xp.sum(weights)
            fitted, leverage = fitted_and_leverage(blocks, coef, intercept, total, state)
        else:
            fitted = K @ dual + intercept
        return leave_one_out_scores(Y, fitted, leverage, unit)

    def _sections(self, X, columns):
        return [slope_section(self, X, columns, self.mean_, "the mean of the training rows")]

    def _scores(self, X):
        """Return the linear predictor in the precision of the queries, (n_samples, n_targets)."""
        check_is_fitted(self)
        if is_array_api(self.mean_):
            check_same_library(self.mean_, X)
            X = validate_array_api(self, X, reset=False)
        else:
            X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
            check_magnitude("X", X)
        xp, shape = namespace(X), (X.shape[0], self.intercept_.shape[0])
        scores = xp.empty(shape, dtype=X.dtype, device=compat.device(X))
        if self.solver_ == "primal":
            plan = plan_beside(monomial_plan(X.shape[1], self.order), X)
            for rows in feature_rows(X, plan.n_outputs):
                P = truncated_rbf_features(X[rows, :] - self.mean_, self.gamma_, plan)
                scores[rows, :] = xp.astype(P @ self.primal_coef_ + self.intercept_, X.dtype)
        else:
            for rows in feature_rows(X, self.rows_.shape[0]):
                Z = X[rows, :] - self.mean_
                K = truncated_rbf_kernel(Z, self.rows_, self.gamma_, self.order)
                scores[rows, :] = xp.astype(K @ self.dual_coef_ + self.intercept_, X.dtype)
        return scores
