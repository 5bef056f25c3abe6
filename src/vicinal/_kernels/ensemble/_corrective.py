"""Members as features: all coefficients at once, with a ridge or an L1 penalty (equation 12).

Scores are linear in the coefficients, ``F = Phi theta``. With one score per sample ``Phi`` is
(n_samples, n_columns); with ``K`` scores it is (n_samples * K, n_columns), the samples running
fastest, so that a column is one member's output raveled in Fortran order.
"""

from typing import Any

import numpy as np
from scipy import linalg

from vicinal._kernels._jit import jit

_MAX_HALVINGS = 30


def _scores(Phi, theta, n_samples):
    score = Phi @ theta
    return score if len(score) == n_samples else score.reshape((n_samples, -1), order="F")


def objective(loss: Any, y, share, Phi, theta, ridge) -> float:
    """Mean loss plus ``ridge_j theta_j^2 / 2`` summed over the coefficients."""
    score = _scores(Phi, theta, len(y))
    return float(share @ loss.value(y, score)) + 0.5 * float(ridge @ theta**2)


def derivatives(loss: Any, y, share, Phi, theta) -> tuple[np.ndarray, np.ndarray]:
    """Gradient and second derivative of the mean loss in the coefficients."""
    n_samples = len(y)
    score = _scores(Phi, theta, n_samples)
    if score.ndim == 1:
        gradient = Phi.T @ (share * loss.gradient(y, score))
        hessian = Phi.T @ ((share * loss.hessian(y, score))[:, None] * Phi)
        return gradient, hessian
    gradient = Phi.T @ (share[:, None] * loss.gradient(y, score)).ravel(order="F")
    probability = loss.probability(score)
    weighted = (share[:, None] * probability).ravel(order="F")[:, None] * Phi
    n_scores = score.shape[1]
    mean = weighted.reshape((n_scores, n_samples, -1)).sum(axis=0)  # share_i E_i[Phi]
    hessian = Phi.T @ weighted - mean.T @ (mean / share[:, None])
    return gradient, hessian


def _solve(A, b):
    """Solve a symmetric system; identical members make it singular, then the shortest answer."""
    try:
        factor = linalg.cho_factor(A)
    except linalg.LinAlgError:
        return linalg.lstsq(A, b, cond=1e-13)[0]
    # Cholesky passes on an exactly dependent column with a pivot of the size of rounding.
    pivots = np.diag(factor[0])
    if pivots.min() <= 1e-7 * pivots.max():
        return linalg.lstsq(A, b, cond=1e-13)[0]
    return linalg.cho_solve(factor, b)


def corrective_coefficients(
    loss: Any,
    y: np.ndarray,
    weight: np.ndarray,
    Phi: np.ndarray,
    start: np.ndarray,
    ridge: np.ndarray,
    *,
    max_iter: int = 50,
    tol: float = 1e-10,
) -> np.ndarray:
    """Minimise the mean loss plus the ridge over all coefficients by damped Newton steps."""
    share = weight / weight.sum()
    theta = start.copy()
    value = objective(loss, y, share, Phi, theta, ridge)
    for _ in range(max_iter):
        gradient, hessian = derivatives(loss, y, share, Phi, theta)
        gradient += ridge * theta
        hessian[np.diag_indices_from(hessian)] += ridge
        step = -_solve(hessian, gradient)
        if -gradient @ step <= tol * max(1.0, abs(value)):
            theta_next = theta + step
            if objective(loss, y, share, Phi, theta_next, ridge) <= value:
                theta = theta_next
            break
        for _ in range(_MAX_HALVINGS):
            trial = objective(loss, y, share, Phi, theta + step, ridge)
            if trial <= value:
                break
            step *= 0.5
        else:
            break
        theta, value = theta + step, trial
    return theta


class LeastSquaresRefit:
    """Normal equations of the members' outputs, grown by one column at O(n m) a round.

    Parameters
    ----------
    y : ndarray of shape (n_samples,)
        Targets.
    weight : ndarray of shape (n_samples,)
        Sample weights.
    max_columns : int
        Number of columns that will come at most.
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
        return _solve(A, self.right[:m])


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


def l1_path(
    loss: Any,
    y: np.ndarray,
    weight: np.ndarray,
    Phi: np.ndarray,
    n_free: int,
    penalties: np.ndarray,
    start: np.ndarray,
    *,
    max_iter: int = 25,
    tol: float = 1e-7,
) -> np.ndarray:
    """Coefficients for each of a falling sequence of L1 penalties, (n_penalties, n_columns).

    Minimises the mean loss plus ``penalty * sum_{j >= n_free} |theta_j|`` by proximal Newton steps,
    each solved by coordinate descent, from the previous penalty's answer.
    """
    share = weight / weight.sum()
    none = np.zeros(Phi.shape[1])
    theta, path = start.astype(np.float64), []
    is_quadratic = getattr(loss, "is_quadratic", False)
    hessian = derivatives(loss, y, share, Phi, theta)[1]
    for penalty in penalties:
        charge = np.full(Phi.shape[1], penalty)
        charge[:n_free] = 0.0
        value = objective(loss, y, share, Phi, theta, none) + charge @ np.abs(theta)
        for _ in range(max_iter):
            if is_quadratic:
                score = _scores(Phi, theta, len(y))
                gradient, H = Phi.T @ (share * loss.gradient(y, score)), hessian
            else:
                gradient, H = derivatives(loss, y, share, Phi, theta)
            step = _quadratic_l1(H, gradient, theta, charge, 500, 1e-3 * tol) - theta
            for _ in range(_MAX_HALVINGS):
                candidate = theta + step
                trial = objective(loss, y, share, Phi, candidate, none)
                trial += charge @ np.abs(candidate)
                if trial <= value:
                    break
                step *= 0.5
            else:
                break
            gained, theta, value = value - trial, candidate, trial
            if gained <= tol * max(1.0, abs(value)):
                break
        path.append(theta)
    return np.array(path)


def largest_useful_penalty(loss: Any, y, weight, Phi, n_free: int, start) -> float:
    """Return the smallest L1 penalty that leaves only the free coefficients, those of ``start``."""
    share = weight / weight.sum()
    gradient, _ = derivatives(loss, y, share, Phi, start)
    return float(np.abs(gradient[n_free:]).max(initial=0.0))
