"""Picture of a boosted model's loss or score over its rounds."""

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import mean_squared_error, zero_one_loss
from sklearn.utils.validation import check_is_fitted

from vicinal._base import import_optional


class BoostingCurveDisplay:
    """Error of a boosted model after each round, on rows given or on those it was fitted to.

    Use :meth:`from_estimator`; the constructor takes the numbers themselves.

    Parameters
    ----------
    curves : dict of str to ndarray
        Values after each round, by name.
    ylabel : str
        Name of the values.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the picture.
    figure_ : matplotlib Figure
        Figure of the axes.
    lines_ : dict of str to matplotlib Line2D
        Curves by name.

    See Also
    --------
    vicinal.ensemble.FunctionalGradientBoostingClassifier : Boosting of any regressor.
    vicinal.ensemble.RealAdaBoostClassifier : Boosting of class probabilities.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from vicinal.ensemble import FunctionalGradientBoostingRegressor
    >>> from vicinal.inspection import BoostingCurveDisplay
    >>> X, y = make_friedman1(n_samples=200, noise=1.0, random_state=0)
    >>> model = FunctionalGradientBoostingRegressor(n_estimators=20).fit(X[:100], y[:100])
    >>> display = BoostingCurveDisplay.from_estimator(model, X[100:], y[100:])
    >>> display.curves["given rows"].shape
    (20,)
    """

    def __init__(self, *, curves, ylabel):
        self.curves = curves
        self.ylabel = ylabel

    @classmethod
    def from_estimator(cls, estimator, X=None, y=None, *, ax=None):
        """Draw the rounds of a fitted boosted model.

        Parameters
        ----------
        estimator : estimator with ``staged_predict``
            Fitted model.
        X : array-like of shape (n_samples, n_features), default=None
            Rows to judge each round by; ``None`` draws the training loss (and the held-out one).
        y : array-like of shape (n_samples,), default=None
            Their targets.
        ax : matplotlib Axes, default=None
            Axes to draw on; ``None`` makes a figure.

        Returns
        -------
        display : BoostingCurveDisplay
            The picture and its numbers.
        """
        check_is_fitted(estimator)
        if X is None:
            if not hasattr(estimator, "train_score_"):
                raise ValueError(
                    f"{type(estimator).__name__} keeps no training curve; give X and y to judge "
                    "its rounds by."
                )
            curves = {"training rows": estimator.train_score_}
            if estimator.validation_score_ is not None:
                curves["held-out rows"] = estimator.validation_score_
            return cls(curves=curves, ylabel="mean loss").plot(ax=ax)
        error = zero_one_loss if is_classifier(estimator) else mean_squared_error
        values = np.array([error(y, predicted) for predicted in estimator.staged_predict(X)])
        name = "misclassification rate" if is_classifier(estimator) else "mean squared error"
        return cls(curves={"given rows": values}, ylabel=name).plot(ax=ax)

    def plot(self, ax=None, *, label=None):
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; ``None`` makes a figure.
        label : str, default=None
            Name of the only curve in the legend; ``None`` uses the names in ``curves``.

        Returns
        -------
        display : BoostingCurveDisplay
            The same object, with its artists.
        """
        pyplot = import_optional(
            "matplotlib.pyplot", needed_by="BoostingCurveDisplay.plot", extra="plot"
        )
        if ax is None:
            _, ax = pyplot.subplots()
        self.lines_ = {}
        for name, values in self.curves.items():
            rounds = np.arange(1, len(values) + 1)
            text = label if label is not None and len(self.curves) == 1 else name
            (self.lines_[name],) = ax.plot(rounds, values, label=text)
        ax.set(xlabel="rounds", ylabel=self.ylabel)
        ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self
