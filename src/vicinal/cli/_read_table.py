"""Tables from files: CSV, TSV, Parquet, Arrow and JSON lines, by polars."""

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl

from vicinal._base import write_whole
from vicinal.cli._errors import InputError, quoted

MISSING = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "?"]
_FORMULA = r"^([=+\-@\t\r])"
_DELIMITERS = ",;\t|"
_SAMPLE_BYTES = 1 << 16


def read_table(path: Path, delimiter: str | None = None) -> pl.DataFrame:
    """Read a table by the ending of its name; every failure is one clear line."""
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise InputError(f"the table {str(path)!r} {what}")
    if path.stat().st_size == 0:
        raise InputError(f"the table {str(path)!r} is empty")
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise InputError(
            f"the table {str(path)!r} ends in none of {', '.join(_READERS)}; rename or convert it"
        )
    try:
        frame = reader(path, delimiter)
    except (pl.exceptions.PolarsError, OSError, UnicodeDecodeError) as error:
        raise InputError(f"the table {str(path)!r} cannot be read: {_reason(error)}") from error
    if frame.height == 0 or frame.width == 0:
        raise InputError(f"the table {str(path)!r} has a header but no rows")
    return _missing_texts_as_null(frame).rechunk()


def write_table(frame: pl.DataFrame, path: Path) -> None:
    """Write a table by the ending of its name, whole or not at all."""
    writer = _WRITERS.get(path.suffix.lower())
    if writer is None:
        raise InputError(
            f"the output {str(path)!r} ends in none of {', '.join(_WRITERS)}; choose one of them"
        )
    check_folder(path, "--out")
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


def _read_delimited(path: Path, delimiter: str | None) -> pl.DataFrame:
    head = _sample_text(path)
    separator = delimiter or _sniff(head)
    if len(separator) != 1:
        raise InputError(f"--delimiter {delimiter!r} must be a single character")
    header = next(csv.reader(io.StringIO(head), delimiter=separator), [])
    _check_names([name.strip() for name in header], path)
    if len(header) < 2:
        raise InputError(
            f"the table {str(path)!r} reads as one column, {header[0]!r}, when cut at "
            f"{separator!r}; say what separates the columns with --delimiter"
        )
    return pl.read_csv(
        path,
        separator=separator,
        null_values=MISSING,
        infer_schema_length=None,
        try_parse_dates=True,
        new_columns=[name.strip() for name in header],
    )


def _sample_text(path: Path) -> str:
    with path.open("rb") as file:
        sample = file.read(_SAMPLE_BYTES)
    if sample[:2] in (b"\xff\xfe", b"\xfe\xff") or b"\x00" in sample:
        raise InputError(
            f"the table {str(path)!r} is UTF-16 or binary, not UTF-8 text; convert it, for "
            "example with: iconv -f UTF-16 -t UTF-8"
        )
    # The sample may end inside a character: only that one may be lost.
    text = sample.decode("utf-8-sig", "replace" if len(sample) == _SAMPLE_BYTES else "strict")
    if not text.strip():
        raise InputError(f"the table {str(path)!r} is empty")
    return text


def _sniff(text: str) -> str:
    """Choose the delimiter that cuts the first lines into the most columns, evenly."""
    lines = text.splitlines()[:20]

    def widths(delimiter: str) -> tuple[bool, int]:
        counts = [len(row) for row in csv.reader(lines, delimiter=delimiter) if row]
        return len(set(counts)) == 1 and counts[0] > 1, counts[0] if counts else 0

    return max(_DELIMITERS, key=widths)


def _read_parquet(path: Path, delimiter: str | None) -> pl.DataFrame:
    return pl.read_parquet(path)


def _read_arrow(path: Path, delimiter: str | None) -> pl.DataFrame:
    try:
        return pl.read_ipc(path)
    except pl.exceptions.ComputeError:
        return pl.read_ipc_stream(path)


def _read_json_lines(path: Path, delimiter: str | None) -> pl.DataFrame:
    return pl.read_ndjson(path, infer_schema_length=None)


_READERS: dict[str, Callable[[Path, str | None], pl.DataFrame]] = {
    ".csv": _read_delimited,
    ".tsv": _read_delimited,
    ".txt": _read_delimited,
    ".parquet": _read_parquet,
    ".arrow": _read_arrow,
    ".feather": _read_arrow,
    ".jsonl": _read_json_lines,
    ".ndjson": _read_json_lines,
}

_WRITERS: dict[str, Callable[[pl.DataFrame, Any], Any]] = {
    ".csv": lambda frame, file: without_formulas(frame).write_csv(file),
    ".tsv": lambda frame, file: without_formulas(frame).write_csv(file, separator="\t"),
    ".parquet": lambda frame, file: frame.write_parquet(file),
    ".arrow": lambda frame, file: frame.write_ipc(file),
    ".jsonl": lambda frame, file: frame.write_ndjson(file),
}


def _check_names(names: list[str], path: Path) -> None:
    seen: set[str] = set()
    twice = [name for name in names if name in seen or seen.add(name)]  # type: ignore[func-returns-value]
    if twice:
        raise InputError(
            f"the table {str(path)!r} has two columns of the same name: {quoted(twice)}"
        )


def _missing_texts_as_null(frame: pl.DataFrame) -> pl.DataFrame:
    texts = pl.col(pl.String).str.strip_chars()
    return frame.with_columns(
        pl.col(pl.Categorical, pl.Enum).cast(pl.String),
    ).with_columns(pl.when(texts.is_in(MISSING)).then(None).otherwise(texts).name.keep())


def _reason(error: Exception) -> str:
    text = str(error).strip().splitlines()[0]
    if "utf-8" in text.lower():
        return "it is not UTF-8 text; convert it, for example with: iconv -f LATIN1 -t UTF-8"
    if "more fields" in text:
        return "a line has more values than the header; check the delimiter and the quotes"
    return text
