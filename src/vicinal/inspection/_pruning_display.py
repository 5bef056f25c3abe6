"""Picture of the choice of a pruned tree."""

import numpy as np
from sklearn.utils.validation import check_is_fitted

from vicinal._base import import_optional


class PruningPathDisplay:
    """Cross-validated error over the size of a pruned tree, with the tree that was chosen.

    Use :meth:`from_estimator`; the constructor takes the numbers themselves.

    Parameters
    ----------
    n_leaves : ndarray of shape (n_alphas,)
        Leaves of the pruned trees, falling.
    error : ndarray of shape (n_alphas,)
        Cross-validated error of each.
    error_se : ndarray of shape (n_alphas,)
        Its standard error.
    alphas : ndarray of shape (n_alphas,)
        Penalties per leaf, rising.
    ccp_alpha : float
        The chosen penalty.
    ylabel : str, default="cross-validated error"
        Name of the error.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the picture.
    figure_ : matplotlib Figure
        Figure of the axes.
    line_ : matplotlib Line2D
        Curve of the error.
    band_ : matplotlib collection
        One standard error about the curve.
    chosen_ : matplotlib Line2D
        Mark of the chosen tree.

    See Also
    --------
    vicinal.ensemble.PrunedTreeClassifier : Classification tree pruned by cross-validation.
    vicinal.ensemble.PrunedTreeRegressor : Regression tree pruned by cross-validation.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from vicinal.ensemble import PrunedTreeClassifier
    >>> from vicinal.inspection import PruningPathDisplay
    >>> model = PrunedTreeClassifier(random_state=0).fit(*load_breast_cancer(return_X_y=True))
    >>> display = PruningPathDisplay.from_estimator(model)
    >>> display.ax_.get_xlabel()
    'leaves'
    """

    def __init__(
        self, *, n_leaves, error, error_se, alphas, ccp_alpha, ylabel="cross-validated error"
    ):
        self.n_leaves = n_leaves
        self.error = error
        self.error_se = error_se
        self.alphas = alphas
        self.ccp_alpha = ccp_alpha
        self.ylabel = ylabel

    @classmethod
    def from_estimator(cls, estimator, *, ax=None):
        """Draw the path of a fitted pruned tree.

        Parameters
        ----------
        estimator : PrunedTreeClassifier or PrunedTreeRegressor
            Fitted model.
        ax : matplotlib Axes, default=None
            Axes to draw on; ``None`` makes a figure.

        Returns
        -------
        display : PruningPathDisplay
            The picture and its numbers.
        """
        check_is_fitted(estimator)
        return cls(
            n_leaves=estimator.n_leaves_,
            error=estimator.cv_error_,
            error_se=estimator.cv_error_se_,
            alphas=estimator.alphas_,
            ccp_alpha=estimator.ccp_alpha_,
        ).plot(ax=ax)

    def plot(self, ax=None, *, color="C0"):
        """Draw the curve.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on; ``None`` makes a figure.
        color : str, default="C0"
            Colour of curve and band.

        Returns
        -------
        display : PruningPathDisplay
            The same object, with its artists.
        """
        pyplot = import_optional(
            "matplotlib.pyplot", needed_by="PruningPathDisplay.plot", extra="plot"
        )
        if ax is None:
            _, ax = pyplot.subplots()
        low, high = self.error - self.error_se, self.error + self.error_se
        self.band_ = ax.fill_between(
            self.n_leaves,
            low,
            high,
            alpha=0.2,
            color=color,
            linewidth=0,
            label="± 1 standard error",
        )
        (self.line_,) = ax.plot(
            self.n_leaves, self.error, color=color, marker=".", label=self.ylabel
        )
        chosen = int(np.flatnonzero(self.alphas == self.ccp_alpha)[0])
        (self.chosen_,) = ax.plot(
            [self.n_leaves[chosen]],
            [self.error[chosen]],
            "o",
            color="C3",
            markersize=9,
            label=f"chosen: {self.n_leaves[chosen]} leaves",
        )
        ax.set(xscale="log", xlabel="leaves", ylabel=self.ylabel)
        ax.xaxis.set_major_formatter("{x:g}")
        ax.legend()
        self.ax_, self.figure_ = ax, ax.figure
        return self
