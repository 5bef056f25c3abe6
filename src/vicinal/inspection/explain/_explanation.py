"""The explanation of one prediction as text, data, HTML and plot."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from vicinal._base import import_optional
from vicinal._base._explanation import ExplanationSection, is_number, plain, show, show_change
from vicinal.inspection.colors import DOWN, NEUTRAL, UP, class_color

_TEXT_ROWS = 10

_STYLE = (
    ".vicinal-explanation{font-family:system-ui,sans-serif;line-height:1.4}"
    ".vicinal-explanation table{border-collapse:collapse;margin:.3em 0 1em}"
    ".vicinal-explanation th,.vicinal-explanation td{padding:.15em .8em .15em 0;text-align:left}"
    ".vicinal-explanation td.number{text-align:right;font-variant-numeric:tabular-nums}"
    ".vicinal-explanation .bar{display:inline-block;height:.7em;border-radius:2px}"
    ".vicinal-explanation summary{cursor:pointer}"
)


# Sections of any model in the order of their interest; those of a family follow, then base models.
_ORDER = ("interval", "set", "columns", "neighbors", "anchors", "counterfactual", "novelty")
_LAST = ("base_models",)
# Sections whose tables are long and seldom needed.
FOLDED = ("neighbors", *_LAST)
_FOLDED_ROWS = 3


@dataclass(eq=False, repr=False)
class Explanation:
    """Explanation of one prediction; returned by `explain`.

    Parameters
    ----------
    model : str
        Class of the model.
    prediction : Any
        Predicted label or value.
    probabilities : dict or None
        Probability of each class, by label.
    row : dict
        The row that was explained, by column name.
    sections : list of ExplanationSection
        The parts of the explanation; they are sorted: columns, neighbours, counterfactual, novelty,
        sections of the model family, base models.
    threshold : tuple of (object, float), default=None
        Of two classes, the label that is predicted from this probability on, where the model has a
        threshold.
    target_name : str, default=None
        Name of the target.
    interval : tuple of (float, float), default=None
        Prediction interval of a regressor.
    labels : list, default=None
        Prediction set of a classifier.
    coverage : float, default=0.9
        Probability that interval or set contains the true value.

    See Also
    --------
    explain : Explain predictions of any fitted model.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from vicinal import LocalClassifier
    >>> from vicinal.inspection import explain
    >>> data = load_iris()
    >>> model = LocalClassifier(n_neighbors=30, metric="euclidean")
    >>> model = model.fit(data.data, data.target_names[data.target])
    >>> explanation = explain(model, data.data[70], feature_names=data.feature_names)
    >>> explanation.prediction
    'versicolor'
    >>> [section.key for section in explanation.sections]
    ['neighbors', 'novelty', 'coefficients']
    >>> explanation["neighbors"].values["n_neighbors"]
    30
    """

    model: str
    prediction: Any
    probabilities: Mapping[Any, float] | None
    row: Mapping[str, Any]
    sections: list[ExplanationSection]
    threshold: tuple[Any, float] | None = None
    target_name: str | None = None
    interval: tuple[float, float] | None = None
    labels: list[Any] | None = None
    coverage: float = 0.9

    def __post_init__(self) -> None:
        self.sections = sorted(self.sections, key=_rank)

    def __getitem__(self, key: str) -> ExplanationSection:
        """Return the section of that name."""
        for section in self.sections:
            if section.key == key:
                return section
        known = ", ".join(repr(section.key) for section in self.sections)
        raise KeyError(f"no section {key!r}; this explanation has {known}.")

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the sections."""
        return (section.key for section in self.sections)

    def __repr__(self) -> str:
        keys = ", ".join(section.key for section in self.sections)
        return f"<Explanation of {self.model}: {plain(self.prediction)!r}; {keys}>"

    def __str__(self) -> str:
        return self.text()

    # --- output ---

    def headline(self) -> str:
        """Return the prediction in one line.

        Returns
        -------
        str
            Model, prediction with the name of the target and, where known, its probability, the
            threshold, and the prediction interval or set.
        """
        name = "" if self.target_name is None else f"{self.target_name} = "
        facts = []
        if self.probabilities is not None:
            facts.append(f"probability {self.probabilities[self.prediction]:.3f}")
        if self.threshold is not None:
            label, value = self.threshold
            facts.append(f"{show(label)} is predicted from {show(value)} on")
        if self.interval is not None:
            low, high = self.interval
            facts.append(f"{self.coverage:.0%} interval {show(low)} to {show(high)}")
        if self.labels is not None:
            shown = ", ".join(map(show, self.labels)) or "empty"
            facts.append(f"{self.coverage:.0%} prediction set: {shown}")
        text = f"{self.model} predicts {name}{show(self.prediction)}"
        return f"{text} ({'; '.join(facts)})" if facts else text

    def text(self, max_rows: int = _TEXT_ROWS) -> str:
        """Return the explanation as plain text.

        Parameters
        ----------
        max_rows : int, default=10
            Longest part of a table that is shown; at most 3 rows of neighbours and base models.

        Returns
        -------
        str
            Lines of text.
        """
        folded = min(max_rows, _FOLDED_ROWS)
        parts = [part.text(folded if part.key in FOLDED else max_rows) for part in self.sections]
        return "\n\n".join([self.headline(), *parts])

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation in types that JSON knows.

        Returns
        -------
        dict
            ``model``, ``target``, ``prediction``, ``probabilities``, ``interval``, ``labels``,
            ``coverage``, ``row`` and ``sections`` by name.
        """
        probabilities = None
        if self.probabilities is not None:
            probabilities = {str(plain(k)): float(p) for k, p in self.probabilities.items()}
        return {
            "model": self.model,
            "target": self.target_name,
            "prediction": plain(self.prediction),
            "probabilities": probabilities,
            "interval": plain(self.interval),
            "labels": plain(self.labels),
            "coverage": self.coverage,
            "row": {str(name): plain(value) for name, value in self.row.items()},
            "sections": {section.key: section.to_dict() for section in self.sections},
        }

    def to_html(self, max_rows: int = _TEXT_ROWS, *, style: bool = True) -> str:
        """Return the explanation as a piece of HTML, all text escaped.

        Parameters
        ----------
        max_rows : int, default=10
            Longest part of a table that is shown.
        style : bool, default=True
            Whether to include the style sheet; a page with its own style passes ``False``.

        Returns
        -------
        str
            One ``div`` element of class ``vicinal-explanation``.
        """
        parts = ['<div class="vicinal-explanation">', f"<style>{_STYLE}</style>" if style else ""]
        parts.append(f"<p><strong>{escape(self.headline())}</strong></p>")
        for section in self.sections:
            parts.append(f'<section data-key="{escape(section.key)}">')
            parts.append(f"<h4>{escape(section.title)}</h4><p>{escape(section.summary)}</p>")
            if section.rows:
                table = _html_table(section, max_rows, self._bar_colors(section))
                if section.key in FOLDED:
                    table = f"<details><summary>{len(section.rows)} rows</summary>{table}</details>"
                parts.append(table)
            parts.append("</section>")
        return "".join([*parts, "</div>"])

    def _repr_html_(self) -> str:
        return self.to_html()

    def plot(self, ax=None, *, section: str | None = None, max_rows: int = _TEXT_ROWS):
        """Plot one section; contributions of the columns as a waterfall from the baseline.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes of the plot; ``None`` makes a figure.
        section : str, default=None
            Key of the section; ``None`` is ``"columns"`` where there is a background, else
            ``"coefficients"``, else the first section with bars.
        max_rows : int, default=10
            Largest number of bars.

        Returns
        -------
        explanation : Explanation
            The same object, with ``ax_``, ``figure_`` and ``bars_``.
        """
        usable = [part for part in self.sections if part.bars is not None and part.rows]
        if section is not None and self[section] not in usable:
            raise ValueError(
                f"the section {section!r} has no bars; choose from {[part.key for part in usable]}."
            )
        if not usable:
            raise ValueError(f"the explanation of {self.model} has no section with bars.")
        wanted = ("columns", "coefficients") if section is None else (section,)
        chosen = min(usable, key=lambda part: [part.key != key for key in wanted])
        colors = self._bar_colors(chosen)
        if chosen.key == "columns":
            steps, baseline = self.waterfall(max_rows), chosen.values["baseline"]
            self.bars_, ax = plot_waterfall(ax, steps, baseline, colors, self.output_name())
        else:
            rows, at = chosen.rows[:max_rows], chosen.columns.index(chosen.bars)
            lengths = [float(row[at]) for row in rows]
            names = [_bar_label(chosen, row) for row in rows]
            shades = [colors[length < 0] for length in lengths]
            self.bars_, ax = plot_bars(ax, names, lengths, shades, chosen.bars)
        ax.set_title(self.headline(), fontsize="medium", parse_math=False, wrap=True)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def waterfall(self, max_columns: int = _TEXT_ROWS) -> list[dict[str, Any]]:
        """Return the steps from the baseline to the prediction.

        Parameters
        ----------
        max_columns : int, default=10
            Largest number of columns; the others are one step.

        Returns
        -------
        list of dict
            ``label``, ``start``, ``end`` and ``part`` of each step; empty without contributions.
        """
        if "columns" not in self:
            return []
        section = self["columns"]
        labels = [_bar_label(section, row) for row in section.rows]
        parts = [float(row[2]) for row in section.rows]
        return waterfall_steps(labels, parts, section.values["baseline"], max_columns)

    def output_name(self) -> str:
        """Return the name of what the columns contribute to.

        Returns
        -------
        str
        """
        if self.probabilities is None:
            return self.target_name or "prediction"
        name = "" if self.target_name is None else f"{self.target_name} = "
        return f"P({name}{show(self.prediction)})"

    def _bar_colors(self, section: ExplanationSection) -> tuple[str, str]:
        """Return the colours of positive and negative bars."""
        if self.probabilities is None or section.key not in ("columns", "coefficients"):
            return UP, DOWN
        classes = list(self.probabilities)
        return contribution_colors(classes.index(self.prediction), classes)


# --- tables ---


def _rank(section: ExplanationSection) -> int:
    """Return the position of a section among others."""
    if section.key in _LAST:
        return len(_ORDER) + 1
    return _ORDER.index(section.key) if section.key in _ORDER else len(_ORDER)


def _bar_label(section: ExplanationSection, row: tuple) -> str:
    label = str(row[0])
    if "value" in section.columns:
        label = f"{label} = {show(row[section.columns.index('value')])}"
    return label


def _html_table(section: ExplanationSection, max_rows: int, colors: tuple[str, str]) -> str:
    rows = section.rows[:max_rows]
    at = None if section.bars is None else section.columns.index(section.bars)
    longest = 0.0 if at is None else max(abs(float(row[at])) for row in rows) or 1.0
    head = "".join(f"<th>{escape(name)}</th>" for name in section.columns)
    lines = [f"<table><thead><tr>{head}{'' if at is None else '<th></th>'}</tr></thead><tbody>"]
    for row in rows:
        cells = "".join(
            f"<td{' class=number' if is_number(value) else ''}>{escape(show(value))}</td>"
            for value in row
        )
        if at is not None:
            length = float(row[at])
            width = 6.0 * abs(length) / longest
            style = f"width:{width:.2f}em;background:{colors[length < 0]}"
            cells += f'<td><span class="bar" style="{style}"></span></td>'
        lines.append(f"<tr>{cells}</tr>")
    lines.append("</tbody></table>")
    more = section.more(max_rows)
    return "".join(lines) + (f"<p>{more}</p>" if more else "")


# --- plots ---


def new_axes(ax: Any, n_rows: float, width: float = 6.4) -> Any:
    """Return the axes given, or those of a new figure for so many rows of text."""
    if ax is not None:
        return ax
    pyplot = import_optional("matplotlib.pyplot", needed_by="explain(...).plot", extra="plot")
    return pyplot.subplots(figsize=(width, 0.32 * n_rows + 1.4), layout="constrained")[1]


def contribution_colors(code: int, classes: Any) -> tuple[str, str]:
    """Return the colours of contributions towards a class, or a larger value, and away from it."""
    if classes is None:
        return UP, DOWN
    return class_color(code), class_color(1 - code) if len(classes) == 2 else NEUTRAL


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
    ax: Any, steps: list[dict[str, Any]], baseline: float, colors: tuple[str, str], xlabel: str
) -> Any:
    """Plot the bars from the baseline to the prediction; return bars and axes."""
    ax = new_axes(ax, len(steps) + 2)
    ends = [baseline, *(step["end"] for step in steps)]
    bars = ax.barh(
        np.arange(len(steps)),
        [step["part"] for step in steps],
        left=ends[:-1],
        color=[colors[int(step["part"] < 0)] for step in steps],
        height=0.7,
    )
    for k, end in enumerate(ends[1:]):
        ax.plot([end] * 2, [k - 0.35, k + 1.35], color="0.6", linewidth=0.6)
    span = (max(ends) - min(ends)) or 1.0
    ax.set_xlim(min(ends) - 0.06 * span, max(ends) + 0.06 * span)
    for value, position, name in ((baseline, -1, "baseline"), (ends[-1], len(steps), "prediction")):
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
    name_rows(ax, [f"{step['label']}  {show_change(step['part'])}" for step in steps])
    ax.set_ylim(len(steps) + 0.7, -1.7)
    ax.set_xlabel(xlabel, parse_math=False)
    return bars, ax


def plot_bars(ax: Any, names: list[str], lengths: Sequence[float], colors: Any, xlabel: Any) -> Any:
    """Plot a bar for each name, the first one on top; return bars and axes."""
    ax = new_axes(ax, len(names))
    bars = ax.barh(np.arange(len(names)), lengths, color=colors)
    name_rows(ax, names)
    ax.axvline(0.0, color="0.4", linewidth=0.8)
    ax.set_xlabel(xlabel, parse_math=False)
    return bars, ax


def name_rows(ax: Any, names: list[str]) -> None:
    """Name the rows of a plot, the first one on top."""
    ax.set_yticks(np.arange(len(names)), names)
    ax.invert_yaxis()
    for label in ax.get_yticklabels():  # a dollar sign in a column's name is no formula
        label.set_parse_math(False)
