"""What the local regressors share: targets, prediction, linear-smoother inference."""

from copy import copy
from typing import Any

import numpy as np
from array_api_compat import device as device_of
from scipy import stats
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from vicinal._base import is_array_api, namespace, positive_rows, row_blocks
from vicinal._base._compat import num_samples
from vicinal._kernels.local._smoothing import robustness_weights
from vicinal.local._anchors import ridge_planes
from vicinal.local._base import BaseLocal
from vicinal.local._data import smoothers
from vicinal.local._device import ridge_slopes_on_device, ridge_values
from vicinal.local._fits import local_slopes, smooth
from vicinal.local._generic import generic_predictions
from vicinal.local._inference import (
    MAX_EXACT_ROWS,
    SmootherStatistics,
    smoother_statistics,
    squared_norms,
)
from vicinal.local._line import Line
from vicinal.local._neighborhood import Neighborhoods, take_queries
from vicinal.local._stacking import NumberJudge


class BaseLocalRegressor(MultiOutputMixin, RegressorMixin, BaseLocal):
    """Private base of local regressors."""

    # The estimator fitted around every query, when it is not one of the compiled models.
    _generic: Any = None
    _line: Any = None

    # --- fit ---

    def _fit_rows(self, X, y, sample_weight, groups):
        """Validate, keep the targets and settle everything that depends on the data."""
        if is_array_api(X):
            self._fit_device_rows(X, y, sample_weight, groups)
            return
        X, y, weights, groups = self._validate_training(
            X, y, sample_weight, groups, multi_output=True, y_numeric=True
        )
        self._is_multi_output = y.ndim == 2
        self._dtype = X.dtype
        Y = np.require(np.reshape(y, (len(y), -1)), np.float64, ["C", "W"])
        weights, X, Y, groups = positive_rows(weights, X, Y, groups, compact=True)
        self._targets = Y
        self._statistics_cache: dict[bool, SmootherStatistics] = {}
        self._stack = None
        self._check_anchors(X)
        targets = Y if self._is_multi_output else Y[:, 0]
        if self._climbs(X):
            self._climb(X, Y, None, targets, weights, groups)
        else:
            self._choose(X, None, targets, weights, groups)
        if self._stack is not None:
            return
        self._prepare_line()
        self._reweight()
        if self.anchors is not None:
            self._drop_to_anchors(X, None, targets, weights, groups, hold_out=False)
            self._targets, self._line = self.anchors_.values, None

    # --- answers of every candidate ---

    def _held_out_arrays(self, X, y, sample_weight, groups) -> tuple:
        """Validate and keep what candidates need; return (X, codes, targets, weights, groups)."""
        self._resolve_estimator()
        X, y, weights, groups = self._validate_training(
            X, y, sample_weight, groups, multi_output=True, y_numeric=True
        )
        weights = self._positive_weights(weights)
        self._targets = np.require(np.reshape(y, (len(y), -1)), np.float64, ["C", "W"])
        return X, None, self._targets if y.ndim == 2 else self._targets[:, 0], weights, groups

    def _n_outputs(self) -> int:
        return self._targets.shape[1]

    def _as_answers(self, values, rows, weights) -> np.ndarray:
        return values

    def _prior(self, weights) -> np.ndarray:
        return np.average(self._targets, axis=0, weights=weights)

    # --- rungs ---

    def _judge(self, rows, weights) -> NumberJudge:
        Y = self._targets
        mean = np.average(Y, axis=0, weights=weights)
        scale = np.average((Y - mean) ** 2, axis=0, weights=weights)
        return NumberJudge(
            Y[rows], None if weights is None else weights[rows], np.where(scale > 0, scale, 1.0)
        )

    def _note_held_out(self, rows, predictions, share) -> None:
        """Keep the noise of a stack: trees fit their own rows too well to tell it from those."""
        self._held_out_sigma = np.sqrt(share @ (self._targets[rows] - predictions) ** 2)

    def _adopt(self, rung) -> None:
        """Give a rung what it shares with the whole."""
        for name in ("_targets", "_dtype", "_is_multi_output", "n_features_in_"):
            setattr(rung, name, getattr(self, name))
        if hasattr(self, "feature_names_in_"):
            rung.feature_names_in_ = self.feature_names_in_
        rung._statistics_cache = {}
        rung._resolve_estimator()

    def _raw_scores(self, X) -> np.ndarray:
        return self._predict_values(X)[0]

    def _raw_slopes(self, X) -> np.ndarray:
        parts = [
            self._slopes(design, found, self._targets) for _, design, found in self._localized(X)
        ]
        return self._pull_back(np.concatenate(parts), X)

    def _raw_left_out(self) -> np.ndarray:
        out = np.empty_like(self._targets)
        rows = np.arange(self._data.n_samples)
        for block, design, found in self._localized_training(rows, leave_out=True):
            out[block] = self._evaluate(design, found)
        return out

    def _fit_device_rows(self, X, y, sample_weight, groups):
        X, y, weights = self._validate_on_device(X, y, sample_weight, groups)
        xp = namespace(X)
        self._is_multi_output = y.ndim == 2
        self._dtype = X.dtype
        Y = xp.asarray(y, dtype=X.dtype, device=device_of(X))
        self._targets = Y if self._is_multi_output else Y[:, None]
        self._choose_on_device(X, weights, self._device_criterion)

    def _slope_targets(self, data) -> tuple[Any, float]:
        """Return targets in units of their spread, and the penalty of slopes that suits them."""
        Y = self._targets
        xp = namespace(Y)
        share = xp.ones_like(Y[:, 0]) if data.weights is None else data.weights
        share = share / xp.sum(share)
        centred = Y - xp.sum(share[:, None] * Y, axis=0)
        spread = xp.sqrt(xp.sum(share[:, None] * centred * centred, axis=0))
        return centred / xp.where(spread > 0.0, spread, xp.ones_like(spread)), 0.1

    def _device_criterion(self, data, alphas, degree, rows):
        """Return evaluation, loss and total weight, as ``_criterion`` does on the host."""
        Y = self._targets
        xp = namespace(Y)
        share = xp.ones_like(Y[:, 0]) if data.weights is None else data.weights
        share = share / xp.sum(share)
        mean = xp.sum(share[:, None] * Y, axis=0)
        scale = xp.sum(share[:, None] * (Y - mean) ** 2, axis=0)
        scale = xp.where(scale > 0.0, scale, xp.ones_like(scale))

        def evaluate(Q, indices, weights):
            return ridge_values(
                data, Y, Q, indices, weights, alphas, relative=self._is_relative(), degree=degree
            )

        def loss(predictions, own):
            errors = xp.mean((predictions - xp.take(Y, own, axis=0)) ** 2 / scale, axis=1)
            return errors if data.weights is None else errors * xp.take(data.weights, own)

        chosen = xp.asarray(rows, device=device_of(Y))
        total = len(rows) if data.weights is None else float(xp.sum(xp.take(data.weights, chosen)))
        return evaluate, loss, total

    def _predict_on_device(self, X):
        values = self._map_on_device(X, self._device_values)
        return values if self._is_multi_output else values[:, 0]

    def _device_values(self, Q, indices, weights):
        settings = self._settings
        return ridge_values(
            self._device,
            self._targets,
            Q,
            indices,
            weights,
            [settings.alpha],
            relative=settings.relative,
            degree=settings.degree,
        )[0]

    def _append_rows(self, X, y, sample_weight, groups):
        """Validate further rows and take them in."""
        X, y, weights, groups = self._validate_training(
            X,
            y,
            sample_weight,
            groups,
            reset=False,
            min_samples=1,
            multi_output=True,
            y_numeric=True,
        )
        Y = np.require(np.reshape(y, (len(y), -1)), np.float64, ["C", "W"])
        if Y.shape[1] != self._targets.shape[1]:
            raise ValueError(
                f"y has {Y.shape[1]} outputs, but earlier rows had {self._targets.shape[1]}."
            )
        weights, X, Y, groups = positive_rows(weights, X, Y, groups, compact=True)
        joined = np.vstack([self._targets, Y])
        self._statistics_cache = {}
        if self._stack is not None:
            self._extend_stack(X, Y, weights, groups, joined)
            return
        self._add_rows(X, weights, groups)
        self._targets = joined
        self._factor = None
        self._prepare_line()
        self._reweight()

    def _extend_stack(self, X, Y, weights, groups, joined) -> None:
        """Give every rung the further rows; global models are fitted again."""

        def append(rung):
            rung = copy(rung)
            rung._add_rows(X, weights, groups)
            rung._targets = joined
            rung._statistics_cache = {}
            return rung

        self._stack = self._stack.joined(append, X, Y, None, weights)
        self._targets = joined
        self.rungs_ = self._stack.rungs

    def _prepare_line(self) -> None:
        self._line = None
        if self._generic is None and Line.applies(self._data, self._settings):
            self._line = Line.from_data(self._data, self._targets)

    def _reweight(self) -> None:
        """Robust iterations: fit, weigh rows by the size of their residuals, fit again."""
        for _ in range(self.robust_iterations):
            residuals = self._targets - self._fitted_values()
            size = np.sqrt((residuals**2).mean(axis=1)) if residuals.shape[1] > 1 else residuals
            self._factor = robustness_weights(size.ravel(), self._data.sample_weight)

    def _fitted_values(self) -> np.ndarray:
        if self._line is not None:
            return self._line_predictions(self._data.rows, with_norms=False)[0]
        out = np.empty_like(self._targets)
        rows = np.arange(self._data.n_samples)
        for block, design, found in self._localized_training(rows, leave_out=False):
            out[block] = self._evaluate(design, found)
        return out

    def _criterion(self, data, alphas, degree):
        """Squared error of held-out targets, in units of each output's variance."""
        Y = self._targets
        mean = np.average(Y, axis=0, weights=data.sample_weight)
        scale = np.average((Y - mean) ** 2, axis=0, weights=data.sample_weight)
        scale = np.where(scale > 0, scale, 1.0)

        def evaluate(design, found):
            flat = smoothers(
                data,
                design,
                found,
                alphas,
                relative=self._is_relative(),
                degree=degree,
                n_jobs=self.n_jobs,
            )
            return np.stack([smooth(found, smoother, Y) for smoother in flat])

        def loss(predictions, rows):
            errors = ((predictions - Y[rows]) ** 2 / scale).mean(axis=1)
            return errors if data.sample_weight is None else errors * data.sample_weight[rows]

        return evaluate, loss

    def _can_refit(self) -> bool:
        return True

    def _target_columns(self, rows) -> np.ndarray:
        return self._targets[rows]

    def _tangents(self, data, origins, found: Neighborhoods, alphas):
        """Yield values and slopes of the models at the origins, for each penalty."""
        mean = np.average(self._targets, axis=0, weights=data.sample_weight)
        near = np.flatnonzero(found.sizes() > 0)
        some = take_queries(found, near)
        for alpha in alphas:
            values = np.tile(mean, (found.n_queries, 1))
            slopes = np.zeros((found.n_queries, len(mean), origins.shape[1]))
            values[near], slopes[near] = ridge_planes(
                data.rows,
                self._targets,
                origins[near],
                some,
                alpha,
                relative=self._is_relative(),
                degree=self._settings.degree,
                n_jobs=self.n_jobs,
            )
            yield values, slopes

    # --- predict ---

    def _evaluate(self, design, found: Neighborhoods) -> np.ndarray:
        """Return the predictions of a block of neighbourhoods, (n_queries, n_outputs)."""
        if self.anchors_ is not None:
            return self.anchors_.predict(design, found, self.n_jobs)
        if self._generic is not None:
            return generic_predictions(
                self._generic,
                self._data.rows,
                self._targets,
                design,
                found,
                weighted=self._generic_weighted,
                n_jobs=self.n_jobs,
            )
        return smooth(found, self._smoother(design, found), self._targets)

    def _predict_values(self, X, *, with_norms: bool = False):
        """Return predictions and, if asked, |l(q)|^2 of every query."""
        self._check_on_host("This method")
        n_queries = num_samples(X)
        if self._stack is not None:
            return self._stacked_values(X, with_norms)
        out = np.empty((n_queries, self._targets.shape[1]))
        norms = np.empty(n_queries if with_norms else 0)
        if self._has_global_model() and not with_norms:
            return self._global_predictions(X), norms
        if self._line is not None and not self.clip:
            return self._line_predictions(self._locate(X)[1], with_norms=with_norms)
        for block, design, found in self._localized(X):
            if with_norms:
                smoother = self._smoother(design, found)
                out[block] = smooth(found, smoother, self._targets)
                norms[block] = squared_norms(found, smoother, self._data.sample_weight)
            else:
                out[block] = self._evaluate(design, found)
            if self.clip:
                out[block] = _clip_to_neighbors(out[block], found, self._targets)
            empty = np.flatnonzero(found.sizes() == 0)
            if empty.size:
                out[block.start + empty] = self._answer_outside()
        return out, norms

    def _stacked_values(self, X, with_norms: bool):
        values = self._stack.scores(X)
        norms = np.empty(len(values) if with_norms else 0)
        if with_norms:
            smoothers = self._stack.smoothers()
            for block in row_blocks(len(values), 24 * len(self._targets)):
                norms[block] = _row_norms(smoothers.kernel(X[block]), smoothers.sample_weight)
        return values, norms

    def _line_predictions(self, design, *, with_norms: bool):
        """Predict through sorted points; the few undetermined queries go the general way."""
        values, _, norms, solved = self._line.evaluate(
            np.ascontiguousarray(design[:, 0]),
            self._settings,
            self._factor,
            want_norms=with_norms,
            n_jobs=self.n_jobs,
        )
        rest = np.flatnonzero(~solved)
        localizer = self._data.localizer(self._settings.rule, self._factor)
        for block in self._query_blocks(len(rest), localizer):
            some = design[rest[block]]
            found = localizer.neighborhoods(some)
            smoother = self._smoother(some, found)
            values[rest[block]] = smooth(found, smoother, self._targets)
            norms[rest[block]] = squared_norms(found, smoother, None)
        return values, norms

    def _answer_outside(self) -> np.ndarray:
        if self.outside == "prior":
            return np.average(self._targets, axis=0, weights=self._data.sample_weight)
        return np.full(self._targets.shape[1], np.nan)

    def _has_global_model(self) -> bool:
        return self._settings.is_global and self._settings.degree <= 1 and self._generic is None

    def _global_predictions(self, X) -> np.ndarray:
        """Every row has the same say for every query, so that one model answers all."""
        data, settings = self._data, self._settings
        if settings.degree == 0:
            return np.repeat(
                np.average(self._targets, axis=0, weights=self._global_weights())[None],
                num_samples(X),
                axis=0,
            )
        weights = self._global_weights()
        centre = np.asarray(weights @ data.rows / weights.sum()).reshape(1, -1)
        everybody = Neighborhoods(
            np.array([0, data.n_samples], dtype=np.int64),
            np.arange(data.n_samples, dtype=np.int64),
            weights,
            np.zeros(data.n_samples),
            np.full(1, np.inf),
        )
        slopes = local_slopes(
            data.rows,
            self._targets,
            centre,
            everybody,
            settings.alpha,
            relative=settings.relative,
            degree=1,
            n_jobs=1,
        )[0]
        _, design = self._locate(X)
        level = np.average(self._targets, axis=0, weights=weights)
        return level + (design - centre) @ slopes.T

    def _global_weights(self) -> np.ndarray:
        weights = self._data.sample_weight
        weights = np.ones(self._data.n_samples) if weights is None else weights
        return weights if self._factor is None else weights * self._factor

    def _shape(self, values: np.ndarray) -> np.ndarray:
        """Drop the output axis of a single target and restore the precision of the input."""
        values = values if self._is_multi_output else values[:, 0]
        return values.astype(self._dtype, copy=False)

    # --- inference ---

    def _check_linear_smoother(self, what: str) -> None:
        if self._generic is not None:
            raise ValueError(
                f"{what} needs a linear smoother, but estimator={self._generic!r} is fitted as a "
                "black box; use estimator=None, Ridge() or LinearRegression()."
            )

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
        self._check_linear_smoother("statistics()")
        self._check_on_host("statistics()")
        self._check_rows("statistics()")
        exact = dof == "exact" or (dof == "auto" and len(self._targets) <= MAX_EXACT_ROWS)
        if exact not in self._statistics_cache:
            self._statistics_cache[exact] = smoother_statistics(
                self._smoother_rows,
                self._targets,
                self._stack.sample_weight if self._stack else self._data.sample_weight,
                exact=exact,
                random_state=check_random_state(0),
            )
        return self._statistics_cache[exact]

    def _smoother_rows(self):
        if self._stack is not None:
            yield from self._stacked_smoother_rows()
            return
        rows = np.arange(self._data.n_samples)
        for block, design, found in self._localized_training(rows, leave_out=False):
            yield block, found, self._smoother(design, found)

    def _stacked_smoother_rows(self):
        smoothers = self._stack.smoothers()
        X = smoothers.X
        for block in row_blocks(len(X), 24 * len(X)):
            kernel = smoothers.kernel(X[block])
            none = np.empty(0)
            yield block, Neighborhoods(kernel.indptr, kernel.indices, none, none, none), kernel.data

    def _predict_with_std(self, X):
        self._check_linear_smoother("return_std=True")
        values, norms = self._predict_values(X, with_norms=True)
        sigma = self.statistics().sigma if self._stack is None else self._held_out_sigma
        std = np.sqrt(norms)[:, None] * sigma
        return self._shape(values), self._shape(std)

    def predict_interval(self, X, level=0.95, *, kind="prediction"):
        """Return lower and upper bounds around each prediction.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Queries.
        level : float, default=0.95
            Coverage under independent normal noise of constant variance.
        kind : {"prediction", "confidence"}, default="prediction"
            Interval of a new observation, or of the smooth value itself.

        Returns
        -------
        ndarray of shape (n_queries, 2) or (n_queries, n_outputs, 2)
            Bounds.
        """
        X = self._validate_queries(X)
        self._check_linear_smoother("predict_interval")
        if not 0.0 < level < 1.0:
            raise ValueError(f"level={level!r} must lie strictly between 0 and 1.")
        if kind not in ("prediction", "confidence"):
            raise ValueError(f'kind={kind!r} must be "prediction" or "confidence".')
        if self._stack is not None:
            values, half = self._stacked_reach(X, level, kind)
        else:
            values, norms = self._predict_values(X, with_norms=True)
            statistics = self.statistics()
            variance = norms + 1.0 if kind == "prediction" else norms
            reach = stats.t.ppf(0.5 + level / 2.0, statistics.dof) * np.sqrt(variance)
            half = reach[:, None] * statistics.sigma
        bounds = np.stack([values - half, values + half], axis=-1).astype(self._dtype, copy=False)
        return bounds if self._is_multi_output else bounds[:, 0]

    def _stacked_reach(self, X, level, kind):
        """Return predictions and half the width of their intervals.

        The noise of rows that were held out holds the error of the prediction already.
        """
        values, norms = self._predict_values(X, with_norms=kind == "confidence")
        share = np.sqrt(norms)[:, None] if kind == "confidence" else np.ones((len(values), 1))
        reach = stats.t.ppf(0.5 + level / 2.0, len(self._targets) - 1)
        return values, reach * share * self._held_out_sigma

    def extrapolates(self, X):
        """Tell where a prediction leans on its neighbours harder than any training row does.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Queries.

        Returns
        -------
        ndarray of bool of shape (n_queries,)
            Whether :math:`|l(q)|^2` exceeds its largest value over the training rows.
        """
        X = self._validate_queries(X)
        self._check_linear_smoother("extrapolates")
        _, norms = self._predict_values(X, with_norms=True)
        return norms > self.statistics().largest_norm * (1.0 + 1e-9)

    def equivalent_kernel(self, X):
        """Return the weight of every training target in each prediction.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Queries.

        Returns
        -------
        CSR matrix of shape (n_queries, n_samples)
            Rows l(q): the prediction is ``equivalent_kernel(X) @ y``. Rows of zero sample weight
            are not counted.
        """
        X = self._validate_queries(X)
        self._check_linear_smoother("equivalent_kernel")
        return self._raw_kernel(X) if self._stack is None else self._stack.kernel(X)

    def local_coef(self, X):
        """Return the slopes of the local model at each query.

        Parameters
        ----------
        X : array-like of shape (n_queries, n_features)
            Queries.

        Returns
        -------
        ndarray of shape (n_queries, n_features) or (n_queries, n_outputs, n_features)
            Gradient of the local model with respect to the columns of X.
        """
        X = self._validate_queries(X)
        self._check_linear_smoother("local_coef")
        if self._device is not None:
            return self._slopes_on_device(X)
        slopes = self._raw_slopes(X) if self._stack is None else self._stack.slopes(X)
        slopes = slopes.astype(self._dtype, copy=False)
        return slopes if self._is_multi_output else slopes[:, 0]

    def _slopes_on_device(self, X):
        settings = self._settings
        slopes = self._map_on_device(
            X,
            lambda Q, indices, weights: ridge_slopes_on_device(
                self._device,
                self._targets,
                Q,
                indices,
                weights,
                settings.alpha,
                relative=settings.relative,
                degree=settings.degree,
            ),
        )
        return slopes if self._is_multi_output else slopes[:, 0, :]

    def leave_one_out(self):
        """Return the prediction of every training row by a model that did not see it.

        Returns
        -------
        ndarray of shape (n_samples,) or (n_samples, n_outputs)
            Rows of zero sample weight are not counted.
        """
        check_is_fitted(self)
        if self._device is not None:
            values = self._map_all_left_out(self._device_values)
            return values if self._is_multi_output else values[:, 0]
        self._check_rows("leave_one_out")
        return self._shape(self._raw_left_out() if self._stack is None else self._stack.left_out())


def _row_norms(kernel, weights) -> np.ndarray:
    """Return |l(q)|^2 of the rows of a stacked equivalent kernel."""
    squares = kernel.multiply(kernel)
    if weights is None:
        return np.asarray(squares.sum(axis=1)).ravel()
    return np.asarray(squares @ (1.0 / weights)).ravel()


def _clip_to_neighbors(values, found: Neighborhoods, targets) -> np.ndarray:
    """Bound predictions by the range of the neighbours' targets."""
    occupied = np.flatnonzero(found.sizes() > 0)
    if occupied.size == 0:
        return values
    starts = found.indptr[occupied]
    values = values.copy()
    for c in range(targets.shape[1]):
        flat = targets[found.indices, c]
        low = np.minimum.reduceat(flat, starts)
        high = np.maximum.reduceat(flat, starts)
        values[occupied, c] = np.clip(values[occupied, c], low, high)
    return values
