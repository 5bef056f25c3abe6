r"""Votes of rows by their distance: s = softmax_j(log w_j - |q - v_j|), p = sum_j s_j y_j.

The loss of one query is -log(p_y + 1e-7) for classes (y one-hot) or (p - y)^2 for numbers. With
r = dloss/dp the derivative with respect to a distance D_j is -s_j (r . y_j - r . p), and through
dD/dq = (q - v) / D it reaches both ends. At distance zero there is no direction; zero is taken.
"""

from typing import Any

from array_api_compat import device

from vicinal._base import namespace

_FAR = 1e30
_FLOOR = 1e-7


def distances(Q: Any, V: Any) -> Any:
    """Return |q - v| (n_nets, q, n); zero where it is no more than rounding."""
    xp = namespace(Q)
    norms_q, norms_v = xp.sum(Q * Q, axis=2), xp.sum(V * V, axis=2)
    D = xp.matmul(-2.0 * Q, xp.permute_dims(V, (0, 2, 1)))
    D += norms_q[:, :, None]
    D += norms_v[:, None, :]
    floor = 8.0 * float(xp.finfo(Q.dtype).eps)
    D *= D > floor * norms_q[:, :, None]
    return xp.sqrt(D)


def shares(D: Any, log_weights: Any, *, skip_own: bool = False) -> Any:
    """Return softmax(log w - D) over the voters, the last axis.

    With ``skip_own`` voter i is query i for the first voters, and is left out.
    """
    xp = namespace(D)
    S = log_weights[:, None, :] - D
    if skip_own:
        q = D.shape[1]
        S[:, :, :q] -= _FAR * xp.eye(q, dtype=D.dtype, device=device(D))
    S -= xp.max(S, axis=2, keepdims=True)
    S = xp.exp(S)
    S /= xp.sum(S, axis=2, keepdims=True)
    return S


def loss_of_votes(p: Any, Y: Any, weights: Any, *, classes: bool) -> tuple[Any, Any]:
    """Return the weighted mean loss of each net and its derivative by the answers p."""
    xp = namespace(p)
    total = xp.sum(weights, axis=1)
    share = (weights / total[:, None])[:, :, None]
    if classes:
        right = xp.sum(p * Y, axis=2, keepdims=True) + _FLOOR
        return -xp.sum(share * xp.log(right), axis=(1, 2)), -share * Y / right
    residual = p - Y
    loss = xp.sum(share * residual * residual, axis=(1, 2))
    return loss, 2.0 * share * residual


def vote_gradient(Q: Any, V: Any, Y: Any, S: Any, D: Any, p: Any, d_p: Any) -> tuple[Any, Any]:
    """Return the derivatives of the loss by queries and by voters, from dloss/dp (n_nets, q, c)."""
    xp = namespace(Q)
    # s_j (r . y_j - r . p) / D_j; where D_j is zero, so is the difference that it multiplies.
    C = xp.matmul(d_p, xp.permute_dims(Y, (0, 2, 1)))
    C -= xp.sum(d_p * p, axis=2, keepdims=True)
    C *= S
    C /= D + (D == 0.0)
    d_q = xp.matmul(C, V)
    d_q -= xp.sum(C, axis=2)[:, :, None] * Q
    d_v = xp.matmul(xp.permute_dims(C, (0, 2, 1)), Q)
    d_v -= xp.sum(C, axis=1)[:, :, None] * V
    return d_q, d_v
