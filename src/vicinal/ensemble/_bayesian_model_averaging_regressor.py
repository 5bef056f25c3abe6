"""Averaging of regressors with learned weights."""

import inspect
from numbers import Real

import numpy as np
from scipy.special import logsumexp
from sklearn.base import RegressorMixin
from sklearn.linear_model import BayesianRidge, Ridge
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array, check_consistent_length

from vicinal._base import atomic_fit, documented, last_step, saved
from vicinal._base._compat import Interval, StrOptions
from vicinal._kernels.ensemble._simplex import stacked_mean_weights
from vicinal._kernels.linear._ridge_path import ridge_log_evidence, ridge_summary
from vicinal.ensemble._base_averaging import BaseModelAveraging, count_parameters, linear_part
from vicinal.ensemble._explain import averaging_sections

_LOG_2PI = np.log(2.0 * np.pi)
# No deviation that a member tells counts less, as a share of the mean of those of held-out rows.
_LEAST_DEVIATION = 1e-6


def _has_std(member) -> bool:
    return "return_std" in inspect.signature(last_step(member).predict).parameters


def _moments(member, X):
    """Mean and relative deviation of the prediction, (n_samples, 2); deviation 1 if unknown."""
    if not _has_std(member):
        mean = np.asarray(member.predict(X), dtype=np.float64)
        return np.column_stack([mean, np.ones_like(mean)])
    return np.column_stack(member.predict(X, return_std=True))


def _log_normal(residual, variance):
    return -0.5 * (_LOG_2PI + np.log(variance) + residual**2 / variance)


@saved(weights_="m shares", variances_="m | m *")
@documented
class BayesianModelAveragingRegressor(RegressorMixin, BaseModelAveraging):
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
        **BaseModelAveraging._parameter_constraints,
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
        X, y, weight = self._validated(X, y, sample_weight, y_numeric=True)
        y = y.astype(np.float64)
        members, member_weight = self._members(weight)
        moments = self._held_out_moments(members, X, y, weight, member_weight)
        self._set_densities(y, weight, moments)
        self._fit_final(members, X, y, member_weight)

        def mean_weights(usable):
            return stacked_mean_weights(moments[:, usable, 0], y, weight / weight.sum())

        self._weigh(weight, self._log_evidence(X, y, weight), mean_weights)
        return self

    def _held_out_moments(self, members, X, y, weight, member_weight):
        """Held-out mean and relative deviation, (n_samples, n_models, 2); NaN after failures."""
        moments = np.full((len(y), len(members), 2), np.nan)
        rest = []
        for m, member in enumerate(members):
            part = linear_part(member, X) if self.cv == "loo" else None
            if part is None:
                rest.append(m)
                continue
            model, columns = part
            alpha = getattr(model, "alpha", 0.0)
            summary = ridge_summary(
                columns, y, weight, float(alpha), fit_intercept=model.fit_intercept
            )
            moments[:, m, 0], moments[:, m, 1] = summary.leave_one_out, 1.0
        if rest:
            folds = self._fold_list(y, classifier=False)
            some = [members[m] for m in rest]
            answers = self._held_out(some, _moments, X, y, member_weight, folds)
            for m, answer in zip(rest, answers, strict=True):
                if answer is not None:
                    moments[:, m] = answer
        # A deviation of zero, as at a row that a member repeats, would be certainty.
        usual = np.maximum(moments[:, :, 1].mean(axis=0), np.finfo(float).tiny)
        self._least_deviations = _LEAST_DEVIATION * usual
        moments[:, :, 1] = np.maximum(moments[:, :, 1], self._least_deviations)
        return moments

    def _set_densities(self, y, weight, moments):
        residual = y[:, None] - moments[:, :, 0]
        share = weight / weight.sum()
        relative = share @ (residual / moments[:, :, 1]) ** 2
        # A member that repeats the targets has no residual; its density stays finite.
        floor = 1e-12 * max(float(share @ (y - share @ y) ** 2), np.finfo(float).tiny)
        self.variances_ = np.maximum(relative, floor)
        self.log_densities_ = _log_normal(residual, self.variances_ * moments[:, :, 1] ** 2)

    def _log_evidence(self, X, y, weight):
        if self.weighting not in ("bic", "evidence"):
            return None
        values = []
        for name, member in zip(self._member_names, self.estimators_, strict=True):
            last, columns = member, X
            while isinstance(last, Pipeline):
                columns = last[:-1].transform(columns) if len(last.steps) > 1 else columns
                last = last.steps[-1][1]
            if self.weighting == "bic":
                values.append(self._half_bic(name, member, last, columns, X, y, weight))
            else:
                values.append(self._evidence(name, last, columns, y, weight))
        return np.array(values)

    def _half_bic(self, name, member, last, columns, X, y, weight):
        """Minus half the Bayesian information criterion, the variance counted as a parameter."""
        if type(last) is Ridge and np.ndim(last.alpha) == 0 and not hasattr(columns, "tocsr"):
            n_parameters = ridge_summary(
                np.asarray(columns, dtype=np.float64),
                y,
                weight,
                float(last.alpha),
                fit_intercept=last.fit_intercept,
            ).effective_parameters
        else:
            n_parameters = count_parameters(name, last)
        n = weight.sum()
        squares = max(float(weight @ (y - member.predict(X)) ** 2), np.finfo(float).tiny)
        log_likelihood = -0.5 * n * (_LOG_2PI + np.log(squares / n) + 1.0)
        return log_likelihood - 0.5 * (n_parameters + 1) * np.log(n)

    def _evidence(self, name, last, columns, y, weight):
        is_ridge = type(last) is Ridge and np.ndim(last.alpha) == 0 and last.alpha > 0
        if not (is_ridge or type(last) is BayesianRidge) or hasattr(columns, "tocsr"):
            raise ValueError(
                f"weighting='evidence' needs members with a Gaussian prior: Ridge with one "
                f"positive alpha, or BayesianRidge, on dense columns; the member {name!r} is "
                f"{last!r}. Use weighting='stacking' for other members."
            )
        noise, alpha = self.noise_variance, getattr(last, "alpha", None)
        if not is_ridge:
            noise, alpha = 1.0 / last.alpha_, last.lambda_ / last.alpha_
        return ridge_log_evidence(
            np.asarray(columns, dtype=np.float64),
            y,
            weight,
            float(alpha),
            fit_intercept=last.fit_intercept,
            noise_variance=noise,
        )

    def _sections(self, X, columns):
        return averaging_sections(self, X, _moments)

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
        X = self._checked(X)
        mean, second = np.zeros(X.shape[0]), np.zeros(X.shape[0])
        parts = [(_moments(member, X), w, m) for member, w, m in self._weighted_members()]
        for part, w, _ in parts:
            mean += w * part[:, 0]
        if not return_std:
            return mean.astype(X.dtype, copy=False)
        for part, w, m in parts:
            second += w * (self._variance(m, part) + (part[:, 0] - mean) ** 2)
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
        X = self._checked(X)
        y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
        check_consistent_length(X, y)
        parts = []
        for member, w, m in self._weighted_members():
            part = _moments(member, X)
            parts.append(np.log(w) + _log_normal(y - part[:, 0], self._variance(m, part)))
        return logsumexp(parts, axis=0)

    def _variance(self, m: int, moments: np.ndarray) -> np.ndarray:
        """Return the variance of a member's predictions."""
        return self.variances_[m] * np.maximum(moments[:, 1], self._least_deviations[m]) ** 2
