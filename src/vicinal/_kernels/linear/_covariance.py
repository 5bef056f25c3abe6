"""Weighted covariances: discriminant analysis from additive statistics, and whitening maps."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np
from scipy.linalg import cho_solve, eigh, lapack, solve_triangular
from scipy.special import ndtri

from vicinal import _base
from vicinal._kernels.linear._scatter import class_sums, fix_signs

# A Cholesky pivot below this share of its diagonal entry marks a dependent column.
_PIVOT_TOL = 1e-12
# Ridge, relative to the mean variance, that replaces the missing rank of a singular covariance.
_SINGULAR_RIDGE = 1e-9


@_base.saved()
class LDAStatistics(NamedTuple):
    """Sums that determine a discriminant analysis; with equal shifts they add over blocks of rows.

    With shift ``a_c`` of class ``c``: ``weights[c] = sum w_i``, ``sums[c] = sum w_i (x_i - a_c)``
    over the rows of class ``c``, and ``gram = sum w_i (x_i - a_c)(x_i - a_c)'`` over all rows, each
    with the shift of its own class. The within-class scatter ``gram - sum_c sums_c sums_c' /
    weights_c`` is the same for every choice of shifts; shifts near the class means keep it free of
    cancellation, zero shifts suit standardised data.
    """

    weights: np.ndarray  # (n_classes,)
    sums: np.ndarray  # (n_classes, n_features)
    gram: np.ndarray  # (n_features, n_features)
    shifts: np.ndarray  # (n_classes, n_features)


def lda_statistics(
    X: Any,
    codes: Any,
    sample_weight: Any,
    n_classes: int,
    *,
    rows: Any = None,
    shifts: np.ndarray | None = None,
) -> LDAStatistics:
    """Sum up ``X[rows]`` (all rows for ``None``) in double precision, block by block.

    ``codes`` and ``sample_weight`` (``None`` for ones) have one entry for each of the rows summed;
    ``shifts=None`` means zero. Arrays of any library are summed where they are.
    """
    d, xp = X.shape[1], _base.namespace(X)
    options = {"dtype": xp.float64, "device": compat.device(X)}
    counts, sums, gram = (xp.zeros(s, **options) for s in (n_classes, (n_classes, d), (d, d)))
    for block, block_codes, w in _blocks(X, codes, sample_weight, rows):
        if shifts is not None:
            block -= shifts[block_codes]
        count, total = _base.sums_by_class(block, block_codes, w, n_classes)
        counts, sums = counts + count, sums + total
        # Scaling by the square root keeps the product symmetric, hence half the work in BLAS.
        if w is not None:
            block *= _base.namespace(w).sqrt(w)[:, None]
        gram = gram + block.T @ block
    if shifts is None:
        shifts = np.zeros((n_classes, d))
    return LDAStatistics(_base.as_numpy(counts), _base.as_numpy(sums), _base.as_numpy(gram), shifts)


def class_means(
    X: np.ndarray, codes: np.ndarray, sample_weight: np.ndarray | None, n_classes: int
) -> np.ndarray:
    """Return the weighted mean of each class; a class without weight gets the overall mean."""
    every = np.ones(len(codes)) if sample_weight is None else sample_weight
    weights, sums = class_sums(X, codes, every, n_classes)
    overall = sums.sum(axis=0) / weights.sum()
    present = weights > 0
    means = np.tile(overall, (n_classes, 1))
    means[present] = sums[present] / weights[present, None]
    return means


def add_statistics(a: LDAStatistics, b: LDAStatistics) -> LDAStatistics:
    """Return the statistics of both sets of rows together, about the shifts of ``a``."""
    b = shift_statistics(b, a.shifts)
    return LDAStatistics(a.weights + b.weights, a.sums + b.sums, a.gram + b.gram, a.shifts)


def shift_statistics(statistics: LDAStatistics, shifts: np.ndarray) -> LDAStatistics:
    """Express the statistics about other shifts, as if the rows had been summed about them."""
    weights, sums, gram, old = statistics
    if shifts is old or np.array_equal(shifts, old):
        return statistics
    delta = old - shifts
    moved = delta * weights[:, None]
    cross = sums.T @ delta
    return LDAStatistics(weights, sums + moved, gram + cross + cross.T + moved.T @ delta, shifts)


def statistics_means(statistics: LDAStatistics) -> np.ndarray:
    """Return the class means; those of absent classes are zero and carry no weight."""
    weights, sums, _, shifts = statistics
    present = weights > 0
    means = np.zeros_like(sums)
    means[present] = shifts[present] + sums[present] / weights[present, None]
    return means


def within_covariance(statistics: LDAStatistics) -> np.ndarray:
    """Return the pooled within-class covariance, normalised by the total weight."""
    weights, sums, gram, _ = statistics
    present = weights > 0
    scaled = sums[present] / np.sqrt(weights[present, None])
    return (gram - scaled.T @ scaled) / weights.sum()


def lda_coefficients(
    statistics: LDAStatistics, shrinkage: float = 0.0, priors: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    r"""Return ``coef`` (n_classes, n_features) and ``intercept`` of the discriminant scores.

    With class means :math:`m_c`, their weighted mean :math:`m` and the shrunk covariance
    :math:`\Sigma = (1-s) S + s\,\mathrm{tr}(S)/d\, I`, class :math:`c` scores
    :math:`(x-m)^\top\Sigma^{-1}(m_c-m) - \tfrac12 (m_c-m)^\top\Sigma^{-1}(m_c-m) + \log\pi_c`.
    A class without weight scores minus infinity.
    """
    weights = statistics.weights
    present = weights > 0
    means = statistics_means(statistics)
    center = weights @ means / weights.sum()
    centred = np.where(present[:, None], means - center, 0.0)

    covariance = within_covariance(statistics)
    noise = (4 * np.finfo(float).eps * np.abs(means).max(axis=0)) ** 2
    coef = _solve_shrunk(covariance, shrinkage, noise, centred.T).T

    if priors is None:
        priors = weights / weights.sum()
    log_priors = np.log(priors, out=np.full(len(weights), -np.inf), where=present & (priors > 0))
    intercept = log_priors - 0.5 * np.sum(coef * centred, axis=1) - coef @ center
    return coef, intercept


def ledoit_wolf_shrinkage(
    X: np.ndarray, codes: np.ndarray, sample_weight: np.ndarray | None, statistics: LDAStatistics
) -> float:
    r"""Return the shrinkage of Ledoit and Wolf for the residuals about the class means.

    With residuals :math:`z_i`, :math:`n = \sum w_i` and their covariance :math:`S` it is
    :math:`\min(1, \beta/\delta)`, where :math:`\delta = \|S - \mathrm{tr}(S)/d\,I\|_F^2` and
    :math:`\beta = (\sum_i w_i\|z_i\|^4 / n - \|S\|_F^2)/n`.
    """
    means = statistics_means(statistics)
    covariance = within_covariance(statistics)
    total = statistics.weights.sum()
    fourth = 0.0
    for block, block_codes, w in _blocks(X, codes, sample_weight, None):
        block -= means[block_codes]
        squares = np.einsum("ij,ij->i", block, block) ** 2
        fourth += squares.sum() if w is None else w @ squares
    norm = np.sum(covariance**2)
    delta = norm - np.trace(covariance) ** 2 / len(covariance)
    beta = (fourth / total - norm) / total
    if delta <= 0 or beta <= 0:
        return 0.0
    return float(min(1.0, beta / delta))


def _blocks(X: Any, codes: Any, weights: Any, rows: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield writable double-precision copies of blocks of rows, with their codes and weights."""
    n_rows = X.shape[0] if rows is None else rows.shape[0]
    xp = _base.namespace(X)
    for span in _base.row_blocks(n_rows, 24 * X.shape[1], **_base.block_limits(X)):
        # A gather by index is a copy already, a slice is not.
        block = X[span, :] if rows is None else _base.take_rows(X, rows[span])
        block = xp.astype(block, xp.float64, copy=rows is None)
        yield block, codes[span], None if weights is None else xp.astype(weights[span], xp.float64)


