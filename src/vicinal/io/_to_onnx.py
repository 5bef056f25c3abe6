"""Export of fitted models to ONNX graphs."""

import os
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier, is_regressor
from sklearn.compose import ColumnTransformer
from sklearn.utils.validation import check_is_fitted

import vicinal
from vicinal._base import counted, import_optional, is_frame, write_whole
from vicinal._base._wrappers import encoder_of, split_steps, split_threshold
from vicinal.io._errors import OnnxExportError
from vicinal.io._onnx import _ensemble, _linear, _local, _partition, _pretrained, _trees  # noqa: F401
from vicinal.io._onnx._graph import WRITERS, Graph, Node
from vicinal.io._onnx._table import write_table
from vicinal.table import TableEncoder

TOLERANCE = 1e-5
# Rows that are checked at once; a graph of local models holds the neighbours of all its rows.
_BLOCK = 256

# The method that each output of a graph corresponds to.
_METHODS = {
    "probabilities": "predict_proba",
    "scores": "decision_function",
    "prediction": "predict",
    "features": "transform",
}


def to_onnx(
    model: Any, X: Any = None, *, path: str | os.PathLike | None = None, tol: float = TOLERANCE
) -> Any:
    """Export a fitted model to an ONNX graph, which runs without Python.

    The outputs are ``label`` and ``probabilities`` of a classifier (``scores`` if it has no
    probabilities), ``prediction`` of a regressor, or ``features`` of a transformer. The graph
    computes in double precision, so that rows near a threshold stay on their side of it. If X is
    given, onnxruntime runs the graph on it, and the result must agree with the model.

    These models can be exported: space partitioning with region models that are linear, trees or
    supported by skl2onnx; pruned trees; boosting of symmetric trees and of histograms; boosting,
    AdaBoost, bootstrap ensembles and model averaging of such models; local models of the squared
    error, and anchored ones; neural and pretrained neighbours, and gradient kernels; models of
    scikit-learn that skl2onnx supports; pipelines, ``AutoClassifier`` and ``AutoRegressor`` of
    these, also with a ``TableEncoder``.

    Parameters
    ----------
    model : estimator
        Fitted classifier, regressor or transformer, or a pipeline that ends in one.
    X : array-like or frame of shape (n_rows, n_features), default=None
        Rows to check the graph with. For a ``ColumnTransformer`` a frame also defines the names
        and types of the inputs, one for each column; otherwise there is one input ``X``.
    path : path-like, default=None
        File to which the graph is written, atomically.
    tol : float, default=1e-5
        Largest difference allowed between the graph and the model, in probabilities, or in
        predictions relative to the largest of them.

    Returns
    -------
    graph : onnx.ModelProto
        The graph; ``graph.SerializeToString()`` is what a runtime reads.

    Raises
    ------
    OnnxExportError
        If the model or a part of it cannot be exported (the message names it), or if the graph
        does not agree with the model.

    See Also
    --------
    save : Write a file that Python reads.

    Notes
    -----
    With a :class:`~vicinal.table.TableEncoder` the graph has one input for each column that is
    used: numbers as doubles, categories as strings, dates as days since 1970. A missing value is
    NaN, or "" among categories. Columns of free text cannot be exported.

    A graph of local models holds the training rows, and computes the distances of all its queries
    to all of them: pass a few hundred rows at a time.

    The graph does not validate its input: NaN or infinity, for which the model raises, give
    arbitrary results. Labels that are neither strings nor integers are returned as strings.

    Examples
    --------
    >>> import numpy as np
    >>> import onnxruntime
    >>> from sklearn.datasets import load_iris
    >>> from vicinal import SpacePartitioningClassifier
    >>> from vicinal.io import to_onnx
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SpacePartitioningClassifier(n_regions=2, n_init=2, random_state=0).fit(X, y)
    >>> graph = to_onnx(model, X)
    >>> session = onnxruntime.InferenceSession(graph.SerializeToString())
    >>> label, probabilities = session.run(None, {"X": X})
    >>> bool(np.allclose(probabilities, model.predict_proba(X), atol=1e-12))
    True
    """
    check_is_fitted(model)
    graph = Graph()
    if split_threshold(model)[1] is not None:
        raise OnnxExportError(
            f"{type(model).__name__} has a decision threshold, which cannot be exported; export "
            "the classifier inside and compare its probabilities with the threshold."
        )
    steps, last = split_steps(model)
    x = _write_steps(graph, steps, model, X)
    outputs = _outputs(last, x)
    made = graph.finished(outputs, model=type(last).__name__, vicinal_version=vicinal.__version__)
    if X is not None:
        check_graph(made, model, X, tol)
    if path is not None:
        write_whole(path, made.SerializeToString())
    return made


# --- parts ---


def _write_steps(graph: Graph, steps: list[Any], model: Any, X: Any) -> Node:
    """Declare the inputs and write the transformers."""
    if not steps and encoder_of(model) is not None:
        return Node(graph, "")  # an ensemble declares the columns itself, for each encoding
    first = steps[0] if steps else None
    if isinstance(first, TableEncoder):
        x, steps = write_table(graph, first), steps[1:]
    elif isinstance(first, ColumnTransformer) and hasattr(X, "columns"):
        x, steps = _write_columns(graph, first, X), steps[1:]
    else:
        x = graph.input("X", "DOUBLE", [None, _width(model, X)])
    for step in steps:
        x = x.write("features", step)
    return x


