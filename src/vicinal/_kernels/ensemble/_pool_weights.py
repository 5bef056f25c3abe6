r"""Weights of a linear pool by log loss, with a little of equal weights.

With :math:`q_{im} > 0` the probability that member m gave to the class of row i, the weights
minimise the convex

.. math:: -\sum_i s_i \log \sum_m a_m q_{im} + \sum_m a_m + \frac{\gamma}{2} |a|^2, \qquad a \ge 0.

Without the penalty the sum of a is one at the minimum; with it, members that agree share their
weight instead of trading it at random, and a is scaled to sum one.
"""

import numpy as np

_MAX_STEPS = 100
_MAX_HALVINGS = 40


def pool_weights(
    density: np.ndarray, share: np.ndarray, *, ridge: float, tol: float = 1e-9
) -> np.ndarray:
    r"""Return weights of sum one, by Newton's method on those that are free.

    Parameters
    ----------
    density : ndarray of shape (n_rows, n_members)
        Probability of each row's class under each member, positive.
    share : ndarray of shape (n_rows,)
        Weights of the rows, of sum one.
    ridge : float
        :math:`\gamma \ge 0`.
    tol : float, default=1e-9
        Largest violation of the optimality conditions.
    """
    n_members = density.shape[1]
    # Scaled row by row, densities cannot underflow; the minimum does not move.
    density = density / density.max(axis=1, keepdims=True)

    def objective(a):
        mixed = density @ a
        if mixed.min() <= 0.0:
            return np.inf
        return float(-share @ np.log(mixed) + a.sum() + 0.5 * ridge * (a @ a))

    a = np.full(n_members, 1.0 / n_members)
    value = objective(a)
    for _ in range(_MAX_STEPS):
        ratio = density / (density @ a)[:, None]
        gradient = 1.0 - share @ ratio + ridge * a
        free = (a > 0.0) | (gradient < 0.0)
        if np.abs(gradient[free]).max(initial=0.0) <= tol:
            break
        part = ratio[:, free]
        curvature = part.T @ (share[:, None] * part)
        # Copies of a member make it singular; a trace of the identity chooses among them.
        floor = max(ridge, 1e-10 * np.trace(curvature))
        direction = np.zeros(n_members)
        direction[free] = -np.linalg.solve(
            curvature + floor * np.eye(len(curvature)), gradient[free]
        )
        step = 1.0
        for _ in range(_MAX_HALVINGS):
            candidate = np.maximum(a + step * direction, 0.0)
            new_value = objective(candidate)
            if new_value <= value + 1e-4 * gradient @ (candidate - a):
                break
            step *= 0.5
        else:
            break
        a, value = candidate, new_value
    return a / a.sum()
