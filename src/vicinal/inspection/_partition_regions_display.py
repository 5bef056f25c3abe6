"""Picture of a partition of the plane."""

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils.validation import check_array, check_is_fitted

from vicinal._base import import_optional


class PartitionRegionsDisplay:
    """Predictions of a partition model over the plane, with the lines of its gates.

    Make it with :meth:`from_estimator`. The colours show what the whole model predicts, the lines
    the gates of its best cascade, each drawn only where samples reach it.

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
        Samples to draw on top, with their labels or targets.
    feature_names : sequence of two str
        Names of the axes.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the last plot.
    surface_ : matplotlib QuadMesh
        The coloured background.
    gate_lines_ : list of matplotlib ContourSet
        One per gate that is reached inside the picture.

    See Also
    --------
    vicinal.partition.SpacePartitioningClassifier : The model that is drawn.

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

    def __init__(
        self, xx, yy, prediction, gate_scores, *, classes=None, X=None, y=None, feature_names=None
    ):
        self.xx = xx
        self.yy = yy
        self.prediction = prediction
        self.gate_scores = gate_scores
        self.classes = classes
        self.X = X
        self.y = y
        self.feature_names = feature_names

    @classmethod
    def from_estimator(
        cls, estimator, X, y=None, *, grid_resolution=200, margin=0.1, ax=None, **plot_options
    ):
        """Evaluate a fitted model of two features on a grid around ``X`` and draw it.

        Parameters
        ----------
        estimator : SpacePartitioningClassifier, SpacePartitioningRegressor or \
                SurrogatePartitionClassifier
            Fitted model of two features.
        X : array-like of shape (n_samples, 2)
            Samples that set the range of the picture.
        y : array-like of shape (n_samples,), default=None
            Labels or targets; with them the samples are drawn.
        grid_resolution : int, default=200
            Number of grid points along each axis.
        margin : float, default=0.1
            Space around the samples, as a share of their range.
        ax : matplotlib Axes, default=None
            Where to draw; ``None`` makes a new figure.
        **plot_options : dict
            Options of :meth:`plot`.

        Returns
        -------
        display : PartitionRegionsDisplay
            The drawn picture with its numbers.
        """
        check_is_fitted(estimator)
        names = getattr(X, "columns", None)
        names = ["feature 0", "feature 1"] if names is None else [str(name) for name in names]
        points = check_array(X)
        if points.shape[1] != 2:
            raise ValueError(
                f"X has {points.shape[1]} features; a picture of regions needs a model of two. "
                "Fit one to two columns, or draw PartitionHistogramDisplay instead."
            )
        low, high = points.min(axis=0), points.max(axis=0)
        pad = margin * np.where(high > low, high - low, 1.0)
        axes = [np.linspace(low[j] - pad[j], high[j] + pad[j], grid_resolution) for j in range(2)]
        xx, yy = np.meshgrid(*axes)
        grid = _like(X, np.column_stack([xx.ravel(), yy.ravel()]))
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
            feature_names=names,
        )
        return display.plot(ax=ax, **plot_options)

    def plot(self, ax=None, *, cmap=None, point_size=12):
        """Draw the predictions, the gates and the samples.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; ``None`` makes a new figure.
        cmap : str or matplotlib Colormap, default=None
            Colours; ``None`` takes ``"tab10"`` for classes and ``"viridis"`` for numbers.
        point_size : float, default=12
            Size of the samples.

        Returns
        -------
        display : PartitionRegionsDisplay
            The object itself.
        """
        pyplot = import_optional(
            "matplotlib.pyplot", needed_by="PartitionRegionsDisplay.plot", extra="plot"
        )
        if ax is None:
            _, ax = pyplot.subplots()
        if self.classes is not None:
            cmap = pyplot.get_cmap("tab10" if cmap is None else cmap, max(len(self.classes), 10))
            limits = {"vmin": 0, "vmax": max(len(self.classes), 10) - 1}
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
        self.ax_ = ax
        return self


def _like(X, values):
    """Return ``values`` as a frame if ``X`` is one, so that names are checked and not missed."""
    if hasattr(X, "columns"):
        return type(X)(dict(zip(X.columns, values.T, strict=True)))
    return values
