"""Commands, their options and exit codes.

A command imports what it needs when it runs.
"""

import sys
import warnings
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.main import get_command

import vicinal

_INTERRUPTED = 130

app = typer.Typer(
    add_completion=True,
    rich_markup_mode=None,  # errors of one plain line instead of boxes
    context_settings={"help_option_names": ["-h", "--help"]},
)


class EmbeddedData(StrEnum):
    """Real tables that need no download."""

    breast_cancer = "breast_cancer"
    wine = "wine"
    digits = "digits"
    diabetes = "diabetes"


class Preset(StrEnum):
    """How much time a gain in accuracy may cost."""

    fast = "fast"
    default = "default"
    best = "best"


class Task(StrEnum):
    """What the target is."""

    classification = "classification"
    regression = "regression"


def _complete_model(incomplete: str) -> list[str]:
    from vicinal.cli._models import known_names

    head, comma, last = incomplete.rpartition(",")
    names = [name for name in known_names() if name.lower().startswith(last.lower())]
    return [f"{head}{comma}{name}" for name in names]


def _version(value: bool) -> None:
    if value:
        typer.echo(f"vicinal {vicinal.__version__}")
        raise typer.Exit


def _existing(kind: str) -> Callable[[Any], Any]:
    """Return a callback that refuses files that do not exist, before the imports of a command."""

    def check(value: Any) -> Any:
        for path in value if isinstance(value, list) else [value]:
            if path is not None and str(path) != "-" and not path.is_file():
                from vicinal.cli._show import InputError

                what = "is a folder" if path.is_dir() else "does not exist"
                raise InputError(f"the {kind} {str(path)!r} {what}")
        return value

    return check


_FORMATS = "CSV, TSV, Parquet, Arrow, Excel, JSON or JSON lines, also .gz; - is standard input."
Table = Annotated[Path, typer.Argument(help=_FORMATS, callback=_existing("table"))]
Tables = Annotated[
    list[Path],
    typer.Argument(help=f"{_FORMATS} Several are put together.", callback=_existing("table")),
]
Model = Annotated[
    Path, typer.Argument(help="A model written by `vicinal fit`.", callback=_existing("model"))
]
Target = Annotated[str, typer.Option("--target", "-t", help="The column to predict.")]
Delimiter = Annotated[
    str | None, typer.Option(help="What separates the columns of a text table; found by default.")
]
TaskOption = Annotated[Task | None, typer.Option(help="What the target is; guessed by default.")]
Drop = Annotated[
    list[str] | None, typer.Option(help="Columns to leave out, a,b,c; may be repeated.")
]
Category = Annotated[
    list[str] | None,
    typer.Option(help="Categorical columns, whatever their type; may be repeated."),
]
Group = Annotated[
    str | None, typer.Option(help="A column; rows of one group are never in two folds.")
]
TimeColumn = Annotated[
    str | None, typer.Option(help="A column of dates or numbers; folds go forward in time.")
]
CV = Annotated[
    str | None,
    typer.Option("--cv", help="Number of folds, 5; or time: folds go forward in row order."),
]
Metric = Annotated[
    str | None,
    typer.Option(help="A scikit-learn score, or auc, logloss, rmse, mae; accuracy or R²."),
]
Weight = Annotated[str | None, typer.Option(help="A column with the weight of each row.")]
Strict = Annotated[
    bool, typer.Option("--strict", help="Reject columns that are not plain numbers or categories.")
]
StrictRows = Annotated[
    bool,
    typer.Option(
        "--strict",
        help="Refuse rows with values that no training row has, such as unseen categories.",
    ),
]
Positive = Annotated[
    str | None,
    typer.Option(
        help="The positive class of two, for scores and --cost; the rarer one by default."
    ),
]
Cost = Annotated[
    float | None,
    typer.Option(
        help="Cost of a false negative of --positive, in false positives: selects the threshold "
        "on held-out rows, which is saved with the model."
    ),
]
Seed = Annotated[int, typer.Option(help="Seed of the folds and of every model.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the trace of an error.")] = False,
) -> None:
    """Local learning from the shell: fit, compare, predict and explain.

    \b
    vicinal compare people.csv --target income
    vicinal fit people.csv --target income --model local --out people.vicinal
    vicinal predict people.vicinal new.csv --proba --out predictions.csv
    vicinal explain people.vicinal new.csv --row 0

    To start, run `vicinal compare` or `vicinal check` with your table.
    """


