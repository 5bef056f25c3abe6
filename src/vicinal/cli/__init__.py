"""The command `vicinal`: a command line over the public API."""

import sys
from importlib.util import find_spec

__all__ = ["main"]

_NEEDED = ("typer", "rich", "jinja2", "polars")


def main() -> None:
    """Run the command line; without its extra, print what to install."""
    missing = [package for package in _NEEDED if find_spec(package) is None]
    if missing:
        print(
            f"vicinal: the command line needs {', '.join(missing)}; "
            "install with: pip install 'vicinal[cli]'",
            file=sys.stderr,
        )
        sys.exit(1)
    from vicinal.cli._app import run

    sys.exit(run(sys.argv[1:]))
