"""The command `fit`: one model on a whole table, saved with its encoder."""

import hashlib
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sklearn.model_selection import TimeSeriesSplit

from vicinal._base import _clock
from vicinal._base._out_of_fold import OutOfFold
from vicinal.auto import AutoClassifier, AutoRegressor
from vicinal.cli._compare import leaderboard, parse_seconds, resolve_metric, within
from vicinal.cli._errors import InputError
from vicinal.cli._look import warn
from vicinal.cli._models import one_model
from vicinal.cli._pipeline import fit_on
from vicinal.cli._read_table import check_folder
from vicinal.cli._show import say
from vicinal.cli._source import Source
from vicinal.cli._threshold import check_cost, choose_threshold, positive_label

_FOLDS = 5


def fit(
    source: Source,
    *,
    model: str,
    settings: list[str],
    seed: int,
    out: Path,
    budget: str,
    positive: str | None,
    cost: float | None,
) -> None:
    """Fit a model with its encoder, say how good it is on held-out rows, and save it."""
    check_folder(out, "--out")
    check_cost(cost)
    seconds = parse_seconds(budget)
    checked = source.load()
    name, estimator = one_model(model, checked.task, seed, settings)
    estimator = within(estimator, seconds)
    label = None
    if positive is not None or cost is not None:
        label = positive_label(checked, positive, "--cost" if positive is None else "--positive")
    warn(checked, seed)
    started = _clock.now()
    fitted = fit_model(name, estimator, checked)
    if cost is None:
        save_model(name, fitted, checked, source, out, positive=label)
    # Folds that will be done in time need no process of their own that could be stopped.
    is_quick = 2 * _FOLDS * (_clock.now() - started) < seconds
    if hasattr(fitted, "score_error_") and source.time is None:
        line, answers = _own_judgement(fitted, checked)
    else:
        left = None if is_quick else seconds
        line, answers = _judgement_by_folds(name, estimator, checked, source, left, seed)
    if cost is not None:
        threshold = choose_threshold(answers, checked, label, cost)
        save_model(name, fitted, checked, source, out, positive=label, threshold=threshold)
        line += ", were the most probable class answered"
    say(line)


def fit_model(name, estimator, checked) -> Any:
    """Fit a model on the whole table, with its encoder; at a terminal a mixture shows how far."""
    shows = isinstance(estimator, AutoClassifier | AutoRegressor) and not estimator.verbose
    try:
        if shows and sys.stderr.isatty():
            estimator.set_params(verbose=1)
        return fit_on(checked, estimator)
    except (ValueError, TypeError) as error:
        raise InputError(f"{name} cannot be fitted: {error}") from error
    finally:
        if shows:
            estimator.set_params(verbose=0)


def save_model(
    name, fitted, checked, source, out, *, score=None, positive=None, threshold=None
) -> None:
    """Save a model with what is to be known of it."""
    from vicinal.io import save

    about = {
        "model": name,
        "score": score,
        "task": checked.task,
        "target": checked.target,
        "positive": None if positive is None else str(positive),
        "threshold": None if threshold is None else threshold.to_dict(),
        "table": source.title,
        "n_rows": checked.X.height,
        "rows": fingerprint(checked.X),
        "columns": {column: str(checked.X[column].dtype) for column in checked.X.columns},
    }
    try:
        save(
            fitted, out, metadata={key: value for key, value in about.items() if value is not None}
        )
    except (ValueError, TypeError) as error:
        raise InputError(f"{name} was fitted but cannot be saved: {error}") from error
    say(f"{name} saved: {out}")


def fingerprint(X: pl.DataFrame) -> str:
    """Return what tells the rows of a table, in any order, from others."""
    hashes = X.with_columns(pl.col(pl.Categorical).cast(pl.String)).hash_rows().sort()
    return hashlib.sha256(hashes.to_numpy().tobytes()).hexdigest()[:16]


def _own_judgement(fitted, checked) -> tuple[str, OutOfFold | None]:
    """Return how good a model found itself on held-out rows, and its answers there."""
    metric = "accuracy" if checked.task == "classification" else "r2"
    line = f"on held-out rows: {metric} {fitted.score_:.4f} ± {fitted.score_error_:.4f}"
    if checked.task == "regression":
        return line, None
    proba, classes = fitted.held_out_, fitted.classes_
    rows = np.flatnonzero(np.isfinite(proba).all(axis=1))
    return line, OutOfFold(rows, classes[proba[rows].argmax(axis=1)], proba[rows], classes)


def _judgement_by_folds(
    name, estimator, checked, source, seconds, seed
) -> tuple[str, OutOfFold | None]:
    """Return how good a model is by folds of the table, in one line, and its answers."""
    n_folds = min(_FOLDS, checked.X.height // 2)
    if n_folds < 2:
        return "too few rows to say how good it is", None
    board = leaderboard(
        checked,
        {name: estimator},
        metric=resolve_metric(None, checked, hint=""),
        seconds=seconds,
        cv=n_folds if source.time is None else TimeSeriesSplit(n_folds),
        seed=seed,
        quiet=True,
    )
    entry = board.entries[0]
    if not len(entry.scores):
        return f"how good it is could not be told: {entry.error or entry.note}", None
    spread = f" ± {entry.standard_error:.4f}" if len(entry.scores) > 1 else ""
    score = f"{board.metric_label} {board.sign * entry.mean:.4f}{spread}"
    line = f"on held-out rows: {score} ({len(entry.scores)} of {n_folds} folds)"
    return line, entry.out_of_fold