@app.command("compare")
def compare_models(
    tables: Annotated[
        list[Path] | None, typer.Argument(help=f"{_FORMATS} None: an embedded set.")
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", "-t", help="The column to predict.")
    ] = None,
    data: Annotated[
        EmbeddedData, typer.Option(help="The embedded set that is used without a table.")
    ] = EmbeddedData.breast_cancer,
    models: Annotated[
        str | None,
        typer.Option(
            help="Names, separated by commas; all by default.", autocompletion=_complete_model
        ),
    ] = None,
    metric: Metric = None,
    budget: Annotated[str, typer.Option(help="Time for all models: 90s, 5m, 1h.")] = "90s",
    cv: CV = None,
    seed: Seed = 0,
    jobs: Annotated[
        int | None, typer.Option(help="Folds at a time, each a process; one per core, at most 4.")
    ] = None,
    out: Annotated[Path, typer.Option(help="Where the HTML report goes.")] = Path("report.html"),
    save: Annotated[
        Path | None, typer.Option(help="Where the best model, fitted on all rows, goes.")
    ] = None,
    task: TaskOption = None,
    drop: Drop = None,
    category: Category = None,
    group: Group = None,
    time_column: TimeColumn = None,
    weight: Weight = None,
    positive: Positive = None,
    cost: Cost = None,
    strict: Strict = False,
    delimiter: Delimiter = None,
    cache: Annotated[
        Path | None, typer.Option(help="Folder of finished folds; yours by default.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Neither read nor write the cache.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare local models with baselines on one table and write an HTML report.

    A run that was stopped can be continued: the same command computes only the missing folds.

    \b
    vicinal compare
    vicinal compare people.csv --target income --budget 5m
    vicinal compare people.csv -t income --models local,random-forest --metric auc
    vicinal compare sales.parquet -t price --drop id,draft --json > board.json
    vicinal compare visits.csv -t outcome --group patient --save best.vicinal
    vicinal compare fraud.csv -t fraud --positive yes --cost 20 --save best.vicinal
    """
    from vicinal.cli import _training
    from vicinal.cli._check_table import Roles, Source

    _training.compare(
        Source(
            tables or [],
            target,
            Roles(drop or [], category or [], group, time_column, weight),
            task,
            delimiter,
            strict,
            embedded=data.value,
        ),
        models=models,
        metric=metric,
        budget=budget,
        cv=cv,
        seed=seed,
        jobs=jobs,
        out=out,
        save=save,
        positive=positive,
        cost=cost,
        cache=cache,
        fresh=fresh,
        as_json=as_json,
    )


@app.command("check")
def check_table(
    tables: Tables,
    target: Annotated[
        str | None, typer.Option("--target", "-t", help="The column to predict, if there is one.")
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="New rows to compare with the table.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the page goes.")] = Path(
        "check.html"
    ),
    task: TaskOption = None,
    drop: Drop = None,
    seed: Seed = 0,
    delimiter: Delimiter = None,
    as_json: AsJson = False,
) -> None:
    """Check a table before a model is fitted to it, and write a page.

    Suspicious labels, repeated rows, columns that leak the target or are uninformative, rare
    classes; with --against also how new rows differ, and rows that are in both tables.

    \b
    vicinal check people.csv --target income
    vicinal check people.csv --target income --against new.csv --out check.html
    """
    from vicinal.cli import _commands

    _commands.check(
        tables,
        target=target,
        against=against,
        drop=drop or [],
        task=task,
        out=out,
        seed=seed,
        delimiter=delimiter,
        as_json=as_json,
    )


@app.command("fit")
def fit_model(
    tables: Tables,
    target: Target,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the model goes.")],
    model: Annotated[
        str, typer.Option("--model", "-m", help="Its name.", autocompletion=_complete_model)
    ] = "auto",
    settings: Annotated[
        list[str] | None, typer.Option("--set", help="key=value of the model; may be repeated.")
    ] = None,
    preset: Annotated[
        Preset | None, typer.Option(help="What `auto` tries: less in less time, or more.")
    ] = None,
    seed: Seed = 0,
    budget: Annotated[
        str, typer.Option(help="Time for the fit of `auto`, and for the estimate of the score.")
    ] = "60s",
    cv: CV = None,
    metric: Metric = None,
    task: TaskOption = None,
    drop: Drop = None,
    category: Category = None,
    group: Group = None,
    time_column: TimeColumn = None,
    weight: Weight = None,
    positive: Positive = None,
    cost: Cost = None,
    strict: Strict = False,
    delimiter: Delimiter = None,
) -> None:
    """Fit one model on a whole table and save it with its encoder.

    Prints the estimated score on held-out rows, from folds of the table.

    \b
    vicinal fit people.csv --target income --out people.vicinal
    vicinal fit people.csv -t income -m space-partitioning --set n_regions=4 -o people.vicinal
    vicinal fit fraud.csv -t fraud --positive yes --cost 20 -o fraud.vicinal
    vicinal fit sales.csv -t sold --time-column day --metric mae -o sales.vicinal
    """
    from vicinal.cli import _training
    from vicinal.cli._check_table import Roles, Source

    source = Source(
        tables,
        target,
        Roles(drop or [], category or [], group, time_column, weight),
        task,
        delimiter,
        strict,
    )
    _training.fit(
        source,
        model=model,
        settings=[*(settings or []), *([f"preset={preset}"] if preset else [])],
        seed=seed,
        out=out,
        budget=budget,
        cv=cv,
        metric=metric,
        positive=positive,
        cost=cost,
    )


@app.command("predict")
def predict_rows(
    model: Model,
    tables: Tables,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A table; - or nothing is standard output.")
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option("--keep", "--key", help="Columns to copy to the predictions, a,b,c."),
    ] = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="Add the probability of every class.")
    ] = False,
    interval: Annotated[
        float | None,
        typer.Option(
            help="Add a prediction interval (lower, upper) or, for classes, a prediction_set: the "
            "true value is in it with this probability, such as 0.9."
        ),
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option(help="A column: --interval holds within each of its values; repeatable."),
    ] = None,
    by_class: Annotated[
        bool, typer.Option("--by-class", help="--interval holds within every class.")
    ] = False,
    abstain: Annotated[
        float | None,
        typer.Option(
            help="Largest share of wrong labels among the rows that are predicted, such as 0.05; "
            "less confident rows have an empty prediction."
        ),
    ] = None,
    cost_matrix: Annotated[
        Path | None,
        typer.Option(
            help="A table of costs, true labels in its first column and predicted ones in its "
            "header: predicts the label of least expected cost.",
            callback=_existing("table"),
        ),
    ] = None,
    typicality: Annotated[
        bool,
        typer.Option("--typicality", help="Add the typicality of each row, from 0 (novel) to 1."),
    ] = False,
    strict: StrictRows = False,
    delimiter: Delimiter = None,
) -> None:
    """Predict every row of a table.

    \b
    vicinal predict people.vicinal new.csv --out predictions.csv
    vicinal predict people.vicinal new.parquet --proba --key id --out predictions.parquet
    vicinal predict prices.vicinal new.csv --interval 0.9 --by city --typicality
    vicinal predict people.vicinal new.csv --abstain 0.05 --strict
    vicinal predict people.vicinal new.csv --cost-matrix costs.csv
    cat new.json | vicinal predict people.vicinal - --out -

    A prediction_set such as "no | yes" lists the classes that cannot be excluded at that level.
    """
    from vicinal.cli import _commands

    _commands.predict(
        model,
        tables,
        out=out,
        proba=proba,
        interval=interval,
        by=by or [],
        by_class=by_class,
        abstain=abstain,
        cost_matrix=cost_matrix,
        typicality=typicality,
        strict=strict,
        keep=keep or [],
        delimiter=delimiter,
    )


@app.command("explain")
def explain_row(
    model: Model,
    table: Table,
    row: Annotated[int, typer.Option("--row", "-r", help="Which row, from 0.")],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="An .html or .json file, in addition to the text."),
    ] = None,
    fixed: Annotated[
        list[str] | None,
        typer.Option(help="A column that the counterfactual must not change; repeatable."),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            help="Prediction of the counterfactual: a class, or for regression >=4000 or <=4000."
        ),
    ] = None,
    increase: Annotated[
        list[str] | None,
        typer.Option(help="A column that the counterfactual may only increase; repeatable."),
    ] = None,
    decrease: Annotated[
        list[str] | None,
        typer.Option(help="A column that the counterfactual may only decrease; repeatable."),
    ] = None,
    limits: Annotated[
        list[str] | None,
        typer.Option("--range", help="Limits of a changed column, age=20:40; repeatable."),
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(help="Categories of a changed column, job=cook,smith; repeatable."),
    ] = None,
    costs: Annotated[
        list[str] | None,
        typer.Option(
            "--change-cost", help="Factor of the changes of a column, income=3; repeatable."
        ),
    ] = None,
    number: Annotated[
        int, typer.Option("--counterfactuals", min=1, help="How many counterfactuals.")
    ] = 1,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Skip the counterfactual and other comparisons with rows."),
    ] = False,
    delimiter: Delimiter = None,
    as_json: AsJson = False,
) -> None:
    """Explain the prediction for one row.

    Prints the prediction, contributions of the columns, similar training rows, the counterfactual
    and novelty. Contributions and counterfactual are computed from other rows of the table.

    \b
    vicinal explain people.vicinal new.csv --row 3
    vicinal explain people.vicinal new.csv --row 3 --out why.html
    vicinal explain people.vicinal new.csv --row 3 --fixed age --to yes
    vicinal explain prices.vicinal new.csv --row 3 --to ">=4000" --increase area
    """
    from vicinal.cli import _commands

    _commands.explain(
        model,
        table,
        row=row,
        out=out,
        to=to,
        change={
            "fixed": fixed or [],
            "increase": increase or [],
            "decrease": decrease or [],
            "ranges": limits or [],
            "categories": allow or [],
            "costs": costs or [],
            "n_counterfactuals": number,
        },
        quick=quick,
        delimiter=delimiter,
        as_json=as_json,
    )


@app.command("report")
def report_model(
    model: Model,
    table: Table,
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the page goes.")] = Path(
        "report.html"
    ),
    target: Annotated[
        str | None, typer.Option("--target", "-t", help="The true values; as in `fit` by default.")
    ] = None,
    rows: Annotated[int, typer.Option(min=1, max=200, help="Rows that are explained.")] = 24,
    seed: Seed = 0,
    delimiter: Delimiter = None,
) -> None:
    """Write an HTML page about a model on a table that it has not seen.

    With the target among the columns the page shows how good the predictions are.

    \b
    vicinal report people.vicinal test.csv --out people.html
    """
    from vicinal.cli import _commands

    _commands.report(
        model, table, target=target, out=out, rows=rows, seed=seed, delimiter=delimiter
    )


@app.command("serve")
def serve_model(
    model: Model,
    table: Annotated[
        Path | None,
        typer.Option(help="Rows like those of the training table, to start from and compare with."),
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to listen at.")] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            envvar="VICINAL_TOKEN",
            help="Token that requests must send; required unless the host is loopback.",
        ),
    ] = None,
    max_bytes: Annotated[int, typer.Option(min=1, help="Largest body of a request, in bytes.")] = 2
    ** 20,
    max_rows: Annotated[int, typer.Option(min=1, help="Most rows of a request.")] = 100_000,
    max_seconds: Annotated[float, typer.Option(min=0.1, help="Time limit of a request.")] = 60.0,
    workers: Annotated[int, typer.Option(min=1, help="Number of processes.")] = 1,
    access_log: Annotated[
        bool, typer.Option(help="Write one line of JSON for each request to the standard error.")
    ] = True,
    strict: StrictRows = False,
) -> None:
    """Serve a model over HTTP, with an interactive page.

    POST /predict and /explain take JSON rows or CSV; /v2/... is the Open Inference Protocol. /docs
    describes all routes, and /metrics counts requests for Prometheus.

    \b
    vicinal serve people.vicinal --table people.csv
    curl -H 'Content-Type: text/csv' --data-binary @new.csv http://127.0.0.1:8000/predict
    """
    import gc

    gc.disable()  # until the server is ready: collections are a tenth of the time to start

    from vicinal.cli import _commands

    _commands.serve(
        model,
        table,
        host=host,
        port=port,
        token=token,
        max_bytes=max_bytes,
        max_rows=max_rows,
        max_seconds=max_seconds,
        workers=workers,
        access_log=access_log,
        strict=strict,
    )


@app.command("explore")
def explore_model(
    model: Model,
    table: Annotated[Path, typer.Argument(help="Rows to start from and to compare with.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the page goes.")] = Path(
        "explorer.html"
    ),
    delimiter: Delimiter = None,
) -> None:
    """Write a page on which the reader changes a row and sees the prediction.

    The page computes in the browser: anchored local models, partitions with linear regions and
    linear models as they are, and of any other model a copy, with its difference from the model.

    \b
    vicinal explore people.vicinal test.csv --out people.html
    """
    from vicinal.cli import _commands

    _commands.explore(model, table, out=out, delimiter=delimiter)


@app.command("warmup")
def compile_ahead() -> None:
    """Compile the functions of the default models ahead of the first fit.

    Small tables need nothing compiled. For larger tables the first fit of an installation compiles
    some functions, which takes about fifteen seconds; later processes read them from the folder of
    the installed package or from NUMBA_CACHE_DIR. Run this command while an image is built; it
    takes about twenty seconds.
    """
    from vicinal.cli import _commands

    _commands.warmup()


@app.command("export")
def export_model(
    model: Model,
    out: Annotated[Path, typer.Argument(help="Where the graph goes, an .onnx file.")],
    table: Annotated[
        Path | None, typer.Option(help="Rows on which the graph must agree with the model.")
    ] = None,
    delimiter: Delimiter = None,
) -> None:
    """Write a model with its encoder as an ONNX graph, which runs without Python.

    The graph has one input for each column: numbers as doubles with NaN for a missing value,
    strings with "" for a missing value, dates as days since 1970.

    \b
    vicinal export people.vicinal people.onnx --table people.csv
    """
    from vicinal.cli import _commands

    _commands.export(model, out, table=table, delimiter=delimiter)


@app.command("info")
def show_info(model: Model, as_json: AsJson = False) -> None:
    """Print what a model file contains, without loading the model.

    \b
    vicinal info people.vicinal
    """
    from vicinal.cli import _info

    _info.info(model, as_json=as_json)


# --- from arguments to an exit code -------------------------------------------------------------


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code.

    0 is success, 2 an error of the input or an option, 1 any other error, 130 an
    interruption. ``--debug`` anywhere lets the trace through.
    """
    debug = "--debug" in arguments
    with warnings.catch_warnings():
        if not debug:
            warnings.showwarning = _note
        return _run(arguments, debug)


def _run(arguments: list[str], debug: bool) -> int:
    arguments = [argument for argument in arguments if argument != "--debug"] or ["--help"]
    try:
        # Without "standalone", errors and exit codes come back here instead of boxes and exits.
        code = get_command(app).main(arguments, prog_name="vicinal", standalone_mode=False) or 0
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except Exception as error:
        if debug:
            raise
        return _explain(error)
    return _fail("interrupted", code) if code == _INTERRUPTED else code


def _explain(error: Exception) -> int:
    from vicinal.cli._show import InputError

    if isinstance(error, InputError):
        return _fail(str(error), 2)
    if hasattr(error, "format_message"):  # click's own errors, whichever copy of click it is
        return _fail(error.format_message(), getattr(error, "exit_code", 2))
    text = str(error).strip().splitlines()
    reason = f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
    return _fail(f"{reason} (--debug shows where)", 1)


def _note(message, category, filename, lineno, file=None, line=None) -> None:
    """Print a warning as one line, without its location in the code.

    Warnings of other libraries are hidden, except that a fit did not converge.
    """
    from sklearn.exceptions import ConvergenceWarning

    text = " ".join(str(message).split())
    is_ours = Path(vicinal.__path__[0]) in Path(filename).parents
    if issubclass(category, ConvergenceWarning):
        text = text if is_ours else "the fit stopped before it converged; raise its max_iter"
    elif not is_ours or category.__module__.startswith("sklearn."):
        return
    print(f"  note: {text}", file=sys.stderr)


def _fail(message: str, code: int) -> int:
    print(f"vicinal: {' '.join(message.split())}", file=sys.stderr)
    return code
