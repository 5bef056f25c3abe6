"""Whitening: a linear map after which the covariance is the identity."""

from numbers import Real

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from vicinal._base import atomic_fit, documented, query_rows, saved, training_data
from vicinal._base._compat import Interval, StrOptions, check_feature_names_in
from vicinal._kernels.linear import _covariance as kernels


@saved(mean_="p", whitening_="p k", unwhitening_="k p")
@documented
class WhiteningTransformer(TransformerMixin, BaseEstimator):
    r"""Whitening by a Cholesky factor, the symmetric root or principal axes.

    The output has mean 0 and the identity as covariance, so Euclidean distances after it are
    Mahalanobis distances before it. Unlike with ``PCA(whiten=True)``, with the default
    ``"cholesky"`` each output belongs to one input column: the residual of the regression on the
    columns before it, scaled to unit variance.

    Read more in the :doc:`user guide </guide/linear>`.

    Parameters
    ----------
    method : {"cholesky", "zca", "pca"}, default="cholesky"
        - ``"cholesky"``: the inverse of the triangular factor. The first column is only scaled, so
          the result depends on the order of columns, but not on their scales.
        - ``"zca"``: the symmetric inverse root, which changes the data least.
        - ``"pca"``: the principal axes, in the order of decreasing variance.
    shrinkage : float in [0, 1], default=0.0
        Convex shrinkage `s` of the covariance `A`, ``(1 - s) A + s trace(A) / n_features I``, for
        few samples or dependent columns. Only with 0 is the output covariance the identity.
    tol : float, default=1e-10
        A column is dependent, and dropped, when the columns before it leave at most this share of
        its variance (``"cholesky"``); an axis is dropped when its variance is at most this share
        of the mean variance (``"pca"``, ``"zca"``). ``"zca"`` keeps all columns and projects the
        axis out; its output covariance is then a projection.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        Weighted mean.
    covariance_ : ndarray of shape (n_features, n_features)
        Weighted covariance before shrinkage, normalised by the sum of weights.
    whitening_ : ndarray of shape (n_features, n_components)
        ``transform(X) = (X - mean_) @ whitening_``.
    unwhitening_ : ndarray of shape (n_components, n_features)
        ``inverse_transform(Z) = Z @ unwhitening_ + mean_``.
    dependent_features_ : ndarray of int
        Columns dropped as dependent on those before them (``"cholesky"`` only, else empty).
    rank_ : int
        Number of independent columns or axes.

    See Also
    --------
    sklearn.preprocessing.StandardScaler : Unit variances, correlations kept.
    sklearn.decomposition.PCA : Principal axes, of which few may be kept.

    Notes
    -----
    With weights :math:`w_i`, :math:`n = \sum w_i`, :math:`\mu = \frac1n\sum w_i x_i` and
    :math:`A = \frac1n \sum w_i (x_i - \mu)(x_i - \mu)^\top = L L^\top`, the Cholesky method is

    .. math:: z = L^{-1}(x - \mu),\qquad \mathrm{Var}(z) = I,\qquad x = L z + \mu.

    Any other whitening is a rotation of this one [1]_. A plain factorisation would scale an exactly
    dependent column by :math:`10^7` or more; here pivots are tested, and a dependent column is
    dropped and restored by :meth:`inverse_transform`. The whitened data are whitened a second time
    for accuracy with badly conditioned :math:`A` [2]_.

    References
    ----------
    .. [1] A. Kessy, A. Lewin, K. Strimmer, "Optimal whitening and decorrelation", The American
       Statistician 72, 2018. :doi:`10.1080/00031305.2016.1277159`
    .. [2] Y. Yamamoto, Y. Nakatsukasa, Y. Yanagisawa, T. Fukaya, "Roundoff error analysis of the
       CholeskyQR2 algorithm", ETNA 44, 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> from vicinal.linear import WhiteningTransformer
    >>> X = load_iris().data
    >>> Z = WhiteningTransformer().fit_transform(X)
    >>> bool(np.allclose(np.cov(Z.T, bias=True), np.eye(4), atol=1e-10))
    True

    The first column is only centred and scaled:

    >>> round(float(np.corrcoef(Z[:, 0], X[:, 0])[0, 1]), 12)
    1.0
    """

    _parameter_constraints = {
        "method": [StrOptions(set(kernels.WHITENINGS))],
        "shrinkage": [Interval(Real, 0, 1, closed="both")],
        "tol": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(self, method="cholesky", *, shrinkage=0.0, tol=1e-10):
        self.method = method
        self.shrinkage = shrinkage
        self.tol = tol

    @atomic_fit
    def fit(self, X, y=None, sample_weight=None):
        """Learn mean and covariance.

        Parameters
        ----------
        y : None
            Ignored.
        """
        data = training_data(self, X, None, sample_weight, ensure_min_samples=2)
        mean, covariance = _mean_and_covariance(data.X, data.sample_weight)
        if not covariance.any():
            raise ValueError(
                "No column of X varies, so there is no variance to scale to one; drop constant "
                "columns and check sample_weight."
            )
        shrunk = (1.0 - self.shrinkage) * covariance
        shrunk[np.diag_indices(len(shrunk))] += self.shrinkage * np.trace(covariance) / len(shrunk)
        whitening = kernels.WHITENINGS[self.method](shrunk, self.tol)
        if self.shrinkage == 0:
            whitening = kernels.refine_whitening(
                whitening, data.X, mean, data.sample_weight, self.method
            )
        dtype = data.X.dtype
        self.mean_ = mean.astype(dtype)
        self.covariance_ = covariance
        self.whitening_ = whitening.forward.astype(dtype)
        self.unwhitening_ = whitening.backward.astype(dtype)
        self.rank_ = len(whitening.kept)
        dropped = np.setdiff1d(np.arange(data.n_features), whitening.kept)
        self.dependent_features_ = dropped if self.method == "cholesky" else dropped[:0]
        return self

    def transform(self, X):
        """Whiten samples.

        Returns
        -------
        Z : ndarray of shape (n_samples, n_components)
            Whitened samples.
        """
        return (query_rows(self, X) - self.mean_) @ self.whitening_

    def inverse_transform(self, X):
        """Map whitened samples back to the original coordinates.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Whitened samples.

        Returns
        -------
        X_original : ndarray of shape (n_samples, n_features)
            Samples in the coordinates seen by ``fit``.
        """
        check_is_fitted(self)
        X = check_array(X, dtype=[np.float64, np.float32])
        if X.shape[1] != len(self.unwhitening_):
            raise ValueError(
                f"X has {X.shape[1]} columns, but whitened samples have {len(self.unwhitening_)}; "
                "pass what transform returned."
            )
        return X @ self.unwhitening_ + self.mean_

    def get_feature_names_out(self, input_features=None):
        """Return the names of the outputs.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the inputs, checked against those seen by ``fit``.

        Returns
        -------
        names : ndarray of str
            The names of the columns kept (``"cholesky"``, ``"zca"``), or numbered axes (``"pca"``).
        """
        check_is_fitted(self)
        names = check_feature_names_in(self, input_features)
        if self.method == "pca":
            return np.array([f"whiteningtransformer{i}" for i in range(self.rank_)], dtype=object)
        return np.delete(names, self.dependent_features_)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _mean_and_covariance(X, weights):
    """Return mean and covariance, summed about the mean so that a far origin costs no digits."""
    one_class = np.zeros(len(X), dtype=np.intp)
    mean = kernels.class_means(X, one_class, weights, 1)
    statistics = kernels.lda_statistics(X, one_class, weights, 1, shifts=mean)
    covariance = kernels.within_covariance(statistics)
    # The variance that rounding leaves to a constant column.
    noise = (4 * np.finfo(float).eps * np.abs(mean[0])) ** 2
    constant = np.diag(covariance) <= noise
    covariance[constant] = 0.0
    covariance[:, constant] = 0.0
    return mean[0], covariance
