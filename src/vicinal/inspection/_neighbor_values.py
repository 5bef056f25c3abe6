"""Training rows that speak, with their values in the columns that matter."""

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from vicinal._base._compat import rows_of
from vicinal._base._explanation import ExplanationSection

_MOST_COLUMNS = 3
_ROW = "training row"


def with_values(
    section: ExplanationSection, X_train: Any, names: list[str], sections: list[ExplanationSection]
) -> ExplanationSection:
    """Add to a table of training rows what they hold in the columns that contribute most.

    Without their table (``X_train=None``) the model is asked, if it kept the rows.
    """
    chosen = _columns_that_matter(sections)
    if section.columns[:1] != (_ROW,) or not chosen:
        return section
    if X_train is not None:
        rows = rows_of(X_train, np.array([row[0] for row in section.rows], dtype=int))
        cells = [_column(rows, names.index(name)) for name in chosen]
    elif section.cells is not None:
        cells = [section.cells(name) for name in chosen]
    else:
        return section
    columns = [[_as_written(value) for value in column] for column in cells]
    table = [(*row[:2], *more, *row[2:]) for row, *more in zip(section.rows, *columns, strict=True)]
    heads = [name if name not in section.columns else f"{name} (value)" for name in chosen]
    # Beside the target, so that weights stay beside their bars.
    head = (*section.columns[:2], *heads, *section.columns[2:])
    return replace(section, columns=head, rows=table)


def _column(table: Any, j: int) -> Any:
    if hasattr(table, "columns"):
        return np.asarray(table[table.columns[j]]).tolist()
    return (table.toarray() if sparse.issparse(table) else np.asarray(table))[:, j].tolist()


def _as_written(value: Any) -> Any:
    """Return a value as it stood in the table: a whole number without decimals, no gap as NaN."""
    value = value.item() if isinstance(value, np.generic) else value
    if not isinstance(value, float) or abs(value) > 1e15:
        return value
    if value != value:
        return None
    return int(value) if value.is_integer() else value


def _columns_that_matter(sections: list[ExplanationSection]) -> list[str]:
    """Return the columns of the table that contribute most, of those that contribute."""
    rows = [row for section in sections if section.key == "columns" for row in section.rows]
    return [row[0] for row in rows[:_MOST_COLUMNS] if row[2] != 0.0]
