"""How held-out predictions are scored, calibrated and averaged."""

import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
from scipy.special import log_softmax, softmax
from scipy.stats import rankdata
from sklearn import metrics
from sklearn.exceptions import UndefinedMetricWarning

from vicinal._base import stored_score
from vicinal._base._compat import scorer_parts
from vicinal._kernels.calibration._probabilities import fit_slopes
from vicinal._kernels.ensemble import _weights as kernels

# Candidates whose errors exceed the least by this factor cannot have the least loss.
_MAX_ERROR_RATIO = 1.2
# Penalty of unequal weights, in rows.
_RIDGE = 20.0
# Prior samples, spread over the classes, that keep an ensemble from being overconfident.
_PRIOR_SAMPLES = 2.0
# Parts of the rows without which a score is computed again, for its standard error.
_JACKKNIFE_PARTS = 50


class Metric:
    """A scorer of scikit-learn for held-out predictions.

    Parameters
    ----------
    scoring : str or callable
        Name, scorer or callable (estimator, X, y).
    classes : ndarray or None
        Labels; ``None`` for regression.

    Attributes
    ----------
    is_minimised : bool
        Whether weights minimise its loss; other scores only choose between pools.
    quantile : float or None
        The quantile that its loss is about.
    """

    def __init__(self, scoring: Any, classes: np.ndarray | None):
        self.scoring = scoring
        # A score by name takes the second of two classes as the positive one, whatever its label.
        is_named = isinstance(scoring, str) and classes is not None and len(classes) == 2
        self.labels = np.arange(2) if is_named else classes
        scorer = metrics.get_scorer(scoring)
        loss, sign, options = scorer_parts(scorer)
        losses: dict[Any, float | None] = {metrics.log_loss: None}
        if classes is None:
            losses = dict.fromkeys(
                [metrics.r2_score, metrics.mean_squared_error, metrics.root_mean_squared_error]
            )
            losses[metrics.mean_absolute_error] = 0.5
            losses[metrics.mean_pinball_loss] = options.get("alpha", 0.5)
        self.is_minimised, self.quantile = loss in losses, losses.get(loss)
        if self.is_minimised and loss is not metrics.r2_score and sign > 0:
            raise ValueError(f"scoring={scoring!r} rewards a loss; pass greater_is_better=False.")

    def __call__(self, predictions: np.ndarray, targets: np.ndarray, share: np.ndarray) -> float:
        """Return the score; NaN where it is undefined."""
        found: Any = {"classes": self.labels, "proba": None, "decision": None}
        if self.labels is None:
            found["prediction"], true = predictions.squeeze(1), targets.squeeze(1)
        else:
            found |= {"prediction": self.labels[predictions.argmax(axis=1)], "proba": predictions}
            true = self.labels[targets]
        weights = None if np.ptp(share) == 0.0 else share
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UndefinedMetricWarning)
            return stored_score(SimpleNamespace(**found), true, self.scoring, weights)

    def check(self, targets: np.ndarray) -> None:
        """Score a constant prediction, so that an unsuited score is an error before any work."""
        if self.labels is None:
            constant = np.full((len(targets), 1), targets.mean())
            targets = targets.reshape(len(targets), -1)
        else:
            constant = np.tile(np.bincount(targets) / len(targets), (len(targets), 1))
        if targets.ndim == 2 and targets.shape[1] > 1:
            raise ValueError(f"scoring={self.scoring!r} needs one target; y has several.")
        try:
            self(constant, targets, np.ones(len(targets)))
        except Exception as error:
            raise ValueError(f"scoring={self.scoring!r} cannot score this y: {error}") from error


