"""Training rows that speak, with their values in the columns that matter."""

from dataclasses import replace
from typing import Any

import numpy as np

from vicinal._base._compat import rows_of
from vicinal._base._explanation import ExplanationSection, values_of

_MOST_COLUMNS = 3
_ROW = "training row"


def with_values(
    section: ExplanationSection, X_train: Any, names: list[str], sections: list[ExplanationSection]
) -> ExplanationSection:
    """Add to a table of training rows what they hold in the columns that contribute most."""
    if section.columns[:1] != (_ROW,):
        return section
    chosen = _columns_that_matter(sections)
    places = [names.index(name) for name in chosen]
    rows = []
    for row in section.rows:
        cells = values_of(rows_of(X_train, np.array([row[0]])))
        rows.append((*row, *(cells[j] for j in places)))
    heads = [name if name not in section.columns else f"{name} (value)" for name in chosen]
    return replace(section, columns=(*section.columns, *heads), rows=rows)


def _columns_that_matter(sections: list[ExplanationSection]) -> list[str]:
    """Return the columns of the table that contribute most."""
    rows = [row for section in sections if section.key == "columns" for row in section.rows]
    return [row[0] for row in rows[:_MOST_COLUMNS]]
