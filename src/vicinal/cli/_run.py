"""From arguments to an exit code, with one line for every error."""

import sys
import warnings
from pathlib import Path

import typer
from typer.main import get_command

import vicinal
from vicinal.cli._errors import InputError

_INTERRUPTED = 130


def run(arguments: list[str]) -> int:
    """Run a command and return its exit code.

    0 is success, 2 an input or an option that the reader can mend, 1 everything else, 130 an
    interruption. ``--debug`` anywhere lets the trace through.
    """
    from vicinal.cli._app import app

    debug = "--debug" in arguments
    with warnings.catch_warnings():
        if not debug:
            warnings.showwarning = _note
        return _run(app, arguments, debug)


def _run(app: typer.Typer, arguments: list[str], debug: bool) -> int:
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
    if isinstance(error, InputError):
        return _fail(str(error), 2)
    if hasattr(error, "format_message"):  # click's own errors, whichever copy of click it is
        return _fail(error.format_message(), getattr(error, "exit_code", 2))
    text = str(error).strip().splitlines()
    reason = f"{type(error).__name__}: {text[0]}" if text else type(error).__name__
    return _fail(f"{reason} (--debug shows where)", 1)


def _note(message, category, filename, lineno, file=None, line=None) -> None:
    """Print a warning as one line, without its location in the code.

    Warnings of other libraries are about code that the reader has not written. One of them is of
    use, in other words: that a fit did not converge.
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
