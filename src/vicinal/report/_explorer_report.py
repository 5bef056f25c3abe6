"""A model to play with as one HTML file that computes by itself."""

import json
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from vicinal._base._compat import num_samples, rows_of
from vicinal._kernels.calibration._conformal import conformal_quantile
from vicinal.report._browser_model import browser_model, scaler_part, split_encoder
from vicinal.report._controls import control
from vicinal.report._page import Page
from vicinal.report._reasons import plain
from vicinal.report._table import column_names, column_values

_MOST_ROWS = 400
_MOST_BYTES = 30 * 2**20
_MOST_LEVELS = 1000


class ExplorerReport(Page):
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
        model of scikit-learn; alone or behind :class:`~vicinal.table.TableEncoder` and scalers.
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

    template = "explorer.html"

    def __init__(
        self,
        model: Any,
        table: Any,
        y: Any = None,
        *,
        title: str = "Explorer",
        coverage: float = 0.9,
        random_state: Any = 0,
    ) -> None:
        self.model, self.table, self.title = model, table, title
        self.y = None if y is None else np.asarray(y)
        self.coverage, self.random_state = coverage, random_state

    @staticmethod
    def controls(table: Any, columns: list[str]) -> list[dict[str, Any]]:
        """Return for every column its kind, where it starts and how far it goes.

        Parameters
        ----------
        table : data frame, ndarray or None
            Rows that are known.
        columns : list of str
            Names, in their order.

        Returns
        -------
        list of dict
            ``name``, ``kind`` ("number", "level" or "text"), ``value`` to start from, and the range
            or the levels.
        """
        if table is None:
            return [control(name, []) for name in columns]
        places = {name: j for j, name in enumerate(column_names(table))}
        return [control(name, column_values(table, places[name])) for name in columns]

    def as_dict(self) -> dict[str, Any]:
        """Return everything the page computes with as plain values.

        Returns
        -------
        dict
            ``title``, and ``data``: the model, the encoding of each column, controls, rows.
        """
        encoder, scalers, last = split_encoder(self.model)
        arrays = browser_model(last)
        names = column_names(self.table)
        columns = [_Column(self.table, j, name, encoder) for j, name in enumerate(names)]
        classes = getattr(last, "classes_", None)
        kept = self._kept()
        data = {
            "name": type(last).__name__,
            "classes": None if classes is None else [plain(label) for label in classes],
            "columns": [column.encoding() for column in columns],
            "controls": [column.control for column in columns],
            "scalers": [scaler_part(scaler) for scaler in scalers],
            "model": arrays,
            "numbers": kept,
            "rows": [[column.cell(i) for column in columns] for i in kept],
            "truth": None if self.y is None else [plain(self.y[i]) for i in kept],
            "coverage": self.coverage,
            "reach": self._reach(),
        }
        if len(json.dumps(data)) > _MOST_BYTES:
            raise ValueError(
                f"{type(last).__name__} has too many numbers for a page; give it fewer anchors or "
                "regions, or let `vicinal serve` answer."
            )
        return {"title": self.title, "data": data}

    def _kept(self) -> list[int]:
        n = num_samples(self.table)
        rng = check_random_state(self.random_state)
        return sorted(rng.choice(n, min(n, _MOST_ROWS), replace=False).tolist())

    def _reach(self) -> float | None:
        """Return how far intervals reach, or how unlikely a label of the set may be."""
        if self.y is None:
            return None
        if hasattr(self.model, "classes_"):
            proba = np.asarray(self.model.predict_proba(self.table))
            codes = np.searchsorted(self.model.classes_, self.y)
            scores = 1.0 - proba[np.arange(len(codes)), codes]
        else:
            scores = np.abs(self.y.astype(float) - self.model.predict(self.table))
        reach = conformal_quantile(scores, self.coverage)
        return reach if np.isfinite(reach) else None


class _Column:
    """A column of the table: what can be set, and how its cells become numbers.

    The encoder treats every column by itself, so asking it once about each level tells all.
    """

    def __init__(self, table: Any, j: int, name: str, encoder: Any) -> None:
        self.table, self.j, self.encoder = table, j, encoder
        self.values = column_values(table, j)
        self.is_number = encoder is None or (
            encoder.kinds_.get(name) == "number"
            and not any(isinstance(value, str) for value in self.values)
        )
        self.control = control(
            name, self.values, most_levels=_MOST_LEVELS, as_levels=not self.is_number
        )
        self.outputs = [j] if encoder is None else _outputs(encoder, name)

    def cell(self, i: int) -> Any:
        """Return a cell as the page knows it."""
        value = self.values[i]
        return plain(value) if self.is_number or value is None else str(value)

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