def _width(model: Any, X: Any) -> int:
    width = getattr(model, "n_features_in_", None)
    if width is None:
        raise OnnxExportError(f"{type(model).__name__} has no n_features_in_; pass a fitted model.")
    if X is not None and X.shape[1] != width:
        found = counted(X.shape[1], "column")
        raise OnnxExportError(f"X has {found}, but the model expects {width}.")
    return int(width)


def _write_columns(graph: Graph, encoder: ColumnTransformer, X: Any) -> Node:
    """Write an encoder of mixed columns, with one input for each column of the frame."""
    types = import_optional(
        "skl2onnx.common.data_types", needed_by="vicinal.io.to_onnx", extra="onnx"
    )
    inputs, declared = [], []
    for name, is_number in column_kinds(X).items():
        kind = types.DoubleTensorType if is_number else types.StringTensorType
        inputs.append(graph.input(name, "DOUBLE" if is_number else "STRING", [None, 1]))
        declared.append((name, kind([None, 1])))
    return graph.borrow("features", encoder, inputs, declared)


def column_kinds(X: Any) -> dict[str, bool]:
    """Return the columns of a frame, and whether they hold numbers."""
    return {str(name): np.asarray(X[name]).dtype.kind in "iufb" for name in X.columns}


def _outputs(model: Any, x: Node) -> dict[str, tuple[Node, str, list]]:
    """Write the outputs of a model; the check compares the last one."""
    if is_regressor(model):
        return {"prediction": (x.write("values", model).reshape(-1), "DOUBLE", [None])}
    if not is_classifier(model):
        if not hasattr(model, "transform"):
            raise OnnxExportError(
                f"{type(model).__name__} is neither a classifier, a regressor nor a transformer."
            )
        return {"features": (x.write("features", model), "DOUBLE", [None, None])}
    n_classes = len(model.classes_)
    if hasattr(model, "predict_proba"):
        proba = x.write("proba", model)
        best = proba.op("ArgMax", axis=1, keepdims=0)
        return {**_label(model, best), "probabilities": (proba, "DOUBLE", [None, n_classes])}
    if type(model) in WRITERS["scores"]:
        scores = x.write("scores", model)
        best = scores.best(n_classes).reshape(-1)
        width = 1 if n_classes == 2 else n_classes
        return {**_label(model, best), "scores": (scores, "DOUBLE", [None, width])}
    raise OnnxExportError(
        f"{type(model).__name__} has no predict_proba, which the graph needs; use base models that "
        "have it."
    )


def _label(model: Any, best: Node) -> dict[str, tuple[Node, str, list]]:
    classes = np.asarray(model.classes_)
    is_whole = classes.dtype.kind in "iufb" and np.array_equal(classes, classes.astype(np.int64))
    table = classes.astype(np.int64) if is_whole else classes.astype(str)
    return {"label": (best.of(table), "INT64" if is_whole else "STRING", [None])}


# --- check ---


def feeds(graph: Any, X: Any, encoder: TableEncoder | None = None) -> dict[str, np.ndarray]:
    """Return rows as the inputs of a graph; ``encoder`` is that of a model of tables."""
    if encoder is not None:
        if not is_frame(X):
            raise OnnxExportError(
                "X is not a data frame, but the model was fitted to one; pass a frame with its "
                "columns."
            )
        return {name: values[:, None] for name, values in encoder.plain_columns(X).items()}
    names = [entry.name for entry in graph.graph.input]
    if names == ["X"]:
        rows = X.toarray() if sparse.issparse(X) else np.asarray(X)
        return {"X": np.ascontiguousarray(rows, dtype=np.float64)}
    kinds = column_kinds(X)
    return {
        name: np.asarray(X[name]).astype(np.float64 if kinds[name] else object)[:, None]
        for name in names
    }


def check_graph(graph: Any, model: Any, X: Any, tol: float) -> None:
    """Run the graph on rows; raise if it differs from the model by more than ``tol``."""
    runtime = import_optional("onnxruntime", needed_by="checking a graph", extra="onnx")
    session = runtime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    rows = feeds(graph, X, encoder_of(model))
    n_rows = len(next(iter(rows.values())))
    blocks = [slice(i, i + _BLOCK) for i in range(0, n_rows, _BLOCK)]
    parts = [session.run(None, {k: v[own] for k, v in rows.items()})[-1] for own in blocks]
    found = np.concatenate(parts)
    expected = np.asarray(getattr(model, _METHODS[session.get_outputs()[-1].name])(X))
    scale = 1.0 if hasattr(model, "predict_proba") else max(1.0, float(np.abs(expected).max()))
    difference = float(np.abs(found - expected.reshape(found.shape)).max()) / scale
    if not difference <= tol:
        raise OnnxExportError(
            f"the graph differs from {type(model).__name__} by {difference:.3g} on X, more than "
            f"tol={tol:g}; a part of it may compute in single precision."
        )
