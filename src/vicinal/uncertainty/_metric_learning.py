"""Local metrics: first coordinates, mixture components, and optimisation of each metric."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning

from vicinal import _base
from vicinal._base._compat import threadpool_controller
from vicinal._kernels.linear._covariance import class_covariances, whitening_map
from vicinal._kernels.metric import _soft_votes as kernels
from vicinal._kernels.metric._uncertainty import class_bounds, mean_neighbor_distance
from vicinal.uncertainty._responsibility_mixture import ResponsibilityMixture
from vicinal.uncertainty._uncertainty_map import uncertainty_of

# Coordinates that init="auto" tries: from whitened to merely standardised, and those in which the
# scatter within classes is round. The first is init="whiten".
_WHITENINGS = (
    {"shrinkage": 0.0},
    {"shrinkage": 0.1},
    {"shrinkage": 1.0},
    {"shrinkage": 100.0},
    {"within": True, "shrinkage": 0.01},
    {"within": True, "shrinkage": 0.1},
    {"within": True, "shrinkage": 1.0},
)
# Factors tried for the sharpness of a start: at one, the nearest row is one away on average.
_SHARPNESS = 2.0 ** np.arange(-3.0, 5.5, 0.5)
# Starts are scored on at most this many rows, on held-out rows only if at least this many.
_MAX_SCORED = 2000
_MIN_HELD_OUT = 100
_SCALE_ROWS = 2000
# Iterations on a metric shared by all components. A few are enough to leave a poor start; with
# many the components would stay at the same metric.
_SHARED_ITERATIONS = 3
# A component does not learn from rows of smaller responsibility.
_LEAST_RESPONSIBILITY = 1e-3
# Annealing: the first temperature as a part of the number of rows (the paper's 200 at its 2,345),
# its factor after each iteration, and a step and the noise as parts of the matrix.
_ANNEALING = {"temperature": 0.085, "cooling": 0.925, "step": 0.1, "noise": 0.02}


@dataclass(frozen=True)
class MetricSettings:
    """Settings of metric learning.

    ``n_regions`` are the numbers of components to try; ``init`` is "auto" or "whiten".
    ``held_out`` is the part of the rows to hold out, ``None`` for none. With
    ``floor`` the objective is the logarithm of p + floor, without it p. ``n_iter_no_change`` is
    the number of iterations without improvement that end the learning, ``None`` for no such end.
    """

    n_classes: int
    n_regions: tuple[int, ...]
    n_components: int | None
    init: str
    held_out: float | None
    n_splits: int
    floor: float | None
    solver: str
    n_iter_no_change: int | None
    max_iter: int
    tol: float
    region_method: str
    covariance_type: str
    n_jobs: int | None


class StartCoordinates(NamedTuple):
    """Coordinates in which metrics are learned, and the first metric in them."""

    mean: Any
    whitening: Any
    metric: Any = None

    def of(self, rows: _base.TrainingData | None) -> Any:
        """Return rows in these coordinates, in single precision; ``None`` for ``None``."""
        if rows is None:
            return None
        xp = compat.array_namespace(rows.X)
        X = (rows.X - self.mean[None, :]) @ self.whitening.T
        return replace(rows, X=xp.astype(X, xp.float32))


class Split(NamedTuple):
    """Training rows and held-out rows, sorted by class, in single precision."""

    train: _base.TrainingData
    watched: _base.TrainingData | None


class MetricFit(NamedTuple):
    """Result of a solver on some problems."""

    matrices: np.ndarray  # (K, q, m), the best ones by the score watched
    score: float  # sum of the scores of the problems
    paths: list[np.ndarray]  # score after each iteration: per problem, or of all together
    iterates: list[np.ndarray]  # matrices after each iteration, of the last problem
    finished: bool  # whether it stopped before max_iter


class LearnedMetrics(NamedTuple):
    """Metrics of every split, with the mixture of the first."""

    coordinates: StartCoordinates
    uncertainty: np.ndarray  # (n_samples,), NaN for rows held out in the first split
    mixture: ResponsibilityMixture
    fits: list[MetricFit]  # one for each split
    objective: float  # mean of the splits
    has_watched: bool


def merge_copies(data: _base.TrainingData) -> tuple[_base.TrainingData, np.ndarray, np.ndarray]:
    """Merge equal rows of the same class into one that has their weight.

    Returns the distinct rows, in an order that does not depend on the order of ``data``; which of
    them each row is; and the number of each class, in order of appearance, which ``y`` of the
    distinct rows holds. So a row of weight two *is* the row twice, no row is its own neighbour
    through a copy, and names of classes decide nothing. Rows of a device array are copied to the
    host to be compared.
    """
    X, codes = data.host(data.X), data.host(data.y)
    table = np.column_stack([X, codes.astype(X.dtype)]) + 0.0
    _, first, kind = np.unique(_bytes(table), return_index=True, return_inverse=True)
    # By the bytes of single precision, so that both precisions sample the same rows.
    order = np.argsort(_bytes(table[first].astype(np.float32)), kind="stable")
    index = np.empty(len(order), dtype=np.int64)
    index[order] = np.arange(len(order))
    kind, first = index[kind], first[order]
    codes = codes[first]
    numbers = np.argsort(np.argsort([np.argmax(codes == c) for c in np.unique(codes)]))
    weights = np.bincount(kind, weights=data.host(data.weights))
    distinct = replace(
        data.take(first),
        y=data.array(numbers[codes]),
        sample_weight=data.array(weights),
        index=None,
    )
    return distinct, kind, numbers


def _bytes(table: np.ndarray) -> np.ndarray:
    """Return each row as one value that can be compared."""
    width = table.itemsize * table.shape[1]
    return np.ascontiguousarray(table).view(np.dtype((np.void, width)))[:, 0]


def learn_metrics(
    data: _base.TrainingData,
    validation: _base.TrainingData | None,
    settings: MetricSettings,
    rng: np.random.RandomState,
    progress: Callable[[int], _base.Progress],
) -> LearnedMetrics:
    """Choose coordinates and components, and learn a metric for each in every split.

    ``validation`` are held-out rows instead of rows of ``data``; ``progress(n_steps)`` makes the
    progress bar.
    """
    learned, watched = _hold_out(data, validation, settings, rng)
    n_splits = 1 if watched is None or validation is not None else settings.n_splits
    coordinates = _starting_coordinates(learned, watched, settings, rng)
    rows = coordinates.of(data)
    uncertainty, importance = _importance(rows.take(learned.positions), settings)
    everywhere = np.full(len(data), np.nan)
    everywhere[learned.positions] = uncertainty
    seeds = _base.random_seeds(rng, 1 + n_splits)
    parts = [(learned, watched)]
    parts += [_hold_out(data, None, settings, rng) for _ in range(1, n_splits)]
    splits = [
        Split(by_class(rows.take(some.positions)), coordinates.of(held and by_class(held)))
        for some, held in parts
    ]
    counts = _region_counts(settings.n_regions, len(learned))
    mixtures = [_fit_mixture(splits[0].train, importance, k, seeds[0], settings) for k in counts]
    threads = _base.n_threads(_base.host_jobs(rows.X, settings.n_jobs))
    steps = sum(counts) + (n_splits - 1) * max(counts)
    with progress(steps * settings.max_iter) as bar:

        def advance(score):
            name = "accuracy" if settings.floor is None else "likelihood"
            bar.advance(note=f"{name} {score:.4f}")

        def fit_on(split, seed, mixtures, n_jobs):
            random_state, start = np.random.RandomState(seed), coordinates.metric
            return _fit_split(split, mixtures, start, settings, n_jobs, random_state, advance)

        # The first split decides number and centres of the components. The other splits are
        # learned in parallel; remaining threads share their components.
        first = fit_on(splits[0], seeds[1], mixtures, threads)
        best = max(range(len(first)), key=lambda i: first[i][0].score)
        each = max(1, threads // max(1, n_splits - 1))
        others = _base.thread_map(
            lambda task: fit_on(task[0], task[1], [mixtures[best]], each)[0],
            zip(splits[1:], seeds[2:], strict=True),
            threads,
        )
    fits, gains = zip(first[best], *others, strict=True)
    objective = float(np.mean(gains))
    return LearnedMetrics(
        coordinates, everywhere, mixtures[best], list(fits), objective, watched is not None
    )


def by_class(data: _base.TrainingData) -> _base.TrainingData:
    """Return the rows sorted by class."""
    return data.take(np.argsort(data.host(data.y), kind="stable"))


def as_references(data: _base.TrainingData, n_classes: int) -> kernels.References:
    """Return rows sorted by class, as voters."""
    xp = compat.array_namespace(data.X)
    log_weights = xp.astype(xp.log(data.array(data.weights)), data.X.dtype)
    return kernels.References(data.X, class_bounds(data.host(data.y), n_classes), log_weights)


def _hold_out(
    data, validation, settings, rng
) -> tuple[_base.TrainingData, _base.TrainingData | None]:
    """Return training rows and held-out rows (or None)."""
    if validation is not None or settings.held_out is None:
        return data, validation
    learned, held = data.hold_out(settings.held_out, rng)
    return (learned, held) if len(held) else (data, None)


# --- start ----------------------------------------------------------------------------------------


def _starting_coordinates(learned, watched, settings, rng) -> StartCoordinates:
    """Return the coordinates in which learning starts from a multiple of the identity."""
    X = learned.X
    xp, device = compat.array_namespace(X), compat.device(X)
    codes, weights = learned.host(learned.y), learned.host(learned.weights)
    found = class_covariances(X, codes, weights, settings.n_classes)
    if not np.isfinite(found.scale).any():
        raise ValueError(
            "All rows of X are equal, so no metric can be learned; give different rows."
        )
    mean = xp.asarray(found.mean, dtype=X.dtype, device=device)
    rows, queries = by_class(learned), watched and by_class(watched)
    precision = float(xp.finfo(X.dtype).eps)

    def whitened(options):
        matrix = whitening_map(found, precision=precision, **options)
        return StartCoordinates(mean, xp.asarray(matrix, dtype=X.dtype, device=device))

    start = whitened(_WHITENINGS[0])
    if settings.init == "whiten":
        scale = 1.0 / np.sqrt(_nearest_scale(start.of(rows), settings.n_jobs))
    else:
        if queries is not None and len(queries) < _MIN_HELD_OUT:
            queries = None
        n = len(rows if queries is None else queries)
        scored = np.sort(rng.choice(n, min(n, _MAX_SCORED), replace=False))
        best = -np.inf
        for options in _WHITENINGS:
            trial = whitened(options)
            score, factor = _best_scale(trial.of(rows), trial.of(queries), scored, settings)
            if score > best:
                best, start, scale = score, trial, factor
    rank = start.whitening.shape[0]
    n_out = rank if settings.n_components is None else settings.n_components
    if n_out > rank:
        raise ValueError(
            f"n_components={n_out} exceeds the {rank} independent directions of X; lower it."
        )
    return start._replace(metric=np.eye(n_out, rank) * scale)


def _nearest_scale(rows: _base.TrainingData, n_jobs: int | None) -> float:
    """Return the mean squared distance to the nearest row, or to a farther one where it is zero."""
    xp, n = compat.array_namespace(rows.X), len(rows)
    X, weights = xp.astype(rows.X, xp.float64), rows.array(rows.weights)
    for k in (1, 7, n - 1):
        scale = mean_neighbor_distance(
            X, min(k, n - 1), weights, max_queries=_SCALE_ROWS, n_jobs=n_jobs
        )
        if scale > 1e-12:
            return scale
    return 1.0


def _best_scale(train, held_out, scored, settings) -> tuple[float, float]:
    """Return the greatest log-likelihood of soft votes in a multiple of the identity, and that.

    ``scored`` are positions in ``held_out``, or in ``train`` if there are none held out.
    """
    rows = train if held_out is None else held_out
    unit = 1.0 / np.sqrt(_nearest_scale(train, settings.n_jobs))
    references = as_references(train, settings.n_classes)
    anchors = _anchors(rows, np.ones(len(rows)), settings.n_classes, scored, held_out is None)
    weights = rows.host(rows.weights)[scored]

    @cache
    def at(i):
        A = _SHARPNESS[i] * unit * np.eye(train.X.shape[1])
        p = kernels.own_class_probabilities(A, anchors, references, n_jobs=settings.n_jobs)
        # Bounded, so that no single row dominates.
        return float(weights @ np.log(np.maximum(p, 1e-6))) / float(weights.sum())

    # Ascend on the grid, from one.
    i, last = int(np.argmin(np.abs(_SHARPNESS - 1.0))), len(_SHARPNESS) - 1
    step = 1 if i < last and at(i + 1) > at(i) else -1
    while 0 <= i + step <= last and at(i + step) > at(i):
        i += step
    return at(i), float(_SHARPNESS[i]) * unit


# --- components -----------------------------------------------------------------------------------


def _importance(rows: _base.TrainingData, settings) -> tuple[np.ndarray, np.ndarray]:
    """Return the uncertainty of rows, and the weights of the mixture in order of their classes."""
    codes, weights = rows.host(rows.y), rows.host(rows.weights)
    u = _base.as_numpy(uncertainty_of(rows.X, codes, weights, n_jobs=settings.n_jobs))
    importance = weights * (u if settings.region_method == "uncertainty" else 1.0)
    # Without uncertain rows, all have the same weight.
    importance = importance if importance.any() else np.ones_like(importance)
    return u, importance[np.argsort(codes, kind="stable")]


def _region_counts(n_regions: tuple[int, ...], n_rows: int) -> list[int]:
    """Return the numbers of components to try, none above that of the rows learned from."""
    counts = [k for k in n_regions if k <= n_rows]
    if not counts:
        raise ValueError(
            f"n_regions={n_regions[0]} exceeds the {n_rows} different rows that are learned from; "
            "lower n_regions, or give more rows."
        )
    return counts


def _fit_mixture(train, importance, n_regions, seed, settings) -> ResponsibilityMixture:
    """Fit the mixture whose responsibilities are the weights of the components."""
    # Several starts, since one may converge to a poor solution.
    options = {"covariance_type": settings.covariance_type, "n_init": 3, "random_state": seed}
    mixture = ResponsibilityMixture(n_regions, **options)
    xp = compat.array_namespace(train.X)
    # Small work gains little by more threads of BLAS and OpenMP, and on a busy machine threads that
    # wait for one another take several times as long.
    ignored = warnings.catch_warnings(action="ignore", category=ConvergenceWarning)
    with threadpool_controller().limit(limits=1), ignored:
        # In double precision, so that rounding cannot send EM to another solution.
        return mixture.fit(xp.astype(train.X, xp.float64), sample_weight=importance)


# --- ascent ---------------------------------------------------------------------------------------


def _anchors(rows, shares, n_classes, chosen, are_references) -> kernels.Anchors:
    """Return the rows ``chosen``, scored in proportion to ``shares``."""
    xp, index = compat.array_namespace(rows.X), rows.array(chosen)
    weights = rows.array((shares * rows.host(rows.weights))[chosen])
    return kernels.Anchors(
        xp.take(rows.X, index, axis=0),
        class_bounds(rows.host(rows.y)[chosen], n_classes),
        xp.astype(weights, rows.X.dtype),
        index if are_references else None,
    )


class MetricProblem:
    """Objective of one component as a function of its matrix.

    Parameters
    ----------
    split : Split
        Training rows, which are also the voters, and held-out rows.
    n_classes : int
        Number of classes.
    shares : list of ndarray
        Responsibility of the component for each row of the split.
    floor : float or None
        None: rows count by the probability ``p`` of their class; else by
        ``log((p + floor) / (1 + floor))``.
    n_jobs : int or None
        Threads.
    """

    def __init__(self, split, n_classes, shares, floor=None, n_jobs=None):
        train, watched = split
        self.floor = floor
        self.n_jobs = n_jobs
        self.references = as_references(train, n_classes)
        chosen = [np.flatnonzero(part >= _LEAST_RESPONSIBILITY) for part in shares]
        self.anchors = _anchors(train, shares[0], n_classes, chosen[0], True)
        self.total = float(train.host(train.weights).sum())
        self.has_rows = float(shares[0].sum()) >= 1.0
        self.watched = None
        if watched is not None:
            self.watched = _anchors(watched, shares[1], n_classes, chosen[1], False)
            self.watched_total = float(watched.host(watched.weights).sum())
        self._known: dict[bytes, float] = {}

    def objective(self, A: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the component's part of the objective, and its gradient."""
        value, gradient = self._expected(A, self.anchors, gradient=True)
        self._remember(A, value / self.total)
        return value / self.total, gradient / self.total

    def value(self, A: np.ndarray) -> float:
        """Return the component's part of the objective."""
        if A.tobytes() not in self._known:
            self._remember(A, self._expected(A, self.anchors)[0] / self.total)
        return self._known[A.tobytes()]

    def score(self, A: np.ndarray) -> float:
        """Return the objective on held-out rows, or on training rows if there are none."""
        if self.watched is None:
            return self.value(A)
        return self._expected(A, self.watched)[0] / self.watched_total

    def _expected(self, A, anchors, gradient=False):
        if anchors.X.shape[0] == 0:
            return 0.0, np.zeros_like(A)
        options = {"floor": self.floor, "gradient": gradient, "n_jobs": self.n_jobs}
        return kernels.expected_accuracy(A, anchors, self.references, **options)

    def _remember(self, A, value):
        # Solvers evaluate recent points again; a few are enough.
        if len(self._known) >= 8:
            self._known.pop(next(iter(self._known)))
        self._known[A.tobytes()] = value


