"""Boosting: losses of a raw score, steps along one model, coefficients of all models.

A loss is any object with ``value(y, score)``, ``gradient(y, score)`` and ``hessian(y, score)``.
Scores are a vector, except for :class:`Multinomial`, whose scores have one column per class. The
losses below also know their best constant (``constant``), the map from score to prediction
(``mean`` or ``probability``) and whether their second derivative carries information
(``has_curvature``).

All coefficients at once (equation 12): scores are linear in them, ``F = Phi theta``. With one
score per sample ``Phi`` is (n_samples, n_columns); with ``K`` scores it is (n_samples * K,
n_columns), the samples running fastest, so that a column is one model's output raveled in Fortran
order.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import expit, log_softmax, softmax, xlogy

from vicinal._base import saved
from vicinal._kernels._jit import jit
from vicinal._kernels.linear._scatter import solve_semidefinite

_MAX_HALVINGS = 60
# Models with squared pivots below this share of the largest repeat other models.
_NO_PIVOT = 1e-13


def weighted_quantile(values: np.ndarray, q, weights: np.ndarray) -> np.ndarray:
    r"""Return the ``q`` quantiles of ``values`` (averaged inverse of the weighted distribution).

    Each is a minimiser of :math:`\sum_i w_i \rho_q(v_i - c)` with the pinball loss; where a whole
    interval minimises it, its middle is returned. With unit weights this is NumPy's
    ``method="averaged_inverted_cdf"``. ``weights`` must be positive.
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    reached = np.cumsum(weights[order])
    targets = np.asarray(q, dtype=np.float64) * reached[-1]
    # Sums of weights carry rounding; a target this close to a step sits on the step.
    slack = 1e-12 * reached[-1]
    last = len(ordered) - 1
    lower = np.minimum(np.searchsorted(reached, targets - slack, side="left"), last)
    upper = np.minimum(np.searchsorted(reached, targets + slack, side="right"), last)
    return 0.5 * (ordered[lower] + ordered[upper])


@saved()
class SquaredError:
    """Half the squared residual, ``(y - F)^2 / 2``."""

    is_quadratic = True

    def value(self, y, score):
        return 0.5 * (y - score) ** 2

    def gradient(self, y, score):
        return score - y

    def hessian(self, y, score):
        return np.ones_like(score)

    def constant(self, y, weight):
        return np.average(y, weights=weight)


@saved()
class AbsoluteError:
    """Absolute residual ``|y - F|``; its slope is 0 where the residual is."""

    has_curvature = False

    def value(self, y, score):
        return np.abs(y - score)

    def gradient(self, y, score):
        return np.sign(score - y)

    def hessian(self, y, score):
        return np.zeros_like(score)

    def constant(self, y, weight):
        return weighted_quantile(y, 0.5, weight)


@saved()
@dataclass(frozen=True)
class Quantile:
    """Pinball loss, whose minimiser is the quantile of level ``alpha``."""

    alpha: float = 0.5
    has_curvature = False

    def value(self, y, score):
        residual = y - score
        return np.maximum(self.alpha * residual, (self.alpha - 1.0) * residual)

    def gradient(self, y, score):
        above = np.where(score > y, 1.0 - self.alpha, 0.0)
        return np.where(score < y, -self.alpha, above)

    def hessian(self, y, score):
        return np.zeros_like(score)

    def constant(self, y, weight):
        return weighted_quantile(y, self.alpha, weight)


@saved()
@dataclass(frozen=True)
class Huber:
    """Squared near 0, linear beyond ``delta``, which follows the ``alpha`` quantile of residuals.

    Every round of boosting computes the quantile again (Friedman 2001, algorithm 4), through
    :meth:`adapted`.
    """

    alpha: float = 0.9
    delta: float = 1.0
    has_curvature = False

    def adapted(self, y, score, weight):
        return Huber(self.alpha, float(weighted_quantile(np.abs(y - score), self.alpha, weight)))

    def value(self, y, score):
        residual = np.abs(y - score)
        near = 0.5 * residual**2
        return np.where(residual <= self.delta, near, self.delta * (residual - 0.5 * self.delta))

    def gradient(self, y, score):
        return np.clip(score - y, -self.delta, self.delta)

    def hessian(self, y, score):
        return (np.abs(y - score) <= self.delta).astype(np.float64)

    def constant(self, y, weight):
        """One Newton-like step from the median (Friedman 2001, equation 33)."""
        median = weighted_quantile(y, 0.5, weight)
        return median + np.average(np.clip(y - median, -self.delta, self.delta), weights=weight)


