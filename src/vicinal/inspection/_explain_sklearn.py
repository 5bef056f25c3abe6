"""Reasons of scikit-learn's models: coefficients, neighbours, questions of a tree."""

from typing import Any

from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.tree import BaseDecisionTree

from vicinal._base._compat import neighbor_targets
from vicinal._base._explanation import (
    ExplanationSection,
    RowColumns,
    linear_sections,
    path_section,
    show,
)


def sklearn_sections(model: Any, X: Any, columns: RowColumns) -> list[ExplanationSection]:
    """Return the reasons of a model that offers none, from what scikit-learn makes public."""
    if isinstance(model, BaseDecisionTree):
        return [path_section(model, X, columns)]
    if isinstance(model, KNeighborsClassifier | KNeighborsRegressor):
        return [_neighbors(model, X)]
    return linear_sections(model, X, columns) if hasattr(model, "coef_") else []


def _neighbors(model: Any, X: Any) -> ExplanationSection:
    """Return the neighbours of a nearest-neighbour model of scikit-learn."""
    distance, rows = (part[0] for part in model.kneighbors(X))
    target = neighbor_targets(model)[rows]
    table = [
        (int(row), value, float(away))
        for row, value, away in zip(rows, target.tolist(), distance, strict=True)
    ]
    summary = (
        f"{len(rows)} training rows speak for this one, the nearest {show(float(distance.min()))} "
        f"away, the farthest {show(float(distance.max()))}."
    )
    head = ("training row", "target", "distance")
    values = {"n_neighbors": len(rows)}
    return ExplanationSection("neighbors", "Neighbours", summary, head, table, None, values)
