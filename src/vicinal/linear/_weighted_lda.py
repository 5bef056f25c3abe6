"""Linear discriminant analysis that takes sample weights."""

from numbers import Real

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from vicinal._base import atomic_fit, documented, encode_labels, positive_rows, saved
from vicinal._base._compat import Interval, StrOptions
from vicinal._kernels.linear._lda import (
    add_statistics,
    class_means,
    lda_coefficients,
    lda_statistics,
    ledoit_wolf_shrinkage,
    statistics_means,
    within_covariance,
)
from vicinal.linear._base import LinearScores


def _adds_up(estimator):
    """Tell whether the shrinkage can be had from sums alone."""
    if estimator.shrinkage == "auto":
        raise AttributeError(
            "shrinkage='auto' needs a second pass over all rows and cannot be updated block by "
            "block; give shrinkage a number, or use fit."
        )
    return True


@saved(classes_="c labels", means_="c p", coef_="r p", intercept_="r")
@documented
class WeightedLDA(LinearScores):
    r"""Linear discriminant analysis with sample weights and reusable statistics.

    Gaussian classes with one covariance, estimated by weighted maximum likelihood. Without weights
    it gives the predictions of scikit-learn's ``LinearDiscriminantAnalysis(solver="lsqr")``, which
    takes none. Everything it learns follows from sums over the rows (``statistics_``), so that it
    can be fitted block by block with :meth:`partial_fit`, and so that sums taken on several
    machines can be added.

    Read more in the :doc:`user guide </guide/linear>`.

    Parameters
    ----------
    shrinkage : float in [0, 1] or "auto", default=None
        Convex shrinkage `s` of the covariance `S` towards a multiple of the identity,
        ``(1 - s) S + s trace(S) / n_features I``. ``None`` means 0. ``"auto"`` is the value of
        Ledoit and Wolf for the pooled residuals, which takes a second pass over the data and is
        therefore not available in :meth:`partial_fit`.
    priors : array-like of shape (n_classes,), default=None
        Prior probabilities in the order of ``classes_``; ``None`` takes each class's share of the
        weight. They move the intercepts only.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients of the scores.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Intercepts of the scores.
    means_ : ndarray of shape (n_classes, n_features)
        Class means.
    covariance_ : ndarray of shape (n_features, n_features)
        Pooled within-class covariance before shrinkage, normalised by the sum of weights.
    priors_ : ndarray of shape (n_classes,)
        Priors in use.
    shrinkage_ : float
        Shrinkage in use.
    statistics_ : LDAStatistics
        Class weights, class sums and Gram matrix, see Notes.

    See Also
    --------
    sklearn.discriminant_analysis.LinearDiscriminantAnalysis : The unweighted analysis, with a
        transform.
    vicinal.linear.AveragedPerceptron : A linear classifier without a model of the density.

    Notes
    -----
    With class weights :math:`n_c = \sum_{y_i = c} w_i`, :math:`n = \sum_c n_c`, means
    :math:`m_c` and

    .. math:: S = \frac1n \sum_i w_i (x_i - m_{y_i})(x_i - m_{y_i})^\top,\qquad
       \Sigma = (1-s)\,S + s\,\frac{\mathrm{tr}\,S}{d}\,I,

    a sample belongs to the class of greatest
    :math:`x^\top\Sigma^{-1}m_c - \tfrac12 m_c^\top\Sigma^{-1}m_c + \log\pi_c`, which is
    section 4.3 of [1]_. Scores are taken about the weighted mean of the data: this adds the same
    number to all classes of a sample and makes the coefficients independent of the origin. Where
    :math:`\Sigma` is singular (pivots of its Cholesky factor are tested), :math:`10^{-9}` of the
    mean variance is added to its diagonal.

    ``statistics_`` holds, about a shift :math:`a_c` for each class, :math:`n_c`,
    :math:`\sum w_i (x_i - a_c)` and
    :math:`\sum_i w_i (x_i - a_{y_i})(x_i - a_{y_i})^\top`; shifts are the class means of the
    first block of data, which keeps :math:`S` free of cancellation.

    Two choices differ from scikit-learn: priors given by the user do not reweight the classes'
    covariances, and ``"auto"`` is one shrinkage for the pooled residuals [2]_ rather than one per
    class on scaled features.

    References
    ----------
    .. [1] T. Hastie, R. Tibshirani, J. Friedman, "The Elements of Statistical Learning", second
       edition, Springer, 2009. :doi:`10.1007/978-0-387-84858-7`
    .. [2] O. Ledoit, M. Wolf, "A well-conditioned estimator for large-dimensional covariance
       matrices", Journal of Multivariate Analysis 88, 2004, equations (14)-(16).
       :doi:`10.1016/S0047-259X(03)00096-4`

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from vicinal.linear import WeightedLDA
    >>> X, y = load_iris(return_X_y=True)
    >>> model = WeightedLDA(shrinkage=1e-4).fit(X, y)
    >>> round(model.score(X, y), 3)
    0.98

    A row of weight 3 counts as three rows:

    >>> model.fit(X, y, sample_weight=1.0 + 2.0 * (y == 2)).priors_
    array([0.2, 0.2, 0.6])
    """

    _parameter_constraints = {
        "shrinkage": [Interval(Real, 0, 1, closed="both"), StrOptions({"auto"}), None],
        "priors": ["array-like", None],
    }

    def __init__(self, shrinkage=None, *, priors=None):
        self.shrinkage = shrinkage
        self.priors = priors

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Fit to all rows at once.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Labels of at least two classes.
        """
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        weights, X, y = positive_rows(sample_weight, X, y, compact=True)
        self.classes_, codes = encode_labels(y)
        statistics = self._sum_up(X, codes, weights)
        if self.shrinkage == "auto":
            shrinkage = ledoit_wolf_shrinkage(X, codes, weights, statistics)
        else:
            shrinkage = float(self.shrinkage or 0.0)
        self._solve(statistics, shrinkage, X.dtype)
        return self

    @available_if(_adds_up)
    @atomic_fit
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Add rows to those seen so far; the result equals one fit to all of them.

        Parameters
        ----------
        classes : array-like of shape (n_classes,), default=None
            All labels that will ever come; needed at the first call.
        """
        first = not hasattr(self, "statistics_")
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32], reset=first)
        check_classification_targets(y)
        weights, X, y = positive_rows(sample_weight, X, y, compact=True)
        if first:
            self.classes_ = _check_classes(classes)
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(
                f"classes={classes!r} differ from those of the first call, "
                f"{self.classes_.tolist()!r}; leave classes out, or start again with fit."
            )
        statistics = self._sum_up(X, _codes_of(y, self.classes_), weights)
        if not first:
            statistics = add_statistics(self.statistics_, statistics)
        self._solve(statistics, float(self.shrinkage or 0.0), X.dtype)
        return self

    def _sum_up(self, X, codes, weights):
        """Sum up the rows about the shifts in use, class means of the first block."""
        n_classes = len(self.classes_)
        shifts = (
            self.statistics_.shifts
            if hasattr(self, "statistics_")
            else class_means(X, codes, weights, n_classes)
        )
        return lda_statistics(X, codes, weights, n_classes, shifts=shifts)

    def _solve(self, statistics, shrinkage, dtype):
        """Turn the statistics into coefficients."""
        priors = _check_priors(self.priors, len(self.classes_))
        coef, intercept = lda_coefficients(statistics, shrinkage, priors)
        self.statistics_ = statistics
        self.shrinkage_ = shrinkage
        self.priors_ = statistics.weights / statistics.weights.sum() if priors is None else priors
        self.means_ = statistics_means(statistics)
        self.covariance_ = within_covariance(statistics)
        self._store_scores(coef, intercept, dtype)


def _check_classes(classes):
    if classes is None:
        raise ValueError(
            "classes must be given at the first call of partial_fit, because later blocks may "
            "hold labels that this one lacks; pass np.unique of all labels."
        )
    classes = np.unique(classes)
    if len(classes) < 2:
        raise ValueError(f"classes={classes.tolist()!r} has one label; at least two are needed.")
    return classes


def _codes_of(y, classes):
    codes = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    unknown = classes[codes] != y
    if unknown.any():
        raise ValueError(
            f"y holds the label {y[unknown].tolist()[0]!r}, which is not among classes="
            f"{classes.tolist()!r}; name all labels at the first call of partial_fit."
        )
    return codes


def _check_priors(priors, n_classes):
    if priors is None:
        return None
    priors = np.asarray(priors, dtype=np.float64)
    if priors.shape != (n_classes,) or priors.min() < 0 or abs(priors.sum() - 1.0) > 1e-5:
        raise ValueError(
            f"priors={priors.tolist()!r} must be {n_classes} non-negative numbers, one for each "
            "class, that sum to 1; use None for the shares found in the data."
        )
    return priors / priors.sum()
