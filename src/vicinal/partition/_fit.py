"""Fit of cascades: settings, number of regions, starts, and sweeps (Algorithm 1 of the paper).

``run_sweeps`` defines the order of a sweep, its corner cases and its end. An engine provides the
rows: arrays in memory or on a device, or blocks of a table. It serves several starts at once, so
that one pass over a table is enough for all of them.
"""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from numbers import Integral
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.utils import check_random_state
from threadpoolctl import threadpool_limits

from vicinal._base import TrainingData, class_factors, namespace, parallel_map, random_seeds
from vicinal._kernels.cascade import _hard as kernels
from vicinal._kernels.cascade._soft import fit_soft_cascade
from vicinal.linear import AveragedPerceptron, WeightedLDA
from vicinal.partition import stages
from vicinal.partition._learners import (
    EstimatorLearner,
    PerceptronLearner,
    is_plain_lda,
    make_learner,
)
from vicinal.partition.stages import Cascade, weighted_mean

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
    """A model, and what its parameters stand for in a fit."""

    model: Any
    region_estimator: Any
    reject_estimator: Any
    n_init: int
    max_iter: int
    is_soft: bool

    @property
    def has_proba(self) -> bool:
        """Whether cascades predict probabilities."""
        return self.is_soft or hasattr(self.region_estimator, "predict_proba")


def resolve(model: Any, data: TrainingData | None) -> Settings:
    """Return the settings of a fit; ``data`` is ``None`` for a table in blocks of rows."""
    gating, (region, reject) = getattr(model, "gating", "hard"), learners(model)
    is_soft = gating == "soft"
    if data is not None and (is_soft or not (is_plain_lda(region) and is_plain_lda(reject))):
        data.check_on_host(
            f"region_estimator={model.region_estimator!r}, reject_estimator="
            f"{model.reject_estimator!r} and gating={gating!r} cannot be fitted to device "
            "arrays; use region_estimator='lda' with hard gates"
        )
    max_iter = model.max_iter or (_MAX_SOFT_ITERATIONS if is_soft else _MAX_SWEEPS)
    return Settings(model, region, reject, model.n_init, max_iter, is_soft)


def learners(model: Any) -> tuple[Any, Any]:
    """Return the estimators of regions and gates that the parameters of a model stand for."""
    region, reject = model.region_estimator, model.reject_estimator
    if reject is None:
        reject = region
    if isinstance(region, str):
        region = {**CLASSIFIERS, **REGRESSORS}[region]
    return region, CLASSIFIERS[reject] if isinstance(reject, str) else reject


def weigh_classes(data: TrainingData, class_weight: Any) -> TrainingData:
    """Multiply the weights of samples by those of their classes."""
    if class_weight is None:
        return data
    codes, weights = data.host(data.y), data.host(data.weights)
    factors = class_factors(class_weight, data.classes, codes, weights)
    return replace(data, sample_weight=data.array(weights * factors[codes]))


def fit_cascades(data: TrainingData, settings: Settings) -> tuple[list[Cascade], Any]:
    """Return the cascades of all starts, the best first, and the errors of "auto" or ``None``."""
    rng = check_random_state(settings.model.random_state)
    n_regions, errors = choose_n_regions(data, settings, rng)
    return _run_starts(data, n_regions, settings, rng), errors


def choose_n_regions(
    data: TrainingData, settings: Settings, rng: np.random.RandomState
) -> tuple[int, dict[int, float] | None]:
    """Return the number of regions; "auto" compares candidates on rows held out.

    Regressors try all candidates; classifiers stop after two candidates that are worse than a
    smaller one.
    """
    model = settings.model
    if model.n_regions != "auto":
        return limit_regions(model.n_regions, len(data)), None
    errors: dict[int, float] = {}
    train, validation = data.hold_out(model.validation_fraction, rng)
    if not len(validation):
        return 1, errors
    most = _AUTO_SOFT_ITERATIONS if settings.is_soft else _AUTO_SWEEPS
    n_init, max_iter = min(settings.n_init, _AUTO_STARTS), min(settings.max_iter, most)
    trial = replace(settings, n_init=n_init, max_iter=max_iter)
    for n_regions in _AUTO_REGIONS:
        tried = list(errors.values())
        gets_worse = len(tried) > 2 and min(tried[-2:]) > min(tried[:-2])
        if n_regions > len(train) or (gets_worse and data.classes is not None):
            break
        cascades = _run_starts(train, n_regions, trial, rng)
        cascades = cascades[:1] if model.combine == "best" else cascades
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
        loss = (data.y - stages.mean_prediction(cascades, data.X)) ** 2
    elif not settings.has_proba or isinstance(settings.region_estimator, AveragedPerceptron):
        # Probabilities of a perceptron are not calibrated.
        predicted = stages.predict_labels(cascades, data.X, data.classes, settings.has_proba)
        loss = predicted != data.labels
    else:
        # The Brier score depends on confidence and needs fewer samples than the error.
        proba = stages.mean_proba(cascades, data.X, data.classes)
        xp = namespace(proba)
        codes = xp.arange(proba.shape[1], device=compat.device(proba))
        truth = xp.astype(data.y[:, None] == codes[None, :], xp.float64)
        loss = xp.sum((xp.astype(proba, xp.float64) - truth) ** 2, axis=1)
    return float(np.average(data.host(loss), weights=data.host(data.weights)))


