"""Models to save, and files to tamper with."""

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.datasets import make_classification

from vicinal.io._archive import narrow
from vicinal.io._document import array_layout, describe_array

ROOT = Path(__file__).parents[2]

X, LABELS = make_classification(90, 5, n_informative=4, n_redundant=0, random_state=0)
NAMES = np.array(["no", "yes"])[LABELS]
TARGET = X @ [1.0, -2.0, 0.5, 0.0, 1.0] + LABELS

METHODS = ("predict_proba", "decision_function", "predict", "transform", "kneighbors")


def fitted(model):
    y = TARGET if is_regressor(model) else NAMES if is_classifier(model) else LABELS
    return model.fit(X, y)


def answers(model, rows=X):
    """Everything the model predicts for the rows."""
    found = []
    for method in METHODS:
        if hasattr(model, method):
            said = getattr(model, method)(rows)
            found += list(said) if isinstance(said, tuple | list) else [said]
    return [np.asarray(part.toarray() if hasattr(part, "toarray") else part) for part in found]


def same(first, second):
    return len(first) == len(second) and all(map(np.array_equal, first, second))


def gap(first, second):
    """Return the largest relative difference of two lists of answers, infinite for other labels."""
    if len(first) != len(second):
        return np.inf
    return max(map(_gap, first, second), default=0.0)


def _gap(first, second):
    if np.array_equal(first, second):
        return 0.0
    if first.shape != second.shape or first.dtype.kind != "f" or second.dtype.kind != "f":
        return np.inf
    finite = np.isfinite(first)
    if not np.array_equal(first[~finite], second[~finite], equal_nan=True):
        return np.inf
    return float(np.max(np.abs(first - second)[finite] / (1 + np.abs(second[finite]))))


def run_python(code, *arguments, timeout=300):
    """Run a script in a process of its own."""
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code, *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        check=False,
        timeout=timeout,
    )


# --- what an attacker does: any change, with the right checksums ---


def parts_of(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_parts(path, parts, **options):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", **options) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    path.write_bytes(buffer.getvalue())
    return path


def unpacked(path):
    """The document of a file and its arrays."""
    parts = parts_of(path)
    document, content, arrays = json.loads(parts["model.json"]), parts["arrays.bin"], []
    for stored, shape, order, dtype in map(array_layout, document["arrays"]):
        size = stored.itemsize * int(np.prod(shape))
        array = np.frombuffer(content[:size], stored).reshape(shape, order=order)
        arrays.append(array.astype(dtype, order=order))
        content = content[size:]
    return document, arrays


def repacked(path, document, arrays):
    """Write a document and arrays, described as they are."""
    stored = [narrow(array) for array in arrays]
    document["arrays"] = [describe_array(*pair) for pair in zip(stored, arrays, strict=True)]
    content = b"".join(array.tobytes("A") for array in stored)
    return write_parts(path, {"model.json": json.dumps(document), "arrays.bin": content})


def edit(path, change):
    """Change the document and the arrays of a saved model in place."""
    document, arrays = unpacked(path)
    change(document, arrays)
    return repacked(path, document, arrays)


def objects(document, name):
    """The objects of a class, by the end of its name."""
    return [entry for entry in document["objects"] if entry["class"].endswith(f".{name}")]


def column(entry, arrays, name):
    """The array that an attribute refers to."""
    return arrays[entry["state"][name][1]]
