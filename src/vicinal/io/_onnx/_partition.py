"""Space partitioning: all gates and regions at once, the region of a row by a mask."""

from typing import Any

import numpy as np

import vicinal
from vicinal.io._errors import OnnxExportError
from vicinal.io._onnx._graph import Node, writes
from vicinal.partition import stages


def _prepared(model: Any, x: Node) -> Node:
    return x if model.scaler_ is None else x.write("features", model.scaler_)


def _gate_scores(gates: list[Any], x: Node) -> Node:
    """Write scores above 0 for the gates that pass a row on, (n, n_gates)."""
    if all(type(gate) is stages.LinearGate for gate in gates):
        intercepts = np.array([float(gate.intercept_) for gate in gates])
        return x @ np.column_stack([gate.coef_ for gate in gates]) + intercepts
    return x.graph.concat([_gate_score(gate, x) for gate in gates])


def _gate_score(gate: Any, x: Node) -> Node:
    if type(gate) is stages.LinearGate:
        return _gate_scores([gate], x)
    if type(gate) is stages.ConstantGate:
        return x.repeat([1.0 if gate.passes_on else -1.0])
    if 1 not in gate.classes_:
        return x.repeat([-1.0])
    passes = x.codes(gate).one_hot(np.arange(len(gate.classes_)))
    return passes.columns(np.flatnonzero(gate.classes_ == 1)) - 0.5


def _shares(cascade: Any, x: Node) -> Node | None:
    """Write the weight of every region, (n, n_regions): one-hot, or probabilities."""
    if not cascade.gates:
        return None
    graph, last = x.graph, x.repeat([0.0])
    scores = _gate_scores(cascade.gates, x)
    if not cascade.soft:
        # The first gate that does not pass the row on; after the last gate comes the last region.
        stays = graph.concat([(scores <= 0.0).cast("DOUBLE"), last + 1.0])
        region = stays.op("ArgMax", axis=1, keepdims=1)
        return region.one_hot(np.arange(cascade.n_regions))
    before = graph.concat([last, scores.log_sigmoid().op("CumSum", np.int64(1))])
    return (before + graph.concat([(-scores).log_sigmoid(), last])).op("Exp")


def _region_values(regions: list[Any], x: Node, width: int, write: Any) -> Node:
    """Write the predictions of every region, (n, n_regions, width); linear ones at once."""
    is_linear = [
        type(one) in (stages.LinearRegionClassifier, stages.LinearRegionRegressor)
        for one in regions
    ]
    if not all(is_linear):
        parts = [
            _region_values([region], x, width, write) if linear else write(region, x)
            for region, linear in zip(regions, is_linear, strict=True)
        ]
        return x.graph.concat([part.reshape(0, 1, width) for part in parts])
    heat = np.repeat([float(getattr(one, "temperature_", 1.0)) for one in regions], width)
    coef = np.concatenate([np.reshape(one.coef_, (width, -1)) for one in regions]).astype(float)
    intercept = np.concatenate([np.ravel(one.intercept_) for one in regions])
    scores = (x @ (coef.T / heat) + intercept / heat).reshape(0, len(regions), width)
    return scores.softmax(2) if type(regions[0]) is stages.LinearRegionClassifier else scores


def _cascades(model: Any, x: Node, width: int, write: Any) -> Node:
    """Write the mean over restarts of the predictions of the regions, by their weights."""
    x, parts = _prepared(model, x), []
    for cascade in model.restarts_:
        values, shares = _region_values(cascade.regions, x, width, write), _shares(cascade, x)
        if shares is not None:
            values = values * shares.reshape(0, cascade.n_regions, 1)
        parts.append(values.total(1))
    return x.graph.mean_of(parts)


@writes("proba", vicinal.SurrogatePartitionClassifier)
def _surrogate_proba(model: Any, x: Node) -> Node:
    x = _prepared(model, x)
    gate = x @ model.gate_coef_[:, None] + float(model.gate_intercept_)
    region = gate.best(2).one_hot(np.arange(2))
    scores = (x @ model.coef_.T + model.intercept_) * region
    return scores.total(1, keep=True).probabilities(2)


@writes("proba", vicinal.SpacePartitioningClassifier)
def _partition_proba(model: Any, x: Node) -> Node:
    def region_proba(region: Any, x: Node) -> Node:
        if not hasattr(region, "predict_proba"):
            raise OnnxExportError(
                f"the region model {type(region).__name__} has no predict_proba, which the graph "
                "needs; wrap it in sklearn.calibration.CalibratedClassifierCV, or use another "
                "region_estimator."
            )
        return x.proba(region, model.classes_)

    return _cascades(model, x, len(model.classes_), region_proba)


@writes("values", vicinal.SpacePartitioningRegressor)
def _partition_value(model: Any, x: Node) -> Node:
    return _cascades(model, x, 1, lambda region, x: x.write("values", region))
