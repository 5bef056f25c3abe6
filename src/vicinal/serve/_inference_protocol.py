"""Version 2 of the Open Inference Protocol, for one model of tables."""

import io
import math
import struct
from typing import Any

import numpy as np

from vicinal.serve._requests import Limits, RequestError
from vicinal.serve._served_model import ServedModel, plain

# Little-endian dtypes of binary tensors.
DATATYPES = {
    "BOOL": "?",
    "BYTES": "O",
    **{f"FP{bits}": f"<f{bits // 8}" for bits in (16, 32, 64)},
    **{f"INT{bits}": f"<i{bits // 8}" for bits in (8, 16, 32, 64)},
    **{f"UINT{bits}": f"<u{bits // 8}" for bits in (8, 16, 32, 64)},
}

# Numbers of JSON are not rounded to those.
_JSON_DTYPES: dict[str, Any] = {"f": float, "i": int, "u": int}
_TYPES = {"integer": "INT64", "number": "FP64", "boolean": "BOOL", "string": "BYTES"}


def model_metadata(served: ServedModel) -> dict[str, Any]:
    """Return the inputs, one for each column, and the outputs."""
    outputs = [{"name": "predict", "datatype": _prediction_type(served), "shape": [-1]}]
    if served.has_proba:
        outputs.append(
            {"name": "predict_proba", "datatype": "FP64", "shape": [-1, len(served.classes)]}
        )
    return {
        "name": served.name,
        "versions": ["1"],
        "platform": "vicinal",
        "inputs": [
            {"name": name, "datatype": _TYPES[kind], "shape": [-1]}
            for name, kind in served.kinds.items()
        ],
        "outputs": outputs,
    }


def infer(served: ServedModel, request: Any, tensors: bytes = b"") -> dict[str, Any]:
    """Return the response to one request; ``tensors`` are the bytes that follow the JSON."""
    if not isinstance(request, dict) or not isinstance(request.get("inputs"), list):
        raise RequestError(400, "the body must be a JSON object with a list 'inputs'.")
    table = served.frame(_columns(served, request["inputs"], tensors))
    found = served.predictions(table)
    outputs = [_tensor("predict", _prediction_type(served), found["predictions"])]
    if served.has_proba:
        outputs.append(_tensor("predict_proba", "FP64", found["probabilities"]))
    wanted = [
        output.get("name") for output in request.get("outputs") or [] if isinstance(output, dict)
    ]
    unknown = [name for name in wanted if name not in {output["name"] for output in outputs}]
    if unknown:
        raise RequestError(
            400, f"the output {unknown[0]!r} does not exist; use predict or predict_proba."
        )
    chosen = [output for output in outputs if not wanted or output["name"] in wanted]
    reply: dict[str, Any] = {"model_name": served.name, "model_version": "1", "outputs": chosen}
    if "warnings" in found:
        reply["parameters"] = {"warnings": "; ".join(found["warnings"])}
    if isinstance(request.get("id"), str):
        reply["id"] = request["id"]
    return reply


def _columns(served: ServedModel, inputs: list, tensors: bytes) -> dict[str, list]:
    rest = io.BytesIO(tensors)
    arrays = [_array(entry, rest, served.limits) for entry in inputs]
    served.limits.check(0, sum(array.size for _, array in arrays))
    if len(arrays) == 1 and arrays[0][1].ndim == 2:
        matrix = arrays[0][1]
        if matrix.shape[1] != len(served.columns):
            raise RequestError(
                400,
                f"the input has {matrix.shape[1]} columns, but the model expects "
                f"{len(served.columns)}.",
            )
        return {name: matrix[:, j].tolist() for j, name in enumerate(served.columns)}
    given = {name: array.reshape(-1).tolist() for name, array in arrays}
    missing = [name for name in served.columns if name not in given]
    if missing:
        raise RequestError(400, f"the input {missing[0]!r} is missing; expected {served.columns}.")
    if len({len(values) for values in given.values()}) > 1:
        raise RequestError(400, "all inputs must have the same number of rows.")
    return {name: given[name] for name in served.columns}


def _array(entry: Any, rest: io.BytesIO, limits: Limits) -> tuple[str, np.ndarray]:
    """Return name and values of an input, from its data or from the bytes after the JSON."""
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        raise RequestError(400, "every input must have a name, a shape, a datatype and data.")
    name, shape, kind = entry["name"], entry.get("shape"), entry.get("datatype")
    if kind not in DATATYPES:
        raise RequestError(400, f"input {name!r}: datatype must be one of {sorted(DATATYPES)}.")
    if (
        not isinstance(shape, list)
        or not 1 <= len(shape) <= 2
        or any(type(number) is not int or number < 0 for number in shape)
    ):
        raise RequestError(400, f"input {name!r}: shape must be [rows] or [rows, columns].")
    limits.check(shape[0], math.prod(shape))
    parameters = entry.get("parameters")
    size = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
    if size is None and entry.get("data") is None:
        raise RequestError(400, f"input {name!r}: data is missing.")
    try:
        if size is not None:
            return name, _from_bytes(_taken(rest, size), kind).reshape(shape)
        dtype = np.dtype(DATATYPES[kind])
        dtype = _JSON_DTYPES.get(dtype.kind, dtype)
        return name, np.array(_flat(entry["data"]), dtype=dtype).reshape(shape)
    except (TypeError, ValueError, OverflowError, struct.error):
        raise RequestError(
            400, f"input {name!r}: data do not match the shape {shape} and type {kind}."
        ) from None


def _taken(rest: io.BytesIO, size: Any) -> bytes:
    if type(size) is not int or size < 0:
        raise ValueError
    content = rest.read(size)
    if len(content) < size:
        raise ValueError
    return content


def _from_bytes(content: bytes, kind: str) -> np.ndarray:
    """Return the values of a binary tensor; strings are preceded by their length."""
    if kind != "BYTES":
        return np.frombuffer(content, dtype=DATATYPES[kind])
    texts, at = [], 0
    while at < len(content):
        (length,) = struct.unpack_from("<I", content, at)
        at += 4 + length
        if at > len(content):
            raise ValueError
        texts.append(content[at - length : at].decode())
    return np.array(texts, dtype=object)


def _flat(data: Any) -> list:
    if not isinstance(data, list):
        raise TypeError
    return [value for part in data for value in (part if isinstance(part, list) else [part])]


def _tensor(name: str, kind: str, values: list) -> dict[str, Any]:
    array = np.asarray(values, dtype=object)
    return {
        "name": name,
        "datatype": kind,
        "shape": list(array.shape),
        "data": plain(array.ravel()),
    }


def _prediction_type(served: ServedModel) -> str:
    if served.classes is None:
        return "FP64"
    kind = np.asarray(served.classes).dtype.kind
    return {"i": "INT64", "u": "INT64", "b": "BOOL", "f": "FP64"}.get(kind, "BYTES")
