"""Plots of rows: their uncertainty."""

from dataclasses import dataclass
from itertools import cycle
from typing import Any

import numpy as np

from vicinal._base import as_numpy, documented
from vicinal.inspection.displays._display import DisplayMixin, feature_names


@documented
@dataclass(eq=False, kw_only=True)
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

    X: np.ndarray
    y: np.ndarray
    uncertainty: np.ndarray
    feature_names: list[str]
    features: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        self.ranking_ = np.argsort(-self.uncertainty, kind="stable")

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
        from vicinal.uncertainty import uncertainty_map

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
        for label, marker in zip(np.unique(self.y), cycle("o^sDvP*X"), strict=False):
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
