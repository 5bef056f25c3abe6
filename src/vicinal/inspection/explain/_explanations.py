"""Contributions of the columns to the predictions of many rows."""

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from vicinal._base import counted, documented, import_optional
from vicinal._base._compat import num_samples, rows_of
from vicinal._base._explanation import is_number, show
from vicinal._base._tables import column_values
from vicinal.inspection.explain import _explanation
from vicinal.inspection.explain._contributions import (
    background_sample,
    column_contributions,
    outputs_of,
    prediction_limit,
)


@documented
class Explanations:
    """Contributions of the columns to the predictions of many rows; returned by `explain`.

    Parameters
    ----------
    model : estimator
        Fitted classifier or regressor.
    table : array or frame of shape (n_rows, n_columns)
        The rows.
    names : list of str
        Names of the columns.
    background : array or frame
        Rows whose mean prediction is the baseline.
    target_name : str or None
        Name of the target.
    explain_row : callable
        Returns the full explanation of the row at a position.

    Attributes
    ----------
    all_values : ndarray of shape (n_rows, n_columns, n_outputs)
        Contributions to the probability of each class, or to the predicted value.
    all_baselines : ndarray of shape (n_rows, n_outputs)
        Mean predictions of the background; contributions and baseline add up to the prediction.
    plot : ExplanationsPlots
        ``waterfall(row)``, ``beeswarm()``, ``importance()`` and ``dependence(column)``.
    """

    def __init__(
        self,
        model: Any,
        table: Any,
        names: list[str],
        background: Any,
        target_name: str | None,
        explain_row: Callable[[int], _explanation.Explanation],
    ) -> None:
        self.names, self.target_name = names, target_name
        self.classes = np.asarray(model.classes_) if hasattr(model, "classes_") else None
        self._explain_row = explain_row
        columns = [column_values(table, j) for j in range(len(names))]
        self.cells = [list(row) for row in zip(*columns, strict=True)]
        outputs, others = outputs_of(model), background_sample(background)
        limit = prediction_limit(model)
        parts = [
            column_contributions(outputs, rows_of(table, slice(i, i + 1)), others, limit)
            for i in range(num_samples(table))
        ]
        self.all_values = np.array([part[2] for part in parts])
        self.all_baselines = np.array([part[1] for part in parts])
        self.plot = ExplanationsPlots(self)

    def __len__(self) -> int:
        return len(self.cells)

    def __getitem__(self, row: int) -> _explanation.Explanation:
        """Return the full explanation of one row."""
        if not -len(self) <= row < len(self):
            raise IndexError(f"row {row} is out of range; there are {len(self)} rows.")
        return self._explain_row(row % len(self))

    def __repr__(self) -> str:
        return f"<Explanations of {len(self)} rows, {counted(len(self.names), 'column')}>"

    def code_of(self, label: Any = None) -> int:
        """Return the position of an output.

        Returns
        -------
        int
        """
        if self.classes is None:
            return 0
        if label is None:
            return 1 if len(self.classes) == 2 else 0
        known = self.classes.tolist()
        if label not in known:
            raise ValueError(f"label={label!r} must be one of the classes {known}.")
        return known.index(label)

    def values_of(self, label: Any = None) -> np.ndarray:
        """Return the contributions to one output.

        Returns
        -------
        ndarray of shape (n_rows, n_columns)
        """
        return self.all_values[:, :, self.code_of(label)]

    def output_name(self, code: int) -> str:
        """Return the name of an output.

        Parameters
        ----------
        code : int
            Its position.

        Returns
        -------
        str
        """
        name = self.target_name or "prediction"
        if self.classes is None:
            return name
        prefix = f"{self.target_name} = " if self.target_name else ""
        return f"P({prefix}{show(self.classes[code])})"

    def colors(self, code: int) -> tuple[str, str]:
        """Return the colours of contributions that raise and that lower an output.

        Parameters
        ----------
        code : int
            Its position.

        Returns
        -------
        tuple of two str
        """
        return _explanation.contribution_colors(code, self.classes)

    def numbers(self, j: int) -> np.ndarray | None:
        """Return a column of numbers, ``None`` for categories.

        Parameters
        ----------
        j : int
            Position of the column.

        Returns
        -------
        ndarray of shape (n_rows,) or None
        """
        cells = [row[j] for row in self.cells]
        if not all(cell is None or is_number(cell) for cell in cells):
            return None
        return np.array([np.nan if cell is None else cell for cell in cells], dtype=float)

    def to_frame(self, label: Any = None):
        """Return one line per row and column.

        Parameters
        ----------
        label : object, default=None
            Class; ``None`` returns all classes of a classifier of more than two.

        Returns
        -------
        pandas.DataFrame
            Columns ``row``, ``column``, ``value``, ``contribution``, ``baseline`` and
            ``prediction``, and ``class`` for a classifier.
        """
        pandas = import_optional("pandas", needed_by="Explanations.to_frame", extra="frame")
        codes = [self.code_of(label)]
        if label is None and self.classes is not None and len(self.classes) > 2:
            codes = list(range(len(self.classes)))
        n, p, _ = self.all_values.shape
        parts = []
        for code in codes:
            values, baseline = self.all_values[:, :, code], self.all_baselines[:, code]
            part = {
                "row": np.repeat(np.arange(n), p),
                "column": self.names * n,
                "value": [cell for row in self.cells for cell in row],
                "contribution": values.ravel(),
                "baseline": np.repeat(baseline, p),
                "prediction": np.repeat(baseline + values.sum(axis=1), p),
            }
            if self.classes is not None:
                part["class"] = [self.classes[code]] * (n * p)
            parts.append(pandas.DataFrame(part))
        return pandas.concat(parts, ignore_index=True)

    def to_shap(self, label: Any = None):
        """Return the contributions as an object of the package shap, for its plots.

        Returns
        -------
        shap.Explanation
        """
        try:
            shap = import_module("shap")
        except ImportError as error:
            raise ImportError(
                "to_shap needs the package 'shap', which is not installed; install it with: "
                "pip install shap"
            ) from error
        code = self.code_of(label)
        return shap.Explanation(
            values=self.all_values[:, :, code],
            base_values=self.all_baselines[:, code],
            data=np.array(self.cells, dtype=object),
            feature_names=list(self.names),
        )


