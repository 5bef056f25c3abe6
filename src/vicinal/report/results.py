"""Pages of an explanation and of a check of a table."""

from dataclasses import replace
from typing import Any

import numpy as np

from vicinal._base._explanation import ExplanationSection, is_number, plain
from vicinal.inspection.colors import color_index
from vicinal.inspection.results import FOLDED, Explanation
from vicinal.report._page import Axis, Page, render

_MOST_CLASSES = 4
_MOST_ROWS = 12


def prediction_part(
    row: int | None, truth: Any, prediction: Any, classes: Any, proba: Any
) -> dict[str, Any]:
    """Return the prediction of one row, with the probabilities of its most probable classes."""
    part: dict[str, Any] = {
        "row": row,
        "prediction": plain(prediction),
        "truth": truth,
        "shares": [],
    }
    part["is_wrong"] = classes is not None and truth is not None and truth != part["prediction"]
    if proba is not None:
        # The most probable classes, in the order of all classes: colours keep their side.
        order = np.sort(np.argsort(-np.asarray(proba), kind="stable")[:_MOST_CLASSES]).tolist()
        part["shares"] = [
            {"label": str(classes[k]), "share": float(proba[k]), "code": k} for k in order
        ]
    return part


def explanation_part(
    found: Explanation, row: int | None, truth: Any, seen: Any = None
) -> dict[str, Any]:
    """Return prediction, values of the row and sections.

    ``seen`` holds the positions of the training rows in the table of the page.
    """
    classes = proba = None
    if found.probabilities is not None:
        classes, proba = list(found.probabilities), list(found.probabilities.values())
    return prediction_part(row, truth, found.prediction, classes, proba) | {
        "headline": found.headline(),
        "waterfall": _waterfall(found),
        "values": [{"name": str(name), "value": plain(value)} for name, value in found.row.items()],
        "sections": [_section(_numbered(section, seen), found) for section in found.sections],
    }


def _numbered(section: ExplanationSection, seen: Any) -> ExplanationSection:
    """Return a table of training rows by their positions in the table of the page."""
    if seen is None or section.columns[:1] != ("training row",):
        return section
    rows = [(int(seen[row[0]]), *row[1:]) for row in section.rows]
    return replace(section, columns=("row", *section.columns[1:]), rows=rows)


def _bar_classes(found: Explanation) -> tuple[str, str]:
    """Return the style of bars towards the prediction, and away from it."""
    if found.probabilities is None:
        return "up", "down"
    classes = list(found.probabilities)
    code = classes.index(found.prediction)
    other = f"k{color_index(1 - code)}" if len(classes) == 2 else "neutral"
    return f"k{color_index(code)}", other


def _waterfall(found: Explanation) -> dict[str, Any] | None:
    """Return the steps from the baseline to the prediction, in percent of the width."""
    steps = found.waterfall(_MOST_ROWS)
    if not steps:
        return None
    axis = Axis([end for step in steps for end in (step["start"], step["end"])], "")
    colors = _bar_classes(found)

    def position(value: float) -> dict[str, Any]:
        return {"at": round(100.0 * axis.at([value])[0], 2), "value": value}

    parts = []
    for step in steps:
        low, high = axis.at(sorted((step["start"], step["end"])))
        width = round(100.0 * (high - low), 2)
        color = colors[step["part"] < 0]
        parts.append(step | {"left": round(100.0 * low, 2), "width": width, "color": color})
    baseline, prediction = position(steps[0]["start"]), position(steps[-1]["end"])
    name = found.output_name()
    return {"steps": parts, "baseline": baseline, "prediction": prediction, "name": name}


def _dots(section: ExplanationSection, found: Explanation) -> list[dict[str, Any]]:
    """Return the targets of the nearest training rows as codes of classes."""
    if found.probabilities is None or "target_counts" not in section.values:
        return []
    classes, at = list(found.probabilities), section.columns.index("target")
    targets = [row[at] for row in section.rows[: section.values["nearest"]]]
    known = [(classes.index(target), target) for target in targets if target in classes]
    return [{"code": code, "label": str(target)} for code, target in sorted(known)]


