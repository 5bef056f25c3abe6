"""What a check of a table found, all findings together."""

from dataclasses import dataclass
from html import escape
from typing import Any

from vicinal._base import import_optional
from vicinal._base._explanation import plain, show
from vicinal.inspection._findings import Findings


@dataclass(frozen=True)
class TableCheck:
    """Findings about a table, by name.

    Attributes
    ----------
    findings : dict of str to Findings
        ``labels``, ``repeats``, ``leaks``, ``columns``, ``imbalance`` and, where other rows were
        given, ``drift`` and ``overlap``.
    n_rows, n_columns : int
        Size of the table.
    """

    findings: dict[str, Findings]
    n_rows: int
    n_columns: int

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
            ``n_rows``, ``n_columns``, ``found`` and for each finding ``summary``, ``values`` and
            ``table`` (one dictionary per line).
        """
        return {
            "n_rows": self.n_rows,
            "n_columns": self.n_columns,
            "found": self.found,
            "findings": {
                name: {
                    "found": bool(part),
                    "summary": part.summary,
                    "values": plain(part.values),
                    "table": [plain(dict(line)) for line in part.lines()],
                }
                for name, part in self.findings.items()
            },
        }

    def __repr__(self) -> str:
        parts = [f"{self.n_rows} rows, {self.n_columns} columns"]
        parts += [repr(self.findings[name]) for name in self.found]
        clear = [name for name in self.findings if name not in self.found]
        if clear:
            parts.append(f"Nothing found: {', '.join(clear)}.")
        return "\n\n".join(parts)

    def _repr_html_(self) -> str:
        parts = [
            f"<h4>{escape(name)}</h4>{part._repr_html_()}" for name, part in self.findings.items()
        ]
        return f"<p>{self.n_rows} rows, {self.n_columns} columns</p>" + "".join(parts)
