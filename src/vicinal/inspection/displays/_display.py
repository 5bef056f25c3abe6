"""Base class of the Displays: axes, and grids over two features."""

from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from vicinal._base import import_optional


class DisplayMixin:
    """A plot: the constructor stores its numbers, ``plot`` shows them.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the last plot.
    figure_ : matplotlib Figure
        Figure of these axes.
    """

    def _matplotlib(self, module: str) -> Any:
        """Import a part of matplotlib, or raise an error that names the Display."""
        needed_by = f"{type(self).__name__}.plot"
        return import_optional(f"matplotlib.{module}", needed_by=needed_by, extra="plot")

    def _axes(self, ax: Any, **options: Any) -> Any:
        """Return the axes given, or those of a new figure, and keep them."""
        if ax is None:
            _, ax = self._matplotlib("pyplot").subplots(**options)
        self.ax_, self.figure_ = ax, ax.figure
        return ax


def plane_of(X: Any, margin: float, remedy: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows of two features, and the lower and upper corner of a box around them."""
    rows = check_array(X)
    if rows.shape[1] != 2:
        raise ValueError(f"X has {rows.shape[1]} features; a plot of the plane needs two. {remedy}")
    low, high = rows.min(axis=0), rows.max(axis=0)
    pad = margin * np.where(high > low, high - low, 1.0)
    return rows, low - pad, high + pad


def grid_over(
    low: np.ndarray, high: np.ndarray, resolution: int, X: Any
) -> tuple[np.ndarray, np.ndarray, Any]:
    """Return a grid over a box, and its points as a table of the kind of ``X``."""
    xx, yy = np.meshgrid(*(np.linspace(low[j], high[j], resolution) for j in (0, 1)))
    points = np.column_stack([xx.ravel(), yy.ravel()])
    if hasattr(X, "columns"):  # a frame, so that the model checks the names
        return xx, yy, type(X)(dict(zip(X.columns, points.T, strict=True)))
    return xx, yy, points


def feature_names(X: Any, n_features: int) -> list[str]:
    """Return the names of the columns of a frame, or x0, x1, ..."""
    names = getattr(X, "columns", None)
    return [f"x{j}" for j in range(n_features)] if names is None else [str(n) for n in names]
