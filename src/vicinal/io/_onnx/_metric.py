"""Neural neighbours, and kernel ridge regression in the gradient metric."""

from typing import Any

import numpy as np

from vicinal.io._onnx._graph import Graph, Writer
from vicinal.metric import (
    GradientKernelClassifier,
    GradientKernelRegressor,
    NeuralNeighborsClassifier,
    NeuralNeighborsRegressor,
)

# --- neural neighbours ---


def _normal_scores(graph: Graph, model: Any, x: str) -> str:
    """Write the normal scores of all columns, clipped."""
    ends = graph.constant(-model._score_limit), graph.constant(model._score_limit)
    return graph.add("Clip", graph.piecewise_linear(x, model.knots_), *ends)


def _coordinates(graph: Graph, net: dict[str, np.ndarray], x: str) -> str:
    """Write the coordinates of rows in one net, from its named arrays."""
    if "c" in net:
        x = _periodic(graph, net, x)
    z = graph.affine(x, net["A"])
    u = _normalized(graph, net, z, "1")
    h = graph.add("Relu", graph.affine(u, net["B1"], net["b1"][0]))
    return _normalized(graph, net, graph.add("Add", z, graph.affine(h, net["B2"])), "2")


def _periodic(graph: Graph, net: dict[str, np.ndarray], x: str) -> str:
    d, _, width = net["W"].shape
    rows = graph.reshape(graph.add("Transpose", x, perm=[1, 0]), d, -1, 1)
    phase = graph.add("Mul", rows, graph.constant(2.0 * np.pi * net["c"]))
    cosine = graph.add("Sin", graph.plus(phase, 0.5 * np.pi))
    features = graph.concat([cosine, graph.add("Sin", phase), rows], axis=2)
    e = graph.add("Add", graph.add("MatMul", features, graph.constant(net["W"])),
                  graph.constant(net["b"]))  # fmt: skip
    e = graph.add("Transpose", graph.add("Relu", e), perm=[1, 0, 2])
    return graph.reshape(e, -1, d * width)


def _normalized(graph: Graph, net: dict[str, np.ndarray], x: str, layer: str) -> str:
    factor = net["scale" + layer][0] * net["inverse" + layer][0]
    offset = net["shift" + layer][0] - net["mean" + layer][0] * factor
    return graph.plus(graph.add("Mul", x, graph.constant(factor)), offset)


def _votes(graph: Graph, model: Any, x: str) -> str:
    """Write the mean vote of the nets over the stored rows."""
    scores = _normal_scores(graph, model, x)
    parts = []
    for e, voters in enumerate(model.embedding_):
        z = _coordinates(graph, model._net_arrays(e), scores)
        distance = graph.add("Sqrt", graph.square_distances(z, voters))
        logits = graph.add("Sub", graph.constant(model.voter_log_weights_), distance)
        shares = graph.add("Softmax", logits, axis=1)
        parts.append(graph.affine(shares, model.voter_outputs_))
    return graph.mean_of(parts, model.voter_outputs_.shape[1])


def _vote_value(graph: Graph, model: Any, x: str) -> str:
    votes = _votes(graph, model, x)
    return graph.plus(graph.times(votes, model.target_scale_), model.target_mean_)


# --- kernel ridge in the gradient metric ---


def _ridge(graph: Graph, model: Any, x: str) -> str:
    """Write the outputs of the blocks, blended across their splits."""
    z = graph.times(graph.plus(x, -model.mean_), 1.0 / model.scale_)
    if model.splits_:
        return _blended(graph, model, 0, z)
    return _block(graph, model, model.blocks_[0], z)


def _blended(graph: Graph, model: Any, node: int, z: str) -> str:
    if node < 0:
        return _block(graph, model, model.blocks_[-1 - node], z)
    split = model.splits_[node]
    side = graph.plus(graph.affine(z, split["direction"][:, None]), -split["threshold"])
    if split["width"] > 0.0:
        ramp = graph.plus(graph.affine(side, [[0.5 / split["width"]]]), 0.5)
        ramp = graph.add("Max", graph.add("Min", ramp, graph.constant(1.0)), graph.constant(0.0))
        square = graph.add("Mul", ramp, ramp)
        right = graph.add("Mul", square, graph.plus(graph.affine(ramp, [[-2.0]]), 3.0))
    else:
        right = graph.where_positive(side)
    left_value, right_value = (_blended(graph, model, child, z) for child in split["children"])
    difference = graph.add("Sub", right_value, left_value)
    return graph.add("Add", left_value, graph.add("Mul", right, difference))


def _block(graph: Graph, model: Any, block: dict[str, Any], z: str) -> str:
    components = block["components"]
    mapped = graph.times(z, components) if components.ndim == 1 else graph.affine(z, components)
    square = graph.square_distances(mapped, block["mapped"])
    n = len(block["mapped"])
    if model.kernel == "laplace":
        exponent = graph.times(graph.add("Sqrt", square), -1.0 / block["bandwidth"], n)
    else:
        exponent = graph.times(square, -0.5 / block["bandwidth"] ** 2, n)
    return graph.affine(graph.add("Exp", exponent), block["dual_coef"], block["intercept"])


def _ridge_value(graph: Graph, model: Any, x: str) -> str:
    values = _ridge(graph, model, x)
    return graph.plus(graph.times(values, model.target_scale_), model.target_mean_)


def _ridge_proba(graph: Graph, model: Any, x: str) -> str:
    scores = _ridge(graph, model, x)
    scaled = graph.times(scores, 1.0 / model.temperature_, len(model.classes_))
    return graph.add("Softmax", scaled, axis=1)


PROBA: dict[type, Writer] = {
    GradientKernelClassifier: _ridge_proba,
    NeuralNeighborsClassifier: _votes,
}
VALUES: dict[type, Writer] = {
    GradientKernelRegressor: _ridge_value,
    NeuralNeighborsRegressor: _vote_value,
}
