"""The exact, finite feature map of the truncated RBF kernel."""

from numbers import Integral, Real

import array_api_compat as compat
import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from vicinal._base import (
    atomic_fit,
    check_same_library,
    check_weights,
    documented,
    is_array_api,
    namespace,
    saved,
    validate_array_api,
)
from vicinal._base._compat import Interval, StrOptions
from vicinal._kernels.subspace._truncated_rbf import (
    feature_rows,
    monomial_plan,
    plan_beside,
    truncated_rbf_features,
)
from vicinal.subspace._base import check_expansion, device_training, learn_center_and_gamma


@saved(mean_="p")
@documented
class TruncatedRBFFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    r"""Map rows to the monomials whose inner product is the truncated RBF kernel.

    The exponential series of the RBF kernel, cut after ``order``, is spanned by
    ``J = C(n_features + order, order)`` features. The map is exact, unlike random Fourier or
    Nystroem features, and a kernel machine becomes a linear model with a cost linear in the
    number of rows [1]_. It suits few columns, many rows and smooth targets.

    Read more in the :doc:`user guide </guide/subspace>`.

    Parameters
    ----------
    order : int, default=2
        Highest degree.
    gamma : float or "scale", default="scale"
        Width, as in ``exp(-gamma |x - z|^2)``. ``"scale"`` is 0.1 over the mean squared length of
        the (centred) rows, which keeps the truncated series close to the kernel.
    center : bool, default=True
        Whether to subtract the mean first: the truncated kernel, unlike the RBF kernel, depends
        on where the origin is.
    max_features : int, default=20000
        Refuse to make more features than this.

    Attributes
    ----------
    mean_ : ndarray of shape (`n_features_in_`,)
        What is subtracted; zeros without centring.
    gamma_ : float
        The width used.
    n_output_features_ : int
        ``J``.

    See Also
    --------
    TruncatedRBFClassifier : Ridge or logistic classifier on these features, without storing them.
    sklearn.kernel_approximation.RBFSampler : Random features of the RBF kernel.

    Notes
    -----
    .. math::

        \phi_a(x) = e^{-\gamma|x|^2} \prod_i \frac{(\sqrt{2\gamma}\, x_i)^{a_i}}{\sqrt{a_i!}},
        \quad |a| \le p, \qquad
        \langle \phi(x), \phi(z)\rangle
        = e^{-\gamma|x|^2} e^{-\gamma|z|^2} \sum_{k=0}^{p} \frac{(2\gamma\, x\cdot z)^k}{k!}.

    The largest error against :math:`e^{-\gamma|x-z|^2}` over a set of rows is
    :math:`P(\mathrm{Poisson}(z) > p)` with :math:`z = 2\gamma \max|x|^2`, reached on the diagonal
    at the longest row. Each monomial is made once, from the one with its last letter dropped.

    References
    ----------
    .. [1] P.-Y. Wu, C.-C. Fang, J. M. Chang and S.-Y. Kung, "Cost-effective kernel ridge regression
       implementation for keystroke-based active authentication system", IEEE Transactions on
       Cybernetics, 2017.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.metrics.pairwise import rbf_kernel
    >>> from vicinal.subspace import TruncatedRBFFeatures
    >>> X = np.random.RandomState(0).uniform(-0.5, 0.5, size=(20, 3))
    >>> for order in (1, 3, 5):
    ...     P = TruncatedRBFFeatures(order, gamma=0.5, center=False).fit_transform(X)
    ...     print(P.shape[1], float(np.abs(P @ P.T - rbf_kernel(X, gamma=0.5)).max().round(6)))
    4 0.093647
    20 0.001898
    56 1.6e-05
    """

    _parameter_constraints: dict = {
        "order": [Interval(Integral, 1, None, closed="left")],
        "gamma": [Interval(Real, 0, None, closed="neither"), StrOptions({"scale"})],
        "center": ["boolean"],
        "max_features": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(self, order=2, *, gamma="scale", center=True, max_features=20_000):
        self.order = order
        self.gamma = gamma
        self.center = center
        self.max_features = max_features

    @atomic_fit
    def fit(self, X, y=None, sample_weight=None):
        """Learn the centre and the width.

        Parameters
        ----------
        y : None
            Ignored.
        """
        if is_array_api(X):
            X, _, weights = device_training(self, X, X, sample_weight)
        else:
            X = validate_data(self, X, dtype=[np.float64, np.float32])
            weights = check_weights(sample_weight, X)
        self.n_output_features_ = check_expansion(
            X.shape[1], self.order, self.max_features, "reduce the columns"
        )
        mean, self.gamma_ = learn_center_and_gamma(X, weights, self.gamma, self.center, self.order)
        self.mean_ = namespace(X).astype(mean, X.dtype)
        self._n_features_out = self.n_output_features_
        return self

    def transform(self, X):
        """Return the features.

        Returns
        -------
        P : ndarray of shape (n_samples, `n_output_features_`)
            One column per monomial, by degree, then in lexicographic order.
        """
        check_is_fitted(self)
        if is_array_api(self.mean_):
            check_same_library(self.mean_, X)
            X = validate_array_api(self, X, reset=False)
        else:
            X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32])
        plan = plan_beside(monomial_plan(X.shape[1], self.order), X)
        shape = X.shape[0], plan.n_outputs
        P = namespace(X).empty(shape, dtype=X.dtype, device=compat.device(X))
        for rows in feature_rows(X, plan.n_outputs):
            P[rows, :] = truncated_rbf_features(X[rows, :] - self.mean_, self.gamma_, plan)
        return P

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
