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

# Rows of a table of neighbours; a stack with a global model hears every training row.
_MOST_NEIGHBORS = 200


def local_sections(model: Any, X: Any, columns: RowColumns) -> list[ExplanationSection]:
    """Return neighbours (or anchors), local coefficients, and the models of a stack."""
    if getattr(model, "anchors_", None) is not None:
        sections = [_anchors(model, X)]
    else:
        sections = [_neighbors(model, X)]
    slopes = _slopes(model, X, columns)
    if slopes is not None:
        sections.append(slopes)
    if _stack_of(model) is not None:
        sections.append(_rungs(model, X))
    return sections


def _stack_of(model: Any) -> Any:
    return getattr(model, "_stack", None)


def _neighbors(model: Any, X: Any) -> ExplanationSection:
    voices = model.neighbors(X).tocsr()
    rows, weight = voices.indices, voices.data
    size = float(model.effective_sample_size(X)[0])
    share = weight / weight.sum() if len(weight) else weight
    distance, unit = _distances(model, X, rows)
    target = _targets(model, rows)
    order = np.argsort(-weight, kind="stable")[:_MOST_NEIGHBORS].tolist()
    table = [(int(rows[i]), target[i], float(distance[i]), float(share[i])) for i in order]
    values: dict[str, Any] = {"n_neighbors": len(rows), "effective_sample_size": size}
    summary = "No training row is near enough to speak; the prediction is the overall answer."
    if len(rows):
        summary = (
            f"{len(rows)} training rows speak for this one, worth {show(size)} of equal weight; "
            f"the nearest is {show(float(distance.min()))} away, the farthest "
            f"{show(float(distance.max()))}{unit}."
        )
    if hasattr(model, "classes_") and len(rows):
        shares = np.bincount(_codes(model)[rows], share, minlength=len(model.classes_))
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


def _codes(model: Any) -> np.ndarray:
    stack = _stack_of(model)
    return model._codes if stack is None else stack.codes


def _targets(model: Any, rows: np.ndarray) -> list[Any]:
    if hasattr(model, "classes_"):
        return list(model.classes_[_codes(model)[rows]])
    stack = _stack_of(model)
    targets = (model._targets if stack is None else stack.Y)[rows]
    return list(targets[:, 0]) if targets.shape[1] == 1 else [tuple(t) for t in targets]


def _distances(model: Any, X: Any, rows: np.ndarray) -> tuple[np.ndarray, str]:
    """Return how far the rows are, in the metric of the model if it has one, and the unit."""
    known = _known_rows(model)
    if known is None:
        found = _neighborhood(model, X)
        by_row = dict(zip(found.indices.tolist(), found.distances.tolist(), strict=True))
        return np.array([by_row[row] for row in rows.tolist()]), ""
    # Several metrics, or a forest: no one distance, so that of the standardised columns.
    spread = known.std(axis=0)
    step = (known[rows] - dense_row(X)) / np.where(spread > 0.0, spread, 1.0)
    return np.sqrt((step**2).sum(axis=1)), " (in standard deviations)"


def _known_rows(model: Any) -> np.ndarray | None:
    """Return the training rows in their own columns, where the model keeps them so."""
    stack = _stack_of(model)
    if stack is not None:
        return stack.X
    return model._data.index.X if hasattr(model._data.index, "forest") else None


def _rungs(model: Any, X: Any) -> ExplanationSection:
    """Return the models of a stack, their weights, and what each would say."""
    valid = model._validate_queries(X)
    table = []
    for rung, weight in zip(model.rungs_, model.rung_weights_, strict=True):
        is_local = hasattr(rung, "_raw_scores")
        scores = (rung._raw_scores(valid) if is_local else rung.scores(valid))[0]
        if hasattr(model, "classes_"):
            said: Any = model.classes_[int(scores.argmax())]
        else:
            said = float(scores[0])
        if is_local:
            size = "" if rung.n_neighbors_ is None else f", {rung.n_neighbors_} neighbours"
            name = f"{rung.metric_}{size}, degree {rung.degree_}"
        else:
            name = f"{rung.metric}, global {rung.solver}"
        table.append((name, said, float(weight)))
    summary = (
        f"The scores are the weighted mean of {len(table)} models that were stacked by how well "
        "they predict rows they have not seen."
    )
    head = ("model", "says", "weight")
    return ExplanationSection("members", "Stacked models", summary, head, table, "weight")


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
    speakers = "neighbours" if getattr(model, "anchors_", None) is None else "anchors"
    return coefficient_section(
        columns,
        slopes,
        x - centre,
        f"Around this row, {said} changes by so much per unit of a column; contributions are "
        f"counted from the weighted mean of the {speakers}.",
    )


def _centre(model: Any, X: Any, x: np.ndarray) -> np.ndarray:
    """Return the weighted mean of those who speak, in the columns of the row."""
    known = _known_rows(model)
    if known is not None:
        voices = model.neighbors(X).tocsr()
        return np.asarray(voices @ known)[0] / voices.sum()
    found, data = _neighborhood(model, X), model._data
    if not len(found.indices):
        return x
    share = found.weights / found.weights.sum()
    mean = np.asarray(share @ data.rows[found.indices]).ravel()
    if model.location_columns is not None:
        centre = x.copy()
        centre[~model._location_mask(len(x))] = mean
        return centre
    return x + _step_back(data.coordinates, x, mean)


def _step_back(coordinates: Any, x: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Return the shortest step of the columns that makes, to first order, that of coordinates."""
    step = mean - np.asarray(coordinates(x[None, :]))[0]
    matrix = coordinates.matrix
    if coordinates.transformer is not None:
        matrix = coordinates._jacobian(x[None, :])
    if matrix is not None:
        step = step / matrix if matrix.ndim == 1 else step @ np.linalg.pinv(matrix)
    if coordinates.warp is not None:
        slope = coordinates.warp.derivative(x[None, :])[0]
        step = np.divide(step, slope, out=np.zeros_like(step), where=slope != 0.0)
    return step
