"""Construction of a graph from nodes, constants, and subgraphs written by skl2onnx.

All numbers are doubles. Matrices have a row for every row of X: scores (n, 1) for two classes and
(n, n_classes) for more, probabilities (n, n_classes), predictions (n, 1).
"""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from vicinal._base import import_optional
from vicinal.io._errors import OnnxExportError

# Supported by skl2onnx and by runtimes that are two years old.
OPSETS = {"": 18, "ai.onnx.ml": 3}
_IR_VERSION = 9

Writer = Callable[["Graph", Any, str], str]


class Graph:
    """Nodes and constants of a graph; every method returns the name of the node it adds.

    Parameters
    ----------
    writers : dict of str to dict of type to function
        For each of ``"proba"``, ``"scores"``, ``"values"`` and ``"features"``, the functions that
        write the prediction of a model, by its class.
    """

    def __init__(self, writers: dict[str, dict[type, Writer]]) -> None:
        self.onnx = import_optional("onnx", needed_by="vicinal.io.to_onnx", extra="onnx")
        self.helper = self.onnx.helper
        self.writers = writers
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.inputs: list[Any] = []
        self._count = 0

    # --- nodes ---

    def name(self, hint: str) -> str:
        """Return a unique name."""
        self._count += 1
        return f"{hint}_{self._count}"

    def add(self, op: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node of one output."""
        out = self.name(op.lower())
        self.nodes.append(
            self.helper.make_node(op, list(inputs), [out], name=out, domain=domain, **attributes)
        )
        return out

    def constant(self, value: Any) -> str:
        """Add doubles, integers or strings."""
        array = np.asarray(value)
        if array.dtype.kind == "f":
            array = array.astype(np.float64)
        elif array.dtype.kind in "iub":
            array = array.astype(np.int64)
        else:
            array = array.astype(object)
        name = self.name("constant")
        self.initializers.append(self.onnx.numpy_helper.from_array(array, name))
        return name

    def cast(self, x: str, kind: str) -> str:
        """Change the type of numbers: ``"DOUBLE"``, ``"FLOAT"``, ``"INT64"``."""
        return self.add("Cast", x, to=getattr(self.onnx.TensorProto, kind))

    # --- arithmetic ---

    def affine(self, x: str, matrix: Any, offset: Any = None) -> str:
        """Return x @ matrix + offset."""
        matrix = np.asarray(matrix, dtype=np.float64)
        out = self.add("MatMul", x, self.constant(matrix))
        return out if offset is None else self.plus(out, np.asarray(offset, dtype=np.float64))

    def plus(self, x: str, value: Any) -> str:
        """Return x + value."""
        return self.add("Add", x, self.constant(np.asarray(value, dtype=np.float64)))

    def times(self, x: str, value: Any, width: int | None = None) -> str:
        """Return x * value, for a vector of values, or a number and the width of x.

        onnxruntime merges a number into a neighbouring MatMul and keeps it in single precision;
        a vector it leaves alone.
        """
        factors = np.asarray(value, dtype=np.float64)
        if width is not None:
            factors = np.full(width, factors)
        if factors.size == 1:
            return self.affine(x, factors.reshape(1, 1))
        return self.add("Mul", x, self.constant(factors))

    def total(self, x: str, axis: int, *, keep: bool = False) -> str:
        """Return the sum over an axis."""
        return self.add("ReduceSum", x, self.constant([axis]), keepdims=int(keep))

    def average(self, x: str, axis: int, *, keep: bool = False) -> str:
        """Return the mean over an axis."""
        return self.add("ReduceMean", x, self.constant([axis]), keepdims=int(keep))

    def mean_of(self, parts: list[str], width: int) -> str:
        """Return the mean of parts of a width."""
        if len(parts) == 1:
            return parts[0]
        return self.times(self.add("Sum", *parts), 1.0 / len(parts), width)

    def reshape(self, x: str, *shape: int) -> str:
        """Return x in another shape; 0 keeps a length, -1 is what is left."""
        return self.add("Reshape", x, self.constant(list(shape)))

    def columns(self, x: str, chosen: Any) -> str:
        """Return some columns."""
        return self.add("Gather", x, self.constant(np.asarray(chosen, dtype=np.int64)), axis=1)

    def concat(self, parts: list[str], axis: int = 1) -> str:
        """Join along an axis."""
        return parts[0] if len(parts) == 1 else self.add("Concat", *parts, axis=axis)

    def where_positive(self, x: str) -> str:
        """Return one where x > 0 and zero elsewhere."""
        return self.cast(self.add("Greater", x, self.constant(0.0)), "DOUBLE")

    def one_hot(self, index: str, width: int) -> str:
        """Return (n, width) with a one at the index of each row, from (n, 1) integers."""
        return self.cast(self.add("Equal", index, self.constant(np.arange(width)[None])), "DOUBLE")

    def repeat(self, row: Any, x: str) -> str:
        """Return a constant row for every row of x."""
        count = self.add("Shape", x, start=0, end=1)
        row = np.atleast_2d(np.asarray(row, dtype=np.float64))
        shape = self.add("Concat", count, self.constant([row.shape[1]]), axis=0)
        return self.add("Expand", self.constant(row), shape)

    def piecewise_linear(self, x: str, knots: list[tuple[np.ndarray, np.ndarray]]) -> str:
        """Return a piecewise linear function of every column, constant beyond its knots."""
        columns = []
        for j, (values, scores) in enumerate(knots):
            column = self.columns(x, [j])
            if len(values) == 1:
                columns.append(self.repeat(scores, x))
                continue
            ends = self.constant(values[0]), self.constant(values[-1])
            column = self.add("Clip", column, *ends)
            # The number of inner knots passed is the number of the piece.
            inner = self.constant(values[1:-1][None])
            passed = self.cast(self.add("GreaterOrEqual", column, inner), "INT64")
            piece = self.total(passed, 1, keep=True) if len(values) > 2 else None
            slopes = np.diff(scores) / np.diff(values)
            if piece is None:
                columns.append(
                    self.plus(self.times(self.plus(column, -values[0]), slopes), scores[0])
                )
                continue
            start, level, slope = (
                self.add("Gather", self.constant(table), piece, axis=0)
                for table in (values[:-1], scores[:-1], slopes)
            )
            rise = self.add("Mul", self.add("Sub", column, start), slope)
            columns.append(self.add("Add", level, rise))
        return self.concat(columns)

    def log_sigmoid(self, x: str) -> str:
        """Return log(1 / (1 + exp(-x))) without overflow."""
        small = self.add("Exp", self.add("Neg", self.add("Abs", x)))
        rest = self.add("Log", self.plus(small, 1.0))
        return self.add("Sub", self.add("Min", x, self.constant(0.0)), rest)

    def square_distances(self, x: str, centers: Any) -> str:
        """Return squared Euclidean distances to fixed points, (n, n_centers)."""
        centers = np.asarray(centers, dtype=np.float64)
        # About the mean of the points, so that little is lost to cancellation.
        middle = centers.mean(axis=0)
        shifted, centers = self.plus(x, -middle), centers - middle
        own = self.total(self.add("Mul", shifted, shifted), 1, keep=True)
        cross = self.affine(shifted, -2.0 * centers.T, (centers**2).sum(axis=1))
        return self.add("Relu", self.add("Add", own, cross))

    def smallest(self, x: str, count: int) -> tuple[str, str]:
        """Return the smallest values of each line, in order, and their positions."""
        values, positions = self.name("smallest"), self.name("positions")
        self.nodes.append(
            self.helper.make_node(
                "TopK",
                [x, self.constant([count])],
                [values, positions],
                name=values,
                axis=1,
                largest=0,
                sorted=1,
            )
        )
        return values, positions

    def probabilities(self, scores: str, n_classes: int) -> str:
        """Return the logistic function of one score, or the softmax of several."""
        if n_classes > 2:
            return self.add("Softmax", scores, axis=1)
        second = self.add("Sigmoid", scores)
        return self.concat([self.add("Sigmoid", self.add("Neg", scores)), second])

    # --- models ---

    def write(self, kind: str, model: Any, x: str) -> str:
        """Write the prediction of a model, by its own writer or by skl2onnx."""
        writer = self.writers[kind].get(type(model))
        if writer is not None:
            return writer(self, model, x)
        if hasattr(model, "write_graph"):
            return model.write_graph(self, x)
        return self.borrow(kind, model, [x])

    def proba(self, model: Any, x: str, classes: Any = None) -> str:
        """Write class probabilities; with ``classes``, one column for each of them."""
        proba = self.write("proba", model, x)
        if classes is None or len(model.classes_) == len(classes):
            return proba
        return self.affine(proba, np.asarray(model.classes_)[:, None] == np.asarray(classes))

    def codes(self, model: Any, x: str) -> str:
        """Write the index of the predicted class in ``classes_``, (n, 1) integers."""
        for kind in ("scores", "proba"):
            if type(model) in self.writers[kind]:
                found = self.write(kind, model, x)
                return self.best(found, 2 if kind == "scores" and len(model.classes_) == 2 else 3)
        return self.add("ArgMax", self.borrow("proba", model, [x]), axis=1, keepdims=1)

    def best(self, scores: str, n_classes: int) -> str:
        """Return the index of the largest score, (n, 1); two classes share one score."""
        if n_classes == 2:
            return self.cast(self.where_positive(scores), "INT64")
        return self.add("ArgMax", scores, axis=1, keepdims=1)

    def borrow(self, kind: str, model: Any, inputs: list[str], types: Any = None) -> str:
        """Copy the graph of a scikit-learn model that skl2onnx writes."""
        if type(model).__module__.startswith("vicinal."):
            raise OnnxExportError(
                f"the {_KINDS[kind]} of {type(model).__name__} cannot be exported to ONNX."
            )
        skl2onnx = import_optional("skl2onnx", needed_by="vicinal.io.to_onnx", extra="onnx")
        if types is None:
            double = skl2onnx.common.data_types.DoubleTensorType
            types = [("X", double([None, model.n_features_in_]))]
        options: dict = {}
        if kind in ("proba", "scores"):
            options = {id(model): {"zipmap": False}}
        if kind == "scores":
            options[id(model)]["raw_scores"] = True
        try:
            with warnings.catch_warnings():
                # skl2onnx may use deprecated functions of scikit-learn; its graph is checked.
                warnings.simplefilter("ignore")
                part = skl2onnx.convert_sklearn(
                    model, initial_types=types, options=options, target_opset=OPSETS
                )
        except Exception as error:
            reason = " ".join(str(error).split())[:300]
            raise OnnxExportError(
                f"{type(model).__name__} cannot be exported by skl2onnx "
                f"({type(error).__name__}: {reason})."
            ) from error
        outputs = [output.name for output in part.graph.output]
        wanted = outputs[1] if kind in ("proba", "scores") and len(outputs) > 1 else outputs[0]
        renamed = self._take_over(part.graph, [name for name, _ in types], inputs)
        out = self.cast(renamed(wanted), "DOUBLE")
        return self.reshape(out, -1, 1) if kind == "values" else out

    def _take_over(self, part: Any, names: list[str], inputs: list[str]) -> Callable[[str], str]:
        """Copy the nodes of another graph under new names."""
        prefix = self.name("part")
        known = dict(zip(names, inputs, strict=True))

        def renamed(name: str) -> str:
            return known.get(name, f"{prefix}_{name}" if name else "")

        for tensor in part.initializer:
            copy = self.onnx.TensorProto()
            copy.CopyFrom(tensor)
            copy.name = renamed(tensor.name)
            self.initializers.append(copy)
        for node in part.node:
            copy = self.onnx.NodeProto()
            copy.CopyFrom(node)
            copy.name = f"{prefix}_{node.name}"
            del copy.input[:], copy.output[:]
            copy.input.extend(renamed(name) for name in node.input)
            copy.output.extend(renamed(name) for name in node.output)
            self.nodes.append(copy)
        return renamed

    # --- the whole ---

    def input(self, name: str, kind: str, width: int) -> str:
        """Declare an input of the graph; a second declaration has no effect."""
        if any(info.name == name for info in self.inputs):
            return name
        info = self.helper.make_tensor_value_info(
            name, getattr(self.onnx.TensorProto, kind), [None, width]
        )
        self.inputs.append(info)
        return name

    def finished(self, outputs: dict[str, tuple[str, str, list]], **metadata: str) -> Any:
        """Return the checked graph; outputs are name: (node, type, shape)."""
        infos = []
        for name, (made, kind, shape) in outputs.items():
            self.nodes.append(self.helper.make_node("Identity", [made], [name], name=name))
            kind_number = getattr(self.onnx.TensorProto, kind)
            infos.append(self.helper.make_tensor_value_info(name, kind_number, shape))
        graph = self.helper.make_graph(self.nodes, "vicinal", self.inputs, infos, self.initializers)
        opsets = [self.helper.make_opsetid(domain, version) for domain, version in OPSETS.items()]
        model = self.helper.make_model(graph, opset_imports=opsets, producer_name="vicinal")
        model.ir_version = _IR_VERSION
        self.helper.set_model_props(model, metadata)
        try:
            self.onnx.checker.check_model(model, full_check=True)
        except Exception as error:
            # Parts that skl2onnx wrote for doubles may still mix in single precision.
            reason = " ".join(str(error).split())[:300]
            raise OnnxExportError(
                f"the parts of the graph do not fit together: {reason}"
            ) from error
        return model


_KINDS = {
    "proba": "probabilities",
    "scores": "scores",
    "values": "predictions",
    "features": "features",
}
