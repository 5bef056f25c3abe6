"""Sections of conformal models."""

import numpy as np

from vicinal._base._explanation import ExplanationSection, show


def set_section(classes: np.ndarray, inside: np.ndarray, proba: np.ndarray, coverage: float):
    """Return the labels that hold the true one with the given chance."""
    order = np.argsort(-proba, kind="stable")
    rows = [(classes[k], float(proba[k]), "yes" if inside[k] else "no") for k in order]
    held = ", ".join(show(classes[k]) for k in order if inside[k])
    summary = f"With a chance of {coverage:.0%}, the label is one of: {held}."
    values = {"coverage": coverage, "labels": [classes[k] for k in order if inside[k]]}
    head = ("label", "probability", "in the set")
    return ExplanationSection("set", "Set of labels", summary, head, rows, None, values)


def interval_section(low: float, high: float, coverage: float) -> ExplanationSection:
    """Return the interval that holds the target with the given chance."""
    summary = (
        f"With a chance of {coverage:.0%}, the target lies between {show(low)} and {show(high)}."
    )
    values = {"coverage": coverage, "interval": [low, high]}
    return ExplanationSection("interval", "Interval", summary, values=values)
