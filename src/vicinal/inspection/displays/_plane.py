"""Plots of two features: regions of a partition, decision surfaces."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_array, check_is_fitted

from vicinal._base import documented, import_optional, is_frame
from vicinal._base._tables import column_names


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

    def _class_colors(self, n_classes: int, cmap: Any = None) -> dict[str, Any]:
        """Return matplotlib's options for the colours of classes, by their positions."""
        n_colors = max(n_classes, 10)
        shades = self._matplotlib("pyplot").get_cmap(cmap or "tab10", n_colors)
        return {"cmap": shades, "vmin": 0, "vmax": n_colors - 1}


class _Plane:
    """Rows of two features, their names, and grids over a box around them."""

    def __init__(self, X: Any, margin: float, remedy: str) -> None:
        self.X, self.rows = X, check_array(X)
        if self.rows.shape[1] != 2:
            raise ValueError(
                f"X has {self.rows.shape[1]} features; a plot of the plane needs two. {remedy}"
            )
        self.names = column_names(X if is_frame(X) else self.rows)
        low, high = self.rows.min(axis=0), self.rows.max(axis=0)
        pad = margin * np.where(high > low, high - low, 1.0)
        self.low, self.high = low - pad, high + pad

    def grid(self, resolution: int) -> tuple[np.ndarray, np.ndarray, Any]:
        """Return a grid over the box, and its points as a table like the rows."""
        xx, yy = np.meshgrid(*np.linspace(self.low, self.high, resolution).T)
        points = np.column_stack([xx.ravel(), yy.ravel()])
        if is_frame(self.X):  # so that the model checks the names
            points = type(self.X)(dict(zip(self.X.columns, points.T, strict=True)))
        return xx, yy, points


@documented
@dataclass(eq=False)
class PartitionRegionsDisplay(DisplayMixin):
    """Predictions of a partition model over the plane, with the lines of its gates.

    Make it with :meth:`from_estimator`. The colours show what the whole model predicts, the lines
    the gates of its best cascade, each shown only where samples reach it.

    Parameters
    ----------
    xx, yy : ndarray of shape (n_rows, n_columns)
        Grid of the two features.
    prediction : ndarray of shape (n_rows, n_columns)
        Predicted number at each point of the grid; for classifiers the position in ``classes``.
    gate_scores : ndarray of shape (n_gates, n_rows, n_columns)
        Scores of the gates, NaN where an earlier gate keeps the point.
    classes : ndarray or None
        Labels, for classifiers.
    X, y : ndarray or None
        Samples to show on top, with their labels or targets.
    feature_names : sequence of two str
        Names of the axes.

    Attributes
    ----------
    surface_ : matplotlib QuadMesh
        The coloured background.
    gate_lines_ : list of matplotlib ContourSet
        One per gate that is reached inside the picture.

    See Also
    --------
    vicinal.partition.SpacePartitioningClassifier : The model that is shown.

    Examples
    --------
    >>> import numpy as np
    >>> from vicinal.inspection import PartitionRegionsDisplay
    >>> from vicinal.partition import SpacePartitioningClassifier
    >>> X = np.random.RandomState(0).uniform(-1, 1, size=(200, 2))
    >>> y = X[:, 0] * X[:, 1] > 0
    >>> model = SpacePartitioningClassifier(n_regions=2, combine="best", random_state=0).fit(X, y)
    >>> display = PartitionRegionsDisplay.from_estimator(model, X, y)
    >>> len(display.gate_lines_)
    1
    """

    xx: np.ndarray
    yy: np.ndarray
    prediction: np.ndarray
    gate_scores: np.ndarray
    classes: np.ndarray | None = None
    X: np.ndarray | None = None
    y: np.ndarray | None = None
    feature_names: Sequence[str] = ("x0", "x1")

    @classmethod
    def from_estimator(
        cls, estimator, X, y=None, *, grid_resolution=200, margin=0.1, ax=None, **plot_options
    ):
        """Evaluate a fitted model of two features on a grid around ``X`` and plot it.

        Parameters
        ----------
        estimator : estimator
            Fitted model of :mod:`vicinal.partition` of two features.
        X : array-like of shape (n_samples, 2)
            Samples that set the range of the picture.
        y : array-like of shape (n_samples,), default=None
            Labels or targets; with them the samples are shown.
        grid_resolution : int, default=200
            Number of grid points along each axis.
        margin : float, default=0.1
            Space around the samples, as a share of their range.
        """
        check_is_fitted(estimator)
        plane = _Plane(X, margin, "Fit a model of two columns.")
        xx, yy, grid = plane.grid(grid_resolution)
        prediction, classes = estimator.predict(grid), None
        if is_classifier(estimator):
            classes = estimator.classes_
            prediction = np.searchsorted(classes, prediction)
        scores = estimator.decision_path(grid)
        # A gate counts only where all gates before it pass on.
        reached = np.cumprod(np.column_stack([np.ones(len(scores)), scores[:, :-1] > 0]), axis=1)
        scores = np.where(reached[:, : scores.shape[1]] > 0, scores, np.nan)
        display = cls(
            xx,
            yy,
            prediction.reshape(xx.shape),
            scores.T.reshape(-1, *xx.shape),
            classes=classes,
            X=None if y is None else plane.rows,
            y=None if y is None else np.asarray(y),
            feature_names=plane.names,
        )
        return display.plot(ax=ax, **plot_options)

    def plot(self, ax=None, *, cmap=None, point_size=12):
        """Plot the predictions, the gates and the samples.

        Parameters
        ----------
        cmap : str or matplotlib Colormap, default=None
            Colours; ``None`` takes ``"tab10"`` for classes and ``"viridis"`` for numbers.
        point_size : float, default=12
            Size of the samples.
        """
        ax = self._axes(ax)
        colors = {"cmap": cmap or "viridis"}
        if self.classes is not None:
            colors = self._class_colors(len(self.classes), cmap)
        self.surface_ = ax.pcolormesh(
            self.xx, self.yy, self.prediction, alpha=0.35, shading="auto", **colors
        )
        if self.X is not None:
            color = self.y if self.classes is None else np.searchsorted(self.classes, self.y)
            edges = {"edgecolors": "white", "linewidths": 0.4}
            ax.scatter(*self.X.T, c=color, s=point_size, **edges, **colors)
        styles = ["-", "--", "-.", ":"]
        self.gate_lines_ = []
        for k, scores in enumerate(self.gate_scores):
            if np.nanmin(scores, initial=np.inf) <= 0 < np.nanmax(scores, initial=-np.inf):
                style = {"linestyles": [styles[k % len(styles)]], "linewidths": 1.6}
                masked = np.ma.masked_invalid(scores)
                self.gate_lines_.append(
                    ax.contour(self.xx, self.yy, masked, levels=[0.0], colors="black", **style)
                )
        ax.set(xlabel=self.feature_names[0], ylabel=self.feature_names[1])
        return self


