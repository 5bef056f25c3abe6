"""Linear discriminant analysis from additive, weighted sufficient statistics."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import cho_solve, lapack

from vicinal._base import row_blocks, saved

# A Cholesky pivot below this share of its diagonal entry marks a dependent column.
_PIVOT_TOL = 1e-12
# Ridge, relative to the mean variance, that replaces the missing rank of a singular covariance.
_SINGULAR_RIDGE = 1e-9


@saved()
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
    X: np.ndarray,
    codes: np.ndarray,
    sample_weight: np.ndarray | None,
    n_classes: int,
    *,
    rows: np.ndarray | None = None,
    shifts: np.ndarray | None = None,
) -> LDAStatistics:
    """Sum up ``X[rows]`` (all rows for ``None``) in double precision, block by block.

    ``codes`` and ``sample_weight`` are indexed like ``X``; ``shifts=None`` means zero.
    """
    n_features = X.shape[1]
    weights = np.zeros(n_classes)
    sums = np.zeros((n_classes, n_features))
    gram = np.zeros((n_features, n_features))
    for block, block_codes, w in _blocks(X, codes, sample_weight, rows):
        if shifts is not None:
            block -= shifts[block_codes]
        weights += np.bincount(block_codes, weights=w, minlength=n_classes)
        sums += _class_sums(block, block_codes, w, n_classes)
        # Scaling by the square root keeps the product symmetric, hence half the work in BLAS.
        if w is not None:
            block *= np.sqrt(w)[:, None]
        gram += block.T @ block
    if shifts is None:
        shifts = np.zeros((n_classes, n_features))
    return LDAStatistics(weights, sums, gram, shifts)


def class_means(
    X: np.ndarray, codes: np.ndarray, sample_weight: np.ndarray | None, n_classes: int
) -> np.ndarray:
    """Return the weighted mean of each class; a class without weight gets the overall mean."""
    weights = np.zeros(n_classes)
    sums = np.zeros((n_classes, X.shape[1]))
    for block, block_codes, w in _blocks(X, codes, sample_weight, None):
        weights += np.bincount(block_codes, weights=w, minlength=n_classes)
        sums += _class_sums(block, block_codes, w, n_classes)
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
    statistics: LDAStatistics,
    shrinkage: float = 0.0,
    priors: np.ndarray | None = None,
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
    X: np.ndarray,
    codes: np.ndarray,
    sample_weight: np.ndarray | None,
    statistics: LDAStatistics,
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


def _blocks(
    X: np.ndarray,
    codes: np.ndarray,
    sample_weight: np.ndarray | None,
    rows: np.ndarray | None,
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray | None]]:
    """Yield writable double-precision copies of blocks of rows, with their codes and weights."""
    n_rows = len(X) if rows is None else len(rows)
    for span in row_blocks(n_rows, 24 * X.shape[1]):
        chosen = span if rows is None else rows[span]
        # A gather by index is a copy already, a slice is not.
        block = X[chosen].astype(np.float64, order="C", copy=rows is None)
        weights = None if sample_weight is None else sample_weight[chosen].astype(np.float64)
        yield block, codes[chosen], weights


def _class_sums(
    block: np.ndarray, codes: np.ndarray, weights: np.ndarray | None, n_classes: int
) -> np.ndarray:
    """Return the (weighted) sum of the rows of each class."""
    n_rows = len(block)
    values = np.ones(n_rows) if weights is None else weights
    member = sparse.csr_array((values, codes, np.arange(n_rows + 1)), shape=(n_rows, n_classes))
    return member.T @ block


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
