"""Quality of predictions: scores, confusion matrix, calibration, thresholds, residuals."""

from typing import Any

import numpy as np
from sklearn import metrics

from vicinal._base._wrappers import Rule
from vicinal._kernels.calibration._conformal import conformal_quantile
from vicinal.report._page import Axis

_MOST_CLASSES = 12


def classification_facts(
    y: np.ndarray,
    proba: np.ndarray,
    classes: np.ndarray,
    prediction: np.ndarray,
    rule: Rule | None = None,
) -> dict[str, float]:
    """Return the main scores; names of scores of labels include the threshold."""
    codes, is_right = np.searchsorted(classes, y), prediction == y
    likelihood = np.clip(proba[np.arange(len(codes)), codes], 1e-15, 1.0)
    at = "" if rule is None else f" at {rule.value:.3g}"
    facts = {
        f"accuracy{at}": float(np.mean(is_right)),
        f"balanced accuracy{at}": float(
            np.mean([np.mean(is_right[codes == k]) for k in np.unique(codes)])
        ),
        "log loss": float(-np.mean(np.log(likelihood))),
    }
    if len(classes) == 2 and len(np.unique(codes)) == 2:
        facts["ROC AUC"] = float(metrics.roc_auc_score(codes, proba[:, 1]))
    return facts


def regression_facts(y: np.ndarray, prediction: np.ndarray) -> dict[str, float]:
    """Return the main scores."""
    return {
        "R²": float(metrics.r2_score(y, prediction)),
        "mean absolute error": float(metrics.mean_absolute_error(y, prediction)),
        "root mean squared error": float(metrics.root_mean_squared_error(y, prediction)),
    }


def confusion(
    y: np.ndarray, prediction: np.ndarray, classes: np.ndarray, rule: Rule | None = None
) -> dict[str, Any]:
    """Return the confusion matrix; for many classes, the most frequent errors."""
    counts = metrics.confusion_matrix(y, prediction, labels=classes)
    totals = np.maximum(counts.sum(axis=1), 1)
    labels = [str(label) for label in classes]
    wrong = counts - np.diag(np.diag(counts))
    order = np.argsort(-wrong, axis=None, kind="stable")[:10]
    pairs = [divmod(int(at), len(classes)) for at in order]
    return {
        "threshold": None if rule is None else {"label": labels[rule.code], "value": rule.value},
        "labels": labels,
        "is_matrix": len(classes) <= _MOST_CLASSES,
        "cells": [
            [{"count": int(c), "share": float(c / totals[i])} for c in row]
            for i, row in enumerate(counts)
        ],
        "per_class": [
            {
                "label": labels[k],
                "count": int(counts[k].sum()),
                "recall": float(counts[k, k] / totals[k]),
                "precision": float(counts[k, k] / max(1, counts[:, k].sum())),
            }
            for k in range(len(classes))
        ],
        "mistakes": [
            {
                "true": labels[i],
                "predicted": labels[j],
                "count": int(counts[i, j]),
                "share": float(counts[i, j] / totals[i]),
            }
            for i, j in pairs
            if wrong[i, j]
        ],
    }


_N_BINS = 10
_Z = 1.96


def calibration(y: np.ndarray, proba: np.ndarray, classes: np.ndarray, positive: int) -> dict:
    """Compare predicted probabilities with observed frequencies, in bins of equal width.

    With two classes the probability is that of class ``positive``; with more, that of the
    predicted class. Bins without a row are no points.
    """
    codes = np.searchsorted(classes, y)
    if len(classes) == 2:
        predicted, observed = proba[:, positive], codes == positive
        of = f"P({classes[positive]})"
    else:
        predicted, observed = proba.max(axis=1), proba.argmax(axis=1) == codes
        of = "the probability of the predicted class"
    bins = np.minimum((predicted * _N_BINS).astype(int), _N_BINS - 1)
    points, error = [], 0.0
    for k in np.unique(bins).tolist():
        inside = bins == k
        count, share = int(inside.sum()), float(observed[inside].mean())
        low, high = wilson(share, count)
        point = {"bin": k, "predicted": float(predicted[inside].mean()), "observed": share}
        points.append(point | {"low": low, "high": high, "count": count})
        error += count * abs(point["predicted"] - share)
    return {"of": of, "points": points, "error": error / len(predicted)}


