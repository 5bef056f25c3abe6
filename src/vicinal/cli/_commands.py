"""The commands, in terms of the public API."""

import json
import os
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from vicinal._base import import_optional, last_step, write_whole
from vicinal._base._unseen import unreported
from vicinal._base._wrappers import call_method, can, unseen_rule, unseen_values
from vicinal._conformal import decide
from vicinal.cli._check_table import (
    Roles,
    as_numbers,
    check_has,
    check_table,
    names_in,
    rows_with_target,
)
from vicinal.cli._models import compiling_steps
from vicinal.cli._read_table import (
    check_folder,
    read_table,
    read_tables,
    without_formulas,
    write_table,
)
from vicinal.cli._show import InputError, log, quoted, working
from vicinal.cli._threshold import Threshold
from vicinal.table import TableEncoder

_SERVED_ROWS = 2000
_BACKGROUND_ROWS = 200  # the rows of the table that an explained one is compared with


# --- one model ----------------------------------------------------------------------------------


def predict(
    model: Path,
    tables: Sequence[Path],
    *,
    out: Path | None,
    proba: bool,
    interval: float | None,
    by: Sequence[str],
    by_class: bool,
    abstain: float | None,
    cost_matrix: Path | None,
    typicality: bool,
    strict: bool,
    keep: Sequence[str],
    delimiter: str | None,
) -> None:
    """Predict every row of a table; ``keep`` names columns that are copied to the output."""
    if interval is not None and not 0 < interval < 1:
        raise InputError(
            f"--interval {interval:g} must be a probability between 0 and 1, such as 0.9"
        )
    out = None if out == Path("-") else out
    fitted = load_model(model)
    threshold = threshold_of(model)
    frame = read_tables(tables, delimiter)
    X = frame.select(known_columns(fitted, frame))
    kept = [name.strip() for text in keep for name in text.split(",") if name.strip()]
    missing = [name for name in kept if name not in frame.columns]
    if missing:
        raise InputError(f"the table has no column {missing[0]!r}; it has {quoted(frame.columns)}")
    if out is not None:
        check_folder(out, "--out")
    columns: dict[str, Any] = {name: frame[name] for name in kept}
    _report_unseen(fitted, X, strict)
    with unreported(), working(f"predicting {frame.height:,} rows"):
        columns |= _predicted(
            fitted, X, threshold, proba=proba, abstain=abstain, cost_matrix=cost_matrix
        )
        if interval is not None:
            columns |= _limits(fitted, X, interval, by, by_class)
        if typicality:
            columns["typicality"] = _call(fitted, "typicality", "--typicality", X)
    output = pl.DataFrame(columns, strict=False)
    if out is None:
        sys.stdout.write(without_formulas(output).write_csv())
        return
    write_table(output, out)
    log(f"{output.height:,} predictions: {out}")


def _report_unseen(fitted: Any, X: pl.DataFrame, strict: bool) -> None:
    """Print which values are unlike those of the training rows, or refuse them."""
    found = [str(part) for part in unseen_values(fitted, X)]
    if found and (strict or unseen_rule(fitted) == "error"):
        raise InputError(f"some values are unlike those of the training rows: {'; '.join(found)}")
    for line in found:
        log(f"  note: unlike the training rows, {line}")


def _predicted(fitted, X, threshold, *, proba, abstain, cost_matrix) -> dict[str, Any]:
    """Return the columns of predictions and probabilities."""
    columns: dict[str, Any] = {}
    if proba or threshold is not None or abstain is not None or cost_matrix is not None:
        if not hasattr(fitted, "predict_proba"):
            raise InputError(
                "the model gives no probabilities, labels or costs; it predicts numbers"
            )
        shares = np.asarray(fitted.predict_proba(X))
        columns["prediction"] = fitted.classes_[shares.argmax(axis=1)]
        if abstain is not None or cost_matrix is not None:
            costs = None if cost_matrix is None else _costs(cost_matrix, fitted.classes_)
            columns["prediction"] = _decide(fitted, shares, abstain, costs)
        elif threshold is not None:
            log(f"the prediction is {threshold}")
            columns["prediction"] = threshold.predict(shares, fitted.classes_)
        if proba:
            columns |= {f"P({label})": shares[:, j] for j, label in enumerate(fitted.classes_)}
    else:
        columns["prediction"] = np.asarray(fitted.predict(X))
    return columns


