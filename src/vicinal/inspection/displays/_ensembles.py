"""Plots of ensembles: rounds of boosting, pruned trees, votes and errors of subspaces."""

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import mean_squared_error, zero_one_loss
from sklearn.utils.validation import check_is_fitted

from vicinal._base import documented
from vicinal.inspection.displays._display import DisplayMixin


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


@documented
class SubspaceVotesDisplay(DisplayMixin):
    """Share of the votes of every subspace for every class, beside the fused decision.

    Use :meth:`from_estimator`; the constructor takes the numbers themselves. For one row the bars
    show which subspaces were outvoted; for many rows, which ones lean to a class.

    Parameters
    ----------
    shares : ndarray of shape (n_subspaces + 1, n_classes)
        For every subspace the share of rows on which it votes for each class; the last line is
        the fusion.
    agreement : ndarray of shape (n_subspaces,)
        Share of rows on which a subspace agrees with the fusion.
    names : list of str
        Names of the subspaces.
    classes : ndarray of shape (n_classes,)
        The classes.

    Attributes
    ----------
    bars_ : list of matplotlib BarContainer
        One per class.

    See Also
    --------
    vicinal.subspace.SubspaceFusionClassifier : Fuses classifiers of many subspaces.
    SubspaceErrorDisplay : Errors of the subspaces and of their fusion.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import RidgeClassifier
    >>> from vicinal.inspection import SubspaceVotesDisplay
    >>> from vicinal.subspace import SubspaceFusionClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = SubspaceFusionClassifier(["random"], RidgeClassifier(), random_state=0).fit(X, y)
    >>> display = SubspaceVotesDisplay.from_estimator(model, X[:1])
    >>> display.shares.shape
    (6, 2)
    """

    def __init__(self, *, shares, agreement, names, classes):
        self.shares = shares
        self.agreement = agreement
        self.names = names
        self.classes = classes

    @classmethod
    def from_estimator(cls, estimator, X, *, ax=None):
        """Count the votes of a fitted fusion and draw them.

        Parameters
        ----------
        estimator : SubspaceFusionClassifier
            Fitted model.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows to vote on, one or many.
        """
        votes, fused = estimator.predict_subspaces(X), estimator.predict(X)
        ballots = np.column_stack([votes, fused])
        shares = (ballots[:, :, None] == estimator.classes_).mean(axis=0)
        return cls(
            shares=shares,
            agreement=(votes == fused[:, None]).mean(axis=0),
            names=list(estimator.subspace_names_),
            classes=estimator.classes_,
        ).plot(ax=ax)

    def plot(self, ax=None, *, cmap="viridis"):
        """Draw one bar per subspace, the fusion below.

        Parameters
        ----------
        cmap : str, default="viridis"
            Colours of the classes.
        """
        height = 0.3 * len(self.names) + 1.6
        ax = self._axes(ax, figsize=(6.4, height), layout="constrained")
        shades = self._matplotlib("pyplot").get_cmap(cmap)
        colors = shades(np.linspace(0.15, 0.85, len(self.classes)))
        places = np.r_[np.arange(len(self.names)), len(self.names) + 0.5]
        left = np.zeros(len(places))
        self.bars_ = []
        for label, share, color in zip(self.classes, self.shares.T, colors, strict=True):
            self.bars_.append(ax.barh(places, share, left=left, color=color, label=str(label)))
            left = left + share
        ax.set_yticks(places, [*self.names, "fused"])
        ax.invert_yaxis()
        ax.set_xlim(0, 1)
        ax.set_xlabel("share of votes")
        ax.legend(title="class", loc="center left", bbox_to_anchor=(1.0, 0.5))
        return self


@documented
class SubspaceErrorDisplay(DisplayMixin):
    """Error of every subspace by itself, grouped by decomposition, and of their fusion.

    Use :meth:`from_estimator`; the constructor takes the numbers themselves.

    Parameters
    ----------
    errors : ndarray of shape (n_subspaces,)
        Error of every local model.
    fused : float
        Error of the fusion.
    names : list of str
        Names of the subspaces; the word before the number names the decomposition.
    ylabel : str, default="error rate"
        Name of the error.

    Attributes
    ----------
    points_ : list of matplotlib collections
        One per decomposition.
    line_ : matplotlib Line2D
        Error of the fusion.

    See Also
    --------
    vicinal.subspace.SubspaceFusionClassifier : Fuses classifiers of many subspaces.
    SubspaceVotesDisplay : Votes of the subspaces.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import RidgeClassifier
    >>> from vicinal.inspection import SubspaceErrorDisplay
    >>> from vicinal.subspace import SubspaceFusionClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = SubspaceFusionClassifier(["random"], RidgeClassifier(), random_state=0)
    >>> model = model.fit(X[:400], y[:400])
    >>> display = SubspaceErrorDisplay.from_estimator(model, X[400:], y[400:])
    >>> bool(display.fused <= display.errors.max())
    True
    """

    def __init__(self, *, errors, fused, names, ylabel="error rate"):
        self.errors = errors
        self.fused = fused
        self.names = names
        self.ylabel = ylabel

    @classmethod
    def from_estimator(cls, estimator, X, y, *, ax=None):
        """Measure a fitted fusion and its parts on held-out rows and draw the errors.

        Parameters
        ----------
        estimator : SubspaceFusionClassifier or SubspaceFusionRegressor
            Fitted model.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Rows that were not used to fit.
        y : array-like of shape (n_samples,)
            Their targets.

        Returns
        -------
        display : SubspaceErrorDisplay
            The picture and its numbers: error rates, or root mean squared errors.
        """
        parts, fused, y = estimator.predict_subspaces(X), estimator.predict(X), np.asarray(y)
        if hasattr(estimator, "classes_"):
            errors, own = (parts != y[:, None]).mean(axis=0), float((fused != y).mean())
            label = "error rate"
        else:
            errors = np.sqrt(((parts - y[:, None]) ** 2).mean(axis=0))
            own, label = float(np.sqrt(((fused - y) ** 2).mean())), "root mean squared error"
        return cls(
            errors=errors, fused=own, names=list(estimator.subspace_names_), ylabel=label
        ).plot(ax=ax)

    def plot(self, ax=None, *, color="C0"):
        """Draw one point per subspace in a column per decomposition, and the fusion as a line.

        Parameters
        ----------
        color : str, default="C0"
            Colour of the points.
        """
        ax = self._axes(ax, layout="constrained")
        # "cholesky 3" belongs to "cholesky"; the full space stands for itself.
        owners = [
            name.rpartition(" ")[0] if name.rpartition(" ")[2].isdigit() else name
            for name in self.names
        ]
        groups = list(dict.fromkeys(owners))
        self.points_ = []
        for place, group in enumerate(groups):
            own = self.errors[[owner == group for owner in owners]]
            self.points_.append(ax.scatter(np.full(len(own), place), own, color=color, alpha=0.7))
        self.line_ = ax.axhline(self.fused, color="C3", linestyle="--", label="fused")
        ax.set_xticks(range(len(groups)), groups, rotation=20, ha="right")
        ax.set_ylabel(self.ylabel)
        ax.set_ylim(bottom=0)
        ax.legend()
        return self
