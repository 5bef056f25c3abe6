"""Coefficients of a linear model at one row, and what each column contributes."""

from typing import Any

import numpy as np

from vicinal.inspection._columns import Columns
from vicinal.inspection._explanation import ExplanationSection


def unscaled(coef: np.ndarray, scaler: Any) -> np.ndarray:
    """Return coefficients per unit of the columns from those per unit of the scaled ones."""
    scale = None if scaler is None else getattr(scaler, "scale_", None)
    return coef if scale is None else coef / scale


def coefficient_section(
    columns: Columns, coef: np.ndarray, offset: np.ndarray, summary: str, **values: Any
) -> ExplanationSection:
    """Return a table of coefficients, sorted by what each column contributes.

    Parameters
    ----------
    columns : Columns
        Names and values.
    coef : ndarray of shape (n_columns,)
        Change of the score per unit of each column; the table tells it per unit of the source.
    offset : ndarray of shape (n_columns,)
        Distance of the row from the point that contributions are counted from.
    summary : str
        What the score is.
    **values
        Single numbers.
    """
    contribution = np.asarray(coef, dtype=float) * np.asarray(offset, dtype=float)
    order = np.argsort(-np.abs(contribution), kind="stable")
    names: tuple[str, ...] = ("column", "value", "coefficient", "contribution")
    rows: list[tuple] = []
    coef = np.asarray(coef, dtype=float) * columns.rates
    for j in order:
        row = (columns.names[j], columns.values[j], float(coef[j]), float(contribution[j]))
        rows.append((*row, columns.sources[j]) if columns.are_encoded else row)
    if columns.are_encoded:
        names = (*names, "made from")
        values["by source"] = by_source(columns, contribution)
    return ExplanationSection(
        "coefficients", "Coefficients", summary, names, rows, "contribution", values
    )


def by_source(columns: Columns, contribution: np.ndarray) -> dict[str, float]:
    """Return contributions summed over the columns made from one column of the table."""
    total: dict[str, float] = {}
    for name, source, part in zip(columns.names, columns.sources, contribution, strict=True):
        key = name if source is None else source
        total[key] = total.get(key, 0.0) + float(part)
    return dict(sorted(total.items(), key=lambda item: -abs(item[1])))


def two_best(scores: np.ndarray) -> tuple[int, int]:
    """Return the positions of the largest and of the second largest score."""
    order = np.argsort(-scores, kind="stable")
    return int(order[0]), int(order[1])