def _solve_shrunk(
    covariance: np.ndarray, shrinkage: float, noise: np.ndarray, right: np.ndarray
) -> np.ndarray:
    """Solve with the shrunk covariance, adding a small ridge where it is singular.

    ``noise`` bounds what rounding leaves as the variance of a constant column.
    """
    n_features = len(covariance)
    mean_variance = np.trace(covariance) / n_features
    diagonal = np.diag_indices(n_features)
    shrunk = (1.0 - shrinkage) * covariance
    shrunk[diagonal] += shrinkage * mean_variance
    variances = shrunk[diagonal]
    factor, info = lapack.dpotrf(shrunk, lower=1)
    # LAPACK often gets through an exactly dependent column with a tiny pivot: test the pivots.
    singular = (
        info != 0
        or np.any(variances <= noise)
        or np.any(factor[diagonal] ** 2 <= _PIVOT_TOL * variances)
    )
    if not singular:
        return cho_solve((factor, True), right)
    # Eigenvalues that are zero but for rounding are made zero before the ridge is added: in a
    # Cholesky factor their rounding, a ten-millionth of the ridge, would show in the scores.
    values, vectors = np.linalg.eigh(shrunk)
    floor = n_features * np.finfo(float).eps * max(values[-1], 0.0)
    values = np.where(values <= floor, 0.0, values)
    values += _SINGULAR_RIDGE * (mean_variance if mean_variance > 0 else 1.0)
    return vectors @ ((vectors.T @ right) / values[:, None])


