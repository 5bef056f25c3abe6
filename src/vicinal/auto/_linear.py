"""Linear members: one decomposition per fold answers for every penalty."""

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin

from vicinal._base import HeldOut, fold_entries, saved
from vicinal._kernels.linear._logistic import fit_logistic
from vicinal._kernels.linear._ridge_path import ridge_path

_ALPHAS = {"ridge": (1e-4, 1e-3, 1e-2, 0.1, 1.0), "logistic": (1.0, 10.0, 100.0)}
# Indicators are one apart; their probabilities are calibrated later.
_INDICATOR_SLOPE = 4.0


class _Linear(BaseEstimator):
    """Scores ``intercept_ + X @ coef_.T`` of standardised columns, one column per output."""

    def held_out(self, X, y, *, folds, rows=None, sample_weight=None, groups=None) -> HeldOut:
        """Return the answers of every penalty, each fold answered by a fit to the others."""
        Y, alphas = self._targets(y), _ALPHAS[self.solver]
        entries = fold_entries(folds, rows)
        parts = []
        for fold, own in zip(folds, entries, strict=True):
            train = np.ones(len(X), dtype=bool)
            train[fold] = False
            weight = None if sample_weight is None else sample_weight[train]
            path = self._path(X[train], Y[train], weight, alphas)
            parts.append(np.stack([self._shape(level + X[own] @ coef.T) for coef, level in path]))
        candidates = [{"alpha": alpha} for alpha in alphas]
        return HeldOut(candidates, np.concatenate(entries), np.concatenate(parts, axis=1))

    def fit(self, X, y, sample_weight=None):
        """Fit one penalty."""
        self._remember(y)
        path = self._path(X, self._targets(y), sample_weight, [self.alpha])
        self.coef_, self.intercept_ = path[0]
        return self

    def _scores(self, X) -> np.ndarray:
        return self.intercept_ + X @ self.coef_.T

    def _path(self, X, Y, sample_weight, alphas) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return (coef, intercept) for every penalty."""
        if self.solver == "ridge":
            path = ridge_path(X, Y, sample_weight, alphas)
            return [(coef, path.level - coef @ path.centre) for coef in path.coef]
        return _logistic_path(X, Y, sample_weight, alphas)


def _logistic_path(X, Y, sample_weight, alphas) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return log-odds with one row per class, from the strongest penalty to the weakest."""
    start, fits = None, {}
    for alpha in sorted(alphas, reverse=True):
        fit = fit_logistic(X, Y.argmax(axis=1), sample_weight, Y.shape[1], alpha=alpha, start=start)
        start = fit.coef, fit.intercept
        # Two classes share one vector of log-odds.
        halves = np.array([[-0.5], [0.5]]) if Y.shape[1] == 2 else np.eye(Y.shape[1])
        fits[alpha] = halves @ fit.coef, halves @ fit.intercept
    return [fits[alpha] for alpha in alphas]


@saved(coef_="o q", intercept_="o")
class LinearRegressor(RegressorMixin, _Linear):
    """Ridge regression whose penalty is relative to the scatter of the columns."""

    solver = "ridge"

    def __init__(self, alpha=0.01):
        self.alpha = alpha

    def predict(self, X):
        """Predict the targets."""
        said = self._scores(X)
        return said.ravel() if self._is_flat else said

    def _remember(self, y) -> None:
        self._is_flat = np.ndim(y) == 1

    def _targets(self, y) -> np.ndarray:
        return np.asarray(y, dtype=np.float64).reshape(len(y), -1)

    def _shape(self, scores: np.ndarray) -> np.ndarray:
        return scores

    def write_graph(self, graph, x):
        """Write the predictions into a graph of :func:`vicinal.io.to_onnx`."""
        return graph.affine(x, self.coef_.T, self.intercept_)


@saved(classes_="c labels", coef_="c q", intercept_="c")
class LinearClassifier(ClassifierMixin, _Linear):
    """Ridge on class indicators, or logistic regression; probabilities are a softmax of scores."""

    def __init__(self, solver="ridge", alpha=1.0):
        self.solver = solver
        self.alpha = alpha

    def predict_proba(self, X):
        """Return class probabilities."""
        return self._shape(self._scores(X))

    def predict(self, X):
        """Predict the class of largest probability."""
        return self.classes_[self._scores(X).argmax(axis=1)]

    def _remember(self, y) -> None:
        self.classes_ = np.unique(y)

    def _targets(self, y) -> np.ndarray:
        classes, codes = np.unique(y, return_inverse=True)
        return np.eye(len(classes))[codes]

    @property
    def _slope(self) -> float:
        return _INDICATOR_SLOPE if self.solver == "ridge" else 1.0

    def _shape(self, scores: np.ndarray) -> np.ndarray:
        return softmax(self._slope * scores, axis=1)

    def write_graph(self, graph, x):
        """Write the probabilities into a graph of :func:`vicinal.io.to_onnx`."""
        scores = graph.affine(x, self._slope * self.coef_.T, self._slope * self.intercept_)
        return graph.add("Softmax", scores, axis=1)
