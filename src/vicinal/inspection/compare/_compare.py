"""Cross-validated comparison of models on one table."""

import math
import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import clone, is_classifier
from sklearn.metrics import get_scorer
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold
from sklearn.utils import check_random_state, indexable

from vicinal._base import Progress, _clock, check_fold_count
from vicinal._base._compat import rows_of
from vicinal._base._held_out import OutOfFold, aligned_columns
from vicinal.inspection.checks import is_classification
from vicinal.inspection.compare._comparison import Comparison, ComparisonEntry
from vicinal.inspection.compare._folds import FoldCache, FoldResult, FoldRunner, WorkerPool, score
from vicinal.table import TableEncoder


def compare(
    models: Mapping[str, Any] | None,
    X: Any,
    y: Any,
    *,
    cv: Any = 5,
    time_column: Any = None,
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

    A model that raises is listed with its error message, and the comparison goes on. The label of a
    classifier with probabilities is its most probable class.

    Parameters
    ----------
    models : mapping of str to estimator or None
        Unfitted estimators by name; they are cloned. ``None`` compares AutoClassifier or
        AutoRegressor and other models of this library with a constant, a linear model, nearest
        neighbours, a random forest and gradient boosting, on a table encoded by
        :class:`~vicinal.table.TableEncoder`.
    X : array-like or data frame of shape (n_samples, n_features)
        Table of features.
    y : array-like of shape (n_samples,)
        Target.
    cv : int, "time", splitter or iterable, default=5
        Number of folds, shuffled, stratified for classifiers; or any splitter of scikit-learn, or
        pairs of training and test rows. ``"time"`` predicts five blocks of rows from the rows
        before them; AutoClassifier and AutoRegressor with an int ``cv`` then use it inside, too.
    time_column : str or int, default=None
        Column of dates or numbers by which ``cv="time"`` orders the rows, instead of their order.
    groups : array-like of shape (n_samples,), default=None
        Rows of one group are never in two folds, also not in the inner folds of a model that takes
        groups.
    sample_weight : array-like of shape (n_samples,), default=None
        Weights of the rows, for scores and for models that take them.
    metric : str, default=None
        Any scikit-learn scorer name; ``None`` is accuracy for classifiers and R² for regressors.
    positive : label, default=None
        Positive class of two for scores such as f1, recall and average precision.
    encoder : transformer, default=None
        Encodes the table for the models. It is fitted on the training rows of each fold, once for
        all models, and its time is not counted as theirs. A model that accepts categories and
        strings gets the table without encoding.
    time_budget : float, default=None
        Seconds for all models together, starts of processes and encoding included; ``None`` waits
        for every fold. Cheap models finish first: the first fold of a model measures its cost and
        may take an equal share of the time; then folds run in the order of their cost. A fold that
        takes too long is stopped; when time is left in the end, its model gets it. Half of the
        seconds are reserved for models with the parameter ``max_fit_time``, which plan their time:
        it is set to their share in each fold, and the fold is not stopped before the end. A model
        that lacks folds is listed below the others, compared with the first on common folds.
        Cached results take no time.
    cache : path-like, default=None
        Folder for the predictions of finished folds. The same call again, also after a crash,
        computes only the missing folds.
    n_jobs : int, default=None
        Number of folds that run at a time, each in its own process with its share of the cores.
        ``None`` runs them in this process, unless ``time_budget`` needs a process that can be
        stopped.
    random_state : int, RandomState instance or None, default=0
        Seed of the folds.
    callback : callable, default=None
        Called with the leaderboard so far whenever a fold has ended.
    verbose : int, default=0
        1 shows progress.

    Returns
    -------
    Comparison
        The leaderboard. ``print`` shows it; ``entries`` holds the models, best first, with
        ``name``, ``scores`` (one per fold), ``mean``, ``standard_error``, ``fit_seconds``,
        ``predict_seconds`` and the held-out predictions ``out_of_fold``; ``to_dict()`` returns
        plain values; ``fold_of(entry)`` returns the rows of a fold. See
        :func:`vicinal.report.write_html` for a page.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.dummy import DummyClassifier
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from vicinal.inspection import compare
    >>> models = {"constant": DummyClassifier(), "5-NN": KNeighborsClassifier()}
    >>> board = compare(models, *load_wine(return_X_y=True))
    >>> [entry.name for entry in board.entries]
    ['5-NN', 'constant']
    """
    # Imported here because they import all models, which other functions do not need.
    from vicinal.auto import table_splits
    from vicinal.inspection.candidates import candidate_models

    started = _clock.now()
    if models is None:
        kind = "classification" if is_classification(np.asarray(y)) else "regression"
        models = candidate_models(kind, random_state=random_state)
        encoder = TableEncoder() if encoder is None else encoder
    if not isinstance(models, Mapping) or not models:
        what = "empty" if isinstance(models, Mapping) else f"a {type(models).__name__}"
        raise ValueError(f"models is {what}; give a dictionary of one or more estimators by name.")
    if time_budget is not None and not time_budget > 0:
        raise ValueError(f"time_budget={time_budget!r} must be positive; None waits for all.")
    X, y, groups, sample_weight = indexable(X, y, groups, sample_weight)
    classification = all(is_classifier(model) for model in models.values())
    metric = metric or ("accuracy" if classification else "r2")
    get_scorer(metric)  # an unknown name is an error before any work
    if positive is not None and (len(np.unique(y)) != 2 or positive not in np.unique(y)):
        raise ValueError(f"positive={positive!r} must be one of two classes.")
    weights = None if sample_weight is None else np.asarray(sample_weight, dtype=float)
    if time_column is not None and not isinstance(cv, str):
        raise ValueError(f"time_column={time_column!r} needs cv='time', got cv={cv!r}.")
    if isinstance(cv, str):
        if cv != "time":
            raise ValueError(f"cv={cv!r} must be a number, 'time', a splitter or pairs of rows.")
        models = {name: _in_time(model, time_column) for name, model in models.items()}
    if isinstance(cv, int | np.integer):
        folds = _folds(cv, y, groups, classification, random_state)
    else:
        folds = table_splits(cv, X, y, groups, time_column, classifier=classification)
    groups = None if groups is None else np.asarray(groups)
    runner = FoldRunner(dict(models), X, y, folds, encoder, weights, groups)
    stored = None if cache is None else FoldCache(cache, X, y, folds, encoder, weights, groups)
    with Progress(len(models) * len(folds), "comparing", verbose=verbose) as progress:
        board = Board(runner, metric, stored, progress, callback, positive)
        if time_budget is None and n_jobs is None:
            while board.todo:
                task = board.todo.pop(0)
                board.finish(task, runner.run(*task))
        elif board.todo:
            n_workers = min(effective_n_jobs(n_jobs or 1), len(board.todo))
            end = math.inf if time_budget is None else started + time_budget
            _run_in_workers(board, n_workers, end)
    return board.comparison()


def _folds(cv, y, groups, classification, random_state) -> list[tuple[np.ndarray, np.ndarray]]:
    if classification:
        check_fold_count(int(cv), np.unique(y, return_counts=True)[1])
    by_group = (GroupKFold, StratifiedGroupKFold)[classification]
    plain = (KFold, StratifiedKFold)[classification]
    splitter = (plain if groups is None else by_group)(
        cv, shuffle=True, random_state=check_random_state(random_state)
    )
    return list(splitter.split(np.zeros((len(y), 1)), y, groups))


def _in_time(model: Any, time_column: Any) -> Any:
    """Return an AutoClassifier or AutoRegressor of random folds with splits in time instead."""
    from vicinal.auto import AutoClassifier, AutoRegressor

    if isinstance(model, AutoClassifier | AutoRegressor) and isinstance(model.cv, int):
        return clone(model).set_params(cv="time", time_column=time_column)
    return model


def _run_in_workers(board: "Board", n_workers: int, end: float) -> None:
    """Run the folds in processes until ``end``."""
    with WorkerPool(board.runner, n_workers) as pool:
        schedule = Schedule(board, board.runner.planners(), n_workers, end - _clock.now())
        while board.todo or pool.tasks:
            left = end - _clock.now()
            if left <= 0:
                for name in {name for name, _ in (*board.todo, *pool.tasks)}:
                    board.give_up(name, math.inf)
                return
            if board.todo and pool.has_idle_worker():
                schedule.restart = pool.start_seconds
                turn = schedule.next(left)
                if turn is not None:
                    pool.submit(*turn)
            elif (ended := pool.wait(left)) is not None:
                task, result, limit = ended
                if result is None:
                    board.give_up(task[0], limit)
                else:
                    board.finish(task, result)
            if not board.todo and not pool.tasks:
                board.take_up(end - _clock.now())


# --- results so far, and which fold runs next ---


class Board:
    """The tasks that are left and the results so far."""

    def __init__(self, runner, metric, cache, progress, callback, positive=None) -> None:
        self.runner, self.metric, self.cache = runner, metric, cache
        self.positive = positive
        self.progress, self.callback = progress, callback
        self.results: dict[str, dict[int, FoldResult]] = {name: {} for name in runner.models}
        self.scores: dict[str, dict[int, float]] = {name: {} for name in runner.models}
        self.errors: dict[str, str] = {}
        self.stopped: dict[str, float] = {}  # and the seconds that were not enough
        has_classes = all(is_classifier(model) for model in runner.models.values())
        self.classes = np.unique(np.asarray(runner.y)) if has_classes else None
        self.n_folds = len(runner.folds)
        self.note = _extreme_targets(runner.y) if metric in _SQUARED else ""
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
        known = {*self.errors, *self.stopped, *(name for name in self.scores if self.scores[name])}
        entries = [self._entry(name) for name in runner.models if name in known]
        # Ranked are the models with the most folds, on the same ones.
        counts = Counter(entry.folds for entry in entries)
        most = max(counts, key=lambda folds: (len(folds), counts[folds]), default=())
        entries.sort(
            key=lambda entry: (entry.folds != most, -len(entry.scores), -np.nan_to_num(entry.mean))
        )
        entries = [self._with_note(entry, entries[0]) for entry in entries]
        n_samples, n_features = len(runner.y), np.shape(runner.X)[1]
        return Comparison(
            entries, self.metric, self.n_folds, n_samples, n_features, runner.folds, self.note
        )

    def _add(self, name, fold, result) -> None:
        if name in self.errors:
            return
        reason = result.error
        if not reason:
            rows, weights = self.runner.folds[fold][1], self.runner.sample_weight
            y, own = rows_of(self.runner.y, rows), None if weights is None else weights[rows]
            try:
                self.scores[name][fold] = score(result, y, self.metric, own, self.positive)
                self.results[name][fold] = result
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"
        if reason:
            self.errors[name] = reason.splitlines()[0]
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
            # A fold may lack a rare class.
            aligned = [aligned_columns(part.proba, part.classes, self.classes) for part in results]
            proba = np.concatenate(aligned)[order]
        return OutOfFold(rows[order], prediction, proba, self.classes)


_SQUARED = ("r2", "neg_mean_squared_error", "neg_root_mean_squared_error")
_FEW, _NEARLY_ALL = 0.01, 0.9  # a share of the rows, and one of the variance of the target


def _extreme_targets(y: Any) -> str:
    """Return a note if a few rows have nearly all the variance of the target."""
    y = np.asarray(y)
    most = max(3, int(_FEW * len(y)))
    if y.dtype.kind not in "fiu" or len(y) < 10 * most:
        return ""
    squares = ((y - y.mean(axis=0, dtype=float)) ** 2).reshape(len(y), -1).sum(axis=1)
    shares = np.cumsum(np.sort(squares)[::-1]) / max(squares.sum(), np.finfo(float).tiny)
    if not shares[most - 1] > _NEARLY_ALL:
        return ""
    n_extreme = 1 + np.searchsorted(shares, _NEARLY_ALL)
    return (
        f"More than {100 * _NEARLY_ALL:.0f} % of the variance of the target is in {n_extreme} of "
        f"{len(y)} rows, so extreme targets decide the scores; look at them with `vicinal check`, "
        "or compare by neg_mean_absolute_error."
    )


_PLANNED_SHARE = 0.5  # of the time, reserved for models that plan theirs
_LEAST_SHARE = 0.1  # of what is left: with less to spare, only models that plan go on
_QUICK_SHARE = 0.1  # of what is left: a model that needs less for all its folds goes first
_BRIEF = 0.5  # a model that plans can do with this share of the time that it took before


class Schedule:
    """Hand out the folds that are left on a board, cheapest model first.

    The first fold of a model measures its cost. A model that needs next to no time finishes all its
    folds at once; then every other model gets a first fold, which may take an equal share of the
    time; then models are finished in the order of what their other folds cost. Models that plan
    their time (parameter ``max_fit_time``) cost what they are given: half of the time is reserved
    for them in equal turns, and when no more than that is left, only they go on. They are not
    stopped before the end. When all have had their turn, the rest goes to models that were stopped.

    Parameters
    ----------
    board : Board
        Folds to do, results, and models that were stopped.
    planners : set of str
        Names of the models that plan their time.
    n_workers : int
        Folds at a time.
    seconds : float
        Time for everything.
    """

    def __init__(self, board: Any, planners: set[str], n_workers: int, seconds: float) -> None:
        self.board, self.planners, self.n_workers = board, planners, n_workers
        self.restart = 0.0  # seconds until there is another process after a fold was stopped
        planned = self._planned()
        share = _PLANNED_SHARE if len(planned) < len(board.todo) else 1.0
        # The folds that were handed out: seconds planned, and those that were left then.
        self.handed: dict[tuple[str, int], tuple[float, float]] = {}
        self.turn = min(share * n_workers * seconds / max(1, len(planned)), self._round(seconds))

    def next(self, left: float) -> tuple[tuple[str, int], float, float] | None:
        """Take the next fold off the board; ``None`` if the model next in line has no time left.

        With it come the seconds that its model plans with, and those after which it is stopped.
        """
        task = self._next_task(left)
        name = task[0]
        known = self.board.seconds(name) * (_BRIEF if name in self.planners else 1.0)
        if known > left:
            self.board.give_up(name, left)
            return None
        planned_seconds, limit = self._times(name, left)
        self.handed[task] = planned_seconds, left
        self.board.todo.remove(task)
        return task, planned_seconds, limit

    def _next_task(self, left: float) -> tuple[str, int]:
        board, waiting = self.board, Counter(name for name, _ in self.board.todo)

        def key(task: tuple[str, int]) -> tuple[int, float, int]:
            name, fold = task
            needed = waiting[name] * board.seconds(name)  # until the model is finished
            if board.results[name]:
                is_quick = needed < _QUICK_SHARE * left * self.n_workers
                return 0 if is_quick and name not in self.planners else 2, needed, fold
            is_running = waiting[name] < board.n_folds
            return 3 if is_running else 1, 0.0, fold

        first = min(board.todo, key=key)
        planned = self._planned()
        if first[0] in self.planners or not planned or key(first)[0] == 0:
            return first
        seconds = board.seconds(first[0]) / self.n_workers
        is_enough = self._spare(left) > max(_LEAST_SHARE * left, seconds)
        return first if is_enough else min(planned, key=key)

    def _times(self, name: str, left: float) -> tuple[float, float]:
        if math.isinf(left):
            return math.inf, math.inf
        if name in self.planners:
            is_last = len(self._planned()) == len(self.board.todo)
            turn = self._round(left) if is_last else min(self.turn, self._round(left))
            return turn / self._overrun(name), left
        spare = self._spare(left)
        others = {other for other, _ in self.board.todo} - {name} - self.planners
        limit = spare * min(1.0, self.n_workers / (1 + len(others)))
        limit = min(spare, max(limit, self.restart))  # to stop it earlier would cost more
        if self.board.results[name]:  # what is stopped was computed in vain
            limit = min(left, max(limit, 0.5 * spare, 2.0 * self.board.seconds(name)))
        if all(map(self.board.seconds, others)):
            known = sum(self.board.seconds(one) for one, _ in self.board.todo if one in others)
            limit = max(limit, spare - known / self.n_workers)
        return limit, limit

    def _round(self, seconds: float) -> float:
        """Return the length of equal turns of the models that plan, if they alone go on."""
        return seconds / max(1, math.ceil(len(self._planned()) / self.n_workers))

    def _planned(self) -> list[tuple[str, int]]:
        return [task for task in self.board.todo if task[0] in self.planners]

    def _overrun(self, name: str) -> float:
        """Return by what factor a model has exceeded its planned seconds, at least 1."""
        results = self.board.results[name]
        planned = {fold: p for (other, fold), (p, _) in self.handed.items() if other == name}
        ratios = [results[fold].seconds / p for fold, p in planned.items() if fold in results]
        return max([1.0, *ratios])

    def _spare(self, left: float) -> float:
        """Return what is left after the time reserved for unfinished folds of models that plan.

        Nothing is reserved for one that could not finish all its folds.
        """
        if math.isinf(left):
            return left
        reserved = 0.0
        for name, n_folds in Counter(name for name, _ in self._planned()).items():
            rounds = math.ceil(n_folds / self.n_workers)
            if rounds * _BRIEF * self.board.seconds(name) <= left:
                reserved += n_folds * min(self.turn, self.board.seconds(name) or self.turn)
        for (name, fold), (planned_seconds, before) in self.handed.items():
            if name in self.planners and fold not in self.board.results[name]:  # it is running
                reserved += max(0.0, planned_seconds - (before - left))
        return left - reserved / self.n_workers
