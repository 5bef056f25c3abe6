"""Models in files: written whole, stamped, read without running anything."""

import datetime
import hashlib
import io
import json
import os
import platform
import warnings
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy
import sklearn
from sklearn.exceptions import InconsistentVersionWarning

import vicinal
from vicinal._base import import_optional, write_whole
from vicinal.io._archive import expands_too_far, read_members
from vicinal.io._content import restore, without_search_trees
from vicinal.io._errors import ModelFileError, ModelVersionWarning
from vicinal.io._trusted import TypePolicy

_FORMAT = "vicinal-model"
_FORMAT_VERSION = 1
_STAMP = "vicinal.json"
_SCHEMA = "schema.json"
# Nodes of older protocols are not needed for our files and less strict in places.
_OLDEST_PROTOCOL = 2


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
        Every type that the file would bring to life.
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
    trusted: Iterable[str | type] = (),
) -> Path:
    """Write a model to a file that can be read without trusting it.

    The file is a zip archive in the format of skops (arrays and a description in JSON, no pickle)
    with a stamp of the versions that wrote it and a checksum. It appears whole or not at all.
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
    trusted : iterable of str or type, default=()
        Classes and functions inside the model that come from elsewhere. `load` will want the same
        list, because a file may not vouch for itself.

    Returns
    -------
    path : Path
        Where the file is.

    Raises
    ------
    ModelFileError
        If the model holds types that `load` would refuse.

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
    skops_io = _import_skops("vicinal.io.save")
    policy = TypePolicy(trusted)
    archive = skops_io.dumps(without_search_trees(model))
    with zipfile.ZipFile(io.BytesIO(archive)) as parts:
        members = {name: parts.read(name) for name in parts.namelist()}
    _check_types(policy, json.loads(members[_SCHEMA]), "the model")
    members[_STAMP] = json.dumps(_stamp(model, members, metadata), indent=1).encode()
    return write_whole(path, _packed(members))


def load(path: str | os.PathLike, *, trusted: Iterable[str | type] = ()) -> Any:
    """Read a model that `save` wrote.

    Nothing in the file is run. Every type in it is checked against a list before anything is made:
    the classes of this library, the estimators of scikit-learn, numbers, arrays and containers.
    Then the search trees are built, and the indices that compiled code follows are checked.

    Parameters
    ----------
    path : path-like
        File to read.
    trusted : iterable of str or type, default=()
        Further classes and functions that the file may use, those given to `save`. Trust only what
        is harmless whatever its arguments are: a hostile file could have it called.

    Returns
    -------
    model : estimator
        The model, which predicts as the saved one did.

    Raises
    ------
    ModelFileError
        If the file is not a model, was changed or cut short, or holds types that are not trusted.

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
    The checksum tells damage, not malice: whoever can write the file can write its checksum. What
    protects against malice is that only listed types are made and none of them is run. The numbers
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
    skops_io = _import_skops("vicinal.io.load")
    data = Path(path).read_bytes()
    with _refusing(path):
        stamp, schema = _open(data)
        policy = TypePolicy(trusted)
        _check_types(policy, schema, "the file")
        with warnings.catch_warnings():
            # Our own stamp speaks for all packages.
            warnings.simplefilter("ignore", InconsistentVersionWarning)
            model = skops_io.loads(data, trusted=policy.names(schema))
        restore(model)
    _warn_of_versions(path, stamp["versions"])
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
    _import_skops("vicinal.io.info")
    data = Path(path).read_bytes()
    with _refusing(path):
        stamp, schema = _open(data)
        policy = TypePolicy()
        about = stamp["about"]
        return ModelInfo(
            model=about["model"],
            parameters=about["parameters"],
            versions=stamp["versions"],
            saved=stamp["saved"],
            n_features_in=about["n_features_in"],
            feature_names_in=about["feature_names_in"],
            classes=about["classes"],
            metadata=stamp["metadata"],
            size=len(data),
            types=policy.names(schema),
            untrusted=sorted(policy.refused(schema)),
        )


# --- writing ---


