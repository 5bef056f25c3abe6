"""Commands that use a saved model.

A command imports what it needs when it runs.
"""

from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from vicinal.cli import _options as shared
from vicinal.cli._options import Texts, app
from vicinal.cli._show import InputError, as_text, log, quoted

_SERVED_ROWS = 2000


@app.command("predict")
def predict_rows(
    model: shared.Model,
    tables: shared.Tables,
    out: Annotated[
        Path | None, Option("--out", "-o", help="A table; - or nothing is standard output.")
    ] = None,
    keep: Annotated[
        Texts, Option("--keep", "--key", help="Columns to copy to the predictions, a,b,c.")
    ] = None,
    proba: Annotated[bool, Option("--proba", help="Add the probability of every class.")] = False,
    interval: Annotated[
        float | None,
        Option(
            help="Add a prediction interval (lower, upper) or, for classes, a prediction_set: the "
            "true value is in it with this probability, such as 0.9."
        ),
    ] = None,
    typicality: Annotated[
        bool, Option("--typicality", help="Add the typicality of each row, from 0 (novel) to 1.")
    ] = False,
    strict: shared.StrictRows = False,
    delimiter: shared.Delimiter = None,
) -> None:
    """Predict every row of a table.

    \b
    vicinal predict people.vicinal new.csv --out predictions.csv
    vicinal predict people.vicinal new.parquet --proba --key id --out predictions.parquet
    vicinal predict prices.vicinal new.csv --interval 0.9 --typicality --strict
    cat new.json | vicinal predict people.vicinal - --out -

    A prediction_set such as "no | yes" lists the classes that cannot be excluded at that level.
    """
    import polars as pl

    from vicinal._base import counted
    from vicinal._base._unseen import unreported
    from vicinal.cli import _check_table, _progress, _read_table, _stored_model

    if interval is not None and not 0 < interval < 1:
        raise InputError(
            f"--interval {interval:g} must be a probability between 0 and 1, such as 0.9"
        )
    stored = _stored_model.StoredModel(model)
    frame = _read_table.read_tables(tables, delimiter)
    X = stored.features(frame)
    columns: dict[str, Any] = {name: frame[name] for name in _check_table.columns_in(frame, keep)}
    out = None if out == Path("-") else out
    if out is not None:
        _read_table.check_folder(out, "--out")
    stored.check_unseen(X, strict)
    with unreported(), _progress.working(f"predicting {counted(frame.height, 'row')}"):
        columns |= stored.predictions(X, proba)
        if interval is not None:
            columns |= stored.limits(X, interval)
        if typicality:
            columns["typicality"] = stored.call("typicality", "--typicality", X)
    output = pl.DataFrame(columns, strict=False)
    if out is None:
        print(_read_table.without_formulas(output).write_csv(), end="")
        return
    _read_table.write_table(output, out)
    log(f"{counted(output.height, 'prediction')}: {out}")


@app.command("explain")
def explain_row(
    model: shared.Model,
    table: shared.Table,
    row: Annotated[int, Option("--row", "-r", help="Which row, from 0.")],
    out: Annotated[
        Path | None, Option("--out", "-o", help="An .html or .json file, in addition to the text.")
    ] = None,
    fixed: Annotated[
        Texts, Option(help="A column that the counterfactual must not change; repeatable.")
    ] = None,
    to: Annotated[
        str | None,
        Option(
            help="Prediction of the counterfactual: a class, or for regression >=4000 or <=4000."
        ),
    ] = None,
    quick: Annotated[
        bool, Option("--quick", help="Skip the counterfactual and other comparisons with rows.")
    ] = False,
    delimiter: shared.Delimiter = None,
    as_json: shared.AsJson = False,
) -> None:
    """Explain the prediction for one row.

    Prints the prediction, contributions of the columns, similar training rows, the counterfactual
    and novelty. Contributions and counterfactual are computed from other rows of the table.

    \b
    vicinal explain people.vicinal new.csv --row 3
    vicinal explain people.vicinal new.csv --row 3 --out why.html
    vicinal explain people.vicinal new.csv --row 3 --fixed age --to yes
    vicinal explain prices.vicinal new.csv --row 3 --to ">=4000"
    """
    from vicinal._base import write_whole
    from vicinal.cli import _progress, _read_table, _stored_model
    from vicinal.inspection import explain
    from vicinal.report import write_html

    is_searched = to is not None or bool(fixed)
    if quick and is_searched:
        raise InputError(
            "--quick skips the counterfactual, which --to and --fixed are about; leave out --quick"
        )
    stored = _stored_model.StoredModel(model)
    frame = _read_table.read_table(table, delimiter)
    if not 0 <= row < frame.height:
        raise InputError(f"--row {row}: the table has the rows 0 to {frame.height - 1}")
    if out is not None:
        _read_table.check_folder(out, "--out")
        if out.suffix not in (".html", ".json"):
            raise InputError(f"--out {str(out)!r} must end in .html or .json")
    rows = stored.features(frame)
    unknown = [name for name in fixed or [] if name not in rows.columns]
    if unknown:
        raise InputError(f"--fixed {unknown[0]!r}: the model uses {quoted(rows.columns)}")
    options: dict[str, Any] = {
        "fixed": fixed or [],
        "target": None if to is None else stored.wanted(to),
        "background": stored.background(rows, row),
    }
    if quick or not len(options["background"]):
        if is_searched:
            raise InputError("a counterfactual needs other rows to compare with; the table has one")
        options = {}
    decided = stored.decided()
    with _progress.working(f"explaining row {row}"):
        found = explain(decided, rows[row], target_name=stored.target, **options)
    text = as_text(found.to_dict())
    print(text if as_json else found.text(), flush=True)
    if out is not None:
        if out.suffix == ".html":
            write_html(found, out, title=f"Row {row} of {table.name}")
        else:
            write_whole(out, text)
        log(f"explanation: {out}")


