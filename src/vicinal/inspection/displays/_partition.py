"""Pictures of partitions: regions of the plane, classes by region, how the fit went."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_is_fitted

from vicinal._base import documented
from vicinal.inspection.displays._display import DisplayMixin, feature_names, grid_over, plane_of


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
        remedy = "Fit a model of two columns, or plot PartitionHistogramDisplay instead."
        points, low, high = plane_of(X, margin, remedy)
        xx, yy, grid = grid_over(low, high, grid_resolution, X)
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
            X=None if y is None else points,
            y=None if y is None else np.asarray(y),
            feature_names=feature_names(X, 2),
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
        if self.classes is not None:
            n_colors = max(len(self.classes), 10)
            cmap = self._matplotlib("pyplot").get_cmap(cmap or "tab10", n_colors)
            limits = {"vmin": 0, "vmax": n_colors - 1}
        else:
            cmap, limits = cmap or "viridis", {}
        self.surface_ = ax.pcolormesh(
            self.xx, self.yy, self.prediction, cmap=cmap, alpha=0.35, shading="auto", **limits
        )
        if self.X is not None:
            color = self.y if self.classes is None else np.searchsorted(self.classes, self.y)
            ax.scatter(
                *self.X.T,
                c=color,
                s=point_size,
                cmap=cmap,
                edgecolors="white",
                linewidths=0.4,
                **limits,
            )
        styles = ["-", "--", "-.", ":"]
        self.gate_lines_ = []
        for k, scores in enumerate(self.gate_scores):
            if np.nanmin(scores, initial=np.inf) <= 0 < np.nanmax(scores, initial=-np.inf):
                line = ax.contour(
                    self.xx,
                    self.yy,
                    np.ma.masked_invalid(scores),
                    levels=[0.0],
                    colors="black",
                    linestyles=[styles[k % len(styles)]],
                    linewidths=1.6,
                )
                self.gate_lines_.append(line)
        ax.set(xlabel=self.feature_names[0], ylabel=self.feature_names[1])
        return self


@documented
@dataclass(eq=False)
class PartitionHistogramDisplay(DisplayMixin):
    """Classes in each region of a partition classifier, as in Figure 3 of Wang and Saligrama.

    Make it with :meth:`from_estimator`. A partition that serves the classification sends classes
    that are easily confused to regions of their own.

    Parameters
    ----------
    counts : ndarray of int of shape (n_regions, n_classes)
        Number of samples of each class in each region.
    classes : ndarray of shape (n_classes,)
        Labels.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes of shape (n_regions,)
        One histogram per region.

    See Also
    --------
    vicinal.partition.SpacePartitioningClassifier.region_report : The same as a table.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from vicinal.inspection import PartitionHistogramDisplay
    >>> from vicinal.partition import SpacePartitioningClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SpacePartitioningClassifier(n_regions=2, combine="best", random_state=0).fit(X, y)
    >>> display = PartitionHistogramDisplay.from_estimator(model, X, y)
    >>> int(display.counts.sum())
    150
    """

    counts: np.ndarray
    classes: np.ndarray

    @classmethod
    def from_estimator(cls, estimator, X, y, *, axes=None):
        """Count the classes of labelled samples in each region and plot the counts.

        Parameters
        ----------
        estimator : SpacePartitioningClassifier
            Fitted classifier; its best cascade is shown.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Their labels.
        axes : sequence of matplotlib Axes, default=None
            One per region; ``None`` makes a new figure.
        """
        check_is_fitted(estimator)
        return cls(estimator.region_histogram(X, y), estimator.classes_).plot(axes=axes)

    def plot(self, axes=None):
        """Plot one histogram per region.

        Parameters
        ----------
        axes : sequence of matplotlib Axes, default=None
            One per region; ``None`` makes a new figure.
        """
        n_regions = len(self.counts)
        if axes is None:
            _, axes = self._matplotlib("pyplot").subplots(
                1,
                n_regions,
                figsize=(1 + 2.2 * n_regions, 2.6),
                sharey=True,
                squeeze=False,
                layout="constrained",
            )
        axes = np.asarray(axes, dtype=object).ravel()
        if len(axes) != n_regions:
            raise ValueError(f"axes holds {len(axes)} Axes for {n_regions} regions; give one each.")
        positions = np.arange(len(self.classes))
        step = max(1, len(positions) // 13)
        for k, (ax, row) in enumerate(zip(axes, self.counts, strict=True)):
            ax.bar(positions, row, color=f"C{k % 10}")
            ax.set_xticks(positions[::step], [str(label) for label in self.classes[::step]])
            ax.set(title=f"region {k} ({row.sum()})", xlabel="class")
        axes[0].set_ylabel("samples")
        self.axes_ = axes
        self.figure_ = axes[0].figure
        return self
