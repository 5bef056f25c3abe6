"""Locally linear discriminants: Fisher's criterion with one projection per component."""

from numbers import Integral, Real

import array_api_compat as compat
import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin

from vicinal._base import (
    atomic_fit,
    check_at_most_rows,
    query_rows,
    random_seeds,
    saved,
    store_parameters,
    training_data,
)
from vicinal._base._compat import Interval, StrOptions
from vicinal._kernels.cascade._hard import nearest_center
from vicinal._kernels.metric import _mixture as kernels
from vicinal.uncertainty._responsibility_mixture import ResponsibilityMixture, weighted_centers


@saved(centers_="k p", projections_="m k p", offsets_="m k", _directions="m *")
class LocalDiscriminantTransformer(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    r"""Supervised dimension reduction by local linear discriminants.

    The space is divided softly into components. Each has its own linear projection, and all
    projections are chosen together by Fisher's criterion. Components found by uncertainty contain
    both sides of a class border; components found by density may contain one class only.

    Read more in the :doc:`user guide </guide/uncertainty>`.

    Parameters
    ----------
    n_components : int, default=None
        Number of outputs, at most the number of classes less one, which ``None`` means.
    n_regions : int, default=4
        Number of local projections.
    region_method : {"uncertainty", "density", "kmeans"}, default="uncertainty"
        How regions are found: by a :class:`ResponsibilityMixture` weighted by uncertainty, by an
        unweighted Gaussian mixture, or by k-means (hard regions).
    offset : bool, default=False
        Whether each component has its own offset. Then also components that contain one class
        only can separate it from the others.
    shrinkage : float, default=1e-3
        Shrinkage of the within-class covariance of the gated features towards a multiple of the
        identity, between 0 and 1.
    covariance_type : {"full", "tied", "diag", "spherical"}, default="tied"
        Covariances of the mixture.
    reg_covar : float, default=1e-2
        Penalty on small covariances of the mixture.
    n_init : int, default=5
        Starts of the mixture or of k-means.
    random_state : int, RandomState or None, default=None
        Seed of the starts.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels.
    centers_ : array of shape (n_regions, n_features)
        Centres of the components.
    projections_ : array of shape (n_components, n_regions, n_features)
        Row ``projections_[j, k]`` maps ``x - centers_[k]`` to output ``j`` in component ``k``.
    offsets_ : array of shape (n_components, n_regions)
        Offset of each output and component; zeros unless ``offset``.
    discriminability_ : ndarray of shape (n_components,)
        Between- over within-class variance of each output.
    mixture_ : ResponsibilityMixture or None
        The mixture; ``None`` for k-means.
    n_features_in_ : int
        Number of features seen in ``fit``.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, when ``X`` has names that are all strings.

    See Also
    --------
    ResponsibilityMixture : The mixture of the components.
    LocallyAdaptiveClassifier : Learns metrics for them instead of projections.
    sklearn.discriminant_analysis.LinearDiscriminantAnalysis : One projection for the whole space.

    Notes
    -----
    With responsibilities :math:`r_k(x)` and centres :math:`m^k`, the outputs

    .. math:: z(x) = \sum_k r_k(x) \left( U_k^\top (x - m^k) + b_k \right)

    are linear in the gated features :math:`[r_k(x) (x - m^k)]_k` and :math:`[r_k(x)]_k`, so
    Fisher's criterion over all :math:`U_k` is one generalised eigenproblem of size ``n_regions *
    n_features``. This is our interpretation of section 4.1 of [1]_, "in a manner similar to" the
    locally linear discriminant analysis of [2]_; that method also constrains the bases and
    iterates. Distances and covariances depend on scale: standardise or whiten first.

    The baselines of [1]_ are pipelines: Eigenface is ``make_pipeline(PCA(0.95),
    KNeighborsClassifier(1))``, Fisherface ``make_pipeline(PCA(0.95, whiten=True),
    LinearDiscriminantAnalysis(), KNeighborsClassifier(1))`` with the discriminants as outputs.

    References
    ----------
    .. [1] J. Dai, S. Yan, X. Tang and J. T. Kwok, "Locally adaptive classification piloted by
       uncertainty", ICML 2006, section 4.1.
    .. [2] T.-K. Kim and J. Kittler, "Locally linear discriminant analysis for multimodally
       distributed classes for face recognition with a single model image", IEEE Transactions on
       Pattern Analysis and Machine Intelligence 27(3), 2005. :doi:`10.1109/TPAMI.2005.58`

    Examples
    --------
    Two classes in the corners of a square, which no single line separates:

    >>> import numpy as np
    >>> from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    >>> from vicinal.uncertainty import LocalDiscriminantTransformer
    >>> rng = np.random.RandomState(0)
    >>> corners = np.array([[2, 2], [-2, -2], [2, -2], [-2, 2]])
    >>> X = np.repeat(corners, 200, axis=0) + rng.normal(size=(800, 2))
    >>> y = np.repeat([0, 0, 1, 1], 200)
    >>> line = LinearDiscriminantAnalysis().fit(X, y).score(X, y)
    >>> z = LocalDiscriminantTransformer(random_state=0).fit_transform(X, y)
    >>> local = LinearDiscriminantAnalysis().fit(z, y).score(z, y)
    >>> print(f"{line:.1f} {local:.2f}")
    0.5 0.97
    """

    _parameter_constraints = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "n_regions": [Interval(Integral, 1, None, closed="left")],
        "region_method": [StrOptions({"uncertainty", "density", "kmeans"})],
        "offset": ["boolean"],
        "shrinkage": [Interval(Real, 0, 1, closed="both")],
        "covariance_type": [StrOptions(set(kernels.COVARIANCE_TYPES))],
        "reg_covar": [Interval(Real, 0, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        n_components=None,
        *,
        n_regions=4,
        region_method="uncertainty",
        offset=False,
        shrinkage=1e-3,
        covariance_type="tied",
        reg_covar=1e-2,
        n_init=5,
        random_state=None,
    ):
        store_parameters(self, locals())

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Find the components and their projections.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Training rows.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows; rows of weight zero are removed.

        Returns
        -------
        self : LocalDiscriminantTransformer
            The fitted transformer.
        """
        options = {"task": "classification", "arrays": True, "ensure_min_samples": 2, "order": "C"}
        data = training_data(self, X, y, sample_weight, **options)
        xp, self.classes_ = compat.array_namespace(data.X), data.classes
        n_outputs = self._check_outputs()
        check_at_most_rows("n_regions", self.n_regions, len(data))
        self._find_regions(data)
        gated = kernels.gated_features(
            data.X, self._shares(data.X), self.centers_, offset=self.offset
        )
        within, between = kernels.class_scatters(gated, data.y, data.weights, len(self.classes_))
        directions, self.discriminability_ = kernels.fisher_directions(
            within, between, n_outputs, self.shrinkage
        )
        n_slopes = self.n_regions * self.n_features_in_
        slopes = directions[:, :n_slopes].reshape(n_outputs, self.n_regions, self.n_features_in_)
        shifts = directions[:, n_slopes:]
        if not self.offset:
            shifts = np.zeros((n_outputs, self.n_regions))
        self.projections_, self.offsets_, self._directions = (
            xp.astype(data.array(part), data.X.dtype) for part in (slopes, shifts, directions)
        )
        self._n_features_out = n_outputs
        return self

    def transform(self, X):
        """Map rows to the local discriminants.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        array of shape (n_samples, n_components)
            Outputs.
        """
        X = query_rows(self, X, arrays=True, order="C")
        gated = kernels.gated_features(X, self._shares(X), self.centers_, offset=self.offset)
        return gated @ self._directions.T

    def _check_outputs(self) -> int:
        most = min(
            len(self.classes_) - 1, self.n_regions * (self.n_features_in_ + bool(self.offset))
        )
        wanted = most if self.n_components is None else self.n_components
        if wanted > most:
            raise ValueError(
                f"n_components={wanted} exceeds {most}, the most that {len(self.classes_)} classes "
                f"and {self.n_features_in_} features allow; lower n_components."
            )
        return wanted

    def _find_regions(self, data):
        """Find the centres of the components, and the mixture unless they are those of k-means."""
        weights = compat.array_namespace(data.X).astype(data.weights, data.X.dtype)
        if self.region_method == "kmeans":
            self.mixture_ = None
            seed = random_seeds(self.random_state, 1)[0]
            self.centers_ = weighted_centers(
                data.X, weights, self.n_regions, seed, n_init=self.n_init
            )
            return
        self.mixture_ = ResponsibilityMixture(
            self.n_regions,
            covariance_type=self.covariance_type,
            reg_covar=self.reg_covar,
            n_init=self.n_init,
            random_state=self.random_state,
        )
        labels = data.y if self.region_method == "uncertainty" else None
        self.mixture_.fit(data.X, labels, sample_weight=data.weights)
        self.centers_ = self.mixture_.means_

    def _shares(self, X):
        """Responsibility of each component for each row; k-means gives all to the nearest."""
        if self.mixture_ is not None:
            return self.mixture_.predict_proba(X)
        xp, device = compat.array_namespace(X), compat.device(X)
        nearest = nearest_center(X, self.centers_)
        return xp.astype(
            nearest[:, None] == xp.arange(self.n_regions, device=device)[None, :], X.dtype
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.array_api_support = True
        return tags