@app.command("report")
def report_model(
    model: shared.Model,
    table: shared.Table,
    out: shared.Page = Path("report.html"),
    target: Annotated[
        str | None, Option("--target", "-t", help="The true values; as in `fit` by default.")
    ] = None,
    rows: Annotated[int, Option(min=1, max=200, help="Rows that are explained.")] = 24,
    seed: shared.Seed = 0,
    delimiter: shared.Delimiter = None,
) -> None:
    """Write an HTML page about a model on a table that it has not seen.

    With the target among the columns the page shows how good the predictions are.

    \b
    vicinal report people.vicinal test.csv --out people.html
    """
    from vicinal.cli import _check_table, _read_table, _stored_model
    from vicinal.report import ModelReport

    _read_table.check_folder(out, "--out")
    stored = _stored_model.StoredModel(model)
    frame = _read_table.read_table(table, delimiter)
    if target is not None:
        _check_table.check_has(frame, target)
    X, y, notes = stored.labelled(frame, target)
    if _check_table.fingerprint(X) == stored.metadata.get("rows"):
        notes.append("the model was fitted to these rows: scores on new rows will be lower")
        log(f"  note: {notes[-1]}; `vicinal compare` estimates by held-out rows")
    positive = stored.metadata.get("positive")
    page = ModelReport(
        stored.decided(),
        X,
        y,
        title=f"{model.name} on {table.name}",
        target=target or stored.target or "the target",
        positive=None if positive is None else stored.label(positive, "the positive class"),
        n_explained=rows,
        notes=notes,
        random_state=seed,
        verbose=1,
    )
    log(f"report: {page.write_html(out)}")


@app.command("serve")
def serve_model(
    model: shared.Model,
    table: Annotated[
        Path | None,
        shared.table_option("Rows like those of the training table, to start from and compare."),
    ] = None,
    host: Annotated[str, Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, Option(min=0, max=65535, help="Port to listen at.")] = 8000,
    token: Annotated[
        str | None,
        Option(
            envvar="VICINAL_TOKEN",
            help="Token that requests must send; required unless the host is loopback.",
        ),
    ] = None,
    max_bytes: Annotated[int, Option(min=1, help="Largest body of a request, in bytes.")] = 2**20,
    max_rows: Annotated[int, Option(min=1, help="Most rows of a request.")] = 100_000,
    max_seconds: Annotated[float, Option(min=0.1, help="Time limit of a request.")] = 60.0,
    access_log: Annotated[
        bool, Option(help="Write one line of JSON for each request to the standard error.")
    ] = True,
    strict: shared.StrictRows = False,
    delimiter: shared.Delimiter = None,
) -> None:
    """Serve a model over HTTP, with an interactive page.

    POST /predict, /explain and /neighbors take JSON rows or CSV.

    \b
    vicinal serve people.vicinal --table people.csv
    curl -H 'Content-Type: text/csv' --data-binary @new.csv http://127.0.0.1:8000/predict
    """
    import gc

    gc.disable()  # until the server is ready: collections are a tenth of the time to start

    from vicinal._base import import_optional
    from vicinal.cli import _read_table, _stored_model
    from vicinal.serve import serve

    pandas = import_optional("pandas", needed_by="vicinal serve", extra="serve")
    stored = _stored_model.StoredModel(model)
    rows = y = None
    if table is not None:
        frame = _read_table.read_table(table, delimiter)
        X, y, _ = stored.labelled(frame.head(_SERVED_ROWS))
        rows = pandas.DataFrame(X.to_dict(as_series=False))
    decided = stored.decided()
    address = f"[{host}]" if ":" in host else host
    try:
        serve(
            decided,
            host=host,
            port=port,
            access_log=access_log,
            on_start=lambda: log(f"http://{address}:{port}/ serves {model}; Ctrl-C stops it"),
            name=model.stem,
            target=stored.target,
            table=rows,
            y=y,
            token=token,
            max_bytes=max_bytes,
            max_rows=max_rows,
            max_seconds=max_seconds,
            strict=strict,
        )
    except (ImportError, RuntimeError, ValueError) as error:
        raise InputError(str(error)) from None