class _Scorer:
    """Loss, calibration and weights of held-out predictions (entries).

    Attributes
    ----------
    targets : ndarray
        Class code or target values of every entry.
    share : ndarray of shape (n_entries,)
        Weights of the entries, of sum one.
    metric : Metric or None
        What ``scoring`` names.
    sharpness : tuple of float
        Factors on the slopes to select from.
    error_step : float
        Size of the errors that are counted, 0 where they are measured.
    price : float
        Factor on the price of time: squared errors vary more than log losses.
    optimism : float
        Share of its standard error that is added to an expected gain.
    """

    def __init__(self, targets: np.ndarray, share: np.ndarray, metric: Any):
        self.targets, self.metric = targets, metric
        self.share = share / share.sum()

    def measured(self, predictions: np.ndarray) -> float:
        """Return the metric of calibrated predictions."""
        return self.metric(predictions, self.targets, self.share)


class ClassScorer(_Scorer):
    """Log loss of calibrated probabilities; errors are wrong labels.

    Parameters
    ----------
    codes : ndarray of int of shape (n_entries,)
        Class of every entry.
    share : ndarray of shape (n_entries,)
        Weights of the entries.
    n_rows : int
        Number of training rows.
    metric : Metric, optional
        What ``scoring`` names.
    """

    # An average of calibrated probabilities is underconfident; sharper ones correct this.
    sharpness: tuple[float, ...] = (1.0, 1.25, 1.5, 2.0, 3.0, 4.0)
    error_step = 1.0
    price = 1.0
    optimism = 1.0

    def __init__(self, codes: np.ndarray, share: np.ndarray, n_rows: int, metric=None):
        super().__init__(codes, share, metric)
        self.n_rows = n_rows

    def part(self, entries: np.ndarray) -> "ClassScorer":
        """Return the scorer of some of the entries."""
        return ClassScorer(self.targets[entries], self.share[entries], self.n_rows, self.metric)

    def losses(self, predictions: np.ndarray) -> np.ndarray:
        """Return log losses at each candidate's best slope; infinite where errors exclude it."""
        wrong = (predictions.argmax(axis=2) != self.targets) @ self.share
        is_near = wrong <= _MAX_ERROR_RATIO * wrong.min() + 1.0 / len(self.targets)
        out = np.full(predictions.shape[:2], np.inf)
        z = self._logits(predictions[is_near])
        slopes = fit_slopes(z, self.targets, self._weights())
        log_p = log_softmax(slopes[:, None, None] * z, axis=2)
        out[is_near] = -log_p[:, np.arange(len(self.targets)), self.targets]
        return out

    def slopes(self, predictions: np.ndarray) -> np.ndarray:
        """Return one over the temperature of each candidate."""
        return fit_slopes(self._logits(predictions), self.targets, self._weights())

    def calibrated(self, predictions: np.ndarray, slope: float) -> np.ndarray:
        """Return softmax(slope * log p)."""
        return softmax(slope * self._logits(predictions), axis=1)

    def _logits(self, predictions: np.ndarray) -> np.ndarray:
        return kernels.log_proba(np.asarray(predictions, dtype=np.float64), self.n_rows)

    def _weights(self) -> np.ndarray:
        return self.share * len(self.share)

    def weights(self, stack: np.ndarray) -> np.ndarray:
        """Return the weights of least log loss of the weighted average."""
        own = stack[:, np.arange(len(self.targets)), self.targets].T
        return kernels.pool_weights(own, self.share, ridge=_RIDGE / len(self.share))

    def pool_loss(self, stack: np.ndarray, weights: np.ndarray) -> float:
        """Return the penalised log loss of the weighted average.

        Prior samples are spread over the classes: where all held-out rows are predicted correctly,
        any sharpness would look good.
        """
        mixed = np.log(np.maximum(np.tensordot(weights, stack, 1), np.finfo(np.float64).tiny))
        own = mixed[np.arange(len(self.targets)), self.targets]
        prior = _PRIOR_SAMPLES / (self.n_rows + _PRIOR_SAMPLES)
        fit = self.share @ ((1.0 - prior) * own + prior * mixed.mean(axis=1))
        return float(0.5 * _RIDGE / len(self.share) * (weights @ weights) - fit)

    def row_losses(self, predictions: np.ndarray) -> np.ndarray:
        """Return log losses."""
        own = predictions[np.arange(len(self.targets)), self.targets]
        return -np.log(np.maximum(own, np.finfo(np.float64).tiny))

    def errors(self, predictions: np.ndarray) -> np.ndarray:
        """Return one where the label is wrong."""
        return (predictions.argmax(axis=1) != self.targets).astype(np.float64)

    def evidence(self, predictions: np.ndarray, units: np.ndarray) -> float:
        r"""Return the score test of adding these predictions to the class frequencies.

        With :math:`\pi` the frequencies and p the predictions, the slope of the log likelihood of
        :math:`(1 - w)\pi + w p` at w = 0 is the mean of :math:`p(y) / \pi(y) - 1`, which is zero
        if labels do not depend on the row, with the variance of labels sampled from
        :math:`\pi`. Where a class is rare, this test is more powerful than log losses.
        """
        shares = np.bincount(self.targets, self.share, minlength=predictions.shape[1])
        # A class that none of these entries has has no frequency.
        lift = (
            np.divide(predictions, shares, where=shares > 0.0, out=np.ones(predictions.shape)) - 1.0
        )
        _, first, unit = np.unique(units, return_index=True, return_inverse=True)
        lift = np.column_stack([np.bincount(unit, column) for column in lift.T])
        lift /= np.bincount(unit)[:, None]
        mass = np.bincount(unit, self.share)
        slope = mass @ lift[np.arange(len(first)), self.targets[first]]
        error = np.sqrt(mass**2 @ (lift**2 @ shares))
        return float(slope / error) if error > 0.0 else 0.0


