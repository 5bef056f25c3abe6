"""What each command does, in terms of the public API."""

import json
import os
import re
import runpy
import sys
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sklearn import datasets
from sklearn.metrics import get_scorer_names
from sklearn.pipeline import Pipeline, make_pipeline

import vicinal
from vicinal._base import write_whole
from vicinal.cli._check_table import CheckedTable, check_table
from vicinal.cli._errors import InputError, quoted
from vicinal.cli._models import one_model, pick
from vicinal.cli._read_table import check_folder, read_table, without_formulas, write_table
from vicinal.cli._show import LiveBoard, print_leaderboard, say

_MOST_JOBS = 4
_EXPLAINED_ROWS = 24
_SERVED_ROWS = 2000
_BACKGROUND_ROWS = 200  # the rows of the table that an explained one is compared with
_BEARABLE_SECONDS = 20.0
_EXPLAIN_SECONDS = 30.0


@dataclass(frozen=True)
class Source:
    """Where a labelled table comes from and how it is to be read."""

    path: Path | None
    target: str | None
    embedded: str | None
    delimiter: str | None
    task: str | None
    drop: list[str] | None
    category: list[str] | None
    repair: bool

    @property
    def title(self) -> str:
        """A heading: the name of the file or of the embedded set."""
        return (self.path.name if self.path else self.embedded or "").replace("_", " ")

    def load(self, min_rows: int = 2) -> CheckedTable:
        """Read and check the table, and say what was found."""
        if self.path is None:
            frame, target = _embedded(self.embedded or "")
        elif self.target is None:
            raise InputError("a table needs --target, the name of the column to predict")
        else:
            frame, target = read_table(self.path, self.delimiter), self.target
        checked = check_table(
            frame,
            target,
            task=self.task,
            drop=tuple(self.drop or ()),
            category=tuple(self.category or ()),
            repair=self.repair,
            min_rows=min_rows,
        )
        say(
            f"{self.title}: {checked.X.height:,} rows, {checked.X.width} columns; {_guess(checked)}"
        )
        for note in checked.notes:
            say(f"  note: {note}")
        return checked


def _embedded(name: str) -> tuple[pl.DataFrame, str]:
    bunch = getattr(datasets, f"load_{name}")()
    columns = {str(name): bunch.data[:, j] for j, name in enumerate(bunch.feature_names)}
    names = getattr(bunch, "target_names", None)
    target = bunch.target if names is None else np.asarray(names)[bunch.target]
    return pl.DataFrame({**columns, "target": target}), "target"


def _guess(checked: CheckedTable) -> str:
    if checked.task == "regression":
        return f"regression on {checked.target!r}"
    return f"classification of {checked.target!r} ({len(np.unique(checked.y))} classes)"


# --- compare ------------------------------------------------------------------------------------


def compare(
    source: Source,
    *,
    models: str | None,
    metric: str | None,
    budget: str,
    folds: int,
    seed: int,
    jobs: int | None,
    out: Path,
    cache: Path | None,
    fresh: bool,
    as_json: bool,
) -> None:
    """Rank models on a table, print the leaderboard and write the report."""
    check_folder(out, "--out")
    seconds = parse_seconds(budget)
    checked = source.load(min_rows=2 * folds)
    try:
        board = _leaderboard(
            checked, models, metric, seconds, folds, seed, jobs, cache, fresh, as_json
        )
    except KeyboardInterrupt:
        if not fresh:
            say("finished folds are kept: the same command goes on from there")
        raise
    if as_json:
        print(json.dumps(board.to_dict(), indent=2, ensure_ascii=False))
    else:
        print_leaderboard(board)
    if not any(len(entry.scores) for entry in board.entries):
        raise RuntimeError("no model finished a fold; the lines above say why")
    say(f"report: {_write_comparison_report(board, checked, source.title, seed, out)}")


def _leaderboard(checked, models, metric, seconds, folds, seed, jobs, cache, fresh, quiet):
    from vicinal.inspection import candidate_models
    from vicinal.inspection import compare as compare_models

    chosen = candidate_models(checked.task, random_state=seed)
    if models is not None:
        chosen = pick(chosen, models)
    with LiveBoard(len(chosen), seconds, quiet) as live, warnings.catch_warnings():
        # A class with fewer rows than folds is missing in some folds, and models can bear that.
        warnings.filterwarnings("ignore", message="The least populated class")
        return compare_models(
            chosen,
            checked.X,
            checked.y,
            cv=folds,
            metric=resolve_metric(metric, checked),
            encoder=checked.encoder(),
            time_budget=seconds,
            cache=None if fresh else cache or cache_folder(),
            n_jobs=jobs or min(_MOST_JOBS, os.cpu_count() or 1),
            random_state=seed,
            callback=live,
        )


