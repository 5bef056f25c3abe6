"""Which classes live in which region."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from vicinal._base import import_optional


class PartitionHistogramDisplay:
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
    figure_ : matplotlib Figure
        Figure of the last plot.
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

    def __init__(self, counts, classes):
        self.counts = counts
        self.classes = classes

    @classmethod
    def from_estimator(cls, estimator, X, y, *, axes=None):
        """Count the classes of labelled samples in each region and draw the counts.

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

        Returns
        -------
        display : PartitionHistogramDisplay
            The drawn histograms with their numbers.
        """
        check_is_fitted(estimator)
        return cls(estimator.region_histogram(X, y), estimator.classes_).plot(axes=axes)

    def plot(self, axes=None):
        """Draw one histogram per region.

        Parameters
        ----------
        axes : sequence of matplotlib Axes, default=None
            One per region; ``None`` makes a new figure.

        Returns
        -------
        display : PartitionHistogramDisplay
            The object itself.
        """
        pyplot = import_optional(
            "matplotlib.pyplot", needed_by="PartitionHistogramDisplay.plot", extra="plot"
        )
        n_regions = len(self.counts)
        if axes is None:
            _, axes = pyplot.subplots(
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
