"""How answers to held-out rows are judged, calibrated and pooled: classes and numbers."""

from typing import Protocol

import numpy as np
from scipy.special import log_softmax, softmax

from vicinal._kernels.calibration._probabilities import fit_slopes
from vicinal._kernels.ensemble._weights import log_proba, pool_weights, stacked_mean_weights

# Candidates whose errors exceed the least by this factor cannot have the least loss.
_WORTH = 1.2
# Penalty of unequal weights, in rows.
_RIDGE = 20.0
# Rows more, spread over the classes, by which a mixture is judged: it is never quite certain.
_DOUBT = 2.0


class Scorer(Protocol):
    """What is asked of the targets of some entries (answers to rows)."""

    share: np.ndarray
    sharpness: tuple[float, ...]
    error_step: float  # size of the errors that are counted, 0 where they are measured

    def part(self, entries: np.ndarray) -> "Scorer":
        """Return the scorer of some of the entries."""

    def losses(self, answers: np.ndarray) -> np.ndarray:
        """Return the loss of every candidate at every entry, (n_candidates, n_entries)."""

    def slopes(self, answers: np.ndarray) -> np.ndarray:
        """Return what calibrates the answers of each candidate."""

    def calibrated(self, answers: np.ndarray, slope: float) -> np.ndarray:
        """Return calibrated answers, to these or to other rows."""

    def weights(self, stack: np.ndarray) -> np.ndarray:
        """Return weights of sum one of calibrated answers (n_members, n_entries, n_outputs)."""

    def pool_loss(self, stack: np.ndarray, weights: np.ndarray) -> float:
        """Return what the weights minimise."""

    def errors(self, answers: np.ndarray) -> np.ndarray:
        """Return the error of every entry, of which ``score`` is one minus the mean."""

    def evidence(self, answers: np.ndarray, units: np.ndarray) -> float:
        """Return by how many standard errors answers know more than nothing, if that is told."""


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

    # A mean of calibrated probabilities is too timid; sharper members make up for it.
    sharpness: tuple[float, ...] = (1.0, 1.25, 1.5, 2.0, 3.0, 4.0)
    error_step = 1.0

    def __init__(self, codes: np.ndarray, share: np.ndarray, n_rows: int):
        self.codes = codes
        self.share = share / share.sum()
        self.n_rows = n_rows

    def part(self, entries: np.ndarray) -> "ClassScorer":
        """Return the scorer of some of the entries."""
        return ClassScorer(self.codes[entries], self.share[entries], self.n_rows)

    def losses(self, answers: np.ndarray) -> np.ndarray:
        """Return log losses at each candidate's best slope; infinite where errors rule it out."""
        wrong = (answers.argmax(axis=2) != self.codes) @ self.share
        worth = wrong <= _WORTH * wrong.min() + 1.0 / len(self.codes)
        out = np.full(answers.shape[:2], np.inf)
        z = self._logits(answers[worth])
        slopes = fit_slopes(z, self.codes, self._weights())
        log_p = log_softmax(slopes[:, None, None] * z, axis=2)
        out[worth] = -log_p[:, np.arange(len(self.codes)), self.codes]
        return out

    def slopes(self, answers: np.ndarray) -> np.ndarray:
        """Return one over the temperature of each candidate."""
        return fit_slopes(self._logits(answers), self.codes, self._weights())

    def calibrated(self, answers: np.ndarray, slope: float) -> np.ndarray:
        """Return softmax(slope * log p)."""
        return softmax(slope * self._logits(answers), axis=1)

    def _logits(self, answers: np.ndarray) -> np.ndarray:
        return log_proba(np.asarray(answers, dtype=np.float64), self.n_rows)

    def _weights(self) -> np.ndarray:
        return self.share * len(self.share)

    def weights(self, stack: np.ndarray) -> np.ndarray:
        """Return the weights of least log loss of the mixture."""
        return pool_weights(self._own(stack), self.share, ridge=_RIDGE / len(self.share))

    def pool_loss(self, stack: np.ndarray, weights: np.ndarray) -> float:
        """Return the penalised log loss of the mixture.

        A few rows more are spread over the classes: where members answer all held-out rows rightly,
        any sharpness would look good.
        """
        mixed = np.log(np.maximum(np.tensordot(weights, stack, 1), np.finfo(np.float64).tiny))
        own = mixed[np.arange(len(self.codes)), self.codes]
        doubt = _DOUBT / (self.n_rows + _DOUBT)
        fit = self.share @ ((1.0 - doubt) * own + doubt * mixed.mean(axis=1))
        return float(0.5 * _RIDGE / len(self.share) * (weights @ weights) - fit)

    def _own(self, stack: np.ndarray) -> np.ndarray:
        """Return what each member gave to the class of each entry, (n_entries, n_members)."""
        return stack[:, np.arange(len(self.codes)), self.codes].T

    def errors(self, answers: np.ndarray) -> np.ndarray:
        """Return one where the label is wrong."""
        return (answers.argmax(axis=1) != self.codes).astype(np.float64)

    def evidence(self, answers: np.ndarray, units: np.ndarray) -> float:
        r"""Return the score test of a little weight on these answers beside the class shares.

        With :math:`\pi` the shares and p the answers, the slope of the log likelihood of
        :math:`(1 - w)\pi + w p` at w = 0 is the mean of :math:`p(y) / \pi(y) - 1`, which is zero
        if labels do not depend on the row, with the variance of labels drawn from
        :math:`\pi`. Where a class is rare, this tells what log losses leave in doubt.
        """
        shares = np.bincount(self.codes, self.share, minlength=answers.shape[1])
        # A class that none of these entries has is never drawn.
        lift = np.divide(answers, shares, where=shares > 0.0, out=np.ones(answers.shape)) - 1.0
        _, first, unit = np.unique(units, return_index=True, return_inverse=True)
        lift = np.column_stack([np.bincount(unit, column) for column in lift.T])
        lift /= np.bincount(unit)[:, None]
        mass = np.bincount(unit, self.share)
        slope = mass @ lift[np.arange(len(first)), self.codes[first]]
        error = np.sqrt(mass**2 @ (lift**2 @ shares))
        return float(slope / error) if error > 0.0 else 0.0