class RegressionScorer(_Scorer):
    """Squared error, each output in units of its variance.

    Parameters
    ----------
    Y : ndarray of shape (n_entries, n_outputs)
        Targets of every entry.
    share : ndarray of shape (n_entries,)
        Weights of the entries.
    scale : ndarray of shape (n_outputs,)
        Standard deviation of each output over the training rows.
    metric : Metric, optional
        What ``scoring`` names.
    """

    sharpness: tuple[float, ...] = (1.0,)
    error_step = 0.0
    price = 4.0
    optimism = 0.2

    def __init__(self, Y: np.ndarray, share: np.ndarray, scale: np.ndarray, metric=None):
        super().__init__(Y, share, metric)
        self.scale = scale

    def part(self, entries: np.ndarray) -> "RegressionScorer":
        """Return the scorer of some of the entries."""
        return type(self)(self.targets[entries], self.share[entries], self.scale, self.metric)

    def losses(self, predictions: np.ndarray) -> np.ndarray:
        """Return squared errors."""
        return self.errors(predictions)

    def slopes(self, predictions: np.ndarray) -> np.ndarray:
        """Return zeros, which are added: means need no calibration."""
        return np.zeros(len(predictions))

    def calibrated(self, predictions: np.ndarray, slope: float) -> np.ndarray:
        """Return the predictions."""
        return np.asarray(predictions, dtype=np.float64)

    def weights(self, stack: np.ndarray) -> np.ndarray:
        """Return the weights of least squared error."""
        table = (stack / self.scale).reshape(len(stack), -1).T
        share = np.repeat(self.share, self.targets.shape[1])
        return kernels.stacked_mean_weights(
            table, (self.targets / self.scale).ravel(), share / share.sum()
        )

    def pool_loss(self, stack: np.ndarray, weights: np.ndarray) -> float:
        """Return the squared error of the weighted average."""
        return float(self.share @ self.errors(np.tensordot(weights, stack, 1)))

    row_losses = losses

    def errors(self, predictions: np.ndarray) -> np.ndarray:
        """Return squared errors in units of the variance: one minus their mean is R2."""
        return (((predictions - self.targets) / self.scale) ** 2).mean(axis=-1)

    def evidence(self, predictions: np.ndarray, units: np.ndarray) -> float:
        """Return the largest rank correlation with an output, in standard errors of no correlation.

        Where a few targets are far from the others, this test is more powerful than squared errors.
        """
        _, unit = np.unique(units, return_inverse=True)
        mass = np.bincount(unit, self.share)
        ranks = []
        for columns in (predictions, self.targets):
            sums = [np.bincount(unit, self.share * column) for column in columns.T]
            ranks.append(rankdata(np.array(sums) / mass, axis=1))
            ranks[-1] -= (ranks[-1] @ mass)[:, None]
        spread = np.sqrt((ranks[0] ** 2 @ mass) * (ranks[1] ** 2 @ mass))
        correlation = (ranks[0] * ranks[1] @ mass)[spread > 0.0] / spread[spread > 0.0]
        return float(np.max(correlation, initial=0.0) / np.sqrt(mass @ mass))


