"""Quantiles of weighted samples, such that a weight of two equals the value twice."""

import numpy as np


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