def _run_starts(
    data: TrainingData, n_regions: int, settings: Settings, rng: np.random.RandomState
) -> list[Cascade]:
    """Fit one cascade per start and return them, the best first."""
    model, seed = settings.model, settings.model.random_state
    if settings.is_soft:
        start: Any = partial(soft_start, data, n_regions, settings)
        shares_memory = True
    elif n_regions == 1:
        own = int(seed) if isinstance(seed, Integral) else random_seeds(rng, 1)[0]
        learner = make_learner(settings.region_estimator, data, "region_estimator", is_single=True)
        run = Run(1, None)
        run.models = [learner.fit_region(data, data.array(np.arange(len(data))), own)]
        error = weighted_mean(learner.losses(run.models, data)[0, :], data.weights)
        run.record(Outcome(error, np.array([len(data)]), True), "last")
        return [run.result()]
    else:
        learner = make_learner(settings.region_estimator, data, "region_estimator")
        gate_learner = make_learner(settings.reject_estimator, data, "reject_estimator")
        engine = ArrayEngine(data, learner, gate_learner)
        start = partial(hard_start, engine, n_regions, settings)
        shares_memory = engine.is_compiled
    # One BLAS thread per start, so that results do not depend on how many run in parallel.
    n_starts = settings.n_init if n_regions > 1 else 1
    with threadpool_limits(1, user_api="blas"):
        cascades = parallel_map(
            start,
            [(seed,) for seed in random_seeds(rng, n_starts)],
            n_jobs=model.n_jobs,
            prefer="threads" if shares_memory else None,
            label=type(model).__name__,
            verbose=model.verbose,
        )
    return sorted(cascades, key=lambda cascade: cascade.train_error)


def soft_start(data: TrainingData, n_regions: int, settings: Settings, seed: int) -> Cascade:
    """Fit a soft cascade from one start."""
    problem = data.X, data.y, data.weights, n_regions, len(data.classes), settings.model.alpha
    (coefs, intercepts, gates, gate_offsets), objectives, converged = fit_soft_cascade(
        *problem, settings.max_iter, tol=1e-5, rng=np.random.RandomState(seed)
    )
    dtype = data.X.dtype
    cascade = Cascade(
        [
            stages.LinearRegionClassifier(data.classes, coef.astype(dtype), intercept.astype(dtype))
            for coef, intercept in zip(coefs, intercepts, strict=True)
        ],
        [
            stages.LinearGate(gate.astype(dtype), dtype.type(offset))
            for gate, offset in zip(gates, gate_offsets, strict=True)
        ],
        soft=True,
    )
    cascade.train_error = _error(cascade, data)
    cascade.region_sizes = np.bincount(cascade.apply(data.X), minlength=n_regions)
    cascade.history = {"objective": np.array(objectives)}
    cascade.n_iter, cascade.converged = len(objectives), converged
    return cascade


# --- sweeps ---------------------------------------------------------------------------------------


class Problem(NamedTuple):
    """Rows that a region model or a gate is fitted to."""

    n_rows: int
    fit: Callable[[Any], Any]  # takes the model or gate of the last sweep; may raise ValueError
    fit_all: Callable[[], Any] | None = None  # of a region: to all rows of the table
    n_passed: int = 0  # of a gate: rows that should be passed on


class Outcome(NamedTuple):
    """Result of a sweep."""

    error: float  # weighted training loss
    region_sizes: np.ndarray
    has_converged: bool  # nothing moved since the last sweep
    region: Any = None  # of every row, if the engine stores it


