"""Local models: neighbours are searched in the graph, and a ridge model is fitted around each row.

Anchored local models are linear models at fixed anchors, weighted by distance. Neural neighbours
and kernel ridge regression in the gradient metric follow.
"""

from typing import Any

import numpy as np
from scipy import sparse

import vicinal
from vicinal.io._errors import OnnxExportError
from vicinal.io._onnx._graph import Node, writes
from vicinal.io._onnx._trees import tree_node

# Keeps weights positive and equal where all anchors are equally far.
_TINY = 1e-300
_EUCLIDEAN = ("euclidean", "standardized", "ranked", "within_class", "gradient")
# Kernels c max(0, 1 - u^a)^b of the relative distance u, as (a, b, c).
_KERNELS = {
    "tricube": (3, 3, 1.0),
    "bisquare": (2, 2, 1.0),
    "epanechnikov": (2, 1, 0.75),
    "triangular": (1, 1, 1.0),
}
# Differences below these are rounding: of squared distances, relative to the size of the rows; of
# relative distances; of the spread of neighbours, relative to their squared distance.
_SAME, _AT_THE_EDGE, _FLAT = 1e-14, 1e-9, 1e-14
_SINGLE_BITS = 24


def _is_euclidean(model: Any) -> bool:
    """Return whether distances are Euclidean, in any coordinates."""
    learned = hasattr(model.metric, "transform") or model.metric in _EUCLIDEAN
    return learned and not model.metric_params


def _located(model: Any, x: Node) -> tuple[Node, Node]:
    """Write the coordinates of the search and the columns of the local models."""
    z, design, mask = x, None, model.location_mask_
    if mask is not None:
        z, design = x.columns(np.flatnonzero(mask)), x.columns(np.flatnonzero(~mask))
    coordinates = model.coordinates_
    if coordinates.transformer is not None:
        z = z.write("features", coordinates.transformer)
    if coordinates.warp is not None:
        z = z.graph.piecewise_linear(z, coordinates.warp.knots)
    if coordinates.matrix is not None:
        z = z - np.asarray(coordinates.mean)
        matrix = np.asarray(coordinates.matrix)
        z = z * matrix if matrix.ndim == 1 else z @ matrix
    return z, z if design is None else design


# --- a model around every row ---


def _refuse(model: Any, what: str) -> None:
    raise OnnxExportError(
        f"{type(model).__name__} with {what} cannot be exported; use the squared error, alpha > 0, "
        "a number of neighbours, a forest or the Euclidean distance in any coordinates, and the "
        f"kernel {' or '.join(_KERNELS)}."
    )


def _check_fit(model: Any) -> None:
    """Raise where the local models are not ridge models of nearest rows."""
    fit, solver = model._model, model._model.solver
    fit.data.check_host("Exported local models")
    if sparse.issparse(fit.data.rows):
        _refuse(model, "sparse rows")
    if not (type(solver).__name__ == "RidgeSolver" and (fit.alpha > 0.0 or solver.degree == 0)):
        _refuse(model, f"loss={solver.name!r} and alpha={fit.alpha:g}")
    if fit.data.mapping.by_leaves:
        return
    rule = fit.rule
    if not _is_euclidean(model):
        _refuse(model, f"metric={model.metric!r}")
    if not hasattr(rule, "count") or rule.loess or rule.kernel not in _KERNELS:
        size = f"bandwidth={rule.size:g}" if not hasattr(rule, "count") else f"span={rule.size:g}"
        _refuse(model, f"kernel={rule.kernel!r} and {size}")


def _forest_weights(fit: Any, x: Node) -> Node:
    """Write the share of the leaves of each row in which every training row is, (n, n_rows)."""
    trees = [tree.tree_ for tree in fit.data.index.forest.estimators_]
    shares = fit.data.index.shares().tocoo()
    sizes = [tree.node_count for tree in trees]
    tree = np.repeat(np.arange(len(trees)), sizes)[shares.row]
    node = shares.row - np.concatenate([[0], np.cumsum(sizes)])[tree]
    # Sums come in single precision: multiples of a power of two are exact there, the rest is small.
    unit = 2.0 ** (np.ceil(np.log2(len(trees) + 1)) - _SINGLE_BITS)
    whole = np.round(shares.data / unit) * unit
    n = fit.data.n_samples
    ids = np.concatenate([shares.col, n + shares.col])
    values = np.concatenate([whole, (shares.data - whole) / unit])
    targets = np.tile(tree, 2), np.tile(node, 2), ids, values
    found = tree_node(x, trees, targets, 2 * n).cast("DOUBLE")
    total = found.part(1, 0, n) + found.part(1, n) * unit
    return total * (1.0 / len(trees))


