"""A model as one JSON document and a list of plain arrays, and back.

Numbers, texts, ``None`` and truth values stand for themselves; everything else is a list that
begins with its kind:

    ["list", ...] ["tuple", ...] ["set", ...] ["dict", [key, value], ...] ["slice", a, b, c]
    ["float", "nan"] ["bytes", hex] ["complex", re, im]
    ["array", i]       array i of the list; ["number", i] its only value, of that NumPy type
    ["cells", shape, ...]   an array of texts, numbers and ``None``
    ["dtype", text] ["type", name] ["function", name]
    ["object", i]      object i of the list

An object names its class and its attributes, and may refer to objects before it only. So every
object is made once, each number means one object, and nothing can contain itself.
"""

import math
import types
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from vicinal._base import check_parameters, check_saved, is_array_api, n_threads
from vicinal.io._errors import ModelFileError
from vicinal.io._foreign import (
    FORMS,
    check_foreign,
    check_form,
    check_state,
    restore_foreign,
    state_of,
)
from vicinal.io._types import Vocabulary, full_name, refusal, value_type, value_type_name

_PLAIN_KINDS = "biufcSUmM"
_MAX_OBJECTS = 10**6  # in one another
_MAX_COPIES = 32  # of all arrays, in what is built from them
_SEARCHED = ("_fit_X", "_engine")  # rows that search trees are built from
# A file does not choose how many processes and threads work.
_THREADS = {"n_jobs": None, "n_threads": None, "_n_threads": n_threads(None)}
_FUNCTIONS = types.FunctionType | types.BuiltinFunctionType | types.MethodType | np.ufunc


