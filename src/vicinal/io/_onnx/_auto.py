"""AutoClassifier and AutoRegressor: the weighted average of calibrated base models."""

from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline

from vicinal._kernels.ensemble._weights import log_proba
from vicinal.auto import AutoClassifier, AutoRegressor
from vicinal.io._errors import OnnxExportError
from vicinal.io._onnx._graph import Node, Writer
from vicinal.io._onnx._linear import filled_in
from vicinal.io._onnx._table import write_table
from vicinal.table import TableEncoder


def _averaged(model: Any, x: Node, write: Any) -> Node:
    """Write the weighted sum of what ``write`` makes of every base model and its rows."""
    encodings: dict[str, Node] = {}
    parts, failures = [], []
    for base in model.estimators_:
        if base.encoding not in encodings:
            encodings[base.encoding] = _encoded(model, base.encoding, x)
        try:
            parts.append((write(base, encodings[base.encoding]), base.weight))
        except OnnxExportError as error:
            failures.append(f"{base.name!r} with {100 * base.weight:.0f} % of the weight ({error})")
    if failures:
        raise OnnxExportError(
            f"{type(model).__name__} has base models that cannot be exported: "
            f"{'; '.join(failures)}. Fit with families that can be exported."
        )
    return x.graph.weighted(parts)


def _encoded(model: Any, encoding: str, x: Node) -> Node:
    """Write an encoding of the table."""
    encoder, medians = model.encoders_[encoding], model._encodings.medians
    if isinstance(encoder, TableEncoder):
        return write_table(x.graph, encoder)
    rows = x if encoder is None else x.write("features", encoder)
    return filled_in(rows, medians) if encoding == "distance" and medians is not None else rows


def _last(model: Any, x: Node) -> tuple[Any, Node]:
    """Write the transformers before a model; return the model and its input."""
    while isinstance(model, Pipeline):
        for _, step in model.steps[:-1]:
            x = x.write("features", step)
        model = model.steps[-1][1]
    return model, x


def _proba(model: Any, x: Node) -> Node:
    """Write probabilities, by the softmax of the scores if the model has no others."""
    model, x = _last(model, x)
    if hasattr(model, "predict_proba"):
        return x.write("proba", model)
    scores = x.write("scores", model)
    if len(model.classes_) == 2:
        # Two classes share one score; skl2onnx may return both, the second last.
        scores = scores.columns([-1]) @ np.array([[-0.5, 0.5]])
    return scores.softmax()


def _averaged_proba(model: Any, x: Node) -> Node:
    classes = np.asarray(model.classes_)
    # log_proba is the logarithm of a linear function of the probability, given by its ends.
    high, *_, low = np.exp(log_proba(np.eye(len(classes))[:1], model.n_samples_fit_))[0]

    def calibrated(base: Any, rows: Node) -> Node:
        proba, own = _proba(base.estimator, rows), np.asarray(base.estimator.classes_)
        if len(own) < len(classes):
            proba = proba @ (own[:, None] == classes)
        return ((proba * (high - low) + low).op("Log") * base.slope).softmax()

    return _averaged(model, x, calibrated)


def _averaged_value(model: Any, x: Node) -> Node:
    def value(base: Any, rows: Node) -> Node:
        last, rows = _last(base.estimator, rows)
        return rows.write("values", last) + base.offset

    return _averaged(model, x, value)


PROBA: dict[type, Writer] = {AutoClassifier: _averaged_proba}
VALUES: dict[type, Writer] = {AutoRegressor: _averaged_value}
