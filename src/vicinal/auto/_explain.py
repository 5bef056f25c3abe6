"""Reasons of a mixture: the training rows that its local members listened to."""

from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from vicinal._base._explanation import ExplanationSection
from vicinal.auto._encodings import StoredRows
from vicinal.auto._fit import BaseModel

# Rows of the table; the summary counts all.
_MOST_ROWS = 200


def neighbor_section(
    members: list[BaseModel],
    rows: dict[str, Any],
    positions: np.ndarray,
    targets: np.ndarray,
    stored_rows: StoredRows | None,
) -> ExplanationSection:
    """Return the training rows that local members listened to, by their share of the mixture.

    Parameters
    ----------
    members : list of BaseModel
        Those that carry weight.
    rows : dict of str to array
        The row in each encoding.
    positions : ndarray of shape (n_samples,)
        Position of each training row in the table.
    targets : ndarray of shape (n_samples,) or (n_samples, n_outputs)
        What it was.
    stored_rows : StoredRows or None
        The rows as they were written, where they were kept.
    """
    share, local_weight = np.zeros(len(positions)), 0.0
    for member in members:
        weights = _neighbor_weights(member.estimator, rows[member.encoding])
        if weights is not None:
            local_weight += member.weight
            share += member.weight * weights / max(weights.sum(), np.finfo(float).tiny)
    heard = np.flatnonzero(share)
    if not len(heard):
        summary = "No neighbourhood: global models answered."
        values = {"n_neighbors": 0, "local_weight": local_weight}
        return ExplanationSection("neighbors", "Neighbours", summary, values=values)
    size = float(share.sum() ** 2 / (share**2).sum())
    summary = (
        f"Local members, with {local_weight:.0%} of the weight, listened to {len(heard)} of "
        f"{len(positions)} training rows, unequally: as much as {size:.0f} of equal weight."
    )
    if size > 0.5 * len(positions):
        summary += " That is most of the table, hardly a neighbourhood."
    if local_weight < 1.0 - 1e-9:
        summary += " The others are global models."
    if len(heard) > _MOST_ROWS:
        summary += f" The {_MOST_ROWS} that weigh most are listed."
    order = heard[np.argsort(-share[heard], kind="stable")][:_MOST_ROWS]
    table = [
        (int(positions[i]), targets[i] if targets.ndim == 1 else tuple(targets[i]), float(share[i]))
        for i in order
    ]
    values = {
        "n_neighbors": len(heard),
        "effective_sample_size": size,
        "local_weight": local_weight,
    }
    head = ("training row", "target", "weight")
    cells = None if stored_rows is None else lambda name: stored_rows.cells(name, order)
    return ExplanationSection(
        "neighbors", "Neighbours", summary, head, table, "weight", values, cells
    )


def is_local(model: Any) -> bool:
    """Tell whether a model, or the last step behind its transformers, has neighbours."""
    return hasattr(model[-1] if isinstance(model, Pipeline) else model, "neighbors")


def _neighbor_weights(model: Any, row: Any) -> np.ndarray | None:
    """Return the weights that a local model gives training rows, ``None`` for a global one."""
    if not is_local(model):
        return None
    if isinstance(model, Pipeline):
        row, model = model[:-1].transform(row), model[-1]
    return model.neighbors(row).toarray()[0]
