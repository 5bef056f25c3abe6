"""The encoder of a table as a graph, with one input for each column.

Inputs are numbers as doubles, categories as strings, and dates as days since 1970 (doubles). A
missing value is NaN, or "" among categories.
"""

from typing import Any

from vicinal.io._errors import OnnxExportError
from vicinal.io._onnx._graph import Graph, Node
from vicinal.io._onnx._linear import filled_in
from vicinal.table import TableEncoder


def write_table(graph: Graph, encoder: TableEncoder) -> Node:
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
        parts.append(writer(column, graph.input(name, kind, [None, 1])))
    return graph.concat(parts)


def _write_numbers(column: Any, x: Node) -> Node:
    if column.keep_missing:
        return x
    filled, n_numbers = filled_in(x, column.fills_), len(column.fills_)
    if len(column.names_) == n_numbers:
        return filled
    missing = x.columns([n_numbers - 1]).op("IsNaN").cast("DOUBLE")
    return x.graph.concat([filled, missing])


def _write_dates(column: Any, x: Node) -> Node:
    parts = x.graph.concat([_calendar_part(part, x) for part in column.parts_])
    return _write_numbers(column, parts)


def _write_categories(column: Any, x: Node) -> Node:
    """Write the encoding of each category, the last one for an unknown category."""
    categories, rows = column.lookup()
    at = x.op(
        "LabelEncoder",
        domain="ai.onnx.ml",
        keys_strings=categories,
        values_int64s=list(range(len(categories))),
        default_int64=len(categories),
    )
    return at.reshape(-1).of(rows)


def _over(x: Node, divisor: float) -> Node:
    return (x / divisor).op("Floor")


def _calendar_part(part: str, days: Node) -> Node:
    """Return a part of the date from days since 1970, by Hinnant's algorithm."""
    if part == "days":
        return days
    whole = days.op("Floor")
    if part == "hour":
        return (days - whole) * 24.0
    if part == "weekday":
        since_monday = whole + 3.0
        return since_monday - _over(since_monday, 7.0) * 7.0 + 1.0
    march = whole + 719_468.0
    era = _over(march, 146_097.0)
    of_era = march - era * 146_097.0
    leaps = _over(of_era, 1460.0) + _over(of_era, 146_096.0) - _over(of_era, 36_524.0)
    years = _over(of_era - leaps, 365.0)
    of_year = of_era - (years * 365.0 + _over(years, 4.0) - _over(years, 100.0))
    month = _over(of_year * 5.0 + 2.0, 153.0)  # March is 0
    if part == "day":
        return of_year - _over(month * 153.0 + 2.0, 5.0) + 1.0
    is_late = (month > 9.5).cast("DOUBLE")
    if part == "month":
        return month - is_late * 12.0 + 3.0
    return years + era * 400.0 + is_late


_WRITERS: dict[str, Any] = {
    "numbers": _write_numbers,
    "dates": _write_dates,
    "categories": _write_categories,
}
