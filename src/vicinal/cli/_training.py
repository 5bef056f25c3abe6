"""The commands `compare` and `fit`: a leaderboard with its page, and one saved model."""

import hashlib
import os
import re
import sys
import warnings
from dataclasses import asdict, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from joblib import parallel_config
from sklearn.base import clone
from sklearn.metrics import get_scorer_names

import vicinal
from vicinal._base import _clock, counted, last_step, write_whole
from vicinal._base._held_out import OutOfFold
from vicinal.auto import AutoClassifier, AutoRegressor
from vicinal.cli._check_table import CheckedTable, fingerprint
from vicinal.cli._models import COMPILED_FROM, compiling_steps
from vicinal.cli._progress import LiveBoard, working
from vicinal.cli._show import InputError, log, quoted, similar

_MOST_JOBS = 4
FOLDS = 5
_EXPLAINED_ROWS = 12
_RARE = 0.1  # a class with a smaller share of the rows makes accuracy a poor judge
_COMPILED_ROWS, _COMPILED_COLUMNS = 60, 30
_MOST_EXPLAINED_COLUMNS = 1000  # explanations change one column at a time: quadratic
# The page's share of the budget, and of that, the shares of its parts.
PAGE_SHARE, PAGE_SECONDS = 0.2, 30.0
_REFIT_SHARE, _PREDICT_SHARE, _EXPLAIN_SHARE = 0.4, 0.15, 0.75


def usual_jobs() -> int:
    """Return how many folds are computed at a time."""
    return min(_MOST_JOBS, os.cpu_count() or 1)


def leaderboard(checked, models, *, seconds, jobs=None, quiet=False, **options: Any) -> Any:
    """Cross-validate models on a table within some seconds; ``None`` waits, in this process.

    ``options`` are those of :func:`vicinal.inspection.compare`.
    """
    from vicinal.inspection import compare

    with LiveBoard(len(models), seconds or np.inf, quiet) as live, warnings.catch_warnings():
        # A class with fewer rows than folds is missing in some folds, and models can bear that.
        warnings.filterwarnings("ignore", message="The least populated class")
        return compare(
            models,
            checked.X,
            checked.y,
            time_column=checked.time_column,
            groups=checked.groups,
            sample_weight=checked.weights,
            encoder=checked.encoder(),
            time_budget=seconds,
            n_jobs=None if seconds is None else jobs or usual_jobs(),
            callback=live,
            **options,
        )


def compile_models(models: dict[str, Any], checked: CheckedTable) -> float:
    """Compile our models on a few rows, once after an installation; return the seconds it took."""
    ours = {
        name: model
        for name, model in models.items()
        if type(last_step(model)).__module__.startswith("vicinal.")
    }
    # Few rows use no compiled functions, so those of larger tables are compiled separately.
    steps = compiling_steps() if checked.X.height >= COMPILED_FROM else {}
    mark = cache_folder().parent / f"compiled-{_installation([*sorted(ours), *steps])}"
    if not ours or mark.exists():
        return 0.0
    log("compiling, once per installation; this is not part of the budget")
    started = _clock.now()
    rows = np.linspace(0, checked.X.height - 1, min(_COMPILED_ROWS, checked.X.height)).astype(int)
    kinds = dict(list(checked.kinds.items())[:_COMPILED_COLUMNS])
    few = replace(checked, X=checked.X.select(list(kinds)), kinds=kinds)
    with warnings.catch_warnings(action="ignore"):
        for step in steps.values():
            step()
        for model in ours.values():
            try:
                few.fit(clone(model), rows).predict(few.X[rows])
            except Exception:  # too few rows for it: it will be compiled in its first fold
                continue
    mark.parent.mkdir(parents=True, exist_ok=True)
    write_whole(mark, "")
    seconds = _clock.now() - started
    log(f"compiled in {seconds:.0f} s")
    return seconds


