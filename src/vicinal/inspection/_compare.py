"""Cross-validated comparison of models on one table."""

import math
import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from html import escape
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import is_classifier
from sklearn.metrics import get_scorer
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    check_cv,
)
from sklearn.utils import check_random_state, indexable

from vicinal._base import Progress, _clock, check_fold_count
from vicinal._base._compat import rows_of
from vicinal._base._out_of_fold import OutOfFold
from vicinal.inspection._fold_cache import FoldCache
from vicinal.inspection._folds import FoldResult, FoldRunner, score
from vicinal.inspection._schedule import Schedule
from vicinal.inspection._worker_pool import WorkerPool


@dataclass(frozen=True)
class ComparisonEntry:
    """What one model reached.

    Attributes
    ----------
    name : str
        Name of the model.
    scores : ndarray of shape (n_finished_folds,)
        Score of every finished fold, higher is better.
    fit_seconds, predict_seconds : float
        Mean wall time of a fold.
    error : str
        Why the model could not be fitted; empty when it could.
    note : str
        How many folds are unfinished because time ran out, and the comparison with the first model
        on common folds; empty when all are finished.
    out_of_fold : OutOfFold or None
        The predictions behind the scores.
    folds : tuple of int
        Indices of the finished folds, in the order of ``scores``.
    """

    name: str
    scores: np.ndarray
    fit_seconds: float
    predict_seconds: float
    error: str = ""
    note: str = ""
    out_of_fold: OutOfFold | None = None
    folds: tuple[int, ...] = ()

    @property
    def mean(self) -> float:
        """Mean score over the folds."""
        return float(np.mean(self.scores)) if len(self.scores) else float("nan")

    @property
    def standard_error(self) -> float:
        """Standard error of the mean over the folds."""
        if len(self.scores) < 2:
            return float("nan")
        return float(np.std(self.scores, ddof=1) / np.sqrt(len(self.scores)))

    def versus(self, other: "ComparisonEntry") -> tuple[float, float] | None:
        """Return the mean scores of this and another model on the folds that both have finished.

        Parameters
        ----------
        other : ComparisonEntry
            An entry of the same comparison.

        Returns
        -------
        scores : tuple of two floats or None
            ``None`` if there is no common fold.
        """
        common = set(self.folds) & set(other.folds)
        if not common:
            return None
        mine, others = (
            float(np.mean([entry.scores[entry.folds.index(fold)] for fold in common]))
            for entry in (self, other)
        )
        return mine, others