def _costs(path: Path, classes: np.ndarray) -> np.ndarray:
    """Read costs: the true labels in the first column, the predicted ones in the header."""
    frame = read_table(path, None)
    labels = [str(label) for label in classes]
    rows = [str(label) for label in frame.to_series(0)]
    if sorted(rows) != sorted(labels) or not {*labels} <= {*frame.columns}:
        raise InputError(
            f"--cost-matrix {str(path)!r} needs the true labels in its first column and a column "
            f"for each predicted label: {quoted(labels)}"
        )
    costs = frame.select(pl.col(labels).cast(pl.Float64)).to_numpy()
    return costs[[rows.index(label) for label in labels]]


def _decide(fitted: Any, shares: np.ndarray, abstain: float | None, costs: Any) -> list:
    """Return labels of least cost, ``None`` where the error rate would be larger."""
    last, held_out = last_step(fitted), None
    if abstain is not None:
        if not can(fitted, "predict_set"):
            raise InputError(
                f"--abstain: {type(last).__name__} has no held-out predictions; a model of "
                "`vicinal fit --model auto` has"
            )
        held_out = last._held_out_rows()
    try:
        labels = decide(shares, fitted.classes_, costs, abstain, held_out)
    except ValueError as error:
        raise InputError(str(error)) from None
    n_none = sum(label is None for label in labels)
    if n_none:
        log(f"{n_none:,} of {len(labels):,} rows have no prediction (--abstain {abstain:g})")
    return labels.tolist()


def threshold_of(model: Path) -> Threshold | None:
    """Return the threshold that is stored in a model file, if there is one."""
    from vicinal.io import info as read_info

    return Threshold.of(read_info(model).metadata)


def _decided(fitted: Any, model: Path) -> Any:
    """Return the classifier with the threshold of its file applied, if it has one."""
    threshold = threshold_of(model)
    if threshold is None:
        return fitted
    log(f"the prediction is {threshold}")
    return threshold.applied(fitted)


def _limits(fitted, X, coverage, by, by_class) -> dict[str, Any]:
    """Return limits of numbers, or the labels of prediction sets."""
    options = {"coverage": coverage} | ({"by": list(by)} if by else {})
    if not hasattr(fitted, "classes_"):
        ends = _call(fitted, "predict_interval", "--interval", X, **options)
        return {"lower": ends[:, 0], "upper": ends[:, 1]}
    sets = _call(fitted, "predict_set", "--interval", X, by_class=by_class, **options)
    labels = np.array([str(label) for label in fitted.classes_])
    return {"prediction_set": [" | ".join(labels[row]) for row in np.asarray(sets, dtype=bool)]}


def _call(fitted, method, option, X, **options) -> np.ndarray:
    """Call a method of a model or of its last step; without it, name a model that has it."""
    if not can(fitted, method):
        raise InputError(
            f"{option}: {type(last_step(fitted)).__name__} has no {method}; a model of `vicinal "
            "fit --model auto` has"
        )
    try:
        return np.asarray(call_method(fitted, method, X, **options))
    except ValueError as error:
        raise InputError(f"{option}: {error}") from None


