"""Fit of cascades: settings, number of regions, and starts."""

import warnings
from dataclasses import dataclass, fields, replace
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits

from vicinal._base import (
    TrainingData,
    as_numpy,
    class_factors,
    namespace,
    parallel_map,
    random_seeds,
)
from vicinal._kernels.cascade._soft import fit_soft_cascade
from vicinal.linear import AveragedPerceptron, WeightedLDA
from vicinal.partition._learners import fit_single, is_plain_lda, make_learner
from vicinal.partition._sweeps import ArrayEngine, hard_start
from vicinal.partition.stages import (
    Cascade,
    LinearGate,
    LinearRegionClassifier,
    mean_prediction,
    mean_proba,
    predict_labels,
    weighted_mean,
)

# Chosen on held-out training data, docs/results/partition_defaults.md.
CLASSIFIERS = {
    "logistic": LogisticRegression(C=10.0, tol=1e-3, max_iter=1000),
    "lda": WeightedLDA(shrinkage=1e-4),
    "perceptron": AveragedPerceptron(),
}
REGRESSORS = {"ridge": Ridge()}

# Candidates of n_regions="auto".
_AUTO_REGIONS = (1, 2, 5, 15)
# Sweeps of a start for max_iter=None, and iterations of L-BFGS with soft gates.
_MAX_SWEEPS, _MAX_SOFT_ITERATIONS = 8, 200
# Starts, sweeps and iterations that are enough to compare two numbers of regions.
_AUTO_STARTS, _AUTO_SWEEPS, _AUTO_SOFT_ITERATIONS = 4, 6, 60


@dataclass(frozen=True)
class Settings:
    """Settings of a fit, with defaults and names of learners resolved."""

    region_estimator: Any
    reject_estimator: Any
    n_regions: Any  # an integer or "auto"
    init: Any  # name of a first assignment
    first_region: np.ndarray | None  # the assignment that the user gave as ``init``
    n_init: int
    max_iter: int
    gating: str
    alpha: float
    monotone: bool
    keep: str
    selection: str
    combine: str
    validation_fraction: float
    n_jobs: int | None
    random_state: Any
    verbose: int
    label: str

    @property
    def is_soft(self) -> bool:
        """Whether gates are soft."""
        return self.gating == "soft"

    @property
    def has_proba(self) -> bool:
        """Whether cascades predict probabilities."""
        return self.is_soft or hasattr(self.region_estimator, "predict_proba")


class CascadeFit(NamedTuple):
    """Result of a fit."""

    cascades: list[Cascade]  # best first
    n_regions_errors: dict[int, float] | None  # of n_regions="auto"


def resolve(model: Any, data: TrainingData | None, n_samples: int) -> Settings:
    """Return the settings of a fit; ``data`` is ``None`` for a table in blocks of rows."""
    given = {"gating": "hard", "alpha": 0.0, **model.get_params(deep=False)}
    is_soft, is_named = given["gating"] == "soft", isinstance(model.init, str)
    region, reject = given["region_estimator"], given["reject_estimator"] = learners(model)
    if data is not None and (is_soft or not (is_plain_lda(region) and is_plain_lda(reject))):
        data.check_on_host(
            f"region_estimator={model.region_estimator!r}, reject_estimator="
            f"{model.reject_estimator!r} and gating={given['gating']!r} cannot be fitted to device "
            "arrays; use region_estimator='lda' with hard gates"
        )
    if model.max_iter is None:
        given["max_iter"] = _MAX_SOFT_ITERATIONS if is_soft else _MAX_SWEEPS
    given.update(label=type(model).__name__, first_region=None)
    if not is_named:
        first = _first_region(model.init, model.n_regions, n_samples)
        given.update(first_region=first, init="kmeans", n_init=1)
    return Settings(**{part.name: given[part.name] for part in fields(Settings)})


def learners(model: Any) -> tuple[Any, Any]:
    """Return the estimators of regions and gates that the parameters of a model stand for."""
    region, reject = model.region_estimator, model.reject_estimator
    if reject is None:
        reject = region
    if isinstance(region, str):
        region = {**CLASSIFIERS, **REGRESSORS}[region]
    return region, CLASSIFIERS[reject] if isinstance(reject, str) else reject