def _installation(compiled: list[str]) -> str:
    """Return what compiled code depends on: its kinds, versions, and the newest source file."""
    newest = max(path.stat().st_mtime_ns for path in Path(vicinal.__path__[0]).rglob("*.py"))
    text = f"{compiled} {vicinal.__path__} {newest} {version('numba')} {sys.version}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


# --- the page -----------------------------------------------------------------------------------


def write_report(board, models, checked, seed, jobs, out, end, positive, threshold) -> Path:
    """Write the leaderboard, with a report of the best model, and return the file."""
    from vicinal.report import write_html

    heading, detail = f"{checked.title}: local models compared with baselines", None
    with parallel_config("threading", n_jobs=jobs):
        if checked.X.width > _MOST_EXPLAINED_COLUMNS:
            log(f"more than {_MOST_EXPLAINED_COLUMNS} columns: the page shows the leaderboard only")
        else:
            detail = _detail(board, models, checked, seed, end, positive, threshold)
        return write_html(board, out, title=heading, detail=detail)


def _detail(board, models, checked, seed, end, positive, threshold):
    """Return the report of the best model, fitted again on the training rows of a fold."""
    from vicinal.report import ModelReport

    left = max(1.0, end - _clock.now())
    best = board.entries[0]
    train, unseen = board.fold_of(best)
    log(f"computing the report of {best.name}")
    fitted, used = _fit_in_time(
        checked, models[best.name], train, best.fit_seconds, _REFIT_SHARE * left, seed
    )
    unseen = _in_time(unseen, best.predict_seconds, _PREDICT_SHARE * left, seed)
    notes = list(checked.notes)
    if len(used) < len(train):
        notes.append(
            f"explanations are those of a model fitted on {len(used):,} of {len(train):,} rows"
        )
    return ModelReport(
        fitted if threshold is None else threshold.applied(fitted),
        checked.X,
        checked.y,
        target=checked.target,
        positive=positive,
        out_of_fold=best.out_of_fold,
        unseen=unseen,
        seen=used,
        n_explained=_EXPLAINED_ROWS,
        time_budget=max(1.0, _EXPLAIN_SHARE * (end - _clock.now())),
        notes=notes,
        random_state=seed,
        verbose=1,
    )


def _fit_in_time(checked, model, rows, fit_seconds, seconds, seed) -> tuple[Any, np.ndarray]:
    """Fit on the rows, or on as many of them as should take so many seconds; return both."""
    if "max_fit_time" in model.get_params():
        model = clone(model).set_params(max_fit_time=seconds)
    else:
        rows = _in_time(rows, fit_seconds, seconds, seed)
    return checked.fit(clone(model), rows), rows


def _in_time(rows: np.ndarray, known: float, seconds: float, seed: int) -> np.ndarray:
    """Return the rows, or as many of them as should take so many seconds, at least 200."""
    n_used = len(rows) if known <= seconds else max(int(len(rows) * seconds / known), 200)
    return np.sort(np.random.RandomState(seed).permutation(rows)[:n_used])


def save_best(board, models, checked, path, seconds, positive, threshold) -> None:
    """Fit the best model on all rows and save it."""
    best = board.entries[0]
    score = f"{board.metric_label} {board.sign * best.mean:.4f} on held-out rows"
    if len(best.scores) < board.n_folds:
        score += f" ({len(best.scores)} of {board.n_folds} folds)"
    if board.unfinished:
        log(f"  note: {best.name} is the best of the ranked models; unfinished ones are not ranked")
    fitted = fit_model(best.name, within(models[best.name], seconds), checked)
    about = {"score": score, "positive": positive, "threshold": threshold}
    save_model(best.name, fitted, checked, path, **about)


def within(model: Any, seconds: float) -> Any:
    """Return the model with ``max_fit_time`` set, if it has that parameter and it is unset."""
    if model.get_params().get("max_fit_time", 0.0) is None:
        return clone(model).set_params(max_fit_time=seconds)
    return model


