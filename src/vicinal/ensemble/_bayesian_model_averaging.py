"""Averaging of unlike models with learned weights."""

import functools
import inspect
import warnings
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.special import logsumexp, softmax
from sklearn.base import ClassifierMixin, RegressorMixin, clone, is_classifier, is_regressor
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import BayesianRidge, LinearRegression, Ridge
from sklearn.model_selection import KFold, LeaveOneOut, StratifiedKFold
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures
from sklearn.utils import check_array, check_consistent_length, check_random_state, get_tags

from vicinal._base import (
    Progress,
    TrainingData,
    atomic_fit,
    cross_fit,
    documented,
    draw_seeds,
    fit_weighted,
    last_step,
    parallel_map,
    predicted_labels,
    query_rows,
    saved,
    takes_weights,
    training_data,
)
from vicinal._base._compat import Interval, NamedParts, StrOptions
from vicinal._base._explanation import ExplainRowMixin, base_model_section, show
from vicinal._kernels.ensemble._weights import (
    bootstrapped_weights,
    effective_number,
    stacked_mean_weights,
    stacking_weights,
)
from vicinal._kernels.linear._regression import ridge_log_evidence, ridge_summary
from vicinal.ensemble._learners import class_probabilities, fold_count, fresh_learner

_N_DIRICHLET = 1000
_LOG_2PI = np.log(2.0 * np.pi)
_LEAST_PROBABILITY = 1e-15
# No deviation that a member predicts counts less, as a share of the mean over held-out rows.
_LEAST_DEVIATION = 1e-6


def _learns_nothing_from_rows(step) -> bool:
    """Tell whether a transformer does the same whatever rows it is fitted to."""
    if isinstance(step, str):
        return step in ("passthrough", "drop")
    if isinstance(step, ColumnTransformer):
        return all(_learns_nothing_from_rows(part) for _, part, _ in step.transformers)
    return type(step) in (FunctionTransformer, PolynomialFeatures)


def linear_part(member, X):
    """Return the linear model and the columns it sees, or ``None``.

    Looks through pipelines whose transformers learn nothing from the rows (selections of columns,
    functions, polynomials), so that leaving one row out leaves them alone.
    """
    if isinstance(member, Pipeline):
        steps = [step for _, step in member.steps]
        if not all(step is None or _learns_nothing_from_rows(step) for step in steps[:-1]):
            return None
        if len(steps) > 1:
            X = clone(member[:-1]).fit(X).transform(X)
        member = steps[-1]
    is_plain = type(member) is LinearRegression and not member.positive
    is_ridge = type(member) is Ridge and np.ndim(member.alpha) == 0 and not member.positive
    if not (is_plain or is_ridge) or hasattr(X, "tocsr"):
        return None
    return member, np.asarray(X, dtype=np.float64)


def count_parameters(name, model) -> int:
    """Count the coefficients that a linear member uses, its intercepts included."""
    if not hasattr(model, "coef_"):
        raise ValueError(
            f"weighting='bic' counts coefficients, and the member {name!r} ({model!r}) has no "
            "coef_; use weighting='stacking'."
        )
    return int(np.count_nonzero(model.coef_)) + int(np.count_nonzero(model.intercept_))


def _fold_rows(model: Any, data: TrainingData) -> list[np.ndarray]:
    """Return the held-out rows of each fold."""
    y, classify = data.y, data.classes is not None
    if model.cv == "loo":
        return [test for _, test in LeaveOneOut().split(y)]
    seed = draw_seeds(model.random_state, 1)[0]
    kind = StratifiedKFold if classify else KFold
    folds = kind(fold_count(model.cv, y, classify), shuffle=True, random_state=seed)
    return [test for _, test in folds.split(y, y)]


