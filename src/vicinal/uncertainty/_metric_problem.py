"""The learning of local metrics, as objectives that solvers can maximise."""

from collections.abc import Callable
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np

from vicinal._base import draw_seeds, thread_map
from vicinal._kernels.metric._soft_votes import (
    Anchors,
    References,
    expected_accuracy,
    own_class_probabilities,
)
from vicinal._kernels.metric._solvers import (
    BestIterate,
    adam_ascent,
    annealed_ascent,
    lbfgs_ascent,
)
from vicinal._kernels.metric._uncertainty import class_bounds, mean_neighbor_distance

# Rows for which a component answers less than this are left out of its learning.
_LEAST_RESPONSIBILITY = 1e-3
# Adam: rows of a batch, and the step as a part of the start's entries.
_BATCH_SIZE = 256
_LEARNING_RATE = 0.05
# Annealing: the first temperature as a part of the number of rows (the source's 200 at its 2,345),
# its factor after each iteration, and a step and the noise as parts of the matrix.
_TEMPERATURE = 0.085
_COOLING = 0.925
_STEP = 0.1
_NOISE = 0.02
_SCALE_ROWS = 2000
# Factors tried for the sharpness of a start: at one, the nearest row is one away on average.
_SHARPNESS = 2.0 ** np.arange(-3.0, 5.5, 0.5)


class SortedRows(NamedTuple):
    """Whitened rows sorted by class; codes and weights are on the host."""

    X: Any
    codes: np.ndarray
    weights: np.ndarray

    @classmethod
    def of(cls, X: Any, codes: np.ndarray, weights: np.ndarray, chosen: np.ndarray) -> "SortedRows":
        """Sort the rows named by ``chosen`` by class."""
        xp = compat.array_namespace(X)
        order = chosen[np.argsort(codes[chosen], kind="stable")]
        rows = xp.take(X, xp.asarray(order, device=compat.device(X)), axis=0)
        return cls(rows, codes[order], weights[order])

    def as_references(self, n_classes: int) -> References:
        """All rows, as voters."""
        xp = compat.array_namespace(self.X)
        log_weights = xp.asarray(
            np.log(self.weights), dtype=self.X.dtype, device=compat.device(self.X)
        )
        return References(self.X, class_bounds(self.codes, n_classes), log_weights)

    def as_anchors(
        self, shares: np.ndarray, n_classes: int, chosen: np.ndarray, *, are_references: bool
    ) -> Anchors:
        """Return the rows ``chosen``, scored in proportion to ``shares``."""
        xp, device = compat.array_namespace(self.X), compat.device(self.X)
        index = xp.asarray(chosen, device=device)
        weights = (shares * self.weights)[chosen]
        return Anchors(
            xp.take(self.X, index, axis=0),
            class_bounds(self.codes[chosen], n_classes),
            xp.asarray(weights, dtype=self.X.dtype, device=device),
            index if are_references else None,
        )


