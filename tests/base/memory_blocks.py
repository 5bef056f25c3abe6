"""Blocks of rows in this process: the protocol without Dask."""

from dataclasses import replace
from functools import reduce
from operator import add

import numpy as np

from vicinal._base import Blocks, TrainingData


class MemoryBlocks(Blocks):
    """A list of blocks."""

    def __init__(self, parts, n_features, feature_names=None):
        self.parts, self.n_features, self.feature_names = list(parts), n_features, feature_names
        self.n_passes = 0

    @classmethod
    def of(cls, X, y=None, sample_weight=None, *, size):
        """Cut arrays into blocks of so many rows."""
        weight = np.ones(len(X)) if sample_weight is None else sample_weight
        cuts = [slice(start, start + size) for start in range(0, len(X), size)]
        parts = [
            TrainingData(X[c], None if y is None else y[c], sample_weight=weight[c]) for c in cuts
        ]
        return cls(parts, X.shape[1])

    def __len__(self):
        return len(self.parts)

    def located(self, lengths):
        starts = np.cumsum([0, *lengths])[:-1]
        pairs = zip(self.parts, starts, strict=True)
        return self._with([replace(p, start=int(start)) for p, start in pairs])

    def then(self, function, *shared, n_features=None):
        return self._with([function(part, *shared) for part in self.parts], n_features)

    def held(self):
        return self

    def gather(self, function, *shared):
        self.n_passes += 1
        return [function(part, *shared) for part in self.parts]

    def total(self, function, *shared, combine=add):
        return reduce(combine, self.gather(function, *shared))

    def regrouped(self, split, join, groups, *shared):
        pieces = self.gather(split, *shared)
        joined = [join([piece[i] for piece in pieces], *own) for i, own in enumerate(groups)]
        return self._with(joined, 0)

    def _with(self, parts, n_features=None):
        return MemoryBlocks(parts, self.n_features if n_features is None else n_features)
