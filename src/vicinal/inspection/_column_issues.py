"""Columns that tell nothing, classes that are rare, rows that are in two tables."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

import numpy as np

from vicinal._base import is_frame
from vicinal.inspection._duplicate_rows import column_codes
from vicinal.inspection._findings import Findings
from vicinal.table import TableEncoder

# One value in so many rows is nearly one value in all; so many gaps are most of a column.
_NEARLY_ALL, _MOST = 0.99, 0.5
# Remarks of the encoder that are findings: columns without use, and numbers that may be gaps.
_SAID = ("left", "kept", "-9")
# A class is rare with fewer rows than this share of the largest, or than folds.
_RARE, _FEWEST = 0.1, 5
# Names of classes with this share of their letters in common may be one name, mistyped.
_ALIKE = 0.85


def named_columns(X: Any) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name and the values of every column."""
    for j in range(X.shape[1]):
        name = str(X.columns[j]) if is_frame(X) else f"x{j}"
        yield name, np.asarray(X[X.columns[j]] if is_frame(X) else X[:, j])


def column_issues(X: Any, encoder: TableEncoder) -> Findings:
    """Find columns of one value, of nearly one, without most values, row counters, identifiers.

    ``encoder`` is fitted to the table.
    """
    rows = []
    for name, values in named_columns(X):
        codes = column_codes(values)
        common = int(np.bincount(codes).argmax())
        share = float(np.mean(codes == common))
        gaps = _share_of_gaps(values)
        said = [remark for remark in encoder.remarks_[name] if remark.startswith(_SAID)]
        if said:
            rows.append((name, said[0], share))
        elif gaps > _MOST:
            rows.append((name, "most values missing", gaps))
        elif share >= _NEARLY_ALL:
            example = values[np.argmax(codes == common)]
            rows.append((name, f"{example!s} in nearly all rows", share))
    table = {
        "column": np.array([row[0] for row in rows], dtype=object),
        "issue": np.array([row[1] for row in rows], dtype=object),
        "share": np.array([row[2] for row in rows], dtype=np.float64),
    }
    n = len(rows)
    disguised = any(row[1].startswith("-9") for row in rows)
    summary = (
        f"{n} column{'s' * (n > 1)} of {X.shape[1]} can tell little or nothing"
        f"{', or may hold gaps in disguise' * disguised}:"
        if rows
        else f"All {X.shape[1]} columns vary, and none numbers or names the rows."
    )
    return Findings(summary, table)


def _share_of_gaps(values: np.ndarray) -> float:
    if values.dtype.kind in "biuf":
        return float(np.mean(np.isnan(values)))
    return float(np.mean([_is_gap(value) for value in values]))


def _is_gap(value: Any) -> bool:
    if value is None or str(value) in ("<NA>", "NaT"):
        return True
    return isinstance(value, float | np.floating) and bool(np.isnan(value))


def rare_classes(labels: np.ndarray) -> Findings:
    """Find classes with few rows: scores hardly notice whether they are answered at all."""
    classes, counts = np.unique(labels, return_counts=True)
    rare = (counts < _RARE * counts.max()) | (counts < _FEWEST)
    order = np.flatnonzero(rare)[np.argsort(counts[rare], kind="stable")]
    table = {
        "label": classes[order],
        "count": counts[order],
        "share": counts[order] / len(labels),
    }
    alike = [_alike(label, classes[~rare]) for label in classes[order]]
    if any(alike):
        table["mistyped?"] = np.array(alike, dtype=object)
    if len(classes) == 1:
        summary = f"Every row has the label {classes[0]!s}; there is nothing to learn."
        table = {"label": classes, "count": counts, "share": np.ones(1)}
    elif len(order):
        many = f"{len(order)} of {len(classes)} classes have"
        one = f"The class {classes[order[0]]!s} has"
        summary = (
            f"{one if len(order) == 1 else many} few rows; accuracy hardly counts them "
            "(balanced accuracy and class_weight='balanced' do):"
        )
    else:
        summary = f"Each of {len(classes)} classes has its share of the rows."
    return Findings(summary, table)


def _alike(label: Any, others: np.ndarray) -> str:
    """Return the class of nearly the same letters, an empty text for none."""
    names = {str(name).casefold().strip(): str(name) for name in others}
    given = str(label).casefold().strip()
    if any(character.isdigit() for character in given):  # codes are alike by nature
        return ""
    return next((names[name] for name in get_close_matches(given, names, 1, _ALIKE)), "")


def common_value(y: np.ndarray) -> Findings:
    """Find a number that most targets are equal to."""
    values, counts = np.unique(y, return_counts=True)
    most = int(counts.argmax())
    share = float(counts[most] / len(y))
    kept = slice(most, most + 1 if share > _MOST else most)
    table = {"value": values[kept], "count": counts[kept], "share": counts[kept] / len(y)}
    summary = (
        f"{share:.0%} of the targets are {values[most]:g}; one model for whether, another for how "
        "much may do better:"
        if share > _MOST
        else "No value stands for most targets."
    )
    return Findings(summary, table)


def overlap(X: Any, new: Any) -> Findings:
    """Find rows of a new table that are among the training rows."""
    others = dict(named_columns(new))
    n = X.shape[0]
    codes = np.column_stack(
        [column_codes(np.concatenate([part, others[name]])) for name, part in named_columns(X)]
    )
    _, group = np.unique(codes, axis=0, return_inverse=True)
    group = group.ravel()
    first = {}
    for row in range(n - 1, -1, -1):
        first[group[row]] = row
    rows = [row for row in range(len(group) - n) if group[n + row] in first]
    table = {
        "new row": np.array(rows, dtype=np.int64),
        "training row": np.array([first[group[n + row]] for row in rows], dtype=np.int64),
    }
    total = len(group) - n
    summary = (
        f"{len(rows)} of {total} new rows are among the training rows:"
        if rows
        else f"None of {total} new rows is among the training rows."
    )
    return Findings(summary, table)
