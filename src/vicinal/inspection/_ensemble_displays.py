"""Pictures of ensembles: loss over the rounds of boosting, error over the size of a pruned tree."""

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import mean_squared_error, zero_one_loss
from sklearn.utils.validation import check_is_fitted

from vicinal._base import documented
from vicinal.inspection._display import DisplayMixin


@documented
class BoostingCurveDisplay(DisplayMixin):
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
        label : str, default=None
            Name of the only curve in the legend; ``None`` uses the names in ``curves``.
        """
        ax = self._axes(ax)
        self.lines_ = {}
        for name, values in self.curves.items():
            rounds = np.arange(1, len(values) + 1)
            text = label if label is not None and len(self.curves) == 1 else name
            (self.lines_[name],) = ax.plot(rounds, values, label=text)
        ax.set(xlabel="rounds", ylabel=self.ylabel)
        ax.legend()
        return self


@documented
class PruningPathDisplay(DisplayMixin):
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
        color : str, default="C0"
            Colour of curve and band.
        """
        ax = self._axes(ax)
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
        return self