@saved()
class Poisson:
    """Half the Poisson deviance with a logarithmic link; the mean is ``exp(F)``."""

    def value(self, y, score):
        return self.mean(score) - y * score + xlogy(y, y) - y

    def gradient(self, y, score):
        return self.mean(score) - y

    def hessian(self, y, score):
        return self.mean(score)

    def constant(self, y, weight):
        return np.log(np.average(y, weights=weight))

    def mean(self, score):
        with np.errstate(over="ignore"):
            return np.exp(score)


@saved()
class Logistic:
    """Negative log-likelihood of ``y`` in {0, 1} with log-odds ``F``."""

    def value(self, y, score):
        return np.logaddexp(0.0, score) - y * score

    def gradient(self, y, score):
        return expit(score) - y

    def hessian(self, y, score):
        probability = expit(score)
        return probability * (1.0 - probability)

    def constant(self, y, weight):
        mean = np.average(y, weights=weight)
        return np.log(mean / (1.0 - mean))

    def probability(self, score):
        return expit(score)


@saved()
class Exponential:
    """Loss of AdaBoost, ``exp(-(2y - 1) F)`` with ``y`` in {0, 1}; ``F`` is half the log-odds."""

    def value(self, y, score):
        with np.errstate(over="ignore"):
            return np.exp((1.0 - 2.0 * y) * score)

    def gradient(self, y, score):
        return (1.0 - 2.0 * y) * self.value(y, score)

    def hessian(self, y, score):
        return self.value(y, score)

    def constant(self, y, weight):
        return 0.5 * Logistic().constant(y, weight)

    def probability(self, score):
        return expit(2.0 * score)


@saved()
@dataclass(frozen=True)
class Multinomial:
    """Negative log-likelihood of a class code under the softmax of ``n_classes`` scores."""

    n_classes: int

    def value(self, y, score):
        return -log_softmax(score, axis=1)[np.arange(len(y)), y]

    def gradient(self, y, score):
        gradient = softmax(score, axis=1)
        gradient[np.arange(len(y)), y] -= 1.0
        return gradient

    def hessian(self, y, score):
        """Diagonal of the second derivative, (n_samples, n_classes)."""
        probability = softmax(score, axis=1)
        return probability * (1.0 - probability)

    def constant(self, y, weight):
        """Logarithms of the class frequencies, shifted to sum to zero."""
        logarithm = np.log(np.bincount(y, weights=weight, minlength=self.n_classes))
        return logarithm - logarithm.mean()

    def probability(self, score):
        return softmax(score, axis=1)


REGRESSION_LOSSES = {
    "squared_error": lambda alpha: SquaredError(),
    "absolute_error": lambda alpha: AbsoluteError(),
    "huber": lambda alpha: Huber(alpha),
    "quantile": lambda alpha: Quantile(alpha),
    "poisson": lambda alpha: Poisson(),
}


def best_constant(loss: Any, y: np.ndarray, weight: np.ndarray):
    """Minimise the weighted loss over constants: closed form, else a search (equation 8)."""
    if hasattr(loss, "constant"):
        return loss.constant(y, weight)

    def total(constant):
        return float(weight @ loss.value(y, np.full(len(y), constant)))

    return float(minimize_scalar(total, method="brent").x)


def deviation(direction: np.ndarray, weight: np.ndarray) -> float:
    """Root mean square of a direction about its mean, over all its entries."""
    columns = direction.reshape(len(direction), -1)
    share = weight / weight.sum()
    centred = columns - share @ columns
    return float(np.sqrt((share @ centred**2).mean()))


