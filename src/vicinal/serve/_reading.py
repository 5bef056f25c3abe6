"""JSON and CSV bodies of requests as plain values, within limits."""

import csv
import io
import json
import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from vicinal._base._stopping import check_stopped

_CODE = re.compile(r"[+-]?0\d+|.*_.*")


class RequestError(Exception):
    """A request that is refused: status, one line, and seconds after which to try again."""

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.retry_after = retry_after


class Limits(NamedTuple):
    """What a request may hold."""

    max_bytes: int = 4 * 2**20
    max_rows: int = 100_000
    max_cells: int = 1_000_000

    def check(self, n_rows: int, n_cells: int) -> None:
        """Refuse a request with more rows or cells."""
        if n_rows > self.max_rows:
            raise RequestError(413, f"a request may hold at most {self.max_rows} rows.")
        if n_cells > self.max_cells:
            raise RequestError(413, f"a request may hold at most {self.max_cells} cells.")


DEFAULT_LIMITS = Limits()


def read_json(body: bytes, limits: Limits) -> Any:
    """Return a JSON text as plain values; too many of them are refused before they are read."""
    limits.check(0, body.count(b","))
    try:
        text = body.decode()
        content = json.loads(text, parse_constant=_refuse_constant)
        if "\\u" in text:
            json.dumps(content, ensure_ascii=False).encode()  # ValueError of half a surrogate pair
    except (ValueError, RecursionError):
        raise RequestError(400, "the body is not valid JSON in UTF-8.") from None
    return content


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")


def read_csv(body: bytes, columns: Sequence[str], limits: Limits) -> dict[str, list]:
    """Return the cells of some columns of a CSV text with a header; numbers are read as numbers."""
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise RequestError(400, "the CSV text is not UTF-8.") from None
    limits.check(0, text.count(","))
    rows = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(rows, [])
        wanted = _positions(header, columns)
        found: list[list] = []
        for row in filter(None, rows):
            if len(row) != len(header):
                raise RequestError(
                    400,
                    f"row {len(found)} of the CSV text has {len(row)} cells, its header "
                    f"{len(header)}.",
                )
            found.append([_read_cell(row[j]) for j in wanted])
            check_stopped()
            limits.check(len(found), len(found) * len(header))
    except csv.Error as error:
        raise RequestError(400, f"the CSV text cannot be read: {error}.") from None
    return {name: [row[j] for row in found] for j, name in enumerate(columns)}


def _positions(header: list[str], columns: Sequence[str]) -> list[int]:
    """Return where the columns are in a header."""
    position = {name: j for j, name in enumerate(header)}
    if len(position) < len(header):
        twice = next(name for j, name in enumerate(header) if position[name] != j)
        raise RequestError(400, f"the header of the CSV text names the column {twice!r} twice.")
    missing = [name for name in columns if name not in position]
    if missing:
        raise RequestError(400, f"the column {missing[0]!r} is missing in the CSV text.")
    return [position[name] for name in columns]


def _read_cell(cell: str) -> Any:
    """Return a cell as a number, or as text: digits with leading zeros or with bars are codes."""
    if cell == "":
        return None
    if _CODE.fullmatch(cell):
        return cell
    try:
        number = float(cell)
    except ValueError:
        return cell
    return cell if math.isinf(number) else number