class Whitening(NamedTuple):
    """``z = (x - mean) @ forward`` and ``x = z @ backward + mean``."""

    forward: np.ndarray  # (n_features, n_components)
    backward: np.ndarray  # (n_components, n_features)
    kept: np.ndarray  # columns (cholesky) or directions (pca, zca) that vary on their own


def independent_cholesky(covariance: np.ndarray, tol: float) -> tuple[np.ndarray, np.ndarray]:
    """Factor ``covariance = L L'`` in the given order of columns, skipping dependent ones.

    A column is dependent when what its predecessors leave of its variance, the pivot, is at most
    ``tol`` times that variance. Returns ``L`` (n_features, n_kept), whose rows for dependent
    columns express them through the others, and the kept columns.
    """
    n_features = len(covariance)
    variances = np.diag(covariance)
    factor, info = lapack.dpotrf(covariance, lower=1)
    # LAPACK passes an exactly dependent column with a pivot of rounding noise: test the pivots.
    if info == 0 and np.all(np.diag(factor) ** 2 > tol * variances):
        return factor, np.arange(n_features)
    lower = np.zeros((n_features, n_features))
    kept: list[int] = []
    for j in range(n_features):
        rank = len(kept)
        column = covariance[j:, j] - lower[j:, :rank] @ lower[j, :rank]
        if column[0] > tol * variances[j]:
            lower[j:, rank] = column / np.sqrt(column[0])
            kept.append(j)
    return lower[:, : len(kept)], np.array(kept, dtype=np.intp)


def cholesky_whitening(covariance: np.ndarray, tol: float) -> Whitening:
    """Whiten by the inverse Cholesky factor: column ``j`` is freed of the columns before it."""
    lower, kept = independent_cholesky(covariance, tol)
    forward = np.zeros((len(covariance), len(kept)))
    forward[kept] = solve_triangular(lower[kept], np.eye(len(kept)), lower=True).T
    return Whitening(forward, lower.T, kept)


def pca_whitening(covariance: np.ndarray, tol: float) -> Whitening:
    """Whiten along the principal axes, in the order of falling variance."""
    values, axes, kept = _principal_axes(covariance, tol)
    return Whitening(axes / np.sqrt(values), (axes * np.sqrt(values)).T, kept)


def zca_whitening(covariance: np.ndarray, tol: float) -> Whitening:
    """Whiten by the symmetric inverse root, which moves the data least."""
    values, axes, kept = _principal_axes(covariance, tol)
    root = np.sqrt(values)
    return Whitening((axes / root) @ axes.T, (axes * root) @ axes.T, kept)


