"""Labels of least expected cost, and predictions only where they are reliable."""

import warnings
from typing import Any

import numpy as np
from scipy.special import betainc

# The error rate is bounded with this probability, for these shares of predicted rows.
_CONFIDENCE = 0.9
_SHARES = np.linspace(1.0, 0.05, 20)


def decide(
    proba: np.ndarray, classes: np.ndarray, cost_matrix: Any, abstain: float | None, held_out: Any
) -> np.ndarray:
    """Return the label of least expected cost for each row, ``None`` where the model abstains.

    Parameters
    ----------
    proba : ndarray of shape (n_queries, n_classes)
        Probabilities of the queries.
    classes : ndarray of shape (n_classes,)
        Labels.
    cost_matrix : array-like of shape (n_classes, n_classes), or None
        ``cost_matrix[i, j]`` is the cost of label j where label i is true; ``None`` for equal
        costs of all errors.
    abstain : float or None
        Largest error rate of the rows that are predicted; ``None`` predicts every row.
    held_out : HeldOutRows or None
        Rows on which the error rate is controlled.
    """
    costs = 1.0 - np.eye(len(classes)) if cost_matrix is None else _checked(cost_matrix, classes)
    codes = (proba @ costs).argmin(axis=1)
    if abstain is None:
        return np.asarray(classes)[codes]
    if not 0.0 < abstain < 1.0:
        raise ValueError(
            f"abstain={abstain!r} must be an error rate between 0 and 1, for example 0.05."
        )
    known = (held_out.predictions @ costs).argmin(axis=1)
    limit = confidence_limit(
        held_out.predictions[np.arange(len(known)), known],
        known != held_out.targets,
        abstain,
        held_out.weights,
        held_out.groups,
    )
    if limit == np.inf:
        warnings.warn(
            f"No row is predicted: an error rate of {abstain:g} cannot be shown on "
            f"{len(known)} held-out rows, however confident the predictions are. Raise abstain or "
            "add rows.",
            UserWarning,
            stacklevel=4,
        )
    labels = np.asarray(classes, dtype=object)[codes]
    labels[proba[np.arange(len(codes)), codes] <= limit] = None
    return labels


def confidence_limit(
    confidence: np.ndarray,
    is_wrong: np.ndarray,
    max_error: float,
    weights: np.ndarray | None = None,
    groups: np.ndarray | None = None,
) -> float:
    """Return the confidence above which at most ``max_error`` of the predictions are wrong.

    For each of 20 shares of the rows, the most confident rows are tested: the binomial tail of
    their errors, at a twentieth of 10 %. The largest share that passes is used, so that the error
    rate of new rows is at most ``max_error`` with probability 90 %, whatever the distribution
    (selective risk control with a Bonferroni bound; Geifman and El-Yaniv, 2017). Rows of one group
    count as one; weights count by their effective number. Infinite if no share passes.
    """
    weights = np.ones(len(confidence)) if weights is None else weights
    order = np.argsort(-confidence, kind="stable")
    for share in _SHARES:
        size = int(share * len(order))
        # Strictly above the next row, so that the rows above it are independent of the limit.
        limit = confidence[order[size]] if size < len(order) else -np.inf
        rows = confidence > limit
        if not rows.any():
            break
        n_rows = weights[rows].sum() ** 2 / (weights[rows] ** 2).sum()
        if groups is not None:
            n_rows = min(n_rows, len(np.unique(groups[rows])))
        n_wrong = n_rows * np.average(is_wrong[rows], weights=weights[rows])
        tail = betainc(n_rows - n_wrong, n_wrong + 1.0, 1.0 - max_error) if n_wrong < n_rows else 1
        if tail <= (1.0 - _CONFIDENCE) / len(_SHARES):
            return float(limit)
    return np.inf


def _checked(cost_matrix: Any, classes: np.ndarray) -> np.ndarray:
    costs = np.asarray(cost_matrix, dtype=np.float64)
    n = len(classes)
    if costs.shape != (n, n) or not np.isfinite(costs).all():
        raise ValueError(
            f"cost_matrix of shape {costs.shape} must hold finite numbers, {n} rows of true labels "
            f"and {n} columns of predicted labels, in the order of classes_."
        )
    return costs