def _write_comparison_report(board, checked, title, seed, out) -> Path:
    from vicinal.report import ComparisonReport

    heading = f"{title}: local models beside baselines"
    detail = _closer_look(board, checked, seed)
    return ComparisonReport(board, heading, detail=detail).write_html(out)


def _closer_look(board, checked, seed):
    """Fit the best local model again, without the rows that it will be asked to explain."""
    from vicinal.inspection import candidate_models
    from vicinal.report import ModelReport

    models = candidate_models(checked.task, random_state=seed)
    scored = [entry for entry in board.entries if len(entry.scores)]
    own = [entry for entry in scored if _is_ours(models[entry.name])]
    best = (own or scored)[0]
    chosen = ModelReport.choose_rows(best.out_of_fold, checked.y, _EXPLAINED_ROWS, seed)
    say(f"explaining {len(chosen)} rows with {best.name}")
    fitted, used = _fit_without(checked, models[best.name], chosen, best.fit_seconds, seed)
    regions = next((entry for entry in own if entry.name.startswith("SpacePartitioning")), None)
    partition = None
    if regions is not None and regions is not best:
        partition = _fit_without(checked, models[regions.name], chosen, regions.fit_seconds, seed)[
            0
        ]
    notes = list(checked.notes)
    if used < checked.X.height - len(chosen):
        notes.append(f"reasons are those of a model fitted on {used:,} rows drawn from the table")
    return ModelReport(
        fitted,
        checked.X,
        checked.y,
        target=checked.target,
        out_of_fold=best.out_of_fold,
        partition=partition,
        explained=chosen,
        time_budget=_EXPLAIN_SECONDS,
        notes=notes,
        random_state=seed,
    )


def _is_ours(model: Any) -> bool:
    last = model.steps[-1][1] if isinstance(model, Pipeline) else model
    return type(last).__module__.startswith("vicinal.")


def _fit_without(checked, model, rows, fold_seconds, seed) -> tuple[Any, int]:
    """Fit on all other rows, or on as many as should take a bearable time."""
    others = np.setdiff1d(np.arange(checked.X.height), rows)
    bearable = int(len(others) * min(1.0, _BEARABLE_SECONDS / max(fold_seconds, 1e-9)))
    n_used = min(len(others), max(bearable, 1000))
    used = np.random.RandomState(seed).permutation(others)[:n_used]
    used.sort()
    return with_encoder(checked, model).fit(checked.X[used], checked.y[used]), n_used


def parse_seconds(text: str) -> float:
    """Read a duration: 90, 90s, 5m, 1.5h."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smh]?)", text.strip())
    if not found or float(found[1]) == 0:
        raise InputError(f"--budget {text!r} must be a time such as 90s, 5m or 1h")
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]]


def resolve_metric(name: str | None, checked: CheckedTable) -> str | None:
    """Return the name of a scikit-learn scorer; a few short names are understood."""
    if name is None:
        return None
    several = checked.task == "classification" and len(np.unique(checked.y)) > 2
    short = {
        "auc": "roc_auc_ovr" if several else "roc_auc",
        "logloss": "neg_log_loss",
        "log_loss": "neg_log_loss",
        "f1": "f1_macro",
        "rmse": "neg_root_mean_squared_error",
        "mse": "neg_mean_squared_error",
        "mae": "neg_mean_absolute_error",
    }
    known = get_scorer_names()
    resolved = short.get(name.lower(), name)
    if resolved not in known:
        raise InputError(
            f"--metric {name!r} is unknown; choose from {quoted([*short, *known], 99)}"
        )
    return resolved


def cache_folder() -> Path:
    """Return the folder of finished folds."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "vicinal" / "folds"


# --- one model ----------------------------------------------------------------------------------


def fit(source: Source, *, model: str, settings: list[str], seed: int, out: Path) -> None:
    """Fit a model with its encoder and save both as one."""
    from vicinal.io import save

    check_folder(out, "--out")
    checked = source.load()
    name, estimator = one_model(model, checked.task, seed, settings)
    try:
        fitted = with_encoder(checked, estimator).fit(checked.X, checked.y)
    except (ValueError, TypeError) as error:
        raise InputError(f"{name} cannot be fitted: {error}") from error
    try:
        save(fitted, out, metadata=_about(source, checked, name))
    except (ValueError, TypeError) as error:
        raise InputError(f"{name} was fitted but cannot be saved: {error}") from error
    say(f"{name} saved: {out}")


