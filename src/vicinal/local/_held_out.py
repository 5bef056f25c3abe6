"""Held-out predictions of every setting of a local model."""

import copy
from typing import Any

import numpy as np

from vicinal._base import HeldOut, TrainingData, fold_entries
from vicinal._kernels.calibration._probabilities import fit_temperatures
from vicinal.local._fit import (
    LocalSettings,
    Selected,
    comparisons,
    local_data,
    resolve,
    store,
)
from vicinal.local._neighborhoods import NearestRule, RadiusRule
from vicinal.local._rows import (
    label_folds,
    mapped,
)
from vicinal.local._solvers import probabilities


def held_out_candidates(
    model: Any, data: TrainingData, settings: LocalSettings, folds, rows
) -> HeldOut:
    """Return held-out predictions of every candidate."""
    if folds is None:
        folds = label_folds(len(data), data.groups, settings.random_state)
    entries = fold_entries(folds, rows)
    order = np.concatenate(entries)
    candidates: list[dict] = []
    predictions: list[np.ndarray] = []
    chosen: list[tuple[Selected, float | None]] = []
    for one in comparisons(data, settings, order, folds, entries, np.float32):
        temperatures = _to_probabilities(one.predictions, order, data, settings)
        predictions.append(one.predictions)
        for (rule, alpha), temperature in zip(one.settings, temperatures, strict=True):
            candidates.append(_parameters(model, one.metric, one.degree, rule, alpha))
            selected = Selected(one.rows, one.metric, rule, one.degree, alpha)
            chosen.append((selected, temperature))

    def fitted(c: int, *table):
        selected, temperature = chosen[c]
        one = copy.copy(model).set_params(**candidates[c])
        used, what = data, settings
        if table:
            X, y, weight = table
            used = local_data(one, X, y, weight, None)
            what = resolve(one, used)
        if table or selected.rows is None:
            selected = selected._replace(rows=mapped(used, what, selected.metric))
        store(one, selected, what)
        if data.classes is not None:
            one.temperature_ = temperature
        return one

    has_rows = not hasattr(model, "anchors")  # anchored models store other models than these
    return HeldOut(candidates, order, np.concatenate(predictions), fitted if has_rows else None)


def _to_probabilities(scores, order, data: TrainingData, settings: LocalSettings) -> list:
    """Turn scores of classifiers into probabilities in place; return the temperatures."""
    temperatures: list[float | None] = [None] * len(scores)
    if data.classes is None:
        return temperatures
    if settings.has_temperature:
        weights = None if data.sample_weight is None else data.host(data.sample_weight)[order]
        codes = data.host(data.y)[order]
        temperatures = fit_temperatures(scores.astype(np.float64), codes, weights).tolist()
    for own, temperature in zip(scores, temperatures, strict=True):
        own[:] = probabilities(own.astype(np.float64), settings.solver.link, temperature)
    return temperatures


def _parameters(model: Any, metric, degree: int, rule: Any, alpha: float) -> dict:
    """Return the constructor parameters of a candidate."""
    found: dict = {"metric": metric, "degree": degree, "alpha": alpha}
    if isinstance(rule, RadiusRule):
        found["bandwidth"] = rule.bandwidth
    elif isinstance(rule, NearestRule) and not rule.loess:
        found["n_neighbors"] = int(rule.count)
    known = model.get_params(deep=False)
    return {name: value for name, value in found.items() if name in known}