def _nearest_weights(fit: Any, z: Node) -> Node:
    """Write the weight of every training row by its distance, (n, n_rows)."""
    rule, data, rows = fit.rule, fit.data, fit.data.index.X
    graph, (power, exponent, factor) = z.graph, _KERNELS[rule.kernel]
    square = z.square_distances(rows)
    size = float(np.square(rows - rows.mean(axis=0)).sum(axis=1).max())
    square = square * (square > _SAME * size).cast("DOUBLE")
    count = int(np.floor(rule.count + 1e-9)) + 1
    if data.sample_weight is not None:
        # The radius that holds so much weight; all rows are sorted.
        nearest, order = square.top([len(rows)])
        held = order.of(data.sample_weight).op("CumSum", np.int64(1))
        enough = held > rule.count + 1e-9 * max(1.0, rule.count)
        far = nearest.op("ReduceMax", [1], keepdims=1) * (1.0 + 1.0 / rule.count) ** 2
        reached = graph.add("Where", enough, nearest, far)
        reach = reached.op("ReduceMin", [1], keepdims=1)
    elif count <= len(rows):
        reach = square.top([count])[0].part(1, count - 1)
    else:
        reach = square.op("ReduceMax", [1], keepdims=1) * (1.0 + 1.0 / max(1.0, rule.count)) ** 2
    relative = square / reach.op("Max", _TINY)
    if power != 2:
        root = relative.op("Sqrt")
        relative = root if power == 1 else relative * root
    inside = (1.0 - relative).op("Relu")
    inside = inside * (inside > _AT_THE_EDGE).cast("DOUBLE")
    weight = inside
    for _ in range(exponent - 1):
        weight = weight * inside
    # Where no row is nearer than the radius, all rows at it count.
    is_empty = inside.op("ReduceMax", [1], keepdims=1) <= 0.0
    at_edge = (square - reach <= reach * _AT_THE_EDGE).cast("DOUBLE")
    weight = graph.add("Where", is_empty, at_edge, weight * factor)
    return weight if data.sample_weight is None else weight * data.sample_weight


def _fitted(model: Any, x: Node) -> Node:
    """Write the predictions or class scores of ridge models around every row, (n, n_outputs)."""
    _check_fit(model)
    fit, graph = model._model, x.graph
    data, degree = fit.data, fit.solver.degree
    z, design = _located(model, x)
    by_leaves = data.mapping.by_leaves
    weights = _forest_weights(fit, x) if by_leaves else _nearest_weights(fit, z)
    weights = weights if fit.factor is None else weights * np.asarray(fit.factor)
    # As many rows as any of the queries needs; the others have weight zero.
    count = (weights > 0.0).cast("INT64").total(1).op("ReduceMax", keepdims=1)
    if by_leaves:
        count = count.op("Min", [fit.rule.max_size])
    weight, rows = weights.top(count, largest=True)
    weight = weight.op("Unsqueeze", [2])
    total = weight.total(1, keep=True)
    targets = rows.of(data.columns)
    level = (weight * targets).total(1, keep=True) / total
    if degree == 0:
        return level.reshape(0, -1)
    offsets = rows.of(data.rows) - design.op("Unsqueeze", [1])
    if degree == 2:
        offsets = _with_products(offsets, weight, total, data.n_columns)
    p = data.n_columns if degree == 1 else data.n_columns * (data.n_columns + 3) // 2
    mean = (weight * offsets).total(1, keep=True) / total
    root = weight.op("Sqrt")
    centred = (offsets - mean) * root
    trace = (centred * centred).total(1, 2, keep=True)
    size = trace + total * (mean * mean).total(2, keep=True)
    penalty = trace * (fit.alpha / p) if fit.solver.relative else trace * 0.0 + fit.alpha
    penalty = graph.add("Where", trace > size * _FLAT, penalty, 1.0)
    # With V = Z'Z, S = T'Z and the mean offset m predictions are level - S (V + penalty I)^-1 m.
    both = graph.concat([centred, (targets - level) * root], axis=2)
    corner = np.eye(p + data.n_outputs, p)
    # Not a transpose before a product: old runtimes merge the two, but not for doubles.
    left = both.op("Einsum", centred, equation="nki,nkj->nij") + penalty * corner
    right = corner @ mean.reshape(0, p, 1)
    tilt = graph.eliminated(graph.concat([left, right], axis=2), p)
    return level.reshape(0, -1) + tilt.reshape(0, data.n_outputs)


def _with_products(offsets: Node, weight: Node, total: Node, d: int) -> Node:
    """Append products of columns, divided by the spread so that they keep the columns' unit."""
    size = (weight * (offsets * offsets)).total(1, 2, keep=True)
    spread = (size / (total * float(d))).op("Sqrt")
    scaled = offsets / spread.op("Max", _TINY)
    left, right = np.tril_indices(d)
    products = offsets.op("Gather", left, axis=2) * scaled.op("Gather", right, axis=2)
    return offsets.graph.concat([offsets, products], axis=2)


