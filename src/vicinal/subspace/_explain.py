"""Explanations: votes of subspaces, the cluster of a row, slopes of a smooth score."""

from typing import Any

import numpy as np

from vicinal._base import counted
from vicinal._base._explanation import (
    ExplanationSection,
    RowColumns,
    coefficient_section,
    dense_row,
    show,
    two_best,
)

# Relative step of central differences: the cube root of the rounding error.
_STEP = 6e-6


def fusion_sections(model: Any, X: Any) -> list[ExplanationSection]:
    """Return the prediction of every subspace, and how many agree with the fusion."""
    predictions = np.asarray(model.predict_subspaces(X))[0]
    pairs = list(zip(model.subspace_names_, predictions, strict=True))
    fused = model.predict(X)[0]
    if not hasattr(model, "classes_"):
        rows = [(name, float(value), float(value - fused)) for name, value in pairs]
        rows.sort(key=lambda row: -abs(row[2]))
        summary = (
            f"The {len(pairs)} subspaces predict between {show(float(predictions.min()))} and "
            f"{show(float(predictions.max()))}; their fusion predicts {show(float(fused))}."
        )
        head = ("subspace", "prediction", "difference")
        values = {"spread": float(predictions.std())}
        return [ExplanationSection("votes", "Subspaces", summary, head, rows, head[2], values)]
    n_agreeing = int((predictions == fused).sum())
    tally = {label: int((predictions == label).sum()) for label in model.classes_.tolist()}
    votes = ", ".join(f"{show(label)} {count}" for label, count in tally.items() if count)
    summary = (
        f"{n_agreeing} of {len(pairs)} subspaces vote for {show(fused)} like their fusion "
        f"(votes: {votes}). Those that do not are listed first."
    )
    votes_cast = sorted(pairs, key=lambda pair: bool(pair[1] == fused))
    found = {"votes": tally, "n_agreeing": n_agreeing}
    columns = ("subspace", "vote")
    return [ExplanationSection("votes", "Subspaces", summary, columns, votes_cast, None, found)]


def cluster_sections(model: Any, X: Any, columns: RowColumns) -> list[ExplanationSection]:
    """Return the cluster of a row, and the slopes of its score."""
    cluster = int(model.predict_cluster(X)[0])
    distance = np.linalg.norm(model.cluster_centers_ - dense_row(X), axis=1)
    rows = [
        (f"cluster {c}", int(model.cluster_sizes_[c]), float(distance[c]))
        for c in np.argsort(distance, kind="stable")
    ]
    size = int(model.cluster_sizes_[cluster])
    predicts = "the model of all rows" if model.prediction == "exact" else "its own model"
    summary = (
        f"The row belongs to cluster {cluster} of {model.n_clusters_}, which held "
        f"{counted(size, 'training row')}; {predicts} predicts."
    )
    head = ("cluster", "training rows", "distance")
    values = {"cluster": cluster, "n_clusters": int(model.n_clusters_)}
    section = ExplanationSection("cluster", "Cluster", summary, head, rows, None, values)
    centre = model.cluster_centers_[cluster]
    return [section, slope_section(model, X, columns, centre, "the centre of the cluster")]


def slope_section(
    model: Any, X: Any, columns: RowColumns, origin: np.ndarray, origin_name: str
) -> ExplanationSection:
    """Return the gradient of a smooth score, by central differences."""
    score, name = _score(model, X)
    x = dense_row(X)
    step = _STEP * np.maximum(1.0, np.maximum(np.abs(x[0]), np.abs(x[0] - origin)))
    away = np.diag(step)
    up, down = _table_like(X, x + away), _table_like(X, x - away)
    slopes = (score(up) - score(down)) / (2.0 * step)
    return coefficient_section(
        columns,
        slopes,
        x[0] - origin,
        f"Change of {name} per unit of each column around this row; contributions are relative to "
        f"{origin_name}.",
    )


def _score(model: Any, X: Any):
    """Return the score of the prediction as a function of rows, and its name."""
    if not hasattr(model, "classes_"):
        return lambda rows: np.asarray(model.predict(rows), dtype=float), "the prediction"
    scores = np.asarray(model.decision_function(X))
    if scores.ndim == 1:
        chosen = int(scores[0] > 0)
        sign = 1.0 if chosen == 1 else -1.0
        return (
            lambda rows: sign * model.decision_function(rows),
            f"the score of {show(model.classes_[chosen])}",
        )
    first, second = two_best(scores[0])
    first_name, second_name = show(model.classes_[first]), show(model.classes_[second])

    def margin(rows):
        both = model.decision_function(rows)
        return both[:, first] - both[:, second]

    return margin, f"the score of {first_name} less that of {second_name}"


def _table_like(X: Any, rows: np.ndarray) -> Any:
    """Return rows as a table of the type of ``X``, with its names."""
    if not hasattr(X, "columns"):
        return rows
    if hasattr(X, "with_columns"):  # polars
        return type(X)(rows, schema=X.columns)
    return type(X)(rows, columns=X.columns)
