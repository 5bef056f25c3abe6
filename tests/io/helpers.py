"""Models to save, and files to tamper with."""

import io
import json
import zipfile

import numpy as np
from sklearn.base import is_classifier, is_regressor
from sklearn.datasets import make_classification

from vicinal.io import _model_file

X, LABELS = make_classification(90, 5, n_informative=4, n_redundant=0, random_state=0)
NAMES = np.array(["no", "yes"])[LABELS]
TARGET = X @ [1.0, -2.0, 0.5, 0.0, 1.0] + LABELS

METHODS = ("predict_proba", "decision_function", "predict", "transform", "kneighbors")


def fitted(model):
    y = TARGET if is_regressor(model) else NAMES if is_classifier(model) else LABELS
    return model.fit(X, y)


def answers(model):
    """Everything the model says about the rows."""
    found = []
    for method in METHODS:
        if hasattr(model, method):
            said = getattr(model, method)(X)
            found += list(said) if isinstance(said, tuple) else [said]
    return [np.asarray(part.toarray() if hasattr(part, "toarray") else part) for part in found]


def same(first, second):
    return len(first) == len(second) and all(map(np.array_equal, first, second))


def members_of(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def write_members(path, members, *, digest=True, **options):
    """Write an archive as an attacker would: with the right checksum."""
    members = dict(members)
    if digest:
        stamp = json.loads(members.pop("vicinal.json"))
        stamp["digest"] = _model_file._digest(members)
        members["vicinal.json"] = json.dumps(stamp).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", **options) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    path.write_bytes(buffer.getvalue())
    return path


def edit_schema(path, edit, **options):
    """Change the schema of a saved model and put the checksum right."""
    members = members_of(path)
    schema = json.loads(members["schema.json"])
    schema = edit(schema) or schema
    members["schema.json"] = json.dumps(schema).encode()
    return write_members(path, members, **options)
