"""Description of a model file, read without the packages that the model needs."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from types import NoneType
from typing import Any

import vicinal
from vicinal._base import printable
from vicinal.io._archive import read_document
from vicinal.io._errors import ModelFileError

FORMAT = "vicinal-model"
FORMAT_VERSION = 4


@dataclass(frozen=True)
class ModelInfo:
    """Description of a model file, see `info`."""

    model: str
    parameters: dict[str, str]
    versions: dict[str, str]
    saved: str
    n_features_in: int | None
    feature_names_in: list[str] | None
    classes: list[str] | None
    metadata: dict[str, Any]
    size: int
    types: list[str] = field(repr=False)
    _names: tuple[set[str], set[str]] = field(repr=False)

    @cached_property
    def untrusted(self) -> list[str]:
        """Classes and functions that `load` refuses unless they are passed as ``trusted``."""
        from vicinal.io._types import Vocabulary, unlisted

        return unlisted(*self._names, Vocabulary())

    def to_dict(self) -> dict[str, Any]:
        """Return all of it, in types of JSON."""
        fields = {key: value for key, value in vars(self).items() if key != "_names"}
        return {**fields, "untrusted": self.untrusted}


def info(path: str | os.PathLike) -> ModelInfo:
    """Describe a model file without loading the model.

    Parameters
    ----------
    path : path-like
        File to read.

    Returns
    -------
    info : object
        With the attributes ``model`` (full name of the class), ``parameters`` (as text),
        ``versions`` (of the packages that wrote the file), ``saved`` (time in ISO format, UTC),
        ``n_features_in``, ``feature_names_in``, ``classes`` (as text), ``metadata`` (as given to
        `save`), ``size`` (bytes), ``types`` (all classes and functions in the file) and
        ``untrusted`` (those that `load` refuses without ``trusted``).

    Raises
    ------
    ModelFileError
        If the file is not a model file or is damaged.

    See Also
    --------
    load : Read the model.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import load_iris
    >>> from vicinal import PrunedTreeClassifier
    >>> from vicinal.io import info, save
    >>> X, y = load_iris(return_X_y=True)
    >>> model = PrunedTreeClassifier(random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = info(save(model, os.path.join(folder, "iris.vicinal")))
    >>> found.n_features_in, found.classes, found.untrusted
    (4, ['0', '1', '2'], [])
    """
    with open(path, "rb") as file, refusing(path):
        document = read_document(file)
        check_format(document)
        classes, functions = names_in(document)
        return ModelInfo(
            **{key: document["about"][key] for key in _ABOUT},
            **{key: document[key] for key in ("versions", "saved", "metadata")},
            size=os.path.getsize(path),
            types=sorted(classes | functions),
            _names=(classes, functions),
        )


@contextmanager
def refusing(path: str | os.PathLike) -> Iterator[None]:
    """Convert every error of reading a file to a ModelFileError with its name."""
    try:
        yield
    except ModelFileError as error:
        raise ModelFileError(f"{os.fspath(path)!r}: {printable(str(error))}") from error.__cause__
    except Exception as error:
        reason = printable(" ".join(f"{type(error).__name__}: {error}".split()))
        raise ModelFileError(
            f"{os.fspath(path)!r}: the file is damaged or not a model file ({reason[:300]})."
        ) from error


def check_format(document: dict[str, Any]) -> None:
    """Raise unless a document is of this format, with entries of the right types."""
    if document["format"] != FORMAT:
        raise ModelFileError(f"not a model file (format {document['format']!r}).")
    if document["format_version"] != FORMAT_VERSION:
        raise ModelFileError(
            f"the format version is {document['format_version']!r}, but vicinal "
            f"{vicinal.__version__} reads version {FORMAT_VERSION}; update vicinal, or fit and "
            "save again."
        )
    for holder, types in ((document, _DOCUMENT), (document["about"], _ABOUT)):
        for key, allowed in types.items():
            value = holder[key]
            if type(value) not in allowed or (key in _TEXTS and not _are_texts(value)):
                raise ModelFileError(f"the entry {key!r} of the document has a wrong type.")


def _are_texts(value: Any) -> bool:
    """Return whether a list or a dictionary holds strings only; ``None`` holds nothing."""
    items = value.items() if isinstance(value, dict) else [value or []]
    return all(isinstance(text, str) for item in items for text in item)


# Types of the entries of a document other than its objects, as JSON has them.
_DOCUMENT: dict[str, tuple] = {
    "versions": (dict,),
    "saved": (str,),
    "metadata": (dict,),
    "about": (dict,),
}
_ABOUT: dict[str, tuple] = {
    "model": (str,),
    "parameters": (dict,),
    "n_features_in": (int, NoneType),
    "feature_names_in": (list, NoneType),
    "classes": (list, NoneType),
}
_TEXTS = ("versions", "parameters", "feature_names_in", "classes")


def names_in(document: dict[str, Any]) -> tuple[set[str], set[str]]:
    """Return the classes and the functions that a document names, without building any."""
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
