"""Export of fitted models to ONNX graphs."""

import os
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import is_classifier, is_regressor
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

import vicinal
from vicinal._base import import_optional, write_whole
from vicinal.auto import AutoClassifier, AutoRegressor
from vicinal.io._errors import OnnxExportError
from vicinal.io._onnx import (
    _auto,
    _ensemble,
    _linear,
    _local,
    _metric,
    _partition,
    _subspace,
    _trees,
)
from vicinal.io._onnx._graph import Graph
from vicinal.io._onnx._table import table_feeds, write_table
from vicinal.local import (
    LocalClassifier,
    LocalRegressor,
    LoessRegressor,
    NadarayaWatsonRegressor,
)
from vicinal.surface import DecisionSurface, SurfaceCalibratedClassifier
from vicinal.table import TableEncoder
from vicinal.uncertainty import (
    LocalDiscriminantTransformer,
    LocallyAdaptiveClassifier,
    ResponsibilityMixture,
)

_WRITERS: dict[str, dict] = {
    "proba": {
        **_linear.PROBA,
        **_trees.PROBA,
        **_partition.PROBA,
        **_ensemble.PROBA,
        **_subspace.PROBA,
        **_local.PROBA,
        **_metric.PROBA,
        **_auto.PROBA,
    },
    "scores": {**_linear.SCORES, **_subspace.SCORES},
    "values": {
        **_linear.VALUES,
        **_trees.VALUES,
        **_partition.VALUES,
        **_ensemble.VALUES,
        **_subspace.VALUES,
        **_local.VALUES,
        **_metric.VALUES,
        **_auto.VALUES,
    },
    "features": {**_linear.FEATURES, **_subspace.FEATURES},
}

# Why a model of ours has no graph, for the message.
_REASONS: dict[type, str] = {
    LocalClassifier: "fits a model around every query and so needs its training rows; use "
    "AnchoredLocalClassifier, which stores models and blends them",
    LocalRegressor: "fits a model around every query and so needs its training rows; use "
    "AnchoredLocalRegressor, which stores models and blends them",
    LoessRegressor: "fits a model around every query and so needs its training rows; use "
    "AnchoredLocalRegressor, which stores models and blends them",
    NadarayaWatsonRegressor: "averages its training rows anew for every query; use "
    "AnchoredLocalRegressor, which stores models and blends them",
    LocallyAdaptiveClassifier: "lets its training rows vote for every query; save it with "
    "vicinal.io.save, or export a SpacePartitioningClassifier",
    ResponsibilityMixture: "is a density, neither a classifier nor a regressor",
    LocalDiscriminantTransformer: "has no ONNX form; save it with vicinal.io.save",
    DecisionSurface: "is geometry, neither a classifier nor a regressor; export its estimator_",
    SurfaceCalibratedClassifier: "walks to the decision surface from every row; save it with "
    "vicinal.io.save, or export its classifier",
}

TOLERANCE = 1e-5

