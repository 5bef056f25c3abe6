"""Construction of a graph from nodes, constants, and subgraphs written by skl2onnx.

All numbers are doubles. Matrices have a row for every row of X: scores (n, 1) for two classes and
(n, n_classes) for more, probabilities (n, n_classes), predictions (n, 1).
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vicinal._base import import_optional
from vicinal.io._errors import OnnxExportError

# Supported by skl2onnx and by runtimes that are two years old.
OPSETS = {"": 18, "ai.onnx.ml": 3}
_IR_VERSION = 9
_TO_THE_END = 2**62


def _operator(kind: str, *, is_second: bool = False) -> Callable[["Node", Any], "Node"]:
    """Return the method of a node for an operator; the other side may be numbers."""

    def method(self: "Node", other: Any) -> "Node":
        if not isinstance(other, Node):
            # A number right after or before a MatMul is better a part of the matrix: onnxruntime
            # merges the two and keeps the number in single precision. It drops factors near 1.
            other = np.asarray(other, dtype=np.float64)
        return self.graph.add(kind, *((other, self) if is_second else (self, other)))

    return method


@dataclass(frozen=True, eq=False)
class Node:
    """The output of a node; operators and methods add further nodes, as for a NumPy array."""

    graph: "Graph"
    name: str

    __array_ufunc__ = None  # arrays leave operators to the node

    def op(self, kind: str, *others: Any, **attributes: Any) -> "Node":
        """Return a node of some kind whose first input is this one."""
        return self.graph.add(kind, self, *others, **attributes)

    __add__ = __radd__ = _operator("Add")
    __sub__, __rsub__ = _operator("Sub"), _operator("Sub", is_second=True)
    __mul__ = __rmul__ = _operator("Mul")
    __truediv__ = _operator("Div")
    __matmul__, __rmatmul__ = _operator("MatMul"), _operator("MatMul", is_second=True)
    __gt__, __le__ = _operator("Greater"), _operator("LessOrEqual")

    def __neg__(self) -> "Node":
        return self.op("Neg")

    def cast(self, kind: str) -> "Node":
        """Change the type of numbers: ``"DOUBLE"``, ``"FLOAT"``, ``"INT64"``."""
        return self.op("Cast", to=getattr(self.graph.onnx.TensorProto, kind))

    def total(self, *axes: int, keep: bool = False) -> "Node":
        """Return the sum over axes."""
        return self.op("ReduceSum", list(axes), keepdims=int(keep))

    def average(self, axis: int, *, keep: bool = False) -> "Node":
        """Return the mean over an axis."""
        return self.op("ReduceMean", [axis], keepdims=int(keep))

    def reshape(self, *shape: int) -> "Node":
        """Return the numbers in another shape; 0 keeps a length, -1 is what is left."""
        return self.op("Reshape", list(shape))

    def columns(self, chosen: Any) -> "Node":
        """Return some columns."""
        return self.op("Gather", np.asarray(chosen, dtype=np.int64), axis=1)

    def of(self, table: Any) -> "Node":
        """Return the rows of a table at these indices."""
        return self.graph.add("Gather", table, self, axis=0)

    def part(self, axis: int, start: int, stop: int = _TO_THE_END) -> "Node":
        """Return a slice along an axis."""
        return self.op("Slice", [start], [stop], [axis])

    def softmax(self, axis: int = 1) -> "Node":
        """Return exponentials that sum to one along an axis."""
        return self.op("Softmax", axis=axis)

    def one_hot(self, categories: Any) -> "Node":
        """Return one where (n, 1) values equal a category, and zero elsewhere; NaN equals NaN."""
        categories = np.asarray(categories)
        same = self.op("Equal", categories[None]).cast("DOUBLE")
        if categories.dtype.kind != "f" or not np.isnan(categories).any():
            return same
        missing = self.op("IsNaN").cast("DOUBLE")
        return same + missing * np.isnan(categories)[None]

    def repeat(self, row: Any) -> "Node":
        """Return a constant row for every row of this matrix."""
        row = np.atleast_2d(np.asarray(row, dtype=np.float64))
        shape = self.op("Shape", start=0, end=1).op("Concat", [row.shape[1]], axis=0)
        return self.graph.add("Expand", row, shape)

    def log_sigmoid(self) -> "Node":
        """Return log(1 / (1 + exp(-x))) without overflow."""
        rest = ((-self.op("Abs")).op("Exp") + 1.0).op("Log")
        return self.op("Min", 0.0) - rest

    def square_distances(self, centers: Any) -> "Node":
        """Return squared Euclidean distances to fixed points, (n, n_centers)."""
        centers = np.asarray(centers, dtype=np.float64)
        # About the mean of the points, so that little is lost to cancellation.
        middle = centers.mean(axis=0)
        shifted, centers = self - middle, centers - middle
        own = (shifted * shifted).total(1, keep=True)
        cross = shifted @ (-2.0 * centers.T) + (centers**2).sum(axis=1)
        return (own + cross).op("Relu")

    def top(self, count: Any, *, largest: bool = False) -> tuple["Node", "Node"]:
        """Return the smallest (or largest) values of each line, in order, and their indices."""
        outputs = self.graph.name("values"), self.graph.name("indices")
        self.graph.attach("TopK", [self, count], outputs, axis=1, largest=int(largest), sorted=1)
        return Node(self.graph, outputs[0]), Node(self.graph, outputs[1])

    def probabilities(self, n_classes: int) -> "Node":
        """Return the logistic function of one score, or the softmax of several."""
        if n_classes > 2:
            return self.softmax()
        return self.graph.concat([(-self).op("Sigmoid"), self.op("Sigmoid")])

    def best(self, n_classes: int) -> "Node":
        """Return the index of the largest score, (n, 1); two classes share one score."""
        if n_classes == 2:
            return (self > 0.0).cast("INT64")
        return self.op("ArgMax", axis=1, keepdims=1)

    def write(self, kind: str, model: Any) -> "Node":
        """Write the prediction of a model for these rows."""
        return self.graph.write(kind, model, self)

    def proba(self, model: Any, classes: Any = None) -> "Node":
        """Write class probabilities; with ``classes``, one column for each of them."""
        proba = self.write("proba", model)
        if classes is None or len(model.classes_) == len(classes):
            return proba
        return proba @ (np.asarray(model.classes_)[:, None] == np.asarray(classes))

    def codes(self, model: Any) -> "Node":
        """Write the index of the predicted class in ``classes_``, (n, 1) integers."""
        if type(model) in WRITERS["scores"]:
            return self.write("scores", model).best(len(model.classes_))
        return self.write("proba", model).op("ArgMax", axis=1, keepdims=1)


Writer = Callable[[Any, Node], Node]
# Functions that write a prediction of a model, by its kind and by the class of the model.
WRITERS: dict[str, dict[type, Writer]] = {"proba": {}, "scores": {}, "values": {}, "features": {}}


def writes(kind: str, *classes: type) -> Callable[[Writer], Writer]:
    """Return a decorator of the function that writes a prediction of models of some classes."""

    def register(writer: Writer) -> Writer:
        WRITERS[kind] |= dict.fromkeys(classes, writer)
        return writer

    return register


class Graph:
    """Nodes and constants of a graph.

    Parameters
    ----------
    prefix : str, default=""
        Begin of all names; a graph inside another needs its own.
    """

    def __init__(self, prefix: str = "") -> None:
        self.onnx = import_optional("onnx", needed_by="vicinal.io.to_onnx", extra="onnx")
        self.helper = self.onnx.helper
        self.prefix = prefix
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []
        self.inputs: list[Any] = []
        self._count = 0

    # --- nodes ---

    def name(self, hint: str) -> str:
        """Return a unique name."""
        self._count += 1
        return f"{self.prefix}{hint}_{self._count}"

    def attach(
        self, op: str, inputs: Sequence[Any], outputs: Sequence[str], **attributes: Any
    ) -> None:
        """Attach a node; inputs that are no nodes become constants, ``None`` is left out."""
        nodes = [v if v is None or isinstance(v, Node) else self.constant(v) for v in inputs]
        names = ["" if node is None else node.name for node in nodes]
        self.nodes.append(
            self.helper.make_node(op, names, list(outputs), name=outputs[0], **attributes)
        )

    def add(self, op: str, *inputs: Any, **attributes: Any) -> Node:
        """Add a node of one output."""
        out = self.name(op.lower())
        self.attach(op, inputs, [out], **attributes)
        return Node(self, out)

    def constant(self, value: Any) -> Node:
        """Add doubles, integers or strings."""
        array = np.asarray(value)
        kind = {"f": np.float64, "i": np.int64, "u": np.int64, "b": np.int64}.get(array.dtype.kind)
        name = self.name("constant")
        array = array.astype(kind or object)
        self.initializers.append(self.onnx.numpy_helper.from_array(array, name))
        return Node(self, name)

    def mean_of(self, parts: list[Node]) -> Node:
        """Return the mean of parts of one shape."""
        return parts[0] if len(parts) == 1 else self.add("Sum", *parts) * (1.0 / len(parts))

    def weighted(self, parts: list[tuple[Node, float]]) -> Node:
        """Return the weighted sum of parts of one shape."""
        terms = [part * weight for part, weight in parts]
        return terms[0] if len(terms) == 1 else self.add("Sum", *terms)

    def concat(self, parts: list[Node], axis: int = 1) -> Node:
        """Join along an axis."""
        return parts[0] if len(parts) == 1 else self.add("Concat", *parts, axis=axis)

    def piecewise_linear(self, x: Node, knots: list[tuple[np.ndarray, np.ndarray]]) -> Node:
        """Return a piecewise linear function of every column, constant beyond its knots."""
        columns = []
        for j, (values, scores) in enumerate(knots):
            if len(values) == 1:
                columns.append(x.repeat(scores))
                continue
            column = x.columns([j]).op("Clip", values[0], values[-1])
            slopes = np.diff(scores) / np.diff(values)
            # The number of knots passed, from 1 on, is the number of the piece.
            passed = column.op("GreaterOrEqual", values[:-1][None]).cast("INT64")
            piece = passed.total(1, keep=True).op("Sub", [1])
            rise = (column - piece.of(values[:-1])) * piece.of(slopes)
            columns.append(piece.of(scores[:-1]) + rise)
        return self.concat(columns)

    def eliminated(self, systems: Node, count: int) -> Node:
        """Return D - C A^-1 B of matrices [[A, B], [C, D]], (n, rows, columns).

        A is positive definite, of ``count`` rows. Each turn of the loop eliminates one row.
        """
        body = Graph(f"{self.name('loop')}_")
        kinds: dict[str, tuple[str, list]] = {
            "turn": ("INT64", []),
            "go_on": ("BOOL", []),
            "system": ("DOUBLE", [None] * 3),
        }
        _, go_on, system = (
            body.input(f"{body.prefix}{name}", *kind) for name, kind in kinds.items()
        )
        row, column = system.part(1, 0, 1), system.part(2, 0, 1)
        share = column.part(1, 1) / row.part(2, 0, 1)
        rest = system.part(1, 1).part(2, 1) - share * row.part(2, 1)
        outputs = [
            body._info(node.name, *kinds[name])
            for name, node in (("go_on", go_on.op("Identity")), ("system", rest))
        ]
        loop = self.helper.make_graph(
            body.nodes, "eliminate", body.inputs, outputs, body.initializers
        )
        return self.add("Loop", np.int64(count), None, systems, body=loop)

    # --- models ---

    def write(self, kind: str, model: Any, x: Node) -> Node:
        """Write the prediction of a model, by its own writer or by skl2onnx."""
        writer = WRITERS[kind].get(type(model))
        if writer is not None:
            return writer(model, x)
        if hasattr(model, "write_graph"):
            return model.write_graph(self, x)
        return self.borrow(kind, model, [x])

    def borrow(self, kind: str, model: Any, inputs: list[Node], types: Any = None) -> Node:
        """Copy the graph of a scikit-learn model that skl2onnx writes."""
        if type(model).__module__.startswith("vicinal."):
            what = {"proba": "probabilities", "values": "predictions"}.get(kind, kind)
            raise OnnxExportError(
                f"the {what} of {type(model).__name__} cannot be exported to ONNX; save it with "
                "vicinal.io.save."
            )
        skl2onnx = import_optional("skl2onnx", needed_by="vicinal.io.to_onnx", extra="onnx")
        if types is None:
            double = skl2onnx.common.data_types.DoubleTensorType
            types = [("X", double([None, model.n_features_in_]))]
        options: dict = {}
        if kind in ("proba", "scores"):
            raw = {"raw_scores": True} if kind == "scores" else {}
            options = {id(model): {"zipmap": False, **raw}}
        try:
            # skl2onnx may use deprecated functions of scikit-learn; its graph is checked.
            with warnings.catch_warnings(action="ignore"):
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
        prefix = f"{self.name('part')}_"
        renamed = self.onnx.compose.add_prefix_graph(part.graph, prefix)
        for (name, _), given in zip(types, inputs, strict=True):
            self.attach("Identity", [given], [prefix + name])
        self.nodes.extend(renamed.node)
        self.initializers.extend(renamed.initializer)
        out = Node(self, prefix + wanted).cast("DOUBLE")
        return out.reshape(-1, 1) if kind == "values" else out

    # --- the whole ---

    def _info(self, name: str, kind: str, shape: list) -> Any:
        number = getattr(self.onnx.TensorProto, kind)
        return self.helper.make_tensor_value_info(name, number, shape)

    def input(self, name: str, kind: str, shape: list) -> Node:
        """Declare an input of the graph; a second declaration has no effect."""
        if not any(info.name == name for info in self.inputs):
            self.inputs.append(self._info(name, kind, shape))
        return Node(self, name)

    def finished(self, outputs: dict[str, tuple[Node, str, list]], **metadata: str) -> Any:
        """Return the checked graph; outputs are name: (node, type, shape)."""
        infos = []
        for name, (made, kind, shape) in outputs.items():
            self.attach("Identity", [made], [name])
            infos.append(self._info(name, kind, shape))
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