def _section(section: Any, found: Explanation) -> dict[str, Any]:
    """Return a section of an explanation with its bars scaled to the longest."""
    rows = section.rows[:_MOST_ROWS]
    at = None if section.bars is None else section.columns.index(section.bars)
    lengths = [0.0 if at is None else float(row[at]) for row in rows]
    longest = max(map(abs, lengths), default=0.0) or 1.0
    # An encoded column is named after its source already.
    kept = [j for j, name in enumerate(section.columns) if name != "computed from"]
    return {
        "key": section.key,
        "title": section.title,
        "summary": section.summary,
        "columns": [section.columns[j] for j in kept],
        "are_numbers": [all(is_number(row[j]) for row in rows) for j in kept],
        "rows": [
            {"cells": [plain(row[j]) for j in kept], "bar": length / longest}
            for row, length in zip(rows, lengths, strict=True)
        ],
        "has_bars": at is not None,
        "is_folded": section.key in FOLDED,
        "dots": _dots(section, found) if section.key == "neighbors" else [],
        "bar_classes": _bar_classes(found) if section.key == "coefficients" else ("up", "down"),
        "is_signed": any(length < 0 for length in lengths),
        "n_more": max(0, len(section.rows) - len(rows)),
    }


class ExplanationReport(Page):
    """Page of one explanation: prediction, row and sections.

    Parameters
    ----------
    explanation : Explanation
        What :func:`vicinal.inspection.explain` returned.
    title : str, default="Explanation"
        Heading of the page.
    """

    template = "explanation.html"

    def __init__(self, explanation: Explanation, title: str = "Explanation") -> None:
        self.explanation = explanation
        self.title = title

    def as_dict(self) -> dict[str, Any]:
        """Return the content of the page as plain values.

        Returns
        -------
        dict
            ``title``, and ``part``: prediction, values of the row, and sections.
        """
        return {"title": self.title, "part": explanation_part(self.explanation, None, None)}

    def article(self) -> str:
        """Return the explanation as part of another page.

        Returns
        -------
        str
            HTML for a page of the same style.
        """
        return render(self.as_dict(), "article.html")


# Titles of the checks.
_TITLES = {
    "labels": "Surprising targets",
    "repeats": "Duplicate rows",
    "leaks": "Columns that leak the target",
    "columns": "Uninformative columns",
    "categories": "Unusual categories",
    "imbalance": "Balance of the target",
    "drift": "Drift of new rows",
    "overlap": "Rows in both tables",
}


def finding_parts(check: Any, most_lines: int) -> list[dict[str, Any]]:
    """Return the findings of a check with their first lines, as plain values."""
    return [
        {
            "key": key,
            "title": _TITLES.get(key, key),
            "found": part["found"],
            "severity": part["severity"],
            "count": len(part["table"]),
            "summary": part["summary"].rstrip(":"),
            "lines": part["table"][:most_lines],
            "n_more": max(0, len(part["table"]) - most_lines),
        }
        for key, part in check.to_dict()["findings"].items()
    ]


_SHOWN_LINES = 100
_SEVERITIES = ("high", "medium", "none")


class CheckReport(Page):
    """Page of the checks of a table.

    Parameters
    ----------
    check : TableCheck
        What :func:`vicinal.inspection.check` returned.
    title : str, default="Check of the table"
        Heading of the page.
    notes : sequence of str, default=()
        Remarks under the heading.
    """

    template = "check.html"

    def __init__(self, check: Any, title: str = "Check of the table", notes=()) -> None:
        self.check, self.title, self.notes = check, title, list(notes)

    def as_dict(self) -> dict[str, Any]:
        """Return the content of the page as plain values.

        Returns
        -------
        dict
            ``title``, ``notes``, size of the table, ``parts``: what was found, the most serious
            first, and ``profile``: the columns.
        """
        parts = finding_parts(self.check, _SHOWN_LINES)
        return {
            "title": self.title,
            "notes": self.notes,
            "n_rows": self.check.n_rows,
            "n_columns": self.check.n_columns,
            "parts": sorted(parts, key=lambda part: _SEVERITIES.index(part["severity"])),
            "profile": self.check.profile,
        }
