"""Gaussian mixtures of weighted rows by penalised EM, and Fisher's criterion on gated features."""

from collections.abc import Callable, Iterable
from functools import reduce
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np
from scipy.linalg import eigh

from vicinal._base import row_blocks
from vicinal._kernels.linear._covariance import lda_statistics, statistics_means, within_covariance

COVARIANCE_TYPES = ("full", "tied", "diag", "spherical")


class Components(NamedTuple):
    """Parameters of a mixture.

    ``covariances`` are (K, m, m), (m, m), (K, m) or (K,) for full, tied, diag and spherical;
    ``precision_roots`` are of the same shape, with ``precision = root @ root.T``.
    """

    weights: Any
    means: Any
    covariances: Any
    precision_roots: Any


class Moments(NamedTuple):
    """What an M-step needs: weights, first and second moments about the current means."""

    objective: float
    counts: Any  # (K,)
    first: Any  # (K, m)
    second: Any  # (K, m, m) for full, else (K, m); None for tied, where the E-step plays no part


# --- densities ------------------------------------------------------------------------------------


def precision_roots(covariances: Any, covariance_type: str, xp: Any) -> Any:
    """Square roots of the inverse covariances."""
    if covariance_type in ("diag", "spherical"):
        if not bool(xp.all(covariances > 0)):
            raise ValueError(_COLLAPSE)
        return 1.0 / xp.sqrt(covariances)
    try:
        lower = xp.linalg.cholesky(covariances)
        return xp.matrix_transpose(xp.linalg.inv(lower))
    except (np.linalg.LinAlgError, RuntimeError) as error:
        raise ValueError(_COLLAPSE) from error


_COLLAPSE = (
    "a component collapsed: its covariance is not positive definite. Raise reg_covar, lower "
    "n_components, or choose a smaller covariance_type ('tied', 'diag')."
)


def log_densities(X: Any, components: Components, covariance_type: str) -> Any:
    """``log(w_k N(x; m_k, S_k))`` of each row and component: (n_samples, K)."""
    xp = compat.array_namespace(X)
    n_features = X.shape[1]
    densities = []
    for k in range(components.means.shape[0]):
        root = components.precision_roots
        root = root if covariance_type == "tied" else root[k, ...]
        difference = X - components.means[k, :][None, :]
        if root.ndim == 2:
            difference, scales = difference @ root, xp.linalg.diagonal(root)
        else:
            difference, scales = difference * root, xp.broadcast_to(root, (n_features,))
        squares = xp.sum(difference * difference, axis=1)
        densities.append(xp.sum(xp.log(scales)) - 0.5 * squares)
    constant = xp.log(components.weights) - 0.5 * n_features * float(np.log(2 * np.pi))
    return constant[None, :] + xp.stack(densities, axis=1)


def log_sum_exp(values: Any, xp: Any) -> Any:
    """Logarithm of the row sums of ``exp(values)``, as a column."""
    top = xp.max(values, axis=1, keepdims=True)
    return top + xp.log(xp.sum(xp.exp(values - top), axis=1, keepdims=True))


def responsibilities(X: Any, components: Components, covariance_type: str) -> tuple[Any, Any]:
    """Responsibilities (n_samples, K) and the log density (n_samples,) of each row, in blocks."""
    xp = compat.array_namespace(X)
    n_components, n_features = components.means.shape
    shares, totals = [], []
    for block in row_blocks(X.shape[0], 8 * (2 * n_features + 4 * n_components)):
        joint = log_densities(X[block, :], components, covariance_type)
        total = log_sum_exp(joint, xp)
        share = xp.exp(joint - total)
        shares.append(share / xp.sum(share, axis=1, keepdims=True))
        totals.append(total[:, 0])
    return xp.concat(shares), xp.concat(totals)


# --- EM -------------------------------------------------------------------------------------------