class QuantileScorer(RegressionScorer):
    """Quantile loss in units of the standard deviation, of predictions plus a constant each.

    Most base models predict the mean; the constant that minimises their loss is the quantile of
    their held-out residuals.
    """

    def losses(self, predictions: np.ndarray) -> np.ndarray:
        """Return quantile losses, each candidate with its best constant."""
        return self.errors(predictions + self.slopes(predictions)[:, None, None])

    def slopes(self, predictions: np.ndarray) -> np.ndarray:
        """Return the quantile of the residuals of each candidate."""
        residuals = (self.targets - predictions)[..., 0]
        options: dict[str, Any] = {"method": "inverted_cdf", "weights": self.share}
        return np.array([np.quantile(one, self.metric.quantile, **options) for one in residuals])

    def calibrated(self, predictions: np.ndarray, slope: float) -> np.ndarray:
        """Return predictions plus the constant."""
        return np.asarray(predictions, dtype=np.float64) + slope

    def weights(self, stack: np.ndarray) -> np.ndarray:
        """Return the weights of least quantile loss."""
        return kernels.stacked_quantile_weights(
            stack[..., 0].T, self.targets[:, 0], self.share, self.metric.quantile
        )

    def errors(self, predictions: np.ndarray) -> np.ndarray:
        """Return quantile losses in units of the standard deviation."""
        residuals = (self.targets - predictions)[..., 0] / self.scale[0]
        level = self.metric.quantile
        return np.maximum(level * residuals, (level - 1.0) * residuals)


Scorer = ClassScorer | RegressionScorer


def held_out_score(
    scorer: Scorer, predictions: np.ndarray, units: np.ndarray, n_learned: float
) -> tuple[float, float]:
    """Return the score of predictions and its standard error, entries of one unit counted as one.

    Without a metric it is one minus the mean error. The standard error of a metric is that of the
    jackknife: it is computed again without each of 50 random parts of the units. Both include the
    variance due to the training rows, as in ``mean_and_error``.
    """
    if scorer.metric is None:
        error, spread = kernels.mean_and_error(
            scorer.errors(predictions),
            scorer.share,
            units,
            n_learned=n_learned,
            step=scorer.error_step,
        )
        return 1.0 - error, spread
    names, unit = np.unique(units, return_inverse=True)
    n = len(names)
    parts = np.random.RandomState(0).permutation(n)[unit] % _JACKKNIFE_PARTS
    n_parts = min(n, _JACKKNIFE_PARTS)
    kept = [np.flatnonzero(parts != p) for p in range(n_parts)]
    without = np.array([scorer.part(rows).measured(predictions[rows]) for rows in kept])
    known = without[np.isfinite(without)]
    variance = (len(known) - 1) * known.var() if len(known) else np.nan
    return scorer.measured(predictions), float(np.sqrt(variance * (1.0 + n / n_learned)))
