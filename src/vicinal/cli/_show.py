"""What the command prints: errors, notes, and JSON."""

import json
import sys
from typing import Any

from vicinal._base import quoted as quoted


class InputError(ValueError):
    """A file, a column or an option is not what the command needs; one line, exit code 2."""


def as_text(content: Any) -> str:
    """Return plain values as JSON for people."""
    return json.dumps(content, indent=2, ensure_ascii=False)


def log(text: str) -> None:
    """Print a line to standard error, which keeps the result free for pipes; skip empty ones."""
    if text:
        print(text, file=sys.stderr, flush=True)