@dataclass(frozen=True)
class Comparison:
    """Models ranked by their mean score; made by :func:`compare`.

    Attributes
    ----------
    entries : list of ComparisonEntry
        Best first; models with fewer finished folds come below those with more, without a rank,
        and models without a score last. Ranked models have finished the same folds.
    metric : str
        Name of the score.
    n_folds : int
        Number of folds.
    n_samples, n_features : int
        Shape of the table.
    folds : list of (ndarray, ndarray)
        Training and held-out rows of each fold.
    """

    entries: list[ComparisonEntry]
    metric: str
    n_folds: int
    n_samples: int
    n_features: int
    folds: list[tuple[np.ndarray, np.ndarray]] = field(default_factory=list, repr=False)

    @property
    def metric_label(self) -> str:
        """The metric as people say it: without ``neg_`` and underscores."""
        return self.metric.removeprefix("neg_").replace("_", " ")

    @property
    def sign(self) -> int:
        """-1 when the metric is a loss that scikit-learn negates, else 1."""
        return -1 if self.metric.startswith("neg_") else 1

    @property
    def ranks(self) -> list[int | None]:
        """The rank of each entry; ``None`` for one without a score or on other folds."""
        return [
            rank if len(entry.scores) and entry.folds == self.entries[0].folds else None
            for rank, entry in enumerate(self.entries, start=1)
        ]

    @property
    def unfinished(self) -> list[ComparisonEntry]:
        """The entries that lack folds because time ran out."""
        missing = [entry for entry in self.entries if len(entry.scores) < self.n_folds]
        return [entry for entry in missing if not entry.error]

    @property
    def warning(self) -> str:
        """Which models are unfinished and what the ranks mean; empty if all are finished."""
        if not self.unfinished:
            return ""
        best = self.entries[0]
        parts = []
        for entry in self.unfinished:
            both = entry.versus(best)
            ahead = " and ahead on them" if both and both[0] > both[1] else ""
            parts.append(f"{entry.name} ({len(entry.scores)} of {self.n_folds} folds{ahead})")
        ranked = f"the models that have {len(best.scores)} of {self.n_folds} folds"
        return (
            f"Unfinished: {', '.join(parts)}. Ranks compare {ranked}; a longer time budget "
            "finishes the others."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the leaderboard as plain values, without the answers of the models."""
        return {
            "metric": self.metric,
            "n_folds": self.n_folds,
            "n_samples": self.n_samples,
            "n_features": self.n_features,
            "unfinished": [entry.name for entry in self.unfinished],
            "models": [
                {"rank": rank, **_plain_entry(entry)}
                for rank, entry in zip(self.ranks, self.entries, strict=True)
            ],
        }

    def fold_of(self, entry: ComparisonEntry) -> tuple[np.ndarray, np.ndarray]:
        """Return training and held-out rows of the largest fold that a model has finished.

        Fitted again on these training rows, it gives the answers that it gave in the comparison.

        Parameters
        ----------
        entry : ComparisonEntry
            One that has scores.

        Returns
        -------
        train, held_out : ndarray of int
            Rows of the table.
        """
        rows = entry.out_of_fold.rows if entry.out_of_fold else np.empty(0, dtype=int)
        finished = [fold for fold in self.folds if np.isin(fold[1], rows).all()]
        if not finished:
            raise ValueError(f"{entry.name!r} has finished no fold.")
        return max(finished, key=lambda fold: len(fold[0]))

    def _repr_html_(self) -> str:
        direction = "higher" if self.sign > 0 else "lower"
        names = ("", "model", self.metric_label, "± se", "fit s", "predict s", "")
        head = "".join(f"<th>{escape(name)}</th>" for name in names)
        body = "".join(
            f"<tr><td>{rank or '–'}</td><td style='text-align: left'>{escape(entry.name)}</td>"
            + _html_cells(entry, self.sign)
            + "</tr>"
            for rank, entry in zip(self.ranks, self.entries, strict=True)
        )
        return (
            f"<p>{self.n_samples:,} rows, {self.n_features:,} columns; {self.n_folds}-fold "
            f"{escape(self.metric_label)}, {direction} is better</p>"
            + (f"<p>{escape(self.warning)}</p>" if self.warning else "")
            + f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )

    def __str__(self) -> str:
        width = max(len(entry.name) for entry in self.entries)
        direction = "higher" if self.sign > 0 else "lower"
        lines = [
            f"{self.n_samples} rows, {self.n_features} columns, {self.n_folds}-fold "
            f"{self.metric_label}, {direction} is better",
            *filter(None, [self.warning]),
            f"{'':4}{'model':<{width}}  {'score':>8}  {'± se':>7}  {'fit s':>7}  {'predict s':>9}",
        ]
        for rank, entry in zip(self.ranks, self.entries, strict=True):
            if not len(entry.scores):
                reason = f"failed: {entry.error}" if entry.error else entry.note
                lines.append(f"{'-':>2}  {entry.name:<{width}}  {reason}")
                continue
            lines.append(
                f"{rank or '-':>2}  {entry.name:<{width}}  {self.sign * entry.mean:8.4f}"
                f"  {_spread(entry):>7}"
                f"  {entry.fit_seconds:7.2f}  {entry.predict_seconds:9.3f}"
                + (f"  {entry.note}" if entry.note else "")
            )
        return "\n".join(lines)


def compare(
    models: Mapping[str, Any],
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    groups: Any = None,
    sample_weight: Any = None,
    metric: str | None = None,
    positive: Any = None,
    encoder: Any = None,
    time_budget: float | None = None,
    cache: str | os.PathLike | None = None,
    n_jobs: int | None = None,
    random_state: Any = 0,
    callback: Callable[[Comparison], None] | None = None,
    verbose: int = 0,
) -> Comparison:
    """Cross-validate every model on the same folds and rank them.

    A model that raises is listed with its message instead of ending the comparison. A classifier
    that gives probabilities is judged by them: its label is the most probable class.

    Parameters
    ----------
    models : mapping of str to estimator
        Unfitted estimators by name; they are cloned.
    X : array-like or data frame of shape (n_samples, n_features)
        Table of features.
    y : array-like of shape (n_samples,)
        Target.
    cv : int, splitter or iterable, default=5
        Number of folds, shuffled, stratified for classifiers; or any splitter of scikit-learn, or
        pairs of training and test rows.
    groups : array-like of shape (n_samples,), default=None
        Rows of one group are never in two folds, nor apart where a model that takes groups holds
        rows out itself.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows, for scores and for models that take them.
    metric : str, default=None
        Any scikit-learn scorer name; ``None`` is accuracy for classifiers and R² for regressors.
    positive : label, default=None
        The class of two that scores such as f1, recall and average precision are about.
    encoder : transformer, default=None
        Turns rows of the table into what the models take. It is fitted on the training rows of
        each fold, once for all models, and its time is not counted as theirs. A model that takes
        words as they are gets the rows as they are.
    time_budget : float, default=None
        Seconds for all models together, starts of processes and encoding included; ``None`` waits
        for every fold. Cheap models finish first: the first fold of a model measures its cost and
        may take an equal share of the time; then folds run in the order of their cost. A fold that
        takes too long is stopped; when time is left in the end, its model gets it. Half of the
        seconds are reserved for models with the parameter ``max_fit_time``, which plan their time:
        each of their folds is told its part of them, and is not stopped before the end. A model
        that lacks folds is listed below the others, compared with the first on common folds.
        Results of a cache cost nothing.
    cache : path-like, default=None
        Folder in which the answers of every finished fold are kept. The same call again, also
        after a crash, computes only the folds that are missing there.
    n_jobs : int, default=None
        Number of folds that run at a time, each in its own process with its share of the cores.
        ``None`` runs them in this process, unless ``time_budget`` asks for a process that can be
        stopped.
    random_state : int, RandomState instance or None, default=0
        Draws the folds.
    callback : callable, default=None
        Called with the leaderboard so far whenever a fold has ended.
    verbose : int, default=0
        1 shows progress.

    Returns
    -------
    Comparison
        The leaderboard; ``print`` it.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.dummy import DummyClassifier
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from vicinal.inspection import compare
    >>> models = {"guess": DummyClassifier(), "5-NN": KNeighborsClassifier()}
    >>> board = compare(models, *load_wine(return_X_y=True))
    >>> [entry.name for entry in board.entries]
    ['5-NN', 'guess']
    """
    started = _clock.now()
    if not models:
        raise ValueError("models is empty; name at least one model to compare.")
    if time_budget is not None and not time_budget > 0:
        raise ValueError(f"time_budget={time_budget!r} must be positive; None waits for all.")
    X, y, groups, sample_weight = indexable(X, y, groups, sample_weight)
    classification = all(is_classifier(model) for model in models.values())
    metric = metric or ("accuracy" if classification else "r2")
    get_scorer(metric)  # an unknown name is an error before any work
    if positive is not None and (len(np.unique(y)) != 2 or positive not in np.unique(y)):
        raise ValueError(f"positive={positive!r} must be one of two classes.")
    weights = None if sample_weight is None else np.asarray(sample_weight, dtype=float)
    folds = _folds(cv, y, groups, classification, random_state)
    groups = None if groups is None else np.asarray(groups)
    runner = FoldRunner(dict(models), X, y, folds, encoder, weights, groups)
    stored = None if cache is None else FoldCache(cache, X, y, folds, encoder, weights, groups)
    with Progress(len(models) * len(folds), "comparing", verbose=verbose) as progress:
        board = _Board(runner, metric, stored, progress, callback, positive)
        if time_budget is None and n_jobs is None:
            _run_here(board)
        elif board.todo:
            n_workers = min(effective_n_jobs(n_jobs or 1), len(board.todo))
            end = math.inf if time_budget is None else started + time_budget
            _run_in_workers(board, n_workers, end)
    return board.comparison()


def _folds(cv, y, groups, classification, random_state) -> list[tuple[np.ndarray, np.ndarray]]:
    if isinstance(cv, int | np.integer):
        if classification:
            check_fold_count(int(cv), np.unique(y, return_counts=True)[1])
        by_group = (GroupKFold, StratifiedGroupKFold)[classification]
        plain = (KFold, StratifiedKFold)[classification]
        splitter = (plain if groups is None else by_group)(
            cv, shuffle=True, random_state=check_random_state(random_state)
        )
    else:
        splitter = check_cv(cv, y, classifier=classification)
    return list(splitter.split(np.zeros((len(y), 1)), y, groups))


class _Board:
    """The tasks that are left and the results so far."""

    def __init__(self, runner, metric, cache, progress, callback, positive=None) -> None:
        self.runner, self.metric, self.cache = runner, metric, cache
        self.positive = positive
        self.progress, self.callback = progress, callback
        self.results: dict[str, dict[int, FoldResult]] = {name: {} for name in runner.models}
        self.scores: dict[str, dict[int, float]] = {name: {} for name in runner.models}
        self.errors: dict[str, str] = {}
        self.stopped: dict[str, float] = {}  # and the seconds that were not enough
        self.classes = _all_classes(runner)
        self.n_folds = len(runner.folds)
        self.todo = [(name, k) for k in range(self.n_folds) for name in runner.models]
        for name, fold in list(self.todo) if cache else []:
            known = cache.read(runner.models[name], fold)
            if known is not None:
                self.todo.remove((name, fold))
                self._add(name, fold, known)

    def finish(self, task: tuple[str, int], result: FoldResult) -> None:
        """Take the result of a fold; an error ends the row of its model."""
        if self.cache is not None and not result.error:
            self.cache.write(self.runner.models[task[0]], task[1], result)
        self._add(*task, result)
        if self.callback is not None:
            self.callback(self.comparison())

    def give_up(self, name: str, seconds: float) -> None:
        """Skip the folds that a model has not finished, for the time being."""
        self.stopped[name] = max(seconds, self.stopped.get(name, 0.0))
        self.todo = [task for task in self.todo if task[0] != name]
        if self.callback is not None:
            self.callback(self.comparison())

    def take_up(self, seconds: float) -> None:
        """Put back the folds of the stopped model that most likely finishes one in ``seconds``."""
        hopeful = [name for name, given in self.stopped.items() if 1.2 * given < seconds]
        if hopeful:
            name = min(hopeful, key=lambda name: self.seconds(name) or self.stopped[name])
            del self.stopped[name]
            missing = [k for k in range(self.n_folds) if k not in self.results[name]]
            self.todo = [(name, fold) for fold in missing]

    def seconds(self, name: str) -> float:
        """Return how long the slowest finished fold of a model took; 0 without one."""
        return max((result.seconds for result in self.results[name].values()), default=0.0)

    def comparison(self) -> Comparison:
        """Return the leaderboard as it stands."""
        runner = self.runner
        names = [name for name in runner.models if self._has_something_to_say(name)]
        entries = [self._entry(name) for name in names]
        # Ranked are the models with the most folds, on the same ones.
        counts = Counter(entry.folds for entry in entries)
        most = max(counts, key=lambda folds: (len(folds), counts[folds]), default=())
        entries.sort(
            key=lambda entry: (entry.folds != most, -len(entry.scores), -np.nan_to_num(entry.mean))
        )
        entries = [self._with_note(entry, entries[0]) for entry in entries]
        n_samples, n_features = len(runner.y), np.shape(runner.X)[1]
        return Comparison(entries, self.metric, self.n_folds, n_samples, n_features, runner.folds)

    def _has_something_to_say(self, name) -> bool:
        return bool(self.scores[name]) or name in self.errors or name in self.stopped

    def _add(self, name, fold, result) -> None:
        if name in self.errors:
            return
        try:
            if result.error:
                raise _Failed(result.error)
            rows, weights = self.runner.folds[fold][1], self.runner.sample_weight
            self.scores[name][fold] = score(
                result,
                rows_of(self.runner.y, rows),
                self.metric,
                None if weights is None else weights[rows],
                self.positive,
            )
            self.results[name][fold] = result
        except Exception as error:
            text = str(error) if isinstance(error, _Failed) else f"{type(error).__name__}: {error}"
            self.errors[name] = text.splitlines()[0]
            self.scores[name].clear()
            self.todo = [task for task in self.todo if task[0] != name]
            self.progress.advance(note=f"{name} failed")
            return
        mean = np.mean(list(self.scores[name].values()))
        self.progress.advance(note=f"{name} {abs(mean):.4f}")

    def _entry(self, name) -> ComparisonEntry:
        if name in self.errors:
            return ComparisonEntry(name, np.array([]), np.nan, np.nan, self.errors[name])
        done = sorted(self.results[name])
        results = [self.results[name][fold] for fold in done]
        return ComparisonEntry(
            name,
            np.array([self.scores[name][fold] for fold in done]),
            float(np.mean([result.fit_seconds for result in results])) if done else np.nan,
            float(np.mean([result.predict_seconds for result in results])) if done else np.nan,
            out_of_fold=self._out_of_fold(done, results),
            folds=tuple(done),
        )

    def _with_note(self, entry, best) -> ComparisonEntry:
        if len(entry.folds) == self.n_folds or entry.name not in self.stopped:
            return entry
        note = f"unfinished: {len(entry.folds)} of {self.n_folds} folds"
        both = entry.versus(best)
        if both and entry.folds != best.folds:
            sign = -1 if self.metric.startswith("neg_") else 1
            mine, others = (f"{sign * value:.4f}" for value in both)
            note += f"; {mine} versus {others} of {best.name} on common folds"
        return replace(entry, note=note)

    def _out_of_fold(self, done, results) -> OutOfFold | None:
        if not done:
            return None
        rows = np.concatenate([self.runner.folds[fold][1] for fold in done])
        order = np.argsort(rows)
        prediction = np.concatenate([result.prediction for result in results])[order]
        proba = None
        if self.classes is not None and all(result.proba is not None for result in results):
            aligned = [_aligned(result.proba, result.classes, self.classes) for result in results]
            proba = np.concatenate(aligned)[order]
        return OutOfFold(rows[order], prediction, proba, self.classes)


class _Failed(Exception):
    """Carries the message of a fold that failed in its own place."""


def _all_classes(runner) -> np.ndarray | None:
    if not all(is_classifier(model) for model in runner.models.values()):
        return None
    return np.unique(np.asarray(runner.y))


def _aligned(proba: np.ndarray, known: np.ndarray, classes: np.ndarray) -> np.ndarray:
    """Spread probabilities over all classes; a fold may have missed a rare one."""
    if len(known) == len(classes):
        return proba
    full = np.zeros((len(proba), len(classes)), dtype=proba.dtype)
    full[:, np.searchsorted(classes, known)] = proba
    return full


def _run_here(board: _Board) -> None:
    while board.todo:
        task = board.todo.pop(0)
        board.finish(task, board.runner.run(*task))


def _run_in_workers(board: _Board, n_workers: int, end: float) -> None:
    """Run the folds in processes until ``end``."""
    with WorkerPool(board.runner, n_workers) as pool:
        schedule = Schedule(board, board.runner.planners(), n_workers, end - _clock.now())
        while board.todo or pool.busy:
            left = end - _clock.now()
            if left <= 0:
                for name in {name for name, _ in (*board.todo, *pool.tasks)}:
                    board.give_up(name, math.inf)
                return
            if board.todo and pool.has_room():
                schedule.restart = pool.start_seconds
                turn = schedule.next(left)
                if turn is not None:
                    pool.submit(*turn)
            else:
                _wait(board, pool, left)
            if not board.todo and not pool.busy:
                schedule.use_what_is_left(end - _clock.now())


def _wait(board: _Board, pool: WorkerPool, left: float) -> None:
    ended = pool.wait(left)
    if ended is None:
        return
    (name, fold), result, limit = ended
    if result is None:
        board.give_up(name, limit)
    else:
        board.finish((name, fold), result)


def _spread(entry: ComparisonEntry) -> str:
    """Return the standard error as text; a single fold has none."""
    return "" if math.isnan(entry.standard_error) else f"{entry.standard_error:.4f}"


def _html_cells(entry: ComparisonEntry, sign: int) -> str:
    if not len(entry.scores):
        reason = f"failed: {entry.error}" if entry.error else entry.note
        return f"<td colspan='5' style='text-align: left'>{escape(reason)}</td>"
    cells = (
        f"{sign * entry.mean:.4f}",
        _spread(entry),
        f"{entry.fit_seconds:.2f}",
        f"{entry.predict_seconds:.3f}",
        escape(entry.note),
    )
    return "".join(f"<td>{cell}</td>" for cell in cells)


def _plain_entry(entry: ComparisonEntry) -> dict[str, Any]:
    numbers = {
        "score": entry.mean,
        "standard_error": entry.standard_error,
        "fit_seconds": entry.fit_seconds,
        "predict_seconds": entry.predict_seconds,
    }
    return {
        "name": entry.name,
        **{key: None if math.isnan(value) else value for key, value in numbers.items()},
        "folds": list(entry.folds),
        "fold_scores": [float(value) for value in entry.scores],
        "error": entry.error,
        "note": entry.note,
    }