class NumberScorer:
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

    def __init__(self, Y: np.ndarray, share: np.ndarray, scale: np.ndarray):
        self.scale = scale
        self.Y = Y
        self.share = share / share.sum()

    def part(self, entries: np.ndarray) -> "NumberScorer":
        """Return the scorer of some of the entries."""
        return NumberScorer(self.Y[entries], self.share[entries], self.scale)

    def losses(self, answers: np.ndarray) -> np.ndarray:
        """Return squared errors."""
        return (((answers - self.Y) / self.scale) ** 2).mean(axis=2)

    def slopes(self, answers: np.ndarray) -> np.ndarray:
        """Return ones: numbers are answered as they are."""
        return np.ones(len(answers))

    def calibrated(self, answers: np.ndarray, slope: float) -> np.ndarray:
        """Return the answers."""
        return np.asarray(answers, dtype=np.float64)

    def weights(self, stack: np.ndarray) -> np.ndarray:
        """Return the weights of least squared error."""
        table = (stack / self.scale).reshape(len(stack), -1).T
        share = np.repeat(self.share, self.Y.shape[1])
        return stacked_mean_weights(table, (self.Y / self.scale).ravel(), share / share.sum())

    def pool_loss(self, stack: np.ndarray, weights: np.ndarray) -> float:
        """Return the squared error of the mixture."""
        return float(self.share @ self.errors(np.tensordot(weights, stack, 1)))

    def errors(self, answers: np.ndarray) -> np.ndarray:
        """Return squared errors in units of the variance: one minus their mean is R2."""
        return (((answers - self.Y) / self.scale) ** 2).mean(axis=1)

    def evidence(self, answers: np.ndarray, units: np.ndarray) -> float:
        """Return nothing: squared errors tell it all."""
        return 0.0