def _stamp(model: Any, members: dict[str, bytes], metadata: Mapping[str, Any] | None) -> dict:
    return {
        "format": _FORMAT,
        "format_version": _FORMAT_VERSION,
        "versions": _versions(),
        "saved": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "about": _about(model),
        "metadata": {} if metadata is None else dict(metadata),
        "digest": _digest(members),
    }


def _about(model: Any) -> dict[str, Any]:
    names = getattr(model, "feature_names_in_", None)
    classes = getattr(model, "classes_", None)
    width = getattr(model, "n_features_in_", None)
    parameters = model.get_params(deep=False) if hasattr(model, "get_params") else {}
    return {
        "model": f"{type(model).__module__}.{type(model).__qualname__}",
        "parameters": {name: repr(value) for name, value in parameters.items()},
        "n_features_in": None if width is None else int(width),
        "feature_names_in": None if names is None else [str(name) for name in names],
        "classes": None if classes is None else [str(label) for label in classes],
    }


def _packed(members: dict[str, bytes]) -> bytes:
    """Return the archive, unpacked where it would shrink so far that `load` smelled a bomb."""
    total = sum(map(len, members.values()))
    packed = _zipped(members, zipfile.ZIP_DEFLATED)
    return _zipped(members, zipfile.ZIP_STORED) if expands_too_far(total, len(packed)) else packed


def _zipped(members: dict[str, bytes], method: int) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression=method) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return buffer.getvalue()


# --- reading ---


class _refusing:
    """Turn every failure to read a file into the one error that names the file."""

    def __init__(self, path: str | os.PathLike) -> None:
        self.path = os.fspath(path)

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind, error, traceback) -> None:
        if isinstance(error, ModelFileError):
            raise ModelFileError(f"{self.path!r}: {error}") from error.__cause__
        if isinstance(error, Exception):
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            raise ModelFileError(
                f"{self.path!r}: the file is damaged or no model file ({reason[:300]})."
            ) from error


def _open(data: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the stamp and the schema of a file whose checksum is right."""
    if not zipfile.is_zipfile(io.BytesIO(data)):
        raise ModelFileError(
            "not a model file (no zip archive); write one with vicinal.io.save."
            if not data.startswith(b"PK")
            else "the file was cut short."
        )
    members = read_members(data)
    if _STAMP not in members or _SCHEMA not in members:
        raise ModelFileError("not a model file (no stamp); write one with vicinal.io.save.")
    stamp = json.loads(members.pop(_STAMP))
    if stamp["format"] != _FORMAT:
        raise ModelFileError(f"not a model file (format {stamp['format']!r}).")
    if stamp["format_version"] != _FORMAT_VERSION:
        raise ModelFileError(
            f"format version {stamp['format_version']!r} is unknown to vicinal "
            f"{vicinal.__version__}, which reads version {_FORMAT_VERSION}; update vicinal."
        )
    if stamp["digest"] != _digest(members):
        raise ModelFileError("the checksum is wrong: the file was changed after it was saved.")
    schema = json.loads(members[_SCHEMA])
    protocol = schema["protocol"]
    if type(protocol) is not int or protocol < _OLDEST_PROTOCOL:
        raise ModelFileError(f"its skops protocol {protocol!r} is not one that save writes.")
    return stamp, schema


def _check_types(policy: TypePolicy, schema: dict[str, Any], holder: str) -> None:
    refused = sorted(policy.refused(schema))
    if refused:
        raise ModelFileError(
            f"{holder} holds types that are not trusted: {', '.join(refused)}; if you know them to "
            "be harmless, pass their names as trusted=[...] to save and load."
        )


def _digest(members: Mapping[str, bytes]) -> str:
    digest = hashlib.sha256()
    for name in sorted(members):
        digest.update(f"{name} {len(members[name])}\n".encode())
        digest.update(members[name])
    return digest.hexdigest()


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
        before = str(then.get(name))
        if before.split(".")[:parts] != now.split(".")[:parts]:
            different.append(f"{name} {before} (now {now})")
    if different:
        warnings.warn(
            f"{os.fspath(path)!r} was saved under {', '.join(different)}; predictions may differ "
            "or fail: check them, or fit and save again.",
            ModelVersionWarning,
            stacklevel=3,
        )


def _import_skops(needed_by: str) -> Any:
    return import_optional("skops.io", needed_by=needed_by, extra="persist")
