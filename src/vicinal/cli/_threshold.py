"""The probability threshold of a class, selected by the costs of errors."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import expit, logit

from vicinal._base._held_out import OutOfFold
from vicinal._kernels.calibration._probabilities import fit_platt
from vicinal.cli._check_table import CheckedTable
from vicinal.cli._show import InputError, log, quoted
from vicinal.io import ModelFileError

# The cut of least cost is used if it saves at least this many standard errors.
_SIGNIFICANT = 2.0


def _cheaper_cut(shares, is_positive, cost: float, weights, value: float) -> float | None:
    """Return the threshold of least cost if it is significantly cheaper than ``value``.

    Entry k of an array is about predicting the class for the k largest shares. Of several best
    thresholds the one nearest to that of calibrated probabilities is taken.
    """
    order = np.argsort(-shares, kind="stable")
    shares, is_positive, weights = shares[order], is_positive[order], weights[order]
    # Two cuts differ in the rows between them: cumulative squares of their costs.
    alarms, found, squares = (
        np.concatenate([[0.0], np.cumsum(weights * part)])
        for part in (~is_positive, is_positive, np.where(is_positive, cost**2, 1.0))
    )
    costs = alarms + cost * (found[-1] - found)
    is_cut = np.concatenate([[True], shares[:-1] > shares[1:], [True]])
    best = np.flatnonzero(is_cut & (costs <= costs[is_cut].min() * (1 + 1e-12)))
    index = int(np.count_nonzero(shares >= value))
    spread = np.sqrt(np.abs(squares[best] - squares[index]).min())
    if costs[index] - costs[best].min() <= _SIGNIFICANT * spread:
        return None
    wanted = 1.0 / (1.0 + cost)
    ends = np.concatenate([[1.0], shares, [0.0]])
    high, low = ends[best], ends[best + 1]
    values = np.where((low < wanted) & (wanted <= high), wanted, (low + high) / 2)
    return float(values[np.argmin(np.abs(values - wanted))])


def _by_sigmoid(shares, is_positive, wanted: float, weights) -> float:
    """Return the share that a fitted sigmoid of log-odds maps to ``wanted``, else ``wanted``."""
    n_rows = weights.sum()
    edge = 0.5 / n_rows  # a share of 0 or 1 is no more certain than the rows are many
    odds = logit(np.clip(shares, edge, 1.0 - edge))
    slope, shift = fit_platt(odds, is_positive, weights, c=n_rows)
    if np.ptp(shares) == 0.0 or slope <= 0.0:
        return wanted
    return float(expit((logit(wanted) - shift) / slope))


@dataclass(frozen=True)
class Threshold:
    """Predict ``positive`` where its probability is at least ``value``, else the other class."""

    positive: str
    value: float
    cost: float

    @classmethod
    def choose(
        cls, shares: np.ndarray, is_positive: np.ndarray, positive: str, cost: float, weights: Any
    ) -> "Threshold":
        """Return the threshold of least cost on held-out predictions.

        A false negative costs as much as ``cost`` false positives, so calibrated probabilities need
        the threshold 1 / (1 + cost). A sigmoid calibrates the shares: its two parameters vary far
        less than the cut of least cost, which is used only where it saves significantly.
        """
        weights = np.ones(len(shares)) if weights is None else np.asarray(weights, dtype=float)
        weights = weights / min(1.0, weights.mean())  # counts of rows, or of one row each
        value = _by_sigmoid(shares, is_positive, 1.0 / (1.0 + cost), weights)
        cheaper = _cheaper_cut(shares, is_positive, cost, weights, value)
        return cls(positive, value if cheaper is None else cheaper, float(cost))

    def __str__(self) -> str:
        return (
            f"{self.positive!r} from probability {self.value:.4g} on, "
            f"as a false negative costs {self.cost:g} false positives"
        )

    @classmethod
    def of(cls, metadata: dict[str, Any]) -> "Threshold | None":
        """Return the threshold in the metadata of a model file."""
        stored = metadata.get("threshold")
        if stored is None:
            return None
        kinds = {"positive": str, "value": float, "cost": float}
        if not isinstance(stored, dict) or {k: type(v) for k, v in stored.items()} != kinds:
            raise ModelFileError(
                f"the threshold {str(stored)[:100]!r} in the metadata must have the entries "
                "positive (a string), value and cost (numbers); fit and save again."
            )
        return cls(**stored)

    def applied(self, model: Any) -> Any:
        """Return the classifier with this threshold."""
        from vicinal._base._wrappers import with_threshold

        at = [str(label) for label in model.classes_].index(self.positive)
        return with_threshold(model, model.classes_[at], self.value)

    def predict(self, shares: np.ndarray, classes: np.ndarray) -> np.ndarray:
        """Return labels for probabilities of both classes."""
        at = [str(label) for label in classes].index(self.positive)
        return np.where(shares[:, at] >= self.value, classes[at], classes[1 - at])

    def mean_cost(
        self, shares: np.ndarray, y: np.ndarray, classes: np.ndarray, weights: Any = None
    ) -> float:
        """Return the mean cost of a prediction."""
        is_positive = y.astype(str) == self.positive
        costs = (self.predict(shares, classes) != y) * np.where(is_positive, self.cost, 1.0)
        return float(np.average(costs, weights=weights))


def choose_threshold(
    held_out: OutOfFold | None, checked: CheckedTable, label: Any, cost: float
) -> Threshold | None:
    """Choose the threshold on held-out predictions and report what it costs there."""
    if held_out is None or held_out.proba is None or held_out.classes is None:
        log("  note: without held-out probabilities, --cost cannot select a threshold")
        return None
    proba, classes, y = held_out.proba, held_out.classes, checked.y[held_out.rows]
    shares = proba[:, int(np.flatnonzero(classes == label)[0])]
    weights = None if checked.weights is None else checked.weights[held_out.rows]
    found = Threshold.choose(shares, y == label, str(label), cost, weights)
    half = Threshold(found.positive, 0.5, cost)
    log(
        f"{found}: {found.mean_cost(proba, y, classes, weights):.4f} per held-out row, "
        f"{half.mean_cost(proba, y, classes, weights):.4f} with threshold 0.5"
    )
    return found


def positive_label(checked: CheckedTable, wanted: str | None, cost: float | None) -> Any:
    """Return the positive class, by default the rarer one of two; ``None`` if none is needed."""
    if wanted is None and cost is None:
        return None
    option = "--cost" if wanted is None else "--positive"
    if checked.task == "regression":
        raise InputError(f"{option}: the target {checked.target!r} is a number and has no classes")
    classes, counts = checked.classes
    if len(classes) != 2:
        raise InputError(
            f"{option} is for two classes; the target {checked.target!r} has {len(classes)}: "
            f"{quoted(classes.tolist())}"
        )
    if wanted is None:
        return classes[counts.argmin()]
    for label in classes:
        if str(label) == wanted:
            return label
    raise InputError(f"--positive {wanted!r}: the target has {quoted(classes.tolist())}")


def check_cost(cost: float | None) -> None:
    """Refuse a cost that is no positive number."""
    if cost is not None and not (np.isfinite(cost) and cost > 0):
        raise InputError(
            f"--cost {cost:g} must be above 0: the cost of a false negative in false positives"
        )
