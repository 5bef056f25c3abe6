"""Averaging of classifiers with learned weights."""

import functools

import numpy as np
from sklearn.base import ClassifierMixin

from vicinal._base import atomic_fit, documented, encode_labels, last_step, saved
from vicinal._base._compat import StrOptions
from vicinal.ensemble._base_averaging import BaseModelAveraging, count_parameters
from vicinal.ensemble._explain import averaging_sections
from vicinal.ensemble._learners import class_probabilities

_LEAST_PROBABILITY = 1e-15


@saved(classes_="c labels", weights_="m shares")
@documented
class BayesianModelAveragingClassifier(ClassifierMixin, BaseModelAveraging):
    r"""Weighted mean of unlike classifiers, the weights learned from held-out log-likelihoods.

    Read more in the :doc:`user guide </guide/ensemble>`.

    Parameters
    ----------
    estimators : list of (str, classifier) tuples
        Members with ``predict_proba``; one set to ``"drop"`` is left out.
    weighting : {"stacking", "pseudo_bma+", "pseudo_bma", "bic"}, default="stacking"
        Rule for the weights: of greatest held-out log-likelihood of the mixture; softmax of
        held-out log-likelihoods, averaged over Bayesian bootstraps or not; of the Bayesian
        information criterion (members with ``coef_``).
    cv : int or "loo", default=5
        Shuffled stratified folds of the held-out probabilities; ``"loo"`` leaves one row out at a
        time.

    Attributes
    ----------
    elpd_ : ndarray of shape (n_models,)
        Held-out log-likelihood of each member, summed over the rows.
    log_densities_ : ndarray of shape (n_samples, n_models)
        Held-out log probability of each row's class under each member.
    estimators_ : list
        Members fitted on all rows; they predict class codes, positions in ``classes_``.

    See Also
    --------
    BayesianModelAveragingRegressor : The same for numbers.
    sklearn.ensemble.StackingClassifier : Members as features of any final model.
    sklearn.ensemble.VotingClassifier : Weights set by hand.

    Notes
    -----
    :math:`P(k|x) = \sum_m w_m P_m(k|x)` with weights on the simplex, found from :math:`\ell_{im} =
    \log P_m^{-i}(y_i|x_i)`, clipped at :math:`\log 10^{-15}`, as for
    :class:`BayesianModelAveragingRegressor` [1]_. A member that fails in a fold warns and has
    weight 0.

    References
    ----------
    .. [1] Yao, Vehtari, Simpson, Gelman, "Using stacking to average Bayesian predictive
       distributions", Bayesian Analysis 13(3), 2018, sections 2 and 3. :doi:`10.1214/17-BA1091`

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn.tree import DecisionTreeClassifier
    >>> from vicinal.ensemble import BayesianModelAveragingClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> members = [("bayes", GaussianNB()), ("stump", DecisionTreeClassifier(max_depth=1))]
    >>> model = BayesianModelAveragingClassifier(members, random_state=0).fit(X, y)
    >>> bool(model.weights_[0] > 0.9)
    True
    """

    _parameter_constraints: dict = {
        **BaseModelAveraging._parameter_constraints,
        "weighting": [StrOptions({"stacking", "pseudo_bma+", "pseudo_bma", "bic"})],
    }

    def __init__(
        self,
        estimators,
        *,
        weighting="stacking",
        cv=5,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.estimators = estimators
        self.weighting = weighting
        self.cv = cv
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Score the members on held-out rows, weigh them, and fit them on all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Training rows.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights; every member must take them if they differ.
        """
        X, y, weight = self._validated(X, y, sample_weight)
        self.classes_, codes = encode_labels(y)
        members, member_weight = self._members(weight)
        for name, member in zip(self._member_names, members, strict=True):
            if not hasattr(member, "predict_proba"):
                raise ValueError(
                    f"the member {name!r} ({member!r}) has no predict_proba, so it has no density "
                    "to be weighed by; wrap it in sklearn.calibration.CalibratedClassifierCV."
                )
        folds = self._fold_list(codes, classifier=True)
        answers = self._held_out(members, self._output(), X, codes, member_weight, folds)
        self.log_densities_ = np.full((len(codes), len(members)), np.nan)
        for m, answer in enumerate(answers):
            if answer is not None:
                own = answer[np.arange(len(codes)), codes]
                self.log_densities_[:, m] = np.log(np.maximum(own, _LEAST_PROBABILITY))
        self._fit_final(members, X, codes, member_weight)
        self._weigh(weight, self._log_evidence(X, codes, weight))
        return self

    def _output(self):
        return functools.partial(class_probabilities, n_classes=len(self.classes_))

    def _log_evidence(self, X, codes, weight):
        if self.weighting != "bic":
            return None
        values = []
        for name, member in zip(self._member_names, self.estimators_, strict=True):
            n_parameters = count_parameters(name, last_step(member))
            own = self._output()(member, X)[np.arange(len(codes)), codes]
            log_likelihood = weight @ np.log(np.maximum(own, _LEAST_PROBABILITY))
            values.append(log_likelihood - 0.5 * n_parameters * np.log(weight.sum()))
        return np.array(values)

    def predict_proba(self, X):
        """Weighted mean of the members' probabilities."""
        X = self._checked(X)
        output = self._output()
        probability = sum(w * output(member, X) for member, w, _ in self._weighted_members())
        return probability.astype(X.dtype, copy=False)

    def _sections(self, X, columns):
        return averaging_sections(self, X, self._output())

    def predict(self, X):
        """Predict the class of largest probability."""
        probability = self.predict_proba(X)
        return self.classes_.take(probability.argmax(axis=1))
