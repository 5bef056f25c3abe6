"""What would mislead in a table: the command `check`, and the warnings of others."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from vicinal.cli._check_table import CheckedTable, Roles, check_has, check_table
from vicinal.cli._errors import InputError, quoted
from vicinal.cli._read_table import check_folder, read_tables
from vicinal.cli._show import say
from vicinal.cli._source import names_in
from vicinal.table import TableEncoder
from vicinal.table.keys import is_id

_MORE = "`vicinal check` shows more"
_REPEATED = 0.01  # of the rows: fewer copies change no ranking
_JUDGED_ROWS, _JUDGED_COLUMNS = 2000, 300


def check(
    tables: Sequence[Path],
    *,
    target: str | None,
    against: Path | None,
    drop: Sequence[str],
    task: str | None,
    out: Path,
    seed: int,
    delimiter: str | None,
    as_json: bool,
) -> None:
    """Look a table over, print what was found and write a page."""
    from vicinal.inspection import check as look_over
    from vicinal.report import CheckReport

    check_folder(out, "--out")
    frame = read_tables(tables, delimiter)
    new = None if against is None else read_tables([against], delimiter)
    dropped = names_in(drop, frame)
    for name in dropped:
        check_has(frame, name)
    frame = frame.drop(dropped)
    y, notes = None, []
    if target is not None:
        checked = check_table(frame, target, task=task, roles=Roles(every_column=True))
        frame, y, task = checked.X, checked.y, checked.task
        notes = [note for note in checked.notes if "left out" in note and "rows" in note]
    if new is not None:
        missing = [name for name in frame.columns if name not in new.columns]
        if missing:  # row numbers and ids are not compared
            unused = TableEncoder().fit(frame).identifiers_
            missing = [name for name in missing if name not in unused]
        if missing:
            raise InputError(
                f"--against {str(against)!r} lacks {quoted(missing)}; leave out with --drop what "
                "new rows do not have"
            )
    found = look_over(frame, y, against=new, task=task, random_state=seed)
    for note in notes:
        say(f"  note: {note}")
    print(json.dumps(found.to_dict(), indent=2, ensure_ascii=False) if as_json else found)
    title = f"A look at {tables[0].name}" + ("" if against is None else f" beside {against.name}")
    say(f"page: {CheckReport(found, title, notes).write_html(out)}")


def warn(checked: CheckedTable, seed: int) -> None:
    """Say in one line each what would make a score misleading."""
    from vicinal.inspection import leaking_columns

    X = checked.X
    if checked.groups is None:
        for name in X.columns:
            if is_id(name) and 2 < X[name].n_unique() <= X.height // 2:
                say(
                    f"  note: rows share a {name!r}; if new rows have others, --group {name!r} "
                    "holds out all rows of one together"
                )
        n_repeats = X.height - X.with_columns(target=checked.y).n_unique()
        if n_repeats >= max(2, _REPEATED * X.height):
            say(
                f"  note: {n_repeats:,} rows repeat others, so folds are judged on rows that were "
                f"learned (--group keeps rows together); {_MORE}"
            )
    if X.width <= _JUDGED_COLUMNS:
        rows = np.random.RandomState(seed).permutation(X.height)[:_JUDGED_ROWS]
        found = leaking_columns(X[rows], checked.y[rows], task=checked.task, random_state=seed)
        if found and X.width > 1:
            say(
                f"  note: {found.summary.rstrip(':')}: is it known when the question is asked "
                f"(--drop)? {_MORE}"
            )
