"""Answers of models fitted to folds, and how much better one fitted to all rows is."""

from typing import Any

import numpy as np

from vicinal._base import held_out_by_folds

# Folds that leave so much of the rows need no learning curve; none is taken to be steeper.
_NEARLY_ALL, _STEEPEST = 0.95, 1.0


def fold_answers(
    estimator: Any, X: Any, y: np.ndarray, weights, folds, *, classes=None, rows=None, n_jobs=None
) -> np.ndarray:
    """Return answers to rows by copies fitted to the other folds, in the order of the rows.

    Probabilities of ``classes``, predicted values where there are none. ``rows`` are those to
    answer, ascending; all by default.
    """
    method = "predict" if classes is None else "predict_proba"
    settings = {"method": method, "classes": classes, "rows": rows, "n_jobs": n_jobs}
    found = held_out_by_folds(estimator, X, y, folds, sample_weight=weights, **settings)
    return found.answers[0][np.argsort(found.rows)]


def learning_factor(
    estimator: Any, X: Any, y: np.ndarray, weights, folds, answers, *, rows=None, n_jobs=None
) -> float:
    """Return how much less a model of all rows errs than those of the folds.

    Errors fall as a power of the number of rows; models of about half of them tell which.
    ``answers`` are those of :func:`fold_answers`.
    """
    share = _log_share(folds, len(y))
    if len(folds) < 3 or share > np.log(_NEARLY_ALL):
        return 1.0
    halves = [np.concatenate(folds[part::2]) for part in (0, 1)]
    coarse = fold_answers(estimator, X, y, weights, halves, rows=rows, n_jobs=n_jobs)
    rows = slice(None) if rows is None else rows
    targets = y[rows].reshape(len(answers), -1)
    mass = None if weights is None else weights[rows]
    few, most = (
        np.average(np.abs(targets - said).mean(axis=1), weights=mass) for said in (coarse, answers)
    )
    if not 0.0 < most < few < np.inf:
        return 1.0
    power = np.log(few / most) / (share - _log_share(halves, len(y)))
    return float(np.exp(min(power, _STEEPEST) * share))


def _log_share(folds: list[np.ndarray], n: int) -> float:
    """Return the mean, over rows, of the log share of rows that their model was fitted to."""
    return float(sum(len(fold) * np.log1p(-len(fold) / n) for fold in folds) / n)
