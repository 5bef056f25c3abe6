"""What the classifier and the regressor share: starts, selection, routing, reports."""

import warnings
from abc import ABC, abstractmethod
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state, get_tags
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from vicinal._base import (
    as_numpy,
    check_magnitude,
    check_same_library,
    documented,
    draw_seeds,
    is_array_api,
    namespace,
    parallel_map,
    positive_rows,
    validate_array_api,
)
from vicinal._base._compat import Interval, StrOptions
from vicinal._base._explanation import ExplainRowMixin, ExplanationSection
from vicinal._conformal import FoldedRowsMixin
from vicinal.partition._array_engine import ArrayEngine, HardStart
from vicinal.partition._cascade import Cascade
from vicinal.partition._device_training_set import DeviceLDALearner, DeviceTrainingSet
from vicinal.partition._explain import gate_section, region_coefficients
from vicinal.partition._learners import EstimatorLearner
from vicinal.partition._linear_learners import fast_learner
from vicinal.partition._scaling import scale_rows
from vicinal.partition._training_set import TrainingSet

# Candidates of n_regions="auto".
_AUTO_REGIONS = (1, 2, 5, 15)
# Sweeps of a start for max_iter=None.
_MAX_SWEEPS = 8
# Starts and sweeps that are enough to compare two numbers of regions.
_AUTO_STARTS, _AUTO_SWEEPS = 4, 6


