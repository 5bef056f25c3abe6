"""Damage the arrays, numbers and attributes of a model file, checksums made right again.

``python -m tests.io.damage FOLDER WAYS FIRST EVERY`` loads damaged forms of the models in a folder
and predicts with them, and prints a line for each, before it is tried and after: a crash is then
known by its name. `outcomes` goes on after it. The ways are ``damages`` (of arrays and numbers) or
``structures`` (another structure in the position of each attribute of each object).
"""

import json
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
from scipy import sparse
from tests.common.instances import all_instances
from tests.common.processes import module
from tests.io import foreign
from tests.io.helpers import LABELS, NAMES, TARGET, X, fitted, predictions, repacked, unpacked

from vicinal.auto._linear import LinearClassifier, LinearRegressor
from vicinal.ensemble import ObliviousBoostingRegressor
from vicinal.inspection import explain
from vicinal.io import ModelFileError, info, load, save
from vicinal.local import LocalClassifier, LocalRegressor, LoessRegressor
from vicinal.neighbors import NeighborSearch
from vicinal.pretrained import PretrainedNeighborsClassifier, PretrainedNeighborsRegressor
from vicinal.subspace import TruncatedRBFClassifier, TruncatedRBFRegressor
from vicinal.uncertainty import ConformalRegressor

LARGE = 10**6
SECONDS = 120  # for one damage
EXPLAINED = 50  # of so many damages, one is explained and served too
MEGABYTES = 400  # for one damage; the files have less than one


