"""Render a dictionary as one HTML file that loads nothing: templates, axes, number formats."""

import abc
import math
import os
from functools import cache
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

import vicinal
from vicinal._base import import_optional, write_whole
from vicinal._base._explanation import show, show_change
from vicinal.inspection.checks import shortened
from vicinal.inspection.colors import N_COLORS, class_color, color_index


class Page(abc.ABC):
    """Something to show as one HTML file."""

    template = "page.html"

    @abc.abstractmethod
    def as_dict(self) -> dict[str, Any]:
        """Return what the page shows."""

    def html(self) -> str:
        """Return the page; every text in it is escaped.

        Returns
        -------
        str
            One HTML document that loads nothing.
        """
        return render(self.as_dict(), self.template)

    def write_html(self, path: str | os.PathLike) -> Path:
        """Write the page whole or not at all.

        Parameters
        ----------
        path : path-like
            Where to write.

        Returns
        -------
        Path
            Where it is.
        """
        return write_whole(path, self.html())

    def _repr_html_(self) -> str:
        """Return the page in a frame of its own, so that its style stays in it."""
        style = "width: 100%; height: 46rem; border: 1px solid #8888; border-radius: 6px"
        return f'<iframe title="report" srcdoc="{escape(self.html())}" style="{style}"></iframe>'


def render(content: dict[str, Any], template: str) -> str:
    """Return the page; every text in it is escaped."""
    page = _environment().get_template(template)
    return page.render(**{**_EMPTY, **content}, version=vicinal.__version__)


@cache
def _environment() -> Any:
    jinja2 = import_optional("jinja2", needed_by="An HTML report", extra="cli")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("vicinal.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": number,
        "change": show_change,
        "percent": percent,
        "seconds": seconds,
        "color": color_index,
        "short": shortened,
    }
    environment.globals |= {
        "share_axis": share_axis,
        "class_color": class_color,
        "n_colors": N_COLORS,
    }
    return environment


# Parts that a page may lack.
_EMPTY: dict[str, Any] = dict.fromkeys(
    "leaderboard model score summary confusion calibration ranking thresholds residuals coverage "
    "importance effects segments map regions uncertain profile".split()
) | {
    "explanations": [],
    "findings": [],
    "facts": {},
    "notes": [],
    "classes": [],
    "task": "",
    "target": "",
}


def number(value: Any) -> str:
    """Return a value as explanations show it; a missing number is empty."""
    return "" if isinstance(value, float) and math.isnan(value) else show(value)


def percent(share: float) -> str:
    """Return a share in percent, with one decimal."""
    return f"{100 * share:.1f} %"


def seconds(value: float) -> str:
    """Return a duration as short as it may be."""
    if value < 0.01:
        return "<0.01 s"
    return f"{value:.2f} s" if value < 10 else f"{value:.0f} s"


_N_STEPS = 4


class Axis:
    """A range of values, from one edge of a plot to the other.

    Parameters
    ----------
    values : array-like
        What must fit; without a value, the axis goes from 0 to 1.
    label : str
        What the axis is.
    low, high : float, optional
        Ends that the values do not decide.
    """

    def __init__(
        self, values: Any, label: str, *, low: float | None = None, high: float | None = None
    ) -> None:
        finite = np.asarray(values, dtype=float)
        finite = finite[np.isfinite(finite)]
        self.label = label
        self.low = float(finite.min(initial=math.inf)) if low is None else low
        self.high = float(finite.max(initial=-math.inf)) if high is None else high
        if not self.low < self.high:
            middle = self.low if math.isfinite(self.low) else 0.5
            self.low, self.high = middle - 0.5, middle + 0.5

    def at(self, values: Any) -> list[float]:
        """Return where values lie, 0 to 1; what is beyond lies on the edge."""
        share = (np.asarray(values, dtype=float) - self.low) / (self.high - self.low)
        return np.clip(share, 0.0, 1.0).round(4).tolist()

    def as_dict(self) -> dict[str, Any]:
        """Return the label and the ticks with their positions."""
        step = _round_step((self.high - self.low) / _N_STEPS)
        first, last = math.ceil(self.low / step - 1e-9), math.floor(self.high / step + 1e-9)
        values = [k * step for k in range(first, last + 1)]
        return {
            "label": self.label,
            "ticks": [
                {"at": at, "text": _tick(value, step)}
                for at, value in zip(self.at(values), values, strict=True)
            ],
        }


def share_axis(label: str) -> dict[str, Any]:
    """Return an axis of shares, from nothing to all."""
    ticks = [{"at": k / 4, "text": f"{25 * k} %" if k else "0"} for k in range(5)]
    return {"label": label, "ticks": ticks}


def _round_step(width: float) -> float:
    unit = 10.0 ** math.floor(math.log10(width))
    return unit * next(step for step in (1, 2, 2.5, 5, 10) if step * unit >= width * (1 - 1e-9))


def _tick(value: float, step: float) -> str:
    if abs(value) < step / 1000:
        return "0"
    for size, unit in ((1e9, "B"), (1e6, "M")):
        if size <= abs(value) < 1e3 * size:
            return f"{value / size:.4g}{unit}"
    if abs(value) >= 1e12 or step < 1e-4:
        return f"{value:.3g}"
    decimals = max(0, 1 - math.floor(math.log10(step) + 1e-9)) if step < 10 else 0
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