def moments(X: Any, sample_weight: Any, components: Components, covariance_type: str) -> Moments:
    """One E-step over ``X``: the weighted log-likelihood and the moments, summed over blocks.

    Moments of separate row blocks add up, so this is also the map of a map-reduce.
    """
    n_components, n_features = components.means.shape
    # Without rows there is one block, of sums of nothing.
    blocks = row_blocks(max(X.shape[0], 1), 8 * (3 * n_features + 4 * n_components))
    parts = (
        _block_moments(X[block, :], sample_weight[block], components, covariance_type)
        for block in blocks
    )
    return reduce(add_moments, parts)


def add_moments(first: Moments, second: Moments) -> Moments:
    """Return the moments of two sets of rows together."""
    return Moments(
        first.objective + second.objective,
        first.counts + second.counts,
        first.first + second.first,
        None if first.second is None else first.second + second.second,
    )


def _block_moments(X, sample_weight, components, covariance_type):
    xp = compat.array_namespace(X)
    joint = log_densities(X, components, covariance_type)
    log_total = log_sum_exp(joint, xp)
    shares = xp.exp(joint - log_total) * sample_weight[:, None]
    objective = float(xp.sum(sample_weight * log_total[:, 0]))
    return _shared_moments(X, shares, components.means, covariance_type, objective)


def _shared_moments(X, shares, means, covariance_type, objective) -> Moments:
    """Return moments about ``means`` of rows that belong to the components by ``shares``."""
    xp = compat.array_namespace(X)
    first, second = [], []
    for k in range(means.shape[0]):
        difference = X - means[k, :][None, :]
        weighted = difference * shares[:, k][:, None]
        first.append(xp.sum(weighted, axis=0))
        if covariance_type == "full":
            second.append(weighted.T @ difference)
        elif covariance_type != "tied":
            second.append(xp.sum(weighted * difference, axis=0))
    counts = xp.sum(shares, axis=0)
    return Moments(objective, counts, xp.stack(first), xp.stack(second) if second else None)


def update(
    found: Moments, means: Any, total_scatter: Any, ridge: float, covariance_type: str
) -> Components:
    """M-step: parameters that maximise the penalised objective, from moments about ``means``.

    ``total_scatter`` (m, m) is the weighted scatter of all rows about the origin; only tied
    covariances need it.
    """
    xp = compat.array_namespace(means)
    total = xp.sum(found.counts)
    floor = 10 * float(xp.finfo(means.dtype).eps) * float(total)
    counts = xp.clip(found.counts, floor, None)
    shift = found.first / counts[:, None]
    new_means = means + shift
    eye = xp.eye(means.shape[1], dtype=means.dtype, device=compat.device(means))
    if covariance_type == "full":
        spread = found.second - counts[:, None, None] * (shift[:, :, None] * shift[:, None, :])
        covariances = (spread + ridge * eye[None, :, :]) / counts[:, None, None]
    elif covariance_type == "tied":
        between = new_means.T @ (found.counts[:, None] * new_means)
        n_components = means.shape[0]
        covariances = (total_scatter - between + n_components * ridge * eye) / total
    else:
        covariances = (found.second - counts[:, None] * shift**2 + ridge) / counts[:, None]
        if covariance_type == "spherical":
            covariances = xp.mean(covariances, axis=1)
    return Components(
        counts / xp.sum(counts),
        new_means,
        covariances,
        precision_roots(covariances, covariance_type, xp),
    )


def penalty(components: Components, ridge: float, covariance_type: str) -> float:
    """``ridge / 2`` times the traces of all inverse covariances; a tied one counts K times."""
    xp = compat.array_namespace(components.means)
    n_components, n_features = components.means.shape
    squares = float(xp.sum(components.precision_roots**2))
    times = {"tied": n_components, "spherical": n_features}.get(covariance_type, 1)
    return 0.5 * ridge * times * squares


def label_moments(
    X: Any, sample_weight: Any, labels: Any, n_components: int, covariance_type: str
) -> Moments:
    """Moments about the origin of a hard assignment; those of separate rows add up."""
    xp, device = compat.array_namespace(X), compat.device(X)
    is_own = labels[:, None] == xp.arange(n_components, device=device)[None, :]
    shares = xp.astype(is_own, X.dtype) * sample_weight[:, None]
    origin = xp.zeros((n_components, X.shape[1]), dtype=X.dtype, device=device)
    return _shared_moments(X, shares, origin, covariance_type, 0.0)


