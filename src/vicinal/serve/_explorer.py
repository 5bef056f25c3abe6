"""The page on which one moves the columns of a row and sees what the model says."""

import json
from importlib import resources
from typing import Any

import numpy as np

from vicinal.serve._served_model import ServedModel, plain

_MAX_LEVELS = 40


def explorer_page(served: ServedModel) -> str:
    """Return the page, whole: controls for every column, answers asked of the server."""
    template = resources.files("vicinal.serve").joinpath("templates/explorer.html").read_text()
    content = {**served.metadata(), "controls": controls(served)}
    # Inside a script element only this sequence could end it.
    data = json.dumps(content).replace("<", "\\u003c")
    return template.replace("/*DATA*/null", data)


def controls(served: ServedModel) -> list[dict[str, Any]]:
    """Return for every column its kind, where it starts and how far it goes."""
    return [_control(name, _values(served, j, name)) for j, name in enumerate(served.columns)]


def _values(served: ServedModel, j: int, name: str) -> np.ndarray:
    table = served.background
    if table is None:
        return np.empty(0)
    return np.asarray(table[name] if served.has_names else table[:, j])


def _control(name: str, values: np.ndarray) -> dict[str, Any]:
    if len(values) == 0:
        return {"name": name, "kind": "text", "value": 0}
    if values.dtype.kind in "biuf":
        known = values[np.isfinite(values.astype(float))].astype(float)
        if len(known) == 0:
            return {"name": name, "kind": "text", "value": None}
        low, middle, high = np.quantile(known, [0.0, 0.5, 1.0], method="nearest")
        whole = bool(np.all(known == np.round(known)))
        step = 1.0 if whole else (high - low) / 200 or 1.0
        return {
            "name": name, "kind": "number", "min": low, "max": high, "value": middle, "step": step,
        }  # fmt: skip
    texts = [str(value) for value in values if value is not None and value == value]
    levels, counts = np.unique(texts, return_counts=True)
    if len(levels) > _MAX_LEVELS:
        return {"name": name, "kind": "text", "value": texts[0]}
    usual = str(levels[counts.argmax()])
    return {"name": name, "kind": "level", "levels": plain(levels), "value": usual}
