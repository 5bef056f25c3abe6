"""Reasons of a local model: who speaks for the row, and the model fitted around it."""

from typing import Any

import numpy as np

from vicinal.inspection._columns import Columns, dense_row
from vicinal.inspection._explain_linear import coefficient_section
from vicinal.inspection._explanation import ExplanationSection, show


def explain_local(model: Any, X: Any, columns: Columns) -> list[ExplanationSection]:
    """Return neighbours (or anchors) and local coefficients."""
    is_anchored = getattr(model, "anchors_", None) is not None
    sections = [_anchors(model, X) if is_anchored else _neighbors(model, X)]
    slopes = _slopes(model, X, columns)
    return sections if slopes is None else [*sections, slopes]


def _neighbors(model: Any, X: Any) -> ExplanationSection:
    found = _neighborhood(model, X)
    rows, weight, distance = found.indices, found.weights, found.distances
    size = float(model.effective_sample_size(X)[0])
    share = weight / weight.sum() if len(weight) else weight
    target = _targets(model, rows)
    table = [
        (int(rows[i]), target[i], float(distance[i]), float(share[i]))
        for i in np.argsort(-weight, kind="stable").tolist()
    ]
    values: dict[str, Any] = {"n_neighbors": len(rows), "effective_sample_size": size}
    summary = "No training row is near enough to speak; the prediction is the overall answer."
    if len(rows):
        summary = (
            f"{len(rows)} training rows speak for this one, worth {show(size)} of equal weight; "
            f"the nearest is {show(float(distance.min()))} away, the farthest "
            f"{show(float(distance.max()))}."
        )
        values["bandwidth"] = float(found.bandwidths[0])
    if hasattr(model, "classes_") and len(rows):
        shares = np.bincount(model._codes[rows], share, minlength=len(model.classes_))
        by_class = dict(zip(model.classes_.tolist(), shares.tolist(), strict=True))
        values["class_shares"] = by_class
        said = ", ".join(f"{show(c)} {part:.2f}" for c, part in by_class.items() if part > 0)
        summary += f" Their weight by class: {said}."
    return ExplanationSection(
        "neighbors",
        "Neighbours",
        summary,
        ("training row", "target", "distance", "weight"),
        table,
        "weight",
        values,
    )


def _anchors(model: Any, X: Any) -> ExplanationSection:
    """Return the stored models that are blended for the row, and what each of them says."""
    valid = model._validate_queries(X)
    _, design, found = next(iter(model._localized(valid)))
    anchors, rows = model.anchors_, found.indices
    step = np.asarray(design)[0] - anchors.origins[rows]
    said = anchors.values[rows] + np.einsum("mcp,mp->mc", anchors.slopes[rows], step)
    if hasattr(model, "classes_"):
        answers = list(model.classes_[said.argmax(axis=1)])
    else:
        answers = said[:, 0].tolist()
    share = found.weights / found.weights.sum()
    table = [
        (int(rows[i]), answers[i], float(found.distances[i]), float(share[i]))
        for i in np.argsort(-share, kind="stable").tolist()
    ]
    size = float(1.0 / (share**2).sum())
    summary = (
        f"{len(rows)} of {len(anchors.centers)} stored models are blended for this row, worth "
        f"{show(size)} of equal weight; the nearest stands {show(float(found.distances.min()))} "
        "away."
    )
    values = {
        "n_anchors": len(anchors.centers),
        "n_blended": len(rows),
        "effective_sample_size": size,
    }
    head = ("anchor", "says", "distance", "weight")
    return ExplanationSection("anchors", "Anchors", summary, head, table, "weight", values)


def _neighborhood(model: Any, X: Any) -> Any:
    """Return the weighted neighbours of the row."""
    return next(iter(model._localized(model._validate_queries(X))))[2]


def _targets(model: Any, rows: np.ndarray) -> list[Any]:
    if hasattr(model, "classes_"):
        return list(model.classes_[model._codes[rows]])
    targets = model._targets[rows]
    return list(targets[:, 0]) if targets.shape[1] == 1 else [tuple(t) for t in targets]


def _slopes(model: Any, X: Any, columns: Columns) -> ExplanationSection | None:
    try:
        slopes = np.asarray(model.local_coef(X))[0]
    except (AttributeError, ValueError):
        # A black box around every query, or coordinates that are no linear map, have no slopes.
        return None
    if not slopes.any():
        # Local means and pure neighbourhoods are flat.
        return None
    said = "the prediction"
    if hasattr(model, "classes_"):
        chosen = model.classes_.tolist().index(model.predict(X)[0])
        if slopes.ndim == 2:
            slopes = slopes[chosen]
        elif chosen == 0:
            slopes = -slopes
        said = f"the score of {show(model.classes_[chosen])}"
    elif slopes.ndim == 2:
        slopes, said = slopes[0], "the first target"
    x = dense_row(X)[0]
    centre = _centre(model, X, x)
    speakers = "neighbours" if getattr(model, "anchors_", None) is None else "anchors"
    return coefficient_section(
        columns,
        slopes,
        x - centre,
        f"Around this row, {said} changes by so much per unit of a column; contributions are "
        f"counted from the weighted mean of the {speakers}.",
    )


def _centre(model: Any, X: Any, x: np.ndarray) -> np.ndarray:
    """Return the weighted mean of the neighbours in the columns of the row."""
    found, data = _neighborhood(model, X), model._data
    if not len(found.indices):
        return x
    share = found.weights / found.weights.sum()
    mean = np.asarray(share @ data.rows[found.indices]).ravel()
    if model.location_columns is not None:
        centre = x.copy()
        centre[~model._location_mask(len(x))] = mean
        return centre
    place = np.asarray(data.coordinates(x[None, :]))[0]
    # Coordinates are a linear map of the columns; the shortest step of the columns that makes the
    # step of the coordinates.
    step = mean - place
    matrix = data.coordinates.matrix
    if data.coordinates.transformer is not None:
        matrix = data.coordinates._jacobian(x[None, :])
    if matrix is None:
        return x + step
    return x + (step / matrix if matrix.ndim == 1 else step @ np.linalg.pinv(matrix))
