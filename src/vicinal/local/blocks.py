"""Local models for training rows in blocks, used by :mod:`vicinal.distributed`."""

from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin, clone, is_classifier
from sklearn.frozen import FrozenEstimator

from vicinal._base import Blocks, Survey, rows_at, survey
from vicinal._kernels.calibration._probabilities import fit_temperature
from vicinal._kernels.linear._covariance import usable_scale
from vicinal.local._fit import location_mask as columns_mask
from vicinal.local._neighborhoods import FORESTS
from vicinal.local._rows import MAX_ROWS, draw_rows, search_metric
from vicinal.neighbors.blocks import Ball, BlockSearch, NeighborRows

__all__ = [
    "LocalFrame",
    "Standardized",
    "balanced_weights",
    "check_resolved",
    "location_mask",
]

_CALIBRATION_QUERIES = 500


class Standardized(TransformerMixin, BaseEstimator):
    """Standardisation with given mean and scale; ``fit`` does nothing."""

    def __init__(self, mean, scale):
        self.mean = mean
        self.scale = scale

    @classmethod
    def of(cls, found: Survey, columns=None) -> "Standardized":
        """Return the transformer of some columns, from a survey of all rows."""
        moments = found.moments
        mean, scale = moments.mean, usable_scale(moments.mean, moments.variance)
        return cls(mean, scale) if columns is None else cls(mean[columns], scale[columns])

    def __sklearn_clone__(self):
        return self

    def __sklearn_is_fitted__(self):
        return True

    def fit(self, X: Any, y: Any = None) -> "Standardized":
        """Return self."""
        return self

    def transform(self, X):
        """Return standardised rows."""
        return (np.asarray(X, dtype=np.float64) - self.mean) * (1.0 / self.scale)


@dataclass(frozen=True)
class _Coordinates:
    """Map from rows to the coordinates of the search."""

    columns: np.ndarray | None
    transformer: Any

    def __call__(self, X):
        X = X if self.columns is None else X[:, self.columns]
        return X if self.transformer is None else np.asarray(self.transformer.transform(X))


@dataclass(frozen=True)
class LocalFrame:
    """Local model without its training rows; those around a query are added to predict it."""

    estimator: Any  # with all parameters resolved
    classes: np.ndarray | None
    temperature: float | None
    coordinates: _Coordinates

    @classmethod
    def of(cls, estimator: Any, blocks: Blocks, *, calibrated: bool) -> tuple[Any, "LocalFrame"]:
        """Return blocks with their offsets, and the frame resolved from all rows.

        All rows determine the coordinates, the weights of classes and the temperature.
        """
        blocks, found = survey(blocks, has_classes=is_classifier(estimator))
        if estimator.n_neighbors > found.weight:
            raise ValueError(
                f"n_neighbors={estimator.n_neighbors} exceeds the {found.weight:g} samples given "
                "(counted by weight); lower n_neighbors."
            )
        model = clone(estimator).set_params(n_jobs=1, verbose=0)
        mask = location_mask(model, blocks)
        model.set_params(location_columns=mask)
        columns = None if mask is None else np.flatnonzero(mask)
        if isinstance(model.metric, str) and model.metric == "standardized":
            model.set_params(metric=Standardized.of(found, columns))
        transformer = model.metric if hasattr(model.metric, "transform") else None
        if is_classifier(model):
            model.set_params(calibration=None)
            if model.class_weight == "balanced":
                balanced = zip(found.classes, balanced_weights(found), strict=True)
                model.set_params(class_weight=dict(balanced))
        frame = cls(model, found.classes, None, _Coordinates(columns, transformer))
        if calibrated and is_classifier(estimator) and estimator.calibration is not None:
            frame = replace(frame, temperature=frame._temperature(estimator, blocks, found))
        return blocks, frame

    @property
    def search(self) -> BlockSearch:
        """How the blocks are searched for the neighbours of queries."""
        return BlockSearch(
            coordinates=self.coordinates,
            carry=("X", "y", "sample_weight"),
            count_weights=True,
            metric=search_metric(self.estimator.metric),
            metric_params=self.estimator.metric_params,
        )

    @property
    def rule(self) -> Ball:
        """Which neighbours a query needs."""
        return Ball(float(self.estimator.n_neighbors))

    def around(self, found: NeighborRows):
        """Return the model of the rows found; for their queries it equals that of all rows."""
        # partial_fit does not rescale weights that these rows have in common.
        X, y, sample_weight = found.columns
        model = clone(self.estimator)
        if self.classes is None:
            return model.partial_fit(X, y, sample_weight)
        model.partial_fit(X, y, classes=self.classes, sample_weight=sample_weight)
        model.temperature_ = self.temperature
        return model

    def _temperature(self, estimator: Any, blocks: Blocks, found: Survey) -> float | None:
        """Return the temperature that a fit in memory would find."""
        positions = draw_rows(found.n_rows, estimator.random_state, MAX_ROWS)
        rows = rows_at(blocks, positions)
        coords = self.coordinates(rows.X)
        # The row itself is left out, so its ball must hold that much more weight.
        rule = Ball(estimator.n_neighbors + max(1.0, float(rows.sample_weight.max())))
        groups = [
            slice(start, start + _CALIBRATION_QUERIES)
            for start in range(0, len(positions), _CALIBRATION_QUERIES)
        ]
        searched = self.search.search(blocks, [coords[group] for group in groups], rule)
        scores = [
            _left_out_scores(self, near, positions[group])
            for near, group in zip(searched, groups, strict=True)
        ]
        if scores[0] is None:
            return None
        codes = np.searchsorted(found.classes, np.asarray(rows.y))
        share = None if np.all(rows.sample_weight == 1.0) else rows.sample_weight
        return fit_temperature(np.concatenate(scores), codes, share)


