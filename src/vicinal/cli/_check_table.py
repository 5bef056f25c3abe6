"""What a table must be before a model is fitted on it."""

import difflib
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from vicinal.cli._errors import InputError, quoted
from vicinal.table import TableEncoder

_MANY_LEVELS = 1000


@dataclass(frozen=True)
class CheckedTable:
    """Rows, target and what each column is; ``notes`` tell what was left out or mended."""

    X: pl.DataFrame
    y: np.ndarray
    task: str
    target: str
    kinds: dict[str, str]
    notes: list[str] = field(default_factory=list)

    def encoder(self) -> TableEncoder:
        """Return an unfitted encoder for this table."""
        return TableEncoder(kinds=self.kinds)


def check_table(
    frame: pl.DataFrame,
    target: str,
    *,
    task: str | None = None,
    drop: tuple[str, ...] = (),
    category: tuple[str, ...] = (),
    repair: bool = False,
    min_rows: int = 2,
) -> CheckedTable:
    """Split a table into features and target and refuse what would mislead a model.

    ``repair`` mends what can be mended: empty columns and identifiers are left out, dates and
    texts are encoded, stray words in a column of numbers become missing.
    """
    notes: list[str] = []
    for name in (target, *drop, *category):
        _check_has(frame, name)
    if target in drop:
        raise InputError(f"--drop {target!r} would drop the target")
    frame = _rows_with_target(frame, target, notes)
    if frame.height < min_rows:
        raise InputError(
            f"the table has {frame.height} row{'s' * (frame.height != 1)} with a target; "
            f"at least {min_rows} are needed"
        )
    y, task = _target(frame[target], task)
    X = frame.drop(target, *drop)
    kinds = _columns(X, category, repair, notes)
    if not kinds:
        raise InputError("no column is left to predict from")
    return CheckedTable(X.select(list(kinds)), y, task, target, kinds, notes)


def _check_has(frame, name) -> None:
    if name in frame.columns:
        return
    close = difflib.get_close_matches(name, frame.columns, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"it has {quoted(frame.columns)}"
    raise InputError(f"the table has no column {name!r}; {hint}")


def _rows_with_target(frame, target, notes):
    column = frame[target]
    gaps = column.is_nan() if column.dtype.is_float() else pl.Series([False] * len(column))
    known = frame.filter(~(column.is_null() | gaps.fill_null(True)))
    if known.height == 0:
        raise InputError(f"the target {target!r} is missing in every row")
    if known.height < frame.height:
        notes.append(f"{frame.height - known.height} rows without {target!r} left out")
    return known


# --- the target ---------------------------------------------------------------------------------


def _target(column: pl.Series, task: str | None) -> tuple[np.ndarray, str]:
    name, n_levels = column.name, column.n_unique()
    if n_levels == 1:
        raise InputError(f"the target {name!r} is constant: every row has {column[0]!r}")
    if not (column.dtype.is_numeric() or column.dtype in (pl.String, pl.Boolean)):
        raise InputError(
            f"the target {name!r} holds {_in_words(column.dtype)}; a target is a number or a class"
        )
    numeric = column.dtype.is_numeric()
    if task is None:
        task = "classification" if _looks_like_classes(column) else "regression"
    if task == "regression":
        if not numeric:
            raise InputError(f"the target {name!r} holds {column[0]!r}: no number to regress on")
        values = column.cast(pl.Float64).to_numpy()
        if not np.isfinite(values).all():
            raise InputError(f"the target {name!r} holds infinities; remove those rows")
        return values, task
    if n_levels > 0.5 * len(column) and n_levels > 10:
        raise InputError(
            f"the target {name!r} has {n_levels} classes in {len(column)} rows; "
            + ("try --task regression" if numeric else "that is no class but an identifier")
        )
    if column.dtype == pl.Boolean or not numeric:
        return column.cast(pl.String).to_numpy().astype(str), task
    return column.to_numpy(), task


def _looks_like_classes(column: pl.Series) -> bool:
    """Texts and truth values are classes, and so are a few whole numbers that come often."""
    if not column.dtype.is_numeric():
        return True
    n_levels = column.n_unique()
    whole = column.dtype.is_integer() or bool((column == column.round()).all())
    return whole and n_levels <= min(20, max(2, len(column) // 10))


# --- the other columns --------------------------------------------------------------------------


def _columns(X, category, repair, notes) -> dict[str, str]:
    """Return the kind of every column that is kept."""
    kinds: dict[str, str] = {}
    problems: list[str] = []
    for column in X.get_columns():
        name = column.name
        if name in category:
            kinds[name] = "category"
            continue
        found = _problem(column)
        if found is None:
            if column.n_unique() == 1:
                notes.append(f"{name!r} left out: it is constant")
            else:
                kinds[name] = _kind_of(column)
            continue
        problem, remedy, kind = found
        if not repair:
            problems.append(f"the column {name!r} {problem}")
            continue
        notes.append(f"{name!r} {problem}: {remedy}")
        if kind is not None:
            kinds[name] = kind
    if problems:
        more = f" (and {len(problems) - 1} more columns)" if len(problems) > 1 else ""
        raise InputError(f"{problems[0]}{more}; leave it out with --drop or mend with --repair")
    return kinds


def _kind_of(column: pl.Series) -> str:
    """Say what a column is by its type."""
    if column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Null, pl.Duration):
        return "number"
    return "date" if column.dtype in (pl.Date, pl.Datetime) else "category"


def _problem(column: pl.Series) -> tuple[str, str, str | None] | None:
    """Return what is wrong with a column, what a repair does, and the kind it then has."""
    if column.null_count() == len(column) or (
        column.dtype.is_float() and column.fill_nan(None).null_count() == len(column)
    ):
        return "has no value", "left out", None
    if column.dtype in (pl.Date, pl.Datetime):
        return "holds dates", "encoded as calendar parts", "date"
    if column.dtype == pl.String:
        return _problem_of_text(column)
    if column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Duration):
        if column.dtype.is_float() and column.is_infinite().any():
            return "holds infinities", "left out", None
        return None
    return f"holds {_in_words(column.dtype)}", "left out", None


def _problem_of_text(column: pl.Series) -> tuple[str, str, str | None] | None:
    known = column.drop_nulls()
    n_levels = known.n_unique()
    numbers = known.cast(pl.Float64, strict=False)
    n_numbers = len(numbers) - numbers.null_count()
    if len(known) > n_numbers >= 0.5 * len(known):
        word = known.filter(numbers.is_null())[0]
        return (
            f"mixes numbers and text such as {word!r} (--category keeps it as text)",
            "text became missing",
            "number",
        )
    if n_levels > _MANY_LEVELS or (n_levels > 50 and n_levels > 0.5 * len(known)):
        problem = f"has {n_levels} different texts in {len(column)} rows"
        n_words = np.mean([len(text.split()) for text in known.head(1000)])
        if n_levels > 0.9 * len(known) and n_words < 3:
            return problem, "left out as an identifier", None
        return problem, "encoded as free text", "text"
    return None


def _in_words(dtype: pl.DataType) -> str:
    if dtype in (pl.Date, pl.Datetime, pl.Time):
        return "dates"
    if isinstance(dtype, pl.List | pl.Array | pl.Struct):
        return "nested values"
    return f"values of type {dtype}"
