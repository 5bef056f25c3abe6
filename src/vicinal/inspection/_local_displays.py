"""Picture of the automatic choice of a local model."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from vicinal.inspection._display import DisplayMixin


class LocalChoiceDisplay(DisplayMixin):
    """Held-out loss of every model that the automatic choice tried, and the weight it was given.

    Use :meth:`from_estimator`; the constructor takes the numbers themselves.

    Parameters
    ----------
    names : sequence of str
        What was tried.
    loss : ndarray of shape (n_models,)
        Loss on rows that the model did not see.
    weight : ndarray of shape (n_models,)
        Share in the stack.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes of the last plot.
    figure_ : matplotlib Figure
        Figure of these axes.
    bars_ : matplotlib container
        Weights.
    points_ : matplotlib Line2D
        Losses.

    See Also
    --------
    vicinal.local.LocalClassifier : Keeps the path of its choice in ``selection_``.
    vicinal.local.LocalRegressor : The same for numbers.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from vicinal.inspection import LocalChoiceDisplay
    >>> from vicinal.local import LocalClassifier
    >>> model = LocalClassifier(random_state=0).fit(*load_wine(return_X_y=True))
    >>> display = LocalChoiceDisplay.from_estimator(model)
    >>> display.names[0], round(float(display.weight.sum()), 6)
    ('standardized, k = 160', 1.0)
    """

    def __init__(self, *, names, loss, weight):
        self.names = names
        self.loss = loss
        self.weight = weight

    @classmethod
    def from_estimator(cls, estimator, *, ax=None):
        """Draw the path of a fitted local model's choice.

        Parameters
        ----------
        estimator : LocalClassifier or LocalRegressor
            Fitted with ``metric="auto"``.
        ax : matplotlib Axes, default=None
            Axes to draw on; ``None`` makes a figure.

        Returns
        -------
        display : LocalChoiceDisplay
            The picture and its numbers.
        """
        check_is_fitted(estimator)
        path = getattr(estimator, "selection_", {})
        if "weight" not in path:
            raise ValueError(
                f"{estimator!r} has no path of a choice over kinds of models; fit it with "
                'metric="auto" on at least 30 rows.'
            )
        names = [
            _name(*row) for row in zip(path["metric"], path["degree"], path["size"], strict=True)
        ]
        return cls(names=names, loss=path["loss"], weight=path["weight"]).plot(ax=ax)

    def plot(self, ax=None, *, color="C0"):
        """Draw losses as points and weights as bars, in the order of the climb.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; ``None`` makes a figure.
        color : str, default="C0"
            Colour of the bars.

        Returns
        -------
        display : LocalChoiceDisplay
            The same object, with its artists.
        """
        height = 1.2 + 0.28 * len(self.names)
        ax = self._axes(ax, figsize=(8, height), layout="constrained")
        place = np.arange(len(self.names))[::-1]
        self.bars_ = ax.barh(place, self.weight, height=0.7, color=color, alpha=0.35)
        ax.set(yticks=place, yticklabels=self.names, xlim=(0, 1), xlabel="weight in the stack")
        ax.xaxis.label.set_color(color)
        losses = ax.twiny()
        (self.points_,) = losses.plot(self.loss, place, "o", color="C3", markersize=5)
        losses.set_xlabel("loss on held-out rows")
        losses.xaxis.label.set_color("C3")
        losses.set_xlim(left=0.0)
        return self


def _name(metric: str, degree: int, size: float) -> str:
    if not np.isfinite(size):
        return f"{metric}, all rows"
    if "forest" in metric:
        return f"{metric}, {'votes' if degree == 0 else 'linear'}"
    return f"{metric}, k = {size:g}" + (", quadratic" if degree == 2 else "")
