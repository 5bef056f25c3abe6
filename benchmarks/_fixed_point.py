"""Published iterations to points of a decision surface (Brown and Benton), corrected.

The local model is refitted at the moving point y (as printed it stays at q), the projection along a
ray carries its offset, and in Algorithm 3 the normal is oriented and scaled like y - q. The normal
is that of the local model with its weights held fixed. For small bandwidths the iterations cycle.
"""

import numpy as np

from vicinal._kernels.surface._roots import norms


def fixed_point(local, Q, rows, V=None, *, tol, max_iter=100):
    """Project y onto the decision surface of the local model at y until it rests (Algorithm 1).

    With ``V``, along the rays q + t v (Algorithm 2).
    """
    Y = Q.copy()
    converged = np.zeros(len(Q), dtype=bool)
    active = np.arange(len(Q))
    for _ in range(max_iter):
        if not active.size:
            break
        F, N = local(Y[active], rows[active])
        direction = N if V is None else V[active]
        with np.errstate(all="ignore"):
            share = F / np.einsum("ij,ij->i", N, direction)
            move = share[:, None] * direction
        good = np.isfinite(move).all(axis=1) & (norms(move) < 1e6 * (1.0 + norms(Q[active])))
        done = good & (norms(move) <= tol)
        Y[active[good]] -= move[good]
        converged[active[done]] = True
        active = active[good & ~done]
    return Y, converged


def fixed_point_nearest(local, Q, rows, *, tol, alpha=0.5, max_iter=50):
    """Turn the ray from q towards the normal until it is orthogonal to the surface (Algorithm 3).

    Where an inner search misses the surface, Algorithm 1 is applied to its result.
    """
    Y, on_surface = fixed_point(local, Q, rows, tol=tol)
    converged = np.zeros(len(Q), dtype=bool)
    active = np.flatnonzero(on_surface)
    for _ in range(max_iter):
        if not active.size:
            break
        _, N = local(Y[active], rows[active])
        offset = Y[active] - Q[active]
        length, size = norms(offset), norms(N)
        side = np.where(np.einsum("ij,ij->i", offset, N) < 0.0, -1.0, 1.0)
        unit = N / np.where(size > 0.0, size, 1.0)[:, None]
        V = (1.0 - alpha) * offset + alpha * (side * length)[:, None] * unit
        Z, found = fixed_point(local, Q[active], rows[active], V, tol=tol)
        lost = np.flatnonzero(~found)
        if lost.size:
            finite = np.isfinite(Z[lost]).all(axis=1)
            Z[lost[~finite]] = Y[active[lost[~finite]]]
            Z[lost], found[lost] = fixed_point(local, Z[lost], rows[active[lost]], tol=tol)
        moved = norms(Z - Y[active])
        Y[active] = np.where(found[:, None], Z, Y[active])
        rest = found & (moved <= np.maximum(tol, 1e-6 * length))
        converged[active[rest]] = True
        active = active[found & ~rest]
    return Y, converged
