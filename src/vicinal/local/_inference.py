"""Inference for linear smoothers: degrees of freedom, noise level, intervals."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from vicinal.local._fits import squared_norms
from vicinal.local._neighborhoods import Neighborhoods

# Above this number of rows the second moment of the residual operator is estimated by probes.
MAX_EXACT_ROWS = 2000
N_PROBES = 30


@dataclass(frozen=True)
class SmootherStatistics:
    """What a linear smoother says about its own noise.

    Attributes
    ----------
    sigma : ndarray of shape (n_outputs,)
        Residual standard deviation, sqrt(RSS / one_delta).
    one_delta, two_delta : float
        First and second moment of (I - L)'(I - L).
    dof : float
        one_delta^2 / two_delta, degrees of freedom of the t distribution.
    trace : float
        tr L.
    equivalent_parameters : float
        tr L'L.
    leverage : ndarray of shape (n_samples,)
        Diagonal of L.
    largest_norm : float
        Largest |l(x_i)|^2 over training rows.
    rss : ndarray of shape (n_outputs,)
        Residual sum of squares.
    n_observations : float
        Number of rows, counted with their weights.
    """

    sigma: np.ndarray
    one_delta: float
    two_delta: float
    dof: float
    trace: float
    equivalent_parameters: float
    leverage: np.ndarray
    largest_norm: float
    rss: np.ndarray
    n_observations: float

    @property
    def aicc(self) -> np.ndarray:
        """Corrected Akaike criterion of Hurvich, Simonoff and Tsai (1998)."""
        n, trace = self.n_observations, self.trace
        if n - trace - 2 <= 0:
            return np.full(len(self.rss), np.inf)
        return np.log(self.rss / n) + 1 + 2 * (trace + 1) / (n - trace - 2)

    @property
    def gcv(self) -> np.ndarray:
        """Generalised cross-validation."""
        n = self.n_observations
        return n * self.rss / (n - self.trace) ** 2


def smoother_statistics(
    rows_of: Callable[[], Iterable[tuple[slice, Neighborhoods, np.ndarray]]],
    targets: np.ndarray,
    weights: np.ndarray | None,
    *,
    exact: bool,
    random_state: np.random.RandomState,
) -> SmootherStatistics:
    """Return the statistics of the smoother whose rows ``rows_of`` yields block by block.

    Rows of weight s count as s rows: with A = S^(1/2) (I - L) S^(-1/2) the moments are those of
    A'A, plus one for every further copy (copies differ only in directions that L ignores).

    Parameters
    ----------
    rows_of : callable
        Returns an iterator over (block, neighbourhoods, l) for all training rows.
    targets : ndarray of shape (n_samples, n_outputs)
        Observed values.
    weights : ndarray of shape (n_samples,) or None
        User weights.
    exact : bool
        Form A whole (n^2 numbers); otherwise estimate the second moment by random probes.
    random_state : RandomState
        Draws the probes.
    """
    n = len(targets)
    s = np.ones(n) if weights is None else weights
    leverage, norms = np.zeros(n), np.zeros(n)
    rss = np.zeros(targets.shape[1])
    A = np.diag(np.ones(n)) if exact else None
    for block, found, smoother in rows_of():
        owner = np.repeat(np.arange(block.start, block.stop), found.sizes())
        own = found.indices == owner
        leverage[owner[own]] = smoother[own]
        norms[block] = squared_norms(found, smoother, weights)
        fitted = np.zeros((found.n_queries, targets.shape[1]))
        for c in range(targets.shape[1]):
            terms = smoother * targets[found.indices, c]
            fitted[:, c] = np.bincount(owner - block.start, terms, minlength=found.n_queries)
        rss += s[block] @ (targets[block] - fitted) ** 2
        if A is not None:
            A[owner, found.indices] -= smoother * np.sqrt(s[owner] / s[found.indices])
    n_observations = float(s.sum())
    trace = float(leverage.sum())
    parameters = float(s @ norms)
    one_delta = n_observations - 2.0 * trace + parameters
    if A is not None:
        two_delta = float(((A.T @ A) ** 2).sum()) + n_observations - n
    else:
        two_delta = _probe_second_moment(rows_of, s, random_state) + n_observations - n
    return SmootherStatistics(
        sigma=np.sqrt(rss / one_delta) if one_delta > 0 else np.full(len(rss), np.nan),
        one_delta=one_delta,
        two_delta=two_delta,
        dof=one_delta**2 / two_delta if two_delta > 0 else np.nan,
        trace=trace,
        equivalent_parameters=parameters,
        leverage=leverage,
        largest_norm=float(norms.max()),
        rss=rss,
        n_observations=n_observations,
    )


def _probe_second_moment(rows_of, s, random_state) -> float:
    """Estimate tr (A'A)^2 = E |A'A z|^2 over random signs z (Hutchinson 1990)."""
    n = len(s)
    root = np.sqrt(s)[:, None]
    Z = random_state.choice([-1.0, 1.0], size=(n, N_PROBES))
    AZ = Z - root * _multiply(rows_of(), Z / root)
    AtAZ = AZ - _multiply_transposed(rows_of(), root * AZ) / root
    return float((AtAZ**2).sum() / N_PROBES)


def _multiply(rows: Iterator, Z: np.ndarray) -> np.ndarray:
    out = np.empty_like(Z)
    for block, found, smoother in rows:
        owner = np.repeat(np.arange(found.n_queries), found.sizes())
        for c in range(Z.shape[1]):
            terms = smoother * Z[found.indices, c]
            out[block, c] = np.bincount(owner, terms, minlength=found.n_queries)
    return out


def _multiply_transposed(rows: Iterator, Z: np.ndarray) -> np.ndarray:
    out = np.zeros_like(Z)
    for block, found, smoother in rows:
        owner = np.repeat(np.arange(block.start, block.stop), found.sizes())
        for c in range(Z.shape[1]):
            out[:, c] += np.bincount(found.indices, smoother * Z[owner, c], minlength=len(Z))
    return out
