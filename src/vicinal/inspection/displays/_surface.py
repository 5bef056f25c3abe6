"""Pictures of decision surfaces: contour and projections, changes, distances."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.utils.validation import check_is_fitted

from vicinal._base import documented
from vicinal.inspection.displays._display import DisplayMixin, feature_names, grid_over, plane_of


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
        remedy = "Plot CounterfactualDisplay or SurfaceDistanceDisplay instead."
        rows, low, high = plane_of(X, margin, remedy)
        xx, yy, grid = grid_over(low, high, 2 * grid_resolution, X)
        boundary = _boundary(estimator, grid).reshape(xx.shape)
        is_distance = distances and len(estimator.classes_) == 2
        if is_distance:
            xx, yy, grid = grid_over(low, high, grid_resolution, X)
            field = estimator.distance(grid).reshape(xx.shape)
        else:
            labels = estimator.estimator_.predict(grid)
            field = np.searchsorted(estimator.classes_, labels).reshape(xx.shape)
        points = estimator.orthogonal_projection(X).points if projections else None
        display = cls(
            xx,
            yy,
            boundary,
            field,
            is_distance=is_distance,
            classes=estimator.classes_,
            X=rows,
            y=estimator.estimator_.predict(X) if y is None else np.asarray(y),
            points=points,
            feature_names=feature_names(X, 2),
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
        of_classes = "tab10" if cmap is None or self.is_distance else cmap
        n_colors = max(len(self.classes), 10)
        shades = self._matplotlib("pyplot").get_cmap(of_classes, n_colors)
        if self.is_distance:
            largest = np.abs(self.field[np.isfinite(self.field)]).max(initial=1e-12)
            self.field_ = ax.pcolormesh(
                self.xx, self.yy, np.ma.masked_invalid(self.field), cmap=cmap or "RdBu_r",
                vmin=-largest, vmax=largest, shading="gouraud",
            )  # fmt: skip
            ax.figure.colorbar(self.field_, ax=ax, label="signed distance")
        else:
            self.field_ = ax.pcolormesh(
                self.xx, self.yy, self.field, cmap=shades, vmin=0, vmax=n_colors - 1, alpha=0.3,
                shading="auto",
            )  # fmt: skip
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
            ax.scatter(
                *self.X.T, c=color, s=point_size, cmap=shades, vmin=0, vmax=n_colors - 1,
                edgecolors="white", linewidths=0.4, zorder=3,
            )  # fmt: skip
        ax.set(xlabel=self.feature_names[0], ylabel=self.feature_names[1], xlim=box[:2],
               ylim=box[2:])  # fmt: skip
        return self


def _boundary(surface, grid):
    """Return the decision function of two classes where there is one, else predicted codes."""
    model = surface.estimator_
    if len(surface.classes_) == 2 and hasattr(model, "decision_function"):
        return np.asarray(model.decision_function(grid), dtype=np.float64)
    return np.searchsorted(surface.classes_, model.predict(grid))


@documented
@dataclass(eq=False)
class CounterfactualDisplay(DisplayMixin):
    """The changes that lead from a row to its counterfactual, as bars.

    Parameters
    ----------
    changes : ndarray of shape (n_features,)
        What is added to the row, in the unit of the bars.
    values : list of tuple
        (before, after) of each column.
    feature_names : sequence of str
        Names of the columns.
    title : str
        What changes into what.

    Attributes
    ----------
    bars_ : matplotlib BarContainer
        One bar per column that changes.

    See Also
    --------
    vicinal.surface.DecisionSurface.counterfactual : Where the changes come from.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from vicinal.inspection import CounterfactualDisplay
    >>> from vicinal.surface import DecisionSurface
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> surface = DecisionSurface(LogisticRegression(max_iter=500), random_state=0).fit(X, y)
    >>> found = surface.counterfactual(X[:3], sparsity=0.5)
    >>> display = CounterfactualDisplay.from_counterfactuals(found, row=0)
    >>> len(display.bars_) <= 4
    True
    """

    changes: np.ndarray
    values: list[tuple]
    feature_names: Sequence[str]
    title: str = ""

    @classmethod
    def from_counterfactuals(cls, counterfactuals, row=0, *, scale=None, ax=None, **plot_options):
        """Plot the changes of one row.

        Parameters
        ----------
        counterfactuals : object
            What ``DecisionSurface.counterfactual`` returned.
        row : int, default=0
            Number of the row.
        scale : array-like of shape (n_features,), default=None
            Unit of each column, for example its standard deviation, so that bars can be compared.
        """
        if not counterfactuals.found[row]:
            raise ValueError(f"No counterfactual was found for row {row}, so nothing changes.")
        change = np.asarray(counterfactuals.changes[row], dtype=np.float64)
        unit = np.ones(len(change)) if scale is None else np.asarray(scale, dtype=np.float64)
        values = list(zip(counterfactuals.rows[row], counterfactuals.points[row], strict=True))
        title = (
            f"{int((change != 0).sum())} changes give {counterfactuals.labels[row]!s}, "
            f"distance {counterfactuals.distances[row]:.3g}"
        )
        display = cls(change / unit, values, counterfactuals.feature_names, title)
        return display.plot(ax=ax, **plot_options)

    def plot(self, ax=None, *, max_bars=12):
        """Plot the largest changes.

        Parameters
        ----------
        max_bars : int, default=12
            Number of columns shown.
        """
        ax = self._axes(ax, layout="constrained")
        order = np.argsort(-np.abs(self.changes), kind="stable")[:max_bars]
        order = order[self.changes[order] != 0][::-1]
        colors = np.where(self.changes[order] > 0, "tab:red", "tab:blue")
        names = [
            f"{self.feature_names[j]}\n{self.values[j][0]:.4g} → {self.values[j][1]:.4g}"
            for j in order
        ]
        self.bars_ = ax.barh(np.arange(len(order)), self.changes[order], color=colors)
        ax.set_yticks(np.arange(len(order)), names)
        ax.axvline(0.0, color="black", linewidth=0.8)
        ax.set(xlabel="change", title=self.title)
        return self


@documented
@dataclass(eq=False)
class SurfaceDistanceDisplay(DisplayMixin):
    """Histogram of the signed distances of rows to the surface, one colour per class.

    Parameters
    ----------
    distances : ndarray of shape (n_samples,)
        Signed distances.
    y : ndarray of shape (n_samples,)
        Labels.

    Attributes
    ----------
    bars_ : list
        Bars of each class.

    See Also
    --------
    vicinal.surface.DecisionSurface.distance : Where the distances come from.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.svm import SVC
    >>> from vicinal.inspection import SurfaceDistanceDisplay
    >>> from vicinal.surface import DecisionSurface
    >>> X, y = make_moons(60, noise=0.1, random_state=0)
    >>> surface = DecisionSurface(SVC(), random_state=0).fit(X, y)
    >>> display = SurfaceDistanceDisplay.from_estimator(surface, X, y)
    >>> len(display.bars_)
    2
    """

    distances: np.ndarray
    y: np.ndarray

    @classmethod
    def from_estimator(cls, estimator, X, y, *, label=None, ax=None, **plot_options):
        """Measure rows and plot the histogram.

        Parameters
        ----------
        estimator : DecisionSurface
            Fitted surface.
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Their labels.
        label : object, default=None
            Class whose region is measured to, see ``DecisionSurface.distance``.
        """
        display = cls(estimator.distance(X, label=label), np.asarray(y))
        return display.plot(ax=ax, **plot_options)

    def plot(self, ax=None, *, bins=30):
        """Plot one histogram per class, and the surface at 0.

        Parameters
        ----------
        bins : int, default=30
            Number of bins.
        """
        ax = self._axes(ax)
        finite = np.isfinite(self.distances)
        edges = np.histogram_bin_edges(self.distances[finite], bins)
        self.bars_ = []
        for label in np.unique(self.y):
            chosen = self.distances[finite & (self.y == label)]
            self.bars_.append(ax.hist(chosen, bins=edges, alpha=0.6, label=str(label))[2])
        ax.axvline(0.0, color="black", linewidth=1.0)
        ax.set(xlabel="signed distance to the surface", ylabel="rows")
        ax.legend(title="class")
        return self