def export(model: Path, out: Path, *, table: Path | None, delimiter: str | None) -> None:
    """Write a model with its encoder as an ONNX graph."""
    from vicinal.io import OnnxExportError, to_onnx

    check_folder(out, "the output")
    if out.suffix.lower() != ".onnx":
        raise InputError(f"the output {str(out)!r} must end in .onnx")
    fitted = load_model(model)
    rows = None
    if table is not None:
        frame = read_table(table, delimiter)
        rows = frame.select(known_columns(fitted, frame))
    try:
        graph = to_onnx(fitted, rows, path=out)
    except (OnnxExportError, ImportError) as error:
        raise InputError(f"{str(model)!r} cannot be exported: {error}") from error
    inputs = quoted([entry.name for entry in graph.graph.input])
    checked = "" if rows is None else f"; it agrees with the model on {rows.height:,} rows"
    log(f"graph with the inputs {inputs}: {out}{checked}")
    if (threshold := threshold_of(model)) is not None:
        log(f"  note: the graph gives probabilities; {threshold}")


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
    model: Path,
    table: Path,
    *,
    row: int,
    out: Path | None,
    to: str | None,
    change: dict[str, Any],
    quick: bool,
    delimiter: str | None,
    as_json: bool,
) -> None:
    """Explain one row; ``change`` holds the options of the counterfactual."""
    from vicinal.inspection import explain as explain_row
    from vicinal.io import info as read_info
    from vicinal.report import write_html

    is_searched = to is not None or change["n_counterfactuals"] > 1
    is_searched |= any(change[name] for name in _CHANGE_OPTIONS)
    if quick and is_searched:
        raise InputError(
            "--quick skips the counterfactual, which --to, --fixed, --increase, --decrease, "
            "--range, --allow, --change-cost and --counterfactuals are about; leave out --quick"
        )
    fitted = load_model(model)
    frame = read_table(table, delimiter)
    if not 0 <= row < frame.height:
        raise InputError(f"--row {row}: the table has the rows 0 to {frame.height - 1}")
    if out is not None:
        check_folder(out, "--out")
        if out.suffix not in (".html", ".json"):
            raise InputError(f"--out {str(out)!r} must end in .html or .json")
    rows = frame.select(known_columns(fitted, frame))
    options = _change_options(change, rows)
    options["target"] = None if to is None else _wanted(fitted, to)
    # Background rows of the model, else of the table.
    others = fitted.background(rows[row]) if hasattr(fitted, "background") else None
    if others is None:
        others = rows.filter(pl.int_range(rows.height) != row).head(_BACKGROUND_ROWS)
    if not len(others) and is_searched:
        raise InputError("a counterfactual needs other rows to compare with; the table has one")
    fitted = _decided(fitted, model)
    options["target_name"] = read_info(model).metadata.get("target")
    if quick or not len(others):
        options = {"target_name": options["target_name"]}
    else:
        options["background"] = others
    with working(f"explaining row {row}"):
        found = explain_row(fitted, rows[row], **options)
    print(_as_json(found) if as_json else found.text(), flush=True)
    if out is not None:
        if out.suffix == ".html":
            write_html(found, out, title=f"Row {row} of {table.name}")
        else:
            write_whole(out, _as_json(found))
        log(f"explanation: {out}")


# Names of the options in Python and in the shell.
_CHANGE_OPTIONS = {
    "fixed": "--fixed",
    "increase": "--increase",
    "decrease": "--decrease",
    "ranges": "--range",
    "categories": "--allow",
    "costs": "--change-cost",
}


def _change_options(change: dict[str, Any], rows: pl.DataFrame) -> dict[str, Any]:
    """Return the options of a counterfactual as `vicinal.inspection.explain` takes them."""
    found = dict(change)
    found["ranges"] = dict(_range(text) for text in change["ranges"])
    found["categories"] = dict(_allowed(text, rows) for text in change["categories"])
    found["costs"] = dict(_cost(text) for text in change["costs"])
    for key, option in _CHANGE_OPTIONS.items():
        unknown = [name for name in found[key] if name not in rows.columns]
        if unknown:
            raise InputError(f"{option} {unknown[0]!r}: the model uses {quoted(rows.columns)}")
    return found


def _range(text: str) -> tuple[str, tuple[float | None, float | None]]:
    """Read limits such as age=20:40, age=20: or age=:40."""
    name, equals, limits = text.rpartition("=")
    low, colon, high = limits.partition(":")
    try:
        if not (equals and colon):
            raise ValueError
        return name, (float(low) if low else None, float(high) if high else None)
    except ValueError:
        raise InputError(f"--range {text!r} must read column=low:high, such as age=20:40") from None


