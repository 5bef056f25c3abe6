"""From probabilities to decisions: ROC, precision and recall, thresholds and their cost."""

from typing import Any

import numpy as np
from sklearn import metrics

_MOST_CLASSES = 10
_MOST_POINTS = 200
_MOST_THRESHOLDS = 100


def ranking(y: np.ndarray, proba: np.ndarray, classes: np.ndarray, positive: int) -> Any:
    """Return ROC and precision-recall curves, of each class against the others.

    Of two classes it is class ``positive``. ``None`` where a curve would be of one class alone.
    """
    codes = np.searchsorted(classes, y)
    counts = np.bincount(codes, minlength=len(classes))
    shown = [positive] if len(classes) == 2 else np.argsort(-counts, kind="stable")
    shown = [int(k) for k in shown if 0 < counts[k] < len(codes)][:_MOST_CLASSES]
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
    """Count right and wrong answers of "``positive`` where its probability is at least t".

    ``None`` unless there are two classes, and rows of both. ``table`` has some thresholds by name,
    first the one ``in_use``.
    """
    truth, score = np.searchsorted(classes, y) == positive, proba[:, positive]
    if len(classes) != 2 or truth.all() or not truth.any():
        return None
    grid = np.unique(np.quantile(score, np.linspace(0, 1, _MOST_THRESHOLDS), method="nearest"))
    grid = np.unique([*grid, 0.5, *([] if in_use is None else [in_use])])
    points = [_counts(truth, score, t) for t in grid.tolist()]
    best = {} if in_use is None else {"in use": points[int(np.searchsorted(grid, in_use))]}
    best |= {
        "one half": min(points, key=lambda p: abs(p["threshold"] - 0.5)),
        "best F1": max(points, key=lambda p: p["f1"]),
        "best balance of both classes": max(points, key=_balance),
        "fewest mistakes": min(points, key=lambda p: p["false_positive"] + p["false_negative"]),
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
    said = score >= threshold
    right, wrong = int(np.sum(said & truth)), int(np.sum(said & ~truth))
    missed = int(truth.sum()) - right
    return {
        "threshold": threshold,
        "true_positive": right,
        "false_positive": wrong,
        "false_negative": missed,
        "true_negative": int(np.sum(~truth)) - wrong,
        "precision": right / max(1, right + wrong),
        "recall": right / (right + missed),
        "f1": 2 * right / (2 * right + wrong + missed),
    }


def _balance(point: dict[str, float]) -> float:
    negatives = point["false_positive"] + point["true_negative"]
    return point["recall"] + point["true_negative"] / negatives
