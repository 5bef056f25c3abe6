"""An explanation as the pages show it: plain values, bars scaled to the longest."""

from dataclasses import replace
from typing import Any

import numpy as np

from vicinal._base._explanation import ExplanationSection
from vicinal.inspection import Explanation

_MOST_CLASSES = 4
_MOST_ROWS = 12


def answer_part(
    row: int | None, truth: Any, prediction: Any, classes: Any, proba: Any
) -> dict[str, Any]:
    """Return an answer to one row, with the probabilities of its likeliest classes."""
    answer: dict[str, Any] = {
        "row": row,
        "prediction": plain(prediction),
        "truth": truth,
        "shares": [],
    }
    answer["is_wrong"] = classes is not None and truth is not None and truth != answer["prediction"]
    if proba is not None:
        order = np.argsort(-np.asarray(proba), kind="stable")[:_MOST_CLASSES].tolist()
        answer["shares"] = [
            {"label": str(classes[k]), "share": float(proba[k]), "code": k} for k in order
        ]
    return answer


def explanation_part(
    found: Explanation, row: int | None, truth: Any, seen: Any = None
) -> dict[str, Any]:
    """Return an answer, the values of the row and the reasons.

    ``seen`` are the numbers that training rows have in the table of the page.
    """
    classes = proba = None
    if found.probabilities is not None:
        classes, proba = list(found.probabilities), list(found.probabilities.values())
    return answer_part(row, truth, found.prediction, classes, proba) | {
        "headline": found.headline(),
        "values": [{"name": str(name), "value": plain(value)} for name, value in found.row.items()],
        "sections": [_section(_numbered(section, seen)) for section in found.sections],
    }


def _numbered(section: ExplanationSection, seen: Any) -> ExplanationSection:
    """Return a table of training rows by their numbers in the table of the page."""
    if seen is None or section.columns[:1] != ("training row",):
        return section
    rows = [(int(seen[row[0]]), *row[1:]) for row in section.rows]
    return replace(section, columns=("row", *section.columns[1:]), rows=rows)


def _section(section: Any) -> dict[str, Any]:
    """Return a reason of :func:`explain` with its bars scaled to the longest."""
    rows = section.rows[:_MOST_ROWS]
    at = None if section.bars is None else section.columns.index(section.bars)
    lengths = [0.0 if at is None else float(row[at]) for row in rows]
    longest = max(map(abs, lengths), default=0.0) or 1.0
    # An encoded column is named after its source already.
    kept = [j for j, name in enumerate(section.columns) if name != "made from"]
    return {
        "key": section.key,
        "title": section.title,
        "summary": section.summary,
        "columns": [section.columns[j] for j in kept],
        "are_numbers": [all(_is_number(row[j]) for row in rows) for j in kept],
        "rows": [
            {"cells": [plain(row[j]) for j in kept], "bar": length / longest}
            for row, length in zip(rows, lengths, strict=True)
        ],
        "has_bars": at is not None,
        "is_signed": any(length < 0 for length in lengths),
        "n_more": max(0, len(section.rows) - len(rows)),
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool | np.bool_)


def plain(value: Any) -> Any:
    """Return a value as a page shows it: a number, text, or ``None`` for a gap."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and np.isnan(value):
        return None
    return value if value is None or isinstance(value, bool | int | float) else str(value)
