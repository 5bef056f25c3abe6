"""A model to play with as one HTML file that computes by itself."""

import json
from typing import Any

import numpy as np

from vicinal._base._compat import rows_of
from vicinal._kernels.calibration._conformal import conformal_quantile
from vicinal.report._browser_model import browser_model, scaler_part, split_encoder
from vicinal.report._table import column_names, column_values
from vicinal.report.explorer import ExplorerColumn, ExplorerPage, errors_of

_MOST_BYTES = 30 * 2**20


class ExplorerReport(ExplorerPage):
    """A page on which one moves the columns of a row and sees what a model says.

    The page holds the model's arrays and computes in the browser: it needs neither a network nor
    Python. It shows the answer with its interval, the rows of the table that are nearest, and the
    least change of one or two columns that gets another answer.

    Parameters
    ----------
    model : estimator
        Fitted :class:`~vicinal.local.AnchoredLocalClassifier` or
        :class:`~vicinal.local.AnchoredLocalRegressor`,
        :class:`~vicinal.partition.SpacePartitioningClassifier` or
        :class:`~vicinal.partition.SpacePartitioningRegressor` with linear regions, or a linear
        model of scikit-learn; alone or behind :class:`~vicinal.table.TableEncoder` and scalers, and
        in ``FixedThresholdClassifier``, whose threshold then decides.
    table : data frame or array of shape (n_samples, n_features)
        Rows to start from and to compare with.
    y : array-like of shape (n_samples,), default=None
        Their target. Intervals and sets of labels are as wide as it takes to hold it in
        ``coverage`` of these rows; that is what new rows can expect if the model had not seen them.
    title : str, default="Explorer"
        Heading of the page.
    coverage : float, default=0.9
        Chance with which an interval or set of labels holds the truth.
    random_state : int, RandomState instance or None, default=0
        Draws the rows that the page keeps, where there are more than 400.

    See Also
    --------
    vicinal.serve.serve : The same for any model, answered by Python.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from vicinal import SpacePartitioningClassifier
    >>> from vicinal.report import ExplorerReport
    >>> X, y = load_wine(return_X_y=True)
    >>> model = SpacePartitioningClassifier(n_regions=2, n_init=2, random_state=0).fit(X, y)
    >>> ExplorerReport(model, X, y).as_dict()["data"]["model"]["kind"]
    'partition'
    """

    most_levels = 1000

    def as_dict(self) -> dict[str, Any]:
        """Return everything the page computes with as plain values.

        Returns
        -------
        dict
            ``title``, and ``data``: the model, the encoding of each column, controls, rows.
        """
        content = super().as_dict()
        if len(json.dumps(content)) > _MOST_BYTES:
            raise ValueError(
                f"{self.model_name()} has too many numbers for a page; give it fewer anchors or "
                "regions, or let `vicinal serve` answer."
            )
        return content

    def columns(self) -> list[ExplorerColumn]:
        """Return what can be set, with the numbers that cells become."""
        encoder, _, last = split_encoder(self.model)
        browser_model(
            last
        )  # one that the page cannot compute is refused before its columns are read
        return [
            _EncodedColumn(self.table, j, name, encoder, self.most_levels)
            for j, name in enumerate(column_names(self.table))
        ]

    def engine(self, columns: Any) -> dict[str, Any]:
        """Return the arrays of the model and the encoding of each column."""
        _, scalers, last = split_encoder(self.model)
        reach = None
        if self.y is not None:
            reach = conformal_quantile(errors_of(self.model, self.table, self.y), self.coverage)
        return {
            "model": browser_model(last),
            "columns": [column.encoding() for column in columns],
            "scalers": [scaler_part(scaler) for scaler in scalers],
            "reach": reach if reach is not None and np.isfinite(reach) else None,
        }


class _EncodedColumn(ExplorerColumn):
    """A column, and how its cells become numbers.

    The encoder treats every column by itself, so asking it once about each level tells all.
    """

    def __init__(self, table: Any, j: int, name: str, encoder: Any, most_levels: int) -> None:
        self.table, self.encoder = table, encoder
        self.outputs = [j] if encoder is None else _outputs(encoder, name)
        is_number = encoder is None or encoder.kinds_.get(name) == "number"
        values = column_values(table, j)
        if is_number and any(isinstance(value, str) for value in values):
            values = self._read_numbers()
        super().__init__(name, values, most_levels=most_levels, as_levels=not is_number)
        self.control["is_used"] = bool(self.outputs)

    def _read_numbers(self) -> list[float | None]:
        """Return the numbers that the encoder reads in words, ``None`` where it marks a gap."""
        block = np.asarray(self.encoder.transform(self.table))[:, self.outputs]
        is_gap = block[:, 1] > 0 if len(self.outputs) > 1 else np.zeros(len(block), dtype=bool)
        numbers = zip(block[:, 0].tolist(), is_gap, strict=True)
        return [None if gap else number for number, gap in numbers]

    def encoding(self) -> dict[str, Any]:
        """Return where the numbers of the column go, those of each level, and those of a gap."""
        first: dict[str | None, int] = {}
        for i in range(len(self.values)):
            cell = self.cell(i)
            if not self.is_number or cell is None:
                first.setdefault(cell, i)
        if self.encoder is None or not self.outputs or not first:
            return {"at": self.outputs, "levels": None, "gap": None}
        rows = np.array(list(first.values()))
        block = np.asarray(self.encoder.transform(rows_of(self.table, rows)))[:, self.outputs]
        known = dict(zip(first, block.tolist(), strict=True))
        gap = known.pop(None, None)
        return {"at": self.outputs, "levels": None if self.is_number else known, "gap": gap}


def _outputs(encoder: Any, name: str) -> list[int]:
    given = [str(output) for output in encoder.get_feature_names_out()]
    return [given.index(str(output)) for output in encoder.input_to_outputs_.get(name, [])]
