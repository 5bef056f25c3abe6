"""Cross-validated comparison of models on one table."""

import math
import os
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import is_classifier
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.metrics import get_scorer
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    StratifiedGroupKFold,
    StratifiedKFold,
    check_cv,
)
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state, indexable

from vicinal._base import Progress, _clock, check_fold_count
from vicinal.auto import AutoClassifier, AutoRegressor
from vicinal.ensemble import (
    FunctionalGradientBoostingRegressor,
    PrunedTreeClassifier,
    PrunedTreeRegressor,
    RealAdaBoostClassifier,
)
from vicinal.inspection.compare._board import Board, Schedule
from vicinal.inspection.compare._comparison import Comparison
from vicinal.inspection.compare._folds import FoldCache, FoldRunner
from vicinal.inspection.compare._worker_pool import WorkerPool
from vicinal.local import LocalClassifier, LocalRegressor
from vicinal.partition import SpacePartitioningClassifier, SpacePartitioningRegressor
from vicinal.subspace import DivideConquerSVC, TruncatedRBFRegressor
from vicinal.uncertainty import LocallyAdaptiveClassifier


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
        board = Board(runner, metric, stored, progress, callback, positive)
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


def _run_here(board: Board) -> None:
    while board.todo:
        task = board.todo.pop(0)
        board.finish(task, board.runner.run(*task))


def _run_in_workers(board: Board, n_workers: int, end: float) -> None:
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


def _wait(board: Board, pool: WorkerPool, left: float) -> None:
    ended = pool.wait(left)
    if ended is None:
        return
    (name, fold), result, limit = ended
    if result is None:
        board.give_up(name, limit)
    else:
        board.finish((name, fold), result)


def candidate_models(task: str, *, random_state: Any = 0) -> dict[str, Any]:
    """Return named, unfitted models for a task: baselines, the mixture, then the local models.

    The baselines are a guess, a linear model, nearest neighbours, a random forest, histogram
    boosting, and LightGBM where it is installed.

    Parameters
    ----------
    task : {"classification", "regression"}
        What the target is.
    random_state : int, default=0
        Seed given to every model that draws.

    Returns
    -------
    dict of str to estimator
        In the order in which they should be fitted, quick ones first.

    Examples
    --------
    >>> from vicinal.inspection import candidate_models
    >>> "random forest" in candidate_models("regression")
    True
    """
    if task == "classification":
        return {**_classification_baselines(random_state), **_local_classifiers(random_state)}
    if task == "regression":
        return {**_regression_baselines(random_state), **_local_regressors(random_state)}
    raise ValueError(f"task={task!r} is unknown; choose 'classification' or 'regression'.")


def _classification_baselines(seed):
    return {
        "most frequent class": DummyClassifier(),
        "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
        "k nearest neighbours": make_pipeline(StandardScaler(), KNeighborsClassifier()),
        "random forest": RandomForestClassifier(n_jobs=-1, random_state=seed),
        "histogram boosting": HistGradientBoostingClassifier(random_state=seed),
        **_lightgbm("LGBMClassifier", seed),
    }


def _regression_baselines(seed):
    return {
        "mean": DummyRegressor(),
        "ridge": make_pipeline(StandardScaler(), RidgeCV()),
        "k nearest neighbours": make_pipeline(StandardScaler(), KNeighborsRegressor()),
        "random forest": RandomForestRegressor(n_jobs=-1, random_state=seed),
        "histogram boosting": HistGradientBoostingRegressor(random_state=seed),
        **_lightgbm("LGBMRegressor", seed),
    }


def _lightgbm(name, seed):
    if find_spec("lightgbm") is None:
        return {}
    import lightgbm

    return {"LightGBM": getattr(lightgbm, name)(random_state=seed, verbosity=-1)}


def _local_classifiers(seed):
    return {
        # First, because it plans its time and knows best what to do with it.
        "AutoClassifier": AutoClassifier(n_jobs=-1, random_state=seed),
        "LocalClassifier": LocalClassifier(n_jobs=-1, random_state=seed),
        "SpacePartitioningClassifier": SpacePartitioningClassifier(random_state=seed),
        "LocallyAdaptiveClassifier": LocallyAdaptiveClassifier(n_jobs=-1, random_state=seed),
        "DivideConquerSVC": make_pipeline(StandardScaler(), DivideConquerSVC(random_state=seed)),
        "RealAdaBoostClassifier": RealAdaBoostClassifier(random_state=seed),
        "PrunedTreeClassifier": PrunedTreeClassifier(random_state=seed),
    }


def _local_regressors(seed):
    return {
        "AutoRegressor": AutoRegressor(n_jobs=-1, random_state=seed),
        "LocalRegressor": LocalRegressor(n_jobs=-1, random_state=seed),
        "SpacePartitioningRegressor": SpacePartitioningRegressor(random_state=seed),
        "FunctionalGradientBoostingRegressor": FunctionalGradientBoostingRegressor(
            random_state=seed
        ),
        "TruncatedRBFRegressor": make_pipeline(StandardScaler(), TruncatedRBFRegressor()),
        "PrunedTreeRegressor": PrunedTreeRegressor(random_state=seed),
    }