@documented
class BaseSpacePartitioning(FoldedRowsMixin, ExplainRowMixin, BaseEstimator, ABC):
    """Fit cascades from several starts and keep the best one, or all of them.

    Parameters
    ----------
    n_regions : int or "auto", default="auto"
        Number of regions to begin with; fewer may remain. ``"auto"`` compares 1, 2, 5 and 15 on a
        held-out part of the training data, then fits to all of it; it takes 1 where there are too
        few samples to hold any out.
    n_init : int, default=10
        Number of starts. One region needs none and takes one.
    n_jobs : int, default=None
        Starts at once, through joblib; ``None`` is one, unless ``joblib.parallel_config`` says
        otherwise. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of starts and learners.
    verbose : int, default=0
        Whether progress over the starts is shown.

    Attributes
    ----------
    reject_estimators_ : list of length `n_regions_` - 1
        Gates of the best start; they predict 1 for "pass on".
    n_regions_ : int
        Number of regions of the best start.
    converged_ : bool
        Whether the best start stopped by itself.
    scaler_ : StandardScaler or None
        The scaling of the features.

    References
    ----------
    .. [1] J. Wang and V. Saligrama, "Local Supervised Learning through Space Partitioning",
       Advances in Neural Information Processing Systems 25, 2012.
    """

    # An empty array that tells library and device of the training rows; None for NumPy.
    _reference: Any = None
    # Whether many regions are not tried once fewer have made it worse: they take long to fit.
    _gives_up = True

    _parameter_constraints: dict = {
        "n_regions": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "monotone": ["boolean"],
        "keep": [StrOptions({"best", "last"})],
        "selection": [StrOptions({"train", "validation"})],
        "combine": [StrOptions({"best", "average"})],
        "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
        "prune": ["boolean"],
        "scale": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    # --- what the two differ in ---

    @abstractmethod
    def _region_estimator(self) -> Any:
        """Return the estimator of the regions."""

    @abstractmethod
    def _reject_estimator(self) -> Any:
        """Return the estimator of the gates."""

    @abstractmethod
    def _combined_loss(self, cascades: list[Cascade], data: TrainingSet) -> float:
        """Return the weighted loss of what the given cascades predict together."""

    @abstractmethod
    def _beside_others(self, path: ExplanationSection, X: Any) -> ExplanationSection:
        """Add to the path through the best cascade what the others say."""

    # --- fitting ---

    def _fit_cascades(self, data: TrainingSet) -> None:
        """Scale, choose the number of regions, run all starts and store what is kept."""
        rng = check_random_state(self.random_state)
        data = self._scaled(data)
        n_regions = self._resolve_n_regions(data, rng)
        train, validation = data, None
        if self.selection == "validation" and n_regions > 1:
            train, validation = data.hold_out(self.validation_fraction, rng)
            if not validation.n_samples:
                raise ValueError(
                    f"validation_fraction={self.validation_fraction} leaves no validation sample "
                    f"out of the {data.n_samples} given; raise it, or use selection='train'."
                )
        cascades = self._run_starts(train, validation, n_regions, self.n_init, rng)
        self._warn_if_not_converged(cascades)
        self._store(cascades)

    def _training_set(self, X, y, sample_weight) -> TrainingSet:
        """Gather the rows that weigh something."""
        rows = X, y, self._first_region(X.shape[0])
        weight, X, y, first_region = positive_rows(sample_weight, *rows)
        return TrainingSet(X, y, weight, sample_weight is not None, first_region=first_region)

    def _first_region(self, n_samples: int) -> np.ndarray | None:
        """Return the assignment that the user gave as ``init``, checked."""
        if isinstance(self.init, str):
            return None
        region = as_numpy(self.init)
        if self.n_regions == "auto":
            raise ValueError(
                "init is an array of regions, which needs their number; give n_regions an integer."
            )
        if region.shape != (n_samples,) or region.dtype.kind not in "iu":
            raise ValueError(
                f"init must be a named start or an integer array of shape ({n_samples},), one "
                f"region per sample; got {region.dtype} of shape {region.shape}."
            )
        if region.min() < 0 or region.max() >= self.n_regions:
            raise ValueError(
                f"init names regions from {region.min()} to {region.max()}; with "
                f"n_regions={self.n_regions} they must lie in [0, {self.n_regions - 1}]."
            )
        return region.astype(np.int64)

    def _scaled(self, data: TrainingSet) -> TrainingSet:
        """Standardise the features; sparse ones keep their zeros."""
        self.scaler_ = None
        if self.scale:
            data, self.scaler_ = data.standardized()
        return data

    def _resolve_n_regions(self, data: TrainingSet, rng: np.random.RandomState) -> int:
        """Return the number of regions; "auto" compares candidates on rows held out."""
        if self.n_regions == "auto":
            return self._choose_n_regions(data, rng)
        if self.n_regions > data.n_samples:
            warnings.warn(
                f"n_regions={self.n_regions} exceeds the {data.n_samples} samples given; "
                f"{data.n_samples} regions are used. Lower n_regions.",
                UserWarning,
                stacklevel=5,
            )
            return data.n_samples
        return self.n_regions

    def _choose_n_regions(self, data: TrainingSet, rng: np.random.RandomState) -> int:
        self.n_regions_errors_: dict[int, float] = {}
        train, validation = data.hold_out(self.validation_fraction, rng)
        if not validation.n_samples:
            return 1
        for n_regions in _AUTO_REGIONS:
            tried = list(self.n_regions_errors_.values())
            if n_regions > train.n_samples or (self._gives_up and _gets_worse(tried)):
                break
            inner = validation if self.selection == "validation" and n_regions > 1 else None
            n_init = min(self.n_init, _AUTO_STARTS)
            cascades = self._run_starts(
                train, inner, n_regions, n_init, rng, max_sweeps=_AUTO_SWEEPS
            )
            if self.combine == "best":
                cascades = cascades[:1]
            self.n_regions_errors_[n_regions] = self._combined_loss(cascades, validation)
        # The first of equal errors, that is the fewest regions.
        return min(self.n_regions_errors_, key=self.n_regions_errors_.__getitem__)

    def _run_starts(
        self,
        data: TrainingSet,
        validation: TrainingSet | None,
        n_regions: int,
        n_init: int,
        rng: np.random.RandomState,
        max_sweeps: int | None = None,
    ) -> list[Cascade]:
        """Fit one cascade per start and return them, the best first."""
        if n_regions == 1:
            return [self._fit_single(data, rng)]
        if data.first_region is not None:
            n_init = 1
        start, shared_memory = self._start_function(data, validation, n_regions, max_sweeps)
        # One BLAS thread per start: starts are the unit of parallel work, and the last bits of a
        # product must not depend on how many run beside it.
        with threadpool_limits(1, user_api="blas"):
            cascades = parallel_map(
                start,
                [(seed,) for seed in draw_seeds(rng, n_init)],
                n_jobs=self.n_jobs,
                prefer="threads" if shared_memory else None,
                label=type(self).__name__,
                verbose=self.verbose,
            )
        return sorted(cascades, key=lambda cascade: cascade.selection_error)

    def _start_function(self, data, validation, n_regions, max_sweeps=None):
        """Return the function that fits one start, and whether starts may share a process."""
        region_learner = make_learner(self._region_estimator(), data, "region_estimator")
        gate_learner = make_learner(self._reject_estimator(), data, "reject_estimator")
        engine = ArrayEngine(
            data, region_learner, gate_learner, monotone=self.monotone, validation=validation
        )
        max_iter = self._sweep_limit(max_sweeps)
        start = HardStart(engine, self.init, n_regions, max_iter, self.keep, self.prune)
        shared = not isinstance(region_learner, EstimatorLearner)
        return start, shared and not isinstance(gate_learner, EstimatorLearner)

    def _sweep_limit(self, max_sweeps: int | None) -> int:
        limit = _MAX_SWEEPS if self.max_iter is None else self.max_iter
        return limit if max_sweeps is None else min(limit, max_sweeps)

    def _fit_single(self, data: TrainingSet, rng: np.random.RandomState) -> Cascade:
        """One region is the plain estimator, with the seed that the user gave."""
        seed = self.random_state if isinstance(self.random_state, Integral) else _draw(rng)
        if isinstance(data, DeviceTrainingSet):
            learner: Any = DeviceLDALearner(self._region_estimator())
        else:
            learner = EstimatorLearner(self._region_estimator())
            learner.check_weights(data, "region_estimator")
        model = learner.fit_region(data, data.all_rows(), int(seed))
        error = data.average(learner.losses([model], data)[0, :])
        return Cascade.single(model, error, data.n_samples)

    def _warn_if_not_converged(self, cascades: list[Cascade]) -> None:
        n_open = sum(not cascade.converged for cascade in cascades)
        if self.monotone and n_open:
            warnings.warn(
                f"{n_open} of {len(cascades)} starts did not settle within "
                f"{max(cascade.n_iter for cascade in cascades)} sweeps; raise max_iter.",
                ConvergenceWarning,
                stacklevel=5,
            )

    def _fold_model(self):
        # First regions were given for all rows, and a fold has fewer.
        model = super()._fold_model()
        return model if isinstance(self.init, str) else model.set_params(init="kmeans")

    def _store(self, cascades: list[Cascade]) -> None:
        best = cascades[0]
        self.restarts_ = cascades if self.combine == "average" else [best]
        self.start_errors_ = np.array([cascade.selection_error for cascade in cascades])
        self.region_estimators_ = best.regions
        self.reject_estimators_ = best.gates
        self.n_regions_ = best.n_regions
        self.n_iter_ = best.n_iter
        self.converged_ = best.converged
        self.train_error_ = best.train_error
        self.training_history_ = best.history

    # --- using ---

    def _prepared(self, X: Any) -> Any:
        """Validate and scale samples given after fit."""
        check_is_fitted(self)
        check_magnitude("X", X)
        if self._reference is not None:
            check_same_library(self._reference, X)
            X = validate_array_api(self, X, reset=False)
        else:
            options = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}
            X = validate_data(self, X, reset=False, **options)
        return scale_rows(self.scaler_, X)

    def apply(self, X):
        """Return the region that each sample falls in.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Queries.

        Returns
        -------
        region : ndarray of int of shape (n_samples,) or (n_samples, n_init)
            Number of the region, from 0; with ``combine="average"`` one column per start, in the
            order of ``restarts_``.
        """
        X = self._prepared(X)
        regions = [cascade.apply(X) for cascade in self.restarts_]
        if self.combine == "best":
            return regions[0]
        return (namespace(X) if is_array_api(X) else np).stack(regions, axis=1)

    def decision_path(self, X):
        """Return the scores of the gates of the best cascade.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Queries.

        Returns
        -------
        scores : ndarray of shape (n_samples, `n_regions_` - 1)
            Score of every gate; a sample leaves stage ``k`` for the next one where the score is
            above 0. Gates after the sample's own region are evaluated too, but play no part.
        """
        X = self._prepared(X)
        return self.restarts_[0].gate_scores(X)

    def _sections(self, X, columns):
        best, X = self.restarts_[0], self._prepared(X)
        region = int(best.apply(X)[0])
        path = gate_section(best, X, region)
        if len(self.restarts_) > 1:
            path = self._beside_others(path, X)
        part = best.regions[region]
        return [path, *region_coefficients(part, X, self.scaler_, columns, region)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        parts = (self._region_estimator(), self._reject_estimator())
        tags.input_tags.sparse = all(get_tags(part).input_tags.sparse for part in parts)
        return tags


def make_learner(estimator: Any, data: TrainingSet, parameter: str) -> Any:
    """Return the compiled learner of an estimator that has one, else a learner of clones."""
    if isinstance(data, DeviceTrainingSet):
        return DeviceLDALearner(estimator)
    learner = fast_learner(estimator, data, is_gate=parameter == "reject_estimator")
    if learner is None:
        learner = EstimatorLearner(estimator)
        learner.check_weights(data, parameter)
    return learner


def _gets_worse(errors: list[float]) -> bool:
    """Tell whether the last two errors both exceed an earlier one."""
    return len(errors) > 2 and min(errors[-2:]) > min(errors[:-2])


def _draw(rng: np.random.RandomState) -> int:
    return draw_seeds(rng, 1)[0]
