"""Reasons of models in learned coordinates: the slopes of the answer around a row."""

from typing import Any

import numpy as np

from vicinal._base._explanation import (
    ExplanationSection,
    RowColumns,
    coefficient_section,
    dense_row,
    show,
)


def slope_sections(model: Any, X: Any, columns: RowColumns) -> list[ExplanationSection]:
    """Return the slopes of the prediction, or of the log-probability of the predicted class."""
    slopes, said = np.asarray(model.local_coef(X), dtype=float)[0], "the prediction"
    if hasattr(model, "classes_"):
        chosen = model.classes_.tolist().index(model.predict(X)[0])
        slopes, said = slopes[chosen], f"the log-probability of {show(model.classes_[chosen])}"
    elif slopes.ndim == 2:
        slopes, said = slopes[0], "the first target"
    summary = (
        f"Around this row, {said} changes by so much per unit of a column; contributions are "
        "counted from the mean of the training rows."
    )
    return [coefficient_section(columns, slopes, dense_row(X)[0] - model.mean_, summary)]
