"""Anchored local models: linear models at fixed anchors, weighted by distance."""

from typing import Any

import numpy as np

from vicinal.io._errors import OnnxExportError
from vicinal.io._onnx._graph import Graph, Writer
from vicinal.local import AnchoredLocalClassifier, AnchoredLocalRegressor

# Keeps weights positive and equal where all anchors are equally far.
_TINY = 1e-300
_EUCLIDEAN = ("euclidean", "standardized", "ranked", "within_class", "gradient")


def _blended(graph: Graph, model: Any, x: str) -> str:
    """Write sum_j v_j (a_j + B_j (z - o_j)) / sum_j v_j over the nearest anchors, (n, outputs)."""
    anchors = model.anchors_
    if not _is_euclidean(model):
        raise OnnxExportError(
            f"{type(model).__name__} has metric={model.metric_!r}, but only the Euclidean distance "
            "of scaled, whitened or transformed columns can be exported."
        )
    z, design = _located(graph, model, x)
    n_anchors, n_outputs, n_columns = anchors.slopes.shape
    # a_j - B_j o_j and B_j as columns of one table.
    level = anchors.values - np.einsum("mcp,mp->mc", anchors.slopes, anchors.origins)
    table = np.hstack([level, anchors.slopes.reshape(n_anchors, -1)])
    if n_anchors == 1:
        model_at = graph.repeat(table[0], x)
    else:
        model_at = _weighted_mean(graph, table, *_nearest_anchors(graph, anchors, z))
    level_of = graph.columns(model_at, np.arange(n_outputs))
    slopes = graph.columns(model_at, np.arange(n_outputs, table.shape[1]))
    slopes = graph.reshape(slopes, 0, n_outputs, n_columns)
    rise = graph.add("MatMul", slopes, graph.reshape(design, 0, n_columns, 1))
    return graph.add("Add", level_of, graph.reshape(rise, 0, n_outputs))


def _is_euclidean(model: Any) -> bool:
    """Return whether the distance to anchors is Euclidean, in any coordinates."""
    learned = hasattr(model.metric, "transform") or model.metric in _EUCLIDEAN
    return learned and not model.metric_params


def _located(graph: Graph, model: Any, x: str) -> tuple[str, str]:
    """Write the coordinates of the search and the columns of the linear models."""
    located, design = x, None
    mask = model.location_mask_
    if mask is not None:
        located = graph.columns(x, np.flatnonzero(mask))
        design = graph.columns(x, np.flatnonzero(~mask))
    coordinates = model.coordinates_
    z = located
    if coordinates.transformer is not None:
        z = graph.write("features", coordinates.transformer, z)
    if coordinates.warp is not None:
        z = graph.piecewise_linear(z, coordinates.warp.knots)
    if coordinates.matrix is not None:
        z = graph.plus(z, -np.asarray(coordinates.mean))
        matrix = np.asarray(coordinates.matrix)
        z = graph.times(z, matrix) if matrix.ndim == 1 else graph.affine(z, matrix)
    return z, z if design is None else design


def _nearest_anchors(graph: Graph, anchors: Any, z: str) -> tuple[str, str, int]:
    """Write indices and weights of the nearest anchors, (n, n_blended) each."""
    n_anchors, count = len(anchors.centers), anchors.n_blended
    wanted = min(n_anchors, count + 1)
    square = graph.square_distances(z, anchors.centers)
    values, numbers = graph.smallest(square, wanted)
    distance = graph.add("Sqrt", values)
    reach = graph.columns(distance, [wanted - 1])
    if n_anchors > count:
        # The first anchor that is not used sets the bandwidth.
        distance, numbers = (
            graph.columns(distance, range(count)),
            graph.columns(numbers, range(count)),
        )
    else:
        reach = graph.times(reach, 1.0 + 1.0 / max(1, count))
        count = n_anchors
    relative = graph.add("Div", distance, graph.add("Max", reach, graph.constant(_TINY)))
    cube = graph.add("Mul", graph.add("Mul", relative, relative), relative)
    rest = graph.add("Relu", graph.add("Sub", graph.constant(1.0), cube))
    weight = graph.plus(graph.add("Mul", graph.add("Mul", rest, rest), rest), _TINY)
    share = graph.add("Div", weight, graph.total(weight, 1, keep=True))
    return numbers, share, count


def _weighted_mean(graph: Graph, table: np.ndarray, numbers: str, share: str, count: int) -> str:
    """Write the weighted mean of rows of a table, (n, width)."""
    lines = graph.add("Gather", graph.constant(table), numbers, axis=0)
    mixed = graph.add("MatMul", graph.reshape(share, 0, 1, count), lines)
    return graph.reshape(mixed, 0, table.shape[1])


def _local_proba(graph: Graph, model: Any, x: str) -> str:
    scores = _blended(graph, model, x)
    n_classes = len(model.classes_)
    if model.temperature_ is not None:
        return graph.add(
            "Softmax", graph.times(scores, 1.0 / model.temperature_, n_classes), axis=1
        )
    if model.loss != "squared_error":
        return graph.add("Softmax", graph.log_sigmoid(scores), axis=1)
    positive = graph.add("Relu", scores)
    return graph.add("Div", positive, graph.total(positive, 1, keep=True))


def _local_value(graph: Graph, model: Any, x: str) -> str:
    if model.anchors_.values.shape[1] > 1:
        raise OnnxExportError("AnchoredLocalRegressor has several targets; export one for each.")
    return _blended(graph, model, x)


PROBA: dict[type, Writer] = {AnchoredLocalClassifier: _local_proba}
VALUES: dict[type, Writer] = {AnchoredLocalRegressor: _local_value}
