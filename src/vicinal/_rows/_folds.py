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


def coarse_answers(
    estimator: Any, X: Any, y: np.ndarray, weights, folds, *, rows=None, n_jobs=None
) -> np.ndarray | None:
    """Return the same by models fitted to about half of the rows, which show how errors fall.

    Folds of even and of odd number are held out together. ``None`` where folds leave nearly all
    rows, or are too few.
    """
    numbers = fold_numbers(folds)
    if len(folds) < 3 or _log_share(numbers) > np.log(_NEARLY_ALL):
        return None
    halves = [np.concatenate(folds[part::2]) for part in (0, 1)]
    return fold_answers(estimator, X, y, weights, halves, rows=rows, n_jobs=n_jobs)


def fold_numbers(folds: list[np.ndarray]) -> np.ndarray:
    """Return the number of the fold of every row."""
    numbers = np.empty(sum(map(len, folds)), dtype=np.int64)
    for number, fold in enumerate(folds):
        numbers[fold] = number
    return numbers


def learning_factor(
    coarse: np.ndarray, errors: np.ndarray, folds: np.ndarray, weights: np.ndarray | None
) -> float:
    """Return how much less a model of all rows errs than those of the folds.

    Errors fall as a power of the number of rows; those of :func:`coarse_answers` tell which.
    ``errors`` are those of :func:`fold_answers`, ``folds`` what :func:`fold_numbers` returns.
    """
    few, most = (np.average(part.mean(axis=1), weights=weights) for part in (coarse, errors))
    if not 0.0 < most < few < np.inf:
        return 1.0
    share = _log_share(folds)
    power = np.log(few / most) / (share - _log_share(folds % 2))
    return float(np.exp(min(power, _STEEPEST) * share))


def _log_share(folds: np.ndarray) -> float:
    """Return the mean, over rows, of the log share of rows that their model was fitted to."""
    shares = np.bincount(folds) / len(folds)
    return float(shares @ np.log1p(-np.minimum(shares, 1.0 - 1e-9)))
