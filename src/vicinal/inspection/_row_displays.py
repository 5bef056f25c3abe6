"""Pictures of what held-out answers know about rows: intervals, wrong labels."""

from numbers import Integral

import numpy as np

from vicinal._base import documented
from vicinal.inspection._display import DisplayMixin


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
        Chance that was asked for.

    Attributes
    ----------
    line_ : matplotlib Line2D
        Coverage by width, with two standard errors to either side.
    target_ : matplotlib Line2D
        Coverage asked for.

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
        """Draw the coverage of a model's intervals on rows that it has not seen.

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
        """Draw coverage by width."""
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
        """Draw the findings of :func:`label_issues`.

        Parameters
        ----------
        findings : Findings
            What it returned.
        X : {array-like, data frame} of shape (n_samples, n_features)
            The table.
        y : array-like of shape (n_samples,)
            Labels as they were given.
        columns : pair of int or of str, default=(0, 1)
            Columns to draw, by position, or by name for a frame.
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
        """Draw the rows and mark the suspicious ones."""
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
