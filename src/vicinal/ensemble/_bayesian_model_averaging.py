"""Weighted averages of different models, with learned weights."""

import functools
import inspect
import warnings
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.special import logsumexp, softmax
from sklearn.base import RegressorMixin, clone, is_classifier, is_regressor
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import BayesianRidge, LinearRegression, Ridge
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, PolynomialFeatures
from sklearn.utils import check_array, check_consistent_length, check_random_state, get_tags

from vicinal import _base
from vicinal._base._compat import RUN_CONSTRAINTS, Interval, NamedParts, StrOptions
from vicinal._base._explanation import ExplainRowMixin, base_model_section, show
from vicinal._kernels.ensemble import _weights as kernels
from vicinal._kernels.linear._regression import ridge_log_evidence, ridge_summary
from vicinal.ensemble._learners import class_probabilities, fresh_learner, shuffled_folds

_N_DIRICHLET = 1000
_LOG_2PI = np.log(2.0 * np.pi)
_LEAST_PROBABILITY = 1e-15
# Smallest standard deviation of a base model, as a share of its mean over held-out rows.
_LEAST_DEVIATION = 1e-6


def _learns_nothing_from_rows(step) -> bool:
    """Return whether a transformer does not depend on the rows it is fitted to."""
    if isinstance(step, str):
        return step in ("passthrough", "drop")
    if isinstance(step, ColumnTransformer):
        return all(_learns_nothing_from_rows(part) for _, part, _ in step.transformers)
    return type(step) in (FunctionTransformer, PolynomialFeatures)


def linear_part(estimator, X):
    """Return the linear model and the columns it sees, or ``None``.

    Pipelines are searched if their transformers learn nothing from the rows (selections of
    columns, functions, polynomials), since they are then the same without one row.
    """
    if isinstance(estimator, Pipeline):
        steps = [step for _, step in estimator.steps]
        if not all(step is None or _learns_nothing_from_rows(step) for step in steps[:-1]):
            return None
        if len(steps) > 1:
            X = clone(estimator[:-1]).fit(X).transform(X)
        estimator = steps[-1]
    is_plain = type(estimator) is LinearRegression and not estimator.positive
    is_ridge = type(estimator) is Ridge and np.ndim(estimator.alpha) == 0 and not estimator.positive
    if not (is_plain or is_ridge) or hasattr(X, "tocsr"):
        return None
    return estimator, np.asarray(X, dtype=np.float64)


def count_parameters(name, model) -> int:
    """Count the non-zero coefficients and intercepts of a linear model."""
    if not hasattr(model, "coef_"):
        raise ValueError(
            f"weighting='bic' needs coefficients, and the estimator {name!r} ({model!r}) has no "
            "coef_; use weighting='stacking'."
        )
    return int(np.count_nonzero(model.coef_)) + int(np.count_nonzero(model.intercept_))


def _dtype_of(X: Any) -> Any:
    return np.float64 if _base.is_frame(X) else X.dtype


def _held_out(
    model: Any, learners: list, output: Callable, data: _base.TrainingData, weight
) -> list:
    """Return held-out predictions of every learner, ``None`` for those that failed."""
    folds = list(np.arange(len(data))[:, None])  # leave-one-out
    if model.cv != "loo":
        folds = [test for _, test in shuffled_folds(model.cv, data, model.random_state)]
    found: list[Any] = []
    with _base.Progress(len(learners), type(model).__name__, verbose=model.verbose) as progress:
        for m, learner in enumerate(learners):
            try:
                parts = _base.cross_fit(
                    lambda *some, learner=learner: _base.fit_weighted(clone(learner), *some),
                    output,
                    data.X,
                    data.y,
                    folds,
                    sample_weight=weight,
                    n_jobs=model.n_jobs,
                )
            except Exception as error:
                warnings.warn(
                    f"Estimator {m} ({learner!r}) failed in a fold and gets weight 0: "
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
            f"Every estimator of {type(model).__name__} failed in cross-validation; see the "
            "warnings above."
        )
    return found


