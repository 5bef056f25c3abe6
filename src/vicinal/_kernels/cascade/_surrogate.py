"""The global surrogate of a two-region cascade: value, and alternation of exact minimisers."""

import numpy as np

from vicinal._kernels.linear._regression import newton_logistic

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
            # In units of the natural logarithm.
            thetas[block] = newton_logistic(Z, positive, negative, thetas[block], _LN2 * alpha)
            scores[block] = Z @ thetas[block]
            objectives.append(surrogate_value(scores, signs, weight, thetas, alpha))
        if before - objectives[-1] <= tol * abs(before):
            converged = True
            break
    return thetas, objectives, converged
