"""Curves of the steps of a fit, and of the settings that it compared."""

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
