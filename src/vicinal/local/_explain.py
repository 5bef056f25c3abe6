"""Reasons of a local model: who speaks for the row, and the model fitted around it."""

from typing import Any

import numpy as np

from vicinal._base._explanation import (
    ExplanationSection,
    RowColumns,
    coefficient_section,
    dense_row,
    show,
)

# Rows of a table of neighbours; a global model has every training row.
_MOST_NEIGHBORS = 200


def local_sections(model: Any, X: Any, columns: RowColumns) -> list[ExplanationSection]:
    """Return neighbours (or anchors) and local coefficients."""
    first = _anchors if hasattr(model, "anchors_") else _neighbors
    sections = [first(model, X)]
    slopes = _slopes(model, X, columns)
    return sections if slopes is None else [*sections, slopes]


def _neighbors(model: Any, X: Any) -> ExplanationSection:
    found = _neighborhood(model, X)
    rows, weight = found.indices, found.weights
    share = weight / weight.sum() if len(weight) else weight
    size = float(model.effective_sample_size(X)[0])
    distance, unit = _distances(model, X, found)
    target = _targets(model, rows)
    order = np.argsort(-weight, kind="stable")[:_MOST_NEIGHBORS].tolist()
    table = [(int(rows[i]), target[i], float(distance[i]), float(share[i])) for i in order]
    values: dict[str, Any] = {"n_neighbors": len(rows), "effective_sample_size": size}
    summary = "No training row is near enough to count; the prediction is the overall answer."
    if len(rows):
        summary = (
            f"{len(rows)} training rows speak for this one, worth {show(size)} of equal weight; "
            f"the nearest is {show(float(distance.min()))} away, the farthest "
            f"{show(float(distance.max()))}{unit}."
        )
    if hasattr(model, "classes_") and len(rows):
        codes = model._model.data.targets.codes[rows]
        shares = np.bincount(codes, share, minlength=len(model.classes_))
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


def _targets(model: Any, rows: np.ndarray) -> list[Any]:
    targets = model._model.data.targets
    if hasattr(model, "classes_"):
        return list(model.classes_[targets.codes[rows]])
    columns = targets.columns[rows]
    return list(columns[:, 0]) if columns.shape[1] == 1 else [tuple(t) for t in columns]


def _distances(model: Any, X: Any, found: Any) -> tuple[np.ndarray, str]:
    """Return how far the rows are, in the metric of the model if it has one, and the unit."""
    data = model._model.data
    if not data.placement.by_leaves:
        return found.distances, ""
    # A forest has no distance: that of the standardised columns.
    spread = data.index.X.std(axis=0)
    step = (data.index.X[found.indices] - dense_row(X)) / np.where(spread > 0.0, spread, 1.0)
    return np.sqrt((step**2).sum(axis=1)), " (in standard deviations)"


def _anchors(model: Any, X: Any) -> ExplanationSection:
    """Return the stored models that are blended for the row, and what each of them says."""
    _, design, found = next(iter(model._model.localized(model._queries(X))))
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
    return next(iter(model._model.localized(model._queries(X))))[2]


def _slopes(model: Any, X: Any, columns: RowColumns) -> ExplanationSection | None:
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
    speakers = "anchors" if hasattr(model, "anchors_") else "neighbours"
    return coefficient_section(
        columns,
        slopes,
        x - centre,
        f"Around this row, {said} changes by so much per unit of a column; contributions are "
        f"counted from the weighted mean of the {speakers}.",
    )


def _centre(model: Any, X: Any, x: np.ndarray) -> np.ndarray:
    """Return the weighted mean of those who speak, in the columns of the row."""
    found, data = _neighborhood(model, X), model._model.data
    if not len(found.indices):
        return x
    share = found.weights / found.weights.sum()
    if data.placement.by_leaves:
        return share @ data.index.X[found.indices]
    mean = np.asarray(share @ data.rows[found.indices]).ravel()
    if data.placement.located is not None:
        centre = x.copy()
        centre[~data.placement.located] = mean
        return centre
    return x + _step_back(data.placement.coordinates, x, mean)


def _step_back(coordinates: Any, x: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Return the shortest step of the columns that makes, to first order, that of coordinates."""
    step = mean - np.asarray(coordinates(x[None, :]))[0]
    matrix = coordinates.matrix
    if coordinates.transformer is not None:
        matrix = coordinates.jacobian(x[None, :])
    if matrix is not None:
        step = step / matrix if matrix.ndim == 1 else step @ np.linalg.pinv(matrix)
    if coordinates.warp is not None:
        slope = coordinates.warp.derivative(x[None, :])[0]
        step = np.divide(step, slope, out=np.zeros_like(step), where=slope != 0.0)
    return step
