"""Space partitioning: all gates and regions at once, the region of a row by a mask."""

from typing import Any

import numpy as np

from vicinal.io._errors import OnnxExportError
from vicinal.io._onnx._graph import Node, Writer
from vicinal.partition import (
    SpacePartitioningClassifier,
    SpacePartitioningRegressor,
    SurrogatePartitionClassifier,
)
from vicinal.partition.stages import (
    ConstantGate,
    LinearGate,
    LinearRegionClassifier,
    LinearRegionRegressor,
)


def _prepared(model: Any, x: Node) -> Node:
    return x if model.scaler_ is None else x.write("features", model.scaler_)


def _gate_score(gate: Any, x: Node) -> Node:
    """Write a score above 0 where the gate passes on, (n, 1)."""
    if type(gate) is LinearGate:
        return x @ np.reshape(gate.coef_, (-1, 1)) + float(gate.intercept_)
    if type(gate) is ConstantGate:
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
    scores = graph.concat([_gate_score(gate, x) for gate in cascade.gates])
    if not cascade.soft:
        # The first gate that does not pass the row on; after the last gate comes the last region.
        stays = graph.concat([(scores <= 0.0).cast("DOUBLE"), last + 1.0])
        region = stays.op("ArgMax", axis=1, keepdims=1)
        return region.one_hot(np.arange(cascade.n_regions))
    before = graph.concat([last, scores.log_sigmoid().op("CumSum", np.int64(1))])
    return (before + graph.concat([(-scores).log_sigmoid(), last])).op("Exp")


def _region_proba(region: Any, x: Node, classes: np.ndarray) -> Node:
    if type(region) is LinearRegionClassifier:
        scores = x @ np.asarray(region.coef_, dtype=np.float64).T + np.asarray(region.intercept_)
        return (scores * (1.0 / float(region.temperature_))).softmax()
    if not hasattr(region, "predict_proba"):
        raise OnnxExportError(
            f"the region model {type(region).__name__} has no predict_proba, which the graph "
            "needs; wrap it in sklearn.calibration.CalibratedClassifierCV, or use another "
            "region_estimator."
        )
    return x.proba(region, classes)


def _region_value(region: Any, x: Node) -> Node:
    if type(region) is LinearRegionRegressor:
        return x @ np.reshape(region.coef_, (-1, 1)) + float(region.intercept_)
    return x.write("values", region)


def _cascades(model: Any, x: Node, width: int, write: Any) -> Node:
    """Write the mean over restarts of the predictions of the regions, by their weights."""
    x, parts = _prepared(model, x), []
    for cascade in model.restarts_:
        values = [write(region, x).reshape(0, 1, width) for region in cascade.regions]
        shares = _shares(cascade, x)
        joined = x.graph.concat(values)
        if shares is not None:
            joined = joined * shares.reshape(0, cascade.n_regions, 1)
        parts.append(joined.total(1))
    return x.graph.mean_of(parts)


def _surrogate_proba(model: Any, x: Node) -> Node:
    x = _prepared(model, x)
    gate = x @ model.gate_coef_[:, None] + float(model.gate_intercept_)
    region = gate.best(2).one_hot(np.arange(2))
    scores = (x @ model.coef_.T + model.intercept_) * region
    return scores.total(1, keep=True).probabilities(2)


PROBA: dict[type, Writer] = {
    SpacePartitioningClassifier: lambda model, x: _cascades(
        model, x, len(model.classes_), lambda region, x: _region_proba(region, x, model.classes_)
    ),
    SurrogatePartitionClassifier: _surrogate_proba,
}
VALUES: dict[type, Writer] = {
    SpacePartitioningRegressor: lambda model, x: _cascades(model, x, 1, _region_value)
}