@documented
@dataclass(eq=False)
class DecisionSurfaceDisplay(DisplayMixin):
    """Surface of a classifier of two features, with a distance field and projections.

    Make it with :meth:`from_estimator`. Colours show the signed distance to the surface (two
    classes) or the predicted class (more), the line the surface, arrows the way from rows to their
    nearest points of it.

    Parameters
    ----------
    xx, yy : ndarray of shape (n_rows, n_columns)
        Grid of the two features.
    boundary : ndarray
        What changes at the surface, on a grid over the same box: the decision function where the
        classifier has one for two classes, else the predicted class as position in ``classes``.
    field : ndarray of shape (n_rows, n_columns)
        Signed distance at each point of the grid, or the predicted class.
    is_distance : bool
        Which of the two the field is.
    classes : ndarray of shape (n_classes,)
        Labels.
    X, y : ndarray or None
        Rows to show, and their labels.
    points : ndarray of shape (n_samples, 2) or None
        Nearest points of the surface of these rows.
    feature_names : sequence of two str
        Names of the axes.

    Attributes
    ----------
    field_ : matplotlib QuadMesh
        The coloured background.
    surface_ : matplotlib ContourSet
        The surface.
    arrows_ : matplotlib LineCollection or None
        Ways from rows to the surface.

    See Also
    --------
    vicinal.surface.DecisionSurface : The surface that is shown.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.svm import SVC
    >>> from vicinal.inspection import DecisionSurfaceDisplay
    >>> from vicinal.surface import DecisionSurface
    >>> X, y = make_moons(60, noise=0.1, random_state=0)
    >>> surface = DecisionSurface(SVC(), random_state=0).fit(X, y)
    >>> display = DecisionSurfaceDisplay.from_estimator(surface, X, y, grid_resolution=20)
    >>> display.field.shape
    (20, 20)
    """

    xx: np.ndarray
    yy: np.ndarray
    boundary: np.ndarray
    field: np.ndarray
    is_distance: bool
    classes: np.ndarray
    X: np.ndarray | None = None
    y: np.ndarray | None = None
    points: np.ndarray | None = None
    feature_names: Sequence[str] = ("x0", "x1")

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        y=None,
        *,
        projections=True,
        distances=True,
        grid_resolution=60,
        margin=0.15,
        ax=None,
        **plot_options,
    ):
        """Evaluate a fitted surface on a grid around ``X`` and plot it.

        Parameters
        ----------
        estimator : DecisionSurface
            Fitted surface of two features.
        X : array-like of shape (n_samples, 2)
            Rows that set the range of the picture.
        y : array-like of shape (n_samples,), default=None
            Labels, which colour the rows; ``None`` takes the predicted ones.
        projections : bool, default=True
            Plot the way from each row to its nearest point of the surface.
        distances : bool, default=True
            Colour by the signed distance (two classes), which costs one projection per grid point;
            otherwise by the predicted class.
        grid_resolution : int, default=60
            Number of grid points along each axis for the distances; the line itself uses a grid
            twice as fine.
        margin : float, default=0.15
            Space around the rows, as a share of their range.
        """
        check_is_fitted(estimator)
        remedy = "Fit a surface of two columns, or plot a histogram of its distances instead."
        plane = _Plane(X, margin, remedy)
        xx, yy, grid = plane.grid(2 * grid_resolution)
        boundary = _boundary(estimator, grid).reshape(xx.shape)
        is_distance = distances and len(estimator.classes_) == 2
        if is_distance:
            xx, yy, grid = plane.grid(grid_resolution)
            field = estimator.distance(grid).reshape(xx.shape)
        else:
            labels = estimator.estimator_.predict(grid)
            field = np.searchsorted(estimator.classes_, labels).reshape(xx.shape)
        display = cls(
            xx,
            yy,
            boundary,
            field,
            is_distance=is_distance,
            classes=estimator.classes_,
            X=plane.rows,
            y=estimator.estimator_.predict(X) if y is None else np.asarray(y),
            points=estimator.orthogonal_projection(X).points if projections else None,
            feature_names=plane.names,
        )
        return display.plot(ax=ax, **plot_options)

    def plot(self, ax=None, *, cmap=None, point_size=14):
        """Plot the field, the surface, the projections and the rows.

        Parameters
        ----------
        cmap : str or matplotlib Colormap, default=None
            Colours of the field; ``None`` takes ``"RdBu_r"`` for distances, ``"tab10"`` for
            classes.
        point_size : float, default=14
            Size of the rows.
        """
        ax = self._axes(ax)
        box = (self.xx.min(), self.xx.max(), self.yy.min(), self.yy.max())
        colors = self._class_colors(len(self.classes), None if self.is_distance else cmap)
        if self.is_distance:
            largest = np.abs(self.field[np.isfinite(self.field)]).max(initial=1e-12)
            field = np.ma.masked_invalid(self.field)
            style = {"cmap": cmap or "RdBu_r", "vmin": -largest, "vmax": largest}
            self.field_ = ax.pcolormesh(self.xx, self.yy, field, shading="gouraud", **style)
            ax.figure.colorbar(self.field_, ax=ax, label="signed distance")
        else:
            self.field_ = ax.pcolormesh(
                self.xx, self.yy, self.field, alpha=0.3, shading="auto", **colors
            )
        columns = np.linspace(box[0], box[1], self.boundary.shape[1])
        rows = np.linspace(box[2], box[3], self.boundary.shape[0])
        is_score = self.boundary.dtype.kind == "f"
        levels = [0.0] if is_score else np.arange(len(self.classes) - 1) + 0.5
        self.surface_ = ax.contour(columns, rows, self.boundary, levels=levels, colors="black")
        self.arrows_ = None
        if self.points is not None:
            ways = np.stack([self.X, self.points], axis=1)
            lines = self._matplotlib("collections").LineCollection
            self.arrows_ = lines(ways, colors="black", linewidths=0.6)
            ax.add_collection(self.arrows_)
        if self.X is not None:
            color = np.searchsorted(self.classes, self.y)
            edges = {"edgecolors": "white", "linewidths": 0.4, "zorder": 3}
            ax.scatter(*self.X.T, c=color, s=point_size, **edges, **colors)
        names = dict(zip(("xlabel", "ylabel"), self.feature_names, strict=True))
        ax.set(xlim=box[:2], ylim=box[2:], **names)
        return self


def _boundary(surface, grid):
    """Return the decision function of two classes where there is one, else predicted codes."""
    model = surface.estimator_
    if len(surface.classes_) == 2 and hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(grid), dtype=np.float64)
    return np.searchsorted(surface.classes_, model.predict(grid))
