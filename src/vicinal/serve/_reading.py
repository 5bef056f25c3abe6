"""JSON and CSV bodies as plain values, read in small steps.

Python's own JSON reader is one call that no other thread can interrupt: a body of 4 MB stops the
whole server for 0.3 s. Here it reads short pieces. Limits hold while reading, so that a body that
is refused costs no more than one that is accepted.
"""

import csv
import io
import json
import math
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from vicinal._base._stopping import check_stopped
from vicinal.serve._errors import RequestError

# {"inputs": [{"data": [[1, 2], [3, 4]]}]} is the deepest that a request can mean.
_DEPTH = 5
# Characters that Python's reader gets at a time, if they are more than one value.
_PIECE = 2**15
# Lists and objects of a request that are not rows: inputs, outputs and their parameters.
_OTHERS = 10_000
_BLANK = re.compile(r"[ \t\n\r]*+")
_STRING = r'"(?:[^"\\]++|\\.)*+"'
_FLAT = rf'\[(?:[^\[\]{{}}"]++|{_STRING})*+\]|\{{(?:[^\[\]{{}}"]++|{_STRING})*+\}}'
_ITEM = rf'[^\[\]{{}}",]*+(?:(?:{_STRING}|{_FLAT})[^\[\]{{}}",]*+)?+'
# Values of a list, each with its comma, up to one in which lists or objects hold others.
_FLAT_VALUES = re.compile(rf"(?:{_ITEM},)*+(?:{_ITEM}(?=\]))?+")
_CODE = re.compile(r"[+-]?0\d+|.*_.*")


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
    """Return a JSON text as plain values."""
    try:
        return _Json(body.decode(), limits).content()
    except ValueError:
        raise RequestError(400, "the body is not valid JSON in UTF-8.") from None


class _Json:
    """A JSON text; its methods return a value and where it ends."""

    def __init__(self, text: str, limits: Limits) -> None:
        self.text = text
        self.limits = limits
        self.n_cells = self.n_containers = 0
        self.scan = json.JSONDecoder(parse_constant=_refuse_constant).raw_decode

    def content(self) -> Any:
        """Return the value that is the whole text."""
        content, at = self._value(self._next(0), _DEPTH)
        if self._next(at) < len(self.text):
            raise ValueError
        return content

    def _next(self, at: int) -> int:
        return _BLANK.match(self.text, at).end()  # type: ignore[union-attr]

    def _value(self, at: int, depth: int) -> tuple[Any, int]:
        mark = self.text[at : at + 1]
        if mark not in ("[", "{"):
            self._count(0, 1)
            return self._scan(self.text, at)
        if not depth:
            raise RequestError(400, f"the body nests values more than {_DEPTH} deep.")
        self._count(1, 0)
        read = self._list if mark == "[" else self._object
        return read(self._next(at + 1), depth - 1)

    def _scan(self, text: str, at: int) -> tuple[Any, int]:
        """Return one value, read by Python's reader."""
        value, end = self.scan(text, at)
        if text.find("\\u", at, end) >= 0:
            json.dumps(value, ensure_ascii=False).encode()  # ValueError of half a surrogate pair
        return value, end

    def _list(self, at: int, depth: int) -> tuple[list, int]:
        found: list[Any] = []
        if self.text[at : at + 1] == "]":
            return found, at + 1
        while True:
            flat = _FLAT_VALUES.match(self.text, at, at + _PIECE)[0]  # type: ignore[index]
            if flat:
                found += self._flat_values(flat)
                at += len(flat)
                if not flat.endswith(","):
                    return found, at + 1
            value, at = self._value(self._next(at), depth)
            found.append(value)
            at = self._next(at)
            if self.text[at : at + 1] == "]":
                return found, at + 1
            at = self._after(",", at)

    def _flat_values(self, text: str) -> list[Any]:
        is_cut = text.endswith(",")
        values, _ = self._scan(f"[{text}0]" if is_cut else f"[{text}]", 0)
        if is_cut:
            values.pop()
        if not values:
            raise ValueError
        sizes = [len(value) for value in values if isinstance(value, list | dict)]
        self._count(len(sizes), len(values) - len(sizes) + sum(sizes))
        return values

    def _count(self, n_containers: int, n_cells: int) -> None:
        check_stopped()
        self.n_containers += n_containers
        self.n_cells += n_cells
        self.limits.check(self.n_containers - _OTHERS, self.n_cells)

    def _object(self, at: int, depth: int) -> tuple[dict, int]:
        found: dict[str, Any] = {}
        if self.text[at : at + 1] == "}":
            return found, at + 1
        while True:
            at = self._next(at)
            self._after('"', at)
            name, at = self._scan(self.text, at)
            at = self._after(":", self._next(at))
            found[name], at = self._value(self._next(at), depth)
            at = self._next(at)
            if self.text[at : at + 1] == "}":
                return found, at + 1
            at = self._after(",", at)

    def _after(self, mark: str, at: int) -> int:
        if self.text[at : at + 1] != mark:
            raise ValueError
        return at + 1


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