class Writer:
    """Turn a model into values of JSON, arrays and objects.

    Parameters
    ----------
    vocabulary : Vocabulary
        What may be named.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.arrays: list[np.ndarray] = []
        self.objects: list[dict[str, Any]] = []
        # By identity; the things themselves are kept, so that no identity is used twice.
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
            return ["dtype", _dtype_text(x)]
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
            _dtype_text(x.dtype)
            self._known_arrays[id(x)] = len(self.arrays), x
            self.arrays.append(x)
        return self._known_arrays[id(x)][0]

    def _type(self, x: type) -> list:
        name = value_type_name(x)
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
            raise ModelFileError(f"the model holds a {full_name(type(x))} that contains itself.")
        return self._known_objects[id(x)][0]  # type: ignore[return-value]

    def _entry(self, x: Any) -> dict[str, Any]:
        if is_array_api(x) or type(x).__module__ == "torch":
            raise TypeError(
                f"the model holds a {full_name(type(x))}; only models fitted on NumPy arrays (or "
                "sparse matrices and frames) can be saved: fit it on numpy.asarray of the data."
            )
        name = full_name(type(x))
        # What cannot be read must not be written.
        if name in FORMS:
            state = FORMS[name].take_apart(x)
            check_form(name, state)
        else:
            name, state = self.vocabulary.name_of(type(x)), _state(x)
            if not self.vocabulary.is_trusted(name):
                check_state(type(x), state)
            check_foreign(x)
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


def _state(x: Any) -> dict[str, Any]:
    if hasattr(type(x), "__saved_state__"):
        return x.__saved_state__()
    return state_of(x)


class Reader:
    """Make the model that a document describes.

    Parameters
    ----------
    vocabulary : Vocabulary
        What may be named.
    arrays : list of ndarray
        The arrays of the file.
    """

    def __init__(self, vocabulary: Vocabulary, arrays: list[np.ndarray]) -> None:
        self.vocabulary = vocabulary
        self.arrays = arrays
        self.objects: list[Any] = []
        # How many objects each holds, counted as often as it holds them: what walks over one
        # takes. What is built from arrays is copied.
        self._counts: list[int] = []
        self._count = 0
        self._bytes_left = _MAX_COPIES * sum(array.nbytes for array in arrays) + 2**20

    def model(self, document: dict[str, Any]) -> Any:
        """Return the model; everything it is made of is made first, in the order of the list."""
        for entry in document["objects"]:
            self._count = 1
            self.objects.append(self._object(entry["class"], entry["state"]))
            self._counts.append(self._count)
            if self._count > _MAX_OBJECTS:
                raise ModelFileError("the document holds objects in one another without end.")
        return self.value(document["model"])

    def value(self, x: Any) -> Any:
        """Return what a value of the document stands for."""
        if type(x) is not list:
            if isinstance(x, dict):
                raise ModelFileError("the document has a value without a kind.")
            return x
        kind, *content = x
        if kind in _UNPACKERS:
            return _UNPACKERS[kind](self, content)
        raise ModelFileError(f"the document has a value of the unknown kind {kind!r}.")

    def _values(self, content: list) -> list:
        return [self.value(item) for item in content]

    def _dict(self, content: list) -> dict:
        return {self._key(key): self.value(item) for key, item in content}

    def _key(self, x: Any) -> Any:
        key = self.value(x)
        for part in key if type(key) is tuple else (key,):
            if not isinstance(part, str | int | float | np.generic | None):
                raise ModelFileError("the document has a key that is neither number nor text.")
        return key

    def _part(self, content: list) -> Any:
        part = self._at(self.objects, content)
        self._count += self._counts[content[0]]
        return part

    def _spend(self, name: str, values: dict[str, Any]) -> None:
        """Count the bytes that an object copies when it is built."""
        copied = values.values() if name in FORMS else map(values.get, _SEARCHED)
        self._bytes_left -= sum(getattr(getattr(x, "data", x), "nbytes", 0) for x in copied)
        if self._bytes_left < 0:
            raise ModelFileError("the document builds too many objects from the same arrays.")

    def _at(self, things: list, content: list) -> Any:
        (index,) = content
        if type(index) is not int or not 0 <= index < len(things):
            raise ModelFileError(f"the document refers to part {index!r}, which is not before it.")
        return things[index]

    def _cells(self, content: list) -> np.ndarray:
        shape, *cells = content
        made = np.empty(len(cells), dtype=object)
        made[:] = self._values(cells)
        return made.reshape([_length(length) for length in shape])

    def _number(self, content: list) -> np.generic:
        array = self._at(self.arrays, content)
        if array.ndim:
            raise ModelFileError("the document takes an array for a number.")
        return array[()]

    def _float(self, content: list) -> float:
        (text,) = content
        if text not in ("nan", "inf", "-inf"):
            raise ModelFileError(f"the document has a number {text!r}.")
        return float(text)

    def _type(self, content: list) -> type:
        (name,) = content
        found = value_type(name)
        if found is None:
            raise refusal([f"the class {name} itself"], "the file")
        return found

    def _function(self, content: list) -> Any:
        (name,) = content
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
        if name in FORMS:
            check_form(name, values)
            return FORMS[name].build(values)
        kind = self.vocabulary.find_class(name)
        if kind is None:
            raise refusal([name], "the file")
        values.update((own, _THREADS[own]) for own in _THREADS if own in values)
        if not self.vocabulary.is_trusted(name):
            check_state(kind, values)
        made = _made(kind, values)
        check_foreign(made)
        check_saved(made)
        _check_parameters(made)
        return made


_UNPACKERS = {
    "list": Reader._values,
    "tuple": lambda reader, content: tuple(reader._values(content)),
    "set": lambda reader, content: set(map(reader._key, content)),
    "dict": Reader._dict,
    "slice": lambda reader, content: slice(*reader._values(content)),
    "float": Reader._float,
    "bytes": lambda reader, content: bytes.fromhex(*content),
    "complex": lambda reader, content: complex(*reader._values(content)),
    "array": lambda reader, content: reader._at(reader.arrays, content),
    "number": Reader._number,
    "cells": Reader._cells,
    "dtype": lambda reader, content: plain_dtype(*content),
    "type": Reader._type,
    "function": Reader._function,
    "object": Reader._part,
}


def _made(kind: type, state: dict[str, Any]) -> Any:
    """Return a bare object of a class with its attributes; no constructor of ours is called."""
    if issubclass(kind, tuple):
        values = state["*"]
        if len(values) != len(kind._fields):  # type: ignore[attr-defined]
            raise ModelFileError(f"the document has a {kind.__name__} of {len(values)} values.")
        return tuple.__new__(kind, values)
    made: Any = kind.__new__(kind)
    if isinstance(made, dict):
        made.update(state["*"])
    elif hasattr(kind, "__restore__"):
        made.__restore__(state)
    else:
        restore_foreign(made, state)
    return made


def _check_parameters(made: Any) -> None:
    """Refuse an estimator of ours whose parameters its own ``fit`` would refuse."""
    if type(made).__module__.partition(".")[0] != __name__.partition(".")[0]:
        return
    try:
        if hasattr(made, "get_params"):
            made.get_params(deep=False)
        check_parameters(made)
    except AttributeError as error:
        raise ModelFileError(
            f"the file lacks a parameter ({error}), because it is damaged or because a version of "
            "vicinal wrote it in which the class had none; fit and save again."
        ) from None
    except (TypeError, ValueError) as error:
        raise ModelFileError(f"the file is damaged: {error}") from None


def names_in(document: dict[str, Any]) -> tuple[set[str], set[str]]:
    """Return the classes and the functions that a document names, without making anything."""
    classes = {entry["class"] for entry in document["objects"]}
    functions = set()
    pending = [document["model"]]
    for entry in document["objects"]:
        pending.extend(entry["state"].values())
    while pending:
        part = pending.pop()
        if type(part) is not list:
            continue
        kind, *content = part
        if kind == "function":
            functions.update(content)
        elif kind == "dict":
            pending.extend(item for pair in content for item in pair)
        elif kind == "cells":
            pending.extend(content[1:])
        elif kind in ("list", "tuple", "set", "slice", "complex"):
            pending.extend(content)
    return classes, functions


# --- arrays ---


def describe_array(stored: np.ndarray, array: np.ndarray | None = None) -> list:
    """Return dtype, shape and order of an array as stored, and its dtype if that is another."""
    is_fortran = stored.flags.f_contiguous and not stored.flags.c_contiguous
    entry = [_dtype_text(stored.dtype), list(stored.shape), "F" if is_fortran else "C"]
    is_same = array is None or array.dtype == stored.dtype
    return entry if is_same else [*entry, _dtype_text(array.dtype)]


def _dtype_text(dtype: np.dtype) -> str:
    if dtype.kind == "O":
        return "|O"
    if dtype.kind not in _PLAIN_KINDS or not dtype.isnative or dtype.char in "gG":
        raise ModelFileError(
            f"the model holds an array of dtype {dtype}, which model files do not know; use "
            "numbers of at most 64 bits, texts or dates in the byte order of this machine."
        )
    return dtype.str


def plain_dtype(text: str) -> np.dtype:
    """Return the dtype of a text that stands for one kind of number, text or date."""
    if type(text) is not str or len(text) > 16 or "," in text:
        raise ModelFileError(f"the document has a dtype {text!r}.")
    dtype = np.dtype(text)
    is_plain = dtype.kind in _PLAIN_KINDS + "O" and dtype.isnative and dtype.char not in "gG"
    if not is_plain or dtype.names or dtype.shape:
        raise ModelFileError(f"the document has a dtype {text!r}.")
    return dtype


def array_layout(entry: Any) -> tuple[np.dtype, tuple[int, ...], str, np.dtype]:
    """Return dtype, shape and order of an array as a document describes it, and its own dtype."""
    text, shape, order, own = entry if len(entry) == 4 else [*entry, entry[0]]
    stored, dtype = plain_dtype(text), plain_dtype(own)
    lengths: Any = tuple(_length(length) for length in shape)
    is_wider = stored == dtype or (stored.kind in "if" and stored.kind == dtype.kind)
    is_stored = not stored.hasobject and (stored.itemsize or not math.prod(lengths))
    if not (is_wider and is_stored and order in ("C", "F")):
        raise ModelFileError(f"the document has an array {entry!r}.")
    return stored, lengths, order, dtype


def _length(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ModelFileError(f"the document has a length {value!r}.")
    return value
