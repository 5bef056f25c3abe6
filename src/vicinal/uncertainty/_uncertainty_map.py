"""Uncertainty of nearest-neighbour classification at every row."""

from numbers import Integral, Real
from typing import Any

import array_api_compat as compat
import numpy as np
from sklearn.utils import check_array, check_consistent_length, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from vicinal._base import as_numpy, check_rows, check_weights, row_blocks
from vicinal._base._compat import Interval, StrOptions, validate_params
from vicinal._kernels.metric._uncertainty import (
    class_bounds,
    mean_neighbor_distance,
    neighbor_uncertainty,
)
from vicinal.neighbors import NeighborSearch

_SCALE_NEIGHBOR = 7
# A neighbour search is used for at most this share of all rows; else all pairs are compared.
_SEARCHED_SHARE = 1 / 16
# Distances this close to the last neighbour's, relatively, are tied with it.
_TIE = 1e-10
_TINY = float(np.finfo(np.float64).tiny)


@validate_params(
    {
        "n_neighbors": [StrOptions({"class"}), Interval(Integral, 1, None, closed="left"), None],
        "bandwidth": [StrOptions({"auto"}), Interval(Real, 0, None, closed="neither")],
        "sample_weight": ["array-like", None],
        "n_jobs": [Integral, None],
    },
    prefer_skip_nested_validation=True,
)
def uncertainty_map(
    X: Any,
    y: Any,
    *,
    n_neighbors: str | int | None = "class",
    bandwidth: str | float = "auto",
    sample_weight: Any = None,
    n_jobs: int | None = None,
) -> Any:
    r"""Uncertainty of nearest-neighbour classification at each training row.

    The uncertainty of a row is the share of its neighbours, weighted by similarity, that belong to
    other classes: 0 inside a class, near 0.5 on a border between two classes, near 1 for a row
    surrounded by another class. Distances are Euclidean, so scale the features first.

    Parameters
    ----------
    X : array-like or array of another library, of shape (n_samples, n_features)
        Training rows. For a torch tensor (or any array of the array-API standard) the result is
        computed on the same device and returned as an array of the same library.
    y : array-like of shape (n_samples,)
        Labels.
    n_neighbors : "class", int or None, default="class"
        Number of neighbours. ``"class"``: as many as the row's class has rows, as in [1]_;
        ``None``: all rows. More than ``n_samples - 1`` means all. Neighbours at the same distance
        as the last one are included.
    bandwidth : "auto" or float, default="auto"
        The :math:`\sigma` of the similarity. ``"auto"``: :math:`\sigma^2` is the mean squared
        distance of a row to its seventh neighbour.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows as neighbours; a row of weight 0 is not a neighbour of any row. No row
        is its own neighbour, whatever its weight.
    n_jobs : int, default=None
        Number of threads. ``None`` is 1 unless in a :func:`joblib.parallel_config` context, ``-1``
        is every core. Results do not depend on it.

    Returns
    -------
    array of shape (n_samples,)
        The uncertainty of each row, in [0, 1].

    See Also
    --------
    ResponsibilityMixture : Gaussian mixture weighted by uncertainty.

    Notes
    -----
    With :math:`s_{ij} = \exp(-\|x_i - x_j\|^2 / \sigma^2)` and :math:`N_i` the neighbours of row
    :math:`i`, itself excluded,

    .. math:: u_i = \sum_{j \in N_i,\, c_j \ne c_i} s_{ij} \Big/ \sum_{j \in N_i} s_{ij},

    equation (1) of [1]_ with its numerator over the *other* classes, as its text has it. The
    smallest distance of a row is subtracted in the exponent, so that a very small bandwidth gives
    the class of the nearest neighbour rather than 0/0. A small number of neighbours is found by
    :class:`~vicinal.neighbors.NeighborSearch`; otherwise (and on a device) all pairs are compared,
    in blocks of rows within scikit-learn's ``working_memory``.

    References
    ----------
    .. [1] J. Dai, S. Yan, X. Tang and J. T. Kwok, "Locally adaptive classification piloted by
       uncertainty", ICML 2006, section 2.1.

    Examples
    --------
    >>> import numpy as np
    >>> from vicinal.uncertainty import uncertainty_map
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]])
    >>> uncertainty_map(X, [0, 0, 0, 1, 1, 1], n_neighbors=2, bandwidth=1.0).round(2)
    array([0. , 0. , 0.5, 0.5, 0. , 0. ])
    """
    X = check_rows(X)
    if y is None:
        raise ValueError("uncertainty_map requires y to be passed, but the target y is None.")
    y = check_array(as_numpy(y), ensure_2d=False, dtype=None, input_name="y")
    y = column_or_1d(y, warn=True)
    check_consistent_length(X, y)
    check_classification_targets(y)
    weights = check_weights(
        None if sample_weight is None else as_numpy(sample_weight), np.empty((len(y), 1))
    )
    codes = np.unique(y, return_inverse=True)[1]
    return uncertainty_of(X, codes, weights, n_neighbors, bandwidth, n_jobs)


