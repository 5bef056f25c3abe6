"""The local classifier on arrays of other libraries."""

from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import device as device_of

from vicinal._base import (
    as_numpy,
    device_classes,
    encode_device_labels,
    is_array_api,
    namespace,
    take_rows,
)
from vicinal._kernels.calibration._temperature import fit_temperature
from vicinal.local._device import (
    class_values,
    indicators,
    newton_values,
    ridge_slopes_on_device,
)
from vicinal.local._selection import draw_rows


class ClassifierOnDevice:
    """Methods of ``LocalClassifier`` for device arrays."""

    # Parameters and methods of the classifier that mixes this in.
    calibration: Any
    random_state: Any
    _device: Any
    _exact_alpha: Any
    _objective: Any
    _settings: Any
    _encode: Callable
    _resolve_model: Callable
    _is_relative: Callable
    _validate_on_device: Callable
    _choose_on_device: Callable
    _map_on_device: Callable
    _map_all_left_out: Callable
    _map_left_out: Callable

    def _fit_device_rows(self, X, y, sample_weight, groups, classes) -> None:
        self._labels_on_device = is_array_api(y)
        # The classes decide which settings can be used, and those are checked before the rows.
        self.classes_ = encode_device_labels(y, X)[0] if classes is None else np.unique(classes)
        self._resolve_model()
        X, y, weights = self._validate_on_device(X, y, sample_weight, groups)
        if classes is None:
            self.classes_, self._codes = encode_device_labels(y, X)
        else:
            codes = self._encode(as_numpy(y))
            self._codes = namespace(X).asarray(codes, device=device_of(X))
        self._dtype = X.dtype
        self._choose_on_device(X, weights, self._device_criterion)
        self._calibrate_on_device()

    def _slope_targets(self, data) -> tuple[Any, float]:
        """Return indicators of the classes, and the penalty of slopes that suits them."""
        return indicators(self._codes, len(self.classes_), data.X), 1.0

    def _device_criterion(self, data, alphas, degree, rows):
        """Return evaluation, loss and total weight, as ``_criterion`` does on the host."""
        codes = self._codes
        xp = namespace(data.X)

        def evaluate(Q, indices, weights):
            return class_values(
                self._objective,
                data,
                codes,
                len(self.classes_),
                Q,
                indices,
                weights,
                alphas,
                relative=self._is_relative(),
                degree=degree,
            )

        def loss(scores, own):
            wrong = xp.astype(xp.argmax(scores, axis=1) != xp.take(codes, own), data.X.dtype)
            return wrong if data.weights is None else wrong * xp.take(data.weights, own)

        chosen = xp.asarray(rows, device=device_of(data.X))
        total = len(rows) if data.weights is None else float(xp.sum(xp.take(data.weights, chosen)))
        return evaluate, loss, total

    def _device_values(self, Q, indices, weights) -> Any:
        settings = self._settings
        return class_values(
            self._objective,
            self._device,
            self._codes,
            len(self.classes_),
            Q,
            indices,
            weights,
            [settings.alpha],
            relative=settings.relative,
            degree=settings.degree,
        )[0]

    def _device_scores(self, X) -> Any:
        return self._map_on_device(X, self._device_values)

    def _device_left_out(self) -> Any:
        return self._device_proba(self._map_all_left_out(self._device_values))

    def _device_labels(self, scores) -> Any:
        return device_classes(self.classes_, scores, on_device=self._labels_on_device)

    def _device_proba(self, scores) -> Any:
        xp = namespace(scores)
        if self._exact_alpha is not None and self._objective.solver == "logistic":
            second = 1.0 / (1.0 + xp.exp(-scores[:, 1]))
            return xp.stack([1.0 - second, second], axis=1)
        if self.temperature_ is not None:
            scores = scores / self.temperature_
            powers = xp.exp(scores - xp.max(scores, axis=1, keepdims=True))
        else:
            if self._objective.solver != "ridge":
                scores = 1.0 / (1.0 + xp.exp(-scores))
            powers = xp.maximum(scores, xp.zeros_like(scores))
        return powers / xp.sum(powers, axis=1, keepdims=True)

    def _device_slopes(self, X) -> Any:
        settings, data = self._settings, self._device

        def ridge(Q, indices, weights):
            return ridge_slopes_on_device(
                data,
                indicators(self._codes, len(self.classes_), data.X),
                Q,
                indices,
                weights,
                settings.alpha,
                relative=settings.relative,
                degree=settings.degree,
            )

        def newton(Q, indices, weights):
            labels = take_rows(self._codes, indices)
            shared = (self._objective, data, labels, len(self.classes_), Q, indices, weights)
            _, slopes = newton_values(*shared, settings.alpha, settings.relative, want_slopes=True)
            return data.pull_back(slopes)

        return self._map_on_device(X, ridge if self._objective.solver == "ridge" else newton)

    def _calibrate_on_device(self) -> None:
        """Fit the temperature on the host: leave-one-out scores of at most 3000 rows are copied."""
        self.temperature_: float | None = None
        is_sigmoid = self._exact_alpha is not None and self._objective.solver == "logistic"
        if self.calibration is None or is_sigmoid:
            return
        data = self._device
        rows = draw_rows(data.X.shape[0], self.random_state)
        scores = as_numpy(self._map_left_out(rows, self._device_values)).astype(np.float64)
        xp = namespace(data.X)
        drawn = xp.asarray(rows, device=device_of(data.X))
        weights = None if data.weights is None else as_numpy(xp.take(data.weights, drawn))
        self.temperature_ = fit_temperature(scores, as_numpy(xp.take(self._codes, drawn)), weights)
