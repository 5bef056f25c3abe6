"""Explanations of models with learned distances: neighbours and slopes."""

from typing import Any

import numpy as np

from vicinal._base._explanation import (
    ExplanationSection,
    RowColumns,
    coefficient_section,
    dense_row,
    show,
    weighted_section,
)


def neighbor_sections(model: Any, X: Any, columns: RowColumns) -> list[ExplanationSection]:
    """Return the training rows that voted, with their shares and values, and the slopes."""
    text = "{} training rows vote by their distance in the learned coordinates"
    section = weighted_section(model.neighbors(X), model._voter_values, text)
    return [section, *slope_sections(model, X, columns)]


def slope_sections(model: Any, X: Any, columns: RowColumns) -> list[ExplanationSection]:
    """Return the slopes of the prediction, or of the log-probability of the predicted class."""
    slopes, score = np.asarray(model.local_coef(X), dtype=float)[0], "the prediction"
    if hasattr(model, "classes_"):
        chosen = model.classes_.tolist().index(model.predict(X)[0])
        slopes, score = slopes[chosen], f"the log-probability of {show(model.classes_[chosen])}"
    elif slopes.ndim == 2:
        slopes, score = slopes[0], "the first target"
    summary = (
        f"Slopes of {score} around this row, per unit of each column; contributions are relative "
        "to the mean of the training rows."
    )
    return [coefficient_section(columns, slopes, dense_row(X)[0] - model.mean_, summary)]
