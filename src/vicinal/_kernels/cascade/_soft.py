"""Smooth cascades: the mixture likelihood of soft gates, and the surrogate of two regions."""

from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, log_softmax

from vicinal._kernels.cascade._hard import quantile_row
from vicinal._kernels.linear._regression import newton_logistic

_BLOCK_ROWS = 4096
_LN2 = np.log(2.0)


def gate_log_priors(gate_scores: np.ndarray) -> np.ndarray:
    """Return ``log pi_k(x)``, the log-probability of each region, from the gate scores.

    ``pi_k = [prod_{j<k} sig(h_j)] (1 - sig(h_k))`` with ``sig(h_r) = 0``.

    Parameters
    ----------
    gate_scores : ndarray of shape (n_samples, n_regions - 1)

    Returns
    -------
    log_priors : ndarray of shape (n_samples, n_regions)
    """
    n_samples, n_gates = gate_scores.shape
    log_priors = np.zeros((n_samples, n_gates + 1), dtype=gate_scores.dtype)
    log_pass = -np.logaddexp(0, -gate_scores)
    log_priors[:, 1:] = np.cumsum(log_pass, axis=1)
    log_priors[:, :-1] -= np.logaddexp(0, gate_scores)
    return log_priors


def unpack(theta: np.ndarray, n_regions: int, n_classes: int, n_features: int):
    """Split a parameter vector into region weights, region offsets, gate weights, gate offsets."""
    sizes = np.cumsum(
        [n_regions * n_classes * n_features, n_regions * n_classes, (n_regions - 1) * n_features]
    )
    coefs, intercepts, gates, gate_offsets = np.split(theta, sizes)
    return (
        coefs.reshape(n_regions, n_classes, n_features),
        intercepts.reshape(n_regions, n_classes),
        gates.reshape(n_regions - 1, n_features),
        gate_offsets,
    )


def mixture_loss_gradient(
    theta: np.ndarray,
    X: Any,
    codes: np.ndarray,
    weight: np.ndarray,
    n_regions: int,
    n_classes: int,
    alpha: float,
) -> tuple[float, np.ndarray]:
    r"""Return the penalised negative log-likelihood of the mixture and its gradient.

    .. math:: J_L = -\frac{1}{W} \sum_i w_i \ln \sum_k \pi_k(x_i)\, p_k(y_i | x_i)
              + \frac{\alpha}{2 W} \|\theta\|^2

    with :math:`W = \sum_i w_i`; offsets are not penalised. With
    :math:`\rho_k = \pi_k p_k(y) / \sum_m \pi_m p_m(y)` the gradient is
    :math:`\rho_k (p_k - e_y)` in the scores of region k and
    :math:`\rho_k\,\mathrm{sig}(h_k) - (1 - \mathrm{sig}(h_k)) \sum_{m>k} \rho_m` in gate score k.
    Matrix products run in the precision of ``X``.
    """
    n_features = X.shape[1]
    coefs, intercepts, gates, gate_offsets = unpack(theta, n_regions, n_classes, n_features)
    n_scores = n_regions * n_classes
    stacked = np.concatenate([coefs.reshape(n_scores, n_features), gates]).T.astype(X.dtype)
    offsets = np.concatenate([intercepts.reshape(-1), gate_offsets]).astype(X.dtype)
    total = float(weight.sum())

    loss = 0.0
    gradient = np.zeros((n_features, stacked.shape[1]))
    offset_gradient = np.zeros(stacked.shape[1])
    for start in range(0, X.shape[0], _BLOCK_ROWS):
        block = X[start : start + _BLOCK_ROWS]
        codes_block = codes[start : start + _BLOCK_ROWS]
        weight_block = weight[start : start + _BLOCK_ROWS].astype(X.dtype)
        rows = np.arange(block.shape[0])

        scores = block @ stacked + offsets
        log_p = log_softmax(scores[:, :n_scores].reshape(-1, n_regions, n_classes), axis=2)
        gate_scores = scores[:, n_scores:]
        joint = gate_log_priors(gate_scores) + log_p[rows, :, codes_block]
        top = joint.max(axis=1, keepdims=True)
        likelihood = top[:, 0] + np.log(np.exp(joint - top).sum(axis=1))
        loss -= float(weight_block @ likelihood)

        rho = np.exp(joint - likelihood[:, None]) * weight_block[:, None]  # (rows, n_regions)
        d_scores = np.empty_like(scores)
        p = np.exp(log_p, out=log_p)
        p[rows, :, codes_block] -= 1
        p *= rho[:, :, None]
        d_scores[:, :n_scores] = p.reshape(-1, n_scores)
        later = np.cumsum(rho[:, :0:-1], axis=1)[:, ::-1]  # sum of rho over the stages after k
        sig = expit(gate_scores)
        d_scores[:, n_scores:] = rho[:, :-1] * sig - (1 - sig) * later
        gradient += block.T @ d_scores
        offset_gradient += d_scores.sum(axis=0)

    penalised = np.concatenate([coefs.reshape(-1), gates.reshape(-1)])
    loss = (loss + 0.5 * alpha * float(penalised @ penalised)) / total
    gradient = gradient.T + alpha * np.concatenate([coefs.reshape(n_scores, n_features), gates])
    flat = np.concatenate(
        [
            gradient[:n_scores].reshape(-1),
            offset_gradient[:n_scores],
            gradient[n_scores:].reshape(-1),
            offset_gradient[n_scores:],
        ]
    )
    return loss, flat / total


