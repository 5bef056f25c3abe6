"""The capacity of a linear cascade."""

from numbers import Integral

import numpy as np

from vicinal._base._compat import Interval, validate_params


@validate_params(
    {
        "n_regions": [Interval(Integral, 1, None, closed="left")],
        "n_features": [Interval(Integral, 1, None, closed="left")],
    },
    prefer_skip_nested_validation=True,
)
def vc_bound(n_regions: int, n_features: int) -> float:
    r"""Bound the VC dimension of a cascade of linear rejects over linear binary classifiers.

    Parameters
    ----------
    n_regions : int
        Number of regions, at least 1.
    n_features : int
        Number of features, at least 1.

    Returns
    -------
    bound : float
        An upper bound on the number of points that such cascades can label in every way.

    Notes
    -----
    A cascade of ``r`` regions is a Boolean function of :math:`K = 2r - 1` half-spaces of
    :math:`d` features. Theorem 2.4 of [1]_ gives

    .. math:: 2 K \log_2(e K) (d + 1).

    The logarithm has base 2: Sauer's lemma allows :math:`(em / (d + 1))^{K (d + 1)}` labelings of
    :math:`m` points, which falls below :math:`2^m` at the stated :math:`m` exactly when
    :math:`eK > 2 \log_2(eK)`, true for :math:`K \ge 3`; with the natural logarithm the argument
    fails for K = 3, 5 and 9. One region is one half-space, of VC dimension :math:`d + 1`.

    References
    ----------
    .. [1] J. Wang and V. Saligrama, "Local Supervised Learning through Space Partitioning",
       Advances in Neural Information Processing Systems 25, 2012.

    Examples
    --------
    >>> from vicinal.partition import vc_bound
    >>> [round(vc_bound(n_regions, 16)) for n_regions in (1, 2, 5)]
    [17, 309, 1411]
    """
    if n_regions == 1:
        return float(n_features + 1)
    n_half_spaces = 2 * n_regions - 1
    return float(2 * n_half_spaces * np.log2(np.e * n_half_spaces) * (n_features + 1))
