"""Neural neighbours, and kernel ridge regression in the gradient metric."""

from typing import Any

import numpy as np

from vicinal.io._onnx._graph import Node, Writer
from vicinal.metric import (
    GradientKernelClassifier,
    GradientKernelRegressor,
    NeuralNeighborsClassifier,
    NeuralNeighborsRegressor,
)

# --- neural neighbours ---


def _coordinates(net: dict[str, np.ndarray], x: Node) -> Node:
    """Write the coordinates of rows in one net, from its named arrays."""
    z = (_periodic(net, x) if "c" in net else x) @ net["A"]
    h = (_normalized(net, z, "1") @ net["B1"] + net["b1"][0]).op("Relu")
    return _normalized(net, z + h @ net["B2"], "2")


def _periodic(net: dict[str, np.ndarray], x: Node) -> Node:
    d, _, width = net["W"].shape
    rows = x.op("Transpose", perm=[1, 0]).reshape(d, -1, 1)
    phase = rows * (2.0 * np.pi * net["c"])
    waves = [(phase + 0.5 * np.pi).op("Sin"), phase.op("Sin"), rows]
    e = (x.graph.concat(waves, axis=2) @ net["W"] + net["b"]).op("Relu")
    return e.op("Transpose", perm=[1, 0, 2]).reshape(-1, d * width)


def _normalized(net: dict[str, np.ndarray], x: Node, layer: str) -> Node:
    factor = net["scale" + layer][0] * net["inverse" + layer][0]
    return x * factor + (net["shift" + layer][0] - net["mean" + layer][0] * factor)


def _votes(model: Any, x: Node) -> Node:
    """Write the mean vote of the nets over the stored rows."""
    limit = float(model._score_limit)
    scores = x.graph.piecewise_linear(x, model.knots_).op("Clip", -limit, limit)
    parts = []
    for e, voters in enumerate(model.embedding_):
        z = _coordinates(model._net_arrays(e), scores)
        logits = model.voter_log_weights_ - z.square_distances(voters).op("Sqrt")
        parts.append(logits.softmax() @ model.voter_outputs_)
    return x.graph.mean_of(parts)


# --- kernel ridge in the gradient metric ---


def _ridge(model: Any, x: Node) -> Node:
    """Write the outputs of the blocks, blended across their splits."""
    z = (x - model.mean_) * (1.0 / model.scale_)
    return _blended(model, 0 if model.splits_ else -1, z)


def _blended(model: Any, node: int, z: Node) -> Node:
    if node < 0:
        return _block(model, model.blocks_[-1 - node], z)
    split = model.splits_[node]
    side = z @ split["direction"][:, None] - float(split["threshold"])
    if split["width"] > 0.0:
        ramp = (side * (0.5 / split["width"]) + 0.5).op("Clip", 0.0, 1.0)
        right = ramp * ramp * (3.0 - ramp * 2.0)
    else:
        right = (side > 0.0).cast("DOUBLE")
    values = [_blended(model, child, z) for child in split["children"]]
    return values[0] + right * (values[1] - values[0])


def _block(model: Any, block: dict[str, Any], z: Node) -> Node:
    components = block["components"]
    mapped = z * components if components.ndim == 1 else z @ components
    square = mapped.square_distances(block["mapped"])
    if model.kernel == "laplace":
        exponent = square.op("Sqrt") * (-1.0 / block["bandwidth"])
    else:
        exponent = square * (-0.5 / block["bandwidth"] ** 2)
    return exponent.op("Exp") @ block["dual_coef"] + block["intercept"]


def _in_units(write: Writer) -> Writer:
    """Return the writer of predictions in the unit of the target."""
    return lambda model, x: write(model, x) @ np.diag(model.target_scale_) + model.target_mean_


PROBA: dict[type, Writer] = {
    GradientKernelClassifier: lambda model, x: (
        _ridge(model, x) * (1.0 / model.temperature_)
    ).softmax(),
    NeuralNeighborsClassifier: _votes,
}
VALUES: dict[type, Writer] = {
    GradientKernelRegressor: _in_units(_ridge),
    NeuralNeighborsRegressor: _in_units(_votes),
}
