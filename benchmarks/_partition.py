"""What the partition benchmarks share: the six sets of the paper."""

import numpy as np

from vicinal import datasets

SETS = ("isolet", "satimage", "letter", "optdigits", "pendigits", "shuttle")


def load_split(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return training and test part of a set as floating-point features and labels."""
    data = datasets.load_dataset(name)
    return data.X_train.astype(float), data.y_train, data.X_test.astype(float), data.y_test