@documented
class ExplanationsPlots:
    """Plots of many explanations: ``waterfall``, ``beeswarm``, ``importance``, ``dependence``."""

    def __init__(self, explanations: Any) -> None:
        self._of = explanations

    def waterfall(self, row: int, *, label: Any = None, ax: Any = None, max_columns: int = 10):
        """Plot the contributions of one row, from the baseline to the prediction.

        Parameters
        ----------
        row : int
            Position of the row.
        max_columns : int, default=10
            Largest number of columns; the others are one bar.

        Returns
        -------
        matplotlib Axes
        """
        of, code = self._of, self._of.code_of(label)
        cells = zip(of.names, of.cells[row], strict=True)
        names = [f"{name} = {show(value)}" for name, value in cells]
        baseline = float(of.all_baselines[row, code])
        steps = _explanation.waterfall_steps(
            names, of.all_values[row, :, code], baseline, max_columns
        )
        return _explanation.plot_waterfall(
            ax, steps, baseline, of.colors(code), of.output_name(code)
        )[1]

    def importance(self, *, label: Any = None, ax: Any = None, max_columns: int = 15):
        """Plot the mean absolute contribution of each column.

        Parameters
        ----------
        max_columns : int, default=15
            Largest number of columns.

        Returns
        -------
        matplotlib Axes
        """
        of, code = self._of, self._of.code_of(label)
        order, values = self._order(code, max_columns)
        names, lengths = [of.names[j] for j in order], np.abs(values).mean(axis=0)[order]
        xlabel = f"mean |contribution| to {of.output_name(code)}"
        return _explanation.plot_bars(ax, names, lengths, of.colors(code)[0], xlabel)[1]

    def beeswarm(self, *, label: Any = None, ax: Any = None, max_columns: int = 15):
        """Plot one point per row and column, by contribution; colour is the value of the column.

        Parameters
        ----------
        max_columns : int, default=15
            Largest number of columns. Categorical columns are grey.

        Returns
        -------
        matplotlib Axes
        """
        of, code = self._of, self._of.code_of(label)
        order, values = self._order(code, max_columns)
        ax = _explanation.new_axes(ax, 1.4 * len(order), 7.0)
        points = None
        for k, j in enumerate(order):
            height = k + _offsets(values[:, j])
            numbers = of.numbers(j)
            if numbers is None:
                ax.scatter(values[:, j], height, s=9, color="0.6")
                continue
            rank = np.argsort(np.argsort(numbers)) / max(1, len(numbers) - 1)
            points = ax.scatter(values[:, j], height, s=9, c=rank, cmap="viridis", vmin=0, vmax=1)
        if points is not None:
            bar = ax.figure.colorbar(points, ax=ax, ticks=[0, 1], label="value of the column")
            bar.ax.set_yticklabels(["low", "high"])
        ax.axvline(0.0, color="0.4", linewidth=0.8)
        _explanation.name_rows(ax, [of.names[j] for j in order])
        ax.set_xlabel(f"contribution to {of.output_name(code)}", parse_math=False)
        return ax

    def dependence(self, column: str, *, label: Any = None, ax: Any = None):
        """Plot the contribution of a column against its value.

        Parameters
        ----------
        column : str
            Name of the column.

        Returns
        -------
        matplotlib Axes
        """
        of, code = self._of, self._of.code_of(label)
        if column not in of.names:
            raise ValueError(f"column={column!r} is unknown; the columns are {of.names}.")
        j = of.names.index(column)
        ax = _explanation.new_axes(ax, 8)
        numbers = of.numbers(j)
        if numbers is None:
            texts = [show(row[j]) for row in of.cells]
            known = sorted(set(texts))
            numbers = np.array([known.index(text) for text in texts], dtype=float)
            ax.set_xticks(np.arange(len(known)), known)
        ax.scatter(numbers, of.all_values[:, j, code], s=12, color=of.colors(code)[0])
        ax.axhline(0.0, color="0.4", linewidth=0.8)
        ax.set_xlabel(column, parse_math=False)
        ax.set_ylabel(f"contribution to {of.output_name(code)}", parse_math=False)
        return ax

    def _order(self, code: int, max_columns: int) -> tuple[list[int], np.ndarray]:
        values = self._of.all_values[:, :, code]
        order = np.argsort(-np.abs(values).mean(axis=0), kind="stable")[:max_columns]
        return order.tolist(), values


def _offsets(values: np.ndarray) -> np.ndarray:
    """Return vertical offsets that spread points of nearly the same value."""
    width = (np.ptp(values) or 1.0) / 40
    bins = np.floor(values / width)
    offsets = np.zeros(len(values))
    for one in np.unique(bins):
        own = np.flatnonzero(bins == one)
        offsets[own] = (np.arange(len(own)) - (len(own) - 1) / 2) * min(0.12, 0.8 / len(own))
    return offsets
