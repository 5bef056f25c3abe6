"""Tables from files: CSV, TSV, Parquet, Arrow, JSON and Excel, by polars."""

import csv
import gzip
import io
import re
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import polars as pl

from vicinal._base import counted, import_optional, write_whole
from vicinal.cli._show import InputError, quoted
from vicinal.table.keys import MISSING_TEXTS

_FORMULA = r"^([=+\-@\t\r])"
_DELIMITERS = ",;\t|"
_ONE_NAME = r"[\w.-]+"
_LEADING_ZERO = r"^[+-]?0\d+$"
_ISO_DATE = r"^\d{4}-\d{2}-\d{2}"
_FIRST_LINES = 20
_STARTS = {
    b"PAR1": ".parquet", b"ARROW1": ".arrow", b"PK": ".xlsx", b"{": ".json", b"[": ".json",
}  # fmt: skip


def read_tables(paths: Sequence[Path], delimiter: str | None = None) -> pl.DataFrame:
    """Read one table, or several one below the other; a column that one lacks is missing there."""
    frames = [read_table(path, delimiter) for path in paths]
    if len(frames) == 1:
        return frames[0]
    try:
        return pl.concat(frames, how="diagonal_relaxed")
    except pl.exceptions.PolarsError:
        # A column of numbers in one table and strings in another: strings, and the encoder decides.
        texts = [frame.with_columns(pl.all().cast(pl.String)) for frame in frames]
        return _with_types(pl.concat(texts, how="diagonal"))


def read_table(path: Path, delimiter: str | None = None) -> pl.DataFrame:
    """Read a table by the ending of its name, ``-`` from standard input, by its first bytes.

    Every failure is one clear line.
    """
    data, ending = _bytes_of(path)
    if not data.strip():
        raise InputError(f"the table {str(path)!r} is empty")
    reader = _READERS.get(ending)
    if reader is None:
        raise InputError(
            f"the table {str(path)!r} ends in none of {', '.join(_READERS)} (or one of these with "
            ".gz); rename or convert it"
        )
    try:
        frame = reader(data, path, delimiter)
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"the table {str(path)!r} cannot be read: {reason}") from error
    if frame.height == 0 or frame.width == 0:
        raise InputError(f"the table {str(path)!r} has a header but no rows")
    return _missing_texts_as_null(frame).rechunk()


def _bytes_of(path: Path) -> tuple[bytes, str]:
    """Return the unpacked bytes of a file, and the ending that determines its format."""
    if str(path) == "-":
        data = sys.stdin.buffer.read()
        first = data.lstrip()
        return data, next((end for mark, end in _STARTS.items() if first.startswith(mark)), ".csv")
    if path.suffix.lower() != ".gz":
        return path.read_bytes(), path.suffix.lower()
    try:
        return gzip.decompress(path.read_bytes()), Path(path.stem).suffix.lower()
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"the table {str(path)!r} cannot be unpacked: {error}") from error


def write_table(frame: pl.DataFrame, path: Path) -> None:
    """Write a table by the ending of its name, whole or not at all."""
    writer = _WRITERS.get(path.suffix.lower())
    if writer is None:
        raise InputError(
            f"the output {str(path)!r} ends in none of {', '.join(_WRITERS)}; choose one of them"
        )
    buffer = io.BytesIO()
    writer(frame, buffer)
    write_whole(path, buffer.getvalue())


