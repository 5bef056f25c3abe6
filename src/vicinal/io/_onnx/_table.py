"""The encoder of a table as a graph, with one input for each column.

Inputs are numbers as doubles, categories as strings, and dates as days since 1970 (doubles). A
missing value is NaN, or "" among categories.
"""

from typing import Any

import numpy as np

from vicinal._base import is_frame
from vicinal.io._errors import OnnxExportError
from vicinal.io._onnx._graph import Graph
from vicinal.table import TableEncoder


def write_table(graph: Graph, encoder: TableEncoder) -> str:
    """Declare the columns of a table as inputs and write how they are encoded."""
    parts = []
    for name, column in encoder.column_encoders_.items():
        writer = _WRITERS.get(column.takes)
        if writer is None:
            raise OnnxExportError(
                f"the column {name!r} holds {column.takes}, which cannot be exported; fit a model "
                f"without it (TableEncoder(kinds={{{name!r}: 'drop'}}), or --drop {name!r} in the "
                "shell)."
            )
        kind = "STRING" if column.takes == "categories" else "DOUBLE"
        parts.append(writer(graph, column, graph.input(name, kind, 1)))
    return graph.concat(parts)


def table_feeds(encoder: TableEncoder, X: Any) -> dict[str, np.ndarray]:
    """Return rows of a table as the inputs that :func:`write_table` declares."""
    if not is_frame(X):
        raise OnnxExportError(
            "X is not a data frame, but the model was fitted to one; pass a frame with its columns."
        )
    return {name: values[:, None] for name, values in encoder.plain_columns(X).items()}


def _write_number(graph: Graph, column: Any, x: str) -> str:
    if column.keep_missing:
        return x
    return _filled(graph, x, np.array([column.fill_]), len(column.names_) == 2)


def _write_date(graph: Graph, column: Any, x: str) -> str:
    parts = graph.concat([_calendar_part(graph, part, x) for part in column.parts_])
    if column.keep_missing:
        return parts
    return _filled(graph, parts, column.fills_, len(column.names_) > len(column.parts_))


def _filled(graph: Graph, x: str, fills: np.ndarray, marked: bool) -> str:
    missing = graph.add("IsNaN", x)
    filled = graph.add("Where", missing, graph.constant(fills[None]), x)
    if not marked:
        return filled
    return graph.concat([filled, graph.columns(graph.cast(missing, "DOUBLE"), [len(fills) - 1])])


def _write_levels(graph: Graph, column: Any, x: str) -> str:
    """Return the encoding of each category, the last one for an unknown category."""
    categories, rows = column.lookup()
    at = graph.add(
        "LabelEncoder",
        x,
        domain="ai.onnx.ml",
        keys_strings=categories,
        values_int64s=list(range(len(categories))),
        default_int64=len(categories),
    )
    return graph.add("Gather", graph.constant(rows), graph.reshape(at, -1), axis=0)


def _calendar_part(graph: Graph, part: str, days: str) -> str:
    """Return a part of the date from days since 1970, by Hinnant's algorithm."""

    def scaled(x: str, factor: float) -> str:
        return graph.add("Mul", x, graph.constant(np.array([[factor]])))

    def minus(x: str, y: str) -> str:
        return graph.add("Sub", x, y)

    def over(x: str, divisor: float) -> str:
        return graph.add("Floor", graph.add("Div", x, graph.constant(np.array([[float(divisor)]]))))

    if part == "days":
        return days
    whole = graph.add("Floor", days)
    if part == "hour":
        return scaled(minus(days, whole), 24.0)
    if part == "weekday":
        since_monday = graph.plus(whole, 3.0)
        return graph.plus(minus(since_monday, scaled(over(since_monday, 7), 7.0)), 1.0)
    march = graph.plus(whole, 719_468.0)
    era = over(march, 146_097)
    of_era = minus(march, scaled(era, 146_097.0))
    leaps = minus(graph.add("Add", over(of_era, 1460), over(of_era, 146_096)), over(of_era, 36_524))
    years = over(minus(of_era, leaps), 365)
    before = graph.add("Add", scaled(years, 365.0), minus(over(years, 4), over(years, 100)))
    of_year = minus(of_era, before)
    month = over(graph.plus(scaled(of_year, 5.0), 2.0), 153)  # March is 0
    if part == "day":
        start = over(graph.plus(scaled(month, 153.0), 2.0), 5)
        return graph.plus(minus(of_year, start), 1.0)
    is_late = graph.cast(graph.add("Greater", month, graph.constant(np.array([[9.5]]))), "DOUBLE")
    if part == "month":
        return graph.plus(minus(month, scaled(is_late, 12.0)), 3.0)
    return graph.add("Add", graph.add("Add", years, scaled(era, 400.0)), is_late)


_WRITERS: dict[str, Any] = {
    "numbers": _write_number,
    "dates": _write_date,
    "categories": _write_levels,
}
