"""What a table must be before a model is fitted on it."""

import difflib
from dataclasses import dataclass, field

import numpy as np
import polars as pl

from vicinal.cli._errors import InputError, quoted
from vicinal.table import TableEncoder

_MANY_LEVELS = 1000
# Whole numbers of more values are amounts, unless --task says otherwise.
_MOST_CODES = 10


@dataclass(frozen=True)
class Roles:
    """Columns that are neither features nor simply features."""

    drop: tuple[str, ...] = ()
    category: tuple[str, ...] = ()
    group: str | None = None
    time: str | None = None
    weight: str | None = None
    every_column: bool = False  # also those that tell nothing

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that are named."""
        named = (self.group, self.time, self.weight)
        return (*self.drop, *self.category, *(name for name in named if name is not None))


@dataclass(frozen=True)
class CheckedTable:
    """Rows, target and what each column is; ``notes`` tell what was decided about the columns."""

    X: pl.DataFrame
    y: np.ndarray
    task: str
    target: str
    kinds: dict[str, str]
    notes: list[str] = field(default_factory=list)
    groups: np.ndarray | None = None
    weights: np.ndarray | None = None

    def encoder(self) -> TableEncoder:
        """Return an unfitted encoder for this table."""
        return TableEncoder(kinds=self.kinds)


def check_table(
    frame: pl.DataFrame,
    target: str,
    *,
    task: str | None = None,
    roles: Roles | None = None,
    strict: bool = False,
    min_rows: int = 2,
) -> CheckedTable:
    """Split a table into features and target and decide what the columns are.

    ``strict`` refuses columns that are not plain numbers and labels.
    """
    notes: list[str] = []
    roles = roles or Roles()
    for name in (target, *roles.columns):
        check_has(frame, name)
    if target in roles.columns:
        raise InputError(f"{target!r} is the target and cannot be anything else")
    frame = rows_with_target(frame, target, notes)
    if frame.height < min_rows:
        raise InputError(
            f"the table has {frame.height} row{'s' * (frame.height != 1)} with a target; "
            f"at least {min_rows} are needed"
        )
    frame = frame if roles.time is None else _in_time(frame, roles.time)
    column, said = as_numbers(frame[target], task), task
    y, task = _target(column, task)
    if said is None and _may_be_both(column):
        other = "regression" if task == "classification" else "classification"
        notes.append(f"{target!r} holds few whole numbers; --task {other} if that is meant")
    X = frame.drop(target, *roles.drop, *filter(None, (roles.group, roles.weight)))
    if strict:
        _refuse(X, roles.category)
    # The type says it to every model, also to those that take the table as it is.
    X = (
        X.with_columns(pl.col(*roles.category).cast(pl.String).cast(pl.Categorical))
        if roles.category
        else X
    )
    kinds = dict.fromkeys(X.columns, "") if roles.every_column else _decide(X, y, notes)
    return CheckedTable(
        X.select(list(kinds)),
        y,
        task,
        target,
        kinds,
        notes,
        groups=None if roles.group is None else _codes(frame[roles.group]),
        weights=None if roles.weight is None else _weights(frame[roles.weight]),
    )


def check_has(frame: pl.DataFrame, name: str) -> None:
    """Refuse the name of a column that is not there, and say which is meant."""
    if name in frame.columns:
        return
    close = difflib.get_close_matches(name, frame.columns, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"it has {quoted(frame.columns)}"
    raise InputError(f"the table has no column {name!r}; {hint}")


def rows_with_target(frame: pl.DataFrame, target: str, notes: list[str]) -> pl.DataFrame:
    """Return the rows that have a target, and note how many have none."""
    column = frame[target]
    gaps = column.is_nan() if column.dtype.is_float() else pl.Series([False] * len(column))
    known = frame.filter(~(column.is_null() | gaps.fill_null(True)))
    if known.height == 0:
        raise InputError(f"the target {target!r} is missing in every row")
    if known.height < frame.height:
        n = frame.height - known.height
        notes.append(f"{n} row{'s' * (n > 1)} without {target!r} left out")
    return known


# --- columns with a role ------------------------------------------------------------------------


def _in_time(frame, name):
    """Return the rows in the order of a column of dates or numbers."""
    order = TableEncoder("tree", kinds={name: "date"} if _holds_dates(frame[name]) else None)
    try:
        moments = order.fit_transform(frame.select(name))[:, -1]
    except ValueError as error:
        raise InputError(f"--time {name!r} holds neither dates nor numbers: {error}") from error
    if order.kinds_[name] not in ("date", "number") or np.isnan(moments).any():
        raise InputError(f"--time {name!r} must hold a date or a number in every row")
    return frame[np.argsort(moments, kind="stable")]


def _holds_dates(column) -> bool:
    return column.dtype in (pl.Date, pl.Datetime)


def _codes(column) -> np.ndarray:
    return column.cast(pl.String).fill_null("").rank("dense").to_numpy()


def _weights(column) -> np.ndarray:
    numbers = column.cast(pl.Float64, strict=False).to_numpy()
    if not np.isfinite(numbers).all() or (numbers < 0).any() or not numbers.any():
        raise InputError(f"--weight {column.name!r} must hold numbers that are not negative")
    return numbers


# --- the target ---------------------------------------------------------------------------------


def as_numbers(column: pl.Series, task: str | None) -> pl.Series:
    """Return a target of numbers in disguise ($1,234.50) as numbers."""
    if column.dtype != pl.String or task == "classification" or column.n_unique() == 1:
        return column
    reader = TableEncoder("tree")
    try:
        numbers = reader.fit_transform(column.to_frame())
    except ValueError:  # an identifier
        return column
    if reader.kinds_[column.name] != "number" or np.isnan(numbers).any():
        return column
    return pl.Series(column.name, numbers[:, 0])


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
    return _is_whole(column) and column.n_unique() <= min(_MOST_CODES, max(2, len(column) // 10))


def _may_be_both(column: pl.Series) -> bool:
    """Tell whether a target may be meant as classes and as amounts: ratings, days, counts."""
    few = column.dtype.is_numeric() and 2 < column.n_unique() <= 2 * _MOST_CODES
    return few and _is_whole(column)


def _is_whole(column: pl.Series) -> bool:
    return column.dtype.is_integer() or bool((column == column.round()).all())


# --- the other columns --------------------------------------------------------------------------


def _decide(X, y, notes) -> dict[str, str]:
    """Return the kind of every column that is kept, decided once for all folds."""
    if X.width == 0:
        raise InputError("no column is left to predict from")
    encoder = TableEncoder()
    try:
        encoder.fit(X, y)
    except ValueError as error:
        raise InputError(str(error)) from error
    notes += encoder.decisions_
    return {name: kind for name, kind in encoder.kinds_.items() if kind != "drop"}


def _refuse(X, category) -> None:
    """Refuse a table with columns that are not plain numbers and labels."""
    problems = [
        f"the column {column.name!r} {problem}"
        for column in X.get_columns()
        if column.name not in category and (problem := _problem(column))
    ]
    if problems:
        more = f" (and {len(problems) - 1} more columns)" if len(problems) > 1 else ""
        raise InputError(f"{problems[0]}{more}; leave it out with --drop or go without --strict")


def _problem(column: pl.Series) -> str | None:
    """Return what is wrong with a column."""
    if column.null_count() == len(column) or (
        column.dtype.is_float() and column.fill_nan(None).null_count() == len(column)
    ):
        return "has no value"
    if column.dtype in (pl.Date, pl.Datetime):
        return "holds dates"
    if column.dtype == pl.String:
        return _problem_of_text(column)
    if column.dtype.is_numeric() or column.dtype in (pl.Boolean, pl.Duration):
        is_infinite = column.dtype.is_float() and column.is_infinite().any()
        return "holds infinities" if is_infinite else None
    return f"holds {_in_words(column.dtype)}"


def _problem_of_text(column: pl.Series) -> str | None:
    known = column.drop_nulls()
    n_levels = known.n_unique()
    numbers = known.cast(pl.Float64, strict=False)
    n_numbers = len(numbers) - numbers.null_count()
    if len(known) > n_numbers >= 0.5 * len(known):
        word = known.filter(numbers.is_null())[0]
        return f"mixes numbers and text such as {word!r} (--category keeps it as text)"
    if n_levels > _MANY_LEVELS or (n_levels > 50 and n_levels > 0.5 * len(known)):
        return f"has {n_levels} different texts in {len(column)} rows"
    return None


def _in_words(dtype: pl.DataType) -> str:
    if dtype in (pl.Date, pl.Datetime, pl.Time):
        return "dates"
    if isinstance(dtype, pl.List | pl.Array | pl.Struct):
        return "nested values"
    return f"values of type {dtype}"