class Run:
    """One start: its current models and gates, and its history.

    ``state`` is what the engine stores about the rows.
    """

    def __init__(self, n_regions: int, state: Any) -> None:
        self.n_regions, self.state = n_regions, state
        self.models: list[Any] = [None] * n_regions
        self.gates: list[Any] = [None] * (n_regions - 1)
        self.disagreement = np.zeros(n_regions - 1)
        self.history: dict[str, list] = {"error": [], "region_sizes": [], "disagreement": []}
        self.best: Any = None
        self.best_region: Any = None
        self.converged = False
        self.n_gates_fitted = 0
        self.refusal: Exception | None = None

    @property
    def n_sweeps(self) -> int:
        """Number of finished sweeps."""
        return len(self.history["error"])

    def record(self, outcome: Outcome, keep: str) -> None:
        """Record a sweep; select its cascade if it is the best, or with ``keep="last"``."""
        values = {
            "error": outcome.error,
            "region_sizes": outcome.region_sizes,
            "disagreement": self.disagreement.copy(),
        }
        for name, value in values.items():
            self.history[name].append(value)
        if keep == "last" or self.best is None or outcome.error < self.best.train_error:
            self.best = Cascade(list(self.models), list(self.gates))
            self.best.train_error = outcome.error
            self.best.region_sizes, self.best_region = outcome.region_sizes, outcome.region
        self.converged = outcome.has_converged

    def result(self) -> Cascade:
        """Return the selected cascade with the history of all sweeps."""
        if self.refusal is not None and self.n_gates_fitted == 0:
            # The learner never fitted a gate, so its error is not due to few rows.
            raise self.refusal
        self.best.history = {name: np.array(values) for name, values in self.history.items()}
        self.best.n_iter, self.best.converged = self.n_sweeps, self.converged
        return self.best


def run_sweeps(engine: Any, runs: list[Run], *, max_iter: int, keep: str) -> list[Cascade]:
    """Sweep until nothing changes or ``max_iter`` is reached, and return the cascades.

    A sweep refits all region models, then the gates from the last to the first, then routes again.
    An engine provides ``n_rows``; ``region_problems(runs)`` and ``gate_problems(runs, k)``, the
    rows of every region and of one gate; ``set_regions`` and ``set_gate``, which store new models;
    and ``reroute(runs)``, the results of a sweep.
    """
    open_runs = runs
    for _ in range(max_iter):
        for run, problems in zip(open_runs, engine.region_problems(open_runs), strict=True):
            pairs = zip(problems, run.models, strict=True)
            engine.set_regions(run, [_fit_region(*pair) for pair in pairs])
        for k in reversed(range(open_runs[0].n_regions - 1)):
            for run, problem in zip(open_runs, engine.gate_problems(open_runs, k), strict=True):
                run.disagreement[k] = problem.n_rows / engine.n_rows
                engine.set_gate(run, k, _fit_gate(run, problem, run.gates[k]))
        for run, outcome in zip(open_runs, engine.reroute(open_runs), strict=True):
            run.record(outcome, keep)
        open_runs = [run for run in open_runs if not run.converged]
        if not open_runs:
            break
    return [run.result() for run in runs]


def _fit_region(problem: Problem, previous: Any) -> Any:
    """Fit a region; an empty region keeps its model, or is fitted to all samples."""
    if problem.n_rows == 0 and previous is not None:
        return previous
    if problem.n_rows:
        try:
            return problem.fit(previous)
        except ValueError:
            if previous is not None:
                return previous
    # A learner that raises for few rows may accept all of them; if not, its error is raised.
    return problem.fit_all()  # type: ignore[misc]


def _fit_gate(run: Run, problem: Problem, previous: Any) -> Any:
    """Fit a gate; without rows it does not change, with rows of one class it is constant."""
    kept = stages.ConstantGate(False) if previous is None else previous
    if problem.n_rows == 0:
        return kept
    if problem.n_passed in (0, problem.n_rows):
        return stages.ConstantGate(problem.n_passed > 0)
    try:
        gate = problem.fit(previous)
    except ValueError as error:
        run.refusal = error
        return kept
    run.n_gates_fitted += 1
    return gate


# --- rows in arrays, in memory or on a device: every row has its region ---------------------------


@dataclass
class _RowState:
    """Regions of the rows, losses of all models, and decisions of the gates."""

    region: Any
    rng: np.random.RandomState
    losses: Any = None  # (n_regions, n_samples)
    passed_on: dict[int, Any] = field(default_factory=dict)
    later: Any = None  # loss of the stages after the current gate
    loss: Any = None  # of every row, after the last sweep

    def next_seed(self) -> int:
        return random_seeds(self.rng, 1)[0]


