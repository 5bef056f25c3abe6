"""Sets of labels for any classifier, which hold the true one with a given chance."""

import numpy as np
from sklearn.base import ClassifierMixin

from vicinal._base import atomic_fit, documented, encode_labels, narrowed
from vicinal._base._compat import HasMethods
from vicinal._rows import LabelSetMixin
from vicinal.uncertainty._base_conformal import SHARED_CONSTRAINTS, BaseConformal
from vicinal.uncertainty._explain import set_section


@documented
class ConformalClassifier(ClassifierMixin, LabelSetMixin, BaseConformal):
    r"""Sets of labels for any classifier, from the probabilities of its held-out answers.

    Every training row is answered by a model that had not seen it. A label belongs to the set of a
    new row if it fits no worse than the true labels of the training rows did, up to the chance
    asked for: one label where the answer is clear, several where classes mix. The model itself is
    fitted to all rows.

    Read more in the :ref:`user guide <rows>`.

    Parameters
    ----------
    estimator : estimator object
        Any classifier or pipeline with ``predict_proba``. A fitted one inside
        :class:`~sklearn.frozen.FrozenEstimator` is kept, and the rows of ``fit`` only calibrate it:
        they must then be rows that it has not seen.
    cv : int, cross-validation generator or iterable, default=None
        Folds by which rows are held out; ``None`` means 5, and up to 20 on tables of fewer than 600
        rows, with the classes in their proportions. Each row must be held out once.

    Attributes
    ----------
    held_out_ : ndarray of shape (n_samples, n_classes)
        Probabilities of the training rows by models that had not seen them; rows of zero sample
        weight are not counted.

    See Also
    --------
    ConformalRegressor : Intervals of numbers.

    Notes
    -----
    With the score :math:`e_c(x) = 1 - p_c(x)` ("threshold", LAC [1]_) or
    :math:`e_c(x) = \sum_{k: p_k(x) > p_c(x)} p_k(x)` ("adaptive", APS [2]_ without randomisation)
    the set is :math:`\{c : e_c(x) \le q\}`, where q is the :math:`\lceil c (n + 1) \rceil`-th
    smallest score of a true label. ``by_class`` takes a quantile for each label [3]_.

    References
    ----------
    .. [1] M. Sadinle, J. Lei and L. Wasserman, "Least ambiguous set-valued classifiers with bounded
       error levels", Journal of the American Statistical Association 114 (2019), 223-234.
       :doi:`10.1080/01621459.2017.1395341`
    .. [2] Y. Romano, M. Sesia and E. Candes, "Classification with valid and adaptive coverage",
       Advances in Neural Information Processing Systems 33 (2020).
    .. [3] V. Vovk, "Conditional validity of inductive conformal predictors", Machine Learning 92
       (2013), 349-376. :doi:`10.1007/s10994-013-5355-6`

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from vicinal.uncertainty import ConformalClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ConformalClassifier(LogisticRegression(max_iter=500), random_state=0).fit(X, y)
    >>> model.predict_set(X[[0, 51, 77]], coverage=0.98)
    array([[ True, False, False],
           [False,  True, False],
           [False,  True,  True]])
    """

    _parameter_constraints: dict = {
        **SHARED_CONSTRAINTS,
        "estimator": [HasMethods(["fit", "predict", "predict_proba"])],
    }

    def __init__(self, estimator, *, cv=None, n_jobs=None, random_state=None):
        self.estimator = estimator
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state

    @atomic_fit
    def fit(self, X, y, sample_weight=None, groups=None):
        """Fit the model, and keep the probabilities of held-out answers.

        Parameters
        ----------
        X : {array-like, sparse matrix, data frame} of shape (n_samples, n_features)
            Training rows, as the model takes them.
        sample_weight : array-like of shape (n_samples,), default=None
            How often each row counts, for the model and in the quantiles.
        """
        X, y, weights, groups = self._check_rows(X, y, sample_weight, groups)
        y = narrowed(y)  # folds in proportion to the classes take no objects that are numbers
        counted = slice(None) if weights is None else weights > 0.0
        self.classes_ = encode_labels(y[counted])[0]
        self._fit_model(X, y, weights, groups, method="predict_proba", classes=self.classes_)
        self.held_out_ = self._answered.answers
        return self

    def predict_proba(self, X):
        """Return the probabilities of the wrapped model."""
        return self._answers(self._check_queries(X), "predict_proba")

    def _promise(self, X):
        proba = np.asarray(self.predict_proba(X), dtype=np.float64)[0]
        return set_section(self.classes_, self.predict_set(X)[0], proba, 0.9)
