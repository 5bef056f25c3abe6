"""Curves, bars and histograms: steps of a fit, settings, regions, subspaces, distances."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.base import is_classifier
from sklearn.metrics import mean_squared_error, zero_one_loss
from sklearn.utils.validation import check_is_fitted

from vicinal._base import documented
from vicinal.inspection.displays._plane import DisplayMixin


@documented
@dataclass(eq=False, kw_only=True)
class TrainingCurveDisplay(DisplayMixin):
    """Error or objective after each step of a fit: boosting rounds, sweeps of a partition.

    Use :meth:`from_estimator`; the constructor takes the numbers themselves.

    Parameters
    ----------
    curves : dict of str to ndarray
        Values after each step, by name; for several starts, the best one first.
    ylabel : str
        Name of the values.
    xlabel : str
        Name of a step.

    Attributes
    ----------
    lines_ : dict of str to matplotlib Line2D
        Curves by name.

    See Also
    --------
    vicinal.ensemble.FunctionalGradientBoostingClassifier : Boosting of any regressor.
    vicinal.ensemble.RealAdaBoostClassifier : Boosting of class probabilities.
    vicinal.partition.SpacePartitioningClassifier : Regions with a model each.

    Examples
    --------
    >>> from sklearn.datasets import make_friedman1
    >>> from vicinal.ensemble import FunctionalGradientBoostingRegressor
    >>> from vicinal.inspection import TrainingCurveDisplay
    >>> X, y = make_friedman1(n_samples=200, noise=1.0, random_state=0)
    >>> model = FunctionalGradientBoostingRegressor(n_estimators=20).fit(X[:100], y[:100])
    >>> display = TrainingCurveDisplay.from_estimator(model, X[100:], y[100:])
    >>> display.curves["given rows"].shape
    (20,)
    """

    curves: dict[str, np.ndarray]
    ylabel: str
    xlabel: str

    @classmethod
    def from_estimator(cls, estimator, X=None, y=None, *, ax=None):
        """Plot the steps of a fitted model.

        Parameters
        ----------
        estimator : estimator
            Fitted model of :mod:`vicinal.partition`, or a boosted model. A partition shows one
            curve per stored start.
        X : array-like of shape (n_samples, n_features), default=None
            Rows on which the error of a boosted model is computed after each round; ``None`` uses
            the curves that the fit recorded.
        y : array-like of shape (n_samples,), default=None
            Their targets.
        """
        check_is_fitted(estimator)
        if X is None:
            curves, ylabel, xlabel = _recorded(estimator)
        else:
            error, ylabel, xlabel = mean_squared_error, "mean squared error", "rounds"
            if is_classifier(estimator):
                error, ylabel = zero_one_loss, "misclassification rate"
            staged = estimator.staged_predict(X)
            curves = {"given rows": np.array([error(y, predicted) for predicted in staged])}
        return cls(curves=curves, ylabel=ylabel, xlabel=xlabel).plot(ax=ax)

    def plot(self, ax=None, *, label=None):
        """Plot the curves; of several starts, the best in colour and the others in grey.

        Parameters
        ----------
        label : str, default=None
            Name of the only curve in the legend; ``None`` uses the names in ``curves``.
        """
        ax = self._axes(ax)
        self.lines_ = {}
        for k, (name, values) in enumerate(self.curves.items()):
            is_other = name.startswith("start") and k > 0
            style = {"color": "0.6", "lw": 0.8, "zorder": 1} if is_other else {}
            text = label if label is not None and len(self.curves) == 1 else name
            (self.lines_[name],) = ax.plot(
                np.arange(1, len(values) + 1), values, label=None if is_other else text, **style
            )
        ax.set(xlabel=self.xlabel, ylabel=self.ylabel)
        ax.legend()
        return self


def _recorded(estimator):
    """Return the curves that a fit recorded, their name and the name of a step."""
    if hasattr(estimator, "train_score_"):
        curves = {"training rows": estimator.train_score_}
        if estimator.validation_score_ is not None:
            curves["held-out rows"] = estimator.validation_score_
        return curves, "mean loss", "rounds"
    if hasattr(estimator, "objectives_"):
        starts, ylabel, xlabel = estimator.objectives_, "objective", "block step"
    elif "objective" in getattr(estimator, "training_history_", {}):
        starts = [cascade.history["objective"] for cascade in estimator.restarts_]
        ylabel, xlabel = "objective", "iteration"
    elif hasattr(estimator, "restarts_"):
        starts = [cascade.history["error"] for cascade in estimator.restarts_]
        ylabel, xlabel = "training error", "sweep"
    else:
        raise ValueError(
            f"{type(estimator).__name__} stores no training curve; pass X and y to compute the "
            "error after each step on them."
        )
    names = ["start 1 (best)", *(f"start {k}" for k in range(2, len(starts) + 1))]
    return dict(zip(names, starts, strict=True)), ylabel, xlabel


@documented
@dataclass(eq=False, kw_only=True)
class SelectionCurveDisplay(DisplayMixin):
    """Held-out error of every setting that a fit compared, with the selected one.

    Use :meth:`from_estimator`; the constructor takes the numbers themselves. For a pruned tree the
    horizontal axis is the number of leaves, for a local model the size of the neighbourhood.

    Parameters
    ----------
    curves : dict of str to tuple of ndarray
        Size and error of the settings, by name; for a pruned tree also the standard errors.
    selected : tuple of (float, float)
        Size and error of the selected setting.
    xlabel, ylabel : str
        Names of size and error.

    Attributes
    ----------
    lines_ : list of matplotlib Line2D
        Error by size, one line per curve.
    band_ : matplotlib collection or None
        One standard error about the curve, where it is known.
    point_ : matplotlib Line2D
        The selected setting.

    See Also
    --------
    vicinal.ensemble.PrunedTreeClassifier : Classification tree pruned by cross-validation.
    vicinal.local.LocalClassifier : Local model; stores the compared settings in ``selection_``.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from vicinal.ensemble import PrunedTreeClassifier
    >>> from vicinal.inspection import SelectionCurveDisplay
    >>> model = PrunedTreeClassifier(random_state=0).fit(*load_breast_cancer(return_X_y=True))
    >>> display = SelectionCurveDisplay.from_estimator(model)
    >>> display.ax_.get_xlabel()
    'leaves'
    """

    curves: dict[str, tuple[np.ndarray, ...]]
    selected: tuple[float, float]
    xlabel: str
    ylabel: str

    @classmethod
    def from_estimator(cls, estimator, *, ax=None):
        """Plot the settings that the fit of a model compared.

        Parameters
        ----------
        estimator : PrunedTreeClassifier, PrunedTreeRegressor or a local model
            Fitted model.
        """
        check_is_fitted(estimator)
        if hasattr(estimator, "cv_error_se_"):
            leaves, error = estimator.n_leaves_, estimator.cv_error_
            chosen = int(np.flatnonzero(estimator.alphas_ == estimator.ccp_alpha_)[0])
            return cls(
                curves={"cross-validated error": (leaves, error, estimator.cv_error_se_)},
                selected=(float(leaves[chosen]), float(error[chosen])),
                xlabel="leaves",
                ylabel="cross-validated error",
            ).plot(ax=ax)
        path = getattr(estimator, "selection_", None)
        if path is None:
            raise ValueError(
                f"{type(estimator).__name__} compared no settings, because all parameters were "
                'given; fit it with n_neighbors="auto" or alpha="auto".'
            )
        settings = zip(path["metric"], path["degree"], path["alpha"], strict=True)
        terms = {2: ", quadratic"}
        names = np.array([f"{m}{terms.get(d, '')}, alpha = {a:g}" for m, d, a in settings])
        curves = {
            name: (path["size"][names == name], path["loss"][names == name])
            for name in dict.fromkeys(names.tolist())
        }
        size = estimator.n_neighbors_ or estimator.bandwidth_ or path["size"][0]
        return cls(
            curves=curves,
            selected=(float(size), float(estimator.loo_score_)),
            xlabel="size of the neighbourhood",
            ylabel="leave-one-out loss",
        ).plot(ax=ax)

    def plot(self, ax=None):
        """Plot error by size."""
        ax = self._axes(ax, figsize=(8, 4.5), layout="constrained")
        self.lines_, self.band_ = [], None
        for name, (size, error, *spread) in self.curves.items():
            (line,) = ax.plot(size, error, "o-", markersize=3, label=name)
            self.lines_.append(line)
            if spread:
                low, high = error - spread[0], error + spread[0]
                self.band_ = ax.fill_between(
                    size, low, high, alpha=0.2, linewidth=0, label="± 1 standard error"
                )
        text = f"selected: {self.selected[0]:g}"
        (self.point_,) = ax.plot(*self.selected, "k*", markersize=13, label=text)
        ax.set(xscale="log", xlabel=self.xlabel, ylabel=self.ylabel)
        ax.xaxis.set_major_formatter("{x:g}")
        ax.legend(fontsize="small")
        return self


@documented
@dataclass(eq=False)
class PartitionHistogramDisplay(DisplayMixin):
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

    counts: np.ndarray
    classes: np.ndarray

    @classmethod
    def from_estimator(cls, estimator, X, y, *, axes=None):
        """Count the classes of labelled samples in each region and plot the counts.

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
        """
        check_is_fitted(estimator)
        return cls(estimator.region_histogram(X, y), estimator.classes_).plot(axes=axes)

    def plot(self, axes=None):
        """Plot one histogram per region.

        Parameters
        ----------
        axes : sequence of matplotlib Axes, default=None
            One per region; ``None`` makes a new figure.
        """
        n_regions = len(self.counts)
        if axes is None:
            options = {"figsize": (1 + 2.2 * n_regions, 2.6), "layout": "constrained"}
            figure = self._matplotlib("pyplot").figure(**options)
            axes = figure.subplots(1, n_regions, sharey=True, squeeze=False)
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
        ax.set(xlim=(0, 1), xlabel="share of votes")
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
            at = np.full(len(own), position)
            self.points_.append(ax.scatter(at, own, color=color, alpha=0.7))
        self.line_ = ax.axhline(self.fused, color="C3", linestyle="--", label="fused")
        ax.set_xticks(range(len(groups)), groups, rotation=20, ha="right")
        ax.set(ylabel=self.ylabel, ylim=(0, None))
        ax.legend()
        return self


@documented
@dataclass(eq=False)
class CounterfactualDisplay(DisplayMixin):
    """The changes that lead from a row to its counterfactual, as bars.

    Parameters
    ----------
    changes : ndarray of shape (n_features,)
        What is added to the row, in the unit of the bars.
    values : list of tuple
        (before, after) of each column.
    feature_names : sequence of str
        Names of the columns.
    title : str
        What changes into what.

    Attributes
    ----------
    bars_ : matplotlib BarContainer
        One bar per column that changes.

    See Also
    --------
    vicinal.surface.DecisionSurface.counterfactual : Where the changes come from.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> from vicinal.inspection import CounterfactualDisplay
    >>> from vicinal.surface import DecisionSurface
    >>> X, y = load_iris(return_X_y=True, as_frame=True)
    >>> surface = DecisionSurface(LogisticRegression(max_iter=500), random_state=0).fit(X, y)
    >>> found = surface.counterfactual(X[:3], sparsity=0.5)
    >>> display = CounterfactualDisplay.from_counterfactuals(found, row=0)
    >>> len(display.bars_) <= 4
    True
    """

    changes: np.ndarray
    values: list[tuple]
    feature_names: Sequence[str]
    title: str = ""

    @classmethod
    def from_counterfactuals(cls, counterfactuals, row=0, *, scale=None, ax=None, **plot_options):
        """Plot the changes of one row.

        Parameters
        ----------
        counterfactuals : object
            What ``DecisionSurface.counterfactual`` returned.
        row : int, default=0
            Number of the row.
        scale : array-like of shape (n_features,), default=None
            Unit of each column, for example its standard deviation, so that bars can be compared.
        """
        if not counterfactuals.found[row]:
            raise ValueError(f"No counterfactual was found for row {row}, so nothing changes.")
        change = np.asarray(counterfactuals.changes[row], dtype=np.float64)
        unit = np.ones(len(change)) if scale is None else np.asarray(scale, dtype=np.float64)
        values = list(zip(counterfactuals.rows[row], counterfactuals.points[row], strict=True))
        title = (
            f"{int((change != 0).sum())} changes give {counterfactuals.labels[row]!s}, "
            f"distance {counterfactuals.distances[row]:.3g}"
        )
        display = cls(change / unit, values, counterfactuals.feature_names, title)
        return display.plot(ax=ax, **plot_options)

    def plot(self, ax=None, *, max_bars=12):
        """Plot the largest changes.

        Parameters
        ----------
        max_bars : int, default=12
            Number of columns shown.
        """
        ax = self._axes(ax, layout="constrained")
        order = np.argsort(-np.abs(self.changes), kind="stable")[:max_bars]
        order = order[self.changes[order] != 0][::-1]
        colors = np.where(self.changes[order] > 0, "tab:red", "tab:blue")
        names = [
            f"{self.feature_names[j]}\n{self.values[j][0]:.4g} → {self.values[j][1]:.4g}"
            for j in order
        ]
        self.bars_ = ax.barh(np.arange(len(order)), self.changes[order], color=colors)
        ax.set_yticks(np.arange(len(order)), names)
        ax.axvline(0.0, color="black", linewidth=0.8)
        ax.set(xlabel="change", title=self.title)
        return self


@documented
@dataclass(eq=False)
class SurfaceDistanceDisplay(DisplayMixin):
    """Histogram of the signed distances of rows to the surface, one colour per class.

    Parameters
    ----------
    distances : ndarray of shape (n_samples,)
        Signed distances.
    y : ndarray of shape (n_samples,)
        Labels.

    Attributes
    ----------
    bars_ : list
        Bars of each class.

    See Also
    --------
    vicinal.surface.DecisionSurface.distance : Where the distances come from.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.svm import SVC
    >>> from vicinal.inspection import SurfaceDistanceDisplay
    >>> from vicinal.surface import DecisionSurface
    >>> X, y = make_moons(60, noise=0.1, random_state=0)
    >>> surface = DecisionSurface(SVC(), random_state=0).fit(X, y)
    >>> display = SurfaceDistanceDisplay.from_estimator(surface, X, y)
    >>> len(display.bars_)
    2
    """

    distances: np.ndarray
    y: np.ndarray

    @classmethod
    def from_estimator(cls, estimator, X, y, *, label=None, ax=None, **plot_options):
        """Measure rows and plot the histogram.

        Parameters
        ----------
        estimator : DecisionSurface
            Fitted surface.
        X : array-like of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Their labels.
        label : object, default=None
            Class whose region is measured to, see ``DecisionSurface.distance``.
        """
        display = cls(estimator.distance(X, label=label), np.asarray(y))
        return display.plot(ax=ax, **plot_options)

    def plot(self, ax=None, *, bins=30):
        """Plot one histogram per class, and the surface at 0.

        Parameters
        ----------
        bins : int, default=30
            Number of bins.
        """
        ax = self._axes(ax)
        finite = np.isfinite(self.distances)
        edges = np.histogram_bin_edges(self.distances[finite], bins)
        self.bars_ = []
        for label in np.unique(self.y):
            chosen = self.distances[finite & (self.y == label)]
            self.bars_.append(ax.hist(chosen, bins=edges, alpha=0.6, label=str(label))[2])
        ax.axvline(0.0, color="black", linewidth=1.0)
        ax.set(xlabel="signed distance to the surface", ylabel="rows")
        ax.legend(title="class")
        return self