def _mean_and_scale(values: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Return the mean of scores, and the factor that makes their standard deviation 2."""
    mean = float(np.average(values, weights=weight))
    spread = float(np.sqrt(np.average((values - mean) ** 2, weights=weight)))
    return mean, 2.0 / max(spread, 1e-12)


def fit_soft_cascade(
    X: Any,
    codes: np.ndarray,
    weight: np.ndarray,
    n_regions: int,
    n_classes: int,
    alpha: float,
    max_iter: int,
    tol: float,
    rng: np.random.RandomState,
) -> tuple[tuple[np.ndarray, ...], list[float], bool]:
    """Minimise the mixture loss by L-BFGS from random hyperplane gates.

    The gates start as random directions with scores of standard deviation 2, cut so that each
    stage keeps an equal share of what reaches it; the regions start near zero.

    Returns
    -------
    parameters : tuple (region weights, region offsets, gate weights, gate offsets)
    objectives : list of float, one value per iteration
    converged : bool
    """
    n_features = X.shape[1]
    gates = np.zeros((n_regions - 1, n_features))
    gate_offsets = np.zeros(n_regions - 1)
    reached = np.ones(X.shape[0], dtype=bool)
    for k in range(n_regions - 1):
        direction = rng.standard_normal(n_features)
        values = np.asarray(X @ direction, dtype=np.float64)
        cut, scale = _mean_and_scale(values, weight)
        rows = np.flatnonzero(reached)
        if len(rows):
            cut = values[rows[quantile_row(values[rows], weight[rows], 1.0 / (n_regions - k))]]
        gates[k], gate_offsets[k] = scale * direction, -scale * cut
        reached &= values > cut
    coefs = 0.01 * rng.standard_normal((n_regions, n_classes, n_features))
    theta = np.concatenate(
        [coefs.reshape(-1), np.zeros(n_regions * n_classes), gates.reshape(-1), gate_offsets]
    )
    objectives: list[float] = []
    solution = minimize(
        mixture_loss_gradient,
        theta,
        args=(X, codes, weight, n_regions, n_classes, alpha),
        jac=True,
        method="L-BFGS-B",
        callback=lambda intermediate_result: objectives.append(float(intermediate_result.fun)),
        options={"maxiter": max_iter, "maxcor": 20, "maxfun": 3 * max_iter, "gtol": tol, "ftol": 0},
    )
    parameters = unpack(solution.x, n_regions, n_classes, n_features)
    return parameters, objectives, bool(solution.status == 0)


# --- the global surrogate of two regions, equation (3) of the paper ---


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
    mean, scale = _mean_and_scale(values, weight)
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
