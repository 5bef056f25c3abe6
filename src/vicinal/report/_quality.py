"""Quality of predictions: scores, confusion, calibration, thresholds, residuals, segments."""

from typing import Any

import numpy as np
from sklearn import metrics
from sklearn.tree import DecisionTreeRegressor

from vicinal._base._wrappers import Rule
from vicinal._kernels.calibration._conformal import conformal_quantile
from vicinal.inspection.checks import EncodedTable
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


_DEPTH = 3
_LEAST_SEGMENTED = 80


def segments(
    encoded: EncodedTable, errors: np.ndarray, is_share: bool, rng: np.random.RandomState
) -> dict[str, Any] | None:
    """Return segments of the table with their errors, worst first.

    One half of the rows defines the segments, the other half estimates their errors, so the
    estimates have no selection bias. ``None`` if the tree predicts the errors of the other half no
    better than their mean.
    """
    if len(errors) < _LEAST_SEGMENTED or not encoded.is_nameable.any() or np.ptp(errors) == 0:
        return None
    Z, names = encoded.Z[:, encoded.is_nameable], np.array(encoded.names)[encoded.is_nameable]
    order = rng.permutation(len(errors))
    first, second = order[::2], order[1::2]
    leaf = max(10, len(first) // 12)
    tree = DecisionTreeRegressor(max_depth=_DEPTH, min_samples_leaf=leaf, random_state=0)
    tree.fit(Z[first], errors[first])
    if tree.score(Z[second], errors[second]) <= 0:
        return None
    leaves, conditions = tree.apply(Z[second]), _conditions(tree.tree_, names)
    rows = [
        {"conditions": conditions[leaf], **_summary(errors[second][leaves == leaf], is_share)}
        for leaf in np.unique(leaves).tolist()
    ]
    rows.sort(key=lambda row: -row["error"])
    longest = max(row["high"] for row in rows) or 1.0
    for row in rows:
        row["length"], row["spread"] = row["error"] / longest, row["high"] / longest
    return {
        "rows": rows,
        "is_share": is_share,
        "error": float(errors[second].mean()),
        "n_rows": len(second),
    }


def _summary(errors: np.ndarray, is_share: bool) -> dict[str, Any]:
    mean, count = float(errors.mean()), len(errors)
    if is_share:
        low, high = wilson(mean, count)
    else:
        reach = _Z * float(errors.std(ddof=1)) / np.sqrt(count) if count > 1 else 0.0
        low, high = max(0.0, mean - reach), mean + reach
    return {"count": count, "error": mean, "low": low, "high": high}


def _conditions(tree: Any, names: np.ndarray) -> dict[int, list[str]]:
    """Return the conditions of each leaf, one text per column."""
    found: dict[int, list[str]] = {}

    def visit(node: int, limits: dict[int, tuple[float, float]]) -> None:
        if tree.children_left[node] == -1:
            found[node] = [_condition(str(names[j]), *limits[j]) for j in limits]
            return
        j, threshold = int(tree.feature[node]), float(tree.threshold[node])
        low, high = limits.get(j, (-np.inf, np.inf))
        visit(tree.children_left[node], {**limits, j: (low, min(high, threshold))})
        visit(tree.children_right[node], {**limits, j: (max(low, threshold), high)})

    visit(0, {})
    return found


def _condition(name: str, low: float, high: float) -> str:
    """Return a condition as text; categories and missing values are columns of 0 and 1."""
    if " = " in name and 0 <= max(low, 0) <= 1:
        return name if low > 0 else name.replace(" = ", " is not ", 1)
    if name.endswith(" missing"):
        return name if low > 0 else f"{name.removesuffix(' missing')} known"
    if np.isinf(low):
        return f"{name} ≤ {high:.4g}"
    return f"{name} > {low:.4g}" if np.isinf(high) else f"{low:.4g} < {name} ≤ {high:.4g}"
