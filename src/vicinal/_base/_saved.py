"""Declarations of classes that model files may contain, and of the shapes of their arrays.

A class that stores only some attributes, or rebuilds others, defines ``__saved_state__(self)``,
which returns a dictionary, and ``__restore__(self, state)``, which reads it. By default all
attributes are stored.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

_PARTS: dict[str, type] = {}


def saved(**shapes: str):
    """Declare that a class may be part of a model file, and the shapes of its arrays.

    Private classes inside fitted models need it; public estimators may be saved without it. Arrays
    must be declared if compiled code reads them without bounds checks, and should be declared if
    predictions depend on them. Declared arrays hold finite numbers.

    Parameters
    ----------
    **shapes : str
        For an attribute (an array, a sparse matrix, or lists and dictionaries of them), the length
        of each axis: a digit, ``*`` for any, or a name that stands for one length in the whole
        object (``c+1`` for one more). ``p`` is ``n_features_in_``. A last token ``<name`` declares
        row numbers from 0 to below that length, ``labels`` values of any type, ``missing`` that
        some may be NaN, ``limits`` that some may be NaN or infinite, ``logs`` that some may be
        minus infinity, ``shares`` that none is negative and their sum positive. ``"p | k p"``
        allows both shapes. Attributes that are absent or ``None`` are not checked.

    Examples
    --------
    >>> import numpy as np
    >>> from vicinal._base import check_saved, saved
    >>> @saved(rows="n p", order="n <n")
    ... class Sorted:
    ...     def __init__(self, rows, order):
    ...         self.rows, self.order = rows, order
    >>> check_saved(Sorted(np.zeros((3, 2)), np.array([2, 0, 1])))
    >>> check_saved(Sorted(np.zeros((3, 2)), np.array([2, 0, 3])))
    Traceback (most recent call last):
        ...
    ValueError: Sorted.order holds 3, but must be between 0 and 2.
    """

    def declare(cls: type) -> type:
        name = saved_name(cls)
        known = _PARTS.setdefault(name, cls)
        if known.__module__ != cls.__module__:
            raise TypeError(
                f"{cls.__module__} and {known.__module__} both declare a {cls.__name__}; classes "
                "of one subpackage need different names in model files."
            )
        _PARTS[name] = cls
        cls.__saved_shapes__ = {**getattr(cls, "__saved_shapes__", {}), **shapes}  # type: ignore[attr-defined]
        return cls

    return declare


def saved_name(cls: type) -> str:
    """Return the name of a class in model files: its subpackage and its own name."""
    return ".".join([*cls.__module__.split(".")[:2], cls.__qualname__])


def saved_part(name: str) -> type | None:
    """Return the class that was declared under a name, ``None`` if none was."""
    return _PARTS.get(name)


def check_saved(part: Any) -> None:
    """Raise unless the arrays of an object have the shapes that its class declares."""
    sizes = {str(number): number for number in range(10)}
    if hasattr(part, "n_features_in_"):
        sizes["p"] = part.n_features_in_
    row_numbers = []
    for attribute, shape in getattr(type(part), "__saved_shapes__", {}).items():
        axes, _, stop = shape.partition("<")
        label = f"{type(part).__name__}.{attribute}"
        for array in _arrays(part, attribute):
            tokens = _matching(axes, array)
            _check_axes(label, array, [token for token in tokens if token not in _CONTENTS], sizes)
            _check_numbers(label, array, tokens)
            if stop:
                row_numbers.append((label, array, stop))
    for label, array, stop in row_numbers:
        _check_range(label, array, _size(stop, sizes))


_CONTENTS = ("labels", "missing", "limits", "logs", "shares")


def _arrays(part: Any, attribute: str) -> list:
    """Return the arrays of a (dotted) attribute, or its other values if it has no arrays."""
    for name in attribute.split("."):
        part = getattr(part, name, None)
    leaves = [leaf for leaf in _leaves(part) if leaf is not None]
    return [leaf for leaf in leaves if getattr(leaf, "ndim", 0)] or leaves


def _leaves(part: Any) -> Iterator[Any]:
    """Yield the items of nested lists, tuples and dictionaries."""
    if not isinstance(part, list | tuple | dict):
        yield part
        return
    for item in part.values() if isinstance(part, dict) else part:
        yield from _leaves(item)


def _matching(shape: str, array: Any) -> list[str]:
    """Return the tokens of the alternative with the axes of the array, else of the last one."""
    alternatives = [choice.split() for choice in shape.split("|")]
    for tokens in alternatives:
        if len([token for token in tokens if token not in _CONTENTS]) == getattr(array, "ndim", -1):
            return tokens
    return alternatives[-1]


def _check_axes(label: str, array: Any, axes: list[str], sizes: dict[str, int]) -> None:
    # A subclass of NumPy's array, such as a masked one, may hide values that compiled code reads.
    is_hidden = isinstance(array, np.ndarray) and type(array) not in (np.ndarray, np.memmap)
    shape = None if is_hidden else getattr(array, "shape", None)
    if shape is None or len(shape) != len(axes):
        got = f"a {type(array).__name__}" if shape is None else f"of shape {shape}"
        raise ValueError(f"{label} must have {len(axes)} axes, but is {got}.")
    for axis, length in zip(axes, shape, strict=True):
        name, extra = _split(axis)
        if name == "*":
            continue
        sizes.setdefault(name, length - extra)
        if length != _size(axis, sizes):
            raise ValueError(
                f"{label} has the shape {shape}, but must be {' x '.join(axes)}, where {axis} is "
                f"{_size(axis, sizes)}."
            )


def _check_numbers(label: str, array: Any, tokens: list[str]) -> None:
    if "labels" in tokens or not isinstance(array.dtype, np.dtype):  # a tensor, which no file holds
        return
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{label} must hold numbers, but holds {array.dtype}.")
    values = getattr(array, "data", array) if not isinstance(array, np.ndarray) else array
    if "logs" in tokens:
        values = values[values != -np.inf]
    if "missing" in tokens and np.isinf(values).any():
        raise ValueError(f"{label} holds infinity, but must be finite or NaN.")
    may_be_infinite = "missing" in tokens or "limits" in tokens or array.dtype.kind != "f"
    if not may_be_infinite and not np.isfinite(values).all():
        raise ValueError(f"{label} holds NaN or infinity, but must be finite.")
    if "shares" in tokens and not (np.all(values >= 0) and np.sum(values) > 0):
        raise ValueError(f"{label} must hold shares, none negative and one positive.")


def _check_range(label: str, array: np.ndarray, stop: int) -> None:
    if array.dtype.kind not in "iu":
        raise ValueError(f"{label} must hold row numbers, but holds {array.dtype}.")
    wrong = array[(array < 0) | (array >= stop)]
    if wrong.size:
        raise ValueError(f"{label} holds {wrong[0]}, but must be between 0 and {stop - 1}.")


def _split(axis: str) -> tuple[str, int]:
    name, _, extra = axis.partition("+")
    return name, int(extra or 0)


def _size(axis: str, sizes: dict[str, int]) -> int:
    name, extra = _split(axis)
    return sizes[name] + extra
