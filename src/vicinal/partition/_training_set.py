"""Samples of a fit, with what the alternation and its choices ask of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import array_api_compat as compat
import numpy as np
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from vicinal._base import as_numpy, hold_out, namespace
from vicinal._kernels.cascade._hard import (
    assign_classes,
    assign_hyperplanes,
    assign_kmeans,
    assign_random,
    gate_problem,
    route,
)


@dataclass(frozen=True)
class TrainingSet:
    """Scaled samples, target and weights of a fit.

    ``y`` is the target as the region models see it (labels or numbers); ``codes`` are the
    positions of the labels in ``classes`` (``None`` for regression). ``first_region`` is the
    assignment that the user gave, if any. ``is_weighted`` tells whether
    the user passed weights.
    """

    X: Any
    y: Any
    weight: Any
    is_weighted: bool
    codes: Any = None
    classes: Any = None
    first_region: Any = None

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return self.X.shape[0]

    @property
    def given_weight(self) -> Any:
        """The weights, where the user passed some."""
        return self.weight if self.is_weighted else None

    def take(self, rows: np.ndarray) -> "TrainingSet":
        """Return the given rows as a training set of their own."""
        return replace(
            self,
            X=self.X[rows],
            y=self.y[rows],
            weight=self.weight[rows],
            codes=None if self.codes is None else self.codes[rows],
            first_region=None if self.first_region is None else self.first_region[rows],
        )

    def standardized(self) -> tuple["TrainingSet", StandardScaler]:
        """Return the set with standardised features, and their scaler; sparse zeros are kept."""
        scaler = StandardScaler(with_mean=not sparse.issparse(self.X))
        X = scaler.fit_transform(self.X, sample_weight=self.given_weight)
        return replace(self, X=X), scaler

    def hold_out(
        self, fraction: float, rng: np.random.RandomState
    ) -> tuple["TrainingSet", "TrainingSet"]:
        """Split off a share of the samples, none where they are too few; all classes stay."""
        n = self.n_samples
        groups = np.zeros(n, dtype=np.int64) if self.codes is None else as_numpy(self.codes)
        held = hold_out(groups, fraction, rng)
        return self.take(np.flatnonzero(~held)), self.take(np.flatnonzero(held))

    def first_regions(self, init: Any, n_regions: int, rng: np.random.RandomState) -> Any:
        """Return the region of each sample before the first sweep."""
        if self.first_region is not None:
            return self.first_region
        if init == "random":
            return assign_random(self.n_samples, n_regions, rng)
        if init == "classes":
            return assign_classes(self.codes, n_regions, rng)
        if init == "hyperplane":
            return assign_hyperplanes(self.X, self.weight, n_regions, rng)
        return assign_kmeans(self.X, self.weight, n_regions, rng)

    # --- errors ---

    def loss(self, predicted: Any) -> Any:
        """Return the loss of each prediction: wrong or right, or the squared error."""
        if self.codes is None:
            return (self.y - predicted) ** 2
        return predicted != self.y

    def average(self, loss: Any) -> float:
        """Return the weighted mean of a loss."""
        xp = namespace(self.weight)
        values = xp.astype(loss, self.weight.dtype)
        return float(xp.sum(values * self.weight) / xp.sum(self.weight))

    def error(self, cascade: Any) -> float:
        """Return the weighted mean loss of a cascade."""
        return self.average(self.loss(cascade.predict(self.X, self.y.dtype)))

    def brier_score(self, proba: Any) -> float:
        """Return the weighted mean squared distance of probabilities from the truth."""
        xp = namespace(proba)
        proba = xp.astype(proba, xp.float64)
        kinds = xp.arange(proba.shape[1], device=compat.device(proba))
        truth = xp.astype(self.codes[:, None] == kinds[None, :], xp.float64)
        return self.average(xp.sum((proba - truth) ** 2, axis=1))

    # --- arrays of the alternation ---

    def all_rows(self) -> Any:
        """Return the index of every row."""
        return namespace(self.weight).arange(self.n_samples, device=compat.device(self.weight))

    def rows_by_region(self, region: Any, n_regions: int) -> list:
        """Return the rows of each region."""
        return [np.flatnonzero(region == k) for k in range(n_regions)]

    def region_sizes(self, region: Any, n_regions: int) -> np.ndarray:
        """Return the number of rows in each region."""
        return np.bincount(region, minlength=n_regions)

    def region_losses(self, losses: Any, region: Any) -> np.ndarray:
        """Return the weighted loss of each region's model on the rows of the region."""
        xp = namespace(losses)
        kinds = xp.arange(losses.shape[0], device=compat.device(losses))
        costs = xp.astype(losses, self.weight.dtype) * self.weight
        own = xp.where(region[None, :] == kinds[:, None], costs, xp.zeros_like(costs))
        return as_numpy(xp.sum(own, axis=1))

    def gate_problem(self, own: Any, later: Any, reached: Any) -> tuple[Any, Any, Any]:
        """Return the rows that a gate learns from, its labels and their weights."""
        return gate_problem(own, later, reached, self.weight)

    def gate_cost(self, passed: Any, rows: Any, labels: Any, weights: Any) -> float:
        """Return what wrong decisions on the rows of a gate cost."""
        xp = namespace(weights)
        wrong = xp.take(passed, rows) != (labels > 0)
        return float(xp.sum(weights * xp.astype(wrong, weights.dtype)))

    def passes_on(self, gate: Any) -> Any:
        """Return where a gate passes on."""
        return np.asarray(gate.predict(self.X)) == 1

    def route(self, passed_on: Sequence) -> Any:
        """Return the region of each row from the decisions of the gates."""
        return route(namespace(passed_on[0]).stack(list(passed_on), axis=0), self.n_samples)
