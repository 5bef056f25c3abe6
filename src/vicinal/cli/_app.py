"""The command line: arguments, errors and exit codes."""

import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer
from typer.main import get_command

import vicinal
from vicinal.cli import _fit_commands, _model_commands  # noqa: F401, in the order of the help
from vicinal.cli._options import app
from vicinal.cli._show import InputError

_INTERRUPTED = 130


def _version(value: bool) -> None:
    if value:
        typer.echo(f"vicinal {vicinal.__version__}")
        raise typer.Exit


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


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code.

    0 is success, 2 an error of the input or an option, 1 any other error, 130 an
    interruption. ``--debug`` anywhere lets the trace through.
    """
    debug = "--debug" in arguments
    arguments = [argument for argument in arguments if argument != "--debug"] or ["--help"]
    with warnings.catch_warnings():
        if not debug:
            warnings.showwarning = _note
        try:
            # Without "standalone", errors and exit codes come back here instead of boxes and exits.
            command = get_command(app)
            code = command.main(arguments, prog_name="vicinal", standalone_mode=False) or 0
        except (KeyboardInterrupt, typer.Abort):
            code = _INTERRUPTED
        except Exception as error:
            if debug:
                raise
            message, code = _explained(error)
            print(f"vicinal: {' '.join(message.split())}", file=sys.stderr)
            return code
    if code == _INTERRUPTED:
        print("vicinal: interrupted", file=sys.stderr)
    return code


def _explained(error: Exception) -> tuple[str, int]:
    """Return the message and the exit code of an error."""
    if isinstance(error, InputError):
        return str(error), 2
    if hasattr(error, "format_message"):  # click's own errors, whichever copy of click it is
        return error.format_message().replace("Value error, ", ""), getattr(error, "exit_code", 2)
    text = str(error).strip().splitlines()
    reason = f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
    return f"{reason} (--debug shows where)", 1


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
