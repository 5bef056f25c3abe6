"""What can be set on a page that plays with a row: one control per column."""

from typing import Any

import numpy as np


def control(
    name: str, values: list[Any], *, most_levels: int = 40, as_levels: bool = False
) -> dict[str, Any]:
    """Return the kind of a column, where it starts, and how far it goes.

    Numbers have a range from the least to the greatest value, unless they are asked for as levels;
    up to so many words are levels to choose from, more are text. Without a value nothing is known
    but the name.
    """
    known = [value for value in values if value is not None]
    if not known:
        return {"name": name, "kind": "unknown", "value": None if values else 0}
    if not as_levels and all(isinstance(value, bool | int | float) for value in known):
        numbers = np.array(known, dtype=float)
        numbers = numbers[np.isfinite(numbers)]
        if not len(numbers):
            return {"name": name, "kind": "unknown", "value": None}
        low, middle, high = np.quantile(numbers, [0.0, 0.5, 1.0], method="nearest").tolist()
        is_whole = bool(np.all(numbers == np.round(numbers)))
        step = 1.0 if is_whole else (high - low) / 200 or 1.0
        return {
            "name": name,
            "kind": "number",
            "min": low,
            "max": high,
            "value": middle,
            "step": step,
            "is_whole": is_whole,
        }
    levels, counts = np.unique([str(value) for value in known], return_counts=True)
    if len(levels) > most_levels:
        return {"name": name, "kind": "text", "value": str(known[0])}
    usual = str(levels[counts.argmax()])
    return {"name": name, "kind": "level", "levels": levels.tolist(), "value": usual}
