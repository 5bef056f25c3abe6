"""Linear base models: one decomposition per fold serves every penalty."""

from typing import Any

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, is_classifier
from sklearn.pipeline import Pipeline

from vicinal import _base
from vicinal._base._compat import threadpool_controller
from vicinal._kernels.linear import _covariance, _regression

_ALPHAS = {
    "ridge": (1e-4, 1e-3, 1e-2, 0.1, 1.0),
    "logistic": (1.0, 10.0, 100.0),
    "lda": (0.05, 0.2, 0.6),
}
# Share of the mean square of a column that a difference of sums may leave of nothing.
_ROUNDING = 1e-12
# Indicators are one apart; their probabilities are calibrated later.
_INDICATOR_SLOPE = 4.0


def settings_of(estimator: Any) -> list[dict]:
    """Return the penalties of a linear model behind its transformers; other models have none."""
    steps = estimator.steps if isinstance(estimator, Pipeline) else [("", estimator)]
    name, last = steps[-1]
    if not isinstance(last, _Linear):
        return [{}]
    return [{f"{name}__alpha".lstrip("_"): alpha} for alpha in _ALPHAS[last.solver]]


class _Linear(BaseEstimator):
    """Scores ``intercept_ + X @ coef_.T`` of standardised columns, one column per output."""

    def held_out(self, X, y, *, folds, rows=None, sample_weight=None, groups=None) -> _base.HeldOut:
        """Return held-out predictions of every penalty, each fold by a fit to the others."""
        Y, alphas = self._targets(y), _ALPHAS[self.solver]
        entries = _base.fold_entries(folds, rows)

        def predict(part):
            fold, own = part
            train = np.ones(len(X), dtype=bool)
            train[fold] = False
            weight = None if sample_weight is None else sample_weight[train]
            path = self._path(X[train], Y[train], weight, alphas)
            return np.stack([self._shape(level + X[own] @ coef.T) for coef, level in path])

        # Threads for folds: those of a library gain less.
        with threadpool_controller().limit(limits=1, user_api="blas"):
            parts = _base.thread_map(predict, zip(folds, entries, strict=True), self.n_jobs)
        candidates = [{"alpha": alpha} for alpha in alphas]
        return _base.HeldOut(candidates, np.concatenate(entries), np.concatenate(parts, axis=1))

    def fit(self, X, y, sample_weight=None):
        """Fit one penalty."""
        self._remember(y)
        path = self._path(X, self._targets(y), sample_weight, [self.alpha])
        self.coef_, self.intercept_ = path[0]
        return self

    def fit_blocks(self, blocks: _base.Blocks):
        """Fit one penalty from sums over blocks of rows: what ``fit`` finds, to rounding."""
        blocks, found = _base.survey(blocks, has_classes=is_classifier(self))
        self._remember(np.empty(0) if found.classes is None else found.classes)
        signs = self._signs(1)  # blocks of numbers have one target
        fit = _fit_of_blocks(self.solver, blocks, found, self.alpha, signs)
        self.coef_, self.intercept_ = fit
        return self

    def _scores(self, X) -> np.ndarray:
        return self.intercept_ + X @ self.coef_.T

    def _path(self, X, Y, sample_weight, alphas) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return (coef, intercept) for every penalty."""
        if self.solver == "ridge":
            path = _regression.ridge_path(X, Y, sample_weight, alphas, self._signs(Y.shape[1]))
            return [(coef, path.level - coef @ path.centre) for coef in path.coef]
        codes, n_classes = Y.argmax(axis=1), Y.shape[1]
        if self.solver == "lda":
            sums = _covariance.lda_statistics(X, codes, sample_weight, n_classes)
            return [_discriminant(sums, alpha) for alpha in alphas]
        start, fits = None, {}
        for alpha in sorted(alphas, reverse=True):  # from the strongest penalty to the weakest
            fit = _regression.fit_logistic(
                X, codes, sample_weight, n_classes, alpha=alpha, start=start
            )
            start = fit.coef, fit.intercept
            fits[alpha] = _log_odds(fit, n_classes)
        return [fits[alpha] for alpha in alphas]

    def _signs(self, n_outputs: int) -> np.ndarray | None:
        """Return the sign of each coefficient; of two classes, the second takes it as given."""
        if self.monotonic_cst is None:
            return None
        turn = [-1, 1] if is_classifier(self) else np.ones(n_outputs)
        return np.outer(turn, self.monotonic_cst)


def _discriminant(sums: _covariance.LDAStatistics, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """Return discriminant scores, the covariance within classes shrunk towards its diagonal."""
    # Of a column that is constant in every class rounding alone is left, which may be negative.
    least = _ROUNDING * sums.gram.diagonal() / sums.weights.sum() + np.finfo(float).tiny
    spread = np.sqrt(np.maximum(_covariance.within_covariance(sums).diagonal(), least))
    gram = sums.gram / spread / spread[:, None]
    scaled = sums._replace(sums=sums.sums / spread, gram=gram, shifts=sums.shifts / spread)
    coef, intercept = _covariance.lda_coefficients(scaled, alpha)
    return coef / spread, intercept


def _log_odds(fit: _regression.LinearFit, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients and intercepts of every class; two share one vector of log-odds."""
    halves = np.array([[-0.5], [0.5]]) if n_classes == 2 else np.eye(n_classes)
    return halves @ fit.coef, halves @ fit.intercept