WHITENINGS = {"cholesky": cholesky_whitening, "pca": pca_whitening, "zca": zca_whitening}


def refine_whitening(
    whitening: Whitening,
    X: np.ndarray,
    mean: np.ndarray,
    sample_weight: np.ndarray | None,
    method: str,
) -> Whitening:
    """Whiten the whitened data again, which removes what rounding left of the correlations.

    The error of the first pass grows with the condition number of the covariance, that of the
    second does not (as in CholeskyQR2, Yamamoto et al. 2015). A factor of the same kind keeps a
    triangular map triangular. Directions that do not vary are left alone.
    """
    n_components = whitening.forward.shape[1]
    share = np.full(len(X), 1.0 / len(X))
    if sample_weight is not None:
        share = sample_weight / sample_weight.sum()
    second = np.zeros((n_components, n_components))
    for span in _base.row_blocks(len(X), 16 * (X.shape[1] + n_components)):
        Z = (X[span] - mean) @ whitening.forward * np.sqrt(share[span])[:, None]
        second += Z.T @ Z
    # Symmetric whitening of data of lower rank leaves directions without variance.
    is_triangular = method == "cholesky"
    again = cholesky_whitening(second, 0.0) if is_triangular else zca_whitening(second, 1e-3)
    return whitening._replace(
        forward=whitening.forward @ again.forward, backward=again.backward @ whitening.backward
    )


