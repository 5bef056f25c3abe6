"""Content of a response as JSON, written in small steps: no single call stops other threads."""

import json
from typing import Any

# Entries of a list that Python's writer gets at a time.
_PIECE = 500


def json_bytes(content: Any) -> bytes:
    """Return plain values as JSON in UTF-8."""
    return _text(content).encode()


def _text(value: Any) -> str:
    if isinstance(value, dict) and all(isinstance(name, str) for name in value):
        return "{" + ",".join(f"{_dumped(name)}:{_text(value[name])}" for name in value) + "}"
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return "[" + ",".join(map(_text, value)) + "]"
    if isinstance(value, list) and len(value) > _PIECE:
        pieces = (value[start : start + _PIECE] for start in range(0, len(value), _PIECE))
        return "[" + ",".join(_dumped(piece)[1:-1] for piece in pieces) + "]"
    return _dumped(value)


def _dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