def with_encoder(checked: CheckedTable, estimator: Any) -> Pipeline:
    """Return the model behind the encoder of its table."""
    return make_pipeline(checked.encoder(), estimator)


def _about(source, checked, name) -> dict[str, Any]:
    return {
        "model": name,
        "task": checked.task,
        "target": checked.target,
        "table": source.title,
        "n_rows": checked.X.height,
        "columns": {column: str(checked.X[column].dtype) for column in checked.X.columns},
    }


def predict(model: Path, table: Path, *, out: Path | None, proba: bool, delimiter) -> None:
    """Predict every row of a table."""
    fitted = load_model(model)
    frame = read_table(table, delimiter)
    frame = frame.select(known_columns(fitted, frame))
    if out is not None:
        check_folder(out, "--out")
    columns: dict[str, Any] = {}
    if proba:
        if not hasattr(fitted, "predict_proba"):
            raise InputError(f"--proba: the model {str(model)!r} gives no probabilities")
        shares = np.asarray(fitted.predict_proba(frame))
        columns["prediction"] = fitted.classes_[shares.argmax(axis=1)]
        columns |= {f"P({label})": shares[:, j] for j, label in enumerate(fitted.classes_)}
    else:
        columns["prediction"] = np.asarray(fitted.predict(frame))
    answers = pl.DataFrame(columns)
    if out is None:
        sys.stdout.write(without_formulas(answers).write_csv())
        return
    write_table(answers, out)
    say(f"{answers.height:,} predictions: {out}")


def load_model(path: Path) -> Any:
    """Load a model that `fit` wrote."""
    from vicinal.io import load

    if not path.is_file():
        raise InputError(f"the model {str(path)!r} does not exist")
    try:
        fitted = load(path)
    except (ValueError, TypeError) as error:
        raise InputError(f"the model {str(path)!r} cannot be loaded: {error}") from error
    if not hasattr(fitted, "predict"):
        raise InputError(f"the model {str(path)!r} holds a {type(fitted).__name__}, no predictor")
    return fitted


def explain(
    model: Path, table: Path, *, row: int, out: Path | None, quick: bool, delimiter, as_json: bool
) -> None:
    """Explain one row."""
    from vicinal.inspection import explain as explain_row

    fitted = load_model(model)
    frame = read_table(table, delimiter)
    if not 0 <= row < frame.height:
        raise InputError(f"--row {row}: the table has the rows 0 to {frame.height - 1}")
    forms = {".html": lambda found: found.to_html(), ".json": _as_json}
    if out is not None:
        check_folder(out, "--out")
        if out.suffix not in forms:
            raise InputError(f"--out {str(out)!r} must end in .html or .json")
    rows = frame.select(known_columns(fitted, frame))
    others = rows.filter(pl.int_range(rows.height) != row).head(_BACKGROUND_ROWS)
    found = explain_row(fitted, rows[row])
    if not as_json:
        print(found.text(), flush=True)
    if not quick and others.height:
        # The nearest change takes longer than the rest, so the rest has been shown already.
        known = len(found.text())
        found = explain_row(fitted, rows[row], background=others)
        if not as_json:
            print(found.text()[known:].rstrip("\n"))
    if as_json:
        print(_as_json(found))
    if out is not None:
        write_whole(out, forms[out.suffix](found))
        say(f"explanation: {out}")


def _as_json(explanation) -> str:
    return json.dumps(explanation.to_dict(), indent=2, ensure_ascii=False)


def known_columns(fitted: Any, frame: pl.DataFrame) -> list[str]:
    """Return the columns of a table that a model uses; one that is missing is an error."""
    columns = [str(name) for name in getattr(fitted, "feature_names_in_", frame.columns)]
    missing = [name for name in columns if name not in frame.columns]
    if missing:
        raise InputError(
            f"the table lacks {'the column' if len(missing) == 1 else 'the columns'} "
            f"{quoted(missing)} that the model was fitted on; it has {quoted(frame.columns)}"
        )
    return columns


