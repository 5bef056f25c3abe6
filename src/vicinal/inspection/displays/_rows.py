"""Plots about rows: the choice of a local model, intervals, labels, uncertainty."""

from numbers import Integral
from typing import Any

import numpy as np

from vicinal._base import as_numpy, documented
from vicinal.inspection.displays._display import DisplayMixin, feature_names
from vicinal.uncertainty import uncertainty_map


@documented
class IntervalCoverageDisplay(DisplayMixin):
    """How often intervals hold the target, from the narrowest fifth to the widest.

    Use :meth:`from_estimator`; the constructor takes the numbers themselves.

    Parameters
    ----------
    width : ndarray of shape (n_parts,)
        Mean width of the intervals of each part, ascending.
    covered : ndarray of shape (n_parts,)
        Share of its targets that lie inside.
    n_rows : ndarray of int of shape (n_parts,)
        Its number of rows.
    coverage : float
        Nominal coverage.

    Attributes
    ----------
    line_ : matplotlib Line2D
        Coverage by width, with two standard errors to either side.
    target_ : matplotlib Line2D
        Nominal coverage.

    See Also
    --------
    vicinal.uncertainty.ConformalRegressor : Intervals of any regressor.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from vicinal.inspection import IntervalCoverageDisplay
    >>> from vicinal.local import LocalRegressor
    >>> X, y = load_diabetes(return_X_y=True)
    >>> model = LocalRegressor(n_neighbors=80, alpha=1.0).fit(X[:300], y[:300])
    >>> display = IntervalCoverageDisplay.from_estimator(model, X[300:], y[300:])
    >>> len(display.width), bool(abs(display.covered.mean() - 0.9) < 0.1)
    (5, True)
    """

    def __init__(self, *, width, covered, n_rows, coverage):
        self.width = width
        self.covered = covered
        self.n_rows = n_rows
        self.coverage = coverage

    @classmethod
    def from_estimator(cls, estimator, X, y, *, coverage=0.9, n_parts=5, ax=None):
        """Plot the coverage of a model's intervals on rows that it has not seen.

        Parameters
        ----------
        estimator : object
            Fitted regressor of one target with ``predict_interval``.
        X : array-like of shape (n_samples, n_features)
            Rows it has not seen.
        y : array-like of shape (n_samples,)
            Their targets.
        coverage : float, default=0.9
            Chance, between 0 and 1.
        n_parts : int, default=5
            Parts of equal size, by width.
        """
        low, high = np.asarray(estimator.predict_interval(X, coverage=coverage)).T
        inside = (low <= np.asarray(y)) & (np.asarray(y) <= high)
        parts = np.array_split(np.argsort(high - low, kind="stable"), n_parts)
        display = cls(
            width=np.array([np.mean((high - low)[part]) for part in parts]),
            covered=np.array([np.mean(inside[part]) for part in parts]),
            n_rows=np.array([len(part) for part in parts]),
            coverage=coverage,
        )
        return display.plot(ax=ax)

    def plot(self, ax=None):
        """Plot coverage by width."""
        ax = self._axes(ax)
        error = 2.0 * np.sqrt(self.coverage * (1.0 - self.coverage) / self.n_rows)
        self.line_ = ax.errorbar(self.width, self.covered, yerr=error, marker="o").lines[0]
        self.target_ = ax.axhline(self.coverage, color="0.5", linestyle="--")
        ax.set(xlabel="mean width of the intervals", ylabel="share of targets inside")
        return self


