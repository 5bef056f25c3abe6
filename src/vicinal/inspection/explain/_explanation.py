"""The explanation of one prediction as text, data, HTML and plot."""

from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np

from vicinal._base import import_optional
from vicinal._base._explanation import ExplanationSection, is_number, plain, show

_TEXT_ROWS = 10

_STYLE = (
    ".vicinal-explanation{font-family:system-ui,sans-serif;line-height:1.4}"
    ".vicinal-explanation table{border-collapse:collapse;margin:.3em 0 1em}"
    ".vicinal-explanation th,.vicinal-explanation td{padding:.15em .8em .15em 0;text-align:left}"
    ".vicinal-explanation td.number{text-align:right;font-variant-numeric:tabular-nums}"
    ".vicinal-explanation .bar{display:inline-block;height:.7em;border-radius:2px}"
    ".vicinal-explanation .up{background:#2a6f97}.vicinal-explanation .down{background:#c1121f}"
)


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
        The parts of the explanation.
    threshold : tuple of (object, float), default=None
        Of two classes, the label that is predicted from this probability on, where the model has a
        threshold.

    See Also
    --------
    explain : Explain one prediction of any fitted model.

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
    ['neighbors', 'coefficients', 'novelty']
    >>> explanation["neighbors"].values["n_neighbors"]
    30
    """

    def __init__(
        self,
        model: str,
        prediction: Any,
        probabilities: Mapping[Any, float] | None,
        row: Mapping[str, Any],
        sections: list[ExplanationSection],
        threshold: tuple[Any, float] | None = None,
    ) -> None:
        self.model = model
        self.prediction = prediction
        self.probabilities = probabilities
        self.row = row
        self.sections = sections
        self.threshold = threshold

    def __getitem__(self, key: str) -> ExplanationSection:
        """Return the section of that name."""
        for section in self.sections:
            if section.key == key:
                return section
        known = ", ".join(repr(section.key) for section in self.sections)
        raise KeyError(f"no section {key!r}; this explanation has {known}.")

    def __contains__(self, key: object) -> bool:
        return any(section.key == key for section in self.sections)

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
            Model, prediction and, for a classifier, its probability, with the threshold that
            decides where one was set.
        """
        headline = f"{self.model} predicts {show(self.prediction)}"
        if self.probabilities is None:
            return headline
        decided = ""
        if self.threshold is not None:
            label, value = self.threshold
            decided = f"; {show(label)} is predicted from {show(value)} on"
        return f"{headline} (probability {self.probabilities[self.prediction]:.3f}{decided})"

    def text(self, max_rows: int = _TEXT_ROWS) -> str:
        """Return the explanation as plain text.

        Parameters
        ----------
        max_rows : int, default=10
            Longest part of a table that is shown.

        Returns
        -------
        str
            Lines of text.
        """
        return "\n\n".join([self.headline(), *(part.text(max_rows) for part in self.sections)])

    def to_dict(self) -> dict[str, Any]:
        """Return the explanation in types that JSON knows.

        Returns
        -------
        dict
            ``model``, ``prediction``, ``probabilities``, ``row`` and ``sections`` by name.
        """
        probabilities = None
        if self.probabilities is not None:
            probabilities = {str(plain(k)): float(p) for k, p in self.probabilities.items()}
        return {
            "model": self.model,
            "prediction": plain(self.prediction),
            "probabilities": probabilities,
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
        parts = ['<div class="vicinal-explanation">']
        if style:
            parts.append(f"<style>{_STYLE}</style>")
        parts.append(f"<p><strong>{escape(self.headline())}</strong></p>")
        for section in self.sections:
            parts.append(f'<section data-key="{escape(section.key)}">')
            parts.append(f"<h4>{escape(section.title)}</h4><p>{escape(section.summary)}</p>")
            if section.rows:
                parts.append(_html_table(section, max_rows))
            parts.append("</section>")
        return "".join([*parts, "</div>"])

    def _repr_html_(self) -> str:
        return self.to_html()

    def plot(self, ax=None, *, section: str | None = None, max_rows: int = _TEXT_ROWS):
        """Plot one section as bars.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes of the plot; ``None`` makes a figure.
        section : str, default=None
            Key of the section; ``None`` uses coefficients where there are any, else the first
            section with bars.
        max_rows : int, default=10
            Largest number of bars.

        Returns
        -------
        explanation : Explanation
            The same object, with ``ax_``, ``figure_`` and ``bars_``.
        """
        chosen = self._drawable(section)
        pyplot = import_optional("matplotlib.pyplot", needed_by="Explanation.plot", extra="plot")
        rows = chosen.rows[:max_rows]
        at = chosen.columns.index(chosen.bars)
        lengths = np.array([float(row[at]) for row in rows])
        if ax is None:
            _, ax = pyplot.subplots(figsize=(6.4, 0.32 * len(rows) + 1.4), layout="constrained")
        colors = np.where(lengths >= 0, "#2a6f97", "#c1121f")
        self.bars_ = ax.barh(np.arange(len(rows)), lengths, color=list(colors))
        # A dollar sign in a column's name is no formula.
        ax.set_yticks(np.arange(len(rows)), [_bar_label(chosen, row) for row in rows])
        for label in ax.get_yticklabels():
            label.set_parse_math(False)
        ax.invert_yaxis()
        ax.axvline(0.0, color="0.4", linewidth=0.8)
        ax.set_xlabel(chosen.bars, parse_math=False)
        ax.set_title(self.headline(), fontsize="medium", parse_math=False)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _drawable(self, key: str | None) -> ExplanationSection:
        drawable = [part for part in self.sections if part.bars is not None and part.rows]
        if key is not None:
            chosen = self[key]
            if chosen not in drawable:
                raise ValueError(
                    f"the section {key!r} has no bars; choose from "
                    f"{[part.key for part in drawable]}."
                )
            return chosen
        if not drawable:
            raise ValueError(f"the explanation of {self.model} has no section with bars.")
        preferred = [part for part in drawable if part.key == "coefficients"]
        return (preferred or drawable)[0]


# --- tables ---


def _bar_label(section: ExplanationSection, row: tuple) -> str:
    label = str(row[0])
    if "value" in section.columns:
        label = f"{label} = {show(row[section.columns.index('value')])}"
    return label


def _html_table(section: ExplanationSection, max_rows: int) -> str:
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
            side = "up" if length >= 0 else "down"
            width = 6.0 * abs(length) / longest
            cells += f'<td><span class="bar {side}" style="width:{width:.2f}em"></span></td>'
        lines.append(f"<tr>{cells}</tr>")
    lines.append("</tbody></table>")
    more = section.more(max_rows)
    return "".join(lines) + (f"<p>{more}</p>" if more else "")