# --- the same from sums over blocks ---


def _fit_of_blocks(
    solver: str, blocks: _base.Blocks, found: _base.Survey, alpha: float, signs: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return (coef, intercept) of one penalty."""
    classes = found.classes
    if solver == "ridge":
        weight, rows, targets = blocks.total(_block_sums, classes, combine=_base.add_tuples)
        centre, level = rows / weight, targets / weight
        about = centre, level, classes
        scatter, products = blocks.total(_block_scatter, *about, combine=_base.add_tuples)
        path = _regression.path_of_sums(centre, level, scatter, products, [alpha], signs)
        return path.coef[0], level - path.coef[0] @ centre
    if solver == "lda":
        sums = blocks.total(_block_statistics, classes, combine=_covariance.add_statistics)
        return _discriminant(sums, alpha)

    def evaluate(point):
        return blocks.total(_block_logistic, classes, point, combine=_base.add_tuples)

    steps = _regression.logistic_steps(found.weight, blocks.n_features, len(classes), alpha=alpha)
    return _log_odds(_regression.run_steps(steps, evaluate), len(classes))


def _block_statistics(block: _base.TrainingData, classes) -> _covariance.LDAStatistics:
    codes = np.searchsorted(classes, block.y)
    return _covariance.lda_statistics(_base.dense(block), codes, block.sample_weight, len(classes))


def _block_targets(block: _base.TrainingData, classes) -> np.ndarray:
    if classes is None:
        return np.asarray(block.y, dtype=np.float64).reshape(len(block), -1)
    return np.eye(len(classes))[np.searchsorted(classes, block.y)]


def _block_sums(block: _base.TrainingData, classes) -> tuple:
    weight = block.sample_weight
    return weight.sum(), weight @ _base.dense(block), weight @ _block_targets(block, classes)


def _block_scatter(block: _base.TrainingData, centre, level, classes) -> tuple:
    Z = _base.dense(block) - centre
    weighted = Z * block.sample_weight[:, None]
    return weighted.T @ Z, weighted.T @ (_block_targets(block, classes) - level)


def _block_logistic(block: _base.TrainingData, classes, point) -> tuple:
    codes = np.searchsorted(classes, block.y)
    return _regression.logistic_sums(
        _base.dense(block), codes, block.sample_weight, len(classes), point
    )


@_base.saved(coef_="o q", intercept_="o")
class LinearRegressor(RegressorMixin, _Linear):
    """Ridge regression whose penalty is relative to the scatter of the columns."""

    solver = "ridge"

    def __init__(self, alpha=0.01, n_jobs=None, monotonic_cst=None):
        _base.store_parameters(self, locals())

    def predict(self, X):
        """Predict the targets."""
        predictions = self._scores(X)
        return predictions.ravel() if self._is_flat else predictions

    def _remember(self, y) -> None:
        self._is_flat = np.ndim(y) == 1

    def _targets(self, y) -> np.ndarray:
        return np.asarray(y, dtype=np.float64).reshape(len(y), -1)

    def _shape(self, scores: np.ndarray) -> np.ndarray:
        return scores

    def write_graph(self, graph, x):
        """Write the predictions into a graph of :func:`vicinal.io.to_onnx`."""
        return x @ self.coef_.T + self.intercept_


@_base.saved(classes_="c labels", coef_="c q", intercept_="c")
class LinearClassifier(ClassifierMixin, _Linear):
    """Ridge on class indicators, logistic regression or shrunken discriminant analysis."""

    def __init__(self, solver="ridge", alpha=1.0, n_jobs=None, monotonic_cst=None):
        _base.store_parameters(self, locals())

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
        scores = x @ (self._slope * self.coef_.T) + self._slope * self.intercept_
        return graph.add("Softmax", scores, axis=1)