@documented
class LabelIssuesDisplay(DisplayMixin):
    """Rows in the plane of two columns, with the labels that look wrong marked.

    Use :meth:`from_findings`; the constructor takes the numbers themselves.

    Parameters
    ----------
    points : ndarray of shape (n_samples, 2)
        Rows.
    labels : ndarray of shape (n_samples,)
        Labels as they were given.
    rows : ndarray of int of shape (n_issues,)
        Rows whose labels look wrong.
    names : sequence of str
        Names of the two columns.

    Attributes
    ----------
    points_ : list of matplotlib PathCollection
        Rows of each label.
    marks_ : matplotlib PathCollection
        Rings around suspicious rows.

    See Also
    --------
    label_issues : Finds them.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from vicinal.inspection import LabelIssuesDisplay, label_issues
    >>> from vicinal.local import LocalClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> y[7] = 2
    >>> found = label_issues(LocalClassifier(alpha=1.0).fit(X, y).leave_one_out(), y)
    >>> display = LabelIssuesDisplay.from_findings(found, X, y, columns=(2, 3))
    >>> 7 in display.rows, len(display.points_)
    (True, 3)
    """

    def __init__(self, *, points, labels, rows, names):
        self.points = points
        self.labels = labels
        self.rows = rows
        self.names = names

    @classmethod
    def from_findings(cls, findings, X, y, *, columns=(0, 1), ax=None):
        """Plot the findings of :func:`label_issues`.

        Parameters
        ----------
        findings : Findings
            What it returned.
        X : {array-like, data frame} of shape (n_samples, n_features)
            The table.
        y : array-like of shape (n_samples,)
            Labels as they were given.
        columns : pair of int or of str, default=(0, 1)
            Columns to show, by position, or by name for a frame.
        """
        if hasattr(X, "columns"):
            chosen = [X.columns[c] if isinstance(c, Integral) else c for c in columns]
            points = np.column_stack([np.asarray(X[name]) for name in chosen])
            names = [str(name) for name in chosen]
        else:
            points = np.asarray(X)[:, list(columns)]
            names = [f"x{c}" for c in columns]
        display = cls(points=points, labels=np.asarray(y), rows=findings["row"], names=names)
        return display.plot(ax=ax)

    def plot(self, ax=None):
        """Plot the rows and mark the suspicious ones."""
        ax = self._axes(ax)
        self.points_ = [
            ax.scatter(*self.points[self.labels == label].T, s=12, label=str(label))
            for label in np.unique(self.labels)
        ]
        self.marks_ = ax.scatter(
            *self.points[self.rows].T, s=80, facecolors="none", edgecolors="k", label="looks wrong"
        )
        ax.set(xlabel=self.names[0], ylabel=self.names[1])
        ax.legend()
        return self