def wilson(share: float, count: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a probability, from a share of ``count`` rows."""
    middle = share + _Z**2 / (2 * count)
    reach = _Z * np.sqrt(share * (1 - share) / count + (_Z / (2 * count)) ** 2)
    whole = 1 + _Z**2 / count
    return float(max(0.0, (middle - reach) / whole)), float(min(1.0, (middle + reach) / whole))


_MOST_CURVES = 10
_MOST_POINTS = 200
_MOST_THRESHOLDS = 100


def ranking(y: np.ndarray, proba: np.ndarray, classes: np.ndarray, positive: int) -> Any:
    """Return ROC and precision-recall curves, of each class against the others.

    Of two classes it is class ``positive``. ``None`` where a curve would be of one class alone.
    """
    codes = np.searchsorted(classes, y)
    counts = np.bincount(codes, minlength=len(classes))
    shown = [positive] if len(classes) == 2 else np.argsort(-counts, kind="stable")
    shown = [int(k) for k in shown if 0 < counts[k] < len(codes)][:_MOST_CURVES]
    if not shown:
        return None
    return {"curves": [_curve(codes == k, proba[:, k], str(classes[k]), k) for k in shown]}


def _curve(truth: np.ndarray, score: np.ndarray, label: str, code: int) -> dict[str, Any]:
    false_rate, true_rate, _ = metrics.roc_curve(truth, score)
    precision, recall, _ = metrics.precision_recall_curve(truth, score)
    return {
        "label": label,
        "code": code,
        "auc": float(metrics.roc_auc_score(truth, score)),
        "average_precision": float(metrics.average_precision_score(truth, score)),
        "share": float(truth.mean()),
        "roc": _thinned(false_rate, true_rate),
        "precision_recall": _thinned(recall[::-1], precision[::-1]),
    }


def _thinned(x: np.ndarray, y: np.ndarray) -> list[list[float]]:
    keep = np.unique(np.linspace(0, len(x) - 1, min(len(x), _MOST_POINTS)).astype(int))
    return np.column_stack([x, y])[keep].round(4).tolist()


def thresholds(
    y: np.ndarray,
    proba: np.ndarray,
    classes: np.ndarray,
    positive: int,
    in_use: float | None = None,
) -> Any:
    """Count errors of predicting ``positive`` where its probability is at least a threshold.

    ``None`` unless there are two classes with rows. ``table`` holds some thresholds by name, first
    the one ``in_use``.
    """
    truth, score = np.searchsorted(classes, y) == positive, proba[:, positive]
    if len(classes) != 2 or truth.all() or not truth.any():
        return None
    grid = np.unique(np.quantile(score, np.linspace(0, 1, _MOST_THRESHOLDS), method="nearest"))
    grid = np.unique([*grid, 0.5, *([] if in_use is None else [in_use])])
    points = [_counts(truth, score, t) for t in grid.tolist()]
    best = {} if in_use is None else {"in use": points[int(np.searchsorted(grid, in_use))]}
    best |= {
        "0.5": min(points, key=lambda p: abs(p["threshold"] - 0.5)),
        "best F1": max(points, key=lambda p: p["f1"]),
        "best balanced accuracy": max(points, key=_balance),
        "highest accuracy": min(points, key=lambda p: p["false_positive"] + p["false_negative"]),
    }
    return {
        "positive": str(classes[positive]),
        "negative": str(classes[1 - positive]),
        "n_rows": len(truth),
        "start": 0.5 if in_use is None else in_use,
        "points": points,
        "table": [{"name": name, **point} for name, point in best.items()],
    }


def _counts(truth: np.ndarray, score: np.ndarray, threshold: float) -> dict[str, float]:
    positive = score >= threshold
    right, wrong = int(np.sum(positive & truth)), int(np.sum(positive & ~truth))
    negatives = int(truth.sum()) - right
    return {
        "threshold": threshold,
        "true_positive": right,
        "false_positive": wrong,
        "false_negative": negatives,
        "true_negative": int(np.sum(~truth)) - wrong,
        "precision": right / max(1, right + wrong),
        "recall": right / (right + negatives),
        "f1": 2 * right / (2 * right + wrong + negatives),
    }


def _balance(point: dict[str, float]) -> float:
    negatives = point["false_positive"] + point["true_negative"]
    return point["recall"] + point["true_negative"] / negatives


_COVERAGES = (0.5, 0.8, 0.9, 0.95)
_ERROR_BARS = 24
_N_PARTS = 10
_LEAST_ROWS = 40


def residuals(y: np.ndarray, prediction: np.ndarray, rows: np.ndarray) -> dict[str, Any]:
    """Return predicted values against true ones and against their errors, of some rows."""
    off = y - prediction
    both = Axis(np.concatenate([y, prediction]), "predicted")
    true = Axis([], "true", low=both.low, high=both.high)
    reach = float(np.quantile(np.abs(off), 0.995)) or 1.0
    error = Axis([], "true minus predicted", low=-reach, high=reach)
    counts, edges = np.histogram(
        np.clip(off, -reach, reach), bins=_ERROR_BARS, range=(-reach, reach)
    )
    return {
        "predicted": both.as_dict(),
        "true": true.as_dict(),
        "error": error.as_dict(),
        "points": [
            {"row": int(row), "x": x, "y": t, "off": e}
            for row, x, t, e in zip(
                rows, both.at(prediction[rows]), true.at(y[rows]), error.at(off[rows]), strict=True
            )
        ],
        "bars": [
            {"count": int(count), "low": float(low), "high": float(high)}
            for count, low, high in zip(counts, edges[:-1], edges[1:], strict=True)
        ],
        # Of a linear fit it is zero but for rounding.
        "bias": float(off.mean()) if abs(off.mean()) > 1e-9 * reach else 0.0,
        "beyond": int(np.sum(np.abs(off) > reach)),
    }


def coverage(y: np.ndarray, prediction: np.ndarray, rng: np.random.RandomState) -> Any:
    """Return width and coverage of prediction intervals.

    The rows are split into ten parts. The half-width of a part's intervals is the conformal
    quantile of the errors of the other parts, so that no row affects its own.
    """
    if len(y) < _LEAST_ROWS:
        return None
    off = np.abs(y - prediction)
    parts = rng.permutation(np.arange(len(y)) % _N_PARTS)
    rows = []
    for level in _COVERAGES:
        reach = np.array([conformal_quantile(off[parts != k], level) for k in range(_N_PARTS)])
        held = float(np.mean(off <= reach[parts]))
        low, high = wilson(held, len(y))
        rows.append(
            {"level": level, "held": held, "low": low, "high": high, "reach": float(reach.mean())}
        )
    return {"levels": rows, "n_rows": len(y)}
