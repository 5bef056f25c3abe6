"""Responsibility mixture model: a Gaussian mixture of weighted rows, in memory or in blocks."""

import warnings
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from numbers import Integral, Real
from typing import Any

import array_api_compat as compat
import numpy as np
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets

from vicinal import _base
from vicinal._base._compat import Interval, StrOptions, num_samples
from vicinal._base._explanation import ExplainRowMixin, ExplanationSection, dense_row
from vicinal._kernels.cascade._hard import nearest_center
from vicinal._kernels.metric import _mixture as kernels
from vicinal.uncertainty._uncertainty_map import uncertainty_of

# Rows on which k-means finds the starts of EM: of blocks, and of device arrays, which are copied
# to the host.
SAMPLE_ROWS = 100_000
_COPIED_ROWS = 20_000
# Starts whose objectives differ by less than this relative amount have the same optimum: the first
# is used, so that rounding does not choose the order of the components.
_SAME_OPTIMUM = 1e-9


@_base.saved(weights_="k shares", means_="k p", covariances_="k | * p | k p p")
@_base.documented
class ResponsibilityMixture(ExplainRowMixin, DensityMixin, BaseEstimator):
    r"""Gaussian mixture of rows weighted by uncertainty, the responsibility mixture model (RMM).

    With labels, rows are weighted by their uncertainty
    (:func:`~vicinal.uncertainty.uncertainty_map`), so the components lie along the borders between
    classes instead of inside them. With ``sample_weight`` it is a Gaussian mixture with weights,
    which scikit-learn does not have: a row of weight two counts as the same row twice. With neither
    it is an ordinary mixture.

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
        features; 0 is maximum likelihood, with components that may collapse onto single rows.
    n_init : int, default=5
        Number of weighted k-means++ starts; the best one is used.
    tol : float, default=1e-4
        EM stops when the objective per unit of weight changes by less.
    max_iter : int, default=200
        Maximum number of EM steps of a start.
    means_init : array-like of shape (n_components, n_features), default=None
        First centres, instead of those of k-means; there is then one start.
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
        Whether the best start stopped by ``tol``.
    n_iter_ : int
        EM steps of the best start.
    sample_weight_ : array of shape (n_samples,)
        Weights that were used.

    See Also
    --------
    uncertainty_map : The weights from labels.
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
    Two classes side by side: the component of a plain mixture lies in a class, that of the
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
        "covariance_type": [StrOptions(set(kernels.COVARIANCE_TYPES))],
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
        _base.store_parameters(self, locals())

    @_base.atomic_fit
    def fit(self, X, y=None, sample_weight=None):
        """Fit the mixture.

        Parameters
        ----------
        y : array-like of shape (n_samples,), default=None
            Labels: each row is weighted by its uncertainty.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights; with labels they multiply the uncertainties.
        """
        n_given = num_samples(X)
        if sample_weight is not None and not _base.as_numpy(sample_weight).any():
            y = sample_weight = None
            _warn_of_zero_weights()
        options = {"arrays": True, "ensure_min_samples": 2, "order": "C"}
        data = _base.training_data(self, X, y, sample_weight, **options)
        weights = data.host(data.weights)
        if y is not None:
            labels = _base.as_numpy(data.y)
            check_classification_targets(labels)
            codes = np.unique(labels, return_inverse=True)[1]
            weights = weights * _base.as_numpy(uncertainty_of(data.X, codes, weights))
            if not weights.any():
                _warn_of_zero_weights()
                weights = np.ones(len(data))
        xp, used = compat.array_namespace(data.X), np.zeros(n_given)
        used[data.positions] = weights
        self.sample_weight_ = xp.astype(data.array(used), data.X.dtype)
        some = data.take(np.flatnonzero(weights > 0))
        weights = xp.astype(data.array(weights[weights > 0]), data.X.dtype)
        some = replace(some, y=None, sample_weight=weights)
        _base.check_at_most_rows("n_components", self.n_components, len(some))
        self._store(*fit_mixture(some, self, self.random_state, lambda seed: some))
        return self

    @_base.atomic_fit_blocks
    def fit_blocks(self, blocks):
        """Fit to a table in blocks of rows: an E-step of all starts is one pass over them.

        The fit equals that in memory; the starts are found on a sample of 100,000 rows.
        """
        blocks, found = _base.survey(blocks, has_classes=False)
        _base.check_at_most_rows("n_components", self.n_components, found.n_rows)
        random_state = 0 if self.random_state is None else deepcopy(self.random_state)

        def sample(seed):
            return _base.sample_rows(blocks, found, SAMPLE_ROWS, seed)

        self._store(*fit_mixture(blocks, self, random_state, sample))

    def _store(self, components, path, converged) -> None:
        self.weights_, self.means_, self.covariances_, _ = components
        self.lower_bounds_, self.n_iter_ = np.asarray(path), len(path) - 1
        self.converged_ = converged
        if not self.converged_:
            warnings.warn(
                f"EM did not converge in max_iter={self.max_iter} steps; raise max_iter or tol.",
                ConvergenceWarning,
                stacklevel=5,
            )

    def predict_proba(self, X):
        """Return the responsibility of each component for each row.

        Returns
        -------
        array of shape (n_samples, n_components)
            Responsibilities; rows sum to one. Far from all components one of them is 1;
            :meth:`score_samples` shows how far a row is.
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

    def _responsibilities(self, X) -> tuple[Any, Any]:
        X = _base.query_rows(self, X, arrays=True, order="C")
        xp = compat.array_namespace(X)
        roots = kernels.precision_roots(self.covariances_, self.covariance_type, xp)
        components = kernels.Components(self.weights_, self.means_, self.covariances_, roots)
        return kernels.responsibilities(X, components, self.covariance_type)

    def _sections(self, X, columns):
        shares = _base.as_numpy(self.predict_proba(X))[0]
        order = np.argsort(-shares, kind="stable")
        leader = int(order[0])
        rows = [
            (f"component {k}", float(_base.as_numpy(self.weights_)[k]), float(shares[k]))
            for k in order
        ]
        centre = _base.as_numpy(self.means_)[leader]
        far = np.argsort(-np.abs(dense_row(X)[0] - centre), kind="stable")
        share = f"{shares[leader]:.3f}"
        return [
            ExplanationSection(
                "components",
                "Components",
                f"Component {leader} of {len(shares)} has responsibility {share} for this row.",
                ("component", "weight", "responsibility"),
                rows,
                "responsibility",
                {"responsibilities": shares.tolist(), "leader": leader},
            ),
            ExplanationSection(
                "position",
                "Position",
                f"Centre of component {leader}, columns farthest from the row first.",
                ("column", "value", "centre"),
                [(columns.names[j], columns.values[j], float(centre[j])) for j in far],
            ),
        ]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.array_api_support = True
        return tags


