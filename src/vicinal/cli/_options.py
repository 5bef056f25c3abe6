"""The application, and the options that several commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from typer import Argument, Option, Typer

from vicinal.cli._show import InputError

app = Typer(
    add_completion=True,
    rich_markup_mode=None,  # errors of one plain line instead of boxes
    context_settings={"help_option_names": ["-h", "--help"]},
)


def existing(kind: str) -> Callable[[Any], Any]:
    """Return a callback that refuses files that do not exist, before the imports of a command."""

    def check(value: Any) -> Any:
        for path in value if isinstance(value, list) else [value]:
            is_given = path is not None and (kind == "model" or str(path) != "-")
            if is_given and not path.is_file():
                what = "is a folder" if path.is_dir() else "does not exist"
                raise InputError(f"the {kind} {str(path)!r} {what}")
        return value

    return check


def table_option(help: str) -> Any:
    """Return an option that takes a table."""
    return Option(help=help, callback=existing("table"))


FORMATS = "CSV, TSV, Parquet, Arrow, Excel, JSON or JSON lines, also .gz; - is standard input."
Texts = list[str] | None
Table = Annotated[Path, Argument(help=FORMATS, callback=existing("table"))]
Tables = Annotated[
    list[Path], Argument(help=f"{FORMATS} Several are put together.", callback=existing("table"))
]
Model = Annotated[
    Path, Argument(help="A model written by `vicinal fit`.", callback=existing("model"))
]
Delimiter = Annotated[
    str | None, Option(help="What separates the columns of a text table; found by default.")
]
Task = Annotated[
    Literal["classification", "regression"] | None,
    Option(help="What the target is; guessed by default."),
]
Drop = Annotated[Texts, Option(help="Columns to leave out, a,b,c; may be repeated.")]
Category = Annotated[
    Texts, Option(help="Categorical columns, whatever their type; may be repeated.")
]
Group = Annotated[str | None, Option(help="A column; rows of one group are never in two folds.")]
TimeColumn = Annotated[
    str | None, Option(help="A column of dates or numbers; folds go forward in time.")
]
CV = Annotated[
    str | None, Option("--cv", help="Number of folds, 5; or time: folds go forward in row order.")
]
Metric = Annotated[
    str | None, Option(help="A scikit-learn score, or auc, logloss, rmse, mae; accuracy or R².")
]
Weight = Annotated[str | None, Option(help="A column with the weight of each row.")]
Strict = Annotated[
    bool, Option("--strict", help="Reject columns that are not plain numbers or categories.")
]
StrictRows = Annotated[
    bool,
    Option(
        "--strict",
        help="Refuse rows with values that no training row has, such as unseen categories.",
    ),
]
Positive = Annotated[
    str | None,
    Option(help="The positive class of two, for scores and --cost; the rarer one by default."),
]
Cost = Annotated[
    float | None,
    Option(
        help="Cost of a false negative of --positive, in false positives: selects the threshold "
        "on held-out rows, which is saved with the model."
    ),
]
Page = Annotated[Path, Option("--out", "-o", help="Where the page goes.")]
Seed = Annotated[int, Option(help="Seed of the folds and of every model.")]
AsJson = Annotated[bool, Option("--json", help="Print JSON instead of text.")]
