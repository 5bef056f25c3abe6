"""Model files: save and load."""

import datetime
import json
import os
import platform
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy
import sklearn
from sklearn.exceptions import InconsistentVersionWarning

import vicinal
from vicinal._base import printable, whole_file
from vicinal.io._archive import read_archive, write_archive
from vicinal.io._document import Reader, Writer
from vicinal.io._errors import ModelVersionWarning
from vicinal.io._info import FORMAT, FORMAT_VERSION, check_format, names_in, refusing
from vicinal.io._types import Vocabulary, full_name, refusal, unlisted


def save(
    model: Any,
    path: str | os.PathLike,
    *,
    metadata: Mapping[str, Any] | None = None,
    trusted: Iterable[Any] = (),
) -> Path:
    """Write a model to a file that runs no code when it is read.

    The file is a zip archive of one JSON document and the bytes of the arrays, compressed where
    this saves space, with checksums and without pickle. It is written atomically and keeps the mode
    of a file that it replaces. Search trees are not stored; `load` builds them again.

    Parameters
    ----------
    model : estimator
        A model of this library or of scikit-learn, or a pipeline of them, fitted to NumPy arrays,
        sparse matrices or data frames.
    path : path-like
        Name of the file, usually with the suffix ``.vicinal``.
    metadata : mapping, default=None
        Values of JSON types that `info` returns, such as the name of the target.
    trusted : iterable of str, class or function, default=()
        Classes and functions of other packages inside the model, or their full names. `load` needs
        the same list.

    Returns
    -------
    path : Path
        Path of the file.

    Raises
    ------
    ModelFileError
        If the model has a part that `load` would refuse.
    OSError
        If the file cannot be written, for example because the disk is full.

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
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
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

    No code of the file is run. The classes and functions that it names must be on a list: the
    estimators of this library and their parts, the estimators of scikit-learn, and a few pure
    functions. Objects are built without their constructors from numbers, strings, arrays and each
    other; types, shapes and ranges of their attributes are checked, and search trees are built
    again.

    Parameters
    ----------
    path : path-like
        File to read.
    trusted : iterable of str, class or function, default=()
        Further classes and functions that the file may name, as given to `save`. They must be
        harmless for any attributes and arguments, because the file chooses these.

    Returns
    -------
    model : estimator
        The model, with the predictions of the saved one.

    Raises
    ------
    ModelFileError
        If the file is not a model file, is damaged, or names classes that are not trusted.

    Warns
    -----
    ModelVersionWarning
        If the file was written by other versions of vicinal, scikit-learn, numpy or python.

    See Also
    --------
    save : Write a model.
    info : Describe a file without loading the model.

    Notes
    -----
    Checksums detect damage, not manipulation. Manipulated files are harmless because only listed
    classes are built and none of them has side effects, but their predictions may be wrong.

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
    with open(path, "rb") as file, refusing(path):
        document, arrays = read_archive(file)
        check_format(document)
        if unknown := unlisted(*names_in(document), vocabulary):
            raise refusal(unknown, "the file")
        # `_warn_of_versions` covers all packages.
        with warnings.catch_warnings(action="ignore", category=InconsistentVersionWarning):
            model = Reader(vocabulary, arrays).model(document)
    _warn_of_versions(path, document["versions"])
    return model


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
    """Return metadata as read back from JSON; raise for other types."""
    try:
        return json.loads(json.dumps(dict(metadata or {}), allow_nan=False))
    except (TypeError, ValueError) as error:
        raise type(error)(f"metadata must hold types of JSON only: {error}.") from error


# --- reading ---


def _versions() -> dict[str, str]:
    return {
        "vicinal": vicinal.__version__,
        "scikit-learn": sklearn.__version__,
        "numpy": numpy.__version__,
        "python": platform.python_version(),
    }


def _warn_of_versions(path: str | os.PathLike, then: Mapping[str, str]) -> None:
    """Warn about other versions; for numpy and python the first two numbers count."""
    different = []
    for name, now in _versions().items():
        parts = 2 if name in ("numpy", "python") else None
        before = printable(str(then.get(name)))
        if before.split(".")[:parts] != now.split(".")[:parts]:
            different.append(f"{name} {before} (now {now})")
    if different:
        warnings.warn(
            f"{os.fspath(path)!r} was saved with {', '.join(different)}, so predictions may "
            "differ; check them, or fit and save again.",
            ModelVersionWarning,
            stacklevel=3,
        )