def _principal_axes(
    covariance: np.ndarray, tol: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return eigenvalues above ``tol`` times their mean, falling, and axes of fixed sign."""
    values, axes = np.linalg.eigh(covariance)
    values, axes = values[::-1], axes[:, ::-1]
    kept = np.flatnonzero(values > tol * np.trace(covariance) / len(covariance))
    return values[kept], fix_signs(axes[:, kept].T).T, kept


def standard_scale(X: Any, weights: Any) -> tuple[Any, Any]:
    """Return weighted means and standard deviations; a constant column keeps scale one."""
    mean, variance = _base.column_moments(X, weights)
    return mean, usable_scale(mean, variance)


def usable_scale(mean: Any, variance: Any) -> Any:
    """Return standard deviations; one where a column varies by no more than rounding."""
    xp, one = _base.namespace(mean), _base.namespace(mean).ones_like(mean)
    floor = (10.0 * float(xp.finfo(mean.dtype).eps) * xp.maximum(xp.abs(mean), one)) ** 2
    return xp.sqrt(xp.where(variance > floor, variance, one))


def within_class_whitening(
    X: np.ndarray, codes: np.ndarray, weights: np.ndarray | None, shrinkage: float = 0.1
) -> tuple[np.ndarray, np.ndarray]:
    """Return (mean, map) such that ``(X - mean) @ map`` has unit covariance within classes.

    The pooled within-class covariance is shrunk towards its mean eigenvalue.
    """
    n_classes, n_features = int(codes.max()) + 1, X.shape[1]
    mean = np.average(X, axis=0, weights=weights)
    centres = class_means(X, codes, weights, n_classes)
    covariance = within_covariance(lda_statistics(X, codes, weights, n_classes, shifts=centres))
    level = np.trace(covariance) / n_features
    if level <= 0.0:
        return mean, np.eye(n_features)
    covariance = (1.0 - shrinkage) * covariance + shrinkage * level * np.eye(n_features)
    values, vectors = np.linalg.eigh(covariance)
    return mean, vectors / np.sqrt(values)


class Covariances(NamedTuple):
    """Mean, scale and correlations of rows, on the host: of the features' size, not of the data's.

    ``total`` and ``within`` are covariances of the features divided by ``scale``, about the mean
    of all rows and about the mean of their class.
    """

    mean: np.ndarray  # (m,)
    scale: np.ndarray  # (m,)
    total: np.ndarray  # (m, m)
    within: np.ndarray  # (m, m)


def class_covariances(
    X: Any, codes: np.ndarray, weights: np.ndarray, n_classes: int
) -> Covariances:
    """Weighted covariances of rows in two passes, in double precision."""
    xp, device = compat.array_namespace(X), compat.device(X)
    tiny = float(xp.finfo(X.dtype).eps)
    X = xp.astype(X, xp.float64)
    indicators = np.zeros((len(codes), n_classes))
    indicators[np.arange(len(codes)), codes] = weights
    indicators = xp.asarray(indicators, dtype=X.dtype, device=device)
    shares = xp.sum(indicators, axis=1)
    mean = _base.as_numpy(indicators.T @ X).astype(np.float64).sum(axis=0) / weights.sum()
    centred = X - xp.asarray(mean, dtype=X.dtype, device=device)[None, :]
    variance = _base.as_numpy(shares @ (centred * centred)).astype(np.float64) / weights.sum()
    scale = np.where(variance > (tiny * np.abs(mean)) ** 2, np.sqrt(variance), np.inf)
    centred = centred / xp.asarray(scale, dtype=X.dtype, device=device)[None, :]
    total = (
        _base.as_numpy((centred * shares[:, None]).T @ centred).astype(np.float64) / weights.sum()
    )
    sums = _base.as_numpy(indicators.T @ centred).astype(np.float64)
    counts = np.maximum(np.bincount(codes, weights=weights, minlength=n_classes), 1e-300)
    between = (sums / counts[:, None]).T @ sums / weights.sum()
    return Covariances(mean, scale, total, total - between)


def whitening_map(
    found: Covariances, *, within: bool = False, shrinkage: float = 0.0, precision: float = 1e-15
) -> np.ndarray:
    """Rows of a map that takes a covariance to the identity: (rank, m).

    The covariance is that of the scaled features, total or within classes, with ``shrinkage``
    added to its diagonal; axes come in order of falling variance. Directions without variance are
    dropped. The Euclidean metric after the map does not depend on the units of the features.
    """
    values, vectors = np.linalg.eigh(found.total)
    kept = values > len(values) * precision * max(values[-1], 1e-300)
    basis = vectors[:, kept] / np.sqrt(values[kept])  # total covariance is the identity in it
    reference = found.within if within else found.total
    inner = basis.T @ (reference + shrinkage * np.eye(len(values))) @ basis
    # Classes without inner variance along some direction would make it infinitely important.
    inner[np.diag_indices(len(inner))] += 1e-6 * within
    spread, axes = eigh(inner)
    return fix_signs((basis @ (axes / np.sqrt(spread))).T) / found.scale


# --- normal scores ---

# Knots at so many quantiles: enough for the shape of a distribution, and few enough that the slope
# between two of them is that of the distribution rather than of two chance values.
MAX_KNOTS = 64


def normal_score_knots(
    column: np.ndarray, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return distinct values (ascending) and their scores, of weighted mean 0 and variance 1."""
    values, inverse = np.unique(column, return_inverse=True)
    mass = np.bincount(inverse, weights, minlength=len(values)).astype(np.float64)
    mass /= mass.sum()
    scores = ndtri(np.clip(np.cumsum(mass) - 0.5 * mass, 1e-12, 1.0 - 1e-12))
    scores -= mass @ scores
    spread = np.sqrt(mass @ scores**2)
    scores = scores / spread if spread > 0.0 else scores
    if len(values) > MAX_KNOTS:
        levels = np.linspace(0.0, 1.0, MAX_KNOTS)
        kept = np.unique(np.clip(np.searchsorted(np.cumsum(mass), levels), 0, len(values) - 1))
        values, scores = values[kept], scores[kept]
    return values, scores


def normal_scores(X: np.ndarray, knots: list) -> np.ndarray:
    """Map columns to normal scores; values beyond the knots take the scores of the extremes."""
    return np.stack([np.interp(x, *own) for x, own in zip(X.T, knots, strict=True)], axis=1)


def score_slopes(x: np.ndarray, values: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return the derivative of the piecewise linear map; zero beyond the values seen."""
    if len(values) < 2:
        return np.zeros(len(x))
    piece = np.clip(np.searchsorted(values, x, side="right") - 1, 0, len(values) - 2)
    slopes = np.diff(scores)[piece] / np.diff(values)[piece]
    return np.where((x < values[0]) | (x > values[-1]), 0.0, slopes)
