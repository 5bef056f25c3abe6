"""The page on which one moves the columns of a row and sees what the model says."""

from typing import Any

from vicinal.report.explorer import ExplorerColumn, ExplorerPage
from vicinal.serve._served_model import ServedModel


class ServedExplorer(ExplorerPage):
    """The explorer whose answers are asked of the server.

    Parameters
    ----------
    served : ServedModel
        The model.
    """

    def __init__(self, served: ServedModel) -> None:
        super().__init__(served.decided, served.background, served.y, title=served.name)
        self.served = served

    def columns(self) -> list[ExplorerColumn]:
        """Return what can be set; without a table, names alone are known."""
        if self.table is not None:
            return super().columns()
        return [ExplorerColumn(name, [], most_levels=0) for name in self.served.columns]

    def engine(self, columns: Any) -> dict[str, Any]:
        """Return what the server knows beyond answers."""
        known = {"has_limits": self.served.has_limits, "has_support": self.served.has_support}
        return super().engine(columns) | known
