"""How the fit of a partition went."""

from sklearn.utils.validation import check_is_fitted

from vicinal._base import import_optional


class PartitionHistoryDisplay:
    """Training curve of each start of a partition model.

    Make it with :meth:`from_estimator`. Hard cascades show their training error after every
    sweep, soft ones their objective at every iteration, surrogate ones after every block step.

    Parameters
    ----------
    curves : list of ndarray
        One curve per start, the best start first.
    ylabel : str
        What is shown.
    xlabel : str
        Unit of the steps.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the last plot.
    lines_ : list of matplotlib Line2D
        One per start.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from vicinal.inspection import PartitionHistoryDisplay
    >>> from vicinal.partition import SpacePartitioningClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SpacePartitioningClassifier(n_regions=2, n_init=4, random_state=0).fit(X, y)
    >>> len(PartitionHistoryDisplay.from_estimator(model).lines_)
    4
    """

    def __init__(self, curves, *, ylabel, xlabel):
        self.curves = curves
        self.ylabel = ylabel
        self.xlabel = xlabel

    @classmethod
    def from_estimator(cls, estimator, *, ax=None):
        """Take the recorded curves of a fitted model and draw them.

        Parameters
        ----------
        estimator : SpacePartitioningClassifier, SpacePartitioningRegressor or \
                SurrogatePartitionClassifier
            Fitted model; starts that it did not keep are not shown.
        ax : matplotlib Axes, default=None
            Where to draw; ``None`` makes a new figure.

        Returns
        -------
        display : PartitionHistoryDisplay
            The drawn curves with their numbers.
        """
        check_is_fitted(estimator)
        if hasattr(estimator, "objectives_"):
            display = cls(estimator.objectives_, ylabel="objective", xlabel="block step")
        elif "objective" in estimator.training_history_:
            curves = [cascade.history["objective"] for cascade in estimator.restarts_]
            display = cls(curves, ylabel="objective", xlabel="iteration")
        else:
            curves = [cascade.history["error"] for cascade in estimator.restarts_]
            display = cls(curves, ylabel="training error", xlabel="sweep")
        return display.plot(ax=ax)

    def plot(self, ax=None):
        """Draw the curves, the best start in full colour.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw; ``None`` makes a new figure.

        Returns
        -------
        display : PartitionHistoryDisplay
            The object itself.
        """
        pyplot = import_optional(
            "matplotlib.pyplot", needed_by="PartitionHistoryDisplay.plot", extra="plot"
        )
        if ax is None:
            _, ax = pyplot.subplots()
        self.lines_ = []
        for k, curve in reversed(list(enumerate(self.curves))):
            steps = range(1, len(curve) + 1)
            style = {"color": "C0", "lw": 2.0} if k == 0 else {"color": "0.6", "lw": 0.8}
            (line,) = ax.plot(steps, curve, **style)
            self.lines_.insert(0, line)
        ax.set(xlabel=self.xlabel, ylabel=self.ylabel)
        self.ax_ = ax
        return self
