"""Picture of the choice of a local model."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from vicinal._base import documented
from vicinal.inspection._display import DisplayMixin


@documented
class LocalChoiceDisplay(DisplayMixin):
    """Leave-one-out loss of every size and penalty that a local model compared.

    Use :meth:`from_estimator`; the constructor takes the numbers themselves.

    Parameters
    ----------
    names : sequence of str
        Metric, degree and penalty of each setting.
    size : ndarray of shape (n_settings,)
        Its number of neighbours, or bandwidth.
    loss : ndarray of shape (n_settings,)
        Loss on rows that the model did not see.
    chosen : tuple of (float, float)
        Size and loss of the setting in use.

    Attributes
    ----------
    lines_ : list of matplotlib Line2D
        Loss by size, one line per metric, degree and penalty.
    point_ : matplotlib Line2D
        The setting in use.

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
    >>> display.names[0], len(display.lines_)
    ('standardized, alpha = 0.03', 6)
    """

    def __init__(self, *, names, size, loss, chosen):
        self.names = names
        self.size = size
        self.loss = loss
        self.chosen = chosen

    @classmethod
    def from_estimator(cls, estimator, *, ax=None):
        """Draw the path of a fitted local model's choice.

        Parameters
        ----------
        estimator : LocalClassifier, LocalRegressor or another local model
            Fitted with something left open.
        """
        check_is_fitted(estimator)
        path = getattr(estimator, "selection_", None)
        if path is None:
            raise ValueError(
                f"{estimator!r} has no path of a choice, because nothing was left open; fit it "
                'with n_neighbors="auto" or alpha="auto".'
            )
        settings = zip(path["metric"], path["degree"], path["alpha"], strict=True)
        names = [_name(*setting) for setting in settings]
        in_use = estimator.n_neighbors_ or estimator.bandwidth_ or path["size"][0]
        chosen = (float(in_use), float(estimator.loo_score_))
        return cls(names=names, size=path["size"], loss=path["loss"], chosen=chosen).plot(ax=ax)

    def plot(self, ax=None):
        """Draw the loss by size."""
        ax = self._axes(ax, figsize=(8, 4.5), layout="constrained")
        names = np.array(self.names)
        self.lines_ = []
        for name in dict.fromkeys(self.names):
            these = names == name
            (line,) = ax.plot(self.size[these], self.loss[these], "o-", markersize=3, label=name)
            self.lines_.append(line)
        (self.point_,) = ax.plot(*self.chosen, "k*", markersize=13, label="in use")
        ax.set(xscale="log", xlabel="size of the neighbourhood", ylabel="loss of rows left out")
        ax.legend(fontsize="small")
        return self


def _name(metric: str, degree: int, alpha: float) -> str:
    return f"{metric}, " + ("quadratic, " if degree == 2 else "") + f"alpha = {alpha:g}"