# The method that each output of a graph stands for.
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

    The graph takes the columns of the table and gives ``label`` and ``probabilities`` for a
    classifier (``scores`` if it has no probabilities), ``prediction`` for a regressor, ``features``
    for a transformer. It computes in double precision, so that rows on
    different sides of a gate or a threshold stay there. With rows to try it on, the graph is run
    by onnxruntime and must agree with the model.

    Exported are space-partitioning cascades (any region model that is linear, a tree or known to
    skl2onnx), pruned trees, boosting, AdaBoost, bootstrap and model averaging of such parts,
    fusions over subspaces, truncated RBF machines, support vector machines by clusters, anchored
    local models, neural neighbours and gradient kernels (over their stored rows), models of
    scikit-learn that skl2onnx knows, and pipelines and mixtures of all these, also behind a
    ``TableEncoder``.

    Parameters
    ----------
    model : estimator
        Fitted classifier, regressor or transformer, or a pipeline that ends in one.
    X : array-like or frame of shape (n_rows, n_features), default=None
        Rows to check the graph with. A frame in front of a ``ColumnTransformer`` also tells the
        names and types of the inputs, one for each column; else there is one input ``X``.
    path : path-like, default=None
        Where to write the graph too; it appears whole or not at all.
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
        If the model or a part of it has no ONNX form (the message says which and why), or if the
        graph does not agree with the model.

    See Also
    --------
    save : Keep the model as it is.

    Notes
    -----
    Behind a :class:`~vicinal.table.TableEncoder` the graph has one input for each column that is
    used: numbers as doubles with NaN for a gap, levels as text with "" for a gap, dates as days
    since 1970 with NaN for a gap. Free text has no ONNX form.

    Otherwise the model refuses missing values and infinities; the graph computes whatever follows
    from them. Labels that are neither text nor whole numbers are given as text.

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
    graph = Graph(_WRITERS)
    steps, last = _steps_of(model)
    x = _write_steps(graph, steps, model, X)
    outputs = _outputs(graph, last, x)
    made = graph.finished(outputs, model=type(last).__name__, vicinal_version=vicinal.__version__)
    if X is not None:
        check_graph(made, model, X, tol)
    if path is not None:
        write_whole(path, made.SerializeToString())
    return made


# --- parts ---


def _steps_of(model: Any) -> tuple[list[Any], Any]:
    """Return the transformers before a model, and the model."""
    if hasattr(model, "best_estimator_"):
        return _steps_of(model.best_estimator_)
    if isinstance(model, Pipeline):
        before = [step for _, step in model.steps[:-1] if step not in (None, "passthrough")]
        inner, last = _steps_of(model.steps[-1][1])
        return [*before, *inner], last
    return [], model


def _write_steps(graph: Graph, steps: list[Any], model: Any, X: Any) -> str:
    """Declare the inputs and write the transformers."""
    if not steps and _encoder_of(model) is not None:
        return ""  # a mixture declares the columns itself, for each form it needs
    if steps and isinstance(steps[0], TableEncoder):
        x = write_table(graph, steps[0])
        steps = steps[1:]
    elif steps and isinstance(steps[0], ColumnTransformer) and hasattr(X, "columns"):
        x = _write_columns(graph, steps[0], X)
        steps = steps[1:]
    else:
        x = graph.input("X", "DOUBLE", _width(model, X))
    for step in steps:
        if type(step) in _REASONS:
            raise OnnxExportError(_refusal(step))
        x = graph.write("features", step, x)
    return x


def _encoder_of(model: Any) -> TableEncoder | None:
    """Return the encoder that takes a frame by its columns, if there is one."""
    steps, last = _steps_of(model)
    if steps:
        first = steps[0]
    elif isinstance(last, AutoClassifier | AutoRegressor):
        first = last.encoders_["tree"]
    else:
        first = None
    return first if isinstance(first, TableEncoder) else None


def _width(model: Any, X: Any) -> int:
    width = getattr(model, "n_features_in_", None)
    if width is None:
        raise OnnxExportError(f"{type(model).__name__} does not tell how many columns it takes.")
    if X is not None and X.shape[1] != width:
        raise OnnxExportError(f"X has {X.shape[1]} columns, but the model takes {width}.")
    return int(width)


def _write_columns(graph: Graph, encoder: ColumnTransformer, X: Any) -> str:
    """Write an encoder of mixed columns, with one input for each column of the frame."""
    types = import_optional(
        "skl2onnx.common.data_types", needed_by="vicinal.io.to_onnx", extra="onnx"
    )
    inputs, declared = [], []
    for name, is_number in column_kinds(X).items():
        kind = types.DoubleTensorType if is_number else types.StringTensorType
        inputs.append(graph.input(name, "DOUBLE" if is_number else "STRING", 1))
        declared.append((name, kind([None, 1])))
    return graph.borrow("features", encoder, inputs, declared)


