"""How held-out predictions are scored, calibrated and averaged."""

from typing import Protocol

import numpy as np
from scipy.special import log_softmax, softmax

from vicinal._kernels.calibration._probabilities import fit_slopes
from vicinal._kernels.ensemble._weights import log_proba, pool_weights, stacked_mean_weights

# Candidates whose errors exceed the least by this factor cannot have the least loss.
_MAX_ERROR_RATIO = 1.2
# Penalty of unequal weights, in rows.
_RIDGE = 20.0
# Prior samples, spread over the classes, that keep an ensemble from being overconfident.
_PRIOR_SAMPLES = 2.0


class Scorer(Protocol):
    """Loss, calibration and weights of held-out predictions (entries)."""

    share: np.ndarray
    sharpness: tuple[float, ...]
    error_step: float  # size of the errors that are counted, 0 where they are measured
    price: float  # factor on the price of time: squared errors vary more than log losses
    optimism: float  # share of its standard error that is added to an expected gain

    def part(self, entries: np.ndarray) -> "Scorer":
        """Return the scorer of some of the entries."""

    def losses(self, predictions: np.ndarray) -> np.ndarray:
        """Return the loss of every candidate at every entry, (n_candidates, n_entries)."""

    def slopes(self, predictions: np.ndarray) -> np.ndarray:
        """Return the slope that calibrates the predictions of each candidate."""

    def calibrated(self, predictions: np.ndarray, slope: float) -> np.ndarray:
        """Return calibrated predictions, of these or of other rows."""

    def weights(self, stack: np.ndarray) -> np.ndarray:
        """Return weights of sum one of predictions (n_models, n_entries, n_outputs)."""

    def pool_loss(self, stack: np.ndarray, weights: np.ndarray) -> float:
        """Return what the weights minimise."""

    def row_losses(self, predictions: np.ndarray) -> np.ndarray:
        """Return the loss of calibrated predictions at every entry."""

    def errors(self, predictions: np.ndarray) -> np.ndarray:
        """Return the error of every entry, of which ``score`` is one minus the mean."""

    def evidence(self, predictions: np.ndarray, units: np.ndarray) -> float:
        """Return by how many standard errors predictions depend on the class; 0 for regression."""


class ClassScorer:
    """Log loss of calibrated probabilities; errors are wrong labels.

    Parameters
    ----------
    codes : ndarray of int of shape (n_entries,)
        Class of every entry.
    share : ndarray of shape (n_entries,)
        Weights of the entries.
    n_rows : int
        Number of training rows.
    """

    # An average of calibrated probabilities is underconfident; sharper ones correct this.
    sharpness: tuple[float, ...] = (1.0, 1.25, 1.5, 2.0, 3.0, 4.0)
    error_step = 1.0
    price = 1.0
    optimism = 1.0

    def __init__(self, codes: np.ndarray, share: np.ndarray, n_rows: int):
        self.codes = codes
        self.share = share / share.sum()
        self.n_rows = n_rows

    def part(self, entries: np.ndarray) -> "ClassScorer":
        """Return the scorer of some of the entries."""
        return ClassScorer(self.codes[entries], self.share[entries], self.n_rows)

    def losses(self, predictions: np.ndarray) -> np.ndarray:
        """Return log losses at each candidate's best slope; infinite where errors exclude it."""
        wrong = (predictions.argmax(axis=2) != self.codes) @ self.share
        is_near = wrong <= _MAX_ERROR_RATIO * wrong.min() + 1.0 / len(self.codes)
        out = np.full(predictions.shape[:2], np.inf)
        z = self._logits(predictions[is_near])
        slopes = fit_slopes(z, self.codes, self._weights())
        log_p = log_softmax(slopes[:, None, None] * z, axis=2)
        out[is_near] = -log_p[:, np.arange(len(self.codes)), self.codes]
        return out

    def slopes(self, predictions: np.ndarray) -> np.ndarray:
        """Return one over the temperature of each candidate."""
        return fit_slopes(self._logits(predictions), self.codes, self._weights())

    def calibrated(self, predictions: np.ndarray, slope: float) -> np.ndarray:
        """Return softmax(slope * log p)."""
        return softmax(slope * self._logits(predictions), axis=1)

    def _logits(self, predictions: np.ndarray) -> np.ndarray:
        return log_proba(np.asarray(predictions, dtype=np.float64), self.n_rows)

    def _weights(self) -> np.ndarray:
        return self.share * len(self.share)

    def weights(self, stack: np.ndarray) -> np.ndarray:
        """Return the weights of least log loss of the weighted average."""
        return pool_weights(self._own(stack), self.share, ridge=_RIDGE / len(self.share))

    def pool_loss(self, stack: np.ndarray, weights: np.ndarray) -> float:
        """Return the penalised log loss of the weighted average.

        Prior samples are spread over the classes: where all held-out rows are predicted correctly,
        any sharpness would look good.
        """
        mixed = np.log(np.maximum(np.tensordot(weights, stack, 1), np.finfo(np.float64).tiny))
        own = mixed[np.arange(len(self.codes)), self.codes]
        prior = _PRIOR_SAMPLES / (self.n_rows + _PRIOR_SAMPLES)
        fit = self.share @ ((1.0 - prior) * own + prior * mixed.mean(axis=1))
        return float(0.5 * _RIDGE / len(self.share) * (weights @ weights) - fit)

    def row_losses(self, predictions: np.ndarray) -> np.ndarray:
        """Return log losses."""
        own = predictions[np.arange(len(self.codes)), self.codes]
        return -np.log(np.maximum(own, np.finfo(np.float64).tiny))

    def _own(self, stack: np.ndarray) -> np.ndarray:
        """Return each model's probability of the class of each entry, (n_entries, n_models)."""
        return stack[:, np.arange(len(self.codes)), self.codes].T

    def errors(self, predictions: np.ndarray) -> np.ndarray:
        """Return one where the label is wrong."""
        return (predictions.argmax(axis=1) != self.codes).astype(np.float64)

    def evidence(self, predictions: np.ndarray, units: np.ndarray) -> float:
        r"""Return the score test of adding these predictions to the class frequencies.

        With :math:`\pi` the frequencies and p the predictions, the slope of the log likelihood of
        :math:`(1 - w)\pi + w p` at w = 0 is the mean of :math:`p(y) / \pi(y) - 1`, which is zero
        if labels do not depend on the row, with the variance of labels sampled from
        :math:`\pi`. Where a class is rare, this test is more powerful than log losses.
        """
        shares = np.bincount(self.codes, self.share, minlength=predictions.shape[1])
        # A class that none of these entries has has no frequency.
        lift = (
            np.divide(predictions, shares, where=shares > 0.0, out=np.ones(predictions.shape)) - 1.0
        )
        _, first, unit = np.unique(units, return_index=True, return_inverse=True)
        lift = np.column_stack([np.bincount(unit, column) for column in lift.T])
        lift /= np.bincount(unit)[:, None]
        mass = np.bincount(unit, self.share)
        slope = mass @ lift[np.arange(len(first)), self.codes[first]]
        error = np.sqrt(mass**2 @ (lift**2 @ shares))
        return float(slope / error) if error > 0.0 else 0.0


