"""Classification of any table by a mixture of local, linear and tree models."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import numpy as np
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.utils import column_or_1d

from vicinal._base import (
    Survey,
    as_given,
    atomic_fit,
    class_factors,
    device_classes,
    documented,
    encode_labels,
    is_array_api,
)
from vicinal._base._compat import StrOptions
from vicinal._conformal import LabelSetMixin
from vicinal._kernels.ensemble._pool import log_proba
from vicinal.auto._base import BaseAuto
from vicinal.auto._scorers import ClassScorer


@documented
class AutoClassifier(ClassifierMixin, LabelSetMixin, BaseAuto):
    r"""Classification of a table by a mixture of models, each judged on rows it had not seen.

    Local ridge models, forests, linear, quadratic and discriminant models, boosted trees and a
    support vector machine answer training rows that they were not fitted to. Their probabilities
    are calibrated on those answers and mixed by the weights that would have answered best; a
    mixture of few members remains, whose contributions add up to the answer. ``score_`` says how
    well it will do: every choice that went into it was made without the rows it is computed from.

    Read more in the :doc:`user guide </guide/auto>`.

    Parameters
    ----------
    members : "default" or list, default="default"
        Members to try: pairs (name, classifier), names of kinds of default members (``"constant"``,
        ``"local"``, ``"forest"``, ``"boosting"``, ``"linear"``, ``"gradient"``, ``"svm"``,
        ``"kernel"``, ``"neural"``), or both. ``"default"`` tries every kind but the last, which
        takes minutes, each where it can pay.
    class_weight : dict, "balanced" or None, default=None
        Factors on the weights of each class's rows, for the members, the choice and the mixture.

    Attributes
    ----------
    score_, score_error_ : float
        Accuracy to expect on new rows and its standard error: for each fold, settings, members,
        calibration and weights were chosen on the other folds. The error counts the luck of the
        rows that were answered and of those that were learned from; where all were answered
        rightly, it is that of one mistake.
    held_out_ : ndarray of shape (n_samples, n_classes)
        Probabilities of each training row by models that had not seen it, mixed by a pool that was
        not chosen on it; NaN for rows that were not drawn.
    n_samples_fit_ : int
        Number of training rows of positive weight; one row of doubt more softens what members say.

    See Also
    --------
    AutoRegressor : The same for numbers.
    vicinal.local.LocalClassifier : One local model.
    sklearn.ensemble.StackingClassifier : Any final model on top of given members.

    Notes
    -----
    With :math:`p_m` the probabilities of member m, :math:`q_m = \operatorname{softmax}(b\, a_m \log
    p_m)` their calibrated form and :math:`q_m^{-i}` the answer to row i by a model that had not
    seen it, the weights maximise

    .. math:: \sum_i s_i \log \sum_m w_m\, q_m^{-i}(y_i | x_i), \qquad w \ge 0, \sum_m w_m = 1,

    which is concave, less a penalty on unequal weights worth a few rows. The slope :math:`a_m`
    calibrates each member alone; b, from 1 to 4, is common to all and makes up for the timidity of
    a mean of calibrated probabilities [1]_, chosen with two rows more that are spread over the
    classes. Members below 2 % are dropped and at most six remain;
    where none beats the constant answer by two standard errors, the constant answers. Local models
    leave the row out of its neighbourhood, forests ask the trees that did not draw it, whatever
    else learns from labels learns from the other folds.

    References
    ----------
    .. [1] T. Gneiting and R. Ranjan, "Combining predictive distributions", Electronic Journal of
       Statistics 7 (2013), 1747-1782. :doi:`10.1214/13-EJS823`

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from vicinal.auto import AutoClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> model = AutoClassifier(members=["local", "linear"], random_state=0).fit(X, y)
    >>> print(f"{model.score_:.1f}", model.predict(X[[0, 70, 170]]))
    1.0 [0 1 2]
    """

    _parameter_constraints: dict = {
        **BaseAuto._parameter_constraints,
        "class_weight": [dict, StrOptions({"balanced"}), None],
    }

    _method = "predict_proba"

    def __init__(
        self,
        members="default",
        *,
        max_fit_time=None,
        cv=5,
        class_weight=None,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        super().__init__(
            members,
            max_fit_time=max_fit_time,
            cv=cv,
            n_jobs=n_jobs,
            random_state=random_state,
            verbose=verbose,
        )
        self.class_weight = class_weight

    @atomic_fit
    def fit(self, X, y, sample_weight=None, groups=None):
        """Try the members, weigh them, and fit those that carry weight.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_samples, n_features)
            Training rows; NaN are gaps. Words, dates and the like are encoded by
            :class:`~vicinal.table.TableEncoder`. Rows on a GPU (torch, CuPy) stay there, and the
            members that run there are tried.
        """
        self._labels_on_device = is_array_api(y)
        X, y = self._validated(X, y)
        X, y, counts, groups, rows = self._weighted_rows(X, y, sample_weight, groups)
        self.classes_, codes = encode_labels(y)
        factors = class_factors(self.class_weight, self.classes_, codes, counts)[codes]
        self.n_samples_fit_ = len(y)
        with _said_once() if 2 * len(self.classes_) > len(y) else nullcontext():
            self._learn(X, y, rows, counts, groups, codes, factors)
        return self

    def _checked_targets(self, y) -> np.ndarray:
        return column_or_1d(y, warn=True)

    def _class_factors(self, found: Survey) -> np.ndarray | None:
        if self.class_weight is None:
            return None
        codes = np.arange(len(found.classes))
        return class_factors(self.class_weight, found.classes, codes, found.class_weights)

    def _scorer(self, y, entries, weight) -> ClassScorer:
        return ClassScorer(y[entries], weight[entries], len(y))

    def _calibrated(self, answers: np.ndarray, slope: float) -> np.ndarray:
        return softmax(slope * log_proba(answers, self.n_samples_fit_), axis=1)

    def predict_proba(self, X):
        """Return the mixture of the members' probabilities.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features)
            Queries; NaN are gaps.
        """
        return as_given(self._pooled(X), X)

    def predict(self, X):
        """Predict the class of largest probability.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_queries, n_features)
            Queries; NaN are gaps.
        """
        pooled = self._pooled(X)
        if is_array_api(X):
            proba = as_given(pooled, X)
            return device_classes(self.classes_, proba, on_device=self._labels_on_device)
        return self.classes_[pooled.argmax(axis=1)]


@contextmanager
def _said_once() -> Iterator[None]:
    """Let members not repeat what scikit-learn has said of labels that are nearly all different."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes is greater")
        yield
