"""Linear estimators with sample weights: discriminant analysis, perceptron, whitening."""

from numbers import Integral, Real

import numpy as np
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin
from sklearn.utils import get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, check_is_fitted

from vicinal._base import (
    SparseInputMixin,
    atomic_fit,
    class_factors,
    codes_among,
    counted,
    documented,
    query_rows,
    random_seeds,
    row_blocks,
    saved,
    store_parameters,
    training_data,
)
from vicinal._base._compat import Interval, StrOptions, check_feature_names_in
from vicinal._base._explanation import ExplainRowMixin, linear_sections
from vicinal._kernels.linear import _covariance as kernels
from vicinal._kernels.linear._perceptron import fit_perceptron, margin_scale, margins_of


@documented
class _LinearScores(ExplainRowMixin, ClassifierMixin, BaseEstimator):
    """Base class of linear classifiers, with scores in the shapes of scikit-learn.

    Two classes share one row of coefficients, whose score is that of ``classes_[1]`` minus that of
    ``classes_[0]``. Probabilities are the softmax of the scores divided by ``margin_scale_``, if
    the model has it.
    """

    def decision_function(self, X):
        """Return the score of each class."""
        X = query_rows(self, X, accept_sparse="csr" if get_tags(self).input_tags.sparse else False)
        scores = X @ self.coef_.T + self.intercept_
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict(self, X):
        """Predict the class of each sample."""
        scores = self.decision_function(X)
        codes = (scores > 0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[codes]

    def predict_proba(self, X):
        """Predict the probability of each class."""
        scores = self._scaled_scores(X)
        if scores.ndim == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        return softmax(scores, axis=1)

    def predict_log_proba(self, X):
        """Predict the logarithm of the probability of each class.

        Returns
        -------
        log_probabilities : ndarray of shape (n_samples, n_classes)
            Logarithms in the order of ``classes_``, exact also where probabilities underflow.
        """
        scores = self._scaled_scores(X)
        if scores.ndim == 1:
            return np.column_stack([log_expit(-scores), log_expit(scores)])
        return log_softmax(scores, axis=1)

    def _scaled_scores(self, X):
        scores = self.decision_function(X)
        return scores / scores.dtype.type(getattr(self, "margin_scale_", 1.0))

    _sections = linear_sections

    def _store_scores(self, coef, intercept, dtype):
        """Store the coefficients in ``dtype``, one row for two classes."""
        if len(coef) == 2:
            coef, intercept = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
        self.coef_ = coef.astype(dtype)
        self.intercept_ = intercept.astype(dtype)


def _adds_up(estimator):
    """Return whether sums over the rows are enough to fit."""
    if estimator.shrinkage == "auto":
        raise AttributeError(
            "shrinkage='auto' needs all rows at once; set shrinkage to a number, or use fit."
        )
    return True


@saved(classes_="c labels", means_="c p", coef_="r p", intercept_="r")
@documented
class WeightedLDA(_LinearScores):
    r"""Linear discriminant analysis with sample weights and reusable statistics.

    Gaussian classes with one covariance, estimated by weighted maximum likelihood. Without weights
    its predictions are those of ``LinearDiscriminantAnalysis(solver="lsqr")``, which takes no
    weights. The fit depends only on sums over the rows (``statistics_``), so it can be fitted block
    by block with :meth:`partial_fit`, and sums of several blocks can be added.

    Read more in the :doc:`user guide </guide/linear>`.

    Parameters
    ----------
    shrinkage : float in [0, 1] or "auto", default=None
        Convex shrinkage `s` of the covariance `S` towards a multiple of the identity,
        ``(1 - s) S + s trace(S) / n_features I``. ``None`` means 0. ``"auto"`` is the value of
        Ledoit and Wolf for the pooled residuals; it is not available in :meth:`partial_fit`.
    priors : array-like of shape (n_classes,), default=None
        Prior probabilities in the order of ``classes_``; ``None`` is each class's share of the
        weight. They change the intercepts only.

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
    vicinal.linear.AveragedPerceptron : A linear classifier without assumptions on the density.

    Notes
    -----
    With class weights :math:`n_c = \sum_{y_i = c} w_i`, :math:`n = \sum_c n_c`, means
    :math:`m_c` and

    .. math:: S = \frac1n \sum_i w_i (x_i - m_{y_i})(x_i - m_{y_i})^\top,\qquad
       \Sigma = (1-s)\,S + s\,\frac{\mathrm{tr}\,S}{d}\,I,

    a sample belongs to the class of greatest
    :math:`x^\top\Sigma^{-1}m_c - \tfrac12 m_c^\top\Sigma^{-1}m_c + \log\pi_c`, which is
    section 4.3 of [1]_. Scores are relative to the weighted mean of the data, which adds the
    same number to all classes and makes the coefficients independent of the origin. Where
    :math:`\Sigma` is singular (pivots of its Cholesky factor are tested), :math:`10^{-9}` of the
    mean variance is added to its diagonal.

    ``statistics_`` holds, about a shift :math:`a_c` for each class, :math:`n_c`,
    :math:`\sum w_i (x_i - a_c)` and
    :math:`\sum_i w_i (x_i - a_{y_i})(x_i - a_{y_i})^\top`; shifts are the class means of the
    first block of data, which avoids cancellation in :math:`S`.

    Two differences from scikit-learn: given priors do not reweight the covariances of the classes,
    and ``"auto"`` is one shrinkage for the pooled residuals [2]_ rather than one per class on
    scaled features.

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
        store_parameters(self, locals())

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Fit to all rows at once.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Labels of at least two classes.
        """
        data = training_data(self, X, y, sample_weight, task="classification")
        self.classes_ = data.classes
        rows = data.X, data.y, data.sample_weight
        shifts = kernels.class_means(*rows, len(data.classes))
        statistics = kernels.lda_statistics(*rows, len(data.classes), shifts=shifts)
        if self.shrinkage == "auto":
            shrinkage = kernels.ledoit_wolf_shrinkage(*rows, statistics)
        else:
            shrinkage = float(self.shrinkage or 0.0)
        return self._solve(statistics, shrinkage, data.X.dtype)

    @available_if(_adds_up)
    @atomic_fit
    def partial_fit(self, X, y, classes=None, sample_weight=None):
        """Add rows to those seen so far; the result equals one fit to all of them.

        Parameters
        ----------
        classes : array-like of shape (n_classes,), default=None
            All labels; needed on an unfitted model.
        """
        first = not hasattr(self, "statistics_")
        data = training_data(self, X, y, sample_weight, reset=first)
        check_classification_targets(data.y)
        if first:
            self.classes_ = _check_classes(classes)
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(
                f"classes={classes!r} differ from classes_={self.classes_.tolist()!r}; pass "
                "classes=None, or start again with fit."
            )
        rows = data.X, codes_among(data.y, self.classes_), data.sample_weight
        n_classes = len(self.classes_)
        shifts = kernels.class_means(*rows, n_classes) if first else self.statistics_.shifts
        statistics = kernels.lda_statistics(*rows, n_classes, shifts=shifts)
        if not first:
            statistics = kernels.add_statistics(self.statistics_, statistics)
        return self._solve(statistics, float(self.shrinkage or 0.0), data.X.dtype)

    def _solve(self, statistics, shrinkage, dtype):
        """Store the coefficients that follow from the statistics."""
        priors = _check_priors(self.priors, len(self.classes_))
        coef, intercept = kernels.lda_coefficients(statistics, shrinkage, priors)
        self.statistics_ = statistics
        self.shrinkage_ = shrinkage
        self.priors_ = statistics.weights / statistics.weights.sum() if priors is None else priors
        self.means_ = kernels.statistics_means(statistics)
        self.covariance_ = kernels.within_covariance(statistics)
        self._store_scores(coef, intercept, dtype)
        return self


def _check_classes(classes):
    if classes is None:
        raise ValueError(
            "classes=None, but the first partial_fit needs all labels; pass np.unique of them."
        )
    classes = np.unique(classes)
    if len(classes) < 2:
        raise ValueError(f"classes={classes.tolist()!r} has one label; at least two are needed.")
    return classes


def _check_priors(priors, n_classes):
    if priors is None:
        return None
    priors = np.asarray(priors, dtype=np.float64)
    if priors.shape != (n_classes,) or priors.min() < 0 or abs(priors.sum() - 1.0) > 1e-5:
        raise ValueError(
            f"priors={priors.tolist()!r} must be {n_classes} non-negative numbers, one for each "
            "class, that sum to 1; use None for the class frequencies."
        )
    return priors / priors.sum()


@saved(classes_="c labels", coef_="r p", intercept_="r")
@documented
class AveragedPerceptron(SparseInputMixin, _LinearScores):
    r"""Multi-class perceptron with weights averaged over all training steps.

    One weight vector per class, changed only by rows that are misclassified. It makes no
    assumption on the distribution of the features, takes sparse rows, and needs a few milliseconds
    per epoch. Features must have similar scales: put a ``StandardScaler`` (for sparse data a
    ``MaxAbsScaler``) before it.

    Read more in the :doc:`user guide </guide/linear>`.

    Parameters
    ----------
    max_iter : int, default=10
        Number of passes over the data, each in a new random order.
    class_weight : dict or "balanced", default=None
        Factors on the weights of the rows of each class; ``"balanced"`` uses sample weights.
    random_state : int, RandomState instance or None, default=None
        Seed of the order of the rows. An integer gives the same result at each call.

    Attributes
    ----------
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Averaged weights.
    intercept_ : ndarray of shape (1,) or (n_classes,)
        Averaged biases.
    mistakes_ : ndarray of shape (max_iter,)
        Misclassified rows of each epoch, by the current weights.
    n_iter_ : int
        Number of epochs; an epoch without a mistake ends training.
    margin_scale_ : float
        Standard deviation of the training margins, by which scores are divided before the softmax
        in :meth:`predict_proba`. These probabilities rank well but are not calibrated.

    See Also
    --------
    sklearn.linear_model.SGDClassifier : With ``loss="perceptron", average=True``, one perceptron
        per class against the rest.
    vicinal.linear.WeightedLDA : A linear classifier in closed form.

    Notes
    -----
    With scores :math:`s_c = W_c^\top x + b_c` and the rival
    :math:`q = \arg\max_{c\neq y} s_c`, a row with :math:`s_q \ge s_y` changes

    .. math:: (W_y, b_y) \leftarrow (W_y, b_y) + w_i (x, 1),\qquad
       (W_q, b_q) \leftarrow (W_q, b_q) - w_i (x, 1),

    the multi-class rule of [2]_; the mean over all steps is that of [1]_, section 2.2. It is
    computed as :math:`W - A/(t+1)` with :math:`A = \sum_t t\,\Delta W_t`. Training is done in
    single precision.

    ``sample_weight`` scales the step. Rows of weight 0 are removed before the rows are shuffled. A
    row of weight 2 equals the repeated row only on average, because steps depend on the order.

    References
    ----------
    .. [1] Y. Freund, R. Schapire, "Large margin classification using the perceptron algorithm",
       Machine Learning 37, 1999. :doi:`10.1023/A:1007662407062`
    .. [2] M. Collins, "Discriminative training methods for hidden Markov models: theory and
       experiments with perceptron algorithms", EMNLP, 2002. :doi:`10.3115/1118693.1118694`

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import train_test_split
    >>> from vicinal.linear import AveragedPerceptron
    >>> X, y = load_digits(return_X_y=True)
    >>> X_train, X_test, y_train, y_test = train_test_split(X / 16, y, random_state=0)
    >>> model = AveragedPerceptron(random_state=0).fit(X_train, y_train)
    >>> model.score(X_test, y_test) > 0.93
    True
    """

    _parameter_constraints = {
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "random_state": ["random_state"],
    }

    def __init__(self, max_iter=10, *, class_weight=None, random_state=None):
        store_parameters(self, locals())

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Train from zero weights.

        Parameters
        ----------
        X : {array-like, CSR} of shape (n_samples, n_features)
            Training samples.
        y : array-like of shape (n_samples,)
            Labels of at least two classes.
        sample_weight : array-like of shape (n_samples,), default=None
            Factors on the steps; 0 equals the row removed.
        """
        options = {"accept_sparse": "csr", "accept_large_sparse": False}
        data = training_data(self, X, y, sample_weight, task="classification", **options)
        self.classes_, weights = data.classes, data.sample_weight
        if self.class_weight is not None:
            factors = class_factors(self.class_weight, data.classes, data.y, data.weights)
            weights = data.weights * factors[data.y]
        fitted = fit_perceptron(
            data.X,
            data.y,
            weights,
            len(data.classes),
            seed=random_seeds(self.random_state, 1)[0],
            n_epochs=self.max_iter,
        )
        self.mistakes_ = fitted.mistakes
        self.n_iter_ = int(min(np.count_nonzero(fitted.mistakes) + 1, self.max_iter))
        self.margin_scale_ = margin_scale(_margins(data.X, data.y, fitted), weights)
        self._store_scores(fitted.coef, fitted.intercept, data.X.dtype)
        return self


def _margins(X, codes, fitted):
    """Return the score of the true class minus the best other score, for each training row."""
    margins = np.empty(X.shape[0])
    for span in row_blocks(X.shape[0], 16 * len(fitted.intercept)):
        scores = X[span] @ fitted.coef.T + fitted.intercept
        margins[span] = margins_of(scores, codes[span])
    return margins


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
        store_parameters(self, locals())

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
                f"X has {counted(X.shape[1], 'column')}, but whitened samples have "
                f"{len(self.unwhitening_)}; "
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
