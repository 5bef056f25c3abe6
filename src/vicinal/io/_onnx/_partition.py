"""Space partitioning: all gates and regions at once, the region of a row by a mask."""

from typing import Any

import numpy as np

from vicinal.io._errors import OnnxExportError
from vicinal.io._onnx._graph import Graph, Writer
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


def _prepared(graph: Graph, model: Any, x: str) -> str:
    return x if model.scaler_ is None else graph.write("features", model.scaler_, x)


def _gate_scores(graph: Graph, gates: list[Any], x: str) -> str:
    """Write a score above 0 for every gate that passes on, (n, n_gates)."""
    if all(type(gate) is LinearGate for gate in gates):
        coef = np.column_stack([gate.coef_ for gate in gates])
        return graph.affine(x, coef, np.array([float(gate.intercept_) for gate in gates]))
    return graph.concat([_gate_score(graph, gate, x) for gate in gates])


def _gate_score(graph: Graph, gate: Any, x: str) -> str:
    if type(gate) is LinearGate:
        return graph.affine(x, np.reshape(gate.coef_, (-1, 1)), float(gate.intercept_))
    if type(gate) is ConstantGate:
        return graph.repeat([1.0 if gate.passes_on else -1.0], x)
    if 1 not in gate.classes_:
        return graph.repeat([-1.0], x)
    passes = graph.one_hot(graph.codes(gate, x), len(gate.classes_))
    return graph.plus(graph.columns(passes, np.flatnonzero(gate.classes_ == 1)), -0.5)


def _shares(graph: Graph, cascade: Any, x: str) -> str | None:
    """Write the weight of every region, (n, n_regions): one-hot, or probabilities."""
    if not cascade.gates:
        return None
    scores = _gate_scores(graph, cascade.gates, x)
    last = graph.repeat([0.0], x)
    if not cascade.soft:
        # The first gate that does not pass the row on; after the last gate comes the last region.
        stays = graph.add("Sub", graph.constant(1.0), graph.where_positive(scores))
        stays = graph.concat([stays, graph.plus(last, 1.0)])
        region = graph.add("ArgMax", stays, axis=1, keepdims=1)
        return graph.one_hot(region, cascade.n_regions)
    passed = graph.add("CumSum", graph.log_sigmoid(scores), graph.constant(np.int64(1)))
    before = graph.concat([last, passed])
    stays = graph.concat([graph.log_sigmoid(graph.add("Neg", scores)), last])
    return graph.add("Exp", graph.add("Add", before, stays))


def _region_proba(graph: Graph, cascade: Any, x: str, classes: np.ndarray) -> str:
    """Write the probabilities of every region, (n, n_regions, n_classes)."""
    regions = cascade.regions
    if all(type(region) is LinearRegionClassifier for region in regions):
        cooled = [_cooled(region) for region in regions]
        coef, intercept = (np.concatenate(parts) for parts in zip(*cooled, strict=True))
        scores = graph.affine(x, coef.T, intercept)
        scores = graph.reshape(scores, 0, len(regions), len(classes))
        return graph.add("Softmax", scores, axis=2)
    for region in regions:
        if not hasattr(region, "predict_proba"):
            raise OnnxExportError(
                f"the region model {type(region).__name__} has no predict_proba, which the graph "
                "needs; wrap it in sklearn.calibration.CalibratedClassifierCV, or use another "
                "region_estimator."
            )
    parts = [
        graph.reshape(_aligned(graph, region, x, classes), 0, 1, len(classes)) for region in regions
    ]
    return graph.concat(parts)


def _cooled(region: LinearRegionClassifier) -> tuple[np.ndarray, np.ndarray]:
    """Return coefficients and intercepts of the scores over the temperature."""
    heat = float(region.temperature_)
    return np.asarray(region.coef_, dtype=np.float64) / heat, np.asarray(region.intercept_) / heat


def _aligned(graph: Graph, region: Any, x: str, classes: np.ndarray) -> str:
    if type(region) is LinearRegionClassifier:
        coef, intercept = _cooled(region)
        return graph.add("Softmax", graph.affine(x, coef.T, intercept), axis=1)
    return graph.proba(region, x, classes)


def _cascade_proba(graph: Graph, model: Any, x: str) -> str:
    x = _prepared(graph, model, x)
    n_classes, parts = len(model.classes_), []
    for cascade in model.restarts_:
        proba = _region_proba(graph, cascade, x, model.classes_)
        shares = _shares(graph, cascade, x)
        if shares is None:
            parts.append(graph.reshape(proba, 0, n_classes))
            continue
        weighed = graph.add("Mul", proba, graph.reshape(shares, 0, cascade.n_regions, 1))
        parts.append(graph.total(weighed, 1))
    return graph.mean_of(parts, n_classes)


def _cascade_value(graph: Graph, model: Any, x: str) -> str:
    x = _prepared(graph, model, x)
    parts = []
    for cascade in model.restarts_:
        regions = cascade.regions
        if all(type(region) is LinearRegionRegressor for region in regions):
            coef = np.column_stack([region.coef_ for region in regions])
            offset = np.array([float(region.intercept_) for region in regions])
            values = graph.affine(x, coef, offset)
        else:
            values = graph.concat([_region_value(graph, region, x) for region in regions])
        shares = _shares(graph, cascade, x)
        if shares is not None:
            values = graph.total(graph.add("Mul", values, shares), 1, keep=True)
        parts.append(values)
    return graph.mean_of(parts, 1)


def _region_value(graph: Graph, region: Any, x: str) -> str:
    if type(region) is LinearRegionRegressor:
        return graph.affine(x, np.reshape(region.coef_, (-1, 1)), float(region.intercept_))
    return graph.write("values", region, x)


def _surrogate_proba(graph: Graph, model: Any, x: str) -> str:
    x = _prepared(graph, model, x)
    gate = graph.affine(x, model.gate_coef_[:, None], model.gate_intercept_)
    region = graph.one_hot(graph.cast(graph.where_positive(gate), "INT64"), 2)
    scores = graph.affine(x, model.coef_.T, model.intercept_)
    own = graph.total(graph.add("Mul", scores, region), 1, keep=True)
    return graph.probabilities(own, 2)


PROBA: dict[type, Writer] = {
    SpacePartitioningClassifier: _cascade_proba,
    SurrogatePartitionClassifier: _surrogate_proba,
}
VALUES: dict[type, Writer] = {SpacePartitioningRegressor: _cascade_value}