class _ModelAveraging(ExplainRowMixin, NamedParts):
    """Weighted mean of different models.

    Parameters
    ----------
    n_jobs : int, default=None
        Number of fits run in parallel, through joblib; ``None`` means 1 unless in a
        ``joblib.parallel_config`` context. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of folds, bootstraps and estimators.

    Attributes
    ----------
    weights_ : ndarray of shape (n_models,)
        Weights of the base models, non-negative, of sum one.
    elpd_se_ : ndarray of shape (n_models,)
        Its standard error.
    n_effective_ : float
        Effective number of base models, the exponential of the entropy of the weights.
    named_estimators_ : dict
        The same by name.
    """

    _parameter_constraints: dict = {
        "estimators": [list],
        "cv": [Interval(Integral, 2, None, closed="left"), StrOptions({"loo"})],
        **RUN_CONSTRAINTS,
    }

    def get_params(self, deep=True):
        """Get the parameters, and those of the estimators by name.

        Parameters
        ----------
        deep : bool, default=True
            Also the estimators and their parameters.

        Returns
        -------
        params : dict
            Names and values.
        """
        return self._get_params("estimators", deep=deep)

    def set_params(self, **params):
        """Set parameters, estimators by name, or ``name__parameter`` of an estimator.

        Parameters
        ----------
        **params : dict
            Names and values; an estimator set to ``"drop"`` is not used.

        Returns
        -------
        self : object
            The estimator.
        """
        self._set_params("estimators", **params)
        return self

    def _input_options(self) -> dict:
        """Return options of validation: all estimators must accept sparse rows or frames."""
        learners = [pair[1] for pair in self.estimators if isinstance(pair, tuple)]
        return {
            "learners": [learner for learner in learners if learner != "drop"],
            "accept_sparse": "csr" if get_tags(self).input_tags.sparse else False,
            "accept_large_sparse": False,
        }

    def _named_learners(self, data: _base.TrainingData) -> tuple[dict[str, Any], np.ndarray | None]:
        """Return seeded copies of the estimators by name, and the weights passed to them."""
        if len(data) < 2:
            raise ValueError(
                f"n_samples={len(data)} row of positive weight is too few for cross-validation; "
                f"{type(self).__name__} needs two or more."
            )
        if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in self.estimators):
            raise ValueError(
                f"estimators must be a list of (name, estimator) tuples, got {self.estimators!r}."
            )
        self._validate_names([name for name, _ in self.estimators])
        estimators = {name: estimator for name, estimator in self.estimators if estimator != "drop"}
        if not estimators:
            raise ValueError(
                f"estimators={self.estimators!r} holds no estimator; give at least one that is "
                "not 'drop'."
            )
        classify, is_uniform = data.classes is not None, np.ptp(data.weights) == 0.0
        for name, estimator in estimators.items():
            if not (is_classifier if classify else is_regressor)(estimator):
                kind = "classifier" if classify else "regressor"
                raise ValueError(f"The estimator {name!r} ({estimator!r}) is not a {kind}.")
            if classify and not hasattr(estimator, "predict_proba"):
                raise ValueError(
                    f"The estimator {name!r} ({estimator!r}) has no predict_proba, which its "
                    "weight is computed from; use sklearn.calibration.CalibratedClassifierCV."
                )
            if not is_uniform:
                _base.check_takes_weights(estimator, f"estimators[{name!r}]")
        # One seed per estimator, the same in every fold, so that results do not depend on order.
        rng = check_random_state(self.random_state)
        learners = {name: fresh_learner(estimator, rng) for name, estimator in estimators.items()}
        return learners, None if is_uniform else data.weights

    def _fit_estimators(self, learners: dict[str, Any], data: _base.TrainingData, weight) -> None:
        """Fit every estimator to all rows."""
        tasks = [(clone(learner), data.X, data.y, weight) for learner in learners.values()]
        self.estimators_ = _base.parallel_map(_base.fit_weighted, tasks, n_jobs=self.n_jobs)
        self.named_estimators_ = dict(zip(learners, self.estimators_, strict=True))

    def _store_weights(self, data: _base.TrainingData, log_evidence=None, predictions=None):
        """Turn ``log_densities_`` (n_samples, n_models) into weights by the chosen rule.

        ``log_evidence(name, estimator)`` is for "bic" and "evidence", the held-out ``predictions``
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
            found = kernels.stacking_weights(density, share)
        elif self.weighting == "stacking_mean":
            found = kernels.stacked_mean_weights(predictions[:, usable], data.y, share)
        elif self.weighting == "pseudo_bma":
            found = softmax(self.elpd_[usable])
        elif self.weighting == "pseudo_bma+":
            # Gamma variables over their sum are Dirichlet; a weight of 2 is the row twice.
            rng = check_random_state(_base.random_seeds(self.random_state, 2)[1])
            samples = (g / g.sum() for g in (rng.gamma(weight) for _ in range(_N_DIRICHLET)))
            found = kernels.bootstrapped_weights(density, weight, list(samples))
        else:
            values = [log_evidence(*item) for item in self.named_estimators_.items()]
            found = softmax(np.array(values)[usable])
        self.weights_ = np.zeros(len(usable))
        self.weights_[usable] = found
        self.n_effective_ = kernels.effective_number(self.weights_)
        return self

    def _weighted_estimators(self):
        """Return the base models of positive weight, their weights and indices."""
        return [
            (estimator, w, m)
            for m, (estimator, w) in enumerate(zip(self.estimators_, self.weights_, strict=True))
            if w > 0.0
        ]

    def _estimator_sections(self, outputs: list, label: Any):
        """Return weights and predictions of the base models for one row."""
        names, size = list(self.named_estimators_), float(self.n_effective_)
        first = int(np.argmax(self.weights_))
        summary = (
            f"The weighted mean of {len(names)} base models (effective number {show(size)}); "
            f"{names[first]} has the largest weight ({self.weights_[first]:.3f})."
        )
        classes = getattr(self, "classes_", None)
        found = names, self.weights_, np.vstack(outputs), classes, summary, label
        return [base_model_section(*found, n_effective=size)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # ``fit`` raises for what is not a (name, estimator) tuple.
        tags.input_tags.sparse = all(
            isinstance(pair, tuple) and (pair[1] == "drop" or get_tags(pair[1]).input_tags.sparse)
            for pair in self.estimators
        )
        return tags


@_base.saved(classes_="c labels", weights_="m shares")
@_base.documented
class BayesianModelAveragingClassifier(_base.ArgmaxClassifierMixin, _ModelAveraging):
    r"""Weighted average of different classifiers, weighted by held-out log-likelihoods.

    Read more in the :doc:`user guide </guide/ensemble>`.

    Parameters
    ----------
    estimators : list of (str, classifier) tuples
        Classifiers with ``predict_proba``; ``"drop"`` instead of one removes it.
    weighting : {"stacking", "pseudo_bma+", "pseudo_bma", "bic"}, default="stacking"
        Rule of the weights. ``"stacking"``: largest held-out log-likelihood of the average.
        ``"pseudo_bma"``: softmax of the held-out log-likelihoods; ``"pseudo_bma+"`` averages it
        over Bayesian bootstraps. ``"bic"``: Bayesian information criterion (needs ``coef_``).
    cv : int or "loo", default=5
        Number of shuffled, stratified folds; ``"loo"`` is leave-one-out.

    Attributes
    ----------
    elpd_ : ndarray of shape (n_models,)
        Held-out log-likelihood of each base model, summed over the rows.
    log_densities_ : ndarray of shape (n_samples, n_models)
        Held-out log probability of each row's class under each base model.
    estimators_ : list
        Base models fitted to all rows; they predict class codes, indices into ``classes_``.

    See Also
    --------
    BayesianModelAveragingRegressor : The same for regression.
    sklearn.ensemble.StackingClassifier : Predictions as features of a final model.
    sklearn.ensemble.VotingClassifier : Weights given by the user.

    Notes
    -----
    :math:`P(k|x) = \sum_m w_m P_m(k|x)` with weights on the simplex, found from :math:`\ell_{im} =
    \log P_m^{-i}(y_i|x_i)`, clipped at :math:`\log 10^{-15}`, as for
    :class:`BayesianModelAveragingRegressor` [1]_. A classifier that fails in a fold causes a
    warning and has weight 0.

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
    >>> estimators = [("bayes", GaussianNB()), ("stump", DecisionTreeClassifier(max_depth=1))]
    >>> model = BayesianModelAveragingClassifier(estimators, random_state=0).fit(X, y)
    >>> bool(model.weights_[0] > 0.9)
    True
    """

    _parameter_constraints: dict = {
        **_ModelAveraging._parameter_constraints,
        "weighting": [StrOptions({"stacking", "pseudo_bma+", "pseudo_bma", "bic"})],
    }

    def __init__(
        self, estimators, *, weighting="stacking", cv=5, n_jobs=None, random_state=None, verbose=0
    ):
        _base.store_parameters(self, locals())

    @_base.atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Compute the weights from held-out rows, and fit all estimators to all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_samples, n_features)
            Training rows; estimators that all begin with an encoder are given frames as they are.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights; every estimator must accept them if they differ.
        """
        data = _base.training_data(
            self, X, y, sample_weight, task="classification", **self._input_options()
        )
        self.classes_ = data.classes
        learners, weight = self._named_learners(data)
        rows, output = np.arange(len(data)), self._output()

        def log_own(probability):
            return np.log(np.maximum(probability[rows, data.y], _LEAST_PROBABILITY))

        def half_bic(name, estimator):
            n_parameters = count_parameters(name, _base.last_step(estimator))
            log_likelihood = data.weights @ log_own(output(estimator, data.X))
            return log_likelihood - 0.5 * n_parameters * np.log(data.weights.sum())

        found = _held_out(self, list(learners.values()), output, data, weight)
        self.log_densities_ = np.full((len(data), len(found)), np.nan)
        for m, probability in enumerate(found):
            if probability is not None:
                self.log_densities_[:, m] = log_own(probability)
        self._fit_estimators(learners, data, weight)
        return self._store_weights(data, half_bic)

    def _output(self):
        return functools.partial(class_probabilities, n_classes=len(self.classes_))

    def predict_proba(self, X):
        """Weighted mean of the probabilities of the base models."""
        X, output = _base.query_rows(self, X, **self._input_options()), self._output()
        probability = sum(
            w * output(estimator, X) for estimator, w, _ in self._weighted_estimators()
        )
        return probability.astype(_dtype_of(X), copy=False)

    def _sections(self, X, columns):
        X, output = _base.query_rows(self, X, **self._input_options()), self._output()
        outputs = [output(estimator, X) for estimator in self.estimators_]
        return self._estimator_sections(outputs, columns.label)


