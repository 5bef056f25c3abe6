"""Damage every array and every number of a model file, checksums made right again.

``python -m tests.io.damage FOLDER FIRST LAST`` loads and asks every damaged form of the models in a
folder and prints a line for each, before it is tried and after: a crash is then known by its name.
"""

import json
import resource
import sys
import warnings
from pathlib import Path

import numpy as np
from tests.io.helpers import answers, repacked, unpacked

from vicinal.io import ModelFileError, load

LARGE = 10**6


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


def outcome(path):
    """Return what comes of loading and asking a model: one word, and the error."""
    try:
        model = load(path)
    except ModelFileError as error:
        return "refused", str(error).partition("': ")[2]
    try:
        said = answers(model)
    except Exception as error:
        # Compiled code that looks at its bounds says no more than this.
        is_beyond = str(error) == "index is out of bounds"
        return "reads beyond" if is_beyond else "raised", f"{type(error).__name__}: {error}"
    numbers = [part for part in said if part.dtype.kind == "f"]
    return "answered" if all(np.isfinite(part).all() for part in numbers) else "not finite", ""


def main(folder, first, last):
    """Try the damages from one number to another, over all files of a folder in order."""
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (2**34, 2**34))
    victim = Path(folder) / f"{first}.victim"
    n = 0
    for path in sorted(Path(folder).glob("*.vicinal")):
        for name, damage in damages(path).items():
            if first <= n < last:
                label = f"{path.stem}: {name}"
                print(json.dumps([n, label]), flush=True)
                document, arrays = unpacked(path)
                damage(document, arrays)
                print(json.dumps([n, *outcome(repacked(victim, document, arrays))]), flush=True)
            n += 1
    print(json.dumps([n]))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
