"""The page on which one moves the columns of a row and sees what the model says."""

from typing import Any

import numpy as np

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
        if self.table is None:
            return [ExplorerColumn(name, [], most_levels=0) for name in self.served.columns]
        numbers = self._numbers_in_words()
        columns = {column.control["name"]: column for column in super().columns()}
        read = {name: ExplorerColumn(name, numbers[name], most_levels=0) for name in numbers}
        return [read.get(name, column) for name, column in columns.items()]

    def _numbers_in_words(self) -> dict[str, list[float | None]]:
        """Return the columns whose words the model reads as numbers, as it reads them."""
        encoder = self.served.encoder
        if encoder is None:
            return {}
        plain = encoder.plain_columns(self.table)
        return {
            name: [None if np.isnan(number) else number for number in plain[name].tolist()]
            for name, kind in encoder.kinds_.items()
            if kind == "number"
        }

    def engine(self, columns: Any) -> dict[str, Any]:
        """Return what the server knows beyond answers."""
        known = {"has_limits": self.served.has_limits, "has_support": self.served.has_support}
        return super().engine(columns) | known
