"""The command `vicinal info`, which needs neither scikit-learn nor polars."""

import json
from pathlib import Path
from typing import Any

from vicinal._base import printable
from vicinal.cli._show import InputError, quoted
from vicinal.io import info as read_info


def info(model: Path, *, as_json: bool) -> None:
    """Print the description of a model file."""
    try:
        facts = read_info(model)
        threshold = _threshold(facts.metadata)
    except (ValueError, TypeError) as error:
        raise InputError(f"the model {str(model)!r} cannot be read: {error}") from error
    if as_json:
        print(json.dumps(facts.to_dict(), indent=2, default=str))
        return
    lines = {
        **facts.metadata,
        "threshold": threshold,
        "saved": facts.saved,
        "size": f"{facts.size:,} bytes",
    }
    lines["versions"] = ", ".join(f"{name} {text}" for name, text in facts.versions.items())
    lines["classes"] = None if facts.classes is None else quoted(facts.classes, 12)
    lines.pop("rows", None)
    columns = lines.pop("columns", None)
    if not isinstance(columns, dict):
        columns = dict.fromkeys(facts.feature_names_in or [], "")
    lines.setdefault("model", facts.model)
    for key, value in lines.items():
        if value is not None:
            print(printable(f"{key:<9} {value}"))
    print(f"columns   {len(columns)}")
    for name, dtype in columns.items():
        print(printable(f"  {name}  {dtype}"))


def _threshold(metadata: dict[str, Any]) -> Any:
    if metadata.get("threshold") is None:
        return None
    from vicinal.cli._threshold import Threshold

    return Threshold.of(metadata)
