"""Neighbours among few rows against the compiled search."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from vicinal.neighbors import NeighborSearch
from vicinal.neighbors._engines import SmallEngine


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_few_rows_give_what_many_would(rng, monkeypatch, dtype):
    X = rng.randint(0, 4, size=(80, 3)).astype(dtype)  # many ties
    groups = np.arange(80) // 4

    def ask():
        search = NeighborSearch(algorithm="brute").fit(X)
        near = search.kneighbors(n_neighbors=7, groups=groups)
        within = search.radius_neighbors(X[:9] + dtype(0.25), 1.5)
        return *near, within.indptr, within.indices, within.distances

    few = ask()
    monkeypatch.setattr(SmallEngine, "MAX_ROWS", 0)
    for one, other in zip(few, ask(), strict=True):
        assert one.dtype == other.dtype
        check = assert_array_equal if one.dtype.kind == "i" else assert_allclose
        check(one, other)


def test_many_rows_are_not_few():
    assert SmallEngine.suits(np.empty((300, 20)))
    assert not SmallEngine.suits(np.empty((1000, 2)))
    assert not SmallEngine.suits(np.empty((300, 1000)))
