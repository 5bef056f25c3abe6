"""The table itself: what its columns hold."""

from collections import Counter
from typing import Any

import numpy as np

from vicinal.report._table import EncodedTable, column_names, column_values

_MOST_COLUMNS = 60
_N_BARS = 12
_MOST_LEVELS = 6


def profile(X: Any, encoded: EncodedTable, y: np.ndarray | None, target: str) -> dict[str, Any]:
    """Return for every column its kind, gaps, different values and their distribution."""
    names = column_names(X)
    kinds = encoded.kinds
    rows = [
        _column(name, kinds[j], column_values(X, j), encoded)
        for j, name in enumerate(names[:_MOST_COLUMNS])
    ]
    if y is not None:
        is_number = y.dtype.kind == "f"
        kind = "number" if is_number else "category"
        rows.insert(0, {**_column(target, kind, y.tolist(), None), "is_target": True})
    return {
        "rows": rows,
        "n_rows": len(encoded.Z),
        "n_more": max(0, len(names) - _MOST_COLUMNS),
        "n_gaps": sum(row["n_missing"] for row in rows),
    }


def _column(name: str, kind: str, values: list[Any], encoded: Any) -> dict[str, Any]:
    known = [value for value in values if value is not None]
    row = {
        "name": name,
        "kind": "left out" if kind == "drop" else kind,
        "is_target": False,
        "n_missing": len(values) - len(known),
        "missing": (len(values) - len(known)) / max(1, len(values)),
        "n_distinct": len(set(map(str, known))),
        "summary": "",
        "bars": [],
    }
    if kind == "number" and known:
        is_text = any(isinstance(value, str) for value in known)
        read = encoded is not None and is_text
        return row | _numbers(encoded.numbers(name) if read else np.array(known, dtype=float))
    if kind == "category":
        return row | _levels(known)
    if kind == "date" and known:
        return row | {"summary": f"{min(map(str, known))} to {max(map(str, known))}"}
    return row


def _numbers(numbers: np.ndarray) -> dict[str, Any]:
    numbers = numbers[np.isfinite(numbers)]
    if not len(numbers):
        return {}
    low, middle, high = np.quantile(numbers, [0.0, 0.5, 1.0])
    counts, edges = np.histogram(numbers, bins=_N_BARS)
    most = counts.max()
    bars = [
        {"height": float(count / most), "text": f"{edges[k]:.4g} to {edges[k + 1]:.4g}: {count}"}
        for k, count in enumerate(counts.tolist())
    ]
    return {"summary": f"{low:.4g} to {high:.4g}, median {middle:.4g}", "bars": bars}


def _levels(known: list[Any]) -> dict[str, Any]:
    counts = Counter(map(str, known)).most_common()
    shown = counts[:_MOST_LEVELS]
    most = shown[0][1] if shown else 1
    bars = [{"height": count / most, "text": f"{level}: {count}"} for level, count in shown]
    names = [f"{_short(level)} {100 * count / len(known):.0f} %" for level, count in shown[:3]]
    more = f", {len(counts) - 3} more" if len(counts) > 3 else ""
    return {"summary": ", ".join(names) + more, "bars": bars}


def _short(text: str) -> str:
    return text if len(text) <= 24 else text[:23] + "…"