def _cost(text: str) -> tuple[str, float]:
    """Read the cost of a column such as income=3."""
    name, _, factor = text.rpartition("=")
    try:
        return name, float(factor)
    except ValueError:
        raise InputError(
            f"--change-cost {text!r} must read column=factor, such as income=3"
        ) from None


def _allowed(text: str, rows: pl.DataFrame) -> tuple[str, list[Any]]:
    """Read categories such as job=cook,smith, in the type of the column."""
    name, equals, values = text.partition("=")
    if not equals or name not in rows.columns:
        raise InputError(
            f"--allow {text!r} must read column=category,category with one of "
            f"{quoted(rows.columns)}"
        )
    wanted = values.split(",")
    known = [value for value in rows[name].unique().to_list() if str(value) in wanted]
    return name, known or wanted


def _wanted(fitted: Any, text: str) -> Any:
    """Return the class, or the range of values, that is written so."""
    if hasattr(fitted, "classes_"):
        return _label(fitted, text, "--to")
    try:
        value = float(text.lstrip("<>= "))
        if text.startswith(">="):
            return value, None
        if text.startswith("<="):
            return None, value
    except ValueError:
        pass
    raise InputError(f"--to {text!r}: the model predicts numbers; give >=4000 or <=4000")


def _label(fitted: Any, text: str, option: str) -> Any:
    """Return the class that is written so."""
    classes = np.asarray(getattr(fitted, "classes_", [])).tolist()
    for label in classes:
        if str(label) == text:
            return label
    raise InputError(f"{option} {text!r}: the classes are {quoted(classes)}")


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
    from vicinal.cli._training import fingerprint
    from vicinal.io import info as read_info
    from vicinal.report import ModelReport

    check_folder(out, "--out")
    fitted = load_model(model)
    frame = read_table(table, delimiter)
    if target is not None and target not in frame.columns:
        raise InputError(f"the table has no column {target!r}; it has {quoted(frame.columns)}")
    about = read_info(model).metadata
    target = target or about.get("target")
    frame, y, notes = known_target(frame, target, fitted)
    X = frame.select(known_columns(fitted, frame))
    if fingerprint(X) == about.get("rows"):
        notes.append("the model was fitted to these rows: scores on new rows will be lower")
        log(f"  note: {notes[-1]}; `vicinal compare` estimates by held-out rows")
    positive = about.get("positive")
    fitted = _decided(fitted, model)
    page = ModelReport(
        fitted,
        X,
        y,
        title=f"{model.name} on {table.name}",
        target=target or "the target",
        positive=None if positive is None else _label(fitted, positive, "the positive class"),
        n_explained=rows,
        notes=notes,
        random_state=seed,
        verbose=1,
    )
    log(f"report: {page.write_html(out)}")


def known_target(frame, target, fitted) -> tuple[pl.DataFrame, Any, list[str]]:
    """Return the rows with a target, the target in the type that the model predicts, and notes.

    A table without the target is returned whole.
    """
    if target is None or target not in frame.columns:
        lacks = "target" if target is None else f"column {target!r}"
        return frame, None, [f"the table has no {lacks}: scores cannot be computed"]
    notes: list[str] = []
    frame = rows_with_target(frame, target, notes)
    if not hasattr(fitted, "classes_"):
        try:
            column = as_numbers(frame[target], "regression").cast(pl.Float64)
        except pl.exceptions.InvalidOperationError:
            raise InputError(f"the target {target!r} holds no numbers") from None
        return frame, column.to_numpy(), notes
    classes = np.asarray(fitted.classes_)
    if classes.dtype.kind in "UO":
        y = frame[target].cast(pl.String).to_numpy().astype(str)
    else:
        y = as_numbers(frame[target], None).to_numpy()
    unknown = np.setdiff1d(y, classes)
    if len(unknown):
        raise InputError(
            f"the target {target!r} has classes unknown to the model: {quoted([*unknown])}"
        )
    return frame, y, notes


