"""What the local regressors share: prediction, and inference for linear smoothers."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from array_api_compat import device as device_of
from scipy import stats
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from vicinal._base import (
    documented,
    is_array_api,
    namespace,
    validate_array_api,
    weighted_device_rows,
)
from vicinal._conformal import IntervalMixin, check_coverage
from vicinal._kernels.local._smoothing import robustness_weights
from vicinal.local._arrays import ArrayApiEngine, ArrayNumbers, check_array_parameters
from vicinal.local._base import BaseLocal
from vicinal.local._data import TrainingTable, checked_rows, number_targets
from vicinal.local._fits import make_fit, squared_norms
from vicinal.local._neighborhoods import WeightedNeighborhoods
from vicinal.local._solvers import RidgeSolver

# Penalties tried: targets often need less shrinkage than class indicators.
ALPHAS = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
# Above this number of rows the second moment of the residual operator is estimated by probes.
MAX_EXACT_ROWS = 2000
N_PROBES = 30


@dataclass(frozen=True)
class SmootherStatistics:
    """What a linear smoother says about its own noise.

    Attributes
    ----------
    sigma : ndarray of shape (n_outputs,)
        Residual standard deviation, sqrt(RSS / one_delta).
    one_delta, two_delta : float
        First and second moment of (I - L)'(I - L).
    dof : float
        one_delta^2 / two_delta, degrees of freedom of the t distribution.
    trace : float
        tr L.
    equivalent_parameters : float
        tr L'L.
    leverage : ndarray of shape (n_samples,)
        Diagonal of L.
    largest_norm : float
        Largest |l(x_i)|^2 over training rows.
    rss : ndarray of shape (n_outputs,)
        Residual sum of squares.
    n_observations : float
        Number of rows, counted with their weights.
    """

    sigma: np.ndarray
    one_delta: float
    two_delta: float
    dof: float
    trace: float
    equivalent_parameters: float
    leverage: np.ndarray
    largest_norm: float
    rss: np.ndarray
    n_observations: float

    @property
    def aicc(self) -> np.ndarray:
        """Corrected Akaike criterion of Hurvich, Simonoff and Tsai (1998)."""
        n, trace = self.n_observations, self.trace
        if n - trace - 2 <= 0:
            return np.full(len(self.rss), np.inf)
        with np.errstate(divide="ignore"):  # targets that are met exactly
            return np.log(self.rss / n) + 1 + 2 * (trace + 1) / (n - trace - 2)

    @property
    def gcv(self) -> np.ndarray:
        """Generalised cross-validation."""
        n = self.n_observations
        return n * self.rss / (n - self.trace) ** 2


def smoother_statistics(
    rows_of: Callable[[], Iterable[tuple[slice, WeightedNeighborhoods, np.ndarray]]],
    targets: np.ndarray,
    weights: np.ndarray | None,
    *,
    exact: bool,
    random_state: np.random.RandomState,
) -> SmootherStatistics:
    """Return the statistics of the smoother whose rows ``rows_of`` yields block by block.

    Rows of weight s count as s rows: with A = S^(1/2) (I - L) S^(-1/2) the moments are those of
    A'A, plus one for every further copy (copies differ only in directions that L ignores).

    Parameters
    ----------
    rows_of : callable
        Returns an iterator over (block, neighbourhoods, l) for all training rows.
    targets : ndarray of shape (n_samples, n_outputs)
        Observed values.
    weights : ndarray of shape (n_samples,) or None
        User weights.
    exact : bool
        Form A whole (n^2 numbers); otherwise estimate the second moment by random probes.
    random_state : RandomState
        Draws the probes.
    """
    n = len(targets)
    s = np.ones(n) if weights is None else weights
    leverage, norms = np.zeros(n), np.zeros(n)
    rss = np.zeros(targets.shape[1])
    A = np.diag(np.ones(n)) if exact else None
    for block, found, smoother in rows_of():
        owner = np.repeat(np.arange(block.start, block.stop), found.sizes())
        own = found.indices == owner
        leverage[owner[own]] = smoother[own]
        norms[block] = squared_norms(found, smoother, weights)
        fitted = np.zeros((found.n_queries, targets.shape[1]))
        for c in range(targets.shape[1]):
            terms = smoother * targets[found.indices, c]
            fitted[:, c] = np.bincount(owner - block.start, terms, minlength=found.n_queries)
        rss += s[block] @ (targets[block] - fitted) ** 2
        if A is not None:
            A[owner, found.indices] -= smoother * np.sqrt(s[owner] / s[found.indices])
    n_observations = float(s.sum())
    trace = float(leverage.sum())
    parameters = float(s @ norms)
    one_delta = n_observations - 2.0 * trace + parameters
    if A is not None:
        two_delta = float(((A.T @ A) ** 2).sum()) + n_observations - n
    else:
        two_delta = _probe_second_moment(rows_of, s, random_state) + n_observations - n
    return SmootherStatistics(
        sigma=np.sqrt(rss / one_delta) if one_delta > 0 else np.full(len(rss), np.nan),
        one_delta=one_delta,
        two_delta=two_delta,
        dof=one_delta**2 / two_delta if two_delta > 0 else np.nan,
        trace=trace,
        equivalent_parameters=parameters,
        leverage=leverage,
        largest_norm=float(norms.max()),
        rss=rss,
        n_observations=n_observations,
    )


def _probe_second_moment(rows_of, s, random_state) -> float:
    """Estimate tr (A'A)^2 = E |A'A z|^2 over random signs z (Hutchinson 1990)."""
    n = len(s)
    root = np.sqrt(s)[:, None]
    Z = random_state.choice([-1.0, 1.0], size=(n, N_PROBES))
    AZ = Z - root * _multiply(rows_of(), Z / root)
    AtAZ = AZ - _multiply_transposed(rows_of(), root * AZ) / root
    return float((AtAZ**2).sum() / N_PROBES)


def _multiply(rows: Iterator, Z: np.ndarray) -> np.ndarray:
    out = np.empty_like(Z)
    for block, found, smoother in rows:
        owner = np.repeat(np.arange(found.n_queries), found.sizes())
        for c in range(Z.shape[1]):
            terms = smoother * Z[found.indices, c]
            out[block, c] = np.bincount(owner, terms, minlength=found.n_queries)
    return out


def _multiply_transposed(rows: Iterator, Z: np.ndarray) -> np.ndarray:
    out = np.zeros_like(Z)
    for block, found, smoother in rows:
        owner = np.repeat(np.arange(block.start, block.stop), found.sizes())
        for c in range(Z.shape[1]):
            out[:, c] += np.bincount(found.indices, smoother * Z[owner, c], minlength=len(Z))
    return out


def read_numbers(
    estimator, X, y, sample_weight, groups, solver, *, accept_sparse=True
) -> tuple[TrainingTable, Any]:
    """Check the training data of a regressor; return them and the engine of their library."""
    if not is_array_api(X):
        X, y, weights, groups = checked_rows(
            estimator,
            X,
            y,
            sample_weight,
            groups,
            accept_sparse=accept_sparse,
            multi_output=True,
            y_numeric=True,
        )
        return TrainingTable(X, number_targets(y), weights, groups), estimator._engine(X)
    check_array_parameters(estimator, solver, groups)
    X = validate_array_api(estimator, X, reset=True)
    if X.shape[0] < 2:
        raise ValueError(f"Found {X.shape[0]} sample(s); at least 2 are needed.")
    X, y, weights = weighted_device_rows(X, y, sample_weight)
    Y = namespace(X).asarray(y, dtype=X.dtype, device=device_of(X))
    targets = ArrayNumbers(Y if Y.ndim == 2 else Y[:, None], Y.ndim == 2)
    return TrainingTable(X, targets, weights, None), ArrayApiEngine()


@documented
class BaseLocalRegressor(MultiOutputMixin, RegressorMixin, IntervalMixin, BaseLocal):
    """Private base of the regressors that fit around every query.

    Parameters
    ----------
    robust_iterations : int, default=0
        Number of refits in which rows with large residuals weigh less (bisquare weights); 4 is
        LOESS's "symmetric" family.
    outside : {"nearest", "nan", "prior", "raise"}, default="nearest"
        What to answer when no row lies within a fixed ``bandwidth``: reach to the d+1 nearest rows,
        NaN, the overall mean, or an error.

    Attributes
    ----------
    loo_score_ : float
        Leave-one-out mean squared error of the setting chosen, in units of the variance of y, on
        the rows it was chosen by; present when something was chosen.
    """

    estimator: Any = None
    _accepts_sparse = True

    # --- fit ---

    def _read(self, X, y, sample_weight, groups) -> tuple[TrainingTable, Any]:
        solver, sparse = self._solver(1), self._accepts_sparse
        return read_numbers(self, X, y, sample_weight, groups, solver, accept_sparse=sparse)

    def _fit_rows(self, X, y, sample_weight, groups) -> None:
        """Validate, choose what was left open, and run robust iterations."""
        self._statistics: dict[bool, SmootherStatistics] = {}
        self._settle(*self._read(X, y, sample_weight, groups))
        self._reweight()

    def _append_rows(self, X, y, sample_weight, groups) -> None:
        """Take in further rows."""
        numeric = {"multi_output": True, "y_numeric": True}
        X, y, weights, groups = checked_rows(
            self, X, y, sample_weight, groups, reset=False, **numeric
        )
        self._statistics, self._answered = {}, None
        model = self._model
        data = model.data.joined(X, number_targets(y), weights, groups)
        rule = model.rule
        if self.bandwidth is None and isinstance(self.n_neighbors, float):
            rule = self._nearest_rule(self.n_neighbors, data.total_weight)
            self.n_neighbors_ = int(rule.count)
        self._model = make_fit(data, rule, model.solver, model.alpha, self._outside(data))
        self._reweight()

    def _reweight(self) -> None:
        """Robust iterations: fit, weigh rows by the size of their residuals, fit again."""
        data = self._model.data
        for _ in range(self.robust_iterations):
            residuals = data.targets.columns - self._fitted_values()
            size = np.sqrt((residuals**2).mean(axis=1)) if residuals.shape[1] > 1 else residuals
            factor = robustness_weights(size.ravel(), data.sample_weight)
            self._model = replace(self._model, factor=factor)

    def _fitted_values(self) -> np.ndarray:
        return self._model.fitted()

    def _solver(self, degree: int) -> Any:
        return RidgeSolver(degree, self._is_relative(), n_jobs=self.n_jobs)

    def _outside(self, data) -> Any:
        prior = super()._outside(data)
        return np.full(len(prior), np.nan) if self.outside == "nan" else prior

    def _as_answers(self, values, solver, rows, table) -> tuple[np.ndarray, list]:
        return values, [None] * len(values)

    # --- queries ---

    def predict(self, X, return_std=False):
        """Predict targets.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Queries.
        return_std : bool, default=False
            Also return the standard error of each prediction.

        Returns
        -------
        y : ndarray of shape (n_queries,) or (n_queries, n_outputs)
            Predictions.
        std : ndarray of the same shape
            Standard errors, if asked for.
        """
        X = self._queries(X)
        if not return_std:
            return self._shaped(self._answers(X))
        self._check_smoother("return_std=True")
        values, norms = self._model.answers_and_norms(X)
        return self._shaped(values), self._shaped(np.sqrt(norms)[:, None] * self.statistics().sigma)

    def _answers(self, X) -> Any:
        return self._model.answers(X)

    def _check_smoother(self, what: str) -> None:
        """Refuse what linear smoothers alone can answer, and only on NumPy arrays."""
        if not self._model.solver.is_linear:
            raise ValueError(
                f"{what} needs a linear smoother, but estimator={self.estimator!r} is fitted as a "
                "black box; use estimator=None, Ridge() or LinearRegression()."
            )
        self._model.data.check_host(what)

    def statistics(self, dof: str = "auto") -> SmootherStatistics:
        """Return noise level, degrees of freedom and leverages of the fitted smoother.

        Parameters
        ----------
        dof : {"auto", "exact", "approximate"}, default="auto"
            ``"exact"`` forms the n x n residual operator, ``"approximate"`` estimates its second
            moment by 30 random probes; ``"auto"`` is exact up to 2000 rows.

        Returns
        -------
        SmootherStatistics
            With ``sigma``, ``one_delta``, ``two_delta``, ``dof``, ``trace``,
            ``equivalent_parameters``, ``leverage``, ``aicc``, ``gcv``.
        """
        check_is_fitted(self)
        if dof not in ("auto", "exact", "approximate"):
            raise ValueError(f'dof={dof!r} must be "auto", "exact" or "approximate".')
        self._check_smoother("statistics()")
        data = self._model.data
        exact = dof == "exact" or (dof == "auto" and data.n_samples <= MAX_EXACT_ROWS)
        if exact not in self._statistics:
            self._statistics[exact] = smoother_statistics(
                self._smoother_rows,
                data.targets.columns,
                data.sample_weight,
                exact=exact,
                random_state=check_random_state(0),
            )
        return self._statistics[exact]

    def _smoother_rows(self):
        for block, design, found in self._model.on_training():
            yield block, found, self._model.block_kernel(design, found)

    def predict_interval(
        self, X, coverage=0.9, *, method="conformal", kind="prediction", local=False
    ):
        """Return intervals around predictions that hold the target with the given chance.

        Parameters
        ----------
        coverage : float, default=0.9
            Chance, between 0 and 1.
        method : {"conformal", "normal"}, default="conformal"
            ``"conformal"`` takes quantiles of leave-one-out errors in units of their local mean:
            wide where errors are large, whatever their law. ``"normal"`` assumes independent normal
            noise of one variance, and linear smoothers.
        kind : {"prediction", "confidence"}, default="prediction"
            With ``method="normal"``: interval of a new observation, or of the smooth value itself.
        local : bool, default=False
            Take the conformal quantile over the rows around each query too.

        Returns
        -------
        ndarray of shape (n_queries, 2) or (n_queries, n_outputs, 2)
            Lower and upper ends.
        """
        if method not in ("conformal", "normal"):
            raise ValueError(f'method={method!r} must be "conformal" or "normal".')
        if kind not in ("prediction", "confidence"):
            raise ValueError(f'kind={kind!r} must be "prediction" or "confidence".')
        if method == "normal":
            return self._normal_interval(X, coverage, kind)
        if kind == "confidence":
            raise ValueError(
                'kind="confidence" needs method="normal": errors of held-out rows hold the noise.'
            )
        return super().predict_interval(X, coverage, local=local)

    def _normal_interval(self, X, coverage, kind) -> Any:
        X = self._queries(X)
        self._check_smoother('method="normal"')
        check_coverage(coverage)
        values, norms = self._model.answers_and_norms(X)
        statistics = self.statistics()
        variance = norms + 1.0 if kind == "prediction" else norms
        reach = stats.t.ppf(0.5 + coverage / 2.0, statistics.dof) * np.sqrt(variance)
        half = reach[:, None] * statistics.sigma
        return self._shaped(np.stack([values - half, values + half], axis=-1))

    def extrapolates(self, X):
        """Tell where a prediction leans on its neighbours harder than any training row does.

        Returns
        -------
        ndarray of bool of shape (n_queries,)
            Whether :math:`|l(q)|^2` exceeds its largest value over the training rows, or is not
            known because no row is near (``outside="nan"``).
        """
        X = self._queries(X)
        self._check_smoother("extrapolates")
        _, norms = self._model.answers_and_norms(X)
        return ~(norms <= self.statistics().largest_norm * (1.0 + 1e-9))

    def equivalent_kernel(self, X):
        """Return the weight of every training target in each prediction.

        Returns
        -------
        CSR matrix of shape (n_queries, n_samples)
            Rows l(q): the prediction is ``equivalent_kernel(X) @ y``, except where no row is near:
            those are empty. Rows of zero sample weight are not counted.
        """
        X = self._queries(X)
        self._check_smoother("equivalent_kernel")
        return self._model.kernel(X)

    def local_coef(self, X):
        """Return the slopes of the local model at each query.

        Returns
        -------
        ndarray of shape (n_queries, n_features) or (n_queries, n_outputs, n_features)
            Gradient of the local model with respect to the columns of X.
        """
        X = self._queries(X)
        if not self._model.solver.is_compiled:
            raise ValueError(
                f"local_coef needs a built-in local model, but estimator={self.estimator!r} is "
                "fitted as a black box; use estimator=None, Ridge() or LinearRegression()."
            )
        return self._shaped(self._model.slopes(X))

    def leave_one_out(self):
        """Return the prediction of every training row by a model that did not see it.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Rows of zero sample weight are not counted.
        """
        check_is_fitted(self)
        return self._shaped(self._left_out())

    def _left_out(self, rows=None) -> np.ndarray:
        return self._model.left_out(rows)