def _fit_split(
    split, mixtures, start, settings, n_jobs, random_state, advance
) -> list[tuple[MetricFit, float]]:
    """Learn one metric per component of each mixture; several start from a shared one.

    Returns the fit and the objective of each mixture.
    """

    def problems_of(shares):
        n_regions = shares[0].shape[1]
        # Components are learned in parallel; remaining threads share their rows.
        threads = max(1, n_jobs // n_regions)
        columns = ([part[:, k] for part in shares] for k in range(n_regions))
        return [
            MetricProblem(split, settings.n_classes, own, settings.floor, threads)
            for own in columns
        ]

    def ascend(problems, start, max_iter):
        options = settings, n_jobs, random_state, advance
        return _ascend(problems, start, max_iter, *options)

    present = [rows for rows in split if rows is not None]
    n_shared = min(_SHARED_ITERATIONS, max(1, settings.max_iter // 3))
    is_alone = [mixture.n_components == 1 for mixture in mixtures]
    alone = problems_of([np.ones((len(rows), 1)) for rows in present])
    single = ascend(alone, start, settings.max_iter if any(is_alone) else n_shared)
    shared = single.iterates[int(single.paths[0][: n_shared + 1].argmax())]
    found = []
    for mixture in mixtures:
        problems, fit = alone, single
        if mixture.n_components > 1:
            xp = compat.array_namespace(split.train.X)
            problems = problems_of(
                [_base.as_numpy(mixture.predict_proba(xp.astype(r.X, xp.float64))) for r in present]
            )
            fit = ascend(problems, shared, max(1, settings.max_iter - n_shared))
        gain = sum(problem.value(A) for problem, A in zip(problems, fit.matrices, strict=True))
        found.append((fit, gain))
    return found


def _ascend(problems, start, max_iter, settings, n_jobs, random_state, advance) -> MetricFit:
    """Maximise the objectives of all problems from the same start, several at a time."""

    def watch_of(score):
        def observed(A):
            value = score(A)
            advance(value)
            return value

        return BestIterate(observed, settings.n_iter_no_change, settings.tol)

    if settings.solver == "anneal":
        # All components move together.
        def each(name, matrices):
            return [getattr(own, name)(A) for own, A in zip(problems, matrices, strict=True)]

        watch = watch_of(lambda matrices: sum(each("score", matrices)))
        annealed_ascent(
            lambda matrices: np.stack([slope for _, slope in each("objective", matrices)]),
            lambda matrices: float(sum(each("value", matrices))),
            np.stack([start] * len(problems)),
            watch,
            max_iter=max_iter,
            random_state=random_state,
            **_ANNEALING,
        )
        path, last = np.asarray(watch.scores), [matrices[-1] for matrices in watch.iterates]
        return MetricFit(watch.matrix, watch.scores[watch.best], [path], last, True)

    def ascend(problem):
        watch = watch_of(problem.score)
        # A component without rows has the shared metric.
        if not problem.has_rows:
            watch.update(start)
            return watch, True
        options = {"max_iter": max_iter, "tol": settings.tol}
        return watch, lbfgs_ascent(problem.objective, start, watch, **options)

    found = _base.thread_map(ascend, problems, n_jobs)
    watches = [watch for watch, _ in found]
    return MetricFit(
        np.stack([watch.matrix for watch in watches]),
        sum(watch.scores[watch.best] for watch in watches),
        [np.asarray(watch.scores) for watch in watches],
        watches[-1].iterates,
        all(finished for _, finished in found),
    )


# --- solvers --------------------------------------------------------------------------------------

Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]


class BestIterate:
    """Best matrix by a score, with early stopping.

    Parameters
    ----------
    score : callable
        Function of a matrix, to be maximised.
    n_iter_no_change : int or None
        Updates without improvement after which to stop; None never stops.
    min_gain : float, default=0.0
        Smallest rise that counts as an improvement; the better matrix is stored in any case.
    """

    def __init__(
        self,
        score: Callable[[np.ndarray], float],
        n_iter_no_change: int | None,
        min_gain: float = 0.0,
    ) -> None:
        self.score = score
        self.n_iter_no_change = n_iter_no_change
        self.min_gain = min_gain
        self.waited = 0
        self._mark = -np.inf
        self.scores: list[float] = []
        self.iterates: list[np.ndarray] = []
        self.best = -1

    def update(self, A: np.ndarray) -> bool:
        """Store ``A`` and its score; return whether to stop."""
        self.scores.append(float(self.score(A)))
        self.iterates.append(A.copy())
        if self.best < 0 or self.scores[-1] > self.scores[self.best]:
            self.best = len(self.scores) - 1
        improved = self.scores[-1] > self._mark + self.min_gain
        self._mark = self.scores[-1] if improved else self._mark
        self.waited = 0 if improved else self.waited + 1
        return self.has_stopped()

    def has_stopped(self) -> bool:
        """Return whether the score has not improved for ``n_iter_no_change`` updates."""
        return self.n_iter_no_change is not None and self.waited >= self.n_iter_no_change

    @property
    def matrix(self) -> np.ndarray:
        """The best iterate."""
        return self.iterates[self.best]


def lbfgs_ascent(
    objective: Objective, start: np.ndarray, watch: BestIterate, *, max_iter: int, tol: float
) -> bool:
    """Maximise by L-BFGS; return whether it ended before ``max_iter``.

    ``objective`` should be of order one (a mean over rows): the first step has unit length then,
    less than the start's own norm.
    """
    shape = start.shape

    def negative(flat):
        value, gradient = objective(flat.reshape(shape))
        return -value, -gradient.ravel()

    def callback(flat):
        if watch.update(flat.reshape(shape)):
            raise StopIteration

    watch.update(start)
    result = minimize(
        negative,
        start.ravel(),
        jac=True,
        method="L-BFGS-B",
        callback=callback,
        options={"maxiter": max_iter, "ftol": tol, "gtol": 1e-8},
    )
    return result.nit < max_iter or watch.has_stopped()


def annealed_ascent(
    gradient: Callable[[np.ndarray], np.ndarray],
    value: Callable[[np.ndarray], float],
    start: np.ndarray,
    watch: BestIterate,
    *,
    max_iter: int,
    temperature: float,
    cooling: float,
    step: float,
    noise: float,
    random_state: np.random.RandomState,
) -> None:
    """Maximise by simulated annealing (Algorithm 1 of the paper, with its sign corrected).

    A proposal adds to each matrix of a stack a step along its gradient, ``step`` of the matrix's
    norm long, and a normal random matrix of norm ``noise`` of it; all are accepted or refused
    together, with probability ``min(1, exp(gain / T))``, where ``gain`` is the change of ``value``
    (of order one) and ``T`` falls from ``temperature`` by the factor ``cooling`` each time.
    ``gradient`` may be a random estimate (from some rows); ``value`` is not.
    """
    matrices, current, slopes = start, value(start), None
    watch.update(matrices)
    for iteration in range(max_iter):
        if slopes is None:
            slopes = gradient(matrices)
        size, length = (
            np.linalg.norm(stack, axis=(1, 2), keepdims=True) for stack in (matrices, slopes)
        )
        shake = noise * size / np.sqrt(start[0].size) * random_state.standard_normal(start.shape)
        proposal = matrices + slopes * (step * size / np.maximum(length, 1e-300)) + shake
        proposed = value(proposal)
        gain = (proposed - current) / (temperature * float(cooling) ** iteration)
        # One random number per step, whatever the gain, so that equal seeds stay comparable.
        if np.log(random_state.uniform()) < gain:
            matrices, current, slopes = proposal, proposed, None
        if watch.update(matrices):
            return
