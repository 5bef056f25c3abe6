"""What the command prints: errors, notes, and JSON."""

import json
import sys
from typing import Any


class InputError(ValueError):
    """A file, a column or an option is not what the command needs; one line, exit code 2."""


def quoted(names: list, limit: int = 8) -> str:
    """Return names in quotes, the first few of many."""
    shown = ", ".join(repr(str(name)) for name in names[:limit])
    return shown + (f" and {len(names) - limit} more" if len(names) > limit else "")


def as_text(content: Any) -> str:
    """Return plain values as JSON for people."""
    return json.dumps(content, indent=2, ensure_ascii=False)


def log(text: str) -> None:
    """Print a line to standard error, which keeps the result free for pipes; skip empty ones."""
    if text:
        print(text, file=sys.stderr, flush=True)
