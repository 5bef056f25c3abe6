"""What the command prints: errors, notes, and JSON."""

import json
import sys
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any

from vicinal._base import quoted as quoted


class InputError(ValueError):
    """A file, a column or an option is not what the command needs; one line, exit code 2."""


def as_text(content: Any) -> str:
    """Return plain values as JSON for people."""
    return json.dumps(content, indent=2, ensure_ascii=False)


def similar(name: str, known: Iterable[str], plain: Callable[[str], str] = str.casefold) -> str:
    """Return a question about the most similar known name, compared as ``plain`` writes them."""
    names = {plain(text): text for text in known}
    close = [text for text in names if text.startswith(plain(name))]
    close = close or get_close_matches(plain(name), names, n=1)
    return f"did you mean {names[close[0]]!r}?" if close else ""


def log(text: str) -> None:
    """Print a line to standard error, which keeps the result free for pipes; skip empty ones."""
    if text:
        print(text, file=sys.stderr, flush=True)