# --- one model on the whole table -----------------------------------------------------------------


def set_evaluation(estimator: Any, checked: CheckedTable, cv: Any, metric: Any, label: Any) -> None:
    """Give folds and metric to `auto`, which evaluates itself; ``None`` leaves its defaults."""
    if not isinstance(estimator, AutoClassifier | AutoRegressor):
        return
    if None not in (label, metric) and label != np.unique(checked.y)[-1]:
        raise InputError(f"--metric of auto is about {np.unique(checked.y)[-1]}, not {label}")
    if cv is not None:
        estimator.set_params(cv=cv, time_column=checked.time_column)
    if metric is not None:
        estimator.set_params(scoring=metric)


def fit_model(name, estimator, checked) -> Any:
    """Fit a model on the whole table, with its encoder, and show progress."""
    shows = isinstance(estimator, AutoClassifier | AutoRegressor) and not estimator.verbose
    try:
        if shows and sys.stderr.isatty():
            estimator.set_params(verbose=1)
            return checked.fit(estimator)
        with working(f"fitting {name}"):
            return checked.fit(estimator)
    except (ValueError, TypeError) as error:
        raise InputError(f"{name} cannot be fitted: {error}") from error
    finally:
        if shows:
            estimator.set_params(verbose=0)


def save_model(name, fitted, checked, out, *, score=None, positive=None, threshold=None) -> None:
    """Save a model with its metadata."""
    from vicinal.io import save

    about = {
        "model": name,
        "score": score,
        "task": checked.task,
        "target": checked.target,
        "positive": None if positive is None else str(positive),
        "threshold": None if threshold is None else asdict(threshold),
        "table": checked.title,
        "n_rows": checked.X.height,
        "rows": fingerprint(checked.X),
        "columns": {column: str(checked.X[column].dtype) for column in checked.X.columns},
    }
    known = {key: value for key, value in about.items() if value is not None}
    try:
        save(fitted, out, metadata=known)
    except (ValueError, TypeError) as error:
        raise InputError(f"{name} was fitted but cannot be saved: {error}") from error
    log(f"{name} saved: {out}")