def scatter(X: Any, sample_weight: Any) -> Any:
    """Weighted scatter of the rows about the origin: (m, m)."""
    return (X * sample_weight[:, None]).T @ X


def expectation_maximisation(
    e_step: Callable[[list[Components]], list[Moments]],
    starts: Iterable[Components],
    total_scatter: Any,
    ridge: float,
    covariance_type: str,
    *,
    tol: float,
    max_iter: int,
) -> list[tuple[Components, list[float], bool]]:
    """Iterate every start, all of them in step; return what each comes to.

    That is the parameters, the objective after each step and whether it converged. The objective
    is the penalised weighted log-likelihood per unit of weight. ``e_step`` gives the moments of all
    the data, wherever they are, for several mixtures: one pass over the rows serves all starts.
    """
    mixtures = list(starts)
    paths: list[list[float]] = [[] for _ in mixtures]
    pending, converged = list(range(len(mixtures))), set()
    while pending and len(paths[pending[0]]) <= max_iter:
        found = e_step([mixtures[i] for i in pending])
        for i, own in zip(pending, found, strict=True):
            path, components = paths[i], mixtures[i]
            total = float(compat.array_namespace(own.counts).sum(own.counts))
            path.append((own.objective - penalty(components, ridge, covariance_type)) / total)
            if len(path) > 1 and abs(path[-1] - path[-2]) < tol:
                converged.add(i)
            elif len(path) <= max_iter:
                means = components.means
                mixtures[i] = update(own, means, total_scatter, ridge, covariance_type)
        pending = [i for i in pending if i not in converged]
    return [(mixtures[i], paths[i], i in converged) for i in range(len(mixtures))]


def gated_features(X: Any, shares: Any, centers: Any, *, offset: bool) -> Any:
    """``[r_k(x) (x - m_k)]_k``, and ``[r_k(x)]_k`` after it with ``offset``.

    ``X`` (n, m), ``shares`` (n, K), ``centers`` (K, m) -> (n, K m) or (n, K m + K).
    """
    xp = compat.array_namespace(X)
    n_rows, n_features = X.shape
    moved = shares[:, :, None] * (X[:, None, :] - centers[None, :, :])
    flat = xp.reshape(moved, (n_rows, centers.shape[0] * n_features))
    return xp.concat([flat, shares], axis=1) if offset else flat


def class_scatters(
    features: Any, codes: Any, weights: Any, n_classes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Within- and between-class covariance of gated features, on the host."""
    statistics = lda_statistics(features, codes, weights, n_classes)
    means, share = statistics_means(statistics), statistics.weights / statistics.weights.sum()
    spread = means - share @ means
    return within_covariance(statistics), (spread * share[:, None]).T @ spread


def fisher_directions(
    within: np.ndarray, between: np.ndarray, n_directions: int, shrinkage: float
) -> tuple[np.ndarray, np.ndarray]:
    """Directions of greatest between- over within-class variance: (n_directions, width).

    The within-class covariance is shrunk towards a multiple of the identity. Directions have unit
    within-class variance; their ratios are also returned, in decreasing order.
    """
    width = len(within)
    scale = np.trace(within) / width
    regular = (1 - shrinkage) * within
    # Responsibilities sum to one, so with offsets one direction has no variance at all.
    regular[np.diag_indices(width)] += max(shrinkage, 1e-10) * (scale if scale > 0 else 1.0)
    values, vectors = eigh(between, regular, subset_by_index=[width - n_directions, width - 1])
    vectors = vectors[:, ::-1].T.copy()
    vectors *= np.sign(vectors[np.arange(n_directions), np.abs(vectors).argmax(axis=1)])[:, None]
    return vectors, np.maximum(values[::-1], 0.0).copy()
