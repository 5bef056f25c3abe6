"""The end of the ladder: one model for all queries, linear or of boosted trees."""

from dataclasses import dataclass

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from vicinal._base import saved
from vicinal._kernels.linear._logistic import fit_logistic
from vicinal._kernels.linear._ridge_path import ridge_path
from vicinal.local._coordinates import Coordinates


@saved()
@dataclass(frozen=True)
class GlobalModel:
    """Scores ``level + (coordinates(X) - centre) @ coef.T`` of one fit to all rows.

    Attributes
    ----------
    solver : {"ridge", "logistic"}
        What was fitted.
    metric : str
        Name of the coordinates.
    alpha : float
        Penalty: relative to the scatter for ridge, absolute for logistic.
    coordinates : Coordinates
        Map of the columns.
    centre, level, coef : ndarray
        The linear model.
    """

    solver: str
    metric: str
    alpha: float
    coordinates: Coordinates
    centre: np.ndarray
    level: np.ndarray
    coef: np.ndarray

    def scores(self, X) -> np.ndarray:
        """Return the scores of queries, (n_queries, n_outputs)."""
        return self.level + (self.coordinates(X) - self.centre) @ self.coef.T

    def slopes(self, X) -> np.ndarray:
        """Return their gradients with respect to the columns of X."""
        slopes = np.broadcast_to(self.coef, (X.shape[0], *self.coef.shape))
        return self.coordinates.pull_back(slopes, X)


@saved()
@dataclass(frozen=True)
class BoostedModel:
    """Answers of boosted trees, for tables whose targets are cut by steps in many columns.

    Attributes
    ----------
    models : tuple
        One fitted classifier, or one fitted regressor per output.
    n_outputs : int
        Number of targets, or of classes of the whole table; a class that the trees did not see has
        no chance.
    """

    models: tuple
    n_outputs: int
    metric: str = "trees"
    solver: str = "boosting"

    def scores(self, X) -> np.ndarray:
        """Return predictions, or log-odds with one column per class."""
        X = np.asarray(X, dtype=np.float64)
        if not hasattr(self.models[0], "classes_"):
            return np.column_stack([model.predict(X) for model in self.models])
        said = self.models[0].decision_function(X)
        if said.ndim == 1:
            said = np.stack([-0.5 * said, 0.5 * said], axis=1)
        out = np.full((len(said), self.n_outputs), said.min() - 10.0)
        out[:, self.models[0].classes_.astype(np.int64)] = said
        return out

    def slopes(self, X) -> np.ndarray:
        """Return zeros: between two steps nothing changes."""
        return np.zeros((X.shape[0], self.n_outputs, X.shape[1]))


def boosted_model(X, Y, codes, weights, seed: int) -> BoostedModel:
    """Boost trees with scikit-learn's settings."""
    if codes is not None:
        classifier = HistGradientBoostingClassifier(random_state=seed)
        models = [classifier.fit(X, codes, sample_weight=weights)]
    else:
        models = [
            HistGradientBoostingRegressor(random_state=seed).fit(X, y, sample_weight=weights)
            for y in Y.T
        ]
    return BoostedModel(tuple(models), Y.shape[1])


def global_fits(solver: str, Z, Y, codes, weights, alphas) -> list[tuple]:
    """Return (centre, level, coef) of each penalty, strongest last."""
    if solver == "ridge":
        path = ridge_path(Z, Y, weights, alphas)
        return [(path.centre, path.level, coef) for coef in path.coef]
    n_classes = Y.shape[1]
    centre = np.zeros(Z.shape[1])
    start, fits = None, []
    for alpha in sorted(alphas, reverse=True):
        fit = fit_logistic(Z, codes, weights, n_classes, alpha=alpha, start=start, tol=1e-4)
        start = (fit.coef, fit.intercept)
        fits.append((centre, *_class_table(fit.coef, fit.intercept)))
    return fits[::-1]


def _class_table(coef: np.ndarray, intercept: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (level, coef) with one row per class; log-odds are shared by two classes."""
    if len(coef) == 1:
        coef = np.vstack([-0.5 * coef, 0.5 * coef])
        intercept = np.concatenate([-0.5 * intercept, 0.5 * intercept])
    return intercept, coef
