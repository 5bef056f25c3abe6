"""How good a set of answers is, as plain numbers: one function per part of the page."""

from typing import Any

import numpy as np
from sklearn import metrics

from vicinal._base._thresholds import Rule

_MOST_CLASSES = 12


def classification_facts(
    y: np.ndarray,
    proba: np.ndarray,
    classes: np.ndarray,
    prediction: np.ndarray,
    rule: Rule | None = None,
) -> dict[str, float]:
    """Return the scores that head the page; those of labels say which threshold decided."""
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
    """Return the scores that head the page."""
    return {
        "R²": float(metrics.r2_score(y, prediction)),
        "mean absolute error": float(metrics.mean_absolute_error(y, prediction)),
        "root mean squared error": float(metrics.root_mean_squared_error(y, prediction)),
    }


def confusion(
    y: np.ndarray, prediction: np.ndarray, classes: np.ndarray, rule: Rule | None = None
) -> dict[str, Any]:
    """Count predicted against true classes; of many classes, the most frequent mistakes only."""
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