@app.command("warmup")
def compile_ahead() -> None:
    """Compile the functions of the default models ahead of the first fit.

    Small tables need nothing compiled. For larger tables the first fit of an installation compiles
    some functions, which takes about fifteen seconds; later processes read them from the folder of
    the installed package or from NUMBA_CACHE_DIR. Run this command while an image is built; it
    takes about twenty seconds.
    """
    import os
    import time

    from vicinal.cli import _models

    for name, step in _models.compiling_steps().items():
        start = time.perf_counter()
        step()
        print(f"{name:<16}{time.perf_counter() - start:6.1f} s")
    print(f"stored in {os.environ.get('NUMBA_CACHE_DIR', '__pycache__ folders of the package')}")


@app.command("export")
def export_model(
    model: shared.Model,
    out: Annotated[Path, Argument(help="Where the graph goes, an .onnx file.")],
    table: Annotated[
        Path | None, shared.table_option("Rows on which the graph must agree with the model.")
    ] = None,
    delimiter: shared.Delimiter = None,
) -> None:
    """Write a model with its encoder as an ONNX graph, which runs without Python.

    The graph has one input for each column: numbers as doubles with NaN for a missing value,
    strings with "" for a missing value, dates as days since 1970.

    \b
    vicinal export people.vicinal people.onnx --table people.csv
    """
    from vicinal._base import counted
    from vicinal.cli import _read_table, _stored_model
    from vicinal.io import OnnxExportError, to_onnx

    _read_table.check_folder(out, "the output")
    if out.suffix.lower() != ".onnx":
        raise InputError(f"the output {str(out)!r} must end in .onnx")
    stored = _stored_model.StoredModel(model)
    rows = None if table is None else stored.features(_read_table.read_table(table, delimiter))
    try:
        graph = to_onnx(stored.fitted, rows, path=out)
    except (OnnxExportError, ImportError) as error:
        raise InputError(f"{str(model)!r} cannot be exported: {error}") from error
    inputs = quoted([entry.name for entry in graph.graph.input])
    checked = "" if rows is None else f"; it agrees with the model on {counted(rows.height, 'row')}"
    log(f"graph with the inputs {inputs}: {out}{checked}")
    if stored.threshold is not None:
        log(f"  note: the graph gives probabilities; {stored.threshold}")


@app.command("info")
def show_info(model: shared.Model, as_json: shared.AsJson = False) -> None:
    """Print what a model file contains, without loading the model.

    \b
    vicinal info people.vicinal
    """
    import json

    from vicinal._base import printable
    from vicinal.io import info

    try:
        facts = info(model)
        lines = dict(facts.metadata)
        if lines.get("threshold") is not None:
            from vicinal.cli._threshold import Threshold

            lines["threshold"] = Threshold.of(lines)
    except (ValueError, TypeError) as error:
        raise InputError(f"the model {str(model)!r} cannot be read: {error}") from error
    if as_json:
        print(json.dumps(facts.to_dict(), indent=2, default=str))
        return
    lines |= {"saved": facts.saved, "size": f"{facts.size:,} bytes"}
    lines["versions"] = ", ".join(f"{name} {text}" for name, text in facts.versions.items())
    lines["classes"] = None if facts.classes is None else quoted(facts.classes, 12)
    lines.pop("rows", None)
    columns = lines.pop("columns", None)
    if not isinstance(columns, dict):
        columns = dict.fromkeys(facts.feature_names_in or [], "")
    lines.setdefault("model", facts.model)
    for key, value in lines.items():
        if value is not None:
            print(printable(f"{key:<9} {value}"))
    print(f"columns   {len(columns)}")
    for name, dtype in columns.items():
        print(printable(f"  {name}  {dtype}"))
