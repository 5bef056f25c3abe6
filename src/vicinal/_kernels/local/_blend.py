"""Blending of stored linear models: a weighted average of planes, each with its own origin."""

from vicinal._kernels._jit import fast_jit


@fast_jit
def blend_values(indptr, indices, weights, Q, origins, values, slopes, out):
    """Write sum_j v_j (a_j + B_j (q - o_j)) / sum_j v_j for every query, (n_queries, n_outputs).

    The models that speak for query t are ``indices[indptr[t]:indptr[t + 1]]``, with weights v_j;
    ``values`` holds a_j (n_models, n_outputs), ``slopes`` B_j (n_models, n_outputs, d).
    """
    d = Q.shape[1]
    for t in range(indptr.shape[0] - 1):
        total = 0.0
        for c in range(out.shape[1]):
            out[t, c] = 0.0
        for e in range(indptr[t], indptr[t + 1]):
            j = indices[e]
            w = weights[e]
            total += w
            for c in range(out.shape[1]):
                value = values[j, c]
                row = slopes[j, c]
                for a in range(d):
                    value += row[a] * (Q[t, a] - origins[j, a])
                out[t, c] += w * value
        for c in range(out.shape[1]):
            out[t, c] /= total


@fast_jit
def blend_slopes(indptr, indices, weights, slopes, out):
    """Write sum_j v_j B_j / sum_j v_j for every query, shape (n_queries, n_outputs, d)."""
    for t in range(indptr.shape[0] - 1):
        total = 0.0
        out[t] = 0.0
        for e in range(indptr[t], indptr[t + 1]):
            j = indices[e]
            w = weights[e]
            total += w
            for c in range(out.shape[1]):
                for a in range(out.shape[2]):
                    out[t, c, a] += w * slopes[j, c, a]
        for c in range(out.shape[1]):
            for a in range(out.shape[2]):
                out[t, c, a] /= total
