"""Explanation of an ensemble: the training rows that its local models use."""

from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from vicinal._base._explanation import ExplanationSection
from vicinal.auto._encodings import StoredRows
from vicinal.auto._fit import BaseModel

# Rows of the table; the summary counts all.
_MOST_ROWS = 200


def neighbor_section(
    models: list[BaseModel],
    rows: dict[str, Any],
    positions: np.ndarray,
    targets: np.ndarray,
    stored_rows: StoredRows | None,
) -> ExplanationSection:
    """Return the training rows that local models use, by their share of the prediction.

    Parameters
    ----------
    models : list of BaseModel
        The base models.
    rows : dict of str to array
        The row in each encoding.
    positions : ndarray of shape (n_samples,)
        Position of each training row in the table.
    targets : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        Targets of the training rows.
    stored_rows : StoredRows or None
        The rows as they were given, where they are stored.
    """
    share, local_weight = np.zeros(len(positions)), 0.0
    for model in models:
        weights = _neighbor_weights(model.estimator, rows[model.encoding])
        if weights is not None:
            local_weight += model.weight
            share += model.weight * weights / max(weights.sum(), np.finfo(float).tiny)
    used = np.flatnonzero(share)
    if not len(used):
        summary = "No neighbourhood: all base models are global."
        values = {"n_neighbors": 0, "local_weight": local_weight}
        return ExplanationSection("neighbors", "Neighbours", summary, values=values)
    size = float(share.sum() ** 2 / (share**2).sum())
    summary = (
        f"Local models, with {local_weight:.0%} of the weight, use {len(used)} of {len(positions)} "
        f"training rows; their weights are equivalent to {size:.0f} rows of equal weight."
    )
    if size > 0.5 * len(positions):
        summary += " This is most of the table, hardly a neighbourhood."
    if local_weight < 1.0 - 1e-9:
        summary += " The others are global models."
    if len(used) > _MOST_ROWS:
        summary += f" The {_MOST_ROWS} of largest weight are listed."
    order = used[np.argsort(-share[used], kind="stable")][:_MOST_ROWS]
    table = [
        (int(positions[i]), targets[i] if targets.ndim == 1 else tuple(targets[i]), float(share[i]))
        for i in order
    ]
    values = {
        "n_neighbors": len(used),
        "effective_sample_size": size,
        "local_weight": local_weight,
    }
    head = ("training row", "target", "weight")
    cells = None if stored_rows is None else lambda name: stored_rows.cells(name, order)
    return ExplanationSection(
        "neighbors", "Neighbours", summary, head, table, "weight", values, cells
    )


def is_local(model: Any) -> bool:
    """Return whether a model, or the last step behind its transformers, has neighbours."""
    return hasattr(model[-1] if isinstance(model, Pipeline) else model, "neighbors")


def _neighbor_weights(model: Any, row: Any) -> np.ndarray | None:
    """Return the weights that a local model gives training rows, ``None`` for a global one."""
    if not is_local(model):
        return None
    if isinstance(model, Pipeline):
        row, model = model[:-1].transform(row), model[-1]
    return model.neighbors(row).toarray()[0]
