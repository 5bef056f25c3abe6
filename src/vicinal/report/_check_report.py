"""What a check of a table found, as one HTML file that needs no network."""

from typing import Any

from vicinal.report._findings import finding_parts
from vicinal.report._page import Page

_SHOWN = 100


class CheckReport(Page):
    """A page about a table: what would mislead a model, or the one who judges it.

    Parameters
    ----------
    check : TableCheck
        What :func:`vicinal.inspection.check` returned.
    title : str, default="A look at the table"
        Heading of the page.
    notes : sequence of str, default=()
        Remarks under the heading.

    See Also
    --------
    ModelReport : A page about a model.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from vicinal.inspection import check
    >>> from vicinal.report import CheckReport
    >>> report = CheckReport(check(*load_iris(return_X_y=True)), "iris")
    >>> [part["title"] for part in report.as_dict()["parts"] if part["found"]]
    ['Rows that repeat']
    """

    template = "check.html"

    def __init__(self, check: Any, title: str = "A look at the table", notes=()) -> None:
        self.check, self.title, self.notes = check, title, list(notes)

    def as_dict(self) -> dict[str, Any]:
        """Return everything the page shows as plain values.

        Returns
        -------
        dict
            ``title``, ``notes``, size of the table, and ``parts``: what was found, first those
            that found something.
        """
        parts = finding_parts(self.check, _SHOWN)
        return {
            "title": self.title,
            "notes": self.notes,
            "n_rows": self.check.n_rows,
            "n_columns": self.check.n_columns,
            "parts": sorted(parts, key=lambda part: not part["found"]),
        }