def without_formulas(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the table with an apostrophe before texts that a spreadsheet would run as formulas."""
    safe = frame.with_columns(pl.col(pl.String).str.replace(_FORMULA, "'${1}"))
    return safe.rename({name: re.sub(_FORMULA, r"'\1", name) for name in frame.columns})


def check_folder(path: Path, option: str) -> None:
    """Refuse an output whose folder is not there, before any work."""
    if not path.parent.is_dir():
        raise InputError(f"{option}: the folder {str(path.parent)!r} does not exist")
    if path.is_dir():
        raise InputError(f"{option}: {str(path)!r} is a folder, not a file")


# --- readers ------------------------------------------------------------------------------------


def _read_delimited(data: bytes, path: Path, delimiter: str | None) -> pl.DataFrame:
    text = _decoded(data, path)
    separator = delimiter or _sniff(text)
    if len(separator) != 1:
        raise InputError(f"--delimiter {delimiter!r} must be a single character")
    quote = "'" if text.startswith("'") else '"'
    header = next(csv.reader(io.StringIO(text), delimiter=separator, quotechar=quote), [])
    names = [name.strip() for name in header]
    _check_names(names, path)
    if len(header) < 2 and not delimiter and not re.fullmatch(_ONE_NAME, names[0]):
        raise InputError(
            f"the table {str(path)!r} reads as one column, {header[0]!r}, when cut at "
            f"{separator!r}; give the separator with --delimiter"
        )
    frame = _cells(text, separator, quote, names, path)
    return _with_types(_missing_texts_as_null(frame))


def _cells(text: str, separator: str, quote: str, names: list[str], path: Path) -> pl.DataFrame:
    """Return the cells of a text table as texts."""
    options: dict[str, Any] = {"separator": separator, "quote_char": quote, "new_columns": names}
    try:
        return pl.read_csv(text.encode(), infer_schema_length=0, **options)
    except pl.exceptions.PolarsError:
        # Blanks before quotes, and quotes within values: slower, and with the line that is wrong.
        options = {"delimiter": separator, "quotechar": quote, "skipinitialspace": True}
        lines = csv.reader(io.StringIO(text), **options)
        rows = []
        for line in lines:
            if line and len(line) != len(names):
                raise InputError(
                    f"the table {str(path)!r} has {counted(len(line), 'value')} in line "
                    f"{lines.line_num} and {counted(len(names), 'name')} in its "
                    "header; check the delimiter and the quotes"
                ) from None
            rows += [line] if line else []
        return pl.DataFrame(rows[1:], schema=dict.fromkeys(names, pl.String), orient="row")


def _decoded(data: bytes, path: Path) -> str:
    """Return text of UTF-8, UTF-16 or, what every byte is a letter of, Windows' Latin-1."""
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    if b"\x00" in data:
        raise InputError(f"the table {str(path)!r} is binary, no text; convert it to CSV")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace")


def _with_types(frame: pl.DataFrame) -> pl.DataFrame:
    return pl.DataFrame([_typed(column) for column in frame.get_columns()])


def _typed(texts: pl.Series) -> pl.Series:
    """Return a column of texts as whole numbers, numbers, truth values or dates if all are.

    Digits with leading zeros are codes and stay texts.
    """
    if texts.dtype != pl.String or texts.null_count() == len(texts):
        return texts
    if texts.str.contains(_LEADING_ZERO).any():
        return texts
    for dtype in (pl.Int64, pl.Float64):
        found = texts.cast(dtype, strict=False)
        if found.null_count() == texts.null_count():
            return found
    if texts.drop_nulls().str.to_lowercase().is_in(["true", "false"]).all():
        return texts.str.to_lowercase() == "true"
    if texts.str.contains(_ISO_DATE).all():
        dates = texts.str.to_date("%Y-%m-%d", strict=False)
        if dates.null_count() == texts.null_count():
            return dates
    return texts


def _sniff(text: str) -> str:
    """Choose the delimiter that cuts the first lines into the most columns, evenly."""
    lines = text[: 1 << 16].splitlines()[:_FIRST_LINES]

    def widths(delimiter: str) -> tuple[bool, int]:
        counts = [len(row) for row in csv.reader(lines, delimiter=delimiter) if row]
        return len(set(counts)) == 1 and counts[0] > 1, counts[0] if counts else 0

    found = max(_DELIMITERS, key=widths)
    return found if widths(found)[1] > 1 else " "


def _read_arrow(data: bytes, path: Path, delimiter: str | None) -> pl.DataFrame:
    try:
        return pl.read_ipc(io.BytesIO(data))
    except pl.exceptions.ComputeError:
        return pl.read_ipc_stream(io.BytesIO(data))


def _read_json(data: bytes, path: Path, delimiter: str | None) -> pl.DataFrame:
    """Read an array of objects, or one object in each line."""
    if not data.lstrip().startswith(b"["):
        data = b"[" + b",".join(line for line in data.splitlines() if line.strip()) + b"]"
    return pl.read_json(io.BytesIO(data), infer_schema_length=None)


def _read_sheet(data: bytes, path: Path, delimiter: str | None) -> pl.DataFrame:
    """Read the first sheet of an Excel file: a line of names, and rows below it."""
    try:
        openpyxl = import_optional("openpyxl", needed_by="An Excel file", extra="excel")
    except ImportError as error:
        raise InputError(str(error)) from None
    try:
        book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
    except (KeyError, ValueError, BadZipFile) as error:
        raise InputError(f"the table {str(path)!r} is no Excel file: {error}") from error
    sheet = book.worksheets[0].iter_rows(values_only=True)
    lines = [line for line in sheet if any(value not in (None, "") for value in line)]
    if not lines:
        raise InputError(f"the first sheet of {str(path)!r} is empty")
    # Columns without a name, such as notes next to a table, are skipped.
    kept = [j for j, name in enumerate(lines[0]) if name not in (None, "")]
    names = [str(lines[0][j]).strip() for j in kept]
    _check_names(names, path)
    return pl.DataFrame(
        [
            _sheet_column(name, [line[j] for line in lines[1:]])
            for name, j in zip(names, kept, strict=True)
        ]
    )


def _sheet_column(name: str, values: list[Any]) -> pl.Series:
    """Return the cells of a column in the one type they have, or else as texts."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float} or kinds <= {bool}:
        return pl.Series(name, values, strict=False)
    if kinds <= {datetime}:
        return pl.Series(name, values, dtype=pl.Datetime("us"))
    texts = [None if value is None else str(value) for value in values]
    return _typed(_missing_texts_as_null(pl.DataFrame({name: texts})).to_series())


_READERS: dict[str, Callable[[bytes, Path, str | None], pl.DataFrame]] = {
    ".csv": _read_delimited,
    ".tsv": _read_delimited,
    ".txt": _read_delimited,
    ".parquet": lambda data, path, delimiter: pl.read_parquet(io.BytesIO(data)),
    ".arrow": _read_arrow,
    ".feather": _read_arrow,
    ".json": _read_json,
    ".jsonl": _read_json,
    ".ndjson": _read_json,
    ".xlsx": _read_sheet,
}

_WRITERS: dict[str, Callable[[pl.DataFrame, Any], Any]] = {
    ".csv": lambda frame, file: without_formulas(frame).write_csv(file),
    ".tsv": lambda frame, file: without_formulas(frame).write_csv(file, separator="\t"),
    ".parquet": lambda frame, file: frame.write_parquet(file),
    ".arrow": lambda frame, file: frame.write_ipc(file),
    ".json": lambda frame, file: frame.write_json(file),
    ".jsonl": lambda frame, file: frame.write_ndjson(file),
}


def _check_names(names: list[str], path: Path) -> None:
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise InputError(
            f"the table {str(path)!r} has two columns of the same name: {quoted(twice)}"
        )


def _missing_texts_as_null(frame: pl.DataFrame) -> pl.DataFrame:
    texts = pl.col(pl.String).str.strip_chars()
    return frame.with_columns(pl.col(pl.Categorical, pl.Enum).cast(pl.String)).with_columns(
        pl.when(texts.is_in(list(MISSING_TEXTS))).then(None).otherwise(texts).name.keep()
    )
