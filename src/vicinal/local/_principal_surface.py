"""Principal curves and surfaces as ridges of a density."""

import warnings
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from vicinal._base import (
    atomic_fit,
    check_magnitude,
    documented,
    positive_rows,
    query_rows,
    row_blocks,
    saved,
    store_parameters,
    thread_map,
)
from vicinal._base._compat import Interval, StrOptions
from vicinal._base._tables import sampled_rows
from vicinal._kernels.local._smoothing import left_out_log_density, project_to_ridge

# Bandwidths compared, as multiples of the normal-reference rule, and rows used to compare them.
_BANDWIDTH_FACTORS = tuple(2.0 ** (0.25 * i) for i in range(-14, 5))
_MAX_ROWS = 2000
_ROWS_PER_TASK = 64


class Projection(NamedTuple):
    """Rows moved to the ridge, whether they converged, and their number of steps."""

    points: np.ndarray
    converged: np.ndarray
    n_iter: np.ndarray


@saved(_rows="n p", _weights="n")
@documented
class PrincipalSurface(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Curve or surface through the middle of a cloud of points: the ridge of its density.

    Every row moves up the gradient of the kernel density of the training rows, but only across the
    surface: in the directions in which the cloud is thin. The result is the principal curve
    (``n_components=1``) or surface; ``n_components=0`` gives the modes (mean shift). Use it to
    remove noise from curves, trajectories and filaments.

    Read more in the :doc:`user guide </guide/local>`.

    Parameters
    ----------
    n_components : int, default=1
        Dimension of the surface, from 0 (points) to one less than the number of columns.
    bandwidth : float or "auto", default="auto"
        Standard deviation of the Gaussian kernel. ``"auto"`` maximises the leave-one-out likelihood
        (duplicates of a row are left out with it), times a factor for the curvature, see Notes.
    max_iter : int, default=1000
        Largest number of steps of a row.
    tol : float, default=1e-6
        A row has converged when its step is shorter than ``tol`` bandwidths.
    n_jobs : int, default=None
        Number of threads. ``None`` is 1 unless in a :func:`joblib.parallel_config` context, ``-1``
        is every core. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of the 2000 rows on which bandwidths are compared if there are more.

    Attributes
    ----------
    surface_ : ndarray of shape (n_samples, n_features)
        The training rows, moved to the surface.
    converged_ : ndarray of bool of shape (n_samples,)
        Which of them converged.
    n_iter_ : int
        Largest number of steps that one of them took.
    bandwidth_ : float
        Bandwidth in use.

    See Also
    --------
    LocalRegressor : A curve as a function of given columns, when one of them is the target.
    sklearn.cluster.MeanShift : Modes with a flat kernel, and labels.

    Notes
    -----
    With the density :math:`p(x) = \sum_i s_i \exp(-\|x - x_i\|^2 / 2h^2)`, its terms scaled to sum
    one :math:`w_i`, the mean shift :math:`s(x) = \sum_i w_i x_i - x` and the local scatter
    :math:`C(x) = \sum_i w_i (x_i - x)(x_i - x)^\top - s s^\top`,

    .. math:: \nabla \log p = s / h^2, \qquad
              \nabla^2 \log p = \tfrac{1}{h^2} \left( C / h^2 - I \right).

    With the eigenvectors V of the d - m smallest eigenvalues the steps
    :math:`x \leftarrow x + V V^\top s(x)` lead to the ridge, where the gradient lies along the
    surface [1]_. The ridge of a curve with curvature lies slightly on its inner side, by about
    :math:`h^2 / 2R` for a circle of radius R. Terms below 1e-12 of the largest are ignored; a row
    where every term underflows starts at its nearest training row.

    A bandwidth that suits the density is too small for its derivatives. For normal data the best
    one for derivatives of order r is proportional to
    :math:`(4/((d + 2r + 2) n))^{1/(d + 2r + 4)}` [2]_; the automatic choice is the likelihood's
    times the ratio of this rate at r = 2 (the Hessian; r = 1 for modes) to that at r = 0.

    The output has as many columns as the input: points on the surface, not coordinates along it.

    References
    ----------
    .. [1] U. Ozertem and D. Erdogmus, "Locally defined principal curves and surfaces", Journal of
       Machine Learning Research 12 (2011), 1249-1286.
    .. [2] J. E. Chacon, T. Duong and M. P. Wand, "Asymptotics for general multivariate kernel
       density derivative estimators", Statistica Sinica 21 (2011), 807-840.

    Examples
    --------
    >>> import numpy as np
    >>> from vicinal.local import PrincipalSurface
    >>> rng = np.random.RandomState(0)
    >>> angle = rng.uniform(0, 2 * np.pi, size=500)
    >>> circle = np.column_stack([np.cos(angle), np.sin(angle)])
    >>> noisy = circle + 0.1 * rng.normal(size=(500, 2))
    >>> curve = PrincipalSurface(bandwidth=0.2).fit(noisy)
    >>> radius = np.hypot(*curve.transform(noisy).T)
    >>> print(f"{np.hypot(*noisy.T).std():.3f} -> {radius.std():.3f}")
    0.100 -> 0.011
    """

    _parameter_constraints: dict = {
        "n_components": [Interval(Integral, 0, None, closed="left")],
        "bandwidth": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="neither")],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_components=1,
        *,
        bandwidth="auto",
        max_iter=1000,
        tol=1e-6,
        n_jobs=None,
        random_state=None,
    ):
        store_parameters(self, locals())

    @atomic_fit
    def fit(self, X, y=None, sample_weight=None):
        """Learn the density, and move the training rows to its ridge.

        Parameters
        ----------
        y : None
            Ignored.
        """
        X = validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2)
        check_magnitude("X", X)
        if self.n_components >= X.shape[1]:
            raise ValueError(
                f"n_components={self.n_components} must be below the number of columns, "
                f"n_features={X.shape[1]}; lower n_components."
            )
        self._weights, rows = positive_rows(sample_weight, X)
        self._rows = np.require(rows, np.float64, ["C", "W"])
        self.bandwidth_ = self._choose_bandwidth()
        self.surface_, self.converged_, n_iter = self._project(X)
        self.n_iter_ = int(n_iter.max())
        _warn_unconverged(self.converged_, self.max_iter)
        return self

    def fit_transform(self, X, y=None, sample_weight=None):
        """Fit, and return the training rows moved to the surface.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows.
        y : None
            Ignored.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            ``surface_``.
        """
        return self.fit(X, y, sample_weight=sample_weight).surface_.copy()

    def transform(self, X):
        """Move rows to the surface.

        Returns
        -------
        ndarray of shape (n_queries, n_features)
            Points on the surface; ``project`` also returns which converged.
        """
        found = self.project(X)
        _warn_unconverged(found.converged, self.max_iter)
        return found.points

    def project(self, X):
        """Move rows to the surface; also return convergence and number of steps.

        Returns
        -------
        Projection
            With ``points``, ``converged`` and ``n_iter``, one entry per row.
        """
        return self._project(query_rows(self, X))

    def _project(self, X) -> Projection:
        Q = np.require(X, np.float64, ["C", "W"])
        points = np.empty_like(Q)
        converged = np.zeros(len(Q), dtype=bool)
        n_iter = np.zeros(len(Q), dtype=np.int64)

        def run(rows):
            project_to_ridge(
                Q[rows],
                self._rows,
                self._weights,
                self.bandwidth_,
                int(self.n_components),
                float(self.tol),
                int(self.max_iter),
                points[rows],
                converged[rows],
                n_iter[rows],
            )

        thread_map(run, row_blocks(len(Q), 1, max_rows=_ROWS_PER_TASK), self.n_jobs)
        return Projection(points.astype(X.dtype, copy=False), converged, n_iter)

    def _choose_bandwidth(self) -> float:
        if self.bandwidth != "auto":
            return float(self.bandwidth)
        X, weights = self._rows, self._weights
        share = weights / weights.sum()
        spread = np.sqrt((share @ (X - share @ X) ** 2).mean())
        if spread == 0.0:
            raise ValueError(
                'bandwidth="auto" needs rows that differ, but all rows are equal; set a number.'
            )
        n, d = float(weights.sum()), X.shape[1]
        reference = spread * _normal_rate(n, d, 0)
        rows = sampled_rows(len(X), _MAX_ROWS, self.random_state)
        bandwidths = reference * np.array(_BANDWIDTH_FACTORS)
        likelihood = left_out_log_density(X, weights, rows, bandwidths) @ weights[rows]
        order = 1 if self.n_components == 0 else 2
        factor = _normal_rate(n, d, order) / _normal_rate(n, d, 0)
        return float(bandwidths[np.argmax(likelihood)] * factor)

    @property
    def _n_features_out(self) -> int:
        return self.n_features_in_

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _normal_rate(n: float, d: int, order: int) -> float:
    """Return the best bandwidth for derivatives of a normal density, in standard deviations."""
    return float((4.0 / ((d + 2 * order + 2) * n)) ** (1.0 / (d + 2 * order + 4)))


def _warn_unconverged(converged: np.ndarray, max_iter: int) -> None:
    failed = int((~converged).sum())
    if failed:
        warnings.warn(
            f"{failed} of {len(converged)} rows did not reach the surface in {max_iter} steps; "
            "raise max_iter or tol, or enlarge the bandwidth.",
            ConvergenceWarning,
            stacklevel=3,
        )