def column_kinds(X: Any) -> dict[str, bool]:
    """Return the columns of a frame, and whether they hold numbers."""
    return {str(name): np.asarray(X[name]).dtype.kind in "iufb" for name in X.columns}


def _written(graph: Graph, kind: str, model: Any, x: str) -> str:
    if type(model) in _REASONS and type(model) not in _WRITERS[kind]:
        raise OnnxExportError(_refusal(model))
    return graph.write(kind, model, x)


def _refusal(model: Any, otherwise: str = "has no ONNX form") -> str:
    return f"{type(model).__name__} {_REASONS.get(type(model), otherwise)}."


def _outputs(graph: Graph, model: Any, x: str) -> dict[str, tuple[str, str, list]]:
    """Write what a model answers; the last output is what the check compares."""
    if is_regressor(model):
        values = graph.reshape(_written(graph, "values", model, x), -1)
        return {"prediction": (values, "DOUBLE", [None])}
    if not is_classifier(model):
        if type(model) in _REASONS or not hasattr(model, "transform"):
            raise OnnxExportError(_refusal(model, "is no classifier, regressor or transformer"))
        return {"features": (graph.write("features", model, x), "DOUBLE", [None, None])}
    n_classes = len(model.classes_)
    if hasattr(model, "predict_proba"):
        proba = _written(graph, "proba", model, x)
        best = graph.add("ArgMax", proba, axis=1, keepdims=0)
        return {
            **_label(graph, model, best),
            "probabilities": (proba, "DOUBLE", [None, n_classes]),
        }
    if type(model) in _WRITERS["scores"]:
        scores = graph.write("scores", model, x)
        best = graph.reshape(graph.best(scores, n_classes), -1)
        width = 1 if n_classes == 2 else n_classes
        return {**_label(graph, model, best), "scores": (scores, "DOUBLE", [None, width])}
    raise OnnxExportError(
        f"{type(model).__name__} as it was fitted has no predict_proba, which the graph computes; "
        "choose parts that have it."
    )


def _label(graph: Graph, model: Any, best: str) -> dict[str, tuple[str, str, list]]:
    classes = np.asarray(model.classes_)
    is_whole = classes.dtype.kind in "iufb" and np.array_equal(classes, classes.astype(np.int64))
    table = graph.constant(classes.astype(np.int64) if is_whole else classes.astype(str))
    label = graph.add("Gather", table, best, axis=0)
    return {"label": (label, "INT64" if is_whole else "STRING", [None])}


# --- check ---


def feeds(graph: Any, X: Any) -> dict[str, np.ndarray]:
    """Return rows as the inputs of a graph."""
    names = [entry.name for entry in graph.graph.input]
    if names == ["X"]:
        rows = X.toarray() if sparse.issparse(X) else np.asarray(X)
        return {"X": np.ascontiguousarray(rows, dtype=np.float64)}
    kinds = column_kinds(X)
    return {
        name: np.asarray(X[name]).astype(np.float64 if kinds[name] else object)[:, None]
        for name in names
    }


def check_graph(graph: Any, model: Any, X: Any, tol: float) -> float:
    """Run the graph on rows and return its largest difference from the model; raise above tol."""
    runtime = import_optional("onnxruntime", needed_by="checking a graph", extra="onnx")
    session = runtime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    encoder = _encoder_of(model)
    rows = feeds(graph, X) if encoder is None else table_feeds(encoder, X)
    answer = session.run(None, rows)[-1]
    expected = np.asarray(getattr(model, _METHODS[session.get_outputs()[-1].name])(X))
    scale = 1.0 if hasattr(model, "predict_proba") else max(1.0, float(np.abs(expected).max()))
    difference = float(np.abs(answer - expected.reshape(answer.shape)).max()) / scale
    if not difference <= tol:
        raise OnnxExportError(
            f"the graph differs from {type(model).__name__} by {difference:.3g} on the rows given, "
            f"more than tol={tol:g}; a part of it may compute in single precision."
        )
    return difference