class ArrayEngine:
    """Training data in arrays, with any learner of regions and of gates.

    Parameters
    ----------
    data : TrainingData
        Training samples, in memory or on a device.
    region_learner, gate_learner : learners
        How region models and gates are fitted.
    """

    def __init__(self, data: TrainingData, region_learner: Any, gate_learner: Any) -> None:
        self.data, self.region_learner, self.gate_learner = data, region_learner, gate_learner
        self.n_rows, self.weights = len(data), data.weights

    @property
    def is_compiled(self) -> bool:
        """Whether both learners release the GIL."""
        learners = self.region_learner, self.gate_learner
        return not any(isinstance(learner, EstimatorLearner) for learner in learners)

    def first_regions(self, init: str, n_regions: int, rng: np.random.RandomState) -> Any:
        """Return the region of each sample before the first sweep."""
        if init == "random":
            return self.data.array(rng.randint(n_regions, size=self.n_rows))
        return kernels.assign_kmeans(self.data.X, self.weights, n_regions, rng)

    def region_problems(self, runs: list[Run]) -> list[list[Problem]]:
        return [
            [
                self._region_problem(rows, run.state.next_seed())
                for rows in kernels.rows_by_region(run.state.region, run.n_regions)
            ]
            for run in runs
        ]

    def _region_problem(self, rows: Any, seed: int) -> Problem:
        data, fit = self.data, self.region_learner.fit_region
        fit_all = lambda: fit(data, data.array(np.arange(len(data))), seed)  # noqa: E731
        return Problem(rows.shape[0], partial(fit, data, rows, seed), fit_all)

    def set_regions(self, run: Run, models: list) -> None:
        run.models, run.state.losses = models, self.region_learner.losses(models, self.data)
        run.state.later = run.state.losses[run.n_regions - 1, :]

    def gate_problems(self, runs: list[Run], k: int) -> list[Problem]:
        return [self._gate_problem(run.state, k) for run in runs]

    def _gate_problem(self, state: _RowState, k: int) -> Problem:
        rows, labels, costs = kernels.gate_problem(
            state.losses[k, :], state.later, state.region >= k, self.weights
        )
        return Problem(
            rows.shape[0],
            partial(self.gate_learner.fit_gate, self.data, rows, labels, costs, state.next_seed()),
            n_passed=int(namespace(labels).sum(labels)),
        )

    def set_gate(self, run: Run, k: int, gate: Any) -> None:
        state = run.state
        if gate is not run.gates[k]:
            run.gates[k], state.passed_on[k] = gate, gate.predict(self.data.X) == 1
        passed, own = state.passed_on[k], state.losses[k, :]
        state.later = namespace(own).where(passed, state.later, own)

    def reroute(self, runs: list[Run]) -> list[Outcome]:
        return [self._reroute(run) for run in runs]

    def _reroute(self, run: Run) -> Outcome:
        state = run.state
        decisions = [state.passed_on[k] for k in range(run.n_regions - 1)]
        region = kernels.route(namespace(decisions[0]).stack(decisions, axis=0), self.n_rows)
        loss = kernels.chain_loss(state.losses, region)
        xp = namespace(loss)
        has_converged = (
            state.loss is not None
            and bool(xp.all(region == state.region))
            and bool(xp.all(loss == state.loss))
        )
        state.region, state.loss = region, loss
        sizes = kernels.region_sizes(region, run.n_regions)
        return Outcome(weighted_mean(loss, self.weights), sizes, has_converged, region)


def _error(cascade: Cascade, data: TrainingData) -> float:
    """Return the weighted mean loss of a cascade."""
    if data.classes is None:
        loss = (data.y - cascade.predict(data.X, data.y.dtype)) ** 2
    else:
        loss = stages.predict_labels([cascade], data.X, data.classes, True) != data.labels
    return weighted_mean(loss, data.host(data.weights))


def hard_start(engine: ArrayEngine, n_regions: int, settings: Any, seed: int) -> Cascade:
    """Fit regions and gates in turn from one start."""
    rng = np.random.RandomState(seed)
    region = engine.first_regions(settings.model.init, n_regions, rng)
    run = Run(n_regions, _RowState(region, rng))
    (cascade,) = run_sweeps(engine, [run], max_iter=settings.max_iter, keep=settings.model.keep)
    if isinstance(engine.region_learner, PerceptronLearner):
        engine.region_learner.scale_margins(cascade.regions, engine.data, run.best_region)
    cascade.prune()
    return cascade
