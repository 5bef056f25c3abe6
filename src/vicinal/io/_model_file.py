"""Models in files: written whole, described, read without running anything."""

import datetime
import json
import os
import platform
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy
import sklearn
from sklearn.exceptions import InconsistentVersionWarning

import vicinal
from vicinal._base import printable, whole_file
from vicinal.io._archive import read_archive, read_document, write_archive
from vicinal.io._document import Reader, Writer, names_in
from vicinal.io._errors import ModelFileError, ModelVersionWarning
from vicinal.io._foreign import FORMS
from vicinal.io._types import Vocabulary, full_name, refusal

_FORMAT = "vicinal-model"
_FORMAT_VERSION = 2


@dataclass(frozen=True)
class ModelInfo:
    """What a model file says about itself, read without making the model.

    Attributes
    ----------
    model : str
        Full name of the model's class.
    parameters : dict of str to str
        Constructor arguments as text.
    versions : dict of str to str
        Versions of vicinal, scikit-learn, numpy and python that wrote the file.
    saved : str
        Time of writing, in ISO format, UTC.
    n_features_in : int or None
        Number of columns the model was fitted on.
    feature_names_in : list of str or None
        Their names.
    classes : list of str or None
        Classes of a classifier, as text.
    metadata : dict
        What the caller of `save` added.
    size : int
        Bytes of the file.
    types : list of str
        Every class and function that the file names.
    untrusted : list of str
        Those that `load` refuses unless they are passed as ``trusted``.
    """

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
    untrusted: list[str]


def save(
    model: Any,
    path: str | os.PathLike,
    *,
    metadata: Mapping[str, Any] | None = None,
    trusted: Iterable[Any] = (),
) -> Path:
    """Write a model to a file that can be read without trusting it.

    The file is a zip archive of one JSON document and the bytes of the arrays, with checksums and
    no pickle in it. It appears whole or not at all, and keeps the mode of a file that it replaces.
    Search trees are left out, and built again by `load`.

    Parameters
    ----------
    model : estimator
        A model of this library or of scikit-learn, or a pipeline of them, fitted on NumPy arrays,
        sparse matrices or frames.
    path : path-like
        Where to write. Any name; ``.vicinal`` is the custom.
    metadata : mapping, default=None
        Anything that JSON can hold, handed back by `info`: the name of the target, say.
    trusted : iterable of str, class or function, default=()
        Classes and functions inside the model that come from elsewhere, or their full names. `load`
        will want the same list, because a file may not vouch for itself.

    Returns
    -------
    path : Path
        Where the file is.

    Raises
    ------
    ModelFileError
        If the model holds something that `load` would refuse.
    OSError
        If the file cannot be written: no room, no such folder, no permission.

    See Also
    --------
    load : Read the model back.
    to_onnx : Export to a graph that runs without Python.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import load_iris
    >>> from vicinal import SpacePartitioningClassifier
    >>> from vicinal.io import info, load, save
    >>> X, y = load_iris(return_X_y=True)
    >>> model = SpacePartitioningClassifier(n_regions=2, n_init=2, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = save(model, os.path.join(folder, "iris.vicinal"), metadata={"target": "species"})
    ...     again = load(path)
    ...     target = info(path).metadata["target"]
    >>> bool((again.predict(X) == model.predict(X)).all()), target
    (True, 'species')
    """
    writer = Writer(Vocabulary(trusted))
    root = writer.value(model)
    document = {
        "format": _FORMAT,
        "format_version": _FORMAT_VERSION,
        "versions": _versions(),
        "saved": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "about": _about(model),
        "metadata": _json_only(metadata),
        "model": root,
        "objects": writer.objects,
    }
    with whole_file(path) as file:
        write_archive(file, document, writer.arrays)
    return Path(path)


def load(path: str | os.PathLike, *, trusted: Iterable[Any] = ()) -> Any:
    """Read a model that `save` wrote.

    Nothing in the file is run. Every name in it is checked against a list before anything is made:
    the estimators of this library and their parts, the estimators of scikit-learn, and a few pure
    functions. Objects are made bare and given numbers, texts, arrays and each other; decision trees
    are checked whole, arrays against the shapes that their classes declare, and search trees are
    built again.

    Parameters
    ----------
    path : path-like
        File to read.
    trusted : iterable of str, class or function, default=()
        Further classes and functions that the file may name, those given to `save`. Trust only what
        is harmless whatever its attributes and arguments are: a hostile file chooses them.

    Returns
    -------
    model : estimator
        The model, which predicts as the saved one did.

    Raises
    ------
    ModelFileError
        If the file is not a model, was changed or cut short, or names what is not trusted.

    Warns
    -----
    ModelVersionWarning
        If the file was written under other versions of vicinal, scikit-learn, numpy or python.

    See Also
    --------
    save : Write a model.
    info : Look at a file without making the model.

    Notes
    -----
    Checksums tell damage, not malice: whoever can write the file can write its checksums. What
    protects against malice is that only listed classes are made and none of them acts. The numbers
    inside are as trustworthy as their author.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import load_iris
    >>> from vicinal import LocalClassifier
    >>> from vicinal.io import load, save
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LocalClassifier(n_neighbors=30).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     again = load(save(model, os.path.join(folder, "iris.vicinal")))
    >>> bool((again.predict_proba(X) == model.predict_proba(X)).all())
    True
    """
    vocabulary = Vocabulary(trusted)
    with open(path, "rb") as file, _refusing(path):
        document, arrays = read_archive(file)
        _check_format(document)
        _, unknown = _names(document, vocabulary)
        if unknown:
            raise refusal(unknown, "the file")
        with warnings.catch_warnings():
            # Our own record of versions speaks for all packages.
            warnings.simplefilter("ignore", InconsistentVersionWarning)
            model = Reader(vocabulary, arrays).model(document)
    _warn_of_versions(path, document["versions"])
    return model


