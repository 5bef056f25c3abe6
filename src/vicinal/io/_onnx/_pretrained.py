"""Pretrained neighbours: the network weighs the training rows, which the graph holds."""

from typing import Any

import numpy as np

from vicinal.io._onnx._graph import Node, writes
from vicinal.pretrained import PretrainedNeighborsClassifier, PretrainedNeighborsRegressor


def _normalized(x: Node) -> Node:
    """Write rows of mean zero and variance one."""
    centred = x - x.average(-1, keep=True)
    return centred / ((centred * centred).average(-1, keep=True) + 1e-5).op("Sqrt")


def _turned(x: Node, *axes: int) -> Node:
    return x.op("Transpose", perm=axes)


def _add_mlp(block: dict[str, Any], x: Node) -> Node:
    return x + (_normalized(x) @ block["up"] + block["offset"]).op("Relu") @ block["down"]


def _embedded(network: Any, scale: Any, columns: np.ndarray, x: Node) -> Node:
    """Write the cells of all columns, (n_columns, n, width).

    All features of a cell but the first are those of the interval between two values of the
    training rows that it is in, or of such a value, and are looked up.
    """
    map_in, parts = network.a["cell_in.weight"], []
    offsets = columns @ network.a["column_in.weight"].T + network.a["cell_in.bias"]
    longest = max(len(one.knots) for one in scale.scales)
    values = np.full((2 * longest + 2, scale.columns.max() + 1), np.nan)
    for one, j in zip(scale.scales, scale.columns, strict=True):
        ends = np.r_[0.5 * (one.knots[1:] + one.knots[:-1]), np.inf]
        values[0, j] = -np.inf
        values[1 : 2 * len(one.knots) + 1, j] = np.c_[one.knots, ends].ravel()
    features = scale.features(values)
    features[:, :, 0] = 0.0
    tables = features @ map_in.T + offsets[:, None]
    for one, j, table in zip(scale.scales, scale.columns, tables, strict=True):
        value, knots = x.columns([j]), one.knots
        passed = (value > knots[None]).cast("INT64").total(1)
        passed = passed + value.op("GreaterOrEqual", knots[None]).cast("INT64").total(1)
        missing, n_known = value.op("IsNaN").reshape(-1), 2 * len(knots) + 1
        index = x.graph.add("Where", missing, np.int64(n_known), passed)
        known = x.graph.add("Where", value.op("IsNaN"), one.mean, value)
        first = ((known - one.mean) * (0.25 / one.deviation)).op("Tanh")
        cell = index.of(table[: n_known + 1]) + first @ (4.0 * map_in[None, :, 0])
        parts.append(cell.op("Unsqueeze", [0]))
    return x.graph.concat(parts, axis=0).op("Relu") @ network.a["cell_mix.weight"].T


def _cell_block(network: Any, block: dict[str, Any], x: Node, summary: Any) -> Node:
    heads, width = network.cell_heads, network.cell_width
    n_columns, n_scores = len(summary[0]), summary[0].shape[2]
    scores = (_normalized(x) @ summary[0]).reshape(n_columns, -1, heads, n_scores // heads)
    x = x + scores.softmax(3).reshape(n_columns, -1, n_scores) @ summary[1]
    qkv = (_normalized(x) @ block["qkv"]).reshape(n_columns, -1, 3, heads, width // heads)
    q, k, v = (_turned(qkv.op("Gather", i, axis=2), 1, 2, 0, 3) for i in range(3))
    scores = q.op("Einsum", k, equation="nhpc,nhqc->nhpq") * (width // heads) ** -0.5
    mixed = _turned(scores.softmax(3) @ v, 2, 0, 1, 3).reshape(n_columns, -1, width)
    return _add_mlp(block, x + mixed @ block["out"])


def _pooled(network: Any, x: Node) -> Node:
    """Write one token per row, (n, width)."""
    h = _normalized(x)
    shares = (h @ network.pool_score).softmax(0)
    pooled = shares.op("Einsum", h, equation="pnh,pnc->hnc") @ network.pool_value
    n_heads, _, size = network.pool_value.shape
    return _turned(pooled, 1, 0, 2).reshape(-1, n_heads * size)


def _row_block(network: Any, block: dict[str, Any], x: Node, context: Any, at: int) -> Node:
    heads, width = network.row_heads, network.row_width
    size, offset = width // heads, 0.0 if context.log_weights is None else context.log_weights
    q = (_normalized(x) @ block["qkv"][:, :width]).reshape(-1, heads, size)
    scores = _turned(q * (context.sharpness * size**-0.5), 1, 0, 2) @ context.keys[at] + offset
    mixed = _turned(scores.softmax(2) @ context.values[at], 1, 0, 2).reshape(-1, width)
    return _add_mlp(block, x + mixed @ block["out"])


def _weights(network: Any, part: tuple, x: Node, *, regression: bool) -> Node:
    """Write the weights of the rows of a pass, (n, n_rows)."""
    _, scale, context = part
    x = _embedded(network, scale, context.columns, x)
    for block, summary in zip(network.cells, context.summaries, strict=True):
        x = _cell_block(network, block, x, summary)
    x = _pooled(network, x) + network.a["unknown"][int(regression)]
    for at, block in enumerate(network.rows):
        x = _row_block(network, block, x, context, at)
    key = network.query_key[:, : network.row_width] * network.row_width**-0.5
    scores = _normalized(x) @ (key * context.sharpness) @ context.head
    return (scores if context.log_weights is None else scores + context.log_weights).softmax()


def _means(model: Any, values: np.ndarray, x: Node) -> Node:
    """Write the weighted means of values of the training rows."""
    network, passes, group, share = model._graph_parts()
    regression = not hasattr(model, "classes_")
    of_groups = np.zeros((group.max() + 1, values.shape[1]))
    np.add.at(of_groups, group, share[:, None] * values)
    return x.graph.mean_of(
        [_weights(network, part, x, regression=regression) @ of_groups[part[0]] for part in passes]
    )


@writes("proba", PretrainedNeighborsClassifier)
def _votes(model: Any, x: Node) -> Node:
    n_classes, prior = len(model.classes_), model._prior()
    votes = _means(model, np.eye(n_classes)[model.y_fit_], x)
    return votes * (1.0 - prior) + prior / n_classes


@writes("values", PretrainedNeighborsRegressor)
def _value(model: Any, x: Node) -> Node:
    return _means(model, model.y_fit_[:, None], x)
