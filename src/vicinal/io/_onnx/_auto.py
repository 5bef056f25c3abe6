"""AutoClassifier and AutoRegressor: the weighted average of calibrated base models."""

from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from vicinal._kernels.ensemble._weights import log_proba
from vicinal.auto import AutoClassifier, AutoRegressor
from vicinal.io._errors import OnnxExportError
from vicinal.io._onnx._graph import Graph, Writer
from vicinal.io._onnx._table import write_table
from vicinal.table import TableEncoder


def _base_predictions(graph: Graph, model: Any, x: str, write) -> list[tuple[Any, str]]:
    """Write the prediction of every base model with a positive weight."""
    encodings: dict[str, str] = {}
    found = []
    for base in model.estimators_:
        if base.encoding not in encodings:
            encodings[base.encoding] = _encoded(graph, model.encoders_[base.encoding], x)
        try:
            found.append((base, write(graph, base.estimator, encodings[base.encoding])))
        except OnnxExportError as error:
            raise OnnxExportError(
                f"the base model {base.name!r} of {type(model).__name__} cannot be exported: "
                f"{error} Fit with families that can, such as families=['linear', 'svm']."
            ) from error
    return found


def _encoded(graph: Graph, encoder: Any, x: str) -> str:
    """Write an encoding of the table."""
    if encoder is None:
        return x
    if isinstance(encoder, TableEncoder):
        return write_table(graph, encoder)
    return graph.write("features", encoder, x)


def _last(graph: Graph, model: Any, x: str) -> tuple[Any, str]:
    """Write the transformers before a model; return the model and its input."""
    while isinstance(model, Pipeline):
        for _, step in model.steps[:-1]:
            x = graph.write("features", step, x)
        model = model.steps[-1][1]
    return model, x


def _value(graph: Graph, model: Any, x: str) -> str:
    return graph.write("values", *_last(graph, model, x))


def _proba(graph: Graph, model: Any, x: str) -> str:
    """Write probabilities, by the softmax of the scores if the model has no others."""
    model, x = _last(graph, model, x)
    if hasattr(model, "predict_proba"):
        return graph.write("proba", model, x)
    scores = graph.write("scores", model, x)
    if len(model.classes_) == 2:
        # Two classes share one score; skl2onnx may return both, the second last.
        second = graph.add("Gather", scores, graph.constant([-1]), axis=1)
        scores = graph.affine(second, np.array([[-0.5, 0.5]]))
    return graph.add("Softmax", scores, axis=1)


def _averaged_proba(graph: Graph, model: Any, x: str) -> str:
    classes = np.asarray(model.classes_)
    # log_proba is the logarithm of a linear function of the probability, given by its ends.
    ends = np.exp(log_proba(np.eye(len(classes))[:1], model.n_samples_fit_))[0]
    parts = []
    for base, proba in _base_predictions(graph, model, x, _proba):
        own = np.asarray(base.estimator.classes_)
        if len(own) < len(classes):
            proba = graph.affine(proba, own[:, None] == classes)
        shares = graph.affine(proba, (ends[0] - ends[-1]) * np.eye(len(classes)), ends[-1])
        logits = graph.affine(graph.add("Log", shares), base.slope * np.eye(len(classes)))
        proba = graph.add("Softmax", logits, axis=1)
        parts.append(graph.affine(proba, base.weight * np.eye(len(classes))))
    return parts[0] if len(parts) == 1 else graph.add("Sum", *parts)


def _averaged_value(graph: Graph, model: Any, x: str) -> str:
    parts = [
        graph.affine(value, np.array([[base.weight]]), base.weight * base.offset or None)
        for base, value in _base_predictions(graph, model, x, _value)
    ]
    return parts[0] if len(parts) == 1 else graph.add("Sum", *parts)


PROBA: dict[type, Writer] = {AutoClassifier: _averaged_proba}
VALUES: dict[type, Writer] = {AutoRegressor: _averaged_value}
