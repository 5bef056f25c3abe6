"""What the partition benchmarks share: the six sets of the paper, and a store of results."""

import time
from collections.abc import Callable

import numpy as np

from _harness import Kept
from vicinal import datasets

SETS = ("isolet", "satimage", "letter", "optdigits", "pendigits", "shuttle")


def load_split(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return training and test part of a set as floating-point features and labels."""
    data = datasets.load_dataset(name)
    return data.X_train.astype(float), data.y_train, data.X_test.astype(float), data.y_test


class Store(Kept):
    """Results of finished cases, each with the wall and processor time that it took."""

    def run(self, key: tuple, case: Callable[[], dict]) -> dict:
        """Return the result of a case that was kept, running it first if there is none."""

        def clocked():
            started, used = time.perf_counter(), time.process_time()
            found = case()
            found["wall"] = time.perf_counter() - started
            found["cpu"] = time.process_time() - used
            return found

        return super().run(key, clocked)