class MetricProblem:
    """What one component gains by classifying the rows it answers for, as a function of its matrix.

    Parameters
    ----------
    train : SortedRows
        Rows to learn from; they are also the voters.
    held_out : SortedRows or None
        Rows to watch.
    n_classes : int
        Number of classes.
    shares, held_out_shares : ndarray
        Responsibility of the component for each row of ``train`` and ``held_out``.
    floor : float or None
        None: rows count by the probability ``p`` of their class; else by
        ``log((p + floor) / (1 + floor))``.
    n_jobs : int or None
        Threads.
    """

    def __init__(
        self, train, held_out, n_classes, shares, held_out_shares, floor=None, n_jobs=None
    ):
        self.floor = floor
        self.train = train
        self.n_classes = n_classes
        self.shares = shares
        self.n_jobs = n_jobs
        self.references = train.as_references(n_classes)
        self.rows = np.flatnonzero(shares >= _LEAST_RESPONSIBILITY)
        self.anchors = train.as_anchors(shares, n_classes, self.rows, are_references=True)
        self.total = float(train.weights.sum())
        self.watched = None
        if held_out is not None:
            seen = np.flatnonzero(held_out_shares >= _LEAST_RESPONSIBILITY)
            self.watched = held_out.as_anchors(
                held_out_shares, n_classes, seen, are_references=False
            )
            self.watched_total = float(held_out.weights.sum())
        self._known: dict[bytes, float] = {}

    def has_rows(self) -> bool:
        """Whether the component answers for at least one row."""
        return float(self.shares.sum()) >= 1.0

    def objective(self, A: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the component's part of the mean gain, and its gradient."""
        return self._estimate(A, self.anchors, 1.0 / self.total, remember=True)

    def value(self, A: np.ndarray) -> float:
        """Return the component's part of the mean gain."""
        known = self._known.get(A.tobytes())
        if known is None:
            known = self._expect(A, self.anchors) / self.total
            self._remember(A, known)
        return known

    def batch_objective(self, A: np.ndarray, batch: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the objective estimated from some anchors, as ascending positions among them."""
        rows = self.rows[batch]
        anchors = self.train.as_anchors(self.shares, self.n_classes, rows, are_references=True)
        return self._estimate(A, anchors, len(self.rows) / (len(batch) * self.total))

    def score(self, A: np.ndarray) -> float:
        """Return what is watched: the mean gain on the rows held out, or that on the others."""
        if self.watched is None:
            return self.value(A)
        return self._expect(A, self.watched) / self.watched_total

    def _estimate(self, A, anchors, scale, *, remember=False):
        value, gradient = expected_accuracy(
            A, anchors, self.references, floor=self.floor, n_jobs=self.n_jobs
        )
        if remember:
            self._remember(A, value * scale)
        return value * scale, gradient * scale

    def _expect(self, A, anchors):
        if anchors.X.shape[0] == 0:
            return 0.0
        value, _ = expected_accuracy(
            A, anchors, self.references, floor=self.floor, gradient=False, n_jobs=self.n_jobs
        )
        return value

    def _remember(self, A, value):
        # Solvers ask again for points they have just passed; a few are enough.
        if len(self._known) >= 8:
            self._known.pop(next(iter(self._known)))
        self._known[A.tobytes()] = value


def nearest_scale(rows: SortedRows, n_jobs: int | None = None) -> float:
    """Return the mean squared distance to the nearest row, or to a farther one where it is zero."""
    xp, n = compat.array_namespace(rows.X), rows.X.shape[0]
    X = xp.astype(rows.X, xp.float64)
    weights = xp.asarray(rows.weights, dtype=xp.float64, device=compat.device(X))
    for k in (1, 7, n - 1):
        scale = mean_neighbor_distance(
            X, min(k, n - 1), weights, n_asked=_SCALE_ROWS, n_jobs=n_jobs
        )
        if scale > 1e-12:
            return scale
    return 1.0


def best_start(
    train: SortedRows,
    held_out: SortedRows | None,
    scored: np.ndarray,
    n_classes: int,
    n_jobs: int | None = None,
) -> tuple[float, float]:
    """Return the greatest log-likelihood of soft votes in a multiple of the identity, and that.

    ``scored`` are positions in ``held_out``, or in ``train`` if there are none held out.
    """
    rows = train if held_out is None else held_out
    unit = 1.0 / np.sqrt(nearest_scale(train, n_jobs))
    identity = np.eye(train.X.shape[1])
    references = train.as_references(n_classes)
    anchors = rows.as_anchors(
        np.ones(len(rows.codes)), n_classes, scored, are_references=held_out is None
    )
    weights = rows.weights[scored]

    def likelihood(sharpness):
        p = own_class_probabilities(sharpness * unit * identity, anchors, references, n_jobs=n_jobs)
        return _log_likelihood(p, weights)

    best, score = _ascend_grid(likelihood, _SHARPNESS)
    return score, best * unit


def _log_likelihood(p: np.ndarray, weights: np.ndarray) -> float:
    # One hopeless row must not decide.
    return float(weights @ np.log(np.maximum(p, 1e-6))) / float(weights.sum())


def _ascend_grid(score: Callable[[float], float], grid: np.ndarray) -> tuple[float, float]:
    """Return the place of a peak of ``score`` on an ascending grid, uphill from one, and it."""
    known: dict[int, float] = {}

    def at(i):
        if i not in known:
            known[i] = score(float(grid[i]))
        return known[i]

    i = int(np.argmin(np.abs(grid - 1.0)))
    step = 1 if i + 1 < len(grid) and at(i + 1) > at(i) else -1
    while 0 <= i + step < len(grid) and at(i + step) > at(i):
        i += step
    return float(grid[i]), at(i)


class MetricFit(NamedTuple):
    """What a solver reached on some problems."""

    matrices: np.ndarray  # (K, q, m), the best ones by the score watched
    score: float  # sum of the scores of the problems
    paths: list[np.ndarray]  # score after each iteration: per problem, or of all together
    iterates: list[np.ndarray]  # matrices after each iteration, of the last problem
    finished: bool  # whether a stopping rule was met within max_iter


def fit_metrics(
    problems: list[MetricProblem], start: np.ndarray, max_iter: int, options: dict
) -> MetricFit:
    """Maximise the objectives of all problems from the same start, several at a time.

    ``options`` has ``solver``, ``patience``, ``tol``, ``random_state``, ``n_jobs`` (problems at a
    time), and ``progress``, a function called at each iteration.
    """
    if options["solver"] == "anneal":
        return _anneal(problems, start, max_iter, options)
    seeds = draw_seeds(options["random_state"], len(problems))

    def ascend(task):
        problem, seed = task
        watch = _watch(problem.score, options)
        # A component that nobody listens to keeps the metric that all share.
        if not problem.has_rows():
            watch.update(start)
            return watch, True
        if options["solver"] == "lbfgs":
            return watch, lbfgs_ascent(
                problem.objective, start, watch, max_iter=max_iter, tol=options["tol"]
            )
        adam_ascent(
            problem.batch_objective,
            len(problem.rows),
            start,
            watch,
            max_iter=max_iter,
            batch_size=int(np.clip(len(problem.rows) // 8, 16, _BATCH_SIZE)),
            learning_rate=_LEARNING_RATE,
            random_state=np.random.RandomState(seed),
        )
        return watch, True

    found = thread_map(ascend, zip(problems, seeds, strict=True), options["n_jobs"])
    watches = [watch for watch, _ in found]
    return MetricFit(
        np.stack([watch.matrix for watch in watches]),
        sum(watch.scores[watch.best] for watch in watches),
        [np.asarray(watch.scores) for watch in watches],
        watches[-1].iterates,
        all(finished for _, finished in found),
    )


def _anneal(problems, start, max_iter, options):

    def score(matrices):
        return sum(problem.score(A) for problem, A in zip(problems, matrices, strict=True))

    watch = _watch(score, options)
    annealed_ascent(
        [problem.objective for problem in problems],
        [problem.value for problem in problems],
        [start] * len(problems),
        watch,
        max_iter=max_iter,
        temperature=_TEMPERATURE,
        cooling=_COOLING,
        step=_STEP,
        noise=_NOISE,
        random_state=options["random_state"],
    )
    return MetricFit(
        watch.matrix,
        watch.scores[watch.best],
        [np.asarray(watch.scores)],
        [matrices[-1] for matrices in watch.iterates],
        True,
    )


def _watch(score, options):
    """Watch the score, telling the progress bar of each value."""

    def observed(A):
        value = score(A)
        options["progress"](value)
        return value

    return BestIterate(observed, options["patience"], options["tol"])
