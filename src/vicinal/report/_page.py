"""From a dictionary to one HTML file: templates, numbers as text, nothing from outside."""

import abc
import math
import os
from importlib.resources import files
from pathlib import Path
from typing import Any

import vicinal
from vicinal._base import import_optional, write_whole


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


def render(content: dict[str, Any], template: str) -> str:
    """Return the page; every text in it is escaped."""
    jinja2 = import_optional("jinja2", needed_by="An HTML report", extra="cli")
    folder = files("vicinal.report").joinpath("templates")
    sources = {name: folder.joinpath(name).read_text("utf-8") for name in _TEMPLATES}
    environment = jinja2.Environment(
        loader=jinja2.DictLoader(sources),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, "percent": percent, "seconds": seconds}
    return environment.get_template(template).render(
        **{**_EMPTY, **content}, version=vicinal.__version__
    )


_TEMPLATES = (
    "page.html",
    "explanation.html",
    "reasons.html",
    "charts.html",
    "style.css",
    "page.js",
)
_EMPTY: dict[str, Any] = dict.fromkeys(
    ("leaderboard", "model", "calibration", "confusion", "residuals", "regions", "map", "doubtful")
) | {"explanations": [], "facts": {}, "notes": [], "classes": []}


def number(value: Any) -> str:
    """Return a number with four figures, large ones in full; anything else as it is."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if math.isnan(value):
        return ""
    if 10_000 <= abs(value) < 1e15:
        return f"{value:,.0f}"
    return str(value) if isinstance(value, int) else f"{value:.4g}"


def percent(share: float) -> str:
    """Return a share in percent, with a decimal where it matters."""
    return f"{100 * share:.0f} %" if 0.1 <= share <= 0.9 else f"{100 * share:.1f} %"


def seconds(value: float) -> str:
    """Return a duration as short as it may be."""
    if value < 0.01:
        return "<0.01 s"
    return f"{value:.2f} s" if value < 10 else f"{value:.0f} s"
