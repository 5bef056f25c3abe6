"""A model as one JSON document and a list of plain arrays, and back.

Numbers, strings, ``None`` and Booleans stand for themselves; other values are lists that begin
with their type:

    ["list", ...] ["tuple", ...] ["set", ...] ["dict", [key, value], ...] ["slice", a, b, c]
    ["float", "nan"] ["bytes", hex] ["complex", re, im]
    ["array", i]       array i of the list; ["number", i] its only value, of that NumPy type
    ["cells", shape, ...]   an array of strings, numbers and ``None``
    ["dtype", text] ["type", name] ["function", name]
    ["object", i]      object i of the list

An object has a class and attributes, and may refer to earlier objects only. So every object is
made once, and no object contains itself.
"""

import math
import types
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from vicinal._base import check_parameters, check_saved
from vicinal._base._compat import openmp_threads
from vicinal.io import _foreign
from vicinal.io._archive import dtype_text, plain_dtype, read_shape
from vicinal.io._errors import ModelFileError
from vicinal.io._types import VALUE_TYPES, Vocabulary, full_name, refusal

_MAX_OBJECTS = 10**6  # nested
_MAX_COPIES = 32  # of all arrays, in objects built from them
_SEARCHED = ("_fit_X", "_engine")  # rows that search trees are built from
# A file does not set numbers of processes and threads.
_THREADS = {"n_jobs": None, "n_threads": None, "_n_threads": openmp_threads()}
# Packages whose arrays, types and devices are parts of models fitted to such arrays.
_ARRAY_LIBRARIES = {"array_api_strict", "cupy", "dask", "jax", "jaxlib", "torch"}
_FUNCTIONS = types.FunctionType | types.BuiltinFunctionType | types.MethodType | np.ufunc