class RegressionScorer:
    """Squared error, each output in units of its variance.

    Parameters
    ----------
    Y : ndarray of shape (n_entries, n_outputs)
        Targets of every entry.
    share : ndarray of shape (n_entries,)
        Weights of the entries.
    scale : ndarray of shape (n_outputs,)
        Standard deviation of each output over the training rows.
    """

    sharpness: tuple[float, ...] = (1.0,)
    error_step = 0.0
    price = 4.0
    optimism = 0.2

    def __init__(self, Y: np.ndarray, share: np.ndarray, scale: np.ndarray):
        self.scale = scale
        self.Y = Y
        self.share = share / share.sum()

    def part(self, entries: np.ndarray) -> "RegressionScorer":
        """Return the scorer of some of the entries."""
        return RegressionScorer(self.Y[entries], self.share[entries], self.scale)

    def losses(self, predictions: np.ndarray) -> np.ndarray:
        """Return squared errors."""
        return (((predictions - self.Y) / self.scale) ** 2).mean(axis=2)

    def slopes(self, predictions: np.ndarray) -> np.ndarray:
        """Return ones: regression needs no calibration."""
        return np.ones(len(predictions))

    def calibrated(self, predictions: np.ndarray, slope: float) -> np.ndarray:
        """Return the predictions."""
        return np.asarray(predictions, dtype=np.float64)

    def weights(self, stack: np.ndarray) -> np.ndarray:
        """Return the weights of least squared error."""
        table = (stack / self.scale).reshape(len(stack), -1).T
        share = np.repeat(self.share, self.Y.shape[1])
        return stacked_mean_weights(table, (self.Y / self.scale).ravel(), share / share.sum())

    def pool_loss(self, stack: np.ndarray, weights: np.ndarray) -> float:
        """Return the squared error of the weighted average."""
        return float(self.share @ self.errors(np.tensordot(weights, stack, 1)))

    def row_losses(self, predictions: np.ndarray) -> np.ndarray:
        """Return squared errors in units of the variance."""
        return self.errors(predictions)

    def errors(self, predictions: np.ndarray) -> np.ndarray:
        """Return squared errors in units of the variance: one minus their mean is R2."""
        return (((predictions - self.Y) / self.scale) ** 2).mean(axis=1)

    def evidence(self, predictions: np.ndarray, units: np.ndarray) -> float:
        """Return 0: squared errors are enough."""
        return 0.0
