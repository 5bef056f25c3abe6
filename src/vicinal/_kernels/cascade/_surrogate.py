"""The global surrogate of a two-region cascade: value, exact block minimisers, alternation."""

import numpy as np
from scipy.linalg import solve
from scipy.special import expit

_LN2 = np.log(2.0)


def phi(z: np.ndarray) -> np.ndarray:
    """Return the logistic loss in base 2, ``log2(1 + exp(-z))``, which bounds ``1{z <= 0}``."""
    return np.logaddexp(0.0, -z) / _LN2


def surrogate_value(
    scores: np.ndarray, signs: np.ndarray, weight: np.ndarray, thetas: np.ndarray, alpha: float
) -> float:
    """Return the penalised surrogate, equation (3) of the paper.

    Parameters
    ----------
    scores : ndarray of shape (3, n_samples)
        Scores of the gate, of region 0 and of region 1.
    signs : ndarray of shape (n_samples,)
        Labels, -1 or 1.
    weight : ndarray of shape (n_samples,)
        Sample weights.
    thetas : ndarray of shape (3, n_features + 1)
        Weights, the offset last.
    alpha : float
        Ridge penalty, offsets free.
    """
    gate, first, second = scores
    losses = phi(gate) * phi(signs * first) + phi(-gate) * phi(signs * second)
    penalty = 0.5 * alpha * float(np.sum(thetas[:, :-1] ** 2))
    return (float(weight @ losses) + penalty) / float(weight.sum())


def minimise_block(
    Z: np.ndarray,
    positive: np.ndarray,
    negative: np.ndarray,
    theta: np.ndarray,
    alpha: float,
    tol: float = 1e-10,
    max_iter: int = 100,
) -> np.ndarray:
    r"""Minimise a weighted logistic loss by Newton's method from ``theta``.

    .. math:: \sum_i a_i \phi(z_i^\top\theta) + b_i \phi(-z_i^\top\theta)
              + \tfrac{\alpha}{2}\|\theta_{1..d}\|^2

    with ``a`` = ``positive``, ``b`` = ``negative`` and the offset, last in ``theta``, free: Lemma
    2.2 for the gate, and a weighted fit of the labels for a region. The value never rises; a step
    that rounding keeps from lowering it ends the search.
    """
    ridge = np.full(len(theta), alpha)
    ridge[-1] = 0.0

    def value(theta, scores):
        losses = positive @ phi(scores) + negative @ phi(-scores)
        return float(losses + 0.5 * theta @ (ridge * theta))

    scores = Z @ theta
    current = value(theta, scores)
    for _ in range(max_iter):
        sig = expit(scores)
        gradient = Z.T @ (negative * sig - positive * (1 - sig)) / _LN2 + ridge * theta
        curvature = (positive + negative) * sig * (1 - sig) / _LN2
        hessian = (Z * curvature[:, None]).T @ Z
        hessian[np.diag_indices_from(hessian)] += ridge + 1e-12 * (1 + curvature.sum())
        step = -solve(hessian, gradient, assume_a="pos")
        decrement = -float(gradient @ step)
        if decrement <= tol * (1.0 + abs(current)):
            break
        step_scores = Z @ step
        length = 1.0
        while length > 1e-10:
            trial_scores = scores + length * step_scores
            trial = value(theta + length * step, trial_scores)
            if trial <= current - 1e-4 * length * decrement:
                break
            length *= 0.5
        else:
            break
        theta = theta + length * step
        # Fresh product: accumulated scores would drift away from theta.
        scores, current = Z @ theta, trial
    return theta


def alternate_blocks(
    Z: np.ndarray,
    signs: np.ndarray,
    weight: np.ndarray,
    alpha: float,
    max_iter: int,
    tol: float,
    rng: np.random.RandomState,
) -> tuple[np.ndarray, list[float], bool]:
    """Minimise the surrogate over region 0, region 1 and the gate in turn.

    The gate starts as a random direction (scores of standard deviation 2): the symmetric start
    ``h = 0`` is a stationary point that the alternation cannot leave.

    Returns
    -------
    thetas : ndarray of shape (3, n_features + 1)
        Gate, region 0, region 1.
    objectives : list of float
        The value at the start and after every block step.
    converged : bool
    """
    n_features = Z.shape[1] - 1
    thetas = np.zeros((3, n_features + 1))
    direction = rng.standard_normal(n_features)
    values = Z[:, :-1] @ direction
    mean = float(np.average(values, weights=weight))
    spread = float(np.sqrt(np.average((values - mean) ** 2, weights=weight)))
    scale = 2.0 / max(spread, 1e-12)
    thetas[0, :-1], thetas[0, -1] = scale * direction, -scale * mean

    plus, minus = weight * (signs > 0), weight * (signs < 0)
    scores = (Z @ thetas.T).T
    objectives = [surrogate_value(scores, signs, weight, thetas, alpha)]
    converged = False
    for _ in range(max_iter):
        before = objectives[-1]
        for block in (1, 2, 0):
            if block == 0:
                positive, negative = (
                    weight * phi(signs * scores[1]),
                    weight * phi(signs * scores[2]),
                )
            else:
                share = phi(scores[0] if block == 1 else -scores[0])
                positive, negative = plus * share, minus * share
            thetas[block] = minimise_block(Z, positive, negative, thetas[block], alpha)
            scores[block] = Z @ thetas[block]
            objectives.append(surrogate_value(scores, signs, weight, thetas, alpha))
        if before - objectives[-1] <= tol * abs(before):
            converged = True
            break
    return thetas, objectives, converged