def _left_out_scores(frame: LocalFrame, found: NeighborRows, positions: np.ndarray):
    """Return leave-one-out scores; ``None`` where the model has its own probabilities."""
    model = frame.around(found)
    if model._model.solver.link not in ("score", "margin"):
        return None
    return model.leave_one_out(np.searchsorted(found.positions, positions), method="score")


def balanced_weights(found: Survey) -> np.ndarray:
    """Return class weights that give every class the same total weight."""
    held = found.class_weights
    return held.sum() / (len(held) * held)


def location_mask(model: Any, blocks: Blocks) -> np.ndarray | None:
    """Return which columns locate a row, by position: blocks have no names."""
    if model.location_columns is None:
        return None
    names: Any = [] if blocks.feature_names is None else blocks.feature_names
    return columns_mask(model.location_columns, blocks.n_features, names)


def check_resolved(estimator: Any) -> None:
    """Refuse parameters that need other rows than the neighbours."""
    name = type(estimator).__name__
    if type(estimator).__name__ not in ("LocalClassifier", "LocalRegressor"):
        raise TypeError(f"local_predict takes a LocalClassifier or LocalRegressor, not {name}.")
    own_model = estimator.estimator is not None
    is_open = {
        "alpha": isinstance(estimator.alpha, str) and not own_model,
        "degree": isinstance(estimator.degree, str) and not own_model,
    }
    for parameter, open_ in is_open.items():
        if open_:
            raise ValueError(
                f'{parameter}="auto" cannot be selected from blocks; fit {name} to a sample in '
                f"memory and pass its {parameter}_."
            )
    if estimator.bandwidth is not None or not isinstance(estimator.n_neighbors, Integral):
        raise ValueError(
            f"n_neighbors={estimator.n_neighbors!r} and bandwidth={estimator.bandwidth!r} are not "
            "supported for blocks; use an integer n_neighbors and bandwidth=None."
        )
    if getattr(estimator, "robust_iterations", 0):
        raise ValueError(
            f"robust_iterations={estimator.robust_iterations} is not supported for blocks; use 0."
        )
    metric = estimator.metric
    learned = ("ranked", "within_class", "gradient", *FORESTS)
    if isinstance(metric, str) and metric in learned:
        raise ValueError(
            f'metric="{metric}" is learned from all rows; fit a transformer to a sample and pass '
            'it in a FrozenEstimator, or use "standardized" or a metric of scikit-learn.'
        )
    if hasattr(metric, "transform") and not isinstance(metric, (FrozenEstimator, Standardized)):
        raise ValueError(
            f"metric={metric!r} cannot be fitted to blocks; fit it to a sample and wrap it in "
            "sklearn.frozen.FrozenEstimator."
        )
