"""Labelled tables: where they come from, what they must be, how a model is fitted on one."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from sklearn.pipeline import make_pipeline

from vicinal._base import counted, fit_weighted, reads_frames, takes_weights
from vicinal.cli._read_table import read_tables
from vicinal.cli._show import InputError, log, quoted, similar
from vicinal.table import TableEncoder
from vicinal.table.keys import is_id

# Integers with more values are a regression target, unless --task is given.
_MOST_CODES = 10
_MOST_NAMED = 8
_MORE = "`vicinal check` shows more"
_REPEATED = 0.01  # of the rows: fewer copies change no ranking
_JUDGED_ROWS, _JUDGED_COLUMNS = 2000, 300


@dataclass(frozen=True)
class CheckedTable:
    """Rows, target and types of the columns; ``notes`` describe decisions about the columns."""

    X: pl.DataFrame
    y: np.ndarray
    task: str
    target: str
    kinds: dict[str, str]
    notes: list[str] = field(default_factory=list)
    groups: np.ndarray | None = None
    weights: np.ndarray | None = None
    time_column: str | None = None  # if it is a feature; rows are in its order anyway
    title: str = ""

    @cached_property
    def classes(self) -> tuple[np.ndarray, np.ndarray]:
        """The classes of the target and their numbers of rows; none for regression."""
        labels = self.y if self.task == "classification" else self.y[:0]
        return np.unique(labels, return_counts=True)

    def encoder(self) -> TableEncoder:
        """Return an unfitted encoder for this table."""
        return TableEncoder(kinds=self.kinds)

    def fit(self, estimator: Any, rows: Any = slice(None)) -> Any:
        """Fit a model on rows of the table, behind its encoder unless the model reads frames."""
        is_ready = reads_frames(estimator)
        model = estimator if is_ready else make_pipeline(self.encoder(), estimator)
        weights = self.weights if takes_weights(model) else None
        return fit_weighted(
            model,
            self.X[rows],
            self.y[rows],
            None if weights is None else weights[rows],
            None if self.groups is None else self.groups[rows],
        )


def check_table(
    frame: pl.DataFrame,
    target: str,
    *,
    task: str | None = None,
    drop: Sequence[str] | None = None,
    category: Sequence[str] | None = None,
    group: str | None = None,
    time: str | None = None,
    weight: str | None = None,
    strict: bool = False,
    every_column: bool = False,
    min_rows: int = 2,
) -> CheckedTable:
    """Split a table into features and target and decide what the columns are.

    ``strict`` refuses columns that are not plain numbers and labels. With ``every_column``
    uninformative ones are features, too.
    """
    notes: list[str] = []
    check_has(frame, target)
    dropped, categorical = columns_in(frame, drop), columns_in(frame, category)
    roles = [name for name in (group, time, weight) if name is not None]
    for name in roles:
        check_has(frame, name)
    if target in (*dropped, *categorical, *roles):
        raise InputError(f"{target!r} is the target and cannot be anything else")
    frame = rows_with_target(frame, target, notes)
    if frame.height < min_rows:
        raise InputError(
            f"the table has {frame.height} row{'s' * (frame.height != 1)} with a target; "
            f"at least {min_rows} are needed"
        )
    frame = frame if time is None else _in_time(frame, time)
    column, given_task = as_numbers(frame[target], task), task
    y, task = _target(column, task)
    few = column.dtype.is_numeric() and 2 < column.n_unique() <= 2 * _MOST_CODES
    if given_task is None and few and _is_whole(column):
        other = "regression" if task == "classification" else "classification"
        notes.append(f"{target!r} holds few whole numbers; --task {other} if that is meant")
    X = frame.drop(target, *dropped, *filter(None, (group, weight)))
    # The type marks the column for every model, also for those that encode it themselves.
    X = X.with_columns(X.select(categorical).cast(pl.String).cast(pl.Categorical))
    groups = None
    if group is not None:
        groups = frame[group].cast(pl.String).fill_null("").rank("dense").to_numpy()
    kinds = dict.fromkeys(X.columns, "") if every_column else _decide(X, y, notes, strict)
    return CheckedTable(
        X.select(list(kinds)),
        y,
        task,
        target,
        kinds,
        notes,
        groups=groups,
        weights=None if weight is None else _weights(frame[weight]),
        time_column=time if time in kinds else None,
    )


def columns_in(frame: pl.DataFrame, given: Sequence[str] | None) -> list[str]:
    """Return columns that were named one by one or separated by commas; all must exist."""
    found: list[str] = []
    for text in given or []:
        found += [text] if text in frame.columns else [part.strip() for part in text.split(",")]
    found = [name for name in found if name]
    for name in found:
        check_has(frame, name)
    return found


def check_has(frame: pl.DataFrame, name: str) -> None:
    """Raise an error for an unknown column, with the most similar name."""
    if name in frame.columns:
        return
    hint = similar(name, frame.columns) or f"it has {quoted(frame.columns)}"
    raise InputError(f"the table has no column {name!r}; {hint}")


def rows_with_target(frame: pl.DataFrame, target: str, notes: list[str]) -> pl.DataFrame:
    """Return the rows that have a target, and note how many have none."""
    column = frame[target]
    missing = column.is_nan() if column.dtype.is_float() else pl.Series([False] * len(column))
    known = frame.filter(~(column.is_null() | missing.fill_null(True)))
    if known.height == 0:
        raise InputError(f"the target {target!r} is missing in every row")
    if n := frame.height - known.height:
        notes.append(f"{n} row{'s' * (n > 1)} without {target!r} left out")
    return known


# --- columns with a role ------------------------------------------------------------------------


def _in_time(frame, name):
    """Return the rows in the order of a column of dates or numbers."""
    from vicinal.auto import moments

    try:
        return frame[np.argsort(moments(frame, name), kind="stable")]
    except ValueError as error:
        raise InputError(f"--time-column {name!r}: {error}") from error


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
            f"the target {name!r} holds {_type_name(column.dtype)}; a target is a number or a class"
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


def _is_whole(column: pl.Series) -> bool:
    return column.dtype.is_integer() or bool((column == column.round()).all())


# --- the other columns --------------------------------------------------------------------------


def _decide(X, y, notes, strict) -> dict[str, str]:
    """Return the kind of every column that is kept, decided once for all folds."""
    if X.width == 0:
        raise InputError("no column is left to predict from")
    encoder = TableEncoder()
    try:
        encoder.fit(X, y)
    except ValueError as error:
        raise InputError(str(error)) from error
    if strict:
        _refuse(encoder)
    notes += encoder.decisions_
    return {name: kind for name, kind in encoder.kinds_.items() if kind != "drop"}


def _refuse(encoder) -> None:
    """Refuse a table with columns that are not plain numbers and categories."""
    problems = []
    for name, kind in encoder.kinds_.items():
        remarks = encoder.remarks_[name]
        if kind == "number":  # neither read from strings nor infinite
            remarks = [text for text in remarks if text.startswith(("numbers", "infinities"))]
        if kind != "category" and remarks:
            problems.append(f"the column {name!r}: {remarks[0]}")
    if problems:
        more = f" (and {counted(len(problems) - 1, 'more column')})" if len(problems) > 1 else ""
        raise InputError(f"{problems[0]}{more}; leave it out with --drop or go without --strict")


def _type_name(dtype: pl.DataType) -> str:
    if dtype in (pl.Date, pl.Datetime, pl.Time):
        return "dates"
    if isinstance(dtype, pl.List | pl.Array | pl.Struct):
        return "nested values"
    return f"values of type {dtype}"


# --- where a table comes from --------------------------------------------------------------------


def load_table(
    source: Sequence[Path] | str, target: str | None, delimiter: str | None = None, **options: Any
) -> CheckedTable:
    """Read and check the table of some files, or an embedded one, and print what was found.

    ``options`` are those of :func:`check_table`.
    """
    if isinstance(source, str):
        title = source.replace("_", " ")
        frame, target = _embedded(source)
    elif target is None:
        raise InputError("a table needs --target, the name of the column to predict")
    else:
        title = source[0].name + (f" and {len(source) - 1} more" if len(source) > 1 else "")
        frame = read_tables(source, delimiter)
    checked = replace(check_table(frame, target, **options), title=title)
    size = f"{checked.X.height:,} rows, {counted(checked.X.width, 'column')}"
    log(f"{title}: {size}; {_guess(checked)}")
    for note in checked.notes:
        log(f"  note: {note}")
    return checked


def _embedded(name: str) -> tuple[pl.DataFrame, str]:
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")()
    columns = {str(name): bunch.data[:, j] for j, name in enumerate(bunch.feature_names)}
    names = getattr(bunch, "target_names", None)
    target = bunch.target if names is None else np.asarray(names)[bunch.target]
    return pl.DataFrame({**columns, "target": target}), "target"


def _guess(checked: CheckedTable) -> str:
    if checked.task == "regression":
        return f"regression on {checked.target!r}"
    labels, counts = checked.classes
    found = f"{len(labels)} classes"
    if len(labels) <= _MOST_NAMED:  # a label that was mistyped is seen here
        order = np.argsort(-counts, kind="stable")
        found += ": " + ", ".join(f"{labels[k]} {counts[k]:,}" for k in order)
    return f"classification of {checked.target!r} ({found})"


def warn(checked: CheckedTable, seed: int) -> None:
    """Print what would make a score misleading, one line each."""
    from vicinal.inspection.checks import leaking_columns

    X = checked.X
    if checked.groups is None:
        for name in X.columns:
            if is_id(name) and 2 < X[name].n_unique() <= X.height // 2:
                log(
                    f"  note: rows share a {name!r}; if new rows have others, --group {name!r} "
                    "holds out all rows of one together"
                )
        n_repeats = X.height - X.with_columns(target=checked.y).n_unique()
        if n_repeats >= max(2, _REPEATED * X.height):
            log(
                f"  note: {n_repeats:,} rows are duplicates, so test rows of folds are also in "
                f"training (--group keeps rows together); {_MORE}"
            )
    if X.width <= _JUDGED_COLUMNS:
        rows = np.random.RandomState(seed).permutation(X.height)[:_JUDGED_ROWS]
        found = leaking_columns(X[rows], checked.y[rows], task=checked.task, random_state=seed)
        if found and X.width > 1:
            log(
                f"  note: {found.summary.rstrip(':')}; --drop what is unknown at prediction "
                f"time; {_MORE}"
            )


def fingerprint(X: pl.DataFrame) -> str:
    """Return a hash of the rows of a table that does not depend on their order."""
    hashes = X.with_columns(pl.col(pl.Categorical).cast(pl.String)).hash_rows().sort()
    return hashlib.sha256(hashes.to_numpy().tobytes()).hexdigest()[:16]
