r"""Weights of several models' class scores, by log loss.

With scores :math:`s^m_{ic}` of rows that model m did not see, the weights minimise the convex

.. math:: -\frac1n \sum_i \log \operatorname{softmax}\Big(\sum_m a_m s^m_i\Big)_{y_i}
          + \frac{\gamma}{2} |a|^2, \qquad a \ge 0.

The sum of a is one over the temperature, its shares are the weights of the models.
"""

import numpy as np
from scipy.special import log_softmax

_MAX_STEPS = 100
_MAX_HALVINGS = 40


def score_stacking_weights(
    scores: np.ndarray,
    codes: np.ndarray,
    share: np.ndarray,
    *,
    ridge: float,
    tol: float = 1e-9,
) -> np.ndarray:
    r"""Return a of least penalised log loss, by Newton's method on the weights that are free.

    Parameters
    ----------
    scores : ndarray of shape (n_models, n_rows, n_classes)
        Scores of rows that the models did not see.
    codes : ndarray of int of shape (n_rows,)
        Class of each row.
    share : ndarray of shape (n_rows,)
        Weights of the rows, of sum one.
    ridge : float
        :math:`\gamma > 0`; models that agree share their weight instead of trading it at random.
    tol : float, default=1e-9
        Largest violation of the optimality conditions.
    """
    n_models = len(scores)
    flat = scores.reshape(n_models, -1)
    a = np.full(n_models, 1.0 / n_models)
    value, proba = _loss(a, scores, codes, share, ridge)
    for _ in range(_MAX_STEPS):
        residual = proba.copy()
        residual[np.arange(len(codes)), codes] -= 1.0
        gradient = flat @ (share[:, None] * residual).ravel() + ridge * a
        free = (a > 0.0) | (gradient < 0.0)
        if np.abs(gradient[free]).max(initial=0.0) <= tol:
            break
        direction = np.zeros(n_models)
        curvature = _curvature(scores[free], proba, share) + ridge * np.eye(int(free.sum()))
        direction[free] = -np.linalg.solve(curvature, gradient[free])
        step = 1.0
        for _ in range(_MAX_HALVINGS):
            candidate = np.maximum(a + step * direction, 0.0)
            new_value, new_proba = _loss(candidate, scores, codes, share, ridge)
            if new_value <= value + 1e-4 * gradient @ (candidate - a):
                break
            step *= 0.5
        else:
            break
        a, value, proba = candidate, new_value, new_proba
    return a if a.any() else np.full(n_models, 1.0 / n_models)


def _loss(a, scores, codes, share, ridge) -> tuple[float, np.ndarray]:
    """Return the objective and the class probabilities."""
    log_proba = log_softmax(np.tensordot(a, scores, 1), axis=1)
    value = -share @ log_proba[np.arange(len(codes)), codes] + 0.5 * ridge * (a @ a)
    return float(value), np.exp(log_proba)


def _curvature(scores, proba, share) -> np.ndarray:
    """Return sum_i share_i (S_i diag(p_i) S_i' - (S_i p_i)(S_i p_i)')."""
    root = np.sqrt(share[:, None] * proba)
    spread = (scores * root).reshape(len(scores), -1)
    means = np.einsum("mnc,nc->mn", scores, proba) * np.sqrt(share)
    return spread @ spread.T - means @ means.T