def report(
    model: Path, table: Path, *, target: str | None, out: Path, rows: int, seed: int, delimiter
) -> None:
    """Write a page about a model on a table."""
    from vicinal.io import info as read_info
    from vicinal.report import ModelReport

    check_folder(out, "--out")
    fitted = load_model(model)
    frame = read_table(table, delimiter)
    X = frame.select(known_columns(fitted, frame))
    if target is not None and target not in frame.columns:
        raise InputError(f"the table has no column {target!r}; it has {quoted(frame.columns)}")
    target = target or read_info(model).metadata.get("target")
    y, notes = _known_target(frame, target, fitted)
    page = ModelReport(
        fitted,
        X,
        y,
        title=f"{model.name} on {table.name}",
        target=target or "the target",
        n_explained=rows,
        notes=notes,
        random_state=seed,
    )
    say(f"report: {page.write_html(out)}")


def _known_target(frame, target, fitted) -> tuple[Any, list[str]]:
    """Return the target where the table has it, in the type that the model answers in."""
    if target is None or target not in frame.columns:
        column = "target" if target is None else f"column {target!r}"
        return None, [f"the table has no {column}: how good the answers are is unknown"]
    column = frame[target]
    if column.null_count():
        raise InputError(f"the target {target!r} is missing in {column.null_count()} rows")
    if not hasattr(fitted, "classes_"):
        return column.cast(pl.Float64).to_numpy(), []
    classes = np.asarray(fitted.classes_)
    y = (
        column.cast(pl.String).to_numpy().astype(str)
        if classes.dtype.kind in "UO"
        else (column.to_numpy())
    )
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise InputError(
            f"the target {target!r} has classes unknown to the model: {quoted([*unknown])}"
        )
    return y, []


def serve(model: Path, table: Path | None, *, host: str, port: int, token: str | None) -> None:
    """Answer for a model over HTTP until interrupted."""
    from vicinal.serve import serve as listen

    fitted = load_model(model)
    rows = None
    if table is not None:
        frame = read_table(table, None)
        rows = frame.select(known_columns(fitted, frame)).head(_SERVED_ROWS).to_pandas()
    address = f"[{host}]" if ":" in host else host
    say(f"http://{address}:{port}/ answers for {model}; Ctrl-C stops it")
    try:
        listen(fitted, host=host, port=port, name=_route_name(model), table=rows, token=token)
    except (ImportError, ValueError) as error:
        raise InputError(str(error)) from None


def _route_name(model: Path) -> str:
    """Return the name of the file as it can stand in an address."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", model.stem).strip("-") or "model"


def info(model: Path, *, as_json: bool) -> None:
    """Print what a model file says of itself."""
    from vicinal.io import info as read_info

    if not model.is_file():
        raise InputError(f"the model {str(model)!r} does not exist")
    try:
        facts = read_info(model)
    except (ValueError, TypeError) as error:
        raise InputError(f"the model {str(model)!r} cannot be read: {error}") from error
    if as_json:
        print(json.dumps(asdict(facts), indent=2, ensure_ascii=False, default=str))
        return
    lines = {**facts.metadata, "saved": facts.saved, "size": f"{facts.size:,} bytes"}
    lines["versions"] = ", ".join(f"{name} {text}" for name, text in facts.versions.items())
    lines["classes"] = None if facts.classes is None else quoted(facts.classes, 12)
    columns = lines.pop("columns", dict.fromkeys(facts.feature_names_in or [], ""))
    lines.setdefault("model", facts.model)
    for key, value in lines.items():
        if value is not None:
            print(f"{key:<9} {value}")
    print(f"columns   {len(columns)}")
    for name, dtype in columns.items():
        print(f"  {name}  {dtype}")


# --- reproduce ----------------------------------------------------------------------------------


def reproduce(name: str | None, benchmarks: Path | None) -> None:
    """Run the script behind a table of the papers."""
    folder = benchmarks or Path(vicinal.__path__[0]).parents[1] / "benchmarks"
    scripts = {path.stem.removeprefix("bench_"): path for path in folder.glob("bench_*.py")}
    if not scripts:
        raise InputError(
            f"there are no benchmark scripts in {str(folder)!r}; they come with a clone of the "
            "source: run the command there or name the folder with --benchmarks"
        )
    if name is None:
        width = max(map(len, scripts))
        for key, path in sorted(scripts.items()):
            print(f"{key:<{width}}  {_first_line(path)}")
        return
    if name not in scripts:
        raise InputError(f"no table is called {name!r}; choose from {quoted(sorted(scripts), 99)}")
    sys.path.insert(0, str(folder))
    sys.argv = [str(scripts[name])]
    runpy.run_path(str(scripts[name]), run_name="__main__")


def _first_line(script: Path) -> str:
    import ast

    return (ast.get_docstring(ast.parse(script.read_text("utf-8"))) or "").partition("\n")[0]
