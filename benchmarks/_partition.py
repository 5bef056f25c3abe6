"""What the partition benchmarks share: the six sets of the paper, and a store of results."""

import fcntl
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from vicinal import datasets

SETS = ("isolet", "satimage", "letter", "optdigits", "pendigits", "shuttle")
_CACHE = Path(__file__).resolve().parent / ".cache"


def load_split(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return training and test part of a set as floating-point features and labels."""
    data = datasets.load_dataset(name)
    return data.X_train.astype(float), data.y_train, data.X_test.astype(float), data.y_test


class Store:
    """Results of finished cases in a JSON file, so that an interrupted run goes on where it was."""

    def __init__(self, name: str) -> None:
        _CACHE.mkdir(exist_ok=True)
        self.path = _CACHE / f"{name}.json"

    def _read(self) -> dict:
        return json.loads(self.path.read_text()) if self.path.exists() else {}

    def get(self, *key):
        """Return the result of a case, ``None`` if it was not run."""
        return self._read().get(" / ".join(map(str, key)))

    def run(self, key: tuple, case: Callable[[], dict]) -> dict:
        """Return the stored result of a case, running it first if there is none."""
        found = self.get(*key)
        if found is None:
            started, used = time.perf_counter(), time.process_time()
            found = case()
            found["wall"] = time.perf_counter() - started
            found["cpu"] = time.process_time() - used
            with open(self.path.with_suffix(".lock"), "w") as lock:
                # Another process may be adding cases of other sets.
                fcntl.flock(lock, fcntl.LOCK_EX)
                results = self._read()
                results[" / ".join(map(str, key))] = found
                draft = self.path.with_suffix(".tmp")
                draft.write_text(json.dumps(results, indent=1))
                draft.replace(self.path)
            print(*key, f"{found['wall']:.1f} s", flush=True)
        return found
