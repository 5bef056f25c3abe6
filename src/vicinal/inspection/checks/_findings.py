"""Results of the checks of a table: a sentence and a table each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from vicinal._base import counted, import_optional
from vicinal._base._explanation import plain, show

_SHOWN, _SHOWN_COLUMNS, _LONGEST = 10, 30, 24
# Findings that make a model or its scores misleading.
# Share of conflicting rows from which scores are misleading.
_MANY_CONFLICTS = 0.01
_SERIOUS = ("labels", "leaks", "drift", "overlap")


@dataclass(frozen=True)
class Findings:
    """A sentence, and the rows or columns it is about, most striking first.

    Attributes
    ----------
    summary : str
        What was found, in one sentence.
    table : dict of str to ndarray
        Columns of equal length, most striking row first.
    values : dict
        Single numbers of the summary. ``found``, where present, overrides whether something was
        found.
    """

    summary: str
    table: dict[str, np.ndarray]
    values: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(next(iter(self.table.values()))) if self.table else 0

    def __bool__(self) -> bool:
        return bool(self.values.get("found", len(self) > 0))

    def __getitem__(self, name: str) -> np.ndarray:
        return self.table[name]

    def lines(self) -> list[list[tuple[str, Any]]]:
        """Return the lines of the table, each as pairs of column and value."""
        rows = zip(*self.table.values(), strict=True)
        return [list(zip(self.table, row, strict=True)) for row in rows]

    def to_frame(self):
        """Return the table as a pandas frame.

        Returns
        -------
        pandas.DataFrame
            One line per finding.
        """
        pandas = import_optional("pandas", needed_by="Findings.to_frame", extra="frame")
        return pandas.DataFrame(self.table)

    def __repr__(self) -> str:
        if not len(self):
            return self.summary
        lines = [self.summary, *text_table(self.table, _SHOWN)]
        if len(self) > _SHOWN:
            lines.append(f"... and {len(self) - _SHOWN} more")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        more = f"<p>and {len(self) - _SHOWN} more</p>" if len(self) > _SHOWN else ""
        table = html_table(list(self.table), _cells(self.table, _SHOWN)) + more
        return f"<p>{escape(self.summary)}</p>" + (table if len(self) else "")


def html_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of texts as HTML, escaped."""
    names = "".join(f"<th>{escape(name)}</th>" for name in head)
    cells = ("".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in cells)
    return f"<table><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>"


def table_of(rows: list[tuple], kinds: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return the columns of a table from its rows, by name, each of its own type."""
    return {
        name: np.array([row[j] for row in rows], dtype=kind)
        for j, (name, kind) in enumerate(kinds.items())
    }


def text_table(table: Mapping[str, Any], limit: int) -> list[str]:
    """Return the first rows of a table as aligned lines."""
    rows = [list(table), *_cells(table, limit)]
    widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
    return ["  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]


def _cells(table: Mapping[str, Any], limit: int) -> list[list[str]]:
    columns = [list(column[:limit]) for column in table.values()]
    return [[show(value) for value in row] for row in zip(*columns, strict=True)]


def shortened(text: str, longest: int = _LONGEST) -> str:
    """Return a long name with an ellipsis inside: names often differ at their ends."""
    end = (longest - 1) // 3
    return text if len(text) <= longest else f"{text[: longest - 1 - end]}…{text[-end:]}"


@dataclass(frozen=True)
class TableCheck:
    """Findings about a table, by name.

    Attributes
    ----------
    findings : dict of str to Findings
        ``labels``, ``repeats``, ``leaks``, ``imbalance``, ``columns``, ``categories`` and, where
        other rows were given, ``drift`` and ``overlap``.
    n_rows, n_columns : int
        Size of the table.
    profile : dict
        ``rows`` describes the columns (``name``, ``kind``, ``missing``, ``n_distinct``,
        ``summary``, ``relation`` to the target, ``flags``), ``correlations`` their strongest pairs,
        ``missing`` where values are missing.
    """

    findings: dict[str, Findings]
    n_rows: int
    n_columns: int
    profile: dict[str, Any]

    def severity(self, name: str) -> str:
        """Return how serious a finding is.

        Parameters
        ----------
        name : str
            Name of the finding.

        Returns
        -------
        {"none", "medium", "high"}
            High for findings that make scores misleading: one row in a hundred with the columns of
            another and a different target is such a finding, a single one is not.
        """
        part = self.findings[name]
        if not part:
            return "none"
        n_conflicts = part.values.get("n_conflicts") or 0
        is_high = name in _SERIOUS or n_conflicts >= _MANY_CONFLICTS * self.n_rows > 0
        return "high" if is_high else "medium"

    @property
    def found(self) -> list[str]:
        """Names of the findings that found something."""
        return [name for name, part in self.findings.items() if part]

    def __bool__(self) -> bool:
        return bool(self.found)

    def __getitem__(self, name: str) -> Findings:
        return self.findings[name]

    def to_frame(self):
        """Return all findings as one pandas frame.

        Returns
        -------
        pandas.DataFrame
            One line per finding: ``check`` (its name), ``subject`` (the row, column or label) and
            ``detail``.
        """
        pandas = import_optional("pandas", needed_by="TableCheck.to_frame", extra="frame")
        lines = [
            (name, subject, ", ".join(f"{key} {show(value)}" for key, value in rest))
            for name in self.found
            for (_, subject), *rest in self.findings[name].lines()
        ]
        return pandas.DataFrame(lines, columns=["check", "subject", "detail"])

    def to_dict(self) -> dict[str, Any]:
        """Return the findings in types that JSON knows.

        Returns
        -------
        dict
            ``n_rows``, ``n_columns``, ``found``, ``profile`` and for each finding ``severity``,
            ``summary``, ``values`` and ``table`` (one dictionary per line).
        """
        return {
            "n_rows": self.n_rows,
            "n_columns": self.n_columns,
            "found": self.found,
            "profile": plain(self.profile),
            "findings": {
                name: {
                    "found": bool(part),
                    "severity": self.severity(name),
                    "summary": part.summary,
                    "values": plain(part.values),
                    "table": [plain(dict(line)) for line in part.lines()],
                }
                for name, part in self.findings.items()
            },
        }

    def __repr__(self) -> str:
        parts = [f"{self.n_rows} rows, {counted(self.n_columns, 'column')}"]
        parts += [repr(self.findings[name]) for name in self.found]
        clear = [name for name in self.findings if name not in self.found]
        if clear:
            parts.append(f"Nothing found: {', '.join(clear)}.")
        parts.append("\n".join(["Columns:", *text_table(self._columns(), _SHOWN_COLUMNS)]))
        return "\n\n".join(parts)

    def _columns(self) -> dict[str, list]:
        """Return the profile of the columns as a table."""
        rows = self.profile["rows"]
        table = {
            "column": [shortened(row["name"]) for row in rows],
            "type": ["target" if row["is_target"] else row["kind"] for row in rows],
            "missing": [f"{row['missing']:.0%}" if row["n_missing"] else "" for row in rows],
            "distinct": [row["n_distinct"] for row in rows],
            "relation": ["" if (r := row["relation"]) is None else f"{r:.0%}" for row in rows],
            "values": [row["summary"] for row in rows],
            "remarks": ["; ".join(row["flags"]) for row in rows],
        }
        return {name: cells for name, cells in table.items() if any(map(str, cells))}

    def _repr_html_(self) -> str:
        parts = [
            f"<h4>{escape(name)}</h4>{part._repr_html_()}" for name, part in self.findings.items()
        ]
        return f"<p>{self.n_rows} rows, {counted(self.n_columns, 'column')}</p>" + "".join(parts)
