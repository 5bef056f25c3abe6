"""What a model file may hold of us: each class says so itself, beside its own arrays.

A class whose attributes are not all worth keeping, or that has parts to build again, defines
``__saved_state__(self)``, which returns a dictionary, and ``__restore__(self, state)``, which takes
one back; otherwise Python's own ``__getstate__`` and plain attributes do.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

_PARTS: dict[str, type] = {}


def saved(**shapes: str):
    """Declare that a class may be part of a model file, and what its arrays must look like.

    Public estimators may be saved without it; private classes that fitted models hold may not.
    Arrays are declared where answers are computed from them, and must be where compiled code reads
    them without looking at their length. What is declared holds finite numbers.

    Parameters
    ----------
    **shapes : str
        For an attribute (an array, a sparse matrix, or lists and dictionaries of them), the length
        of each axis: a digit, ``*`` for any, or a name that stands for the same length throughout
        the object (``c+1`` for one more). ``p`` is ``n_features_in_`` where the object has it. A
        last word ``<name`` says that the values are row numbers from 0 to below that length,
        ``labels`` that they may be anything, ``gaps`` that some may be NaN or infinite, ``logs``
        that some may be minus infinity, ``shares`` that none is negative and their sum positive.
        ``"p | k p"`` allows both shapes. Attributes that are absent or ``None`` are not looked at.

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
                f"{cls.__module__} and {known.__module__} both declare a {cls.__name__}; parts of "
                "one room need different names in model files."
            )
        _PARTS[name] = cls
        cls.__saved_shapes__ = {**getattr(cls, "__saved_shapes__", {}), **shapes}  # type: ignore[attr-defined]
        return cls

    return declare


def saved_name(cls: type) -> str:
    """Return the name of one of our classes in model files: its room and its own name."""
    return ".".join([*cls.__module__.split(".")[:2], cls.__qualname__])


def saved_part(name: str) -> type | None:
    """Return the class that was declared under a name, ``None`` if none was."""
    return _PARTS.get(name)


def check_saved(part: Any) -> None:
    """Raise unless the arrays of an object are what its class declared."""
    sizes = {str(number): number for number in range(10)}
    if hasattr(part, "n_features_in_"):
        sizes["p"] = part.n_features_in_
    row_numbers = []
    for attribute, shape in getattr(type(part), "__saved_shapes__", {}).items():
        axes, _, stop = shape.partition("<")
        label = f"{type(part).__name__}.{attribute}"
        for array in _arrays(part, attribute):
            words = _matching(axes, array)
            _check_axes(label, array, [word for word in words if word not in _CONTENTS], sizes)
            _check_numbers(label, array, words)
            if stop:
                row_numbers.append((label, array, stop))
    for label, array, stop in row_numbers:
        _check_range(label, array, _size(stop, sizes))


_CONTENTS = ("labels", "gaps", "logs", "shares")


def _arrays(part: Any, attribute: str) -> list:
    """Return the arrays of an attribute, or of an attribute of an attribute.

    Where there are none, what is there instead: a list of numbers is no array.
    """
    for name in attribute.split("."):
        part = getattr(part, name, None)
    leaves = [leaf for leaf in _leaves(part) if leaf is not None]
    return [leaf for leaf in leaves if getattr(leaf, "ndim", 0)] or leaves


def _leaves(part: Any) -> Iterator[Any]:
    """Yield what lists, tuples and dictionaries hold, however deep."""
    if not isinstance(part, list | tuple | dict):
        yield part
        return
    for item in part.values() if isinstance(part, dict) else part:
        yield from _leaves(item)


def _matching(shape: str, array: Any) -> list[str]:
    """Return the words of the alternative with as many axes as the array, else of the last."""
    alternatives = [choice.split() for choice in shape.split("|")]
    for words in alternatives:
        if len([word for word in words if word not in _CONTENTS]) == getattr(array, "ndim", -1):
            return words
    return alternatives[-1]


def _check_axes(label: str, array: Any, axes: list[str], sizes: dict[str, int]) -> None:
    # A subclass of NumPy's array, such as a masked one, may hide what compiled code reads.
    is_hidden = isinstance(array, np.ndarray) and type(array) not in (np.ndarray, np.memmap)
    shape = None if is_hidden else getattr(array, "shape", None)
    if shape is None or len(shape) != len(axes):
        got = f"a {type(array).__name__}" if shape is None else f"the shape {shape}"
        raise ValueError(f"{label} must have {len(axes)} axes, got {got}.")
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


def _check_numbers(label: str, array: Any, words: list[str]) -> None:
    if "labels" in words or not isinstance(array.dtype, np.dtype):  # tensors are not in files
        return
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{label} must hold numbers, got {array.dtype}.")
    values = getattr(array, "data", array) if not isinstance(array, np.ndarray) else array
    if "logs" in words:
        values = values[values != -np.inf]
    if array.dtype.kind == "f" and "gaps" not in words and not np.isfinite(values).all():
        raise ValueError(f"{label} holds NaN or infinity, but must be finite.")
    if "shares" in words and not (np.all(values >= 0) and np.sum(values) > 0):
        raise ValueError(f"{label} must hold shares: none negative, and one positive.")


def _check_range(label: str, array: np.ndarray, stop: int) -> None:
    if array.dtype.kind not in "iu":
        raise ValueError(f"{label} must hold row numbers, got {array.dtype}.")
    wrong = array[(array < 0) | (array >= stop)]
    if wrong.size:
        raise ValueError(f"{label} holds {wrong[0]}, but must be between 0 and {stop - 1}.")


def _split(axis: str) -> tuple[str, int]:
    name, _, extra = axis.partition("+")
    return name, int(extra or 0)


def _size(axis: str, sizes: dict[str, int]) -> int:
    name, extra = _split(axis)
    return sizes[name] + extra