def _changed(array, value):
    array = array.copy()
    array.flat[array.size // 2] = value
    return array


def _one_less(array, axis):
    return np.ascontiguousarray(np.delete(array, -1, axis=axis))


# What may be done to an array, and to which kinds and numbers of axes.
ARRAYS = {
    "shorter": ("*", 1, lambda array: _one_less(array, 0)),
    "narrower": ("*", 2, lambda array: _one_less(array, -1)),
    "empty": ("*", 1, lambda array: array[:0].copy()),
    "flat": ("*", 2, lambda array: array.ravel().copy()),
    "of more axes": ("*", 1, lambda array: array[..., None].copy()),
    "of single floats": ("iuf", 0, lambda array: array.astype(np.float32)),
    "of bytes": ("iuf", 0, lambda array: array.astype(np.int8)),
    "of text": ("iufb", 0, lambda array: array.astype(str)),
    "out of range": ("iuf", 0, lambda array: _changed(array, LARGE if array.itemsize > 2 else 99)),
    "negative": ("if", 1, lambda array: _changed(array, -7)),
    "NaN": ("f", 1, lambda array: _changed(array, np.nan)),
    "infinite": ("f", 1, lambda array: _changed(array, np.inf)),
}
NUMBERS = {"one more": lambda n: n + 1, "nothing": lambda n: 0, "negative": lambda n: -n - 1}


def damages(path):
    """Return functions of the document and arrays by name, one for every way to damage a file.

    Of parts of one class, such as the trees of a forest, the last stands for all.
    """
    return dict(_all_damages(*unpacked(path)))


def _all_damages(document, arrays):
    owners = _owners(document)
    for i, array in enumerate(arrays):
        for name, (kinds, least, change) in ARRAYS.items():
            fits = (kinds == "*" or array.dtype.kind in kinds) and array.ndim >= least
            if fits and array.size:
                yield f"{owners.get(i, i)} {name}", _array_damage(i, change)
    for i, entry in enumerate(document["objects"]):
        for attribute, value in entry["state"].items():
            if type(value) is int:
                for name, change in NUMBERS.items():
                    label = f"{entry['class'].rpartition('.')[2]}.{attribute}={value} {name}"
                    yield label, _number_damage(i, attribute, change(value))


def _owners(document):
    """Return the class and the attribute that hold each array."""
    owners = {}
    for entry in document["objects"]:
        for attribute, value in entry["state"].items():
            pending = [value]
            while pending:
                part = pending.pop()
                if isinstance(part, list) and part[:1] in (["array"], ["number"]):
                    owners[part[1]] = f"{entry['class'].rpartition('.')[2]}.{attribute}"
                elif isinstance(part, list):
                    pending.extend(part)
    return owners


def _array_damage(i, change):
    def damage(document, arrays):
        arrays[i] = change(arrays[i])

    return damage


def _number_damage(i, attribute, value):
    def damage(document, arrays):
        document["objects"][i]["state"][attribute] = value

    return damage


# --- another structure ---


def _array_of(value, arrays):
    is_array = isinstance(value, list) and value[:1] == ["array"]
    return arrays[value[1]] if is_array and arrays[value[1]].size else None


def _scaled(number):
    def change(value, arrays):
        array = _array_of(value, arrays)
        if array is None or array.dtype.kind not in "iuf" or array.ndim == 0:
            return number
        arrays.append(_changed(array, np.clip(number, *_limits(array.dtype))))
        return ["array", len(arrays) - 1]

    return change


def _limits(dtype):
    info = np.iinfo(dtype) if dtype.kind in "iu" else np.finfo(dtype)
    return info.min, info.max


def _as(kind):
    def change(value, arrays):
        array = _array_of(value, arrays)
        cells = [value] if array is None else array.ravel()[:200].tolist()
        cells = [str(x) if isinstance(x, float) and not np.isfinite(x) else x for x in cells]
        cells = [x if isinstance(x, str | int | float | list | None) else str(x) for x in cells]
        return ["cells", [len(cells)], *cells] if kind == "cells" else [kind, *cells]

    return change


def _longer(value, arrays):
    array = _array_of(value, arrays)
    if array is None or array.ndim == 0:
        return [*value, value[-1]] if isinstance(value, list) and value else [value, value]
    arrays.append(np.concatenate([array, array[-1:]]))
    return ["array", len(arrays) - 1]


def _another_type(value, arrays):
    array = _array_of(value, arrays)
    if array is None:
        return ["array", 0]
    arrays.append(array.astype(np.float32 if array.dtype.kind in "iub" else str))
    return ["array", len(arrays) - 1]


STRUCTURES = {
    "a list": _as("list"),
    "a tuple": _as("tuple"),
    "cells": _as("cells"),
    "masked": None,
    "another type": _another_type,
    "longer": _longer,
    "huge": _scaled(10**15),
    "negative": _scaled(-(10**9)),
    "small": _scaled(5),
    "a fraction": lambda value, arrays: 0.5,
    "nothing": lambda value, arrays: None,
    "a text": lambda value, arrays: "x",
    "a flag": lambda value, arrays: True,
    "a dictionary": lambda value, arrays: ["dict", ["n_jobs", 12]],
    "a function": lambda value, arrays: ["function", "numpy.exp"],
    "the first object": lambda value, arrays: ["object", 0],
}


def structures(path):
    """Return functions of the document and arrays by name, for every attribute of every class."""
    return dict(_all_structures(unpacked(path)[0]))


def _all_structures(document):
    for i, entry in enumerate(document["objects"]):
        for attribute in entry["state"]:
            for name, change in STRUCTURES.items():
                label = f"{entry['class'].rpartition('.')[2]}.{attribute} {name}"
                yield (
                    label,
                    _masked(i, attribute) if change is None else _other(i, attribute, change),
                )
            yield f"{entry['class'].rpartition('.')[2]}.{attribute} missing", _missing(i, attribute)


def _other(i, attribute, change):
    def damage(document, arrays):
        state = document["objects"][i]["state"]
        state[attribute] = change(state[attribute], arrays)

    return damage


def _missing(i, attribute):
    def damage(document, arrays):
        del document["objects"][i]["state"][attribute]

    return damage


def _masked(i, attribute):
    """Put a masked array in the position of an attribute; what is masked is out of range."""

    def damage(document, arrays):
        state = document["objects"][i]["state"]
        array = _array_of(state[attribute], arrays)
        data = np.full(3, 10**9) if array is None else array
        arrays += [data, np.ones(data.shape, bool)]
        parts = {"data": ["array", len(arrays) - 2], "mask": ["array", len(arrays) - 1]}
        entry = {"class": "numpy.ma.MaskedArray", "state": parts}
        document["objects"] = [entry, *_shifted(document["objects"])]
        document["model"] = _shifted(document["model"])
        document["objects"][i + 1]["state"][attribute] = ["object", 0]

    return damage


def _shifted(part):
    """Return a part of a document in which every object has the next number."""
    if isinstance(part, dict):
        return {key: _shifted(item) for key, item in part.items()}
    if isinstance(part, list):
        return ["object", part[1] + 1] if part[:1] == ["object"] else [*map(_shifted, part)]
    return part


# --- what comes of it ---


def _serve(model, rows):
    """Send rows to a served model; raise if it fails other than by a refusal."""
    from starlette.testclient import TestClient

    from vicinal.serve import create_app

    client = TestClient(create_app(model))
    body = json.dumps({"rows": np.asarray(rows)[:2].tolist()})
    for route in ("/predict", "/explain", "/metadata"):
        reply = client.post(route, content=body) if route != "/metadata" else client.get(route)
        if reply.status_code == 500:
            raise RuntimeError(reply.text)


def outcome(path, rows=X, explained=False):
    """Return what comes of loading a model and predicting with it: one word, and the error."""
    try:
        info(path)
        model = load(path)
    except ModelFileError as error:
        return "refused", str(error).partition("': ")[2]
    try:
        found = predictions(model, rows)
        if explained:
            explain(model, rows[0]).text()
            _serve(model, rows)
    except Exception as error:
        # The error of compiled code with bounds checks.
        is_beyond = str(error) == "index is out of bounds"
        return "reads beyond" if is_beyond else "raised", f"{type(error).__name__}: {error}"
    numbers = [part for part in found if part.dtype.kind == "f"]
    return "predicted" if all(np.isfinite(part).all() for part in numbers) else "not finite", ""


def _peak_mb(is_start=False):
    """Return the largest resident size of this process since the last start, from Linux."""
    if is_start:
        Path("/proc/self/clear_refs").write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) // 1024


