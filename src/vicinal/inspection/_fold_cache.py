"""Results of folds on disk, so that a comparison that was stopped can go on."""

import hashlib
import io
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import joblib
import numpy as np

import vicinal
from vicinal._base import write_whole
from vicinal.inspection._folds import FoldResult

_ARRAYS = ("prediction", "classes", "proba", "decision")


class FoldCache:
    """One file per model and fold of a comparison; a file appears whole or not at all.

    ``setup`` is what all its results depend on: rows, targets, folds, encoder, weights, groups. A
    change of the library's sources, or of scikit-learn's version, makes all keys new. The metric is
    not part of the key: answers are stored, and scores are computed from them.
    """

    def __init__(self, folder: str | os.PathLike, *setup: Any):
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self._common = joblib.hash((setup, _library_state()))
        self._models: dict[int, str | None] = {}

    def path(self, model: Any, fold: int) -> Path:
        """Return where the result of a model on a fold is kept."""
        if id(model) not in self._models:
            self._models[id(model)] = joblib.hash(model)
        text = f"{self._common} {self._models[id(model)]} {fold}"
        return self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.npz"

    def read(self, model: Any, fold: int) -> FoldResult | None:
        """Return what was stored; nothing, or a file that cannot be read, is ``None``."""
        try:
            content = io.BytesIO(self.path(model, fold).read_bytes())
            with np.load(content, allow_pickle=False) as stored:
                found: Any = (stored[name] if name in stored else None for name in _ARRAYS)
                prediction, classes, proba, decision = found
                fit_seconds, predict_seconds = map(float, stored["seconds"])
        except (OSError, ValueError, KeyError, EOFError, BadZipFile):
            return None
        return FoldResult(prediction, classes, proba, decision, fit_seconds, predict_seconds)

    def write(self, model: Any, fold: int, result: FoldResult) -> None:
        """Keep a finished fold, unless its labels are Python objects other than text."""
        arrays = {name: getattr(result, name) for name in _ARRAYS}
        arrays = {name: _plain(value) for name, value in arrays.items() if value is not None}
        if any(value.dtype.hasobject for value in arrays.values()):
            return
        buffer = io.BytesIO()
        np.savez_compressed(buffer, seconds=[result.fit_seconds, result.predict_seconds], **arrays)
        write_whole(self.path(model, fold), buffer.getvalue())


def _plain(values: Any) -> np.ndarray:
    """Turn an object array of texts into an array of fixed-width texts, which needs no pickle."""
    values = np.asarray(values)
    if values.dtype.hasobject and all(isinstance(value, str) for value in values.ravel()):
        return values.astype(str)
    return values


def _library_state() -> tuple:
    """Return what identifies the code: versions, and size and time of every source file."""
    root = Path(vicinal.__path__[0])
    sources = sorted(root.rglob("*.py"))
    stats = [(str(path.relative_to(root)), path.stat()) for path in sources]
    files = [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]
    return vicinal.__version__, version("scikit-learn"), np.__version__, files