@documented
class UncertaintyDisplay(DisplayMixin):
    """Map of the uncertainty of each row in the plane, or a table of the most uncertain rows.

    Use :meth:`from_data`; the constructor takes the numbers themselves. Rows of two features (or
    two chosen features) are shown as points, shaded by uncertainty; rows of more features are
    ranked, the most uncertain first.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Rows.
    y : ndarray of shape (n_samples,)
        Labels.
    uncertainty : ndarray of shape (n_samples,)
        Uncertainty of each row.
    feature_names : list of str
        Names of the features.
    features : tuple of two ints, default=None
        Features to show; ``None`` shows both if there are two, and a table otherwise.

    Attributes
    ----------
    ranking_ : ndarray of shape (n_samples,)
        Rows from the most to the least uncertain.
    points_ : list of matplotlib collections
        Points of each class, where a map was shown.
    table_ : matplotlib Table
        Table, where one was shown.

    See Also
    --------
    vicinal.uncertainty.uncertainty_map : The numbers.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from vicinal.inspection import UncertaintyDisplay
    >>> wine = load_wine()
    >>> X = (wine.data - wine.data.mean(axis=0)) / wine.data.std(axis=0)
    >>> display = UncertaintyDisplay.from_data(X, wine.target, plot=False)
    >>> for row in display.most_uncertain(3):
    ...     print(row["row"], row["label"], round(row["uncertainty"], 2))
    73 1 0.77
    83 1 0.66
    121 1 0.54
    """

    def __init__(self, *, X, y, uncertainty, feature_names, features=None):
        self.X = X
        self.y = y
        self.uncertainty = uncertainty
        self.feature_names = feature_names
        self.features = features
        self.ranking_ = np.argsort(-uncertainty, kind="stable")

    @classmethod
    def from_data(
        cls,
        X,
        y,
        *,
        n_neighbors="class",
        bandwidth="auto",
        sample_weight=None,
        features=None,
        plot=True,
        ax=None,
    ):
        """Compute the map and plot it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; bring the features to comparable scales first.
        y : array-like of shape (n_samples,)
            Labels.
        n_neighbors : "class", int or None, default="class"
            Neighbours counted, see :func:`~vicinal.uncertainty.uncertainty_map`.
        bandwidth : "auto" or float, default="auto"
            Width of the similarity.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.
        features : tuple of two ints, default=None
            Features to show; ``None`` shows both if there are two, and a table otherwise.
        plot : bool, default=True
            Whether to show at once.
        """
        u = uncertainty_map(
            X, y, n_neighbors=n_neighbors, bandwidth=bandwidth, sample_weight=sample_weight
        )
        rows = as_numpy(X)
        display = cls(
            X=rows,
            y=as_numpy(y),
            uncertainty=as_numpy(u),
            feature_names=feature_names(X, rows.shape[1]),
            features=_check_features(features, rows.shape[1]),
        )
        return display.plot(ax=ax) if plot else display

    def most_uncertain(self, n_rows: int = 10) -> list[dict[str, Any]]:
        """Return the most uncertain rows.

        Parameters
        ----------
        n_rows : int, default=10
            How many.

        Returns
        -------
        list of dict
            Position, label, uncertainty and features of each row; ``pandas.DataFrame`` makes a
            table of it.
        """
        return [
            {
                "row": int(i),
                "label": self.y[i].item() if hasattr(self.y[i], "item") else self.y[i],
                "uncertainty": float(self.uncertainty[i]),
                **dict(zip(self.feature_names, self.X[i].tolist(), strict=True)),
            }
            for i in self.ranking_[:n_rows]
        ]

    def plot(self, ax=None, *, n_rows=10, cmap="viridis"):
        """Plot the map, or the table where there is no plane to show.

        Parameters
        ----------
        n_rows : int, default=10
            Rows of the table.
        cmap : str, default="viridis"
            Colours of the map.
        """
        self._axes(ax)
        features = self.features
        if features is None and self.X.shape[1] == 2:
            features = (0, 1)
        if features is None:
            self._draw_table(n_rows)
        else:
            self._draw_map(features, cmap)
        return self

    def _draw_map(self, features, cmap):
        first, second = features
        self.points_ = []
        for label, marker in zip(np.unique(self.y), _markers(), strict=False):
            chosen = self.y == label
            self.points_.append(
                self.ax_.scatter(
                    self.X[chosen, first],
                    self.X[chosen, second],
                    c=self.uncertainty[chosen],
                    marker=marker,
                    cmap=cmap,
                    vmin=0,
                    vmax=1,
                    s=22,
                    edgecolors="none",
                    label=str(label),
                )
            )
        self.figure_.colorbar(self.points_[0], ax=self.ax_, label="uncertainty")
        self.ax_.legend(title="class")
        self.ax_.set(xlabel=self.feature_names[first], ylabel=self.feature_names[second])

    def _draw_table(self, n_rows):
        rows = self.most_uncertain(n_rows)
        self.ax_.axis("off")
        self.ax_.set_title("most uncertain rows")
        self.table_ = self.ax_.table(
            cellText=[
                [str(row["row"]), str(row["label"]), f"{row['uncertainty']:.3f}"] for row in rows
            ],
            colLabels=["row", "label", "uncertainty"],
            loc="center",
        )


def _check_features(features, n_features):
    if features is None:
        return None
    first, second = features
    if not (0 <= first < n_features and 0 <= second < n_features):
        raise ValueError(
            f"features={features!r} must be two positions below {n_features}, the number of "
            "features of X."
        )
    return first, second


def _markers():
    """Markers of the classes, repeated."""
    while True:
        yield from "o^sDvP*X"