def _first_region(init: Any, n_regions: Any, n_samples: int) -> np.ndarray:
    """Return the assignment that the user gave, checked."""
    region = as_numpy(init)
    if n_regions == "auto":
        raise ValueError(
            "init is an array of regions, but n_regions='auto'; set n_regions to an integer."
        )
    if region.shape != (n_samples,) or region.dtype.kind not in "iu":
        raise ValueError(
            f"init has dtype {region.dtype} and shape {region.shape}; use a name, or integers of "
            f"shape ({n_samples},), one region per sample."
        )
    if region.min() < 0 or region.max() >= n_regions:
        raise ValueError(
            f"init names regions from {region.min()} to {region.max()}; with "
            f"n_regions={n_regions} they must lie in [0, {n_regions - 1}]."
        )
    return region.astype(np.int64)


def weigh_classes(data: TrainingData, class_weight: Any) -> TrainingData:
    """Multiply the weights of samples by those of their classes."""
    if class_weight is None:
        return data
    codes, weights = data.host(data.y), data.host(data.weights)
    factors = class_factors(class_weight, data.classes, codes, weights)
    return replace(data, sample_weight=data.array(weights * factors[codes]))


def fit_cascades(data: TrainingData, settings: Settings) -> CascadeFit:
    """Choose the number of regions, run all starts and sort them by their errors."""
    rng = check_random_state(settings.random_state)
    n_regions, errors = choose_n_regions(data, settings, rng)
    train, validation = data, None
    if settings.selection == "validation" and n_regions > 1:
        train, validation = data.hold_out(settings.validation_fraction, rng)
        if not len(validation):
            raise ValueError(
                f"validation_fraction={settings.validation_fraction} of {len(data)} samples is "
                "less than one sample; raise it, or use selection='train'."
            )
    cascades = _run_starts(train, validation, n_regions, settings, rng)
    n_open = sum(not cascade.converged for cascade in cascades)
    if settings.monotone and n_open:
        warnings.warn(
            f"{n_open} of {len(cascades)} starts did not converge within "
            f"{max(cascade.n_iter for cascade in cascades)} sweeps; raise max_iter.",
            ConvergenceWarning,
            stacklevel=5,
        )
    return CascadeFit(cascades, errors)


def choose_n_regions(
    data: TrainingData, settings: Settings, rng: np.random.RandomState
) -> tuple[int, dict[int, float] | None]:
    """Return the number of regions; "auto" compares candidates on rows held out.

    Regressors try all candidates; classifiers stop after two candidates that are worse than a
    smaller one.
    """
    if settings.n_regions != "auto":
        return limit_regions(settings.n_regions, len(data)), None
    errors: dict[int, float] = {}
    train, validation = data.hold_out(settings.validation_fraction, rng)
    if not len(validation):
        return 1, errors
    soft_limit, hard_limit = _AUTO_SOFT_ITERATIONS, _AUTO_SWEEPS
    trial = replace(
        settings,
        n_init=min(settings.n_init, _AUTO_STARTS),
        max_iter=min(settings.max_iter, soft_limit if settings.is_soft else hard_limit),
    )
    for n_regions in _AUTO_REGIONS:
        tried = list(errors.values())
        gets_worse = len(tried) > 2 and min(tried[-2:]) > min(tried[:-2])
        if n_regions > len(train) or (gets_worse and data.classes is not None):
            break
        inner = validation if settings.selection == "validation" and n_regions > 1 else None
        cascades = _run_starts(train, inner, n_regions, trial, rng)
        if settings.combine == "best":
            cascades = cascades[:1]
        errors[n_regions] = _combined_loss(cascades, validation, settings)
    # The first of equal errors, that is the fewest regions.
    return min(errors, key=errors.__getitem__), errors


def limit_regions(n_regions: int, n_samples: int) -> int:
    """Return the number of regions, at most one per sample."""
    if n_regions > n_samples:
        warnings.warn(
            f"n_regions={n_regions} exceeds the {n_samples} samples given; {n_samples} regions "
            "are used. Lower n_regions.",
            UserWarning,
            stacklevel=6,
        )
    return min(int(n_regions), n_samples)


