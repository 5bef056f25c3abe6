"""Mixtures: the weighted sum of members that have a graph, calibrated as they were weighed."""

from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from vicinal._kernels.ensemble._weights import log_proba
from vicinal.auto import AutoClassifier, AutoRegressor
from vicinal.io._errors import OnnxExportError
from vicinal.io._onnx._graph import Graph, Writer
from vicinal.io._onnx._table import write_table
from vicinal.table import TableEncoder


def _said(graph: Graph, model: Any, x: str, write) -> list[tuple[Any, str]]:
    """Write what every member with a weight says; an error names the member."""
    forms: dict[str, str] = {}
    found = []
    for member in model.estimators_:
        if member.encoding not in forms:
            forms[member.encoding] = _encoded(graph, model.encoders_[member.encoding], x)
        try:
            found.append((member, write(graph, member.estimator, forms[member.encoding])))
        except OnnxExportError as error:
            raise OnnxExportError(
                f"the base model {member.name!r} of {type(model).__name__} has no ONNX form: "
                f"{error} "
                "Fit with families that have one, such as families=['linear', 'svm']."
            ) from error
    return found


def _encoded(graph: Graph, encoder: Any, x: str) -> str:
    """Write the form of the table that a kind of members is given."""
    if encoder is None:
        return x
    if isinstance(encoder, TableEncoder):
        return write_table(graph, encoder)
    return graph.write("features", encoder, x)


def _last(graph: Graph, model: Any, x: str) -> tuple[Any, str]:
    """Write the transformers before a model; return it, and what it is given."""
    while isinstance(model, Pipeline):
        for _, step in model.steps[:-1]:
            x = graph.write("features", step, x)
        model = model.steps[-1][1]
    return model, x


def _value(graph: Graph, model: Any, x: str) -> str:
    return graph.write("values", *_last(graph, model, x))


def _proba(graph: Graph, model: Any, x: str) -> str:
    """Write probabilities, of a machine with scores alone those that the mixture gave it."""
    model, x = _last(graph, model, x)
    if hasattr(model, "predict_proba"):
        return graph.write("proba", model, x)
    scores = graph.write("scores", model, x)
    if len(model.classes_) == 2:
        # Two classes share one score; the borrowed form may state both, the second last.
        second = graph.add("Gather", scores, graph.constant([-1]), axis=1)
        scores = graph.affine(second, np.array([[-0.5, 0.5]]))
    return graph.add("Softmax", scores, axis=1)


def _mixed_proba(graph: Graph, model: Any, x: str) -> str:
    classes = np.asarray(model.classes_)
    # log_proba is the logarithm of a line in the share: its ends are what shares 0 and 1 become.
    ends = np.exp(log_proba(np.eye(len(classes))[:1], model.n_samples_fit_))[0]
    parts = []
    for member, said in _said(graph, model, x, _proba):
        own = np.asarray(member.estimator.classes_)
        if len(own) < len(classes):
            said = graph.affine(said, own[:, None] == classes)
        shares = graph.affine(said, (ends[0] - ends[-1]) * np.eye(len(classes)), ends[-1])
        logits = graph.affine(graph.add("Log", shares), member.slope * np.eye(len(classes)))
        proba = graph.add("Softmax", logits, axis=1)
        parts.append(graph.affine(proba, member.weight * np.eye(len(classes))))
    return parts[0] if len(parts) == 1 else graph.add("Sum", *parts)


def _mixed_value(graph: Graph, model: Any, x: str) -> str:
    parts = [
        graph.affine(said, np.array([[member.weight]]))
        for member, said in _said(graph, model, x, _value)
    ]
    return parts[0] if len(parts) == 1 else graph.add("Sum", *parts)


PROBA: dict[type, Writer] = {AutoClassifier: _mixed_proba}
VALUES: dict[type, Writer] = {AutoRegressor: _mixed_value}
