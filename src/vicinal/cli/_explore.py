"""The command `explore`: a model to play with, in a page that computes by itself."""

from pathlib import Path
from typing import Annotated

import typer


def explore(
    model: Annotated[Path, typer.Argument(help="A model written by `vicinal fit`.")],
    table: Annotated[Path, typer.Argument(help="Rows to start from and to compare with.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where the page goes.")] = Path(
        "explorer.html"
    ),
    delimiter: Annotated[
        str | None, typer.Option(help="What separates the columns of a text table.")
    ] = None,
) -> None:
    """Write a page on which one moves the columns of a row and sees what the model says.

    The page computes in the browser: anchored local models, partitions with linear regions, linear
    models. Any other model answers through `vicinal serve`.

    \b
    vicinal fit people.csv -t income --model anchored-local --out people.vicinal
    vicinal explore people.vicinal test.csv --out people.html
    """
    from vicinal.cli._commands import known_columns, known_target, load_model, threshold_of
    from vicinal.cli._errors import InputError
    from vicinal.cli._read_table import check_folder, read_table
    from vicinal.cli._show import say
    from vicinal.io import info
    from vicinal.report import ExplorerReport

    check_folder(out, "--out")
    fitted = load_model(model)
    frame = read_table(table, delimiter)
    frame, y, _ = known_target(frame, info(model).metadata.get("target"), fitted)
    rows = frame.select(known_columns(fitted, frame))
    if (threshold := threshold_of(model)) is not None:
        say(f"answers are {threshold}")
        fitted = threshold.applied(fitted)
    try:
        page = ExplorerReport(fitted, rows, y, title=f"{model.stem} on {table.name}")
        say(f"explorer: {page.write_html(out)}")
    except (TypeError, ValueError) as error:
        raise InputError(str(error)) from None
