"""The learning of local metrics, as objectives that the solvers can climb."""

from collections.abc import Callable
from typing import Any, NamedTuple

import array_api_compat as compat
import numpy as np

from vicinal._kernels._local_metrics import (
    Anchors,
    References,
    expected_accuracy,
    own_class_probabilities,
)
from vicinal._kernels._metric_solvers import (
    BestIterate,
    adam_ascent,
    annealed_ascent,
    lbfgs_ascent,
)
from vicinal._kernels._uncertainty import class_bounds, mean_neighbor_distance

# Rows for which a component answers less than this are left out of its learning.
_LEAST_RESPONSIBILITY = 1e-3
# Adam: rows of a batch, and the step as a part of the start's entries.
_BATCH_SIZE = 256
_LEARNING_RATE = 0.05
# Annealing: rows of a random gradient, length of a step and of the noise as parts of the matrix.
_BATCH_PART = 0.1
_STEP = 0.1
_NOISE = 0.02
# Factors tried for the softness of votes, and rows asked about them.
_SOFTNESS = 2.0 ** np.arange(-1.0, 4.5, 0.5)
_SOFTNESS_ROWS = 2000
_SCALE_ROWS = 2000


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
    """Expected accuracy of one component as a function of its matrix.

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
    n_jobs : int or None
        Threads.
    """

    def __init__(self, train, held_out, n_classes, shares, held_out_shares, n_jobs=None):
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
        """Return the component's part of G / N, and its gradient."""
        value, gradient = expected_accuracy(A, self.anchors, self.references, n_jobs=self.n_jobs)
        self._remember(A, value / self.total)
        return value / self.total, gradient / self.total

    def value(self, A: np.ndarray) -> float:
        """Return the component's part of G / N."""
        known = self._known.get(A.tobytes())
        if known is None:
            known = self._expect(A, self.anchors) / self.total
            self._remember(A, known)
        return known

    def batch_objective(self, A: np.ndarray, batch: np.ndarray) -> tuple[float, np.ndarray]:
        """Return the objective estimated from some anchors, as ascending positions among them."""
        rows = self.rows[batch]
        anchors = self.train.as_anchors(self.shares, self.n_classes, rows, are_references=True)
        value, gradient = expected_accuracy(A, anchors, self.references, n_jobs=self.n_jobs)
        scale = len(self.rows) / (len(batch) * self.total)
        return value * scale, gradient * scale

    def score(self, A: np.ndarray) -> float:
        """Return what is watched: the expected accuracy on rows held out, else the objective."""
        if self.watched is None:
            return self.value(A)
        return self._expect(A, self.watched) / self.watched_total

    def sampled_objective(
        self, fraction: float, rng: np.random.RandomState
    ) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
        """Return an objective whose gradient comes from a fresh random part of the anchors."""
        size = max(1, round(fraction * len(self.rows)))

        def objective(A):
            batch = np.sort(rng.choice(len(self.rows), size, replace=False))
            return self.batch_objective(A, batch)

        return objective

    def _expect(self, A, anchors):
        if anchors.X.shape[0] == 0:
            return 0.0
        value, _ = expected_accuracy(
            A, anchors, self.references, gradient=False, n_jobs=self.n_jobs
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


def start_score(
    train: SortedRows,
    held_out: SortedRows | None,
    judges: np.ndarray,
    n_classes: int,
    n_jobs: int | None = None,
) -> float:
    """Return the expected accuracy of a start, before any learning, on some rows.

    ``judges`` are positions in ``held_out``, or in ``train`` if there are none held out.
    """
    rows = train if held_out is None else held_out
    A = np.eye(train.X.shape[1]) / np.sqrt(nearest_scale(train, n_jobs))
    anchors = rows.as_anchors(
        np.ones(len(rows.codes)), n_classes, judges, are_references=held_out is None
    )
    value, _ = expected_accuracy(
        A, anchors, train.as_references(n_classes), gradient=False, n_jobs=n_jobs
    )
    return value / float(rows.weights[judges].sum())


def choose_softness(
    matrices: np.ndarray,
    voters: SortedRows,
    shares: np.ndarray,
    n_classes: int,
    rng: np.random.RandomState,
    n_jobs: int | None = None,
) -> float:
    """Choose the factor to divide all matrices by, by leave-one-out log-likelihood of the votes.

    Expected accuracy, which the metrics climb, does not mind votes that are too sure of themselves;
    the likelihood does. At most 2,000 rows are asked.
    """
    asked = np.arange(len(voters.codes))
    if len(asked) > _SOFTNESS_ROWS:
        asked = np.sort(rng.choice(len(asked), _SOFTNESS_ROWS, replace=False))
    references = voters.as_references(n_classes)
    anchors = voters.as_anchors(np.ones(len(voters.codes)), n_classes, asked, are_references=True)
    weights = voters.weights[asked]
    scores = []
    for softness in _SOFTNESS:
        p = sum(
            shares[asked, k]
            * own_class_probabilities(A / softness, anchors, references, n_jobs=n_jobs)
            for k, A in enumerate(matrices)
        )
        scores.append(float(weights @ np.log(np.maximum(p, 1e-6))))
    return float(_SOFTNESS[int(np.argmax(scores))])


class Climb(NamedTuple):
    """What a solver reached on some problems."""

    matrices: np.ndarray  # (K, q, m), the best ones by the score watched
    score: float  # sum of the scores of the problems
    paths: list[np.ndarray]  # score after each iteration: per problem, or of all together
    iterates: list[np.ndarray]  # matrices after each iteration, of the last problem
    finished: bool  # whether a stopping rule was met within max_iter


def climb(problems: list[MetricProblem], start: np.ndarray, max_iter: int, options: dict) -> Climb:
    """Climb the objectives of all problems from the same start.

    ``options`` has ``solver``, ``patience``, ``tol``, ``temperature``, ``cooling``,
    ``random_gradient``, ``random_state`` and ``progress``, a function called at each iteration.
    """
    if options["solver"] == "anneal":
        return _anneal(problems, start, max_iter, options)
    watches, finished = [], True
    for problem in problems:
        watch = _watch(problem.score, options)
        watches.append(watch)
        # A component that nobody listens to keeps the metric that all share.
        if not problem.has_rows():
            watch.update(start)
        elif options["solver"] == "lbfgs":
            finished &= lbfgs_ascent(
                problem.objective, start, watch, max_iter=max_iter, tol=options["tol"]
            )
        else:
            adam_ascent(
                problem.batch_objective,
                len(problem.rows),
                start,
                watch,
                max_iter=max_iter,
                batch_size=int(np.clip(len(problem.rows) // 8, 16, _BATCH_SIZE)),
                learning_rate=_LEARNING_RATE,
                random_state=options["random_state"],
            )
    return Climb(
        np.stack([watch.matrix for watch in watches]),
        sum(watch.scores[watch.best] for watch in watches),
        [np.asarray(watch.scores) for watch in watches],
        watches[-1].iterates,
        finished,
    )


def _anneal(problems, start, max_iter, options):
    rng = options["random_state"]
    if options["random_gradient"] == "rows":
        objectives = [problem.sampled_objective(_BATCH_PART, rng) for problem in problems]
    else:
        objectives = [problem.objective for problem in problems]

    def score(matrices):
        return sum(problem.score(A) for problem, A in zip(problems, matrices, strict=True))

    watch = _watch(score, options)
    annealed_ascent(
        objectives,
        [problem.value for problem in problems],
        [start] * len(problems),
        watch,
        max_iter=max_iter,
        temperature=options["temperature"],
        cooling=options["cooling"],
        step=_STEP,
        noise=_NOISE,
        random_state=rng,
    )
    return Climb(
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