def main(folder, ways, first, every):
    """Try damages from a number on, over all files of a folder in order."""
    warnings.simplefilter("ignore")
    import resource  # POSIX only

    resource.setrlimit(resource.RLIMIT_AS, (2**33, 2**33))
    victim = Path(folder) / f"{first}.victim"
    lines = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # for what a damaged model prints
    n = 0
    for path in sorted(Path(folder).glob("*.vicinal")):
        rows = foreign.rows(path.stem)
        for name, damage in {"damages": damages, "structures": structures}[ways](path).items():
            n += 1
            if n <= first or n % every:
                continue
            print(json.dumps([n, f"{path.stem}: {name}"]), file=lines, flush=True)
            document, arrays = unpacked(path)
            damage(document, arrays)
            repacked(victim, document, arrays)
            before = _peak_mb(is_start=True)
            signal.alarm(SECONDS)  # ends the process
            came = outcome(victim, rows, explained=n // every % EXPLAINED == 0)
            signal.alarm(0)
            grown = _peak_mb() - before
            came = ("large", f"{grown} MB") if grown > MEGABYTES else came
            print(json.dumps([n, *came]), file=lines, flush=True)


# --- the models that are damaged, and all damages of them ---


def models():
    """Return fitted models by name: the common instances without mixtures of them, and variants."""
    instances = {
        f"{type(model).__name__}{i}": fitted(model)
        for i, model in enumerate(all_instances())
        if not type(model).__name__.startswith("Auto")
    }
    return {**instances, **variants()}


def variants():
    """Return models that hold other arrays than the common instances."""
    thin = sparse.csr_matrix(np.where(X > 0, X, 0.0))
    weights, groups = 1.0 + LABELS, np.arange(len(X)) // 3
    return {
        "forest": LocalClassifier(metric="forest", random_state=0).fit(X, NAMES),
        "ranked": LocalRegressor(metric="ranked", random_state=0).fit(X, TARGET),
        "located": LocalRegressor(location_columns=[0, 1], n_neighbors=30).fit(X, TARGET),
        "radius": LocalRegressor(bandwidth=2.0, kernel="gaussian").fit(X, np.c_[TARGET, X]),
        "three": LocalClassifier(loss="log_loss").fit(X, LABELS + (X[:, 0] > 1)),
        "sparse": LocalClassifier(n_neighbors=20, metric="euclidean").fit(thin, NAMES),
        "weighted": LocalRegressor(n_neighbors=30).fit(X, TARGET, weights, groups),
        "loess": LoessRegressor(span=0.8, degree=1, surface="direct").fit(X, TARGET),
        "tree": NeighborSearch(algorithm="tree").fit(X),
        "line": LinearRegressor().fit(X, TARGET),
        "odds": LinearClassifier().fit(X, NAMES),
        "network": PretrainedNeighborsRegressor(1, random_state=0).fit(X, TARGET, weights),
        "votes": PretrainedNeighborsClassifier(1, random_state=0).fit(X, NAMES, weights),
        "rows": TruncatedRBFRegressor(solver="dual").fit(X, TARGET),
        "classes": TruncatedRBFClassifier(solver="dual").fit(X, NAMES),
        "boosted": ObliviousBoostingRegressor(
            20, categorical_features=[1], cv=None, random_state=0
        ).fit(np.c_[X[:, 0], LABELS], TARGET),
        "grouped": ConformalRegressor(LinearRegressor(), cv=3).fit(X, TARGET, groups=groups),
    }


def outcomes(models, folder, bounds=None, ways="damages", every=1):
    """Damage models in every way; return {name of the damage: (outcome, why)}.

    Compiled code looks at every index where ``bounds`` names a folder for it, in which it is
    compiled again. Of all ways, every so-many-th is tried.
    """
    for name, model in models.items():
        save(model, folder / f"{name}.vicinal")
    looks = {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(bounds)} if bounds else {}
    found, first = {}, 0
    while True:
        command = module("io.damage", folder, ways, first, every, **looks)
        lines = subprocess.run(**command, capture_output=True, text=True, check=False)
        rows = [json.loads(line) for line in lines.stdout.splitlines()]
        names = {row[0]: row[1] for row in rows if len(row) == 2}
        found |= {names[row[0]]: (row[1], row[2]) for row in rows if len(row) == 3}
        if lines.returncode == 0:
            return found
        if not names or len(names) * 2 == len(rows):
            raise RuntimeError(lines.stderr)
        first = max(names)
        found[names[first]] = ("crashed", f"exit status {lines.returncode}")


def wrong(found, unlike=()):
    """Return the damages that neither were refused, raised an error, nor gave finite predictions.

    Other outcomes that are allowed may be named.
    """
    allowed = ("refused", "predicted", "raised", *unlike)
    # A scaler of scikit-learn may hold NaN, for an empty column, and so may its predictions.
    missing = ("StandardScaler.mean_ NaN", "StandardScaler.scale_ NaN")
    return {
        name: outcome
        for name, outcome in found.items()
        if outcome[0] not in allowed and not name.endswith(missing)
    }


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], *map(int, sys.argv[3:]))