def _warn_of_zero_weights() -> None:
    warnings.warn(
        "Every row has weight zero (one class only, or sample_weight of zeros), so all rows get "
        "equal weights.",
        UserWarning,
        stacklevel=5,
    )


# --- weighted EM ----------------------------------------------------------------------------------


# Components, objective after each step, and whether EM converged.
FittedMixture = tuple[kernels.Components, list[float], bool]


def fit_mixture(
    data: _base.TrainingData | _base.Blocks,
    model: Any,
    random_state: Any,
    sample: Callable[[int], Any],
) -> FittedMixture:
    """Fit a mixture to weighted rows by EM from several weighted k-means starts.

    One pass over the rows is an E-step of all starts. ``sample(seed)`` returns the rows on which
    the starts are found.
    """
    total, sums = data.total(_weighted_sums, combine=_base.add_tuples)
    center = sums / total
    total_scatter = data.total(_scatter, center)
    xp, n_features = compat.array_namespace(center), center.shape[0]
    variance = float(xp.linalg.trace(total_scatter)) / float(total) / n_features
    # Proportional to the weights, so that a row of weight two is a row seen twice.
    ridge = model.reg_covar * (variance or 1.0) * float(total) / model.n_components
    kind = model.covariance_type
    centers = _start_centers(model, center, random_state, sample)
    hard = data.total(_label_moments, center, centers, kind, combine=_add_all)
    origin = xp.zeros_like(hard[0].first)
    ends = kernels.expectation_maximisation(
        lambda queried: data.total(_moments, center, queried, kind, combine=_add_all),
        [kernels.update(each, origin, total_scatter, ridge, kind) for each in hard],
        total_scatter,
        ridge,
        kind,
        tol=model.tol,
        max_iter=model.max_iter,
    )
    return best_mixture(ends, center)