def serve(model: Path, table: Path | None, *, host: str, port: int, **options: Any) -> None:
    """Serve a model over HTTP until interrupted."""
    from vicinal.io import info as read_info
    from vicinal.serve import serve as listen

    pandas = import_optional("pandas", needed_by="vicinal serve", extra="serve")
    fitted = load_model(model)
    target = read_info(model).metadata.get("target")
    rows = y = None
    if table is not None:
        frame = read_table(table, None).head(_SERVED_ROWS)
        frame, y, _ = known_target(frame, target, fitted)
        rows = pandas.DataFrame(frame.select(known_columns(fitted, frame)).to_dict(as_series=False))
    fitted = _decided(fitted, model)
    address = f"[{host}]" if ":" in host else host
    log(f"http://{address}:{port}/ serves {model}; Ctrl-C stops it")
    name = re.sub(r"[^A-Za-z0-9_.-]+", "-", model.stem).strip("-") or "model"  # part of an address
    options |= {"name": name, "target": target, "table": rows, "y": y}
    try:
        listen(fitted, host=host, port=port, **options)
    except (ImportError, RuntimeError, ValueError) as error:
        raise InputError(str(error)) from None


def explore(model: Path, table: Path, *, out: Path, delimiter: str | None) -> None:
    """Write a page that computes predictions in the browser."""
    from vicinal.io import info as read_info
    from vicinal.report import ExplorerReport

    check_folder(out, "--out")
    fitted = load_model(model)
    frame = read_table(table, delimiter)
    target = read_info(model).metadata.get("target")
    frame, y, _ = known_target(frame, target, fitted)
    rows = frame.select(known_columns(fitted, frame))
    fitted = _decided(fitted, model)
    try:
        title = f"{model.stem} on {table.name}"
        page = ExplorerReport(fitted, rows, y, title=title, target=target)
        with working("computing the page"):
            path = page.write_html(out)
        log(f"explorer: {path}")
    except (TypeError, ValueError) as error:
        raise InputError(str(error)) from None


# --- without a model ----------------------------------------------------------------------------


def check(
    tables: Sequence[Path],
    *,
    target: str | None,
    against: Path | None,
    drop: Sequence[str],
    task: str | None,
    out: Path,
    seed: int,
    delimiter: str | None,
    as_json: bool,
) -> None:
    """Check a table, print the findings and write a page."""
    from vicinal.inspection import check as check_rows
    from vicinal.report import write_html

    check_folder(out, "--out")
    frame = read_tables(tables, delimiter)
    new = None if against is None else read_tables([against], delimiter)
    dropped = names_in(drop, frame)
    for name in dropped:
        check_has(frame, name)
    frame = frame.drop(dropped)
    y, notes = None, []
    if target is not None:
        checked = check_table(frame, target, task=task, roles=Roles(every_column=True))
        frame, y, task = checked.X, checked.y, checked.task
        notes = [note for note in checked.notes if "left out" in note and "rows" in note]
    if new is not None:
        missing = [name for name in frame.columns if name not in new.columns]
        if missing:  # row numbers and ids are not compared
            unused = TableEncoder().fit(frame).identifiers_
            missing = [name for name in missing if name not in unused]
        if missing:
            raise InputError(
                f"--against {str(against)!r} lacks {quoted(missing)}; leave out with --drop what "
                "new rows do not have"
            )
    with working("checking the table"):
        found = check_rows(
            frame, y, against=new, task=task, target=target or "target", random_state=seed
        )
    for note in notes:
        log(f"  note: {note}")
    print(json.dumps(found.to_dict(), indent=2, ensure_ascii=False) if as_json else found)
    title = f"Check of {tables[0].name}" + (
        "" if against is None else f" compared with {against.name}"
    )
    log(f"page: {write_html(found, out, title=title, notes=notes)}")


def warmup() -> None:
    """Compile what the default models need, and print how long each part took."""
    total = 0.0
    for name, step in compiling_steps().items():
        start = time.perf_counter()
        step()
        seconds = time.perf_counter() - start
        total += seconds
        print(f"{name:<16}{seconds:6.1f} s")
    print(f"{'together':<16}{total:6.1f} s")
    print(f"stored in {os.environ.get('NUMBA_CACHE_DIR', '__pycache__ folders of the package')}")
