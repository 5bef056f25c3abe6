"""Cross-validated comparison of models on one table."""

import math
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import clone, is_classifier
from sklearn.metrics import get_scorer
from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold
from sklearn.utils import check_random_state, indexable

from vicinal._base import Progress, _clock, check_fold_count
from vicinal.inspection.checks import is_classification
from vicinal.inspection.compare._board import Board, Schedule
from vicinal.inspection.compare._comparison import Comparison
from vicinal.inspection.compare._folds import FoldCache, FoldRunner
from vicinal.inspection.compare._worker_pool import WorkerPool
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
        task = "classification" if is_classification(np.asarray(y)) else "regression"
        models = candidate_models(task, random_state=random_state)
        encoder = TableEncoder() if encoder is None else encoder
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
            _run_here(board)
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


def _run_here(board: Board) -> None:
    while board.todo:
        task = board.todo.pop(0)
        board.finish(task, board.runner.run(*task))


def _run_in_workers(board: Board, n_workers: int, end: float) -> None:
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