# --- anchors ---


def _blended(model: Any, x: Node) -> Node:
    """Write sum_j v_j (a_j + B_j (z - o_j)) / sum_j v_j over the nearest anchors, (n, outputs)."""
    anchors = model.anchors_
    if not _is_euclidean(model):
        raise OnnxExportError(
            f"{type(model).__name__} has metric={model.metric_!r}, but only the Euclidean distance "
            "of scaled, whitened or transformed columns can be exported."
        )
    z, design = _located(model, x)
    n_anchors, n_outputs, n_columns = anchors.slopes.shape
    # a_j - B_j o_j and B_j as columns of one table.
    level = anchors.values - np.einsum("mcp,mp->mc", anchors.slopes, anchors.origins)
    table = np.hstack([level, anchors.slopes.reshape(n_anchors, -1)])
    if n_anchors == 1:
        model_at = x.repeat(table[0])
    else:
        share, numbers = _anchor_shares(anchors, z)
        mixed = share.op("Unsqueeze", [1]) @ numbers.of(table)
        model_at = mixed.reshape(0, table.shape[1])
    slopes = model_at.part(1, n_outputs).reshape(0, n_outputs, n_columns)
    rise = slopes @ design.reshape(0, n_columns, 1)
    return model_at.part(1, 0, n_outputs) + rise.reshape(0, n_outputs)


def _anchor_shares(anchors: Any, z: Node) -> tuple[Node, Node]:
    """Write weights and indices of the nearest anchors, (n, n_blended) each."""
    n_anchors, count = len(anchors.centers), anchors.n_blended
    wanted = min(n_anchors, count + 1)
    values, numbers = z.square_distances(anchors.centers).top([wanted])
    distance = values.op("Sqrt")
    reach = distance.part(1, wanted - 1)
    if n_anchors > count:
        # The first anchor that is not used sets the bandwidth.
        distance, numbers = distance.part(1, 0, count), numbers.part(1, 0, count)
    else:
        reach = reach * (1.0 + 1.0 / max(1, count))
    relative = distance / reach.op("Max", _TINY)
    rest = (1.0 - relative * relative * relative).op("Relu")
    weight = rest * rest * rest + _TINY
    return weight / weight.total(1, keep=True), numbers


# --- outputs ---


@writes("proba", vicinal.AnchoredLocalClassifier, vicinal.LocalClassifier)
def _local_proba(model: Any, x: Node) -> Node:
    scores = (_blended if isinstance(model, vicinal.AnchoredLocalClassifier) else _fitted)(model, x)
    if model.temperature_ is not None:
        return (scores * (1.0 / model.temperature_)).softmax()
    if model.loss != "squared_error":
        return scores.log_sigmoid().softmax()
    positive = scores.op("Relu")
    return positive / positive.total(1, keep=True)


@writes(
    "values",
    vicinal.AnchoredLocalRegressor,
    vicinal.LocalRegressor,
    vicinal.NadarayaWatsonRegressor,
)
def _local_value(model: Any, x: Node) -> Node:
    if model._model.data.n_outputs > 1:
        raise OnnxExportError(f"{type(model).__name__} has several targets; export one for each.")
    return (_blended if isinstance(model, vicinal.AnchoredLocalRegressor) else _fitted)(model, x)


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


@writes("proba", vicinal.NeuralNeighborsClassifier)
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
    return _split_outputs(model, 0 if model.splits_ else -1, z)


def _split_outputs(model: Any, node: int, z: Node) -> Node:
    if node < 0:
        return _block(model, model.blocks_[-1 - node], z)
    split = model.splits_[node]
    side = z @ split["direction"][:, None] - float(split["threshold"])
    if split["width"] > 0.0:
        ramp = (side * (0.5 / split["width"]) + 0.5).op("Clip", 0.0, 1.0)
        right = ramp * ramp * (3.0 - ramp * 2.0)
    else:
        right = (side > 0.0).cast("DOUBLE")
    values = [_split_outputs(model, child, z) for child in split["children"]]
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


@writes("proba", vicinal.GradientKernelClassifier)
def _ridge_proba(model: Any, x: Node) -> Node:
    return (_ridge(model, x) * (1.0 / model.temperature_)).softmax()


@writes("values", vicinal.GradientKernelRegressor, vicinal.NeuralNeighborsRegressor)
def _in_units(model: Any, x: Node) -> Node:
    """Write predictions in the unit of the target."""
    outputs = (_ridge if isinstance(model, vicinal.GradientKernelRegressor) else _votes)(model, x)
    return outputs @ np.diag(model.target_scale_) + model.target_mean_