def info(path: str | os.PathLike) -> ModelInfo:
    """Read what a model file says about itself, without making the model.

    Parameters
    ----------
    path : path-like
        File to read.

    Returns
    -------
    info : ModelInfo
        Class, parameters, versions, columns, classes, metadata and the types inside.

    Raises
    ------
    ModelFileError
        If the file is not a model, or was changed or cut short.

    See Also
    --------
    load : Read the model itself.

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
    with open(path, "rb") as file, _refusing(path):
        document = read_document(file)
        _check_format(document)
        about = document["about"]
        names, unknown = _names(document, Vocabulary())
        return ModelInfo(
            model=about["model"],
            parameters=about["parameters"],
            versions=document["versions"],
            saved=document["saved"],
            n_features_in=about["n_features_in"],
            feature_names_in=about["feature_names_in"],
            classes=about["classes"],
            metadata=document["metadata"],
            size=os.path.getsize(path),
            types=names,
            untrusted=unknown,
        )


# --- writing ---


def _about(model: Any) -> dict[str, Any]:
    names = getattr(model, "feature_names_in_", None)
    classes = getattr(model, "classes_", None)
    width = getattr(model, "n_features_in_", None)
    parameters = model.get_params(deep=False) if hasattr(model, "get_params") else {}
    return {
        "model": full_name(type(model)),
        "parameters": {name: repr(value) for name, value in parameters.items()},
        "n_features_in": None if width is None else int(width),
        "feature_names_in": None if names is None else [str(name) for name in names],
        "classes": None if classes is None else [str(label) for label in classes],
    }


def _json_only(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return metadata as JSON gives them back, or say what it cannot hold."""
    try:
        return json.loads(json.dumps(dict(metadata or {}), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise type(error)(f"metadata must be what JSON can hold: {error}.") from error


# --- reading ---


class _refusing:
    """Turn every failure to read a file into the one error that names the file."""

    def __init__(self, path: str | os.PathLike) -> None:
        self.path = os.fspath(path)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind, error, traceback) -> None:
        if isinstance(error, ModelFileError):
            raise ModelFileError(f"{self.path!r}: {printable(str(error))}") from error.__cause__
        if isinstance(error, Exception):
            reason = printable(" ".join(f"{type(error).__name__}: {error}".split()))
            raise ModelFileError(
                f"{self.path!r}: the file is damaged or no model file ({reason[:300]})."
            ) from error


def _check_format(document: dict[str, Any]) -> None:
    if document["format"] != _FORMAT:
        raise ModelFileError(f"not a model file (format {document['format']!r}).")
    if document["format_version"] != _FORMAT_VERSION:
        raise ModelFileError(
            f"format version {document['format_version']!r} is unknown to vicinal "
            f"{vicinal.__version__}, which reads version {_FORMAT_VERSION}; update vicinal, or "
            "fit and save again."
        )
    for holder, keys in ((document, _DOCUMENT), (document["about"], _ABOUT)):
        for key, is_right in keys.items():
            if not is_right(holder[key]):
                raise ModelFileError(f"the document has {key!r} of a wrong type.")


def _are_texts(value: Any) -> bool:
    items = value.items() if isinstance(value, dict) else [value]
    return all(isinstance(text, str) for item in items for text in item)


# What a document says besides its objects.
_DOCUMENT: dict[str, Callable[[Any], bool]] = {
    "versions": lambda value: isinstance(value, dict) and _are_texts(value),
    "saved": lambda value: isinstance(value, str),
    "metadata": lambda value: isinstance(value, dict),
    "about": lambda value: isinstance(value, dict),
}
_ABOUT: dict[str, Callable[[Any], bool]] = {
    "model": lambda value: isinstance(value, str),
    "parameters": lambda value: isinstance(value, dict) and _are_texts(value),
    "n_features_in": lambda value: value is None or type(value) is int,
    "feature_names_in": lambda value: value is None or (type(value) is list and _are_texts(value)),
    "classes": lambda value: value is None or (type(value) is list and _are_texts(value)),
}


def _names(document: dict[str, Any], vocabulary: Vocabulary) -> tuple[list[str], list[str]]:
    """Return every class and function that a document names, and those on no list."""
    classes, functions = names_in(document)
    unknown = {name for name in functions if vocabulary.find_function(name) is None}
    # Families before `vicinal._...`: they bring along the inner parts that they use.
    for name in sorted(classes.difference(FORMS), reverse=True):
        if vocabulary.find_class(name) is None:
            unknown.add(name)
    return sorted(classes | functions), sorted(unknown)


def _versions() -> dict[str, str]:
    return {
        "vicinal": vicinal.__version__,
        "scikit-learn": sklearn.__version__,
        "numpy": numpy.__version__,
        "python": platform.python_version(),
    }


def _warn_of_versions(path: str | os.PathLike, then: Mapping[str, str]) -> None:
    """Warn of other versions; for numpy and python only the first two numbers matter."""
    different = []
    for name, now in _versions().items():
        parts = 2 if name in ("numpy", "python") else None
        before = printable(str(then.get(name)))
        if before.split(".")[:parts] != now.split(".")[:parts]:
            different.append(f"{name} {before} (now {now})")
    if different:
        warnings.warn(
            f"{os.fspath(path)!r} was saved under {', '.join(different)}; predictions may differ "
            "or fail: check them, or fit and save again.",
            ModelVersionWarning,
            stacklevel=3,
        )