def _combined_loss(cascades: list[Cascade], data: TrainingData, settings: Settings) -> float:
    """Return the weighted loss of the average of cascades."""
    if data.classes is None:
        loss = (data.y - mean_prediction(cascades, data.X)) ** 2
    elif not settings.has_proba or isinstance(settings.region_estimator, AveragedPerceptron):
        # Probabilities of a perceptron are not calibrated.
        predicted = predict_labels(cascades, data.X, data.classes, settings.has_proba)
        loss = predicted != data.labels
    else:
        # The Brier score depends on confidence and needs fewer samples than the error.
        proba = mean_proba(cascades, data.X, data.classes)
        xp = namespace(proba)
        codes = xp.arange(proba.shape[1], device=compat.device(proba))
        truth = xp.astype(data.y[:, None] == codes[None, :], xp.float64)
        loss = xp.sum((xp.astype(proba, xp.float64) - truth) ** 2, axis=1)
    return float(np.average(data.host(loss), weights=data.host(data.weights)))


def _run_starts(
    data: TrainingData,
    validation: TrainingData | None,
    n_regions: int,
    settings: Settings,
    rng: np.random.RandomState,
) -> list[Cascade]:
    """Fit one cascade per start and return them, the best first."""
    seed = settings.random_state
    if settings.is_soft:
        start: Any = partial(soft_start, data, validation, n_regions, settings)
        shares_memory = True
    elif n_regions == 1:
        own = int(seed) if isinstance(seed, Integral) else random_seeds(rng, 1)[0]
        learner = make_learner(settings.region_estimator, data, "region_estimator", is_single=True)
        return [fit_single(learner, data, own)]
    else:
        learner = make_learner(settings.region_estimator, data, "region_estimator")
        gate_learner = make_learner(settings.reject_estimator, data, "reject_estimator")
        engine = ArrayEngine(data, learner, gate_learner, settings.monotone, validation)
        start = partial(hard_start, engine, n_regions, settings)
        shares_memory = engine.is_compiled
    # One BLAS thread per start, so that results do not depend on how many run in parallel.
    n_starts = settings.n_init if n_regions > 1 else 1
    with threadpool_limits(1, user_api="blas"):
        cascades = parallel_map(
            start,
            [(seed,) for seed in random_seeds(rng, n_starts)],
            n_jobs=settings.n_jobs,
            prefer="threads" if shares_memory else None,
            label=settings.label,
            verbose=settings.verbose,
        )
    return sorted(cascades, key=lambda cascade: cascade.selection_error)


def soft_start(
    data: TrainingData,
    validation: TrainingData | None,
    n_regions: int,
    settings: Settings,
    seed: int,
) -> Cascade:
    """Fit a soft cascade from one start."""
    (coefs, intercepts, gates, gate_offsets), objectives, converged = fit_soft_cascade(
        data.X,
        data.y,
        data.weights,
        n_regions,
        len(data.classes),
        settings.alpha,
        settings.max_iter,
        tol=1e-5,
        rng=np.random.RandomState(seed),
    )
    dtype = data.X.dtype
    cascade = Cascade(
        [
            LinearRegionClassifier(data.classes, coef.astype(dtype), intercept.astype(dtype))
            for coef, intercept in zip(coefs, intercepts, strict=True)
        ],
        [
            LinearGate(gate.astype(dtype), dtype.type(offset))
            for gate, offset in zip(gates, gate_offsets, strict=True)
        ],
        soft=True,
    )
    cascade.train_error = _soft_error(cascade, data)
    cascade.selection_error = _soft_error(cascade, data if validation is None else validation)
    cascade.region_sizes = np.bincount(cascade.apply(data.X), minlength=n_regions)
    cascade.history = {"objective": np.array(objectives)}
    cascade.n_iter, cascade.converged = len(objectives), converged
    return cascade


def _soft_error(cascade: Cascade, data: TrainingData) -> float:
    proba = cascade.predict_proba(data.X, data.classes)
    return weighted_mean(proba.argmax(axis=1) != data.y, data.weights)