class Writer:
    """Convert a model to JSON values, arrays and objects.

    Parameters
    ----------
    vocabulary : Vocabulary
        Allowed classes and functions.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.arrays: list[np.ndarray] = []
        self.objects: list[dict[str, Any]] = []
        # By id; references are kept so that no id is reused.
        self._known_arrays: dict[int, tuple[int, Any]] = {}
        self._known_objects: dict[int, tuple[int | None, Any]] = {}

    def value(self, x: Any) -> Any:
        """Return ``x`` as a value of the document."""
        if x is None or type(x) in (bool, int, str):
            return x
        if type(x) is float:
            return x if math.isfinite(x) else ["float", repr(x)]
        pack = _PACKERS.get(type(x))
        if pack is not None:
            return pack(self, x)
        if isinstance(x, np.generic):
            return ["number", self._array(np.asarray(x))]
        if isinstance(x, np.dtype):
            return ["dtype", dtype_text(x)]
        if isinstance(x, type):
            return self._type(x)
        if isinstance(x, _FUNCTIONS):
            return ["function", self.vocabulary.name_of_function(x)]
        return ["object", self._object(x)]

    def _values(self, kind: str, items: Iterable[Any]) -> list:
        return [kind, *map(self.value, items)]

    def _dict(self, x: dict) -> list:
        return ["dict", *([self.value(key), self.value(item)] for key, item in x.items())]

    def _ndarray(self, x: np.ndarray) -> list:
        if x.dtype.hasobject:
            return ["cells", list(x.shape), *map(self.value, x.ravel().tolist())]
        return ["array", self._array(x)]

    def _array(self, x: np.ndarray) -> int:
        if id(x) not in self._known_arrays:
            dtype_text(x.dtype)
            self._known_arrays[id(x)] = len(self.arrays), x
            self.arrays.append(x)
        return self._known_arrays[id(x)][0]

    def _type(self, x: type) -> list:
        name = next((name for name, known in VALUE_TYPES.items() if known is x), None)
        if name is None:
            raise refusal([f"the class {full_name(x)} itself"], "the model")
        return ["type", name]

    def _object(self, x: Any) -> int:
        known = self._known_objects.get(id(x))
        if known is None:
            self._known_objects[id(x)] = None, x
            entry = self._entry(x)
            self._known_objects[id(x)] = len(self.objects), x
            self.objects.append(entry)
        elif known[0] is None:
            raise ModelFileError(f"the model has a {full_name(type(x))} that contains itself.")
        return self._known_objects[id(x)][0]  # type: ignore[return-value]

    def _entry(self, x: Any) -> dict[str, Any]:
        name = full_name(type(x))
        if name.partition(".")[0] in _ARRAY_LIBRARIES:
            raise TypeError(
                f"the model has a {name}, but only models fitted to NumPy arrays, sparse matrices "
                "or data frames can be saved; fit it to numpy.asarray(X)."
            )
        # A file that cannot be read must not be written.
        if name in _foreign.CONVERSIONS:
            state = _foreign.CONVERSIONS[name].to_state(x)
            _foreign.check_converted(name, state)
        else:
            name = self.vocabulary.name_of(type(x))
            state = (
                x.__saved_state__() if hasattr(type(x), "__saved_state__") else _foreign.state_of(x)
            )
            if not self.vocabulary.is_trusted(name):
                _foreign.check_state(type(x), state)
            _foreign.check_foreign(x)
            check_saved(x)
        return {"class": name, "state": {key: self.value(part) for key, part in state.items()}}


_PACKERS: dict[type, Callable[[Writer, Any], Any]] = {
    list: lambda writer, x: writer._values("list", x),
    tuple: lambda writer, x: writer._values("tuple", x),
    set: lambda writer, x: writer._values("set", sorted(x, key=repr)),
    dict: Writer._dict,
    OrderedDict: Writer._dict,
    slice: lambda writer, x: writer._values("slice", (x.start, x.stop, x.step)),
    bytes: lambda writer, x: ["bytes", x.hex()],
    complex: lambda writer, x: writer._values("complex", (x.real, x.imag)),
    np.ndarray: Writer._ndarray,
    np.memmap: Writer._ndarray,
}


class Reader:
    """Build the model that a document describes.

    Parameters
    ----------
    vocabulary : Vocabulary
        Allowed classes and functions.
    arrays : list of ndarray
        The arrays of the file.
    """

    def __init__(self, vocabulary: Vocabulary, arrays: list[np.ndarray]) -> None:
        self.vocabulary = vocabulary
        self.arrays = arrays
        self.objects: list[Any] = []
        # Objects nested in each object, with repetition: the cost of a traversal. Arrays are copied
        # by the objects built from them.
        self._counts: list[int] = []
        self._count = 0
        self._bytes_left = _MAX_COPIES * sum(array.nbytes for array in arrays) + 2**20

    def model(self, document: dict[str, Any]) -> Any:
        """Return the model, after its parts are built in the order of the list."""
        for entry in document["objects"]:
            self._count = 1
            self.objects.append(self._object(entry["class"], entry["state"]))
            self._counts.append(self._count)
            if self._count > _MAX_OBJECTS:
                raise ModelFileError("the document has too many nested objects.")
        return self.value(document["model"])

    def value(self, x: Any) -> Any:
        """Return the value that an entry of the document stands for."""
        if type(x) is not list:
            if isinstance(x, dict):
                raise ModelFileError("the document has a value without a type.")
            return x
        kind, *content = x
        if kind in _UNPACKERS:
            return _UNPACKERS[kind](self, *content)
        raise ModelFileError(f"the document has a value of the unknown type {kind!r}.")

    def _values(self, *items: Any) -> list:
        return [self.value(item) for item in items]

    def _dict(self, *items: Any) -> dict:
        return {self._key(key): self.value(item) for key, item in items}

    def _key(self, x: Any) -> Any:
        key = self.value(x)
        for part in key if type(key) is tuple else (key,):
            if not isinstance(part, str | int | float | np.generic | None):
                raise ModelFileError(
                    "the document has a key that is neither a number nor a string."
                )
        return key

    def _part(self, index: Any) -> Any:
        part = self._at(self.objects, index)
        self._count += self._counts[index]
        return part

    def _spend(self, name: str, values: dict[str, Any]) -> None:
        """Count the bytes that an object copies, and raise above the limit."""
        copied = values.values() if name in _foreign.CONVERSIONS else map(values.get, _SEARCHED)
        self._bytes_left -= sum(getattr(getattr(x, "data", x), "nbytes", 0) for x in copied)
        if self._bytes_left < 0:
            raise ModelFileError("the document builds too many objects from the same arrays.")

    def _at(self, things: list, index: Any) -> Any:
        if type(index) is not int or not 0 <= index < len(things):
            raise ModelFileError(
                f"the document refers to part {index!r}, which is not an earlier part."
            )
        return things[index]

    def _cells(self, shape: Any, *cells: Any) -> np.ndarray:
        made = np.empty(len(cells), dtype=object)
        made[:] = self._values(*cells)
        return made.reshape(read_shape(shape))

    def _number(self, index: Any) -> np.generic:
        array = self._at(self.arrays, index)
        if array.ndim:
            raise ModelFileError("the document uses an array as a number.")
        return array[()]

    def _float(self, text: Any) -> float:
        if text not in ("nan", "inf", "-inf"):
            raise ModelFileError(f"the document has the invalid number {text!r}.")
        return float(text)

    def _type(self, name: Any) -> type:
        found = VALUE_TYPES.get(name)
        if found is None:
            raise refusal([f"the class {name} itself"], "the file")
        return found

    def _function(self, name: Any) -> Any:
        found = self.vocabulary.find_function(name)
        if found is None:
            raise refusal([name], "the file")
        return found

    def _object(self, name: str, state: dict[str, Any]) -> Any:
        for attribute in state:
            if attribute.startswith("__"):
                raise ModelFileError(f"the document sets the special attribute {attribute!r}.")
        values = {attribute: self.value(part) for attribute, part in state.items()}
        self._spend(name, values)
        if name in _foreign.CONVERSIONS:
            _foreign.check_converted(name, values)
            return _foreign.CONVERSIONS[name].build(name, values)
        kind = self.vocabulary.find_class(name)
        if kind is None:
            raise refusal([name], "the file")
        values.update((own, _THREADS[own]) for own in _THREADS if own in values)
        if not self.vocabulary.is_trusted(name):
            _foreign.check_state(kind, values)
        made = _made(kind, values)
        _foreign.check_foreign(made)
        check_saved(made)
        _check_parameters(made)
        return made


_UNPACKERS: dict[str, Callable[..., Any]] = {
    "list": Reader._values,
    "tuple": lambda reader, *items: tuple(reader._values(*items)),
    "set": lambda reader, *items: set(map(reader._key, items)),
    "dict": Reader._dict,
    "slice": lambda reader, *items: slice(*reader._values(*items)),
    "float": Reader._float,
    "bytes": lambda reader, text: bytes.fromhex(text),
    "complex": lambda reader, *items: complex(*reader._values(*items)),
    "array": lambda reader, index: reader._at(reader.arrays, index),
    "number": Reader._number,
    "cells": Reader._cells,
    "dtype": lambda reader, text: plain_dtype(text),
    "type": Reader._type,
    "function": Reader._function,
    "object": Reader._part,
}


def _made(kind: type, state: dict[str, Any]) -> Any:
    """Return an object with its attributes, without a call of its constructor."""
    if issubclass(kind, tuple):
        values = state["*"]
        if len(values) != len(kind._fields):  # type: ignore[attr-defined]
            raise ModelFileError(f"the document has a {kind.__name__} with {len(values)} values.")
        return tuple.__new__(kind, values)
    made: Any = kind.__new__(kind)
    if isinstance(made, dict):
        made.update(state["*"])
    elif hasattr(kind, "__restore__"):
        made.__restore__(state)
    else:
        _foreign.restore_foreign(made, state)
    return made


def _check_parameters(made: Any) -> None:
    """Raise if ``fit`` of an estimator of this library would refuse its parameters."""
    if type(made).__module__.partition(".")[0] != __name__.partition(".")[0]:
        return
    try:
        if hasattr(made, "get_params"):
            made.get_params(deep=False)
        check_parameters(made)
    except AttributeError as error:
        raise ModelFileError(
            f"a parameter is missing ({error}): the file is damaged or of another version of "
            "vicinal; fit and save again."
        ) from None
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"the file is damaged: {error}") from None