def uncertainty_of(X, codes, weights, n_neighbors="class", bandwidth="auto", n_jobs=None):
    """Return the uncertainty of validated rows; ``codes`` and ``weights`` are NumPy arrays."""
    xp, device = compat.array_namespace(X), compat.device(X)
    n_classes = int(codes.max()) + 1
    sizes = np.bincount(codes[weights > 0], minlength=n_classes)
    n_others = int(sizes.sum()) - 1
    if n_others < 1:
        return xp.zeros(X.shape[0], dtype=X.dtype, device=device)
    few = isinstance(n_neighbors, Integral) and n_neighbors <= _SEARCHED_SHARE * n_others
    if few and isinstance(X, np.ndarray):
        return _uncertainty_by_search(X, codes, weights, int(n_neighbors), bandwidth, n_jobs)
    order = np.argsort(codes, kind="stable")
    rows = xp.astype(xp.take(X, xp.asarray(order, device=device), axis=0), xp.float64)
    rows = rows - xp.mean(rows, axis=0)
    weights = xp.asarray(weights[order], dtype=xp.float64, device=device)
    if bandwidth == "auto":
        k = min(_SCALE_NEIGHBOR, n_others)
        bandwidth2 = mean_neighbor_distance(rows, k, weights, n_jobs=n_jobs)
    else:
        bandwidth2 = float(bandwidth) ** 2
    if n_neighbors == "class":
        counts = np.clip(sizes, 1, n_others)
    else:
        counts = np.full(n_classes, min(n_neighbors or n_others, n_others))
    u = neighbor_uncertainty(
        rows,
        class_bounds(codes[order], n_classes),
        counts,
        max(bandwidth2, _TINY),
        weights,
        n_jobs=n_jobs,
    )
    return xp.astype(xp.take(u, xp.asarray(np.argsort(order), device=device)), X.dtype)


def _uncertainty_by_search(X, codes, weights, n_neighbors, bandwidth, n_jobs):
    """Return the uncertainty of rows on the host from a search for few neighbours of each."""
    rows = X.astype(np.float64)
    voters = np.flatnonzero(weights > 0)
    own = np.full(len(rows), -1)
    own[voters] = np.arange(len(voters))
    search = NeighborSearch(n_jobs=n_jobs).fit(rows[voters])
    if bandwidth == "auto":
        reach = search.kneighbors(n_neighbors=min(_SCALE_NEIGHBOR, len(voters) - 1))[0][:, -1]
        bandwidth2 = float(np.average(reach**2, weights=weights[voters]))
    else:
        bandwidth2 = float(bandwidth) ** 2
    u = np.empty(len(rows))
    for block in row_blocks(len(rows), 64 * n_neighbors):
        queries, exclude = rows[block], own[block]
        distances, _ = search.kneighbors(queries, n_neighbors, exclude=exclude)
        found = search.radius_neighbors(queries, distances[:, -1] * (1 + _TIE), exclude=exclude)
        sizes = np.diff(found.indptr)
        with np.errstate(over="ignore"):
            exponents = np.repeat(distances[:, 0] ** 2, sizes) - found.distances**2
            similarity = np.exp(exponents / max(bandwidth2, _TINY))
        similarity *= weights[voters][found.indices]
        foreign = codes[voters][found.indices] != np.repeat(codes[block], sizes)
        others, everyone = (
            np.add.reduceat(values, found.indptr[:-1])
            for values in (similarity * foreign, similarity)
        )
        u[block] = others / everyone
    return u.astype(X.dtype)