def step_length(
    loss: Any, y: np.ndarray, weight: np.ndarray, score: np.ndarray, direction: np.ndarray
) -> float:
    """Return ``argmin_a sum_i w_i L(y_i, F_i + a d_i)`` over ``a >= 0``, 0 without descent.

    The direction is brought to unit size first, so that tolerances mean the same for every learner.
    Losses with curvature take Newton steps, halved until the loss does not rise; the others a
    bracketing search.
    """
    size = np.sqrt((weight @ direction.reshape(len(direction), -1) ** 2).mean() / weight.sum())
    if not size > 1e-12:
        return 0.0
    # The step is the coefficient of one more column.
    column, start = direction.reshape((-1, 1), order="F") / size, np.zeros(1)
    along = MeanLoss(loss, y, weight, column, score)
    if not along.derivatives(start)[0][0] < 0.0:
        return 0.0
    if getattr(loss, "has_curvature", True):
        length = along.refit(start, np.zeros(1), max_iter=20, tol=0.0)[0]
    else:
        length = _bracketed(along)
    return max(float(length), 0.0) / size


def _bracketed(along: "MeanLoss") -> float:
    """Return the coefficient of least loss by values alone."""

    def total(length):
        return along.value(np.array([length]))

    far, value = 1.0, total(1.0)
    for _ in range(60):
        further = total(2.0 * far)
        if further >= value:
            break
        far, value = 2.0 * far, further
    found = minimize_scalar(
        total, bounds=(0.0, 2.0 * far), method="bounded", options={"xatol": 1e-9 * far}
    )
    return float(found.x) if found.fun <= total(0.0) else 0.0


