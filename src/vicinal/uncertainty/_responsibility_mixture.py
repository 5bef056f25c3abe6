"""Responsibility mixture model: a Gaussian mixture of weighted rows."""

import warnings
from numbers import Integral, Real
from typing import Any

import array_api_compat as compat
import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from vicinal._base import (
    as_numpy,
    atomic_fit,
    atomic_fit_blocks,
    check_same_library,
    check_weights,
    documented,
    saved,
)
from vicinal._base._compat import Interval, StrOptions
from vicinal._base._explanation import ExplainRowMixin
from vicinal._kernels.metric._mixture import COVARIANCE_TYPES, responsibilities
from vicinal.uncertainty._base import as_components, fit_mixture, validate_labels, validate_rows
from vicinal.uncertainty._explain import mixture_sections
from vicinal.uncertainty._mixture_blocks import fit_mixture_blocks
from vicinal.uncertainty._uncertainty_map import _map_of_codes


@saved(weights_="k shares", means_="k p", covariances_="k | * p | k p p")
@documented
class ResponsibilityMixture(ExplainRowMixin, DensityMixin, BaseEstimator):
    r"""Gaussian mixture of weighted rows, placed where classification is uncertain (RMM).

    With ``sample_weight`` this is the Gaussian mixture that scikit-learn has without weights: a row
    of weight two counts as the same row twice. With labels the weights are the rows' uncertainties
    (:func:`~vicinal.uncertainty.uncertainty_map`), so the components settle along the borders
    between classes instead of in the middle of them. With neither it is an ordinary mixture.

    Read more in the guide: *Where classes mix*.

    Read more in the :doc:`user guide </guide/uncertainty>`.

    Parameters
    ----------
    n_components : int, default=4
        Number of Gaussians.
    covariance_type : {"full", "tied", "diag", "spherical"}, default="tied"
        One matrix per component, one for all, one diagonal or one number per component. ``"full"``
        needs many more rows per component than features.
    reg_covar : float, default=1e-2
        Strength of the penalty on small covariances, as a fraction of the mean variance of the
        features; 0 is plain maximum likelihood, which may collapse onto single rows.
    n_init : int, default=5
        Number of weighted k-means++ starts; the best one is kept.
    tol : float, default=1e-4
        EM stops when the objective per unit of weight changes by less.
    max_iter : int, default=200
        Most EM steps of a start.
    means_init : array-like of shape (n_components, n_features), default=None
        Start from the rows' nearest centres among these, instead of k-means; one start then.
    random_state : int, RandomState or None, default=None
        Seed of the starts and of :meth:`sample`.

    Attributes
    ----------
    weights_ : array of shape (n_components,)
        Share of each component.
    means_ : array of shape (n_components, n_features)
        Centres.
    covariances_ : array
        Shaped (n_components, n_features, n_features), (n_features, n_features),
        (n_components, n_features) or (n_components,) as ``covariance_type`` has it.
    lower_bounds_ : ndarray of shape (`n_iter_` + 1,)
        Penalised objective per unit of weight at the start and after each step of the best start;
        it never falls.
    converged_ : bool
        Whether the best start met ``tol``.
    n_iter_ : int
        EM steps of the best start.
    sample_weight_ : array of shape (n_samples,)
        Weights that were used.

    See Also
    --------
    uncertainty_map : The weights that labels turn into.
    LocallyAdaptiveClassifier : Learns one metric per component.
    sklearn.mixture.GaussianMixture : The same model without weights.

    Notes
    -----
    EM maximises, over :math:`r(x) = \sum_k w^k N(x; m^k, S^k)`,

    .. math:: F = \sum_i u_i \log r(x_i) - \frac{\lambda}{2} \sum_k \operatorname{tr} (S^k)^{-1},

    equation (2) of [1]_ with a penalty. The weights do not enter the E-step (equation 5); in the
    M-step :math:`N_k = \sum_i r_{ik} u_i` and the covariance gains :math:`\lambda / N_k` on its
    diagonal, with :math:`\lambda` = ``reg_covar`` x mean weighted variance x
    :math:`\sum_i u_i / K`. This is the exact maximiser, so :math:`F` is monotone, which it is
    not when a constant is added to the covariance as in scikit-learn. Weights are never rescaled.

    Torch tensors (any array of the array-API standard) are fitted where they are; only the k-means
    start is found in host memory.

    References
    ----------
    .. [1] J. Dai, S. Yan, X. Tang and J. T. Kwok, "Locally adaptive classification piloted by
       uncertainty", ICML 2006, sections 2.2 and 2.3.

    Examples
    --------
    Two classes side by side. The components of a plain mixture sit on the classes, those of the
    responsibility mixture on the border between them.

    >>> import numpy as np
    >>> from vicinal.uncertainty import ResponsibilityMixture
    >>> rng = np.random.RandomState(0)
    >>> X = rng.normal(size=(400, 2))
    >>> X[200:, 0] += 3.0
    >>> y = np.repeat([0, 1], 200)
    >>> plain = ResponsibilityMixture(1, random_state=0).fit(X[:200])
    >>> border = ResponsibilityMixture(1, random_state=0).fit(X, y)
    >>> float(plain.means_[0, 0].round(1)), float(border.means_[0, 0].round(1))
    (-0.1, 1.5)
    """

    _parameter_constraints = {
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "covariance_type": [StrOptions(set(COVARIANCE_TYPES))],
        "reg_covar": [Interval(Real, 0, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "means_init": ["array-like", None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_components=4,
        *,
        covariance_type="tied",
        reg_covar=1e-2,
        n_init=5,
        tol=1e-4,
        max_iter=200,
        means_init=None,
        random_state=None,
    ):
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.reg_covar = reg_covar
        self.n_init = n_init
        self.tol = tol
        self.max_iter = max_iter
        self.means_init = means_init
        self.random_state = random_state

    @atomic_fit
    def fit(self, X, y=None, sample_weight=None):
        """Fit the mixture.

        Parameters
        ----------
        y : array-like of shape (n_samples,), default=None
            Labels: each row is weighted by its uncertainty.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights; with labels they multiply the uncertainties.
        """
        X = validate_rows(self, X, reset=True, ensure_min_samples=2)
        weights = self._row_weights(X, y, sample_weight)
        seen = np.flatnonzero(weights > 0)
        if len(seen) < self.n_components:
            raise ValueError(
                f"n_components={self.n_components} exceeds the {len(seen)} rows that count; lower "
                "n_components or give more rows."
            )
        xp, device = compat.array_namespace(X), compat.device(X)
        self.sample_weight_ = xp.asarray(weights, dtype=X.dtype, device=device)
        index = xp.asarray(seen, device=device)
        found = fit_mixture(
            xp.take(X, index, axis=0),
            xp.take(self.sample_weight_, index),
            self.n_components,
            self.covariance_type,
            reg_covar=self.reg_covar,
            n_init=self.n_init,
            tol=self.tol,
            max_iter=self.max_iter,
            means_init=self._check_means_init(X.shape[1]),
            random_state=self.random_state,
        )
        self._keep(found)
        return self

    @atomic_fit_blocks
    def fit_blocks(self, blocks):
        """Fit to a table in blocks of rows: an E-step of all starts is one pass over them.

        The fit equals that in memory; the starts are found on a sample of 100,000 rows.
        """
        fit_mixture_blocks(self, blocks)

    def _keep(self, found) -> None:
        """Keep the best end of EM, and say if it is none."""
        self.weights_, self.means_, self.covariances_, _ = found.components
        self.lower_bounds_ = np.asarray(found.path)
        self.n_iter_ = len(found.path) - 1
        self.converged_ = found.converged
        if not self.converged_:
            warnings.warn(
                f"EM did not converge in max_iter={self.max_iter} steps; raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=3,
            )

    def predict_proba(self, X):
        """Return the responsibility of each component for each row.

        Returns
        -------
        array of shape (n_samples, n_components)
            Responsibilities; rows sum to one. Far from all components they turn one-hot: look at
            :meth:`score_samples` to see how far.
        """
        return self._responsibilities(X)[0]

    def predict(self, X):
        """Return the component that is most responsible for each row.

        Returns
        -------
        array of shape (n_samples,)
            Index of the component.
        """
        shares = self.predict_proba(X)
        return compat.array_namespace(shares).argmax(shares, axis=1)

    def score_samples(self, X):
        """Return the logarithm of the mixture's density at each row.

        Returns
        -------
        array of shape (n_samples,)
            Log density.
        """
        return self._responsibilities(X)[1]

    def score(self, X, y=None):
        """Return the mean log density of the rows.

        Parameters
        ----------
        y : ignored
            For the conventions of scikit-learn.

        Returns
        -------
        float
            Mean of :meth:`score_samples`.
        """
        values = self.score_samples(X)
        return float(compat.array_namespace(values).mean(values))

    def sample(self, n_samples=1):
        """Draw rows from the mixture.

        Parameters
        ----------
        n_samples : int, default=1
            Number of rows.

        Returns
        -------
        X : array of shape (n_samples, n_features)
            Rows, grouped by component.
        components : array of shape (n_samples,)
            The component of each row.
        """
        check_is_fitted(self)
        if n_samples < 1:
            raise ValueError(f"n_samples={n_samples!r} must be at least 1.")
        xp, device = compat.array_namespace(self.means_), compat.device(self.means_)
        rng = check_random_state(self.random_state)
        shares = as_numpy(self.weights_).astype(np.float64)
        labels = np.repeat(
            np.arange(self.n_components), rng.multinomial(n_samples, shares / shares.sum())
        )
        noise = rng.standard_normal((n_samples, self.n_features_in_))
        rows = _spread(noise, labels, as_numpy(self.covariances_), self.covariance_type)
        rows += as_numpy(self.means_)[labels]
        return (
            xp.asarray(rows, dtype=self.means_.dtype, device=device),
            xp.asarray(labels, device=device),
        )

    def aic(self, X):
        """Return Akaike's information criterion on ``X``; lower is better.

        Returns
        -------
        float
            Twice the number of parameters less twice the log-likelihood.
        """
        return -2 * self.score(X) * len(X) + 2 * self._n_parameters()

    def bic(self, X):
        """Return the Bayesian information criterion on ``X``; lower is better.

        Returns
        -------
        float
            Number of parameters times log(n_samples), less twice the log-likelihood.
        """
        return -2 * self.score(X) * len(X) + self._n_parameters() * float(np.log(len(X)))

    def _row_weights(self, X, y, sample_weight) -> np.ndarray:
        """Weights from ``sample_weight`` and, where labels are given, from their uncertainty."""
        n = X.shape[0]
        if sample_weight is not None:
            sample_weight = as_numpy(sample_weight)
            if not sample_weight.any():
                return self._equal_weights(n)
        weights = check_weights(sample_weight, np.empty((n, 1)))
        if y is not None:
            y = validate_labels(y, X)
            check_classification_targets(y)
            codes = np.unique(y, return_inverse=True)[1]
            weights = weights * as_numpy(_map_of_codes(X, codes, weights))
        return weights if weights.any() else self._equal_weights(n)

    def _equal_weights(self, n) -> np.ndarray:
        warnings.warn(
            "every row has weight zero (one class only, or sample_weight of zeros); all rows are "
            "weighted alike instead.",
            UserWarning,
            stacklevel=6,
        )
        return np.ones(n)

    def _check_means_init(self, n_features):
        if self.means_init is None:
            return None
        means = as_numpy(self.means_init)
        if means.shape != (self.n_components, n_features):
            raise ValueError(
                f"means_init has shape {means.shape}; expected (n_components, n_features) = "
                f"({self.n_components}, {n_features})."
            )
        return means

    def _responsibilities(self, X) -> tuple[Any, Any]:
        check_is_fitted(self)
        X = validate_rows(self, X, reset=False)
        check_same_library(self.means_, X)
        xp = compat.array_namespace(X)
        return responsibilities(X, as_components(self, xp), self.covariance_type)

    def _n_parameters(self) -> int:
        m = self.n_features_in_
        covariance = {
            "full": self.n_components * m * (m + 1) // 2,
            "tied": m * (m + 1) // 2,
            "diag": self.n_components * m,
            "spherical": self.n_components,
        }[self.covariance_type]
        return covariance + self.n_components * (m + 1) - 1

    def _sections(self, X, columns):
        return mixture_sections(self, X, columns)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        return tags


def _spread(noise, labels, covariances, covariance_type):
    """Give standard normal rows the covariance of their component."""
    if covariance_type == "spherical":
        return noise * np.sqrt(covariances)[labels, None]
    if covariance_type == "diag":
        return noise * np.sqrt(covariances)[labels]
    roots = np.linalg.cholesky(covariances)
    if covariance_type == "tied":
        return noise @ roots.T
    return np.einsum("ij,ikj->ik", noise, roots[labels])
