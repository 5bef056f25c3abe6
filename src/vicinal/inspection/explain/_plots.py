"""Plots of explanations: waterfall of one row; beeswarm, importance and dependence of many."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from vicinal._base import import_optional
from vicinal._base._explanation import show, show_change
from vicinal.inspection.colors import DOWN, NEUTRAL, UP, class_color

_MAX_COLUMNS = 10


def new_axes(ax: Any, n_rows: float, width: float = 6.4) -> Any:
    """Return the axes given, or those of a new figure for so many rows of text."""
    if ax is not None:
        return ax
    pyplot = import_optional("matplotlib.pyplot", needed_by="explain(...).plot", extra="plot")
    return pyplot.subplots(figsize=(width, 0.32 * n_rows + 1.4), layout="constrained")[1]


def contribution_colors(code: int | None, n_classes: int) -> tuple[str, str]:
    """Return the colours of contributions towards a class, or a larger value, and away from it."""
    if code is None:
        return UP, DOWN
    return class_color(code), class_color(1 - code) if n_classes == 2 else NEUTRAL


def waterfall_steps(
    labels: Sequence[str], contributions: Sequence[float], baseline: float, max_columns: int
) -> list[dict[str, Any]]:
    """Return the bars of a waterfall, largest first, the rest of the columns in one bar."""
    order = np.argsort(-np.abs(np.asarray(contributions)), kind="stable")
    shown, rest = order[:max_columns], order[max_columns:]
    parts = [(labels[j], float(contributions[j])) for j in shown]
    if len(rest):
        total = float(np.asarray(contributions)[rest].sum())
        parts.append((f"{len(rest)} other column{'s' * (len(rest) > 1)}", total))
    steps, start = [], baseline
    for label, part in parts:
        steps.append({"label": label, "start": start, "end": start + part, "part": part})
        start += part
    return steps


def plot_waterfall(
    ax: Any,
    labels: Sequence[str],
    contributions: Sequence[float],
    baseline: float,
    *,
    colors: tuple[str, str],
    xlabel: str,
    max_columns: int = _MAX_COLUMNS,
) -> Any:
    """Plot contributions as bars from the baseline to the prediction; return bars and axes."""
    steps = waterfall_steps(labels, contributions, baseline, max_columns)
    ax = new_axes(ax, len(steps) + 2)
    at = np.arange(len(steps))
    parts = np.array([step["part"] for step in steps])
    left = [step["start"] for step in steps]
    bars = ax.barh(
        at, parts, left=left, color=[colors[int(part < 0)] for part in parts], height=0.7
    )
    end = steps[-1]["end"] if steps else baseline
    for k, step in enumerate(steps):
        ax.plot([step["end"]] * 2, [k - 0.35, k + 1.35], color="0.6", linewidth=0.6)
    ends = [baseline, *(step["end"] for step in steps)]
    span = (max(ends) - min(ends)) or 1.0
    ax.set_xlim(min(ends) - 0.06 * span, max(ends) + 0.06 * span)
    for value, position, name in ((baseline, -1, "baseline"), (end, len(steps), "prediction")):
        is_left = value < min(ends) + span / 2
        ax.plot([value], [position], "|", color="0.2", markersize=11, markeredgewidth=2)
        ax.annotate(
            f"{name} {show(float(value))}",
            (value, position),
            textcoords="offset points",
            xytext=(5 if is_left else -5, 0),
            ha="left" if is_left else "right",
            va="center",
            fontsize="small",
        )
    _name_rows(ax, at, [f"{step['label']}  {show_change(step['part'])}" for step in steps])
    ax.set_ylim(len(steps) + 0.7, -1.7)
    ax.set_xlabel(xlabel, parse_math=False)
    return bars, ax


def _name_rows(ax: Any, at: np.ndarray, names: list[str]) -> None:
    ax.set_yticks(at, names)
    for label in ax.get_yticklabels():  # a dollar sign in a column's name is no formula
        label.set_parse_math(False)


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
        label : object, default=None
            Class whose probability is explained; ``None`` as in ``values_of``.
        ax : matplotlib Axes, default=None
            Axes of the plot; ``None`` makes a figure.
        max_columns : int, default=10
            Largest number of columns; the others are one bar.

        Returns
        -------
        matplotlib Axes
        """
        of, code = self._of, self._of.code_of(label)
        values = of.cells[row]
        names = [f"{name} = {show(value)}" for name, value in zip(of.names, values, strict=True)]
        return plot_waterfall(
            ax,
            names,
            of.all_values[row, :, code],
            float(of.all_baselines[row, code]),
            colors=self._colors(code),
            xlabel=of.output_name(code),
            max_columns=max_columns,
        )[1]

    def importance(self, *, label: Any = None, ax: Any = None, max_columns: int = 15):
        """Plot the mean absolute contribution of each column.

        Parameters
        ----------
        label : object, default=None
            Class whose probability is explained; ``None`` as in ``values_of``.
        ax : matplotlib Axes, default=None
            Axes of the plot; ``None`` makes a figure.
        max_columns : int, default=15
            Largest number of columns.

        Returns
        -------
        matplotlib Axes
        """
        of, code = self._of, self._of.code_of(label)
        order, values = self._order(code, max_columns)
        ax = new_axes(ax, len(order))
        color = UP if of.classes is None else class_color(code)
        ax.barh(np.arange(len(order)), np.abs(values).mean(axis=0)[order], color=color)
        _name_rows(ax, np.arange(len(order)), [of.names[j] for j in order])
        ax.invert_yaxis()
        ax.set_xlabel(f"mean |contribution| to {of.output_name(code)}", parse_math=False)
        return ax

    def beeswarm(self, *, label: Any = None, ax: Any = None, max_columns: int = 15):
        """Plot one point per row and column, by contribution; colour is the value of the column.

        Parameters
        ----------
        label : object, default=None
            Class whose probability is explained; ``None`` as in ``values_of``.
        ax : matplotlib Axes, default=None
            Axes of the plot; ``None`` makes a figure.
        max_columns : int, default=15
            Largest number of columns. Categorical columns are grey.

        Returns
        -------
        matplotlib Axes
        """
        of, code = self._of, self._of.code_of(label)
        order, values = self._order(code, max_columns)
        ax = new_axes(ax, 1.4 * len(order), 7.0)
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
        _name_rows(ax, np.arange(len(order)), [of.names[j] for j in order])
        ax.invert_yaxis()
        ax.set_xlabel(f"contribution to {of.output_name(code)}", parse_math=False)
        return ax

    def dependence(self, column: str, *, label: Any = None, ax: Any = None):
        """Plot the contribution of a column against its value.

        Parameters
        ----------
        column : str
            Name of the column.
        label : object, default=None
            Class whose probability is explained; ``None`` as in ``values_of``.
        ax : matplotlib Axes, default=None
            Axes of the plot; ``None`` makes a figure.

        Returns
        -------
        matplotlib Axes
        """
        of, code = self._of, self._of.code_of(label)
        if column not in of.names:
            raise ValueError(f"column={column!r} is unknown; the columns are {of.names}.")
        j = of.names.index(column)
        ax = new_axes(ax, 8)
        color = UP if of.classes is None else class_color(code)
        numbers = of.numbers(j)
        if numbers is None:
            texts = [show(row[j]) for row in of.cells]
            known = sorted(set(texts))
            numbers = np.array([known.index(text) for text in texts], dtype=float)
            ax.set_xticks(np.arange(len(known)), known)
        ax.scatter(numbers, of.all_values[:, j, code], s=12, color=color)
        ax.axhline(0.0, color="0.4", linewidth=0.8)
        ax.set_xlabel(column, parse_math=False)
        ax.set_ylabel(f"contribution to {of.output_name(code)}", parse_math=False)
        return ax

    def _order(self, code: int, max_columns: int) -> tuple[list[int], np.ndarray]:
        values = self._of.all_values[:, :, code]
        order = np.argsort(-np.abs(values).mean(axis=0), kind="stable")[:max_columns]
        return order.tolist(), values

    def _colors(self, code: int) -> tuple[str, str]:
        classes = self._of.classes
        is_class = classes is not None
        return contribution_colors(code if is_class else None, len(classes) if is_class else 0)


def _offsets(values: np.ndarray) -> np.ndarray:
    """Return vertical offsets that spread points of nearly the same value."""
    width = (np.ptp(values) or 1.0) / 40
    bins = np.floor(values / width)
    offsets = np.zeros(len(values))
    for one in np.unique(bins):
        own = np.flatnonzero(bins == one)
        offsets[own] = (np.arange(len(own)) - (len(own) - 1) / 2) * min(0.12, 0.8 / len(own))
    return offsets