def _held_out(model: Any, learners: list, output: Callable, data: TrainingData, weight) -> list:
    """Return the output of every held-out row by every learner, ``None`` for those that failed."""
    folds = _fold_rows(model, data)
    found: list[Any] = []
    with Progress(len(learners), type(model).__name__, verbose=model.verbose) as progress:
        for m, learner in enumerate(learners):
            try:
                _, parts = cross_fit(
                    lambda *some, learner=learner: fit_weighted(clone(learner), *some),
                    output,
                    data.X,
                    data.y,
                    folds,
                    sample_weight=weight,
                    n_jobs=model.n_jobs,
                )
            except Exception as error:
                warnings.warn(
                    f"member {m} ({learner!r}) failed in a fold and gets weight 0: "
                    f"{type(error).__name__}: {error}",
                    UserWarning,
                    stacklevel=5,
                )
                found.append(None)
            else:
                whole = np.empty_like(parts)
                whole[np.concatenate(folds)] = parts
                found.append(whole)
            progress.advance()
    if all(part is None for part in found):
        raise ValueError(
            f"every member of {type(model).__name__} failed in cross-validation; the warnings "
            "above say why."
        )
    return found


class _ModelAveraging(ExplainRowMixin, NamedParts):
    """Weighted mean of unlike models.

    Parameters
    ----------
    n_jobs : int, default=None
        Fits at once, through joblib; ``None`` is one, unless ``joblib.parallel_config`` says
        otherwise. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Folds and bootstraps.

    Attributes
    ----------
    weights_ : ndarray of shape (n_models,)
        Weights of the members, not negative, of sum one.
    elpd_se_ : ndarray of shape (n_models,)
        Its standard error.
    n_effective_ : float
        Exponential of the entropy of the weights, the effective number of members.
    named_estimators_ : dict
        The same by name.
    """

    _parameter_constraints: dict = {
        "estimators": [list],
        "cv": [Interval(Integral, 2, None, closed="left"), StrOptions({"loo"})],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def get_params(self, deep=True):
        """Get the parameters, with those of the members by their names.

        Parameters
        ----------
        deep : bool, default=True
            Also the members and their parameters.

        Returns
        -------
        params : dict
            Names and values.
        """
        return self._get_params("estimators", deep=deep)

    def set_params(self, **params):
        """Set parameters, members by name, or ``name__parameter`` of a member.

        Parameters
        ----------
        **params : dict
            Names and values; a member set to ``"drop"`` is left out.

        Returns
        -------
        self : object
            The estimator.
        """
        self._set_params("estimators", **params)
        return self

    def _input_options(self) -> dict:
        """Return what validation allows: the members decide whether rows may be sparse."""
        is_sparse = get_tags(self).input_tags.sparse
        return {"accept_sparse": "csr" if is_sparse else False, "accept_large_sparse": False}

    def _named_learners(self, data: TrainingData) -> tuple[dict[str, Any], np.ndarray | None]:
        """Return seeded copies of the members by name, and the weights they are handed."""
        if len(data) < 2:
            raise ValueError(
                f"n_samples={len(data)} row of positive weight cannot be both fitted and held "
                f"out; {type(self).__name__} needs two or more."
            )
        if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in self.estimators):
            raise ValueError(
                f"estimators must be a list of (name, estimator) tuples, got {self.estimators!r}."
            )
        self._validate_names([name for name, _ in self.estimators])
        members = {name: member for name, member in self.estimators if member != "drop"}
        if not members:
            raise ValueError(
                f"estimators={self.estimators!r} holds no member; give at least one that is not "
                "'drop'."
            )
        classify, is_uniform = data.classes is not None, np.ptp(data.weights) == 0.0
        for name, member in members.items():
            if not (is_classifier if classify else is_regressor)(member):
                kind = "classifier" if classify else "regressor"
                raise ValueError(f"the member {name!r} ({member!r}) is not a {kind}.")
            if classify and not hasattr(member, "predict_proba"):
                raise ValueError(
                    f"the member {name!r} ({member!r}) has no predict_proba, so it has no density "
                    "to be weighed by; wrap it in sklearn.calibration.CalibratedClassifierCV."
                )
            if not is_uniform and not takes_weights(member):
                raise ValueError(
                    f"sample_weight was given, but the member {name!r} ({member!r}) takes none; "
                    "leave it out, or repeat rows instead of weighting them."
                )
        # One seed per member, the same in every fold, so that the order of the fits cannot matter.
        rng = check_random_state(self.random_state)
        learners = {name: fresh_learner(member, rng) for name, member in members.items()}
        return learners, None if is_uniform else data.weights

    def _fit_members(self, learners: dict[str, Any], data: TrainingData, weight) -> None:
        """Fit every member on all rows; those that fail there too are an error."""
        tasks = [(clone(learner), data.X, data.y, weight) for learner in learners.values()]
        self.estimators_ = parallel_map(fit_weighted, tasks, n_jobs=self.n_jobs)
        self.named_estimators_ = dict(zip(learners, self.estimators_, strict=True))

    def _store_weights(self, data: TrainingData, log_evidence=None, predictions=None):
        """Turn ``log_densities_`` (n_samples, n_models) into weights by the chosen rule.

        ``log_evidence(name, member)`` is for "bic" and "evidence", the held-out ``predictions``
        (n_samples, n_models) are for "stacking_mean".
        """
        weight, is_finite = data.weights, np.isfinite(self.log_densities_)
        usable, share = is_finite.all(axis=0), weight / weight.sum()
        density = self.log_densities_[:, usable]
        self.elpd_ = weight @ np.where(is_finite, self.log_densities_, 0.0)
        self.elpd_[~usable] = -np.inf
        self.elpd_se_ = np.full(len(usable), np.nan)
        spread = share @ (density - share @ density) ** 2
        self.elpd_se_[usable] = weight.sum() * np.sqrt(spread / weight.sum())
        if self.weighting == "stacking":
            found, n_iter = stacking_weights(density, share)
            if n_iter >= 20_000:
                warnings.warn(
                    "the weights of stacking did not converge in 20000 steps; members may be "
                    "near copies of one another.",
                    ConvergenceWarning,
                    stacklevel=5,
                )
        elif self.weighting == "stacking_mean":
            found = stacked_mean_weights(predictions[:, usable], data.y, share)
        elif self.weighting == "pseudo_bma":
            found = softmax(self.elpd_[usable])
        elif self.weighting == "pseudo_bma+":
            # Gamma variables over their sum are Dirichlet; a weight of two is the row twice.
            rng = check_random_state(draw_seeds(self.random_state, 2)[1])
            draws = (g / g.sum() for g in (rng.gamma(weight) for _ in range(_N_DIRICHLET)))
            found = bootstrapped_weights(density, weight, list(draws))
        else:
            values = [log_evidence(*item) for item in self.named_estimators_.items()]
            found = softmax(np.array(values)[usable])
        self.weights_ = np.zeros(len(usable))
        self.weights_[usable] = found
        self.n_effective_ = effective_number(self.weights_)
        return self

    def _weighted_members(self):
        """Return the members that carry weight, with it and their index."""
        return [
            (member, w, m)
            for m, (member, w) in enumerate(zip(self.estimators_, self.weights_, strict=True))
            if w > 0.0
        ]

    def _member_sections(self, outputs: list):
        """Return the weights of the members and their predictions for one row."""
        names, size = list(self.named_estimators_), float(self.n_effective_)
        first = int(np.argmax(self.weights_))
        summary = (
            f"The mean of {len(names)} members, worth {show(size)} of equal weight; {names[first]} "
            f"counts most ({self.weights_[first]:.3f})."
        )
        classes = getattr(self, "classes_", None)
        table = np.vstack(outputs)
        return [base_model_section(names, self.weights_, table, classes, summary, n_effective=size)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # Members that are not (name, estimator) tuples are named by ``fit``.
        tags.input_tags.sparse = all(
            isinstance(pair, tuple) and (pair[1] == "drop" or get_tags(pair[1]).input_tags.sparse)
            for pair in self.estimators
        )
        return tags


@saved(classes_="c labels", weights_="m shares")
@documented
class BayesianModelAveragingClassifier(ClassifierMixin, _ModelAveraging):
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
        **_ModelAveraging._parameter_constraints,
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
        data = training_data(
            self, X, y, sample_weight, task="classification", **self._input_options()
        )
        self.classes_ = data.classes
        learners, weight = self._named_learners(data)
        rows, output = np.arange(len(data)), self._output()

        def log_own(probability):
            return np.log(np.maximum(probability[rows, data.y], _LEAST_PROBABILITY))

        def half_bic(name, member):
            n_parameters = count_parameters(name, last_step(member))
            log_likelihood = data.weights @ log_own(output(member, data.X))
            return log_likelihood - 0.5 * n_parameters * np.log(data.weights.sum())

        found = _held_out(self, list(learners.values()), output, data, weight)
        self.log_densities_ = np.full((len(data), len(found)), np.nan)
        for m, probability in enumerate(found):
            if probability is not None:
                self.log_densities_[:, m] = log_own(probability)
        self._fit_members(learners, data, weight)
        return self._store_weights(data, half_bic)

    def _output(self):
        return functools.partial(class_probabilities, n_classes=len(self.classes_))

    def predict_proba(self, X):
        """Weighted mean of the members' probabilities."""
        X, output = query_rows(self, X, **self._input_options()), self._output()
        probability = sum(w * output(member, X) for member, w, _ in self._weighted_members())
        return probability.astype(X.dtype, copy=False)

    def predict(self, X):
        """Predict the class of largest probability."""
        return predicted_labels(self, self.predict_proba(X))

    def _sections(self, X, columns):
        X, output = query_rows(self, X, **self._input_options()), self._output()
        return self._member_sections([output(member, X) for member in self.estimators_])


def _moments(member: Any, X: Any) -> np.ndarray:
    """Mean and relative deviation of the prediction, (n_samples, 2); deviation 1 if unknown."""
    if "return_std" in inspect.signature(last_step(member).predict).parameters:
        return np.column_stack(member.predict(X, return_std=True))
    mean = np.asarray(member.predict(X), dtype=np.float64)
    return np.column_stack([mean, np.ones_like(mean)])


def _log_normal(residual, variance):
    return -0.5 * (_LOG_2PI + np.log(variance) + residual**2 / variance)


def _held_out_moments(model: Any, learners: list, data: TrainingData, weight) -> np.ndarray:
    """Held-out mean and relative deviation, (n_samples, n_models, 2); NaN after failures."""
    moments = np.full((len(data), len(learners), 2), np.nan)
    rest = []
    for m, learner in enumerate(learners):
        part = linear_part(learner, data.X) if model.cv == "loo" else None
        if part is None:
            rest.append(m)
            continue
        linear, columns = part
        alpha = float(getattr(linear, "alpha", 0.0))
        options = {"fit_intercept": linear.fit_intercept}
        summary = ridge_summary(columns, data.y, data.weights, alpha, **options)
        moments[:, m, 0], moments[:, m, 1] = summary.leave_one_out, 1.0
    if rest:
        found = _held_out(model, [learners[m] for m in rest], _moments, data, weight)
        for m, part in zip(rest, found, strict=True):
            if part is not None:
                moments[:, m] = part
    return moments


def _log_evidence(model: Any, data: TrainingData, name: str, member: Any) -> float:
    """Return the exact evidence of a fitted member, or minus half its information criterion."""
    last, columns, y, weight = member, data.X, data.y, data.weights
    while isinstance(last, Pipeline):
        columns = last[:-1].transform(columns) if len(last.steps) > 1 else columns
        last = last.steps[-1][1]
    is_sparse = hasattr(columns, "tocsr")
    is_ridge = type(last) is Ridge and np.ndim(last.alpha) == 0
    if model.weighting == "evidence":
        has_prior = type(last) is BayesianRidge or (is_ridge and last.alpha > 0)
        if not has_prior or is_sparse:
            raise ValueError(
                f"weighting='evidence' needs members with a Gaussian prior: Ridge with one "
                f"positive alpha, or BayesianRidge, on dense columns; the member {name!r} is "
                f"{last!r}. Use weighting='stacking' for other members."
            )
        if is_ridge:
            noise, alpha = model.noise_variance, float(last.alpha)
        else:
            noise, alpha = 1.0 / last.alpha_, float(last.lambda_ / last.alpha_)
        options = {"fit_intercept": last.fit_intercept, "noise_variance": noise}
        columns = np.asarray(columns, dtype=np.float64)
        return ridge_log_evidence(columns, y, weight, alpha, **options)
    if is_ridge and not is_sparse:
        columns, options = np.asarray(columns, np.float64), {"fit_intercept": last.fit_intercept}
        summary = ridge_summary(columns, y, weight, float(last.alpha), **options)
        n_parameters = summary.effective_parameters
    else:
        n_parameters = count_parameters(name, last)
    n = weight.sum()
    squares = max(float(weight @ (y - member.predict(data.X)) ** 2), np.finfo(float).tiny)
    log_likelihood = -0.5 * n * (_LOG_2PI + np.log(squares / n) + 1.0)
    # The variance counts as a parameter.
    return log_likelihood - 0.5 * (n_parameters + 1) * np.log(n)


@saved(weights_="m shares", variances_="m | m *")
@documented
class BayesianModelAveragingRegressor(RegressorMixin, _ModelAveraging):
    r"""Weighted mean of unlike regressors, the weights learned from held-out densities.

    The prediction is a mixture of the members' Gaussian predictions. Its weights are those of
    stacking (best for prediction, also when no member is true) or of one of the posterior
    probabilities, which settle on a single member as rows grow.

    Read more in the :doc:`user guide </guide/ensemble>`.

    Parameters
    ----------
    estimators : list of (str, regressor) tuples
        Members; one set to ``"drop"`` is left out.
    weighting : str, default="stacking"
        One of ``"stacking", "stacking_mean", "pseudo_bma+", "pseudo_bma", "bic", "evidence"``.
        Rule for the weights: of greatest held-out log density of the mixture; of least held-out
        squared error of the mean; softmax of held-out log densities, averaged over Bayesian
        bootstraps or not; of the Bayesian information criterion (members with ``coef_``); of the
        exact evidence (members ending in :class:`~sklearn.linear_model.Ridge` or
        :class:`~sklearn.linear_model.BayesianRidge`).
    cv : int or "loo", default=5
        Shuffled folds of the held-out densities. ``"loo"`` leaves one row out at a time: in closed
        form for least squares and ridge, by ``n_samples`` fits for other members.
    noise_variance : float, default=None
        Known variance of the noise, for ``weighting="evidence"`` with ridge members; ``None`` takes
        the most likely one of each member.

    Attributes
    ----------
    elpd_ : ndarray of shape (n_models,)
        Held-out log density of each member, summed over the rows.
    log_densities_ : ndarray of shape (n_samples, n_models)
        Held-out log density of each row under each member.
    variances_ : ndarray of shape (n_models,)
        Mean squared held-out residual of each member; relative to its own variance for members
        whose ``predict`` has ``return_std``.
    estimators_ : list
        Members fitted on all rows.

    See Also
    --------
    BayesianModelAveragingClassifier : The same for classes.
    sklearn.ensemble.StackingRegressor : Members as features of any final model.
    sklearn.ensemble.VotingRegressor : Weights set by hand.

    Notes
    -----
    The prediction is :math:`P(y|x) = \sum_m w_m N(y; f_m(x), v_m(x))`, with :math:`v_m(x) =
    \kappa_m s_m(x)^2`: :math:`s_m` is the member's own deviation if it has one, else 1, and
    :math:`\kappa_m` the mean of :math:`(y_i - f_m^{-i}(x_i))^2 / s_m(x_i)^2` over held-out rows.
    With :math:`\ell_{im}` the held-out log densities, weights are [1]_ [2]_

    .. math::

        w &= \arg\max_{w \in \Delta} \tfrac1n \sum_i \log \sum_m w_m e^{\ell_{im}}
        && \text{(stacking, by EM)} \\
        w &= \arg\min_{w \in \Delta} \sum_i \Big(y_i - \sum_m w_m f_m^{-i}(x_i)\Big)^2
        && \text{(stacking_mean)} \\
        w_m &\propto \exp \sum_i \ell_{im} && \text{(pseudo_bma)} \\
        w_m &= E_a\, \mathrm{softmax}_m \Big(n \sum_i a_i \ell_{im}\Big),\ a \sim
        \mathrm{Dirichlet}(1, \dots, 1) && \text{(pseudo_bma+)} \\
        w_m &\propto \exp(-\mathrm{BIC}_m / 2) && \text{(bic)} \\
        w_m &\propto N(y; 0, \sigma^2 I + \sigma^2 X_m X_m^\top / \alpha_m)
        && \text{(evidence, ridge penalty } \alpha_m)

    on the simplex :math:`\Delta`. Leave-one-out predictions of linear smoothers are :math:`y_i -
    (y_i - \hat y_i) / (1 - H_{ii})`. A member that fails in a fold warns and has weight 0.

    References
    ----------
    .. [1] Yao, Vehtari, Simpson, Gelman, "Using stacking to average Bayesian predictive
       distributions", Bayesian Analysis 13(3), 2018, sections 2 and 3. :doi:`10.1214/17-BA1091`
    .. [2] Hoeting, Madigan, Raftery, Volinsky, "Bayesian model averaging: a tutorial", Statistical
       Science 14(4), 1999. :doi:`10.1214/ss/1009212519`
    .. [3] Breiman, "Stacked regressions", Machine Learning 24, 1996. :doi:`10.1007/BF00117832`

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.neighbors import KNeighborsRegressor
    >>> from vicinal.ensemble import BayesianModelAveragingRegressor
    >>> X, y = make_friedman1(n_samples=300, noise=1.0, random_state=0)
    >>> members = [("ridge", Ridge()), ("knn", KNeighborsRegressor(10))]
    >>> model = BayesianModelAveragingRegressor(members, random_state=0).fit(X, y)
    >>> model.weights_.round(2)
    array([..., ...])
    >>> mean, std = model.predict(X[:2], return_std=True)
    """

    _parameter_constraints: dict = {
        **_ModelAveraging._parameter_constraints,
        "weighting": [
            StrOptions(
                {"stacking", "stacking_mean", "pseudo_bma+", "pseudo_bma", "bic", "evidence"}
            )
        ],
        "noise_variance": [Interval(Real, 0, None, closed="neither"), None],
    }

    def __init__(
        self,
        estimators,
        *,
        weighting="stacking",
        cv=5,
        noise_variance=None,
        n_jobs=None,
        random_state=None,
        verbose=0,
    ):
        self.estimators = estimators
        self.weighting = weighting
        self.cv = cv
        self.noise_variance = noise_variance
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
        data = training_data(self, X, y, sample_weight, task="regression", **self._input_options())
        learners, weight = self._named_learners(data)
        moments = _held_out_moments(self, list(learners.values()), data, weight)
        predictions, deviations = moments[:, :, 0], moments[:, :, 1]
        # A deviation of zero, as at a row that a member repeats, would be certainty.
        usual = np.maximum(deviations.mean(axis=0), np.finfo(float).tiny)
        self._least_deviations = _LEAST_DEVIATION * usual
        deviations = np.maximum(deviations, self._least_deviations)
        residual, share = data.y[:, None] - predictions, data.weights / data.weights.sum()
        # A member that repeats the targets has no residual; its density stays finite.
        variance = float(share @ (data.y - share @ data.y) ** 2)
        floor = 1e-12 * max(variance, np.finfo(float).tiny)
        self.variances_ = np.maximum(share @ (residual / deviations) ** 2, floor)
        self.log_densities_ = _log_normal(residual, self.variances_ * deviations**2)
        self._fit_members(learners, data, weight)
        evidence = functools.partial(_log_evidence, self, data)
        return self._store_weights(data, evidence, predictions)

    def _variance(self, m: int, moments: np.ndarray) -> np.ndarray:
        """Return the variance of a member's predictions."""
        return self.variances_[m] * np.maximum(moments[:, 1], self._least_deviations[m]) ** 2

    def predict(self, X, return_std=False):
        """Predict the weighted mean of the members.

        Parameters
        ----------
        return_std : bool, default=False
            Also return the deviation of the mixture: noise, and disagreement of the members.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Predictions.
        std : ndarray of shape (n_samples,)
            Only with ``return_std=True``.
        """
        X = query_rows(self, X, **self._input_options())
        parts = [(_moments(member, X), w, m) for member, w, m in self._weighted_members()]
        mean = sum(w * part[:, 0] for part, w, _ in parts)
        if not return_std:
            return mean.astype(X.dtype, copy=False)
        second = sum(
            w * (self._variance(m, part) + (part[:, 0] - mean) ** 2) for part, w, m in parts
        )
        return mean.astype(X.dtype, copy=False), np.sqrt(second).astype(X.dtype, copy=False)

    def log_density(self, X, y):
        """Log density of targets under the mixture.

        Parameters
        ----------
        y : array-like of shape (n_samples,)
            Their targets.

        Returns
        -------
        density : ndarray of shape (n_samples,)
            Logarithms.
        """
        X = query_rows(self, X, **self._input_options())
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        check_consistent_length(X, y)
        parts = []
        for member, w, m in self._weighted_members():
            part = _moments(member, X)
            parts.append(np.log(w) + _log_normal(y - part[:, 0], self._variance(m, part)))
        return logsumexp(parts, axis=0)

    def _sections(self, X, columns):
        X = query_rows(self, X, **self._input_options())
        return self._member_sections([_moments(member, X) for member in self.estimators_])
