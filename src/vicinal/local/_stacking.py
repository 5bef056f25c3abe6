"""What a stack of models is judged by: losses, weights on the simplex, honest scores."""

from typing import Any, Protocol

import numpy as np
from scipy.special import log_softmax
from sklearn.model_selection import KFold

from vicinal._kernels.calibration._temperature import fit_slope
from vicinal._kernels.ensemble._score_stacking import score_stacking_weights
from vicinal._kernels.ensemble._simplex import stacked_mean_weights

# A rung that carries less than this is not worth a search per query.
_LEAST_WEIGHT = 0.02
_MAX_RUNGS = 6
_N_FOLDS = 5


class Judge(Protocol):
    """How predictions of rows that no model saw are judged and combined."""

    share: np.ndarray

    def loss(self, predictions: np.ndarray, rows: Any = ...) -> float:
        """Return the loss of one model's predictions, shape (n_rows, n_outputs), on some rows."""

    def combine(self, stack: np.ndarray, rows: Any = ...) -> tuple[np.ndarray, float]:
        """Return weights of sum one and the temperature, from some of the rows."""

    def errors(self, predictions: np.ndarray) -> np.ndarray:
        """Return the error of each row in the unit that users read."""


class ClassJudge:
    """Log loss of softmax(scores / T) with the best T; errors are wrong labels."""

    def __init__(self, codes: np.ndarray, weights: np.ndarray | None):
        self.codes = codes
        self.share = _shares(weights, len(codes))

    def loss(self, predictions: np.ndarray, rows: Any = slice(None)) -> float:
        """Return the log loss at the best temperature."""
        scores = np.asarray(predictions[rows], dtype=np.float64)
        codes, share = self.codes[rows], self.share[rows] / self.share[rows].sum()
        slope = fit_slope(scores, codes, share * len(codes))
        log_proba = log_softmax(slope * scores, axis=1)
        return float(-share @ log_proba[np.arange(len(scores)), codes])

    def combine(self, stack: np.ndarray, rows: Any = slice(None)) -> tuple[np.ndarray, float]:
        """Return weights and temperature of least penalised log loss."""
        share = self.share[rows] / self.share[rows].sum()
        codes = self.codes[rows]
        weights = score_stacking_weights(
            np.asarray(stack[:, rows], dtype=np.float64), codes, share, ridge=0.5 / len(codes)
        )
        total = weights.sum()
        return weights / total, 1.0 / total

    def errors(self, predictions: np.ndarray) -> np.ndarray:
        """Return one where the label is wrong."""
        return (predictions.argmax(axis=1) != self.codes).astype(np.float64)


class NumberJudge:
    """Squared error in units of each output's variance."""

    def __init__(self, Y: np.ndarray, weights: np.ndarray | None, scale: np.ndarray):
        self.Y = Y / np.sqrt(scale)
        self.scale = np.sqrt(scale)
        self.share = _shares(weights, len(Y))

    def loss(self, predictions: np.ndarray, rows: Any = slice(None)) -> float:
        """Return the mean squared error."""
        share = self.share[rows] / self.share[rows].sum()
        return float(share @ self.errors(predictions)[rows])

    def combine(self, stack: np.ndarray, rows: Any = slice(None)) -> tuple[np.ndarray, float]:
        """Return weights of least squared error on the simplex."""
        n_outputs = self.Y.shape[1]
        table = np.asarray(stack[:, rows], dtype=np.float64) / self.scale
        share = np.repeat(self.share[rows], n_outputs)
        weights = stacked_mean_weights(
            table.reshape(len(stack), -1).T, self.Y[rows].ravel(), share / share.sum()
        )
        return weights, 1.0

    def errors(self, predictions: np.ndarray) -> np.ndarray:
        """Return the squared error of each row."""
        return ((predictions / self.scale - self.Y) ** 2).mean(axis=1)


def _shares(weights: np.ndarray | None, n_rows: int) -> np.ndarray:
    return np.full(n_rows, 1.0 / n_rows) if weights is None else weights / weights.sum()


def sparse_weights(judge: Judge, stack: np.ndarray, rows: Any = slice(None)):
    """Return weights of which few are positive, each at least a fiftieth, and the temperature."""
    kept = np.arange(len(stack))
    while True:
        weights, temperature = judge.combine(stack[kept], rows)
        least = int(weights.argmin())
        if len(kept) == 1 or (weights[least] >= _LEAST_WEIGHT and len(kept) <= _MAX_RUNGS):
            full = np.zeros(len(stack))
            full[kept] = weights
            return full, temperature
        light = weights < _LEAST_WEIGHT
        if not light.any():
            light[least] = True
        kept = kept[~light]


def honest_score(judge: Judge, stack: np.ndarray, units: np.ndarray) -> tuple[float, float]:
    """Return mean and standard error of rows whose labels did not help to weigh the models.

    ``units`` are rows of the table: entries of the same unit stay in the same fold.
    """
    names, unit = np.unique(units, return_inverse=True)
    errors = np.empty(stack.shape[1])
    if len(names) < 2 * _N_FOLDS:
        weights, _ = judge.combine(stack)
        errors = judge.errors(np.tensordot(weights, stack, 1))
    else:
        for train, test in KFold(_N_FOLDS, shuffle=True, random_state=0).split(names):
            rows = np.flatnonzero(np.isin(unit, train))
            held = np.flatnonzero(np.isin(unit, test))
            weights, _ = judge.combine(stack, rows)
            errors[held] = judge.errors(np.tensordot(weights, stack, 1))[held]
    mean = float(judge.share @ errors)
    spread = float(np.sqrt(judge.share @ (errors - mean) ** 2 / len(names)))
    return mean, spread