def _start_centers(model, center, random_state, sample) -> list:
    """Return the centres of every start, relative to the mean."""
    xp, device = compat.array_namespace(center), compat.device(center)
    if model.means_init is not None:
        means, shape = _base.as_numpy(model.means_init), (model.n_components, center.shape[0])
        if means.shape != shape:
            raise ValueError(
                f"means_init has shape {means.shape}; expected (n_components, n_features) = "
                f"{shape}."
            )
        return [xp.asarray(means, dtype=center.dtype, device=device) - center[None, :]]
    if model.n_components == 1:
        return [xp.zeros((1, center.shape[0]), dtype=center.dtype, device=device)]
    seeds = _base.random_seeds(random_state, model.n_init)
    some = sample(seeds[0])
    rows = some.X - center[None, :]
    return [weighted_centers(rows, some.sample_weight, model.n_components, seed) for seed in seeds]


def best_mixture(ends: list[FittedMixture], center: Any) -> FittedMixture:
    """Return the end of highest objective, the first of equals, moved back to ``center``."""
    bound = max(path[-1] for _, path, _ in ends)
    slack = _SAME_OPTIMUM * max(1.0, abs(bound))
    components, path, converged = next(end for end in ends if end[1][-1] >= bound - slack)
    return components._replace(means=components.means + center[None, :]), path, converged


def weighted_centers(X: Any, weights: Any, n_clusters: int, seed: int, n_init: int = 1) -> Any:
    """Centres of weighted k-means with a k-means++ start: (n_clusters, n_features).

    scikit-learn does this in host memory, so at most 20,000 rows of a device array are copied.
    """
    rows, weights = _base.host_sample([X, weights], _COPIED_ROWS, seed)
    search = KMeans(n_clusters, n_init=n_init, random_state=seed)
    # With fewer distinct rows than components some centres coincide, which EM allows.
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        search.fit(rows, sample_weight=weights)
    return _base.on_device_of(search.cluster_centers_, X)


def _weighted_sums(block: _base.TrainingData) -> tuple[Any, Any]:
    if block.y is not None:
        raise ValueError(
            "A fit to blocks of rows does not take labels y; pass the weights of the rows as "
            "sample_weight instead."
        )
    xp, weights = compat.array_namespace(block.X), block.sample_weight
    return xp.sum(weights), xp.sum(block.X * weights[:, None], axis=0)


def _scatter(block, center) -> Any:
    return kernels.scatter(block.X - center[None, :], block.sample_weight)


def _moments(
    block, center, queried: list[kernels.Components], covariance_type: str
) -> list[kernels.Moments]:
    rows = block.X - center[None, :]
    return [kernels.moments(rows, block.sample_weight, each, covariance_type) for each in queried]


def _label_moments(block, center, centers, covariance_type: str) -> list[kernels.Moments]:
    rows = block.X - center[None, :]
    return [
        kernels.label_moments(
            rows, block.sample_weight, nearest_center(rows, each), each.shape[0], covariance_type
        )
        for each in centers
    ]


def _add_all(left: list[kernels.Moments], right: list[kernels.Moments]) -> list[kernels.Moments]:
    return [kernels.add_moments(a, b) for a, b in zip(left, right, strict=True)]