class MeanLoss:
    """The weighted mean loss as a function of coefficients, with scores ``offset + Phi theta``."""

    def __init__(
        self, loss: Any, y: np.ndarray, weight: np.ndarray, Phi: np.ndarray, offset: Any = 0.0
    ) -> None:
        self.loss, self.y, self.Phi, self.offset = loss, y, Phi, offset
        self.share = weight / weight.sum()

    def scores(self, theta: np.ndarray) -> np.ndarray:
        """Return a score for every sample, or a row of scores."""
        score = self.Phi @ theta
        if len(score) > len(self.y):
            score = score.reshape((len(self.y), -1), order="F")
        return self.offset + score

    def value(self, theta, ridge=0.0, charge=0.0) -> float:
        """Return the loss plus ``ridge_j theta_j^2 / 2 + charge_j |theta_j|`` summed over j."""
        penalty = np.sum(0.5 * ridge * theta**2 + charge * np.abs(theta))
        return float(self.share @ self.loss.value(self.y, self.scores(theta))) + float(penalty)

    def gradient(self, theta: np.ndarray) -> np.ndarray:
        """Return the first derivative in the coefficients."""
        slopes = self.loss.gradient(self.y, self.scores(theta))
        return self.Phi.T @ (self.share * slopes.T).ravel()

    def derivatives(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the first and the second derivative in the coefficients."""
        gradient, Phi, score = self.gradient(theta), self.Phi, self.scores(theta)
        if score.ndim == 1:
            curvature = self.share * self.loss.hessian(self.y, score)
            return gradient, Phi.T @ (curvature[:, None] * Phi)
        # With the softmax p of a sample, the variance of its rows of Phi under p.
        n_samples, n_scores = score.shape
        p = self.loss.probability(score).ravel(order="F")[:, None]
        mean = (p * Phi).reshape((n_scores, n_samples, -1)).sum(axis=0)
        centred = Phi - np.tile(mean, (n_scores, 1))
        return gradient, centred.T @ (np.tile(self.share, n_scores)[:, None] * p * centred)

    def refit(self, start, ridge, *, max_iter: int = 50, tol: float = 1e-10) -> np.ndarray:
        """Minimise the loss plus the ridge over all coefficients by damped Newton steps."""

        def step(theta):
            gradient, hessian = self.derivatives(theta)
            hessian[np.diag_indices_from(hessian)] += ridge
            return -solve_semidefinite(hessian, gradient + ridge * theta, _NO_PIVOT)

        return _damped_newton(lambda theta: self.value(theta, ridge), step, start, max_iter, tol)

    def l1_path(self, n_free: int, penalties, start, *, tol: float = 1e-7) -> np.ndarray:
        """Coefficients for each of a falling sequence of L1 penalties, (n_penalties, n_columns).

        Minimises the loss plus ``penalty * sum_{j >= n_free} |theta_j|`` by proximal Newton steps,
        each solved by coordinate descent, from the solution of the previous penalty.
        """
        theta, path = start.astype(np.float64), []
        # The second derivative of a quadratic loss is the same everywhere.
        is_quadratic = getattr(self.loss, "is_quadratic", False)
        fixed = self.derivatives(theta)[1] if is_quadratic else None
        for penalty in penalties:
            charge = np.full(len(theta), penalty)
            charge[:n_free] = 0.0

            def step(theta, charge=charge):
                if is_quadratic:
                    gradient, hessian = self.gradient(theta), fixed
                else:
                    gradient, hessian = self.derivatives(theta)
                return _quadratic_l1(hessian, gradient, theta, charge, 500, 1e-3 * tol) - theta

            def value(theta, charge=charge):
                return self.value(theta, charge=charge)

            theta = _damped_newton(value, step, theta, 25, tol)
            path.append(theta)
        return np.array(path)

    def largest_useful_penalty(self, n_free: int, start: np.ndarray) -> float:
        """Return the least L1 penalty that leaves only the free coefficients, those of start."""
        return float(np.abs(self.gradient(start)[n_free:]).max(initial=0.0))


def _damped_newton(objective, step_from, theta, max_iter: int, tol: float) -> np.ndarray:
    """Take steps, halved until the objective does not rise, until it falls by ``tol`` or less."""
    value = objective(theta)
    for _ in range(max_iter):
        step = step_from(theta)
        for _ in range(_MAX_HALVINGS):
            trial = objective(theta + step)
            if trial <= value:
                break
            step *= 0.5
        else:
            break
        gained, theta, value = value - trial, theta + step, trial
        if gained <= tol * max(1.0, abs(value)):
            break
    return theta


class LeastSquaresRefit:
    """Normal equations of the models' outputs, extended by one column at O(n m) per round.

    Parameters
    ----------
    y : ndarray of shape (n_samples,)
        Targets.
    weight : ndarray of shape (n_samples,)
        Sample weights.
    max_columns : int
        Largest number of columns.
    """

    def __init__(self, y: np.ndarray, weight: np.ndarray, max_columns: int) -> None:
        self.y, self.share = y, weight / weight.sum()
        self.gram = np.zeros((max_columns, max_columns))
        self.right = np.zeros(max_columns)
        self.n_columns = 0

    def add(self, Phi: np.ndarray) -> None:
        """Take in the columns of ``Phi`` that are not in the equations yet."""
        for j in range(self.n_columns, Phi.shape[1]):
            weighted = self.share * Phi[:, j]
            self.gram[j, : j + 1] = self.gram[: j + 1, j] = Phi[:, : j + 1].T @ weighted
            self.right[j] = self.y @ weighted
        self.n_columns = Phi.shape[1]

    def solve(self, ridge: np.ndarray) -> np.ndarray:
        """Coefficients that minimise the mean half squared error plus the ridge."""
        m = self.n_columns
        A = self.gram[:m, :m].copy()
        A[np.diag_indices(m)] += ridge
        return solve_semidefinite(A, self.right[:m], _NO_PIVOT)


@jit
def _quadratic_l1(H, g, theta, penalty, max_sweeps, tol):
    """Minimise ``g'd + d'Hd/2 + sum_j penalty_j |theta_j + d_j|`` over ``d`` by coordinates."""
    m = len(theta)
    new = theta.copy()
    slope = g.copy()  # gradient of the quadratic part at the current point
    for _ in range(max_sweeps):
        largest = 0.0
        for j in range(m):
            if H[j, j] <= 0.0:
                continue
            free = new[j] - slope[j] / H[j, j]
            limit = penalty[j] / H[j, j]
            if free > limit:
                value = free - limit
            elif free < -limit:
                value = free + limit
            else:
                value = 0.0
            change = value - new[j]
            if change != 0.0:
                for k in range(m):
                    slope[k] += change * H[j, k]
                new[j] = value
                largest = max(largest, abs(change) * np.sqrt(H[j, j]))
        if largest < tol:
            break
    return new
