"""Commands and their options."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from sklearn import datasets

from vicinal.inspection import candidate_models, compare
from vicinal.report import ComparisonReport

app = typer.Typer(
    add_completion=True,
    no_args_is_help=True,
    rich_markup_mode=None,  # errors of one plain line instead of boxes
    help="Local learning from the shell: models that are simple where you stand.",
)


class EmbeddedData(StrEnum):
    """Real tables that need no download."""

    breast_cancer = "breast_cancer"
    wine = "wine"
    digits = "digits"
    diabetes = "diabetes"


@app.callback()
def _commands() -> None:
    # A callback keeps `compare` a named command while it is the only one.
    pass


@app.command("compare")
def compare_models(
    data: Annotated[EmbeddedData, typer.Option(help="An embedded real table.")] = (
        EmbeddedData.breast_cancer
    ),
    folds: Annotated[int, typer.Option(min=2, help="Number of cross-validation folds.")] = 5,
    seed: Annotated[int, typer.Option(help="Seed of the folds and of every model.")] = 0,
    out: Annotated[Path, typer.Option(help="Where the HTML report goes.")] = Path("report.html"),
) -> None:
    """Rank the local models beside baselines on one table and write an HTML report."""
    if not out.parent.is_dir():
        raise typer.BadParameter(
            f"the folder {str(out.parent)!r} does not exist", param_hint="--out"
        )
    X, y = getattr(datasets, f"load_{data.value}")(return_X_y=True)
    task = "regression" if data is EmbeddedData.diabetes else "classification"
    board = compare(
        candidate_models(task, random_state=seed), X, y, cv=folds, random_state=seed, verbose=1
    )
    typer.echo(board)
    title = f"{data.value.replace('_', ' ')}: local models beside baselines"
    path = ComparisonReport(board, title).write_html(out)
    typer.echo(f"report: {path}")