def estimate_score(
    name, estimator, fitted, checked, *, metric, cv, seconds, seed
) -> tuple[str, OutOfFold | None]:
    """Return the score on held-out rows in one line, and the held-out predictions.

    A model that evaluates itself has both already; others are cross-validated.
    """
    if hasattr(fitted, "score_error_"):
        return _own_score(fitted, checked, metric)
    n_folds = min(FOLDS if cv == "time" else cv, checked.X.height // 2)
    if n_folds < 2:
        return "too few rows to estimate the score", None
    board = leaderboard(
        checked,
        {name: estimator},
        metric=metric,
        seconds=seconds,
        cv=cv if cv == "time" else n_folds,
        random_state=seed,
        quiet=True,
    )
    entry = board.entries[0]
    if not len(entry.scores):
        return f"the score could not be estimated: {entry.error or entry.note}", None
    spread = f" ± {entry.standard_error:.4f}" if len(entry.scores) > 1 else ""
    score = f"{board.metric_label} {board.sign * entry.mean:.4f}{spread}"
    line = f"on held-out rows: {score} ({len(entry.scores)} of {n_folds} folds)"
    return line, entry.out_of_fold


def _own_score(fitted, checked, metric) -> tuple[str, OutOfFold | None]:
    metric = metric or ("accuracy" if checked.task == "classification" else "r2")
    score = -fitted.score_ if metric.startswith("neg_") else fitted.score_
    label = metric.removeprefix("neg_").replace("_", " ")
    line = f"on held-out rows: {label} {score:.4f} ± {fitted.score_error_:.4f}"
    if [base.name for base in fitted.estimators_] == ["constant"]:
        line += "; no model is better than a constant, so all predictions are equal"
    if checked.task == "regression":
        return line, None
    proba, classes = fitted.held_out_, fitted.classes_
    rows = np.flatnonzero(np.isfinite(proba).all(axis=1))
    return line, OutOfFold(rows, classes[proba[rows].argmax(axis=1)], proba[rows], classes)


# --- options ------------------------------------------------------------------------------------


def parse_seconds(text: str) -> float:
    """Read a duration: 90, 90s, 5m, 1.5h."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    if not found or float(found[1]) == 0:
        raise InputError(f"--budget {text!r} must be a time such as 90s, 5m or 1h")
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]]


def parse_cv(text: str | None, time_column: str | None) -> Any:
    """Read --cv: a number of folds, or time, which a time column stands for, too."""
    if text == "time" or (text is None and time_column is not None):
        return "time"
    if time_column is not None:
        raise InputError(f"--cv {text} does not go with --time-column; leave out --cv")
    if text is not None and not (text.isdecimal() and int(text) > 1):
        raise InputError(f"--cv {text!r} must be a number of folds from 2 on, or time")
    return int(text or FOLDS)


def resolve_metric(
    name: str | None, checked: CheckedTable, positive: Any = None, n_folds: int = FOLDS
) -> str | None:
    """Return the name of a scikit-learn scorer; a few short names are understood."""
    if name is None:
        metric, note = _metric_for_rare(checked, n_folds)
        if metric is not None:
            note += f": the score is {metric.replace('_', ' ')}, not accuracy (--metric accuracy)"
            note += "; `vicinal check` shows more"
        log(note)
        return metric
    short = {
        "auc": "roc_auc_ovr" if len(checked.classes[0]) > 2 else "roc_auc",
        "logloss": "neg_log_loss",
        "log_loss": "neg_log_loss",
        "f1": "f1_macro" if positive is None else "f1",
        "rmse": "neg_root_mean_squared_error",
        "mse": "neg_mean_squared_error",
        "mae": "neg_mean_absolute_error",
    }
    known = get_scorer_names()
    resolved = short.get(name.lower(), name)
    if resolved not in known:
        names = [*short, *known]
        hint = similar(name, names) or f"choose from {quoted(names, 99)}"
        raise InputError(f"--metric {name!r} is unknown; {hint}")
    return resolved


def note_rare_class(checked: CheckedTable) -> None:
    """Print that accuracy, the score of `fit` without --metric, hardly depends on a rare class."""
    metric, note = _metric_for_rare(checked, FOLDS)
    if metric is not None:
        note += f": accuracy hardly depends on them (--metric {metric}); `vicinal check` shows more"
    log(note)


def refuse_single(checked: CheckedTable) -> None:
    """Refuse two classes of which one has a single row: it is either learned or held out."""
    classes, counts = checked.classes
    if len(classes) == 2 and counts.min() < 2:
        raise InputError(
            f"the class {str(classes[counts.argmin()])!r} of {checked.target!r} has a single row; "
            "a comparison needs two, one to learn from and one to be held out"
        )


def _metric_for_rare(checked: CheckedTable, n_folds: int) -> tuple[str | None, str]:
    """Return a score that depends on rare classes, and a note; ``None`` if no class is rare."""
    classes, counts = checked.classes
    if not len(classes):
        return None, ""
    several, rarest = len(classes) > 2, counts.argmin()
    share = counts[rarest] / counts.sum()
    if share >= (_RARE if not several else _RARE / len(classes)):
        return None, ""
    label = repr(str(classes[rarest]))
    if counts[rarest] < n_folds and not several:
        return None, f"  note: {label} has {counted(counts[rarest], 'row')}, fewer than folds"
    metric = "balanced_accuracy" if several else "roc_auc"
    return metric, f"  note: {label} is {100 * share:.2g} % of the rows"


def cache_folder() -> Path:
    """Return the folder of finished folds."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "vicinal" / "folds"
