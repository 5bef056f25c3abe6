"""Where a labelled table comes from, and how it is to be read."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from sklearn import datasets

from vicinal.cli._check_table import CheckedTable, Roles, check_table
from vicinal.cli._errors import InputError
from vicinal.cli._read_table import read_tables
from vicinal.cli._show import say

_MOST_NAMED = 8


@dataclass(frozen=True)
class Source:
    """A table in files, or an embedded one, and what was said about it."""

    paths: Sequence[Path]
    target: str | None
    embedded: str | None = None
    delimiter: str | None = None
    task: str | None = None
    drop: Sequence[str] = ()
    category: Sequence[str] = ()
    group: str | None = None
    time: str | None = None
    weight: str | None = None
    strict: bool = False

    @property
    def title(self) -> str:
        """A heading: the name of the file or of the embedded set."""
        if not self.paths:
            return (self.embedded or "").replace("_", " ")
        more = f" and {len(self.paths) - 1} more" if len(self.paths) > 1 else ""
        return self.paths[0].name + more

    def load(self, min_rows: int = 2) -> CheckedTable:
        """Read and check the table, and say what was found."""
        if not self.paths:
            frame, target = _embedded(self.embedded or "")
        elif self.target is None:
            raise InputError("a table needs --target, the name of the column to predict")
        else:
            frame, target = read_tables(self.paths, self.delimiter), self.target
        checked = check_table(
            frame,
            target,
            task=self.task,
            roles=Roles(
                names_in(self.drop, frame),
                names_in(self.category, frame),
                self.group,
                self.time,
                self.weight,
            ),
            strict=self.strict,
            min_rows=min_rows,
        )
        say(
            f"{self.title}: {checked.X.height:,} rows, {checked.X.width} columns; {_guess(checked)}"
        )
        for note in checked.notes:
            say(f"  note: {note}")
        return checked


def names_in(given: Sequence[str], frame: pl.DataFrame) -> tuple[str, ...]:
    """Return names that were given one by one or separated by commas."""
    found: list[str] = []
    for text in given:
        found += [text] if text in frame.columns else [part.strip() for part in text.split(",")]
    return tuple(name for name in found if name)


def _embedded(name: str) -> tuple[pl.DataFrame, str]:
    bunch = getattr(datasets, f"load_{name}")()
    columns = {str(name): bunch.data[:, j] for j, name in enumerate(bunch.feature_names)}
    names = getattr(bunch, "target_names", None)
    target = bunch.target if names is None else np.asarray(names)[bunch.target]
    return pl.DataFrame({**columns, "target": target}), "target"


def _guess(checked: CheckedTable) -> str:
    if checked.task == "regression":
        return f"regression on {checked.target!r}"
    labels, counts = np.unique(checked.y, return_counts=True)
    found = f"{len(labels)} classes"
    if len(labels) <= _MOST_NAMED:  # a label that was mistyped is seen here
        order = np.argsort(-counts, kind="stable")
        found += ": " + ", ".join(f"{labels[k]} {counts[k]:,}" for k in order)
    return f"classification of {checked.target!r} ({found})"
