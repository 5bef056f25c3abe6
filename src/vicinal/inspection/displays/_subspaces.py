"""Plots of subspace fusion: votes and errors of the subspaces."""

from dataclasses import dataclass

import numpy as np

from vicinal._base import documented
from vicinal.inspection.displays._display import DisplayMixin


@documented
@dataclass(eq=False, kw_only=True)
class SubspaceVotesDisplay(DisplayMixin):
    """Share of the votes of every subspace for every class, and of the fused decision.

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

    shares: np.ndarray
    agreement: np.ndarray
    names: list[str]
    classes: np.ndarray

    @classmethod
    def from_estimator(cls, estimator, X, *, ax=None):
        """Count the votes of a fitted fusion and plot them.

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
        """Plot one bar per subspace, the fusion below.

        Parameters
        ----------
        cmap : str, default="viridis"
            Colours of the classes.
        """
        height = 0.3 * len(self.names) + 1.6
        ax = self._axes(ax, figsize=(6.4, height), layout="constrained")
        shades = self._matplotlib("pyplot").get_cmap(cmap)
        colors = shades(np.linspace(0.15, 0.85, len(self.classes)))
        positions = np.r_[np.arange(len(self.names)), len(self.names) + 0.5]
        left = np.zeros(len(positions))
        self.bars_ = []
        for label, share, color in zip(self.classes, self.shares.T, colors, strict=True):
            self.bars_.append(ax.barh(positions, share, left=left, color=color, label=str(label)))
            left = left + share
        ax.set_yticks(positions, [*self.names, "fused"])
        ax.invert_yaxis()
        ax.set_xlim(0, 1)
        ax.set_xlabel("share of votes")
        ax.legend(title="class", loc="center left", bbox_to_anchor=(1.0, 0.5))
        return self


@documented
@dataclass(eq=False, kw_only=True)
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

    errors: np.ndarray
    fused: float
    names: list[str]
    ylabel: str = "error rate"

    @classmethod
    def from_estimator(cls, estimator, X, y, *, ax=None):
        """Measure a fitted fusion and its parts on held-out rows and plot the errors.

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
        """Plot one point per subspace in a column per decomposition, and the fusion as a line.

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
        for position, group in enumerate(groups):
            own = self.errors[[owner == group for owner in owners]]
            self.points_.append(
                ax.scatter(np.full(len(own), position), own, color=color, alpha=0.7)
            )
        self.line_ = ax.axhline(self.fused, color="C3", linestyle="--", label="fused")
        ax.set_xticks(range(len(groups)), groups, rotation=20, ha="right")
        ax.set_ylabel(self.ylabel)
        ax.set_ylim(bottom=0)
        ax.legend()
        return self
