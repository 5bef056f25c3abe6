"""What a check of a table found, as the pages show it."""

from typing import Any

# What each finding is called on a page.
_TITLES = {
    "labels": "Suspicious answers",
    "repeats": "Rows that repeat",
    "leaks": "Columns that give the answer away",
    "columns": "Columns that tell little",
    "imbalance": "Balance of the answers",
    "drift": "New rows that differ",
    "overlap": "Rows in both tables",
}


def finding_parts(check: Any, most_lines: int) -> list[dict[str, Any]]:
    """Return the findings of a check with their first lines, as plain values."""
    return [
        {
            "key": key,
            "title": _TITLES.get(key, key),
            "found": part["found"],
            "summary": part["summary"].rstrip(":"),
            "lines": part["table"][:most_lines],
            "n_more": max(0, len(part["table"]) - most_lines),
        }
        for key, part in check.to_dict()["findings"].items()
    ]