def _moments(estimator: Any, X: Any) -> np.ndarray:
    """Return mean and relative standard deviation, (n_samples, 2); 1 if it is unknown."""
    if "return_std" in inspect.signature(_base.last_step(estimator).predict).parameters:
        return np.column_stack(estimator.predict(X, return_std=True))
    mean = np.asarray(estimator.predict(X), dtype=np.float64)
    return np.column_stack([mean, np.ones_like(mean)])


def _log_normal(residual, variance):
    return -0.5 * (_LOG_2PI + np.log(variance) + residual**2 / variance)


def _held_out_moments(model: Any, learners: list, data: _base.TrainingData, weight) -> np.ndarray:
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


def _log_evidence(model: Any, data: _base.TrainingData, name: str, estimator: Any) -> float:
    """Return the exact evidence of a fitted model, or minus half its BIC."""
    last, columns, y, weight = estimator, data.X, data.y, data.weights
    while isinstance(last, Pipeline):
        columns = last[:-1].transform(columns) if len(last.steps) > 1 else columns
        last = last.steps[-1][1]
    is_sparse = hasattr(columns, "tocsr")
    is_ridge = type(last) is Ridge and np.ndim(last.alpha) == 0
    if model.weighting == "evidence":
        has_prior = type(last) is BayesianRidge or (is_ridge and last.alpha > 0)
        if not has_prior or is_sparse:
            raise ValueError(
                f"The estimator {name!r} is {last!r}, but weighting='evidence' needs Ridge with "
                "one positive alpha, or BayesianRidge, on dense columns; use "
                "weighting='stacking'."
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
    squares = max(float(weight @ (y - estimator.predict(data.X)) ** 2), np.finfo(float).tiny)
    log_likelihood = -0.5 * n * (_LOG_2PI + np.log(squares / n) + 1.0)
    # The variance counts as a parameter.
    return log_likelihood - 0.5 * (n_parameters + 1) * np.log(n)


@_base.saved(weights_="m shares", variances_="m | m *")
@_base.documented
class BayesianModelAveragingRegressor(RegressorMixin, _ModelAveraging):
    r"""Weighted average of different regressors, weighted by held-out densities.

    The prediction is a mixture of the Gaussian predictions of the base models. The weights of
    stacking are best for prediction, also when no model is true. Those of the other rules estimate
    posterior probabilities of the models, and tend to a single model as the number of rows grows.

    Read more in the :doc:`user guide </guide/ensemble>`.

    Parameters
    ----------
    estimators : list of (str, regressor) tuples
        Regressors; ``"drop"`` instead of one removes it.
    weighting : str, default="stacking"
        One of ``"stacking", "stacking_mean", "pseudo_bma+", "pseudo_bma", "bic", "evidence"``.
        Rule of the weights: largest held-out log density of the mixture; smallest held-out squared
        error of the mean; softmax of held-out log densities, with or without (``pseudo_bma``) an
        average over Bayesian bootstraps; Bayesian information criterion (needs ``coef_``); exact
        evidence (needs :class:`~sklearn.linear_model.Ridge` or
        :class:`~sklearn.linear_model.BayesianRidge` as last step).
    cv : int or "loo", default=5
        Number of shuffled folds. ``"loo"`` is leave-one-out: in closed form for least squares and
        ridge, by ``n_samples`` fits for other regressors.
    noise_variance : float, default=None
        Known variance of the noise, for ``weighting="evidence"`` with ridge regression; ``None``
        takes the most likely one of each base model.

    Attributes
    ----------
    elpd_ : ndarray of shape (n_models,)
        Held-out log density of each base model, summed over the rows.
    log_densities_ : ndarray of shape (n_samples, n_models)
        Held-out log density of each row under each base model.
    variances_ : ndarray of shape (n_models,)
        Mean squared held-out residual of each base model; relative to its own variance if its
        ``predict`` has ``return_std``.
    estimators_ : list
        Base models fitted to all rows.

    See Also
    --------
    BayesianModelAveragingClassifier : The same for classification.
    sklearn.ensemble.StackingRegressor : Predictions as features of a final model.
    sklearn.ensemble.VotingRegressor : Weights given by the user.

    Notes
    -----
    The prediction is :math:`P(y|x) = \sum_m w_m N(y; f_m(x), v_m(x))`, with :math:`v_m(x) =
    \kappa_m s_m(x)^2`: :math:`s_m` is the model's own standard deviation, or 1 if it has none, and
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
    (y_i - \hat y_i) / (1 - H_{ii})`. A regressor that fails in a fold causes a
    warning and has weight 0.

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
    >>> estimators = [("ridge", Ridge()), ("knn", KNeighborsRegressor(10))]
    >>> model = BayesianModelAveragingRegressor(estimators, random_state=0).fit(X, y)
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
        _base.store_parameters(self, locals())

    @_base.atomic_fit
    def fit(self, X, y, sample_weight=None):
        """Compute the weights from held-out rows, and fit all estimators to all rows.

        Parameters
        ----------
        X : {array-like, sparse matrix, frame} of shape (n_samples, n_features)
            Training rows; estimators that all begin with an encoder are given frames as they are.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights; every estimator must accept them if they differ.
        """
        data = _base.training_data(
            self, X, y, sample_weight, task="regression", **self._input_options()
        )
        learners, weight = self._named_learners(data)
        moments = _held_out_moments(self, list(learners.values()), data, weight)
        predictions, deviations = moments[:, :, 0], moments[:, :, 1]
        # A standard deviation of zero would give an infinite density.
        usual = np.maximum(deviations.mean(axis=0), np.finfo(float).tiny)
        self._least_deviations = _LEAST_DEVIATION * usual
        deviations = np.maximum(deviations, self._least_deviations)
        residual, share = data.y[:, None] - predictions, data.weights / data.weights.sum()
        # A model without residuals would have an infinite density.
        variance = float(share @ (data.y - share @ data.y) ** 2)
        floor = 1e-12 * max(variance, np.finfo(float).tiny)
        self.variances_ = np.maximum(share @ (residual / deviations) ** 2, floor)
        self.log_densities_ = _log_normal(residual, self.variances_ * deviations**2)
        self._fit_estimators(learners, data, weight)
        evidence = functools.partial(_log_evidence, self, data)
        return self._store_weights(data, evidence, predictions)

    def _variance(self, m: int, moments: np.ndarray) -> np.ndarray:
        """Return the variance of the predictions of a base model."""
        return self.variances_[m] * np.maximum(moments[:, 1], self._least_deviations[m]) ** 2

    def predict(self, X, return_std=False):
        """Predict the weighted mean of the base models.

        Parameters
        ----------
        return_std : bool, default=False
            Also return the standard deviation of the mixture: noise, and disagreement of the
            base models.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Predictions.
        std : ndarray of shape (n_samples,)
            Only with ``return_std=True``.
        """
        X = _base.query_rows(self, X, **self._input_options())
        parts = [(_moments(estimator, X), w, m) for estimator, w, m in self._weighted_estimators()]
        mean, dtype = sum(w * part[:, 0] for part, w, _ in parts), _dtype_of(X)
        if not return_std:
            return mean.astype(dtype, copy=False)
        second = sum(
            w * (self._variance(m, part) + (part[:, 0] - mean) ** 2) for part, w, m in parts
        )
        return mean.astype(dtype, copy=False), np.sqrt(second).astype(dtype, copy=False)

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
        X = _base.query_rows(self, X, **self._input_options())
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        check_consistent_length(X, y)
        parts = []
        for estimator, w, m in self._weighted_estimators():
            part = _moments(estimator, X)
            parts.append(np.log(w) + _log_normal(y - part[:, 0], self._variance(m, part)))
        return logsumexp(parts, axis=0)

    def _sections(self, X, columns):
        X = _base.query_rows(self, X, **self._input_options())
        outputs = [_moments(estimator, X) for estimator in self.estimators_]
        return self._estimator_sections(outputs, columns.label)
